"""The exercises of lesson 13 on trees of words: their questions, their probabilities, and what is none."""

import heapq
from itertools import pairwise

import numpy as np

from attnlib.core.huffman import expected_code_length, huffman_tree
from attnlib.exercises.answers import as_floats
from attnlib.exercises.common import in_torch
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.learner_test import Implementation, LearnerTest
from attnlib.exercises.verdict import right, wrong

# ------------------------------------------------------------- how many questions


def _lengths(counts, join):
    """Steps to each word where ``join`` takes two nodes, (weight, number, words), out of a list."""
    nodes = [(float(count), number, [number]) for number, count in enumerate(counts)]
    lengths, made = np.zeros(len(nodes)), len(nodes)
    if join in ("sorted_once", "in_pairs"):
        nodes.sort()
    elif join in ("smallest", "largest"):
        heapq.heapify(nodes)
    while len(nodes) > 1:
        if join == "smallest":
            a, b = heapq.heappop(nodes), heapq.heappop(nodes)
        elif join == "largest":
            nodes.sort()
            a, b = nodes.pop(), nodes.pop()
        elif join == "from_the_end":
            a, b = nodes.pop(), nodes.pop()
        else:
            a, b = nodes.pop(0), nodes.pop(0)
        node = (a[0] + b[0], made, a[2] + b[2])
        lengths[node[2]] += 1
        made += 1
        if join == "smallest":
            heapq.heappush(nodes, node)
        elif join == "sorted_once":
            nodes.insert(0, node)
        else:
            nodes.append(node)
    return lengths


def _halved(counts):
    """Steps where a sorted list is cut, from the top, into parts that are as equal as can be."""
    lengths, order = np.zeros(len(counts)), np.argsort(-counts, kind="stable")

    def cut(words):
        if len(words) < 2:
            return
        lengths[words] += 1
        below = np.cumsum(counts[words])
        at = 1 + np.abs(2 * below[:-1] - below[-1]).argmin()
        cut(words[:at])
        cut(words[at:])

    cut(order)
    return lengths


def _expected_questions(counts, *, tree="smallest", weigh="right", kind="float"):
    counts = np.asarray(counts, dtype=float)
    n, total = len(counts), counts.sum()
    p = counts / total
    bits = -np.log2(np.where(p > 0, p, 1))
    ranks = np.empty(n)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(1, n + 1)
    lengths = {
        "balanced": lambda: np.full(n, np.log2(n)),
        "balanced_up": lambda: np.full(n, np.ceil(np.log2(n))),
        "balanced_tree": lambda: np.floor(np.log2(n)) + (ranks > 2 ** np.ceil(np.log2(n)) - n),
        "entropy": lambda: bits,
        "nats": lambda: bits * np.log(2),
        "each_rounded": lambda: np.ceil(bits),
        "list_to_the_end": lambda: ranks,
        "halved": lambda: _halved(counts),
    }.get(tree, lambda: _lengths(counts, tree))()
    result = {
        "right": lambda: (p * lengths).sum(),
        "sum": lambda: (counts * lengths).sum(),
        "words": lambda: lengths.mean(),
        "by_words": lambda: (counts * lengths).sum() / n,
        "longest": lambda: lengths.max(),
        "root_left_out": lambda: (p * lengths).sum() - 1,
        "words_counted": lambda: (p * lengths).sum() + 1,
        "upside_down": lambda: (p * (lengths.max() - lengths)).sum(),
        "sorted_apart": lambda: (np.sort(p) * np.sort(lengths)).sum(),
    }[weigh]()
    return {"float": lambda: float(result), "whole": lambda: float(np.round(result)),
            "down": lambda: float(np.floor(result)), "up": lambda: float(np.ceil(result)),
            "lengths": lambda: lengths}[kind]()


