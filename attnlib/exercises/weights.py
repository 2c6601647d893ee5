"""The exercises of lesson 03: each judge takes an answer and returns a verdict."""

import numpy as np

from attnlib.core.scaled_dot_product import attention_weights
from attnlib.datasets import running_example
from attnlib.exercises.answers import as_floats, in_quotes, numbers, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, unanswered, wrong

# ------------------------------------------------------------- vectors without matrices

MARGIN = 0.1


def bare_chain(vectors):
    """Three vectors whose dot products lead from A to B and from B to C."""
    vectors, complaint = numbers(vectors, (3, 2), "your three vectors")
    if complaint:
        return complaint
    if np.abs(vectors).max() > 100:
        return wrong("Keep all numbers between -100 and 100.")
    s = vectors @ vectors.T
    told = f"A scores {_row(s[0])}; B scores {_row(s[1])}. "
    gaps = s[0, 1] - s[0, [0, 2]], s[1, 2] - s[1, [0, 1]]
    if min(*gaps[0], *gaps[1]) >= MARGIN - 1e-9:
        return right(
            told + "A prefers B and B prefers C, with symmetric scores and no matrix at all. Each vector is "
            "longer than the one before and turned away from it. C, the longest, prefers itself: no other "
            "shadow is as long as C."
        )
    lengths = np.linalg.norm(vectors, axis=-1)
    if not vectors.any(-1).all():
        return wrong(told + "A vector of zeros scores 0 with everybody. Give all three a direction.", "zero")
    if np.ptp(lengths) < 1e-6 * lengths.max():
        return wrong(
            told + "All three are equally long, and then each prefers itself: no shadow is longer than the "
            "vector that throws it.", "equal_lengths")
    if min(*gaps[0], *gaps[1]) > 0:
        return wrong(told + f"The right ones lead, but by less than {MARGIN}. Make the vectors longer.",
                     "too_close")
    if _leads(s[::-1, ::-1]):
        return wrong(told + "Your chain runs the other way, from C to B to A.", "other_way")
    if s[0].argmax() == s[1].argmax() == 2:
        line = np.abs(_turns(vectors)).max() < 1e-6 * lengths.max() ** 2
        reason = ("In one line everybody's favourite is the longest one"
                  if line else "C is so long that its shadow is the longest for A as well")
        return wrong(told + f"{reason}. Turn C further away from A.", "all_prefer_the_longest")
    who = next(i for i, gap in enumerate(gaps) if gap.min() < MARGIN)
    name, wanted, favourite = "AB"[who], "BC"[who], "ABC"[s[who].argmax()]
    if s[who].max() - s[who, who + 1] < MARGIN:
        return wrong(told + f"{name} has two favourites, or nearly. The lead must be {MARGIN} or more.",
                     "too_close")
    if favourite == name:
        return wrong(
            told + f"{name} prefers itself. The shadow of {wanted} on the direction of {name} must be longer "
            f"than {name}.", "prefers_itself")
    return wrong(told + f"{name} prefers {favourite}. Whose shadow on the line of {name} is the longest?")


def _row(scores):
    return ", ".join(f"{name} {score:.4g}" for name, score in zip("ABC", scores, strict=True))


def _leads(s):
    return s[0, 1] > max(s[0, 0], s[0, 2]) and s[1, 2] > max(s[1, 0], s[1, 1])


def _turns(v):
    """The areas between two and two vectors; 0 where they lie in one line."""
    return np.array([v[i, 0] * v[j, 1] - v[i, 1] * v[j, 0] for i, j in ((0, 1), (1, 2), (0, 2))])


# ------------------------------------------------------------- one matrix for both


