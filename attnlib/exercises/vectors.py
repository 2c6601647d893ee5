"""The exercises of lesson 02: each judge takes an answer and returns a verdict."""

import numpy as np

from attnlib.core.softmaxes import softmax
from attnlib.exercises.answers import as_floats, in_quotes, numbers, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, unanswered, unreadable, wrong

# ------------------------------------------------------------- a vector for a new word

# electricity, learning, toy, grammar; the row None is the new word's place
GRAMMAR, POLE, HUMS = (0, 0, 0, 1), (3, 0, 0, 0), (2, 0, 0, 0)
TRAINED, TEXT = (0, 2, 0, 0), (0, 3, 0, 0)
SENTENCES = (
    (GRAMMAR, None, GRAMMAR, GRAMMAR, POLE, HUMS),
    (GRAMMAR, TRAINED, GRAMMAR, None, GRAMMAR, GRAMMAR, TEXT),
)
COMPANY = 0.3          # the least weight that the others must have
LEAD, EVEN = 0.5, 0.2  # one sense leads by this much; neither leads by more than this


def one_sense(vector):
    """A vector that comes out electrical in both sentences, though it listens."""
    vector, complaint = _word(vector)
    if complaint:
        return complaint
    told, shares, leads = _in_both(vector)
    if min(shares) < COMPANY:
        return _deaf(told, shares)
    if min(leads) >= LEAD:
        return right(
            told + "The word brings its electricity along into the second sentence, where nobody else has "
            "any, and what its company says there is too quiet to outweigh it. Context moves a vector; how "
            "far, the vector has a say in."
        )
    if not vector.any():
        return _zero(told)
    if max(leads) <= -LEAD:
        return wrong(told + "That is the other sense, in both. Electricity is the first number.",
                     "other_sense")
    if vector[0] <= 0:
        return wrong(
            told + "Nobody in the second sentence has any electricity, so the word has to bring it along.",
            "brings_none")
    if leads[0] < LEAD:
        return wrong(told + "Already in the first sentence electricity does not lead by enough. Does the "
                     "word listen to pole and hums there, and what does it bring itself?")
    if vector[1] > 0:
        return wrong(
            told + "In the second sentence learning gets in the way: your word has some itself, and through "
            "it it also scores with trained and text and hears them.", "hears_learning")
    return wrong(told + "In the second sentence electricity does not lead by enough. How much does the word "
                 "bring, and how much of it does it keep?", "too_little")


def no_sense(vector):
    """A vector that comes out neutral in both sentences, though it listens."""
    vector, complaint = _word(vector)
    if complaint:
        return complaint
    told, shares, leads = _in_both(vector)
    if min(shares) < COMPANY:
        return _deaf(told, shares)
    if max(map(abs, leads)) <= EVEN:
        how = (
            "Its scores with pole, hums, trained and text are negative: it looks away from them, and what is "
            "left to hear is grammar."
            if vector[0] < 0 and vector[1] < 0
            else "Grammar holds so much of its weight that little of pole, hums, trained and text comes "
            "through."
        )
        return right(told + how + " A score of 0 would not have done it: 0 is an ordinary score.")
    if not vector.any():
        return _zero(told)
    if leads[0] > EVEN and leads[1] < -EVEN:
        return wrong(
            told + "It goes with its company, to one sense here and to the other there. Its scores with "
            "pole, hums, trained and text are too high; 0 is not low.", "follows_company")
    return wrong(told + "One sense leads, in one sentence or in both. Which of its neighbours does the word "
                 "hear, and what does it bring itself?")


def _word(vector):
    vector, complaint = numbers(vector, (4,), "your vector")
    if complaint:
        return None, complaint
    if np.abs(vector).max() > 5:
        return None, wrong("Keep all four numbers between -5 and 5.", "too_large")
    return vector, None


