"""Lesson 14's exercises on heads that look back: scoring, building and finding them."""

from itertools import combinations, product

import numpy as np

from attnlib.core.masks import causal_mask
from attnlib.core.scaled_dot_product import attention_weights
from attnlib.exercises.answers import as_floats, short
from attnlib.exercises.common import few_digits, in_torch
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, unreadable, wrong

# ------------------------------------------------------------------- a head's score


def _score(weights, tokens, *, pattern="after", rows="with", of="sum", turned=False, circle=False,
           strict=False):  # fmt: skip
    weights = np.swapaxes(weights, -1, -2) if turned else weights
    n = len(tokens)
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    same = (tokens[:, None] == tokens[None, :]) & (j < i)          # (L, L)
    after = np.concatenate([np.zeros((n, 1), bool), same[:, :-1]], 1)
    seen = {
        "after": after,
        "same": same,
        "itself": same | (i == j),
        "before": np.concatenate([same[:, 1:], np.zeros((n, 1), bool)], 1),
        "previous": j == i - 1,
        "last": after & (j == np.where(after, j, -1).max(1, keepdims=True)),
        "first": after & (j == np.where(after, j, n).min(1, keepdims=True)),
        "both_ways": (tokens[:, None] == np.roll(tokens, 1)[None, :]) & (j > 0),
        "next_word": np.concatenate([tokens[1:], [-1]])[:, None] == tokens[None, :],
        "same_next": (np.concatenate([tokens[1:], [-1]])[:, None] == tokens[None, :]) & (j <= i),
    }[pattern]
    if circle:
        seen = seen | ((j == 0) & (tokens[:, None] == tokens[-1]))
    if strict:
        seen = seen & (j < i)
    inside = np.where(seen, weights, 0)                            # (H, L, L)
    chosen = seen.any(-1)
    if of == "largest":
        hits = np.take_along_axis(np.broadcast_to(seen, weights.shape), weights.argmax(-1)[..., None], -1)
        per_row = hits[..., 0] * 1.0
    else:
        per_row = {"sum": inside.sum(-1), "mean": inside.sum(-1) / np.maximum(seen.sum(-1), 1),
                   "max": inside.max(-1)}[of]
    if rows == "pairs":
        return inside.sum((-2, -1)) / max(seen.sum(), 1)
    if rows == "none":
        return inside.sum((-2, -1))
    if rows == "all":
        return per_row.mean(-1)
    if rows == "but_first":
        return per_row[:, 1:].mean(-1)
    if rows == "nan":
        return per_row[:, chosen].sum(-1) / np.float64(chosen.sum())
    return per_row[:, chosen].sum(-1) / max(chosen.sum(), 1)


def _score_cases():
    rng = np.random.default_rng(41)

    def case(name, tokens, heads=2, hint="", whole=False):
        weights = rng.gamma(0.5, size=(heads, len(tokens), len(tokens))) + 1e-3
        weights = weights if whole else np.tril(weights)
        return Case(name, (weights / weights.sum(-1, keepdims=True), np.array(tokens)), hint=hint)

    return [
        case("a text of eight words said twice", [3, 1, 4, 0, 5, 9, 2, 6] * 2, 3,
             "Row 8 holds the word of row 0. Where should the head look: at place 0, or behind it?"),
        case("words that come several times", [7, 2, 7, 5, 7, 2, 2, 5, 7], 2,
             "A word may have been there more than once: all places behind an earlier one count."),
        case("a word twice in a row", [4, 4, 1, 4, 4],
             hint="The word behind the earlier 4 of row 1 is row 1 itself."),
        case("words that never return", [5, 3, 8, 1],
             hint="No row can follow the pattern, and the score is 0."),
        case("weights that also look ahead", [2, 6, 2, 3, 6, 2], whole=True,
             hint="Only what followed an *earlier* place of the word counts."),
        case("one head and seven words", [1, 2, 3, 1, 2, 3, 1], 1),
    ]