def one_matrix_bound(largest):
    """The largest score of two words with self-scores 4 and 9 under one matrix."""
    largest, complaint = numbers(largest, (), "your answer")
    if complaint:
        return complaint
    largest = float(largest)
    if abs(largest - 6) < 1e-3:
        return right(
            "The keys are 2 and 3 long, and their dot product is at most 2 times 3, when they point the same "
            "way. So the word with 9 never prefers the other; the word with 4 may. The bound of the lesson, "
            "6.5, is their mean, and only equal keys reach it."
        )
    for value, name, hint in (
        (6.5, "mean", "That is the mean of 4 and 9, a bound, but nothing reaches it here: equality needs a "
         "distance of 0 between the keys, and these differ in length. How long is each?"),
        (36, "lengths_not_rooted", "4 and 9 are squared lengths, since a score with oneself is k.k. Take the "
         "roots before you multiply."),
        (13, "sum", "That is the sum of the squared lengths. How long are the keys themselves?"),
        (5, "sum_of_lengths", "2 and 3 are the lengths, but you added them. A dot product multiplies."),
        (9, "the_larger", "9 is the larger score of a word with itself. The other word's key is shorter: can "
         "its shadow on the long one be so long?"),
        (4, "the_smaller", "4 is not the limit: the longer key can throw a shadow on the shorter one that is "
         "longer than it. How long are the two keys?"),
        (-6, "the_smallest", "That is the smallest, with keys that point in opposite ways."),
        (0, "independent", "0 is the score of keys at a right angle. The question asks for the largest."),
    ):
        if abs(largest - value) < 1e-3:
            return wrong(hint, name)
    if abs(largest) > 6:
        return wrong(f"{largest:g} is out of reach. A score with oneself is the squared length of a key.")
    return wrong(f"{largest:g} can be had, but more can be had as well. When is a dot product largest?",
                 "not_the_largest")


# ------------------------------------------------------------- two matrices by hand

LINKS = {"吃了": "我", "我": "吃了", "它": "苹果"}
ENOUGH = 0.6


def whole_number_roles(answer):
    """Whole-number W_Q and W_K, two columns each, that make three links of the running example."""
    given, complaint = _two_tables(answer)
    if complaint:
        return complaint
    w_q, w_k = given
    reached = _shares(w_q, w_k)
    told = "Weights: " + ", ".join(
        f"{asker} to {found} {share:.2f}"
        for (asker, found), share in zip(LINKS.items(), reached, strict=True)
    ) + ". "
    if min(reached) > ENOUGH:
        return right(
            told + "Two columns for three targets, and 我 and 吃了 look at each other and away from "
            "themselves. One matrix for both roles cannot do that, whatever its numbers."
        )
    if not w_q.any() or not w_k.any():
        return wrong(told + "One of your tables is all zeros: all scores are 0, all weights 1/8.", "zero")
    if np.array_equal(w_q, w_k):
        return wrong(
            told + "Your two tables are the same. Then of any two words at least one scores itself as high "
            "as the other, and 我 and 吃了 cannot both look away from themselves.", "one_matrix")
    for name, other, hint in (
        ("roles_swapped", (w_k, w_q), "With your two tables exchanged all three links are there. The rows of "
         "w_q belong to words that ask, those of w_k to words that are looked for."),
        ("opposite", (-w_q, w_k), "With the signs of w_q turned round all three links are there: your "
         "queries point away from what they look for."),
        ("rows_by_words", (w_q, w_k), "With a row for each word in the order of the sentence all three links "
         "are there. But the rows go by kinds, in the order of axes, where thing stands before number."),
        ("rows_by_words", (w_k, w_q), "With a row for each word in the order of the sentence, and the two "
         "tables exchanged, all three links are there. Rows go by kinds, in the order of axes, and w_q "
         "belongs to the words that ask."),
    ):
        if min(_shares(*other, by_words=name == "rows_by_words")) > ENOUGH:
            return wrong(told + hint, name)
    if min(_shares(100 * w_q, w_k)) > ENOUGH:
        return wrong(
            told + "In each of the three rows the right word leads, but not by enough. A longer query makes "
            "more of the same difference.", "too_quiet")
    beaten = _never_first(w_k)
    if beaten:
        return wrong(
            told + f"The key of {beaten} is first for no query: whichever way a query points, another key "
            "reaches as far. Spread the keys, around 0 if the other words offer nothing.",
            "inside_the_others")
    asker, found = next(link for link, share in zip(LINKS.items(), reached, strict=True) if share <= ENOUGH)
    words, kinds = _words_and_kinds()
    if not w_q[kinds[asker]].any():
        return wrong(
            told + f"{asker} has a query of zeros and asks for nothing. Which row of w_q is its row?",
            "asks_nothing")
    scores = w_q[kinds[asker]] @ w_k[[kinds[word] for word in words]].T
    best = words[int(scores.argmax())]
    if scores[words.index(found)] < scores.max():
        return wrong(
            told + f"The query of {asker} is {_whole(w_q[kinds[asker]])}: it scores {scores.max():.0f} with "
            f"{best} and {scores[words.index(found)]:.0f} with {found}.", "wrong_target")
    rivals = [words[i] for i in np.flatnonzero(scores == scores.max()) if words[i] != found]
    if rivals:
        return wrong(told + f"For {asker}, {found} has the same score as {', '.join(rivals)}.", "tie")
    return wrong(told + f"{found} leads for {asker}, but not by enough. Lengthen its query.", "too_quiet")