def _in_both(vector):
    """What came of the vector, in words; for each sentence the others' weight, and its lead."""
    told, shares, leads = [], [], []
    for which, sentence in zip(("first", "second"), SENTENCES, strict=True):
        at = sentence.index(None)
        x = np.array([vector if row is None else row for row in sentence], float)
        weights = softmax(x @ vector)
        new = weights @ x
        shares.append(float(1 - weights[at]))
        leads.append(float(new[0] - new[1]))
        told.append(f"In the {which} sentence: electricity {new[0]:.2f}, learning {new[1]:.2f}, weight of "
                    f"the others {shares[-1]:.2f}.")
    return " ".join(told) + " ", shares, leads


def _deaf(told, shares):
    return wrong(
        told + f"The others must have {COMPANY} or more in both; here one sentence gives them "
        f"{min(shares):.2f}. So long a vector scores highest with itself and hardly listens.", "deaf")


def _zero(told):
    return wrong(
        told + "A vector of zeros scores 0 with everybody, so it weighs all alike, and goes with its "
        "company.", "zero")


# ------------------------------------------------------------- rows as they are printed

PRINTED = {
    "A": ("0.2", "0.1", "0.5", "0.3"),
    "B": ("0.7", "0.5", "-0.2"),
    "C": ("0.20", "0.10", "0.50", "0.30"),
    "D": ("1.00", "0.00", "0.00"),
    "E": ("0.18", "0.18", "0.18", "0.18", "0.18", "0.09"),
    "F": ("0.4", "0.4", "0.4"),
}


def printed_rows(answer):
    """The letters of the printed rows that can be a softmax, rounded."""
    chosen = _letters(answer)
    if chosen is None:
        return unreadable(f'Give letters from A to F in quotes, such as "BF"; got {short(answer)}.')
    if chosen == {"A", "D", "E"}:
        return right(
            "Each printed number is off by up to half a unit of its last digit, and the sum of n of them by "
            "n times that. A and E lie within it: they are 2, 1, 5, 3 and 2, 2, 2, 2, 2, 1 elevenths. D has "
            "two weights too small to be seen. C and F are further from 1 than rounding can take them, and "
            "no share is negative, as in B."
        )
    if chosen == {"B", "C", "F"}:
        return wrong("Those are the three that cannot be. Which can?", "the_others")
    if not chosen:
        return wrong("Some of them can. A printed number is not the number itself.", "none")
    if chosen <= {"B", "D"}:
        return wrong(
            "You let pass what adds up to exactly 1 as it is printed. Rounding may take a sum of 1 to "
            "something else"
            + (", and a sum of 1 is not all that a softmax promises." if "B" in chosen else "."),
            "exact_sums")
    if "B" in chosen:
        return wrong(
            "B does add up to 1. But a weight is an exponential divided by a sum of exponentials. Can it "
            "have any sign?", "negative")
    if {"C", "F"} <= chosen:
        return wrong("You let pass whatever is not negative. How far from 1 can rounding take the sum of a "
                     "row?", "any_sum")
    if "C" in chosen:
        return wrong(
            "C has the numbers of A, but two decimals of each were printed. How far off can one of them "
            "still be, and all four?", "same_as_a")
    if "F" in chosen:
        return wrong("F is further off than it looks: three numbers have less room than four. What is the "
                     "least that prints as 0.4, and three times that?", "three_have_less_room")
    if "D" not in chosen:
        return wrong("A softmax gives no weight of exactly 0. What does a weight of a thousandth look like "
                     "in D?", "zero_as_printed")
    if "A" not in chosen:
        return wrong("A adds up to 1.1. Is that more than four numbers of one decimal can be off? Divide "
                     "each by their sum, and round.", "one_decimal")
    return wrong("E adds up to 0.99. Is that more than six numbers of two decimals can be off?",
                 "two_decimals")


def _letters(answer):
    """The capital letters of PRINTED that an answer names, or None where it holds anything else."""
    if isinstance(answer, str):
        parts = answer.replace(",", " ").replace("and", " ").upper().replace(" ", "")
    elif isinstance(answer, (tuple, list, set, frozenset)) and all(isinstance(a, str) for a in answer):
        parts = [part.strip().upper() for part in answer]
    else:
        return None
    return set(parts) if set(parts) <= set(PRINTED) else None


# ------------------------------------------------------------- two words change places