induction_score = FunctionExercise(
    _score, _score_cases,
    (
        Mistake("duplicate", "You score weights on the earlier place of the same word. The head is to look "
                "one place further: at what came after it.", {"pattern": "same"}),
        Mistake("duplicate", "You score weights on the same word, the row's own place among them. The head "
                "is to look at what came after its earlier place.", {"pattern": "itself"}),
        Mistake("before_it", "You score weights on what came before the earlier place. Look behind it.",
                {"pattern": "before"}),
        Mistake("previous_word", "You score weights on the word before, which is the other kind of head.",
                {"pattern": "previous"}),
        Mistake("the_answer", "You score weights on the word that comes next. It may stand in other places "
                "too, and a row without an earlier place of its own word cannot know it.",
                {"pattern": "next_word"}),
        Mistake("the_answer", "You score weights on the word that comes next, wherever it stands. What "
                "counts is what followed the row's own word.", {"pattern": "same_next"}),
        Mistake("last_only", "You count the last earlier place alone. A word may have been there more than "
                "once, and what followed any of them counts.", {"pattern": "last"}),
        Mistake("first_only", "You count the first earlier place alone. What followed any of them counts.",
                {"pattern": "first"}),
        Mistake("looks_ahead", "You count later places of the word too. Only earlier ones: j - 1 < i.",
                {"pattern": "both_ways"}),
        Mistake("wrapped", "You shift in a circle: what stood at the end has come to place 0. Nothing comes "
                "before the first word.", {"circle": True}),
        Mistake("not_itself", "You leave the row's own place out. In 4 4 the second 4 has followed a 4: "
                "j = i counts.", {"strict": True}),
        Mistake("all_rows", "You divide by all rows. Those whose word was not there before have no place to "
                "look at, so a perfect head would not score 1.", {"rows": "all"}),
        Mistake("all_rows", "You divide by all rows but the first. Those whose word was not there before "
                "have no place to look at.", {"rows": "but_first"}),
        Mistake("all_pairs", "You divide by the number of marked places. A row's weights sum to 1 however "
                "many places it has: divide by rows.", {"rows": "pairs"}),
        Mistake("not_divided", "You add up and do not divide. Take the mean over the rows that count.",
                {"rows": "none"}),
        Mistake("nothing_to_follow", "Where no word returns you divide by 0. The score is 0 there.",
                {"rows": "nan"}),
        Mistake("mean_in_a_row", "You take the mean over a row's marked places. Add their weights up.",
                {"of": "mean"}),
        Mistake("largest_in_a_row", "You take the largest of a row's marked weights. Add them up.",
                {"of": "max"}),
        Mistake("hits", "You count rows whose largest weight is marked. Their weights are asked for.",
                {"of": "largest"}),
        Mistake("transposed", "You read the map the other way round. A row belongs to a query.",
                {"turned": True}),
    ),  # fmt: skip
    "Checked on words that return once, several times, at once and never, and on maps that also look ahead. "
    "A head that scores high follows the text; it may have learned nothing about any word.",
    properties=(in_torch, few_digits),
)


# ------------------------------------------------------------------- an induction head by hand

N, PLACES = 4, 8
TOKEN, BEFORE, SAID, PLACE = slice(0, 4), slice(4, 8), slice(8, 12), slice(12, 20)
_WIDTH = 20


def _stream(text):
    """The residual stream of a text at its start: (L, 20)."""
    x = np.zeros((len(text), _WIDTH))
    x[np.arange(len(text)), text] = 1
    x[np.arange(len(text)), PLACE.start + np.arange(len(text))] = 1
    return x


def run(qk, ov, x):
    """One layer of one head without a scale: the map, and the stream after it."""
    a = attention_weights(x @ qk, x, causal_mask(len(x)), scale=1.0)
    return a, x + a @ x @ ov