def _words_and_kinds():
    """The words of the sentence, and for each the row of its kind."""
    zh, _, _, x = running_example()
    return list(zh), dict(zip(zh, x.argmax(-1).tolist(), strict=True))


def _shares(w_q, w_k, *, by_words=False):
    """How much of its weight each of the three askers gives to what it should find."""
    words, _ = _words_and_kinds()
    x = np.eye(8) if by_words else running_example().vectors
    weights = attention_weights(x @ w_q, x @ w_k)
    return [float(weights[words.index(asker), words.index(found)]) for asker, found in LINKS.items()]


def _never_first(w_k):
    """The first of the wanted words whose key is strictly ahead of all others in no direction, or None."""
    words, kinds = _words_and_kinds()
    keys = w_k[[kinds[word] for word in words]]
    angles = np.radians(np.arange(0, 360, 0.25))
    scores = np.stack([np.cos(angles), np.sin(angles)], -1) @ keys.T         # (1440, 8)
    for word in LINKS.values():
        at = words.index(word)
        others = np.delete(scores, at, -1).max(-1)
        if (scores[:, at] <= others + 1e-9).all():
            return word
    return None


def _whole(row):
    return f"({', '.join(f'{number:.0f}' for number in row)})"


def _two_tables(answer):
    """w_q and w_k and None, or None and what is wrong with them."""
    if isinstance(answer, np.ndarray) and answer.ndim == 3:
        answer = [*answer[:3]]
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        return None, wrong(f"Give two arrays, (w_q, w_k); got {short(answer)}.")
    if any(part is ... or part is None for part in answer):
        return None, unanswered("Put your answer in place of the three dots and run the cell again.")
    given = []
    for name, part in zip(("w_q", "w_k"), answer, strict=True):
        table = as_floats(part)
        if table is None or table.ndim != 2:
            quotes = ", without quotes" if in_quotes(part) else ""
            return None, wrong(f"Let {name} be an array of shape (8, 2){quotes}; got {short(part)}.")
        if table.shape != (8, 2):
            turned = table.shape == (2, 8)
            hint = " A kind is a row, not a column: transpose it." if turned else ""
            return None, wrong(f"Let {name} have shape (8, 2); yours has {table.shape}.{hint}",
                               "transposed" if turned else None)
        if not np.isfinite(table).all() or (table != np.round(table)).any():
            return None, wrong(f"Let the numbers of {name} be whole.", "not_whole")
        if np.abs(table).max() > 9:
            return None, wrong(f"Keep the numbers of {name} between -9 and 9; yours reach "
                               f"{np.abs(table).max():g}.", "too_large")
        given.append(table)
    return given, None


# ------------------------------------------------------------- attention with its matrices


