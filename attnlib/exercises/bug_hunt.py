"""Lesson 16's exercises: name a fault by its symptom, show one with the least input, and write tests."""

from attnlib.exercises.answers import short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.line_up import LineUp
from attnlib.exercises.verdict import right, unreadable, wrong

# ------------------------------------------------------------- names for symptoms

# For each symptom the guilty one, what excludes tempting others, and what excludes the rest.
_FIRST = {
    1: ("A", {
        "R": "With the other polarity one head would leak as well, and a word would not see the past.",
        "Q": "Its denominator has seen the future with one head as well.",
        "C": "Over the queries each key's weights sum to one, however many heads there are.",
        "S": "Counted along the heads, places are lost. Nothing comes from the future.",
        "E": "It takes the wrong key head, from words that it may see.",
    }, "What do several heads have that one has not? In which step do numbers of different words lie side by "
       "side?"),
    2: ("G", {
        "N": "With places that start anew a continued word still sees all keys, at wrong distances.",
        "R": "It is right in one call. The other polarity is not.",
        "K": "There is no padding here.",
    }, "In one call there are as many queries as keys. What changes with the second call?"),
    3: ("P", {
        "F": "Beside the same neighbours F gives the same twice.",
        "L": "NaN is NaN in every call.",
    }, "Something is drawn anew in each call. Which step draws?"),
    4: ("L", {
        "K": "It reads padding, and the numbers stay finite.",
        "H": "Its mask does not fit, or fits by chance. The numbers stay finite.",
        "R": "Its last word may see nothing, but then it gets zeros; and it is wrong without padding too.",
    }, "Which query has nothing to see there? What is 0/0?"),
    5: ("F", {
        "H": "It goes wrong with padding only. Here there is none.",
        "K": "There is no padding here.",
        "P": "In training that might be, but here it is the neighbour that matters.",
        "A": "It mixes words of one sentence. Sentences stay apart.",
    }, "Which axis do the words of one sentence lie on, and which one do sentences lie on?"),
    6: ("S", {
        "N": "In a single call places start at 0 anyway. It sees the order.",
        "T": "Pairs of halves turn as well as pairs of neighbours. T sees the order.",
        "R": "The last word sees nothing there. It would not notice 他 in the place of 我 either.",
        "F": "Along the batch a word sees no other word of its sentence, neither 我 nor 他.",
        "C": "The weights are wrong, and they still depend on the places.",
    }, "The last word reads the two others. What would tell it which came first?"),
}  # fmt: skip

_MORE = {
    1: ("N", {
        "G": "With a mask aligned at the upper left a continued word reads the first key only.",
        "K": "There is no padding here.",
        "S": "It is wrong in one call as well.",
    }, "All keys are read, so it is not the mask. What does a turned query need to know of earlier calls?"),
    2: ("K", {
        "L": "Its outputs at words are right. What is NaN belongs to the padding.",
        "H": "Alone, a sentence's mask fits, and it is right.",
        "R": "It reads padding behind a sentence too.",
        "Q": "It is wrong without padding too.",
    }, "Padding is read, and only where the causal mask allows it. Which side of the mask was hidden?"),
    3: ("H", {
        "F": "It goes wrong without padding too.",
        "K": "Its mask has a shape that always fits.",
    }, "(2, 5) and (5, 5): which shape do five queries and five keys have?"),
    4: ("R", {
        "L": "Nothing to see gives NaN there, and only with padding.",
        "A": "With one head nothing leaks there. Here it does not matter how many there are.",
        "Q": "Its last word sees all, as it should.",
    }, "Which word may nothing be shown to, if each is to see only what comes after it?"),
    5: ("Q", {
        "C": "Its last word would come out too long.",
        "B": "Where all words are equal, how even the weights are makes no difference.",
        "R": "Its last word would come out as zero.",
    }, "A word's weights do not sum to one here, and the last word's do. What did the denominator count?"),
    6: ("E", {
        "B": "It is wrong over four key heads as well.",
        "A": "It is wrong over four key heads as well.",
    }, "Write down which key head each of four query heads reads, once in blocks and once in turn."),
}  # fmt: skip