def exchanged(answer):
    """Rows that change, words that get another vector, rows that change for two equal words."""
    found, complaint = numbers(answer, (3,), "your answer")
    if complaint:
        if isinstance(answer, (tuple, list)) and any(part is ... for part in answer):
            return unanswered("Put a number in place of each of the three dots and run the cell again.")
        return complaint
    rows, words, equal = (float(n) for n in found)
    if any(n != round(n) or not 0 <= n <= 6 for n in (rows, words, equal)):
        return wrong("Each is a whole number from 0 to 6.")
    if words == 6 or rows == 6:
        return wrong(
            "Not all six. A word's weights go with the words and not with their places: its sum has the same "
            "terms in another order.", "everything_changes")
    if words:
        return wrong(
            f"You say that {words:.0f} words get another vector. Write down the sum for one of them before "
            "and after: which term is new?", "words_change")
    if rows == 0:
        return wrong(
            "The rows do change: the second row held the vector of transformer and now holds that of pole. "
            "It is the words that keep theirs.", "rows_stay")
    if rows != 2:
        return wrong(f"Not {rows:.0f} rows. Which places hold another word than before?", "rows")
    if equal == 2:
        return wrong(
            "The two first are right. But the two words the are the same row of the table: exchange them, "
            "and the input is what it was.", "equal_words")
    if equal:
        return wrong("The two first are right. What does the input look like after the two the have changed "
                     "places?",
                     "equal_words")
    return right(
        "The rows of the two places change hands, every word keeps its vector, and two equal words cannot be "
        "told apart at all: neither by us nor by attention. The place, which tells them apart, comes in "
        "lesson 10."
    )


# ------------------------------------------------------------- superposition


def superposition_fails(answer):
    """X and Z, (3, 2) each, with rebuild(X + Z) far from rebuild(X) + rebuild(Z)."""
    pair, complaint = _two(answer)
    if complaint:
        return complaint
    gap = _gap(*pair)
    if gap >= 1:
        return right(
            f"The two sides differ by {gap:.2f} at one place. The sum of two sentences has weights that "
            "neither had: its scores also hold X with Z."
        )
    if pair[0].any() and np.abs(pair[0] + pair[1]).max() < 1e-9:
        return wrong("X and Z cancel in every word, and so do their new vectors: both sides are 0. What if "
                     "they cancel in one word only?", "cancels")
    if gap < 1e-9:
        return wrong("The two sides are equal here. When do the scores of X + Z differ from those of X by "
                     "more than a constant in each row?", "holds")
    return wrong(f"The two sides differ by {gap:.2f} at most. They part further where the numbers are "
                 "larger, or where X and Z disagree about who is like whom.", "too_small")


def superposition_holds(answer):
    """X and Z, neither trivial, with rebuild(X + Z) equal to rebuild(X) + rebuild(Z)."""
    pair, complaint = _two(answer)
    if complaint:
        return complaint
    x, z = pair
    if np.abs(x).max() < 0.1:
        return wrong("X is zero, or nearly. Some number of it must be 0.1 or more in size.", "zero")
    if any(np.abs(z[i] - z[j]).max() < 0.1 for i, j in ((0, 1), (0, 2), (1, 2))):
        return wrong(
            "Let the three rows of Z differ from each other, each two by 0.1 or more in some number. With "
            "equal rows every weighting gives the same mean, and the question is settled before it is put.",
                 "equal_rows")
    gap = _gap(x, z)
    if gap < 1e-6:
        return right(
            "The two sides agree to six decimals. X adds the same to all scores of a row, so the softmax "
            "does not see it, and the weights of X + Z are those of Z; and X itself is the same mean under "
            "any weights. With the weights in peace, the sum is linear."
        )
    equal = np.ptp(x, axis=0).max() < 1e-9
    crossed = np.abs(z @ x.T).max()
    if equal and crossed > 1e-6:
        return wrong(
            f"They differ by {gap:.2g}. Equal rows in X are a good beginning. But a row of Z scores up to "
            f"{crossed:.2g} with a row of X, and that changes the weights. When is it 0, or the same for "
            "all?", "not_at_right_angles")
    if not equal and np.abs(x @ z.T).max() < 1e-9:
        return wrong(
            f"They differ by {gap:.2g}. X and Z are at right angles, so no score holds both. But the scores "
            "of X + Z are then the sum of two sets of scores, and the weights are those of neither. What if "
            "X has the same scores everywhere?", "right_angles_only")
    if np.allclose(x, z) or np.abs(x[:, :1] * z[:, 1:] - x[:, 1:] * z[:, :1]).max() < 1e-9 and not equal:
        return wrong(
            f"They differ by {gap:.2g}. Every row of X points along the same row of Z, or against it; longer "
            "vectors have sharper weights.", "same_direction")
    return wrong(f"They differ by {gap:.2g}. What must X do to the scores of Z so that no weight changes?")