_RESORT = (
    "What has been joined is a node like the others and must find its place among them by its count, before "
    "the next two are taken."
)
_QUESTIONS = (
    Mistake("sorted_once", f"You join the two rarest once, then that node with the next word, and so on: "
            f"a chain, which asks for one word after the other. {_RESORT}", {"tree": "sorted_once"}),
    Mistake("sorted_once", f"You take the last two and put their sum back at the end: a chain. {_RESORT}",
            {"tree": "from_the_end"}),
    Mistake("joined_in_turn", f"You put what was joined at the end of the line, however rare it is. "
            f"{_RESORT}",
            {"tree": "in_pairs"}),
    Mistake("joined_in_turn", "You join in the order in which the counts come, and put what was joined at "
            "the end. It is the two rarest nodes that are joined, in each step.", {"tree": "as_they_come"}),
    Mistake("largest_joined", "You join the two most frequent nodes. What is joined first lies deepest, so "
            "join the two rarest.", {"tree": "largest"}),
    Mistake("halved_from_the_top", "You cut the sorted words, from the top, into two parts as equal as can "
            "be (the method of Shannon and Fano). That is often good and not always best. Build from the "
            "bottom.", {"tree": "halved"}),
    Mistake("balanced", "That is log2 of the number of words, whatever their counts. A tree that knows the "
            "counts needs fewer questions.", {"tree": "balanced"}),
    Mistake("balanced", "That is log2 of the number of words, rounded up, whatever their counts. A tree that "
            "knows the counts needs fewer questions.", {"tree": "balanced_up"}),
    Mistake("balanced", "Your tree is balanced, so that no word is more than one question farther than "
            "another. Let rare words lie deeper, and frequent ones nearer.", {"tree": "balanced_tree"}),
    Mistake("entropy", "That is the entropy in bits, below which no tree can go. A tree has whole questions "
            "only: build it.", {"tree": "entropy"}),
    Mistake("entropy", "That is the entropy, rounded up to a whole number. No tree has been built, and an "
            "average need not be whole.", {"tree": "entropy", "kind": "up"}),
    Mistake("entropy", "That is the entropy in nats. No tree has been built, and questions are counted in "
            "bits.", {"tree": "nats"}),
    Mistake("each_rounded", "You give each word -log2 p, rounded up. Such a tree exists, and a better one "
            "does too: rounding up wastes room that Huffman's tree uses.", {"tree": "each_rounded"}),
    Mistake("one_by_one", "You ask for one word after the other, and for the last one too, which nobody has "
            "to ask for. A question may ask for many words at once.", {"tree": "list_to_the_end"}),
    Mistake("not_divided", "That is the sum over all words of the text. On average means: divided by how "
            "many they are, the sum of the counts.", {"weigh": "sum"}),
    Mistake("by_number_of_words", "You divide by the number of different words. On average over the text "
            "means: by the sum of the counts.", {"weigh": "by_words"}),
    Mistake("not_weighted", "You average the lengths with every word counting once. A frequent word is asked "
            "for often: weigh by the counts.", {"weigh": "words"}),
    Mistake("longest", "That is the longest path. The average over the text is asked for.",
            {"weigh": "longest"}),
    Mistake("root_left_out", "It is one too few: a question is missing on every path. Was the last join, "
            "that makes the root, left out?", {"weigh": "root_left_out"}),
    Mistake("words_counted", "It is one too many on every path. Count the questions, and not the word at the "
            "end.", {"weigh": "words_counted"}),
    Mistake("sorted_apart", "Lengths and counts are not in the same order, so rare words get the short "
            "paths. Keep each length with its word.", {"weigh": "sorted_apart"}),
    Mistake("upside_down", "You count from the deepest word upwards. A path is counted from the root.",
            {"weigh": "upside_down"}),
    Mistake("rounded", "It is rounded to a whole number. An average need not be whole.", {"kind": "whole"}),
    Mistake("rounded", "It is rounded down. An average need not be whole: do you divide with //, or give an "
            "int?", {"kind": "down"}),
    Mistake("lengths", "You return the lengths of all paths. Their average over the text is asked for.",
            {"kind": "lengths"}),
)