def _projected(
    x, y, w_q, w_k, w_v, *, asks="x", answers="y", hands="y", for_q="q", for_k="k", value="v",
    scale="root", over="keys", returns="output", top=True, turned=(), mask=False, product="x @ w",
    pairs="k.T",
):  # fmt: skip
    """`projected_attention`, or a wrong way of computing it."""
    rows = {"x": np.asarray(x, float), "y": np.asarray(y, float)}
    tables = {name: np.asarray(w, float) for name, w in (("q", w_q), ("k", w_k), ("v", w_v))}
    tables = {name: w.T if name in turned else w for name, w in tables.items()}
    project = {"x @ w": lambda x, w: x @ w, "w @ x": lambda x, w: w @ x, "w.T @ x": lambda x, w: w.T @ x,
               "x": lambda x, w: x}
    q, k = (project[product](*both) for both in ((rows[asks], tables[for_q]), (rows[answers], tables[for_k])))
    v = {
        "v": lambda: project[product if product != "x" else "x @ w"](rows[hands], tables["v"]),
        "rows": lambda: rows[hands],
        "keys": lambda: k,
        "k": lambda: rows[hands] @ tables["k"],
    }[value]()
    d = np.shape(w_k)[-1]
    scores = q @ (k.T if pairs == "k.T" else k) * {
        "root": d**-0.5,
        "none": 1.0,
        "width": d**-1.0,
        "multiplied": d**0.5,
        "d_x": np.shape(x)[-1] ** -0.5,
        "d_y": np.shape(y)[-1] ** -0.5,
        "d_v": np.shape(w_v)[-1] ** -0.5,
        "keys": np.shape(y)[0] ** -0.5,
    }[scale]
    if mask:
        scores = np.where(np.tri(*scores.shape, dtype=bool), scores, -np.inf)
    axis = {"queries": 0, "all": None}.get(over, -1)
    if over in ("scores", "shares"):
        weights = scores if over == "scores" else scores / scores.sum(-1, keepdims=True)
    else:
        largest = scores.max() if top == "all" else scores.max(axis, keepdims=True) if top else 0
        with np.errstate(all="ignore"):
            e = np.exp(scores - largest)
        weights = e / e.sum(axis, keepdims=over != "no keepdims")
    return {
        "output": lambda: weights @ v,
        "weights": lambda: weights,
        "scores": lambda: scores,
        "hard": lambda: v[scores.argmax(-1)],
        "turned": lambda: weights.T @ v,
        "scaled later": lambda: weights @ v * d**-0.5,
        "and the rows": lambda: rows["x"] + weights @ v,
    }[returns]()


def _projected_cases():
    rng = np.random.default_rng(33)

    def case(name, n, m, dx, dy, dk, dv, *, hint="", grow=1.0):
        x, y = rng.normal(size=(n, dx)), rng.normal(size=(m, dy))
        tables = rng.normal(size=(dx, dk)), rng.normal(size=(dy, dk)), rng.normal(size=(dy, dv))
        return Case(name, (grow * x, grow * y, *tables), hint=hint)

    x = rng.normal(size=(5, 6))
    itself = x, x.copy(), rng.normal(size=(6, 4)), rng.normal(size=(6, 4)), rng.normal(size=(6, 3))
    whole = tuple(rng.integers(-2, 3, size=shape) for shape in ((2, 3), (4, 2), (3, 2), (2, 2), (2, 5)))
    return [
        case("3 rows of width 5 that ask 7 rows of width 4, with keys 2 wide and values 6 wide",
             3, 7, 5, 4, 2, 6, hint="Write the shape at the end of each line."),
        case("more rows that ask than rows that answer", 6, 2, 3, 5, 4, 7),
        case("rows of the same width on both sides", 4, 6, 5, 5, 3, 2),
        case("as many rows on both sides", 4, 4, 6, 3, 5, 2),
        case("everything equal, four rows of width four", 4, 4, 4, 4, 4, 4),
        Case("a sentence that asks itself", itself),
        case("a single row that asks", 1, 5, 3, 4, 2, 3),
        case("a single row that answers", 4, 1, 3, 4, 2, 3, hint="Its weight is 1 for everybody."),
        case("keys one number wide", 3, 5, 4, 2, 1, 3),
        Case("whole numbers", whole),
        case("scores of several thousand", 3, 4, 5, 5, 8, 2, grow=40.0,
             hint="The exponential of a large score is infinite. What may be subtracted from a row?"),
    ]