def _judge(symptoms, example, praise):
    """The judge of six letters in a string, one for each symptom."""
    def judge(answer):
        letters = answer.replace(" ", "").replace(",", "").upper() if isinstance(answer, str) else ""
        known = "ABCDEFGHJKLMNPQRST"
        if len(letters) != 6 or any(letter not in known for letter in letters):
            return unreadable(f'Give six letters of {known} in quotes, such as "{example}"; '
                              f"got {short(answer)}.")
        rightly = sum(letter == symptoms[n][0] for n, letter in enumerate(letters, 1))
        for n, letter in enumerate(letters, 1):
            guilty, tempting, hint = symptoms[n]
            if letter == guilty:
                continue
            if letter in "DJMT" and letter not in tempting:
                told = f"{letter} is innocent: it computes what a layer must, in another form."
                return wrong(f"{rightly} of 6. Symptom {n}: {told}", f"innocent_{letter}", slip=rightly == 5)
            told = tempting.get(letter, f"{letter} would not show itself so. {hint}")
            name = f"symptom_{n}_{letter}" if letter in tempting else f"symptom_{n}"
            return wrong(f"{rightly} of 6. Symptom {n}: {told}", name, slip=rightly == 5)
        return right(praise)

    return judge


name_the_fault = _judge(
    _FIRST, "ABCDEF", "All six. A symptom names a step: the leak with several heads points at the merge, the "
    "second call at what continues from a cache.")
name_six_more = _judge(
    _MORE, "ABCDEF", "All six. Half of them were found by what goes well: one call, padding behind, the last "
    "word, four key heads.")


# ------------------------------------------------------------- the least padding


def smallest_padding(answer):
    """A table of 0 and 1, 1 for a word, on which suspect K is wrong at a word."""
    rows = _table(answer)
    if rows is None:
        return unreadable(
            "Give a list of sentences, each a list of 0 (padding) and 1 (a word), all equally long, such as "
            f"[[1, 1, 0]]; got {short(answer)}.")
    size = len(rows) * len(rows[0])
    if size > 1000:
        return wrong(f"These are {size} entries. A few are enough.", "too_large")
    wrong_at_words, wrong_at_padding = _where_wrong(rows)
    if wrong_at_words and size == 2:
        return right("Two entries: padding, and a word behind it that reads it. At the end of a sentence the "
                     "causal mask hides padding from all words, and K is never found out.")
    if wrong_at_words:
        return wrong(f"K is wrong there at a word, but you use {size} entries. How many words, and how much "
                     "padding, must there be at least?", "not_the_least")
    if not any(0 in row for row in rows):
        return wrong("Without padding K has nothing to hide.", "no_padding")
    if not any(1 in row for row in rows):
        return wrong("There is no word whose output could be wrong.", "no_word")
    if wrong_at_padding:
        return wrong(
            "All words are right there: K is wrong only at padding, whose output nobody reads. Padding at "
            "the end is hidden from the words before it by the causal mask. Who would look at it?",
            "padding_at_the_end")
    return wrong("K is right there. A word must read what stands at a padded place.", "not_shown")


def _table(answer):
    try:
        rows = [[int(entry) for entry in row] for row in answer]
        same = all(value == entry for row, given in zip(rows, answer, strict=True)
                   for value, entry in zip(row, given, strict=True))
    except (TypeError, ValueError, RuntimeError):
        return None
    lengths = {len(row) for row in rows}
    fits = same and len(lengths) == 1 and 0 not in lengths and {v for row in rows for v in row} <= {0, 1}
    return rows if fits else None