def _question_cases():
    return [
        Case("counts 40, 24, 14, 12, 7 and 3", (np.array([40, 24, 14, 12, 7, 3]),),
             hint="Do it by hand first: 3 and 7 make 10; then which two are the rarest?"),
        Case("counts in no order, 9 3 31 14 5 20 and 1", (np.array([9, 3, 31, 14, 5, 20, 1]),),
             hint="The counts may come in any order."),
        Case("eight words, seen once each", (np.ones(8, int),), hint="Two questions would be four words."),
        Case("two words", (np.array([7, 2]),), hint="One question is enough, whatever the counts."),
        Case("five words of the running sentence", (np.array([1851, 1487, 275, 183, 2]),)),
        Case("three words", (np.array([2, 5, 1]),)),
        Case("probabilities in place of counts", (np.array([0.05, 0.4, 0.3, 0.25]),),
             hint="Nothing in the method needs whole numbers."),
        Case("counts that double", (np.array([64, 32, 16, 8, 4, 2, 1]),)),
        Case("six counts that are nearly equal", (np.array([19, 15, 16, 18, 14, 17]),)),
        Case("a word that was never seen", (np.array([6, 0, 11, 4]),),
             hint="A count of 0 is joined like the others."),
        Case("thirty words whose counts fall like 1/rank", (np.round(5000 / np.arange(1, 31)),)),
        Case("counts of thousands of millions", (np.array([9, 4, 3, 2, 1]) * 10**10,)),
    ]  # fmt: skip


def _between(case, value, expected):
    """A property: not below the entropy, nor above a balanced tree."""
    try:
        value = float(value)
    except (TypeError, ValueError):
        return None
    p = case.args[0] / case.args[0].sum()
    bits = float(-(p[p > 0] * np.log2(p[p > 0])).sum())
    if value < bits - 1e-6:
        return f"The entropy is {bits:.4g} bits, and no tree needs fewer questions than that."
    if value > np.ceil(np.log2(len(p))) + 1e-6:
        return (f"A balanced tree of {len(p)} words needs at most {np.ceil(np.log2(len(p))):.0f} questions, "
                "and the best tree no more.")
    return None


expected_questions = FunctionExercise(
    _expected_questions, _question_cases, _QUESTIONS,
    "Checked on counts in any order, with ties, with a 0, on probabilities, and on two words. Whoever added "
    "up what each join makes has seen why that is enough: a join puts one question more before all the "
    "words below it.",
    properties=(in_torch, _between), rtol=1e-6, atol=1e-9,
)  # fmt: skip


# ------------------------------------------------------------- another text


def other_text(answer):
    """Counts of two texts, in the same order; the tree of the first is to serve the second badly."""
    given = as_floats(answer)
    if given is None or given.shape != (2, 8):
        return wrong("Give two lists of eight numbers each, joined by a comma: (first, second).")
    if not np.isfinite(given).all() or (given != given.round()).any() or given.min() < 1 or given.max() > 1e6:
        return wrong("Let all counts be whole numbers from 1 to a million.")
    for counts, name in zip(given, ("first", "second"), strict=True):
        if any(a <= b for a, b in pairwise(counts)):
            return wrong(f"The counts of the {name} text do not fall from word to word. Both texts have the "
                         "words in the same order, and no two words are equally frequent.", "not_falling")
    first, second = (counts.astype(np.int64) for counts in given)
    tree = huffman_tree(first)
    questions, own = expected_code_length(tree, second), expected_code_length(tree, first)
    told = (f"The first text's tree needs {own:.2f} questions on its own text and {questions:.2f} on the "
            "second. A balanced tree needs 3 on either.")  # fmt: skip
    if questions >= 4:
        return right(
            f"{told} The order of the words is the same in both, and the tree is worse than knowing nothing. "
            "A tree knows how much more frequent a word is; a training text that exaggerates makes it "
            "expensive."
        )
    if ((tree.codes >= 0).sum(-1) == 3).all():
        turned = expected_code_length(huffman_tree(second), first)
        hint = "Which counts make paths long?"
        if turned > 3:
            hint = "Is it the second text that has the steep counts?"
        return wrong(f"{told} Your first text is so even that its tree is the balanced one. {hint}",
                     "first_is_even")
    if questions > 3:
        return wrong(f"{told} That is worse than balanced, and not yet by a whole question. How long can a "
                     "path be with eight words, and how often should the second text go down the long ones?",
                     "not_yet_one_more")
    return wrong(f"{told} The second text still goes down the short paths most of the time. Its counts may "
                 "be far more even than those of the first.", "it_fits")