def _known(text):
    """What must be said after the text's last word, or None where it was not there or is ambiguous."""
    after = {text[j + 1] for j in range(len(text) - 1) if text[j] == text[-1]}
    return after.pop() if len(after) == 1 else None


def _texts():
    short_ones = [text for n in (2, 3, 4) for text in product(range(N), repeat=n)]
    rng = np.random.default_rng(7)
    long_ones = [tuple(rng.integers(0, N, n).tolist()) for n in rng.integers(5, PLACES + 1, 100)]
    return [text for text in (*long_ones, *short_ones) if _known(text) is not None]


_PLAIN = [text for text in _texts() if text[0] not in text[1:]]
_ALL = [*_PLAIN, *(text for text in _texts() if text[0] in text[1:])]


def induction_by_hand(answer):
    """Four circuits (20, 20) that make an induction head over two layers."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 4:
        return unreadable("Give four arrays, joined by commas: (qk_0, ov_0, qk_1, ov_1).")
    circuits = []
    for name, given in zip(("qk_0", "ov_0", "qk_1", "ov_1"), answer, strict=True):
        array = as_floats(given)
        if array is None or array.shape != (_WIDTH, _WIDTH):
            return unreadable(f"Let {name} be numbers of shape (20, 20); got {short(given)}.")
        if not np.isfinite(array).all() or np.abs(array).max() > 1000:
            return unreadable(f"Let the numbers of {name} be finite, and none beyond 1000.")
        circuits.append(array)
    failing = next((text for text in _ALL if not _says(circuits, text)), None)
    if failing is None:
        return right(
            "It continues every text whose last word was there before, and knows no word: nothing in it is "
            "about one of the four. One layer could not. A key must carry the word before it, and the word "
            "before stands in another row until a layer has fetched it."
        )
    text, wanted = " ".join("abcd"[t] for t in failing), "abcd"[_known(failing)]
    told = f"The text {text} should go on with {wanted}; you say {_said(circuits, failing)}. "
    name, why = _reason(circuits, failing)
    return wrong(told + why, name)


def _says(circuits, text):
    logits = _logits(circuits, text)
    wanted = _known(text)
    return logits[wanted] - np.delete(logits, wanted).max() >= 0.1


def _logits(circuits, text):
    x = _stream(list(text))
    for qk, ov in (circuits[:2], circuits[2:]):
        x = run(qk, ov, x)[1]
    return x[-1, SAID]


def _said(circuits, text):
    logits = _logits(circuits, text)
    if np.ptp(logits) < 0.1:
        return "all four alike"
    order = np.argsort(-logits)
    if logits[order[0]] - logits[order[1]] < 0.1:
        return f"{'abcd'[order[0]]} and {'abcd'[order[1]]} alike"
    return "abcd"[order[0]]


def _reason(circuits, failing):
    """The first place, from the start of the machine to its end, where it is not what it should be."""
    qk_0, ov_0, qk_1, ov_1 = circuits
    probe = [0, 1, 2, 3, 1, 2, 3, 0]
    x = _stream(probe)
    a, x = run(qk_0, ov_0, x)
    found = _previous(a)
    if found < 0.9:
        if _previous(run(qk_0.T, ov_0, _stream(probe))[0]) > 0.9:
            return "qk_0_turned", ("In layer 0 the key's place asks for the query's. The row of a QK "
                                   "circuit is the query: row of place 3, column of place 2.")
        if (a[1:].argmax(-1) == np.arange(7)).all():
            return "too_soft", (f"Layer 0 looks at the word before with {found:.2f} on average. Make its "
                                "scores larger: a softmax is never quite sure.")
        return "no_previous_word", ("Layer 0 is to look at the word before, whatever it is. Which features "
                                    "of query and key know the place?")
    written, before = x[1:, BEFORE], np.eye(N)[probe[:-1]]
    if (written.argmax(-1) != before.argmax(-1)).any() or np.ptp(written, -1).min() < 0.1:
        if ov_0[BEFORE, TOKEN].any() and not ov_0[TOKEN, BEFORE].any():
            return "ov_0_turned", ("ov_0 moves *before* to *word*. The row of an OV circuit is what is "
                                   "looked at, the column where it goes.")
        if ov_0[TOKEN, TOKEN].any():
            return "overwritten", ("Layer 0 adds the word before to the features of the word itself, and "
                                   "nobody can tell the two apart any more. Four features are free for it.")
        return "not_written", ("Layer 0 looks at the word before, and does not write it into the features "
                               "4 to 7.")
    b, x = run(qk_1, ov_1, x)
    after = _induction(b, probe)
    if after < 0.6:
        if _duplicate(b, probe) > 0.4:
            return "duplicate", ("Layer 1 looks at the same word, and that one only knows itself. Compare "
                                 "the query's word with what a key holds as the word *before* it.")
        if _induction(run(qk_1.T, ov_1, x)[0], probe) > 0.6 or qk_1[BEFORE, TOKEN].any():
            return "qk_1_turned", ("In layer 1 the query gives its word before, and the key its word. It is "
                                   "the other way round that is needed.")
        if (b[4:7].argmax(-1) == np.arange(2, 5)).all():
            return "too_soft", ("Layer 1 looks at the right place, and not enough: many places with a little "
                                "weight say as much as one. Make its scores larger.")
        return "not_found", ("Layer 1 does not look at what came after the earlier place of its word. What "
                             "has layer 0 written there?")
    if failing[0] in failing[1:]:
        return "first_place", (
            "It fails where the first word returns. The first row has no word before it: a softmax makes "
            "it look at itself, so it holds its own word as the one before. Keep layer 1 away from place 0.")
    if ov_1[TOKEN, SAID].any():
        return "unclear", ("Layer 1 looks at the right place. Compare what it writes into features 8 to 11 "
                           "with the word there.")
    if ov_1[BEFORE, SAID].any():
        return "says_the_word_before", ("Layer 1 looks at the right place and says the word *before* it, "
                                        "which is the one it came with.")
    return "not_said", "Layer 1 looks at the right place. Let it write that word into the features 8 to 11."


def _previous(a):
    return float(np.diagonal(a, -1).mean())


def _induction(a, text):
    return float(_score(a[None], np.array(text))[0])


def _duplicate(a, text):
    return float(_score(a[None], np.array(text), pattern="same")[0])


# ------------------------------------------------------------------- the heads that matter


def _needed(accuracy, n_heads, *, search="smallest", below=0.5, relative=False):
    heads = range(n_heads)
    below = accuracy([]) / 2 if relative else below
    chosen = {
        "smallest": lambda: _smallest(accuracy, heads, below),
        "worst_one": lambda: [min(heads, key=lambda h: accuracy([h]))],
        "any_loss": lambda: [h for h in heads if accuracy([h]) < accuracy([]) - 1e-9],
        "each_alone": lambda: [h for h in heads if accuracy([h]) < below],
        "greedy": lambda: _greedy(accuracy, heads, below),
        "ranked": lambda: _ranked(accuracy, heads, below),
        "in_order": lambda: _in_order(accuracy, heads, below),
        "all_but": lambda: [h for h in heads if accuracy([g for g in heads if g != h]) >= below],
        "backward": lambda: _backward(accuracy, heads, below),
        "pairs": lambda: _smallest(accuracy, heads, below, 2),
        "everything": lambda: [*heads],
    }[search]()
    mask = np.zeros(n_heads, bool)
    mask[chosen] = True
    return mask


def _smallest(accuracy, heads, below, most=None):
    for size in range(1, (most or len(heads)) + 1):
        for some in combinations(heads, size):
            if accuracy(list(some)) < below:
                return list(some)
    return []


def _greedy(accuracy, heads, below):
    chosen = []
    while accuracy(chosen) >= below and len(chosen) < len(heads):
        chosen.append(min((h for h in heads if h not in chosen), key=lambda h: accuracy([*chosen, h])))
    return chosen


def _ranked(accuracy, heads, below):
    order, n = sorted(heads, key=lambda h: accuracy([h])), 1
    while accuracy(order[:n]) >= below and n < len(heads):
        n += 1
    return order[:n]


def _in_order(accuracy, heads, below):
    n = 1
    while accuracy([*heads][:n]) >= below and n < len(heads):
        n += 1
    return [*heads][:n]


def _backward(accuracy, heads, below):
    chosen = [*heads]
    for head in heads:
        without = [h for h in chosen if h != head]
        if accuracy(without) < below:
            chosen = without
    return chosen


def _model(start, losses):
    """An accuracy that falls by a loss for each set of heads that is silenced as a whole."""
    def accuracy(silenced):
        silenced = {int(head) for head in silenced}
        return max(start - sum(loss for heads, loss in losses if set(heads) <= silenced), 0.02)

    return accuracy


def _models():
    def case(name, n_heads, start, losses, hint=""):
        return Case(name, (_model(start, losses), n_heads), hint=hint)

    return [
        case("a model in which one head matters", 6, 0.98, [((2,), 0.8), ((4,), 0.05)],
             "Silence each head alone and look at the accuracy."),
        case("a model with twins", 5, 0.97, [((1, 4), 0.9), ((2,), 0.03), ((0,), 0.02)],
             "Silenced alone, no head costs much. Two of them do the same work."),
        case("a model with a head that costs much and is not needed", 6, 0.96,
             [((5,), 0.3), ((1, 3), 0.6), ((0, 2, 5), 0.3)],
             "The head that costs most alone need not belong to the smallest set."),
        case("a model with triplets", 5, 0.95, [((0, 2, 3), 0.7), ((1,), 0.1), ((4,), 0.05)],
             "A work may be done three times over."),
        case("a model with two ways to fail", 6, 0.97, [((0, 1), 0.6), ((2, 3, 4), 0.6), ((5,), 0.1)],
             "A set from which no head can be spared is not yet the smallest."),
        case("a model that is better without one of its heads", 4, 0.7,
             [((0,), -0.2), ((3,), 0.3), ((1, 2), 0.4)],
             "Silencing may also help. And it is below one half that is asked for, wherever a model starts."),
        case("a model that falls to exactly one half", 4, 0.98, [((0,), 0.48), ((1, 2), 0.6)],
             "Below one half is asked for, and one half is not below it."),
        case("a single head", 1, 0.9, [((0,), 0.8)]),
    ]


def _as_mask(function, accuracy, n_heads):
    """A collection of numbers of heads as a mask; anything else as it is."""
    heads = function(accuracy, n_heads)
    if isinstance(heads, np.ndarray) and heads.dtype == bool and heads.shape == (n_heads,):
        return heads
    try:
        chosen = np.asarray(sorted(heads) if isinstance(heads, (set, frozenset)) else heads)
    except ValueError:
        raise TypeError("one set of heads is asked for, their numbers in a list") from None
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise TypeError("the numbers of the heads are asked for, in a list")
    if chosen.size and not (0 <= chosen.min() and chosen.max() < n_heads):
        raise ValueError(f"heads are counted from 0 to {n_heads - 1}")
    mask = np.zeros(n_heads, bool)
    mask[chosen.astype(int)] = True
    return mask


needed_heads = FunctionExercise(
    _needed, _models,
    (
        Mistake("one_at_a_time", "You give the head that costs most alone. A head with a twin costs nothing "
                "alone: try pairs, then more.", {"search": "worst_one"}),
        Mistake("one_at_a_time", "You give the heads that bring the model below one half alone. Where work "
                "is done twice there is none.", {"search": "each_alone"}),
        Mistake("every_loss", "You give all heads that cost anything. The smallest set that matters is asked "
                "for.", {"search": "any_loss"}),
        Mistake("greedy", "You keep the head that costs most and go on from it. The smallest set need not "
                "contain it: two heads that cost nothing alone may do the same work.", {"search": "greedy"}),
        Mistake("greedy", "You take the heads in the order of what each costs alone. Two heads that cost "
                "nothing alone may do the same work.", {"search": "ranked"}),
        Mistake("in_order", "You silence head after head from the first on. The set is small enough, not the "
                "smallest.", {"search": "in_order"}),
        Mistake("alone_enough", "You leave one head and silence all others. That finds heads that are "
                "enough, not heads that are needed.", {"search": "all_but"}),
        Mistake("backward", "You begin with all heads and give back what you can. What is left cannot be "
                "made smaller, and another set may be smaller still.", {"search": "backward"}),
        Mistake("pairs_only", "You stop at pairs. A work may be done three times over.", {"search": "pairs"}),
        Mistake("everything", "You silence every head. That brings any model down.",
                {"search": "everything"}),
        Mistake("at_one_half", "You take an accuracy of one half for below one half.", {"below": 0.5 + 1e-6}),
        Mistake("half_of_its_own", "You take half of the model's own accuracy. Right in less than half of "
                "all cases is asked for.", {"relative": True}),
    ),  # fmt: skip
    "Found in eight models, with a head alone, twins, triplets and a head that costs much and is not needed. "
    "Sets grow fast: of 12 heads there are 12, then 66 pairs, then 220 triplets. Large models are searched "
    "by other means, and with less certainty.",
    drive=_as_mask,
)


EXERCISES = (
    Exercise(
        "induction_score", "14", induction_score,
        (
            "Row i may look at j if the token before j is the token of row i, and that earlier place lies "
            "before i.",
            "Make a table (L, L) that is True where tokens[j - 1] == tokens[i] and 1 <= j <= i. Which of its "
            "rows have an entry?",
            "Add up the weights where the table is True, and divide by the number of rows that have an "
            "entry; 0 where none has.",
        ),
        """