def _where_wrong(rows):
    """Whether K differs from the healthy layer at a word, and at padding."""
    import torch

    from attnlib.exercises.suspects import K, Layer

    real = torch.tensor(rows) == 1
    x = torch.randn(*real.shape, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        off = (K(4, 2)(x, real) - Layer(4, 2)(x, real)).abs().amax(-1) > 1e-4
    return bool((off & real).any()), bool((off & ~real).any())


# ------------------------------------------------------------- tests

hand_test = LineUp(
    "ABCE",
    "All four whose numbers are wrong caught, no innocent accused. An output computed by hand needs no "
    "second layer, and sees what breaks no property: a scale, a head that reads its neighbour's keys.")

sight_test = LineUp(
    "FHKLQR",
    "All six caught, no innocent accused. What must not matter was changed, and nothing moved where nothing "
    "may. Such a test needs to know nothing of how a layer computes.")

cache_test = LineUp(
    "G",
    "G caught, N let pass, no innocent accused. An experiment that both hypotheses survive, or neither, says "
    "nothing about which of them it is.",
    left={"N": "Both go wrong in the second call, and your test does not say which of the two it is. What "
               "could you switch off, so that N has nothing left to go wrong?"})

line_up = LineUp(
    "ABCEFGHKLNPQRS",
    "At least twelve of the fourteen guilty caught with so few calls, and none of the five innocent ones "
    "accused.",
    spared=2,
    calls=4)

_HAND = """
import torch

def answer(Suspect):
    layer = Suspect(16, 4, 2, rotary=False)                 # 4 query heads, 2 key heads of width 4
    x = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(0))
    q, k, v = (x[0] @ w for w in (layer.w_q, layer.w_k, layer.w_v))
    parts = []
    for head in range(4):
        mine, shared = slice(4 * head, 4 * head + 4), slice(4 * (head // 2), 4 * (head // 2) + 4)
        scores = q[-1, mine] @ k[:, shared].T / 4**0.5      # the last word sees all
        parts.append(scores.softmax(-1) @ v[:, shared])
    wanted = torch.cat(parts) @ layer.w_o
    assert torch.allclose(layer(x)[0, -1], wanted, atol=1e-4)
"""

_SIGHT = """
import torch

def answer(Suspect):
    layer, generator = Suspect(16, 4, 2), torch.Generator().manual_seed(0)
    x, noise = torch.randn(2, 3, 3, 16, generator=generator)               # as many sentences as words
    out = layer(x)
    later = x.clone()
    later[:, 2] = 9 * noise[:, 2]
    assert torch.allclose(layer(later)[:, :2], out[:, :2], atol=1e-4)      # the future
    assert torch.allclose(layer(x[2:]), out[2:], atol=1e-4)                # the neighbours
    real = torch.tensor([[0, 1, 1], [1, 1, 1], [0, 0, 1]]) == 1            # padding at the beginning
    padded, changed = layer(x, real), layer(torch.where(real[..., None], x, 9 * noise), real)
    assert torch.isfinite(padded).all()
    assert torch.allclose(padded[real], changed[real], atol=1e-4)          # what stands at padding
"""

_CACHE = """
import torch

def answer(Suspect):
    layer, cache = Suspect(16, 4, 2, rotary=False), []      # without places N has none to count
    x = torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(0))
    parts = [layer(x[:, a:b], None, cache) for a, b in ((0, 3), (3, 4), (4, 6))]
    assert torch.allclose(torch.cat(parts, 1), layer(x), atol=1e-4)
"""

_ALL = """
import torch

def answer(Suspect):
    x, noise = torch.randn(2, 3, 3, 16, generator=torch.Generator().manual_seed(0))
    real = torch.tensor([[0, 1, 1], [1, 1, 1], [0, 0, 1]]) == 1            # as many sentences as words
    layer, cache = Suspect(16, 4, 2, dropout=0.5).eval(), []
    out = layer(x, real)                                                   # 1
    other = torch.where(real[..., None], x, 9 * noise)                     # padding changed, and in calls
    parts = [layer(other[:, :1], real[:, :1], cache), layer(other[:, 1:], real, cache)]      # 2, 3
    assert torch.isfinite(out).all()
    assert torch.allclose(torch.cat(parts, 1)[real], out[real], atol=1e-4)
    layer = Suspect(16, 4, 2, rotary=False)                                # by hand, the last word
    q, k, v = (x[0] @ w for w in (layer.w_q, layer.w_k, layer.w_v))
    parts = []
    for h in range(4):
        mine, shared = slice(4 * h, 4 * h + 4), slice(4 * (h // 2), 4 * (h // 2) + 4)
        parts.append((q[-1, mine] @ k[:, shared].T / 2).softmax(-1) @ v[:, shared])
    assert torch.allclose(layer(x[:1])[0, -1], torch.cat(parts) @ layer.w_o, atol=1e-4)     # 4
"""

EXERCISES = (
    Exercise("name_the_fault", "16", name_the_fault, (
        "Begin with what the symptom needs in order to show: several heads, a second call, padding, a "
        "neighbour, evaluation. Which steps of the layer know of that at all?",
        "For 1 look for a step that lays numbers of different words side by side, for 2 and 3 for what "
        "differs from call to call, for 4 for a row without anything, for 5 and 6 for an axis.",
        "1 is a merge, 2 a mask with an edge, 3 something drawn, 4 a softmax of nothing, 5 and 6 are axes "
        "exchanged.",
    ), 'answer = "AGPLFS"', "prediction"),
    Exercise("name_six_more", "16", name_six_more, (
        "A symptom also says what goes well. For each: which steps does that acquit?",
        "1 is about several calls, 2 to 4 about masks, 5 about a denominator, 6 about heads that share keys.",
        "2 hides the wrong side, 3 has too few axes, 4 is turned round. In 1 something starts anew, in 5 it "
        "comes too late, in 6 it stands in the wrong order.",
    ), 'answer = "NKHRQE"', "prediction"),
    Exercise("smallest_padding", "16", smallest_padding, (
        "K lets words read padding. Which words may look at a padded place at all, under the causal mask?",
        "Put the padding where a word can look at it, and leave out everything else.",
        "One sentence of one padding and one word. In which order?",
    ), "answer = [[0, 1]]    # the word looks back at padding", "construction"),
    Exercise("hand_test", "16", hand_test, (
        "A, B, C and E give finite numbers of the right shape. Which word sees all others, so that you need "
        "no mask to compute its output?",
        "Build the layer with several query heads and fewer key heads, and with `rotary=False`. From "
        "`layer.w_q`, `layer.w_k`, `layer.w_v` and `layer.w_o` compute the output of the last word, head by "
        "head.",
        "Query head h has columns h * d to (h + 1) * d of w_q, and reads the key head h // (heads / groups), "
        "which has such columns of w_k and w_v. Scores over sqrt(d), softmax, mean of values; heads side by "
        "side, times w_o; compare with allclose.",
    ), _HAND, "test"),
    Exercise("sight_test", "16", sight_test, (
        "Write down what the output of a word may depend on. For each thing that is not on the list, change "
        "it and look whether the output moves.",
        "The future, the other sentences, what stands at a padded place. Each needs its own pair of calls. "
        "What is in front of a word, and padded, does a word see?",
        "Change the last word by large random numbers, and look at the others; take the last sentence out of "
        "its batch; pad the beginning, of each sentence otherwise, change what stands there, and look at the "
        "words. Ask too whether everything is finite.",
    ), _SIGHT, "test"),
    Exercise("cache_test", "16", cache_test, (
        "What a layer says of a text must not depend on how many calls it is read in. That catches both. "
        "What does N need that G does not?",
        "G hides keys, with places or without. N counts places: where there are none, it counts nothing.",
        "Build the layer with `rotary=False`. `cache = []`, then `layer(x[:, :3], None, cache)`, then the "
        "rest with the same cache; compare with `layer(x)` up to rounding.",
    ), _CACHE, "test"),
    Exercise("line_up", "16", line_up, (
        "The lesson's three tests that catch all together need six calls. Which of those calls ask for the "
        "same thing?",
        "One text in one call, and the same text in two calls with a cache, with padding at the beginning "
        "and other noise at it: what must agree, and for whom would it not? These are three calls.",
        "The fourth call is for those who break no property: one output by hand, with four query heads, two "
        "key heads and `rotary=False`. And who draws numbers in evaluation? Build the first layer with "
        "dropout.",
    ), _ALL, "test"),
)