# ------------------------------------------------------------- a word's probability


def _sigmoid(x):
    return 0.5 * (1 + np.tanh(x / 2))


def _word_probability(
    h, word, nodes, codes, points, *,
    sign="right", padding="cut", turn="right", combine="product", drop="none", rows="right",
    scale="right", of="word",
):  # fmt: skip
    h, nodes = np.asarray(h, dtype=float), np.asarray(nodes, dtype=float)
    if of == "next":
        word = (word + 1) % len(codes)
    if of == "row":
        return float(_sigmoid(nodes[word] @ h))
    if of == "all":
        return np.array([
            _word_probability(h, other, nodes, codes, points, sign=sign, turn=turn)
            for other in range(len(codes))
        ])  # fmt: skip
    code, point = codes[word], points[word]
    if padding == "cut":
        code, point = code[code >= 0], point[point >= 0]
    elif padding == "point_zero_too":
        code, point = code[point > 0], point[point > 0]
    if rows == "in_order":
        point = np.arange(len(code))
    elif rows == "reversed":
        point = point[::-1]
    ends = int(np.argmin(np.append(code > 0, False)))   # the first turn 0, or the end
    code, point = {"none": (code, point), "root": (code[1:], point[1:]), "last": (code[:-1], point[:-1]),
                   "from_turn_zero": (code[:ends], point[:ends])}[drop]  # fmt: skip
    x = nodes[point] @ h
    if scale == "root_of_width":
        x = x / len(h) ** 0.5
    signs = {"right": 1 - 2 * code, "other": 2 * code - 1, "where_one": np.where(code == 1, -1, 1),
             "where_zero": np.where(code == 0, 1, -1)}[sign]  # fmt: skip
    with np.errstate(all="ignore"):
        turns = {
            "right": lambda: _sigmoid(signs * x),
            "always_plus": lambda: _sigmoid(x),
            "always_minus": lambda: _sigmoid(-x),
            "code_times": lambda: _sigmoid(code * x),
            "code_or_nothing": lambda: np.where(code == 1, 1.0, _sigmoid(x)),
            "no_sigmoid": lambda: signs * x,
            "exponential": lambda: np.exp(signs * x),
            "overflow": lambda: np.exp(signs * x) / (1 + np.exp(signs * x)),
            "tanh": lambda: np.tanh(signs * x),
            "epsilon": lambda: _sigmoid(signs * x) + 1e-5,
            "skipped": lambda: np.where(np.abs(x) < 6, _sigmoid(signs * x), 1.0),
            "softmax": lambda: np.exp(x - x.max(initial=0)) / np.exp(x - x.max(initial=0)).sum(),
        }[turn]()
        out = {
            "product": lambda: turns.prod(),
            "sum": lambda: turns.sum(),
            "mean": lambda: turns.mean(),
            "log": lambda: np.log(turns).sum(),
            "bits": lambda: np.log2(turns).sum(),
            "loss": lambda: -np.log(turns).sum(),
            "geometric": lambda: turns.prod() ** (1 / len(turns)),
            "turns": lambda: turns,
            "last_turn": lambda: turns[-1],
            "one_sigmoid": lambda: _sigmoid((signs * x).sum()),
        }[combine]()
    return float(out) if np.ndim(out) == 0 else out