def _rebuild(x):
    return softmax(x @ x.T) @ x


def _gap(x, z):
    return float(np.abs(_rebuild(x + z) - _rebuild(x) - _rebuild(z)).max())


def _two(answer):
    """X and Z and None, or None and what is wrong with them."""
    if isinstance(answer, np.ndarray) and answer.shape == (2, 3, 2):
        answer = [*answer]
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        return None, wrong(f"Give two arrays, (X, Z); got {short(answer)}.")
    if any(part is ... for part in answer):
        return None, unanswered("Put your answer in place of the three dots and run the cell again.")
    given = []
    for name, part in zip("XZ", answer, strict=True):
        table = as_floats(part)
        if table is None or table.shape != (3, 2):
            got = short(part) if table is None else f"shape {table.shape}"
            quotes = ", without quotes" if in_quotes(part) else ""
            return None, wrong(f"Let {name} be three words of two numbers each{quotes}; got {got}.")
        if not np.isfinite(table).all() or np.abs(table).max() > 3:
            return None, wrong(f"Keep the numbers of {name} between -3 and 3.", "too_large")
        given.append(table)
    return given, None


# ------------------------------------------------------------- how many layers


def layers_to_reach(answer):
    """Layers of causal convolutions of four words that bring word 1 of 1000 to the last: (plain, dilated)."""
    found, complaint = numbers(answer, (2,), "your answer")
    if complaint:
        if isinstance(answer, (tuple, list)) and any(part is ... for part in answer):
            return unanswered("Put a number in place of each of the dots and run the cell again.")
        return complaint
    plain, dilated = (float(n) for n in found)
    if (plain, dilated) == (5, 333):
        return wrong("The other way round: first the plain ones, then the dilated ones.", "swapped")
    for value, name, hint in (
        (250, "kernel_counts_itself", "1000/4: but a kernel of four words holds the word itself, so a layer "
         "goes three words back."),
        (249, "kernel_counts_itself", "996/4: but a kernel of four words holds the word itself, so a layer "
         "goes three words back."),
        (249.75, "kernel_counts_itself", "999/4: but a kernel of four words holds the word itself, so a "
         "layer goes three words back."),
        (334, "one_too_many", "From word 1 to word 1000 it is 999 words, not 1000: count the gaps, not the "
        "posts."),
        (332, "one_too_few", "332 layers go 996 words back. From word 1000 to word 1 it is 999."),
        (1000, "one_word_a_layer", "That is one word a layer, as in a recurrent net. A kernel of four "
         "reaches three words back."),
        (999, "one_word_a_layer", "That is one word a layer, as in a recurrent net. A kernel of four reaches "
         "three words back."),
        (499.5, "kernel_of_three", "999/2 fits a kernel of three words, as in the lesson. This one holds "
         "four."),
        (500, "kernel_of_three", "999/2, rounded up, fits a kernel of three words, as in the lesson. This "
         "one holds four."),
        (1, "attention", "One layer is what attention needs."),
    ):
        if plain == value:
            return wrong(f"The first number. {hint}", name)
    if plain != 333:
        return wrong("The first number. How many words back does a layer go, and how far is it from word "
                     "1000 to word 1?")
    for values, name, hint in (
        ((4,), "rounded_down", "Four layers see 4 to the power 4, 256 words, which is not enough."),
        ((3,), "rounded_down", "Three layers see 4 to the power 3, 64 words, which is not enough."),
        ((10,), "base_two", "That is the logarithm to base 2. With four words in a kernel the reach grows "
        "fourfold."),
        ((7,), "base_three", "That is the logarithm to base 3. A layer goes three words back, but the reach, "
         "the word itself counted, grows fourfold."),
        ((6,), "one_too_many", "Five are enough. What do five layers see, the word itself counted?"),
        ((333,), "same", "The gaps between the words of a kernel grow from layer to layer. So does the "
        "step."),
    ):
        if dilated in values:
            return wrong(f"The first is right. {hint}", name)
    if dilated != round(dilated):
        return wrong("The first is right. The second must be a whole number of layers.", "not_whole")
    if dilated != 5:
        return wrong("The first is right. How many words do one, two, three dilated layers see?")
    return right(
        "999 words in steps of 3 are 333 layers; dilated, the reach grows fourfold, and 4 to the power 5 is "
        "1024. The 2017 paper has both in its section 4. Attention needs one layer, and pays by comparing "
        "every pair."
    )