projected_attention = FunctionExercise(
    _projected,
    _projected_cases,
    (
        Mistake("roles_swapped", "Your queries come from y and your keys and values from x. The rows of x "
                "ask, those of y answer.", {"asks": "y", "answers": "x", "hands": "x"}),
        Mistake("keys_from_x", "Your keys come from x. The rows of y answer: keys and values come from y.",
                {"answers": "x"}),
        Mistake("keys_and_values_from_x", "Your keys and values come from x, so y has no say. The rows of y "
                "answer.", {"answers": "x", "hands": "x"}),
        Mistake("queries_from_y", "Your queries come from y, so x has no say. The rows of x ask.",
                {"asks": "y"}),
        Mistake("values_from_x", "Your values come from x. What is handed over comes from those who answer.",
                {"hands": "x"}),
        Mistake("matrices_swapped", "You use w_k for the queries and w_q for the keys. Where both fit, "
                "nothing complains.", {"for_q": "k", "for_k": "q"}),
        Mistake("one_matrix", "You use w_q for the keys too. Keys have a matrix of their own, w_k.",
                {"for_k": "q"}),
        Mistake("one_matrix", "You use w_k for the queries too. Queries have a matrix of their own, w_q.",
                {"for_q": "k"}),
        Mistake("values_not_projected", "You average the rows themselves. What is handed over is the row "
                "times w_v.", {"value": "rows"}),
        Mistake("averages_keys", "You average the keys. They decide the weights; what comes out is made of "
                "values.", {"value": "keys"}),
        Mistake("transposed", "You use the matrices transposed, as nn.Linear stores them. Here a row times "
                "the matrix as it stands: rows @ w.", {"turned": ("q", "k", "v")}, convention=True),
        Mistake("transposed", "You use w_q and w_k transposed. Here rows @ w, as it stands.",
                {"turned": ("q", "k")}),
        Mistake("transposed", "You use w_q transposed. Here rows @ w, as it stands.", {"turned": ("q",)}),
        Mistake("transposed", "You use w_k transposed. Here rows @ w, as it stands.", {"turned": ("k",)}),
        Mistake("transposed", "You use w_v transposed. Here rows @ w, as it stands.", {"turned": ("v",)}),
        Mistake("from_the_left", "You multiply the matrices from the left. A word is a row here: rows @ w.",
                {"product": "w.T @ x"}),
        Mistake("from_the_left", "You multiply the matrices from the left. A word is a row here: rows @ w.",
                {"product": "w @ x"}),
        Mistake("words_not_projected", "You compare the rows themselves. Queries are x through w_q, keys y "
                "through w_k.", {"product": "x"}),
        Mistake("keys_not_turned", "You multiply the queries by the keys as they stand. A score is a row of "
                "one times a row of the other: turn the keys.", {"pairs": "k"}),
        Mistake("sum_loses_its_axis", "The sum of each row loses its axis, and the division is by the sums "
                "of other rows, or fails. Keep the axis (keepdims).", {"over": "no keepdims"}),
        Mistake("no_scale", "You do not scale the scores. Divide them by the root of the keys' width.",
                {"scale": "none"}),
        Mistake("scaled_by_width", "You divide the scores by the width. It is its root that is asked for.",
                {"scale": "width"}),
        Mistake("multiplied", "You multiply the scores by the root of the width. Divide.",
                {"scale": "multiplied"}),
        Mistake("scale_of_words", "You take the root of the width of x. The score is a sum over the width of "
                "a key, which is what w_q and w_k lead to.", {"scale": "d_x"}),
        Mistake("scale_of_words", "You take the root of the width of y. The score is a sum over the width of "
                "a key, which is what w_q and w_k lead to.", {"scale": "d_y"}),
        Mistake("scale_of_values", "You take the root of the width of a value. Values have no part in the "
                "scores.", {"scale": "d_v"}),
        Mistake("scale_of_length", "You divide by the root of the number of keys. The score is a sum over "
                "their width.", {"scale": "keys"}),
        Mistake("wrong_axis", "Your softmax runs over the queries. Each query's weights, over the keys, sum "
                "to 1.", {"over": "queries"}),
        Mistake("wrong_axis", "Your softmax runs over all queries and keys together. Each query has a sum of "
                "its own.", {"over": "all"}),
        Mistake("no_softmax", "You use the scores as weights. Make them positive first, with the sum 1.",
                {"over": "scores"}),
        Mistake("no_exponential", "You divide the scores by their sum. Scores may be negative; take "
                "exponentials first.", {"over": "shares"}),
        Mistake("hard", "You return the value of the best match alone. Average all values, each by its "
                "weight.", {"returns": "hard"}),
        Mistake("returns_weights", "You return the weights. Take the mean of the values with them.",
                {"returns": "weights"}),
        Mistake("returns_scores", "You return the scores. The softmax and the values are still to come.",
                {"returns": "scores"}),
        Mistake("weights_turned", "You use the weights transposed. A row of weights belongs to a query.",
                {"returns": "turned"}),
        Mistake("scaled_too_late", "You divide by the root of the width after the softmax, so each row of "
                "weights no longer sums to 1. Divide the scores.",
                {"scale": "none", "returns": "scaled later"}),
        Mistake("adds_the_rows", "You add the rows of x to the result. Only the mean of the values is asked "
                "for; the two need not even be equally wide.", {"returns": "and the rows"}),
        Mistake("causal", "You hide the keys after each query. No mask is asked for.", {"mask": True}),
        Mistake("overflow", "The exponential of a large score is infinite, and inf/inf is NaN. Subtract the "
                "largest score of the row first: it cancels in the quotient.", {"top": False}),
        Mistake("one_maximum", "You take the largest of all scores off every row. In a row that lies far "
                "below, each exponential is 0, and 0/0 is NaN. Each row has its own largest.",
                {"top": "all"}),
    ),  # fmt: skip
    "Checked with all sizes different and with all equal, on a sentence that asks itself, on a single query "
    "and a single key, on whole numbers and on scores of several thousand. With x = y it is self-attention, "
    "otherwise cross attention: the same lines.",
)