_PADDED = (
    "A short code is padded with -1, and as an index -1 is the last row, which is the root's. Stop at the "
    "word's last turn."
)
_PATH = (
    Mistake("other_sign", "You give turn 1 the sigmoid of +x, as fastText does. Here it is turn 0, as in "
            "word2vec: each vector would have to change its sign.", {"sign": "other"}, convention=True),
    *(Mistake("padding_walked", f"Steps after the word's end are walked too. {_PADDED}", choices)
      for choices in ({"padding": "walked"}, {"padding": "walked", "sign": "where_one"},
                      {"padding": "walked", "sign": "where_zero"})),
    Mistake("node_zero_lost", "A step at node 0 is left out. Node 0 is a node like the others; padding is "
            "-1.", {"padding": "point_zero_too"}),
    Mistake("both_turns_alike", "Every turn has the sigmoid of +x, whichever way it goes. The two turns of a "
            "node must sum to one.", {"turn": "always_plus"}),
    Mistake("both_turns_alike", "Every turn has the sigmoid of -x, whichever way it goes. The two turns of a "
            "node must sum to one.", {"turn": "always_minus"}),
    Mistake("code_as_factor", "You multiply x by the code, 0 or 1, so that turn 0 always has 1/2. The code "
            "says which sign x gets.", {"turn": "code_times"}),
    Mistake("turn_one_is_free", "Turn 1 costs nothing in yours. It has what turn 0 leaves of 1.",
            {"turn": "code_or_nothing"}),
    Mistake("no_sigmoid", "You multiply the products themselves. A turn's probability is the sigmoid of its "
            "product.", {"turn": "no_sigmoid"}),
    Mistake("no_sigmoid", "You multiply exponentials. A turn's probability is the sigmoid, e^x / (1 + e^x).",
            {"turn": "exponential"}),
    Mistake("tanh", "You use tanh, which is negative for half of its inputs. The sigmoid lies between 0 and "
            "1.", {"turn": "tanh"}),
    Mistake("overflow", "For a large product you divide infinity by infinity. 1 / (1 + e^-x) is the same "
            "sigmoid and has no such trouble.", {"turn": "overflow"}),
    Mistake("softmax_on_the_path", "You take a softmax over the nodes of the path. Each node decides alone "
            "between its two turns.", {"turn": "softmax"}),
    Mistake("epsilon", "A small number is added in every step. Then the probabilities of all words sum to "
            "more than one.", {"turn": "epsilon"}),
    Mistake("large_products_skipped", "You leave a node out where its product is 6 or more either way, as "
            "gensim's score does. On the unlikely side that node says: hardly ever.", {"turn": "skipped"}),
    Mistake("added", "You add the turns. To arrive, every single turn must be taken: multiply.",
            {"combine": "sum"}),
    Mistake("averaged", "You average the turns. To arrive, every single turn must be taken: multiply.",
            {"combine": "mean"}),
    Mistake("averaged", "You take the geometric mean of the turns. A long path is less probable than a short "
            "one with the same turns: multiply.", {"combine": "geometric"}),
    Mistake("one_sigmoid", "You add the products and take one sigmoid. Each node decides for itself: a "
            "sigmoid for each, then their product.", {"combine": "one_sigmoid"}),
    Mistake("logarithm", "That is the logarithm. The probability is asked for.", {"combine": "log"}),
    Mistake("logarithm", "That is the logarithm to base 2. The probability is asked for.",
            {"combine": "bits"}),
    Mistake("logarithm", "That is the loss, minus the logarithm. The probability is asked for.",
            {"combine": "loss"}),
    Mistake("turns_returned", "You return the probability of each turn. Multiply them.",
            {"combine": "turns"}),
    Mistake("last_turn", "Only the last turn counts in yours. A loop that overwrites its result?",
            {"combine": "last_turn"}),
    Mistake("root_left_out", "The first turn, at the root, is missing. Every path has it.", {"drop": "root"}),
    Mistake("stops_at_turn_zero", "You stop at the first turn 0. It is -1 that ends a path.",
            {"drop": "from_turn_zero"}),
    Mistake("last_left_out", "The last turn is missing: it decides between two words, or a word and a node.",
            {"drop": "last"}),
    Mistake("points_ignored", "You use the first rows of nodes, one after the other. The row of each step "
            "stands in points.", {"rows": "in_order"}),
    Mistake("leaf_first", "The nodes are taken in reverse, and the codes are not. Both begin at the root.",
            {"rows": "reversed"}),
    Mistake("scaled", "You divide the products by the root of the width, as attention does. Here nothing is "
            "divided.", {"scale": "root_of_width"}),
    Mistake("words_counted_from_one", "That is the probability of the word after it. Words are counted from "
            "0.", {"of": "next"}),
    Mistake("no_path", "You take the row of nodes that bears the word's number, as in a full softmax. Nodes "
            "are inner nodes, one fewer than the words: a word has a path.", {"of": "row"}),
    Mistake("all_words", "You return the probabilities of all words. One word is asked for, and its path is "
            "enough.", {"of": "all"}),
)