# ------------------------------------------------------------- rebuild


def _rebuilt(
    x, *, scale="none", over="keys", weights="softmax", own="kept", loses="nothing",
         top="row", averages="words",
    returns="output", extra="nothing", angle=False, compares="words",
):  # fmt: skip
    """`rebuild`, or a wrong way of computing it."""
    x = np.asarray(x, float)
    lengths = np.linalg.norm(x, axis=-1, keepdims=True)
    ways = x / np.where(lengths == 0, 1, lengths) if angle else x
    scores = ways.T @ ways if compares == "numbers" else ways @ ways.T
    scores = scores * {"none": 1.0, "root": x.shape[-1] ** -0.5, "width": x.shape[-1] ** -1.0}[scale]
    if own == "zeroed":
        scores = np.where(np.eye(len(x), dtype=bool), 0.0, scores)
    if own == "left_out":
        scores = np.where(np.eye(len(x), dtype=bool), -np.inf if len(x) > 1 else 0.0, scores)
    if own == "causal":
        scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
    axis = {"keys": -1, "queries": 0, "all": None}[over]
    if weights == "softmax":
        largest = scores.max(axis, keepdims=loses not in ("the largest", "both"))
        e = np.exp(scores - {"row": largest, "all": scores.max(), "nothing": 0.0}[top])
        w = e / e.sum(axis, keepdims=loses not in ("the sum", "both"))
    elif weights == "exponentials":
        w = np.exp(scores)
    elif weights == "hard":
        w = np.eye(len(x))[scores.argmax(-1)]
    else:
        w = scores if weights == "scores" else scores / scores.sum(-1, keepdims=True)
    if own == "dropped":
        w = w * (1 - np.eye(len(x)))
    if averages == "mean":
        w = np.ones_like(w) / len(x)
    out = x @ w if compares == "numbers" else w @ x
    out = out + {"nothing": 0.0, "itself": x}[extra]
    return {"output": out, "weights": w, "scores": scores, "transposed": out.T}[returns]


def _rebuild_cases():
    rng = np.random.default_rng(2)
    table = np.array([GRAMMAR, (1, 1, 1, 0), GRAMMAR, GRAMMAR, POLE, HUMS], float)
    return [
        Case("the transformer on the pole hums", (table,)),
        Case("five words of three numbers", (rng.normal(size=(5, 3)),)),
        Case("three words of six numbers", (rng.normal(size=(3, 6)),)),
        Case("as many words as numbers", (rng.normal(size=(4, 4)),)),
        Case("a single word", (rng.normal(size=(1, 3)),), hint="It has itself for company."),
        Case("words of a single number", (rng.normal(size=(4, 1)),)),
        Case("whole numbers", (rng.integers(-2, 3, size=(4, 3)),)),
        Case("a word of zeros among others", (np.array([[0.0, 0], [1, 2], [3, -1]]),),
             hint="Its scores are 0, and it weighs all alike."),
        Case("scores of several thousand", (60 * rng.normal(size=(4, 3)),),
             hint="The exponential of a large score is infinite. What may be subtracted from a row of "
             "scores?"),
    ]