import numpy as np


def induction_score(weights, tokens):
    n = len(tokens)
    marked = np.zeros((n, n), bool)
    for i in range(n):
        for j in range(1, i + 1):
            marked[i, j] = tokens[j - 1] == tokens[i]
    rows = marked.any(-1).sum()
    return (weights * marked).sum((-2, -1)) / max(rows, 1)
""",
        "function",
    ),
    Exercise(
        "induction_by_hand", "14", induction_by_hand,
        (
            "Layer 0 knows places: the query of place 3 asks for the key of place 2. What it finds there, "
            "the word, it moves into the features *before*.",
            "Layer 1 compares the query's word with the key's word before. What it finds there, the word, "
            "it moves into the features *said*.",
            "The first row looks at itself in layer 0, and so holds its own word as the word before. Let "
            "every query of layer 1 score place 0 low.",
        ),
        """
import numpy as np

qk_0, ov_0, qk_1, ov_1 = np.zeros((4, 20, 20))
word, before, said, place = np.arange(4), np.arange(4, 8), np.arange(8, 12), np.arange(12, 20)
qk_0[place[1:], place[:-1]] = 100              # each place asks for the one before it
ov_0[word, before] = 1                         # and brings its word
qk_1[word, before] = 100                       # a word asks who came after it
qk_1[word, place[0]] = -100                    # but not at place 0, which came after nobody
ov_1[word, said] = 1                           # and says it
answer = (qk_0, ov_0, qk_1, ov_1)
""",
        "construction",
    ),
    Exercise(
        "needed_heads", "14", needed_heads,
        (
            "Try every head alone. If none brings the accuracy below one half, what do you try next?",
            "itertools.combinations(range(n_heads), size) gives all sets of a size. Begin with size 1.",
        ),
        """
from itertools import combinations


def needed_heads(accuracy, n_heads):
    for size in range(1, n_heads + 1):
        for heads in combinations(range(n_heads), size):
            if accuracy(heads) < 0.5:
                return list(heads)
""",
        "function",
    ),
)