def _path_cases():
    seven, two = huffman_tree(np.array([31, 20, 14, 9, 5, 3, 1])), huffman_tree(np.array([2, 1]))
    mixed = huffman_tree(np.array([3, 8, 1, 2, 13]))

    def of(tree, word, width, seed, size=1.0, dtype=float):
        rng = np.random.default_rng(seed)
        h, nodes = rng.normal(size=width), size * rng.normal(size=(len(tree.codes) - 1, width))
        return h.astype(dtype), word, nodes.astype(dtype), tree.codes, tree.points

    return [
        Case("a word of seven, with the longest code", of(seven, 6, 4, 1),
             hint="Write down its turns and its nodes, and multiply by hand."),
        Case("the most frequent word, whose code is short", of(seven, 0, 4, 2), hint=_PADDED),
        Case("a word in the middle", of(seven, 3, 4, 3)),
        Case("five words in no order", of(mixed, 1, 3, 4)),
        Case("as many features as nodes", of(mixed, 4, 4, 5)),
        Case("a word that passes node 0", of(mixed, 2, 3, 6)),
        Case("two words, the frequent one", of(two, 0, 5, 7)),
        Case("two words, the rare one", of(two, 1, 5, 8)),
        Case("nodes that are all zero", of(seven, 4, 4, 9, 0.0),
             hint="Every turn is even then, so only the length of the code counts."),
        Case("products of ten and more", of(seven, 5, 4, 10, 6.0)),
        Case("products near a thousand", (np.array([1000.0]), 0, np.array([[1.0]]), two.codes, two.points),
             hint="The result is between 0 and 1 for any product."),
        Case("the same, the other way", (np.array([1000.0]), 1, np.array([[1.0]]), two.codes, two.points)),
        Case("float32", of(seven, 2, 4, 11, dtype=np.float32)),
    ]  # fmt: skip


def _above_one(case, value, expected):
    try:
        value = float(value)
    except (TypeError, ValueError):
        return None
    return None if 0 <= value <= 1 else "A probability lies between 0 and 1."


word_probability = FunctionExercise(
    _word_probability, _path_cases, _PATH,
    "Checked on short and long codes, on two words, with nodes of zeros, and with products of a thousand. As "
    "many products as the code is long, and no other word was looked at.",
    properties=(in_torch, _above_one), rtol=1e-4, atol=1e-9,
)  # fmt: skip


# ------------------------------------------------------------- what is no distribution

_COUNTS = np.array([29, 11, 7, 5, 3, 2, 1])