rebuild = FunctionExercise(
    _rebuilt,
    _rebuild_cases,
    (
        Mistake("wrong_way_round", "Your weights sum to 1 down the columns: the softmax ran over the wrong "
                "axis, its sum lost its axis (keepdims), or the weights were transposed. The scores are the "
                "same from both sides, so all three come to the same.",
                     {"over": "queries"}),
        Mistake("wrong_axis", "Your softmax runs over all pairs at once. Every word has a sum of its own.",
                {"over": "all"}),
        Mistake("loses_its_axis", "The sum of each row loses its axis, and the division is by the sums of "
                "other rows. Keep the axis (keepdims).", {"loses": "the sum"}),
        Mistake("loses_its_axis", "The largest score of each row loses its axis, and you subtract those of "
                "other rows. Keep the axis (keepdims).", {"loses": "the largest"}),
        Mistake("loses_its_axis", "The largest score and the sum of each row lose their axis, and each row "
                "works with those of other rows. Keep the axis (keepdims).", {"loses": "both"}),
        Mistake("compares_numbers", "You compare the numbers of the vectors with each other, over all words, "
                "and mix those. Compare words: a score for each pair of rows of x.",
                {"compares": "numbers"}, rare=True),
        Mistake("compares_numbers", "You compare the numbers of the vectors with each other, over all words, "
                "and mix those. Compare words: a score for each pair of rows of x.",
                {"compares": "numbers", "over": "queries"}, rare=True),
        Mistake("scores_as_weights", "You use the scores as weights. Make them positive and let each row sum "
                "to 1 first.", {"weights": "scores"}),
        Mistake("no_exponential", "You divide the scores by their sum. Scores may be negative or 0; take "
                "exponentials first.", {"weights": "shares"}),
        Mistake("not_normalised", "Your weights are the exponentials themselves. Divide each row by its sum.",
                {"weights": "exponentials"}),
        Mistake("hard", "You take the best match alone. Average all words, each by its weight.",
                {"weights": "hard"}),
        Mistake("own_row_left_out", "You leave the word itself out. It is a key like the others and takes "
                "part in its own mean.", {"own": "left_out"}),
        Mistake("own_row_left_out", "You set each word's score with itself to 0. Leave it as it is: the word "
                "is a key like the others and takes part in its own mean.", {"own": "zeroed"}),
        Mistake("own_row_left_out", "You drop the word's own weight after the softmax, so the rest no longer "
                "sums to 1. The word itself takes part.", {"own": "dropped"}),
        Mistake("causal", "You hide the words that come after. All words of the sentence take part.",
                {"own": "causal"}),
        Mistake("plain_mean", "Every row of yours is the plain mean of the sentence. Each word has weights "
                "of its own.", {"averages": "mean"}),
        Mistake("scaled", "You scale the scores by the root of the width, as attention usually does. Here "
                "they are the bare dot products.", {"scale": "root"}, convention=True),
        Mistake("scaled_by_width", "You divide the scores by the width. Here they are the bare dot products.",
                {"scale": "width"}),
        Mistake("cosines", "You bring the words to length 1 before you compare them. Here a score is the "
                "bare dot product, and a long word counts for more.", {"angle": True}),
        Mistake("adds_the_word", "You add the old vector. That is what a whole model does; here the mean "
                "replaces it.", {"extra": "itself"}, convention=True),
        Mistake("returns_weights", "You return the weights. Take the mean of the words with them.",
                {"returns": "weights"}),
        Mistake("returns_scores", "You return the scores. The softmax and the mean are still to come.",
                {"returns": "scores"}),
        Mistake("transposed", "Your result is transposed. It has a row for each word, as x has.",
                {"returns": "transposed"}),
        Mistake("one_largest_for_all", "You subtract the largest of all scores. Where a row lies far below "
                "it, all its exponentials are 0, and 0/0 is NaN. Subtract from each row its own largest.",
                {"top": "all"}, rare=True),
        Mistake("overflow", "The exponential of a large score is infinite, and inf/inf is NaN. Subtract the "
                "largest score of the row first: it cancels in the quotient.", {"top": "nothing"}),
    ),  # fmt: skip
    "Checked on the sentence of the lesson, on other shapes, on a single word, on a word of zeros, on whole "
    "numbers and on scores of several thousand. It is a whole attention; what it still lacks are the "
    "matrices of lesson 03.",
)  # fmt: skip