# ------------------------------------------------------------- parameters counted


def more_than_half(hidden):
    """The widest feed-forward part beside which W_Q, W_K and W_V hold more than half of a layer."""
    hidden, complaint = numbers(hidden, (), "your answer")
    if complaint:
        return complaint
    hidden = float(hidden)
    if hidden == 511:
        return right(
            "Three squares must outweigh one square and two rectangles: 3 * 512 > 512 + 2 * hidden, so "
            "hidden is below 512. Usual feed-forward parts are about four times as wide as a word."
        )
    if hidden != round(hidden) or hidden < 0:
        return wrong(f"A width is a whole number, 0 or more; got {hidden:g}.")
    for values, name, hint in (
        ((512,), "exactly_half", "With 512 they hold half exactly: 3 squares against 3. More than half is "
         "asked for."),
        ((767, 768), "output_forgotten", "You left W_O out. It belongs to the other half: three squares "
         "stand against one square and the feed-forward part."),
        ((1023, 1024), "one_feed", "You counted one matrix of the feed-forward part. There are two, one "
         "there and one back."),
        ((1535, 1536), "output_and_one_feed", "You left out W_O and one of the two matrices of the "
         "feed-forward part."),
        ((2048,), "usual", "2048 is the usual width, four times 512. Then they hold 3 parts of 12."),
        ((1024 * 1024,), "parameters", "That is a number of parameters. A width is asked for."),
    ):
        if hidden in values:
            return wrong(hint, name)
    share = 3 * 512 / (4 * 512 + 2 * hidden)
    if hidden < 511:
        return wrong(f"With {hidden:.0f} they hold {share:.2%}, more than half, and a wider one will do.",
                     "not_the_largest")
    return wrong(f"With {hidden:.0f} they hold {share:.2%}. Write down both sides in units of 512.")


# ------------------------------------------------------------- keys and values kept


def ten_words_later(kept):
    """How many numbers of queries, keys and values a model that writes keeps after ten words."""
    kept, complaint = numbers(kept, (), "your answer")
    if complaint:
        return complaint
    kept = float(kept)
    if kept == 960:
        return right(
            "Ten keys of 64 and ten values of 32. A query of 64 is used for its own word and never read "
            "again, and the matrices have the same size after one word and after a million."
        )
    if kept != round(kept) or kept < 0:
        return wrong(f"A number of numbers is whole, 0 or more; got {kept:g}.")
    for values, name, hint in (
        ((1600,), "queries_kept", "You kept the queries too. Which later word will read the query of an "
         "earlier one?"),
        ((1024,), "queries_kept", "You kept one query besides the keys and values. It has been used: the "
         "output of its word is there."),
        ((1280,), "values_as_wide_as_keys", "You took the values to be 64 wide, as the keys. Nothing makes "
         "the two equal: look at the shape of W_V."),
        ((1920,), "queries_and_equal_widths", "You kept the queries too, and took all three to be 64 wide. "
         "Who reads an old query? And what is the shape of W_V?"),
        ((640,), "values_forgotten", "That is the keys, or as many numbers as the keys have. The next word "
         "weighs the ten by their keys: what does it then average?"),
        ((320,), "keys_forgotten", "That is the values alone. By what does the next word decide how much of "
         "each it takes?"),
        ((10240,), "as_wide_as_words", "You took keys and values to be as wide as a word. A key is a word "
         "after W_K: the 512 are summed away."),
        ((15360,), "as_wide_as_words", "You took queries, keys and values to be as wide as a word. Each is a "
         "word after its matrix: the 512 are summed away. And who reads an old query?"),
        ((5120,), "words_kept", "That is the ten words themselves. From them every key and value would have "
         "to be worked out again for each new word."),
        ((96, 160, 128, 192), "one_word", "That is for one word. The next one looks at all ten."),
        ((864, 1440), "last_word_left_out", "That is for nine words. The eleventh looks at the tenth as "
         "well."),
        ((1056, 1760), "one_too_many", "That is for eleven words. Ten have been worked out."),
        ((81920, 49152, 65536, 98304), "parameters", "Those are parameters. They stay as they are, however "
         "long the text becomes. What grows?"),
        ((100, 55), "attention_weights", "Those are pairs of words, the attention weights. They are used for "
         "an output and read by no later word."),
        ((1060, 1015), "attention_weights", "The keys and values are there, and the attention weights "
         "besides. Those are used for an output and read by no later word."),
        ((0,), "nothing", "With nothing kept, each key and value is worked out again for each new word."),
    ):
        if kept in values:
            return wrong(hint, name)
    return wrong(f"{kept:.0f} is not a number that ten keys and ten values have. Decide first which of the "
                 "three are read again, then how wide each is.")