def _model(width, how, counts=_COUNTS, dtype=float):
    """Probabilities of all words as a function of h, from fixed vectors, computed in one of several ways."""
    tree, rng = huffman_tree(counts), np.random.default_rng(width)
    rows = rng.normal(size=(len(counts) - (how != "full"), width)).astype(dtype)
    codes, points, used = tree.codes, tree.points, tree.codes >= 0
    if how == "last_missing":
        used = used & np.append(used[:, 1:], np.zeros((len(used), 1), bool), axis=1)
    elif how == "root_again":
        used = used | (np.arange(used.shape[1]) == used.sum(-1, keepdims=True))     # one step of padding

    def prob(h):
        h = np.asarray(h, dtype=dtype)
        if h.shape != (width,):
            raise ValueError(f"h must have shape ({width},); got {h.shape}")
        with np.errstate(all="ignore"):
            x = rows @ h
            if how == "full":
                e = np.exp(x - x.max())
                return e / e.sum()
            x = x[points]                                       # (V, steps)
            signed = np.where(codes == 1, -x, x)
            turns = {
                "fasttext": lambda: _sigmoid(-signed),
                "both_plus": lambda: _sigmoid(x),
                "skipped": lambda: np.where(np.abs(x) < 6, _sigmoid(signed), 1.0),
                "epsilon": lambda: _sigmoid(signed) + 1e-5,
                "overshoots": lambda: 0.5 + 0.6 * np.tanh(signed / 2),
                "overflow": lambda: np.exp(signed) / (1 + np.exp(signed)),
            }.get(how, lambda: _sigmoid(signed))()
            return np.where(used, turns, 1).prod(-1)

    return prob


# Name: how it computes, whether it is wrong, the mistake of a test that is fooled, and what is to be said.
_IMPLEMENTATIONS = {
    "word2vec's signs": ({"how": "right"}, False, "clean", "is right: each node divides what reaches it."),
    "fastText's signs": (
        {"how": "fasttext"}, False, "other_sign",
        "is right: with the other sign the two turns of a node still sum to one. Do not compare with a "
        "computation of your own."),
    "a balanced tree": (
        {"how": "right", "counts": np.ones(8)}, False, "other_tree",
        "is right. Any tree will do, and any number of words."),
    "a full softmax": (
        {"how": "full"}, False, "no_tree", "is right, and has no tree. Look at its numbers alone."),
    "float32": (
        {"how": "right", "dtype": np.float32}, False, "rounding",
        "is right, and rounds to seven digits. Leave room for that: a millionth."),
    "the last turn is left out": (
        {"how": "last_missing"}, True, "always_wrong",
        "is wrong for every h: its numbers sum to far more than one."),
    "both turns have the sigmoid of +x": (
        {"how": "both_plus"}, True, "zeros_only",
        "is wrong, but not for h = 0: there the sigmoid is 1/2 either way."),
    "a node is left out where its product is 6 or more": (
        {"how": "skipped"}, True, "small_states",
        "is wrong, but only for h whose products reach 6 (gensim's score leaves them out). How large are "
        "the h that you try?"),
    "e^x / (1 + e^x)": (
        {"how": "overflow"}, True, "huge_states",
        "is wrong for products beyond 709: e^x is infinite there, and the result is NaN. A comparison with "
        "NaN is False, so it may slip through a test that compares."),
    "a curve that overshoots in place of the sigmoid": (
        {"how": "overshoots"}, True, "negative",
        "is wrong: its numbers sum to one for every h, and for large ones some of them are negative."),
    "1e-5 is added in every turn": (
        {"how": "epsilon"}, True, "too_much_room",
        "is wrong by a few in a hundred thousand (fastText adds it too). Your test leaves too much room."),
    "short codes are padded and walked on": (
        {"how": "root_again"}, True, "padding",
        "is wrong: after a short code's last turn it goes on at the root. Its numbers sum to less than one."),
}  # fmt: skip


def _implementation(name, width):
    how, faulty, mistake, told = _IMPLEMENTATIONS[name]
    prob = _model(width, **how)
    return Implementation(name, lambda: (prob, width), faulty, mistake, told)