EXERCISES = (
    Exercise(
        "one_sense", "02", one_sense,
        (
            "Nobody in the second sentence has electricity. Where must it come from?",
            "A long vector hears nobody, for its score with itself is the square of its length. Stay below "
            "2.",
            "Leave learning at 0: then trained and text score 0 and count no more than a comma.",
        ),
        "answer = [1.5, 0, 0, 0]",
        "construction",
    ),
    Exercise(
        "no_sense", "02", no_sense,
        (
            "A vector of zeros does not do it: with a score of 0, pole still has a sixth of the weight.",
            "Which scores are below 0? Or whom else could the word listen to?",
            "Let both electricity and learning be negative, alike, and about as large as those of "
            "transformer.",
        ),
        "answer = [-1, -1, 0, 0]    # or it listens to grammar alone: [0, 0, 0, 1.6]",
        "construction",
    ),
    Exercise(
        "printed_rows", "02", printed_rows,
        (
            "What prints as 0.2 lies between 0.15 and 0.25; what prints as 0.20, between 0.195 and 0.205.",
            "Add up the least that the numbers of a row can be, and the most. Does 1 lie between? And is "
            "every one of them a share?",
            "Four numbers of one decimal have a room of 0.2, three have 0.15; four numbers of two decimals "
            "have 0.02, six have 0.03.",
        ),
        'answer = "ADE"    # sums 1.1, 1 and 0.99, within 0.2, 0.015 and 0.03; C and F are too far off',
        "prediction",
    ),
    Exercise(
        "exchanged", "02", exchanged,
        (
            "Rows are places, words are words. Ask for each place which word it now holds.",
            "A word's new vector is a sum over all words. Does a sum change when its terms change places?",
        ),
        "answer = (2, 0, 0)    # two places hold another word; every word keeps its vector; two equal rows",
        "prediction",
    ),
    Exercise(
        "superposition_fails", "02", superposition_fails,
        (
            "Take X and Z in which different words are alike. What are the scores of their sum?",
            "Let X and Z cancel in one word. Its row of X + Z is zero and weighs all alike; in X and in Z it "
            "did not.",
        ),
        """
import numpy as np

x = np.array([[3, 0], [0, 3], [0, 0]])
z = np.array([[3, 0], [0, -3], [0, 0]])            # the second words cancel
answer = (x, z)
""",
        "construction",
    ),
    Exercise(
        "superposition_holds", "02", superposition_holds,
        (
            "With fixed weights the sum is linear. So let the weights of X + Z be those of Z.",
            "The softmax does not see a number that is added to all scores of a row. Which X adds nothing "
            "else?",
            "Give X three equal rows. Then a score of X + Z is a constant, plus the score of Z, plus X's row "
            "with rows of Z: let those be 0.",
        ),
        """
import numpy as np

x = np.array([[1, 0], [1, 0], [1, 0]])             # the same everywhere,
z = np.array([[0, 1], [0, 2], [0, -1]])            # at right angles to it
answer = (x, z)
""",
        "construction",
    ),
    Exercise(
        "layers_to_reach", "02", layers_to_reach,
        (
            "A kernel of four words holds the word itself and three before it. From word 1000 to word 1 it "
            "is 999 words.",
            "Dilated: one layer sees 4 words, two see 16. When does it see 1000?",
        ),
        "answer = (333, 5)    # 999 / 3, and 4**5 = 1024",
        "prediction",
    ),
    Exercise(
        "rebuild", "02", rebuild,
        (
            "Three lines: scores, weights, mean. The scores are all dot products of two words at once.",
            "A softmax of each row: exponentials, divided by their sum along the last axis. Keep that axis, "
            "so that the shapes fit.",
            "Before the exponential, subtract the largest score of each row.",
        ),
        """
import numpy as np


def rebuild(x):
    scores = x @ x.T                                       # (L, L)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ x                # (L, d)
""",
        "function",
    ),
)