EXERCISES = (
    Exercise(
        "bare_chain", "03", bare_chain,
        (
            "Who wins A's row is decided by shadows on the direction of A. B's shadow has to be longer than "
            "A, and longer than C's.",
            "Lengths must grow from A to B to C. In one line, though, C has the longest shadow for all.",
            "Turn: let B stand a little to the left of A, and C further to the left of B, at nearly a right "
            "angle to A.",
        ),
        "answer = [[1, 0], [2, 2], [0, 5]]    # A scores 1, 2, 0; B scores 2, 8, 10",
        "construction",
    ),
    Exercise(
        "one_matrix_bound", "03", one_matrix_bound,
        (
            "With one matrix, query and key of a word are one vector k. What does k.k say of its length?",
            "The two vectors have the lengths 2 and 3. A dot product is the product of the lengths and the "
            "cosine of the angle.",
        ),
        "answer = 6    # 2 * 3, when both keys point the same way",
        "prediction",
    ),
    Exercise(
        "whole_number_roles", "03", whole_number_roles,
        (
            "Begin with the keys: which three kinds are looked for? The other rows of w_k may be zeros.",
            "Three points in the plane, each of them ahead of the others and of 0 in some direction: a "
            "triangle around 0, such as (1, 0), (0, 1) and (-1, -1).",
            "Let the query of each asker point towards the key that it should find, and be long enough: a "
            "lead of 3 in the scaled score over seven others gives 0.74.",
        ),
        """
import numpy as np

w_q, w_k = np.zeros((8, 2), int), np.zeros((8, 2), int)
w_k[[0, 1, 2]] = [1, 0], [0, 1], [-1, -1]      # person, action, thing offer
w_q[0] = 0, 6                                  # a person asks for an action
w_q[1] = 6, 0                                  # an action asks for a person
w_q[5] = -6, -6                                # a pointer asks for a thing
answer = (w_q, w_k)
""",
        "construction",
    ),
    Exercise(
        "projected_attention", "03", projected_attention,
        (
            "Queries are x through w_q; keys and values are y through w_k and w_v. Write their shapes down.",
            "Scores have a row for each row of x and a column for each row of y. The scale is the root of "
            "the width that the dot product sums over.",
            "Subtract each row's largest score, take exponentials, divide by their sum along the keys, and "
            "multiply by the values.",
        ),
        """
import numpy as np


def projected_attention(x, y, w_q, w_k, w_v):
    q, k, v = x @ w_q, y @ w_k, y @ w_v                    # (Lq, dk), (Lk, dk), (Lk, dv)
    scores = q @ k.T / np.sqrt(k.shape[-1])                # (Lq, Lk)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v                # (Lq, dv)
""",
        "function",
    ),
    Exercise(
        "more_than_half", "03", more_than_half,
        (
            "Count in units of 512: each of the four squares is 512, each feed-forward matrix is hidden.",
            "Three times 512 must be more than 512 + 2 * hidden.",
        ),
        "answer = 511    # 3 * 512 > 512 + 2 * hidden, so hidden < 512",
        "prediction",
    ),
    Exercise(
        "ten_words_later", "03", ten_words_later,
        (
            "The eleventh word has a query of its own. With what does it compare it, and what does it "
            "average?",
            "A key has as many numbers as W_K has columns, a value as many as W_V has. Neither has the width "
            "of a word.",
        ),
        "answer = 10 * (64 + 32)    # a key and a value for each of the ten words",
        "prediction",
    ),
)