not_probabilities = LearnerTest(
    tuple(_implementation(name, width) for width in (4, 7) for name in _IMPLEMENTATIONS),
    {
        True: ("all_faulty", "You call all twelve wrong. Five are right. Does your test leave room for "
               "rounding, in the sum, and down to 0? Does it ask for nothing but the properties of "
               "probabilities?"),
        False: ("all_fine", "You call all twelve right. Seven are wrong. One of them sums to far more than "
                "one for every h: begin with that."),
    },
    "All twelve judged rightly, in two widths, by two properties: nothing negative, and a sum of one, within "
    "rounding, for zero, ordinary, large and huge states.",
)  # fmt: skip

_TEST = """
import numpy as np


def not_probabilities(prob, width):
    rng = np.random.default_rng(0)
    states = [np.zeros(width)]
    states += [size * rng.normal(size=width) for size in (0.1, 1, 10, 1000, 1e5) for _ in range(20)]
    for h in states:
        p = prob(h)
        if not (p >= 0).all() or not abs(p.sum() - 1) < 2e-6:          # NaN fails either
            return True
    return False


answer = not_probabilities
"""

EXERCISES = (
    Exercise(
        "expected_questions", "13", expected_questions,
        (
            "Keep a list of nodes. At first each word is one, with its count. A step takes the two rarest "
            "out and puts their sum in.",
            "You need no tree. Each join puts one question before everything below it, and what lies below "
            "it was seen as often as the joined count says. So what do all joins together add up to?",
            "Add up the counts of all joined nodes, the root too, and divide by the count of all words. "
            "Python's heapq gives the rarest node quickly; sorting the list anew in each step will do.",
        ),
        '''\
import heapq


def expected_questions(counts):
    nodes = [float(count) for count in counts]
    heapq.heapify(nodes)
    questions = 0.0
    while len(nodes) > 1:
        joined = heapq.heappop(nodes) + heapq.heappop(nodes)
        questions += joined                     # one question more for everything below
        heapq.heappush(nodes, joined)
    return questions / nodes[0]                 # what is left is the root, with the count of all words
''',
        "function",
    ),
    Exercise(
        "other_text", "13", other_text,
        (
            "What do counts look like whose tree has the longest paths that eight words can have?",
            "Where each word is more frequent than all rarer ones together, the tree is a chain: 1, 2, 3, "
            "... questions. What should the second text be like, to go down the long paths often?",
            "Let the first text's counts double from word to word. The second must fall too, but it may fall "
            "by 1 from word to word, and from a large number.",
        ),
        "# A chain of 1, 2, ... 7, 7 questions, and a text in which all words are nearly as frequent.\n"
        "answer = ([128, 64, 32, 16, 8, 4, 2, 1], [108, 107, 106, 105, 104, 103, 102, 101])",
        "construction",
    ),
    Exercise(
        "word_probability", "13", word_probability,
        (
            "Take the word's row of codes and its row of points. How many of their entries belong to the "
            "path?",
            "At each step x is the product of the node's vector with h. Turn 0 has sigmoid(x). What is left "
            "for turn 1, and how can it be written as a sigmoid too?",
            "Keep the entries that are not -1; the sign is 1 - 2 * code; multiply the sigmoids.",
        ),
        '''\
import numpy as np


def word_probability(h, word, nodes, codes, points):
    used = codes[word] >= 0                                     # the rest is padding
    signs = 1 - 2 * codes[word][used]                           # turn 0: +1, turn 1: -1
    x = signs * (nodes[points[word][used]] @ h)
    with np.errstate(over="ignore"):                            # e^1000 is infinite, and 1 / inf is 0
        return float(np.prod(1 / (1 + np.exp(-x))))
''',
        "function",
    ),
    Exercise(
        "not_probabilities", "13", not_probabilities,
        (
            "Which two things are true of the probabilities of all words, whatever computes them?",
            "Many faults hide at h = 0, where each sigmoid is 1/2, and for small h. Try h of many sizes, up "
            "to very large ones.",
            "How far from 1 may a sum be that is computed with seven digits? And what does a comparison with "
            "NaN give? Ask whether it is right, and turn the answer round.",
        ),
        _TEST,
        "test",
    ),
)
