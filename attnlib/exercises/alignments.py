"""Alignments, of lesson 11: how wrong one is, how it is read off a map, and a map that is none."""

import numpy as np

from attnlib.exercises.answers import as_floats, short
from attnlib.exercises.common import in_torch, unpacked
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, unreadable, wrong

# ------------------------------------------------------------------- alignment error rate


def _error_rate(found, sure, possible, *, how="right", over="all", form="error", links="right"):
    sentences = [*zip(found, sure, possible, strict=True)]
    if links == "turned":
        sentences = [({(j, i) for i, j in a}, s, p) for a, s, p in sentences]
    elif links == "more_than_sure":
        sentences = [(a, s, p - s) for a, s, p in sentences]
    elif links == "kinds_exchanged":
        sentences = [(a, p, s) for a, s, p in sentences]
    if over == "first":
        sentences = sentences[:1]
    elif over == "last":
        sentences = sentences[-1:]
    elif over == "pooled":
        sentences = [tuple(frozenset().union(*sets) for sets in zip(*sentences, strict=True))]
    if over == "mean":
        rates = [_rate(np.array(_counts(*one)), how) for one in sentences]
        rate = float(np.mean(rates)) if rates else 0.0
    elif over == "mean_of_found":
        rates = [_rate(np.array(_counts(*one)), how) for one in sentences if one[0]]
        rate = float(np.mean(rates)) if rates else 0.0
    else:
        rate = _rate(np.array([_counts(*one) for one in sentences]).sum(0), how)
    rate = {"error": rate, "score": 1 - rate, "percent": 100 * rate, "rounded": round(rate, 2),
            "whole": 1.0 if 0 < rate < 1 else rate}[form]  # fmt: skip
    return np.float64(rate)


def _counts(a, s, p):
    """|A|, |S|, |P|, |A ∩ S|, |A ∩ P|, |A ∪ S|."""
    return len(a), len(s), len(p), len(a & s), len(a & p), len(a | s)


def _rate(counts, how):
    a, s, p, a_s, a_p, union = (float(n) for n in counts)
    precision, recall = (a_p / a if a else 0.0), (a_s / s if s else 0.0)
    errors = a - a_p + s - a_s
    return float({
        "right": lambda: 1 - (a_s + a_p) / (a + s),
        "precision": lambda: 1 - precision,
        "precision_of_sure": lambda: 1 - (a_s / a if a else 0),
        "recall": lambda: 1 - recall,
        "recall_of_possible": lambda: 1 - a_p / p,
        "mean_of_two": lambda: 1 - (precision + recall) / 2,
        "harmonic": lambda: 1 - (2 * precision * recall / (precision + recall) if precision + recall else 0),
        "product": lambda: 1 - precision * recall,
        "sure_alone": lambda: 1 - 2 * a_s / (a + s),
        "possible_alone": lambda: 1 - 2 * a_p / (a + p),
        "possible_twice": lambda: 1 - 2 * a_p / (a + s),
        "possible_below": lambda: 1 - (a_s + a_p) / (a + p),
        "all_below": lambda: 1 - (a_s + a_p) / (a + s + p),
        "found_below": lambda: 1 - (a_s + a_p) / (2 * a) if a else 1.0,
        "union_below": lambda: 1 - (a_s + a_p) / union,
        "jaccard": lambda: 1 - a_s / union,
        "counted": lambda: errors,
        "errors_of_possible": lambda: errors / p,
        "errors_of_sure": lambda: errors / s if s else float(errors > 0),
        "errors_of_found": lambda: errors / a if a else float(errors > 0),
        "errors_of_either": lambda: errors / union,
        "errors_of_all": lambda: errors / (a + s + p),
        "wrong_alone": lambda: (a - a_p) / (a + s),
        "missing_alone": lambda: (s - a_s) / (a + s),
        "possible_missing": lambda: (a + p - 2 * a_p) / (a + s),
        "two_rates": lambda: 2 - precision - recall,
    }[how]())  # fmt: skip


def _sets(*sentences):
    """Three tuples: found, sure and possible links of each sentence; the possible include the sure."""
    found, sure, more = ([frozenset(links) for links in kind] for kind in zip(*sentences, strict=True))
    return found, sure, [s | p for s, p in zip(sure, more, strict=True)]


_CASES = (
    ("one sentence, with four links found", [
        ({(0, 0), (1, 1), (2, 3), (4, 2)}, {(0, 0), (1, 1), (2, 2)}, {(2, 3), (3, 3), (0, 1)}),
    ], "Which found links are not even possible? Which sure ones are missing?"),
    ("two sentences of different length", [
        ({(0, 0), (1, 1)}, {(0, 0)}, {(1, 0)}),
        ({(0, 0), (1, 2), (2, 1), (3, 3), (4, 4), (5, 4)},
         {(0, 0), (1, 2), (2, 1), (3, 3), (4, 5)}, {(5, 4)}),
    ], "Is a link of a short sentence worth more than one of a long sentence?"),
    ("two sentences that have a link in common", [
        ({(0, 0), (1, 2)}, {(0, 0), (1, 1)}, set()),
        ({(0, 0), (1, 1), (2, 2)}, {(0, 0), (1, 1), (2, 3)}, {(2, 2)}),
    ], "(0, 0) of one sentence is another link than (0, 0) of the next."),
    ("everything found that is sure", [({(0, 1), (1, 0)}, {(0, 1), (1, 0)}, {(2, 0)})],
     "Nothing found is wrong and nothing sure is missing."),
    ("a possible link found in place of nothing", [({(0, 0), (1, 1), (2, 1)}, {(0, 0), (1, 1)}, {(2, 1)})],
     "A possible link that is found costs nothing."),
    ("nothing right", [({(0, 1), (2, 2)}, {(0, 0), (1, 1)}, {(1, 2)})], "Then the rate is 1."),
    ("three sentences, in one of which nothing was found", [
        (set(), {(0, 0)}, {(1, 0)}), ({(0, 0), (1, 1)}, {(0, 0), (1, 1), (2, 2)}, set()),
        ({(1, 0)}, {(0, 1)}, {(1, 0), (1, 1)}),
    ], "What is not found is missing, and counts among the sure ones."),
    ("a sentence without sure links", [
        ({(0, 0), (1, 1)}, set(), {(0, 0)}), ({(0, 1)}, {(0, 1)}, {(0, 0)}),
    ], "What is found there is right where it is possible."),
)  # fmt: skip

alignment_error_rate = FunctionExercise(
    _error_rate,
    lambda: [Case(name, tuple(map(list, _sets(*sentences))), hint=hint) for name, sentences, hint in _CASES],
    (
        Mistake("sure_and_possible_swapped", "Sure and possible are exchanged: you divide by found plus "
                "possible. Only what is sure can be missed.", {"links": "kinds_exchanged"}),
        Mistake("precision_only", "You ask how many of the found links are possible, and never whether a "
                "sure one is missing. A map with a single safe link would be "
                "perfect.", {"how": "precision"}),
        Mistake("recall_only", "You ask how many of the sure links are found, and never whether something "
                "wrong is found. Whoever links everything with everything would be "
                "perfect.", {"how": "recall"}),
        Mistake("precision_of_sure", "You ask how many of the found links are sure. A found link that is "
                "possible is not wrong, and a sure one may be missing.", {"how": "precision_of_sure"}),
        Mistake("recall_only", "You ask how many of the possible links are found. Possible ones need not be.",
                {"how": "recall_of_possible"}),
        Mistake("sure_alone", "Possible links do not count in your sum. A found link that is possible is no "
                "mistake.", {"how": "sure_alone"}),
        *(Mistake("possible_alone", "You treat every possible link as one that must be found.", {"how": how})
          for how in ("possible_alone", "possible_twice", "possible_missing")),
        Mistake("precision_only", "You count what is found and wrong, and not what is sure and missing.",
                {"how": "wrong_alone"}),
        Mistake("recall_only", "You count what is sure and missing, and not what is found and wrong.",
                {"how": "missing_alone"}),
        Mistake("possible_without_sure", "You count as possible what is not sure. Every sure link is "
                "possible too: a sure one that is found counts in both "
                "terms.", {"links": "more_than_sure"}),
        *(Mistake("denominator", "The numerator is right. Below it stand the found and the sure links, |A| "
                                 "+ |S|.",
                  {"how": how}) for how in ("all_below", "found_below", "union_below")),
        *(Mistake("denominator", "The errors are counted rightly. Below them stand the found and the sure "
                                 "links, |A| + |S|, one that is both counted twice.", {"how": how})
          for how in ("errors_of_possible", "errors_of_sure", "errors_of_found", "errors_of_either",
                      "errors_of_all")),
        *(Mistake("mean_of_two", "You put precision and recall together in another way. The rate adds what "
                  "is counted above and below the line, and divides once.", {"how": how})
          for how in ("mean_of_two", "harmonic", "product", "two_rates")),
        Mistake("shared_of_all", "You divide what is in both by what is in either. That knows one kind of "
                "link; here there are two.", {"how": "jaccard"}),
        Mistake("not_divided", "You count the mistakes. Divide them by the found and the sure links "
                               "together.",
                {"how": "counted"}),
        Mistake("score_not_error", "That is the part that is right. The rate of errors is what is left of 1.",
                {"form": "score"}),
        Mistake("percent", "You give percent. The rate lies between 0 and 1.", {"form": "percent"}),
        Mistake("rounded", "You round the result.", {"form": "rounded"}),
        Mistake("whole_division", "You divide with // and lose the fraction.", {"form": "whole"}),
        *(Mistake("mean_of_sentences", "You take a rate for each sentence and the mean of the rates. So a "
                  "link of a short sentence weighs more. Add up the counts of all sentences, and divide "
                  "once.",
                  {"over": how}) for how in ("mean", "mean_of_found")),
        Mistake("pooled", "You throw the links of all sentences into one set. (0, 0) of two sentences is "
                "then counted once, and a link of one is found in another.", {"over": "pooled"}),
        Mistake("one_sentence", "Only the first sentence counts. Does a return stand in the loop?",
                {"over": "first"}),
        Mistake("one_sentence", "Only the last sentence counts. Are the counts begun anew in the loop?",
                {"over": "last"}),
        Mistake("links_turned", "The found links are turned round before they are compared. They come as "
                "(source, target), as the gold ones do.", {"links": "turned"}),
    ),
    "Checked on one sentence and on several, of different length, with links in common, with nothing "
    "found, with nothing sure. What is found and not possible is wrong, what is sure and not found is "
    "missing, and all else is forgiven.",
    rtol=1e-6, atol=1e-9,
)  # fmt: skip

# ------------------------------------------------------------------- reading a map


def _written(weights, n_source, *, rows="right", heads="mean", axis="source", columns="right", pick="most",
             form="index"):  # fmt: skip
    if weights.ndim == 2:
        weights = weights[None]
    unpacked(weights.shape, 3)
    if columns == "right":
        weights = weights[:, :, :n_source]
    elif columns == "one_less":
        weights = weights[:, :, : max(n_source - 1, 1)]
    elif columns == "first_out":
        weights = weights[:, :, 1:n_source] if n_source > 1 else weights[:, :, :n_source]
    elif columns == "last_out":
        weights = weights[:, :, :-1]
    taken = {
        "right": lambda w: w[:, :-1], "read": lambda w: w[:, 1:], "all": lambda w: w,
        "both_ends": lambda w: w[:, 1:-1], "backwards": lambda w: w[:, :-1][:, ::-1],
        "rolled": lambda w: np.roll(w, 1, 1)[:, :-1],
    }[rows](weights)  # fmt: skip
    if axis == "target":
        return taken.mean(0).argmax(0)
    best = np.argmin if pick == "least" else np.argmax
    if heads == "each":
        return taken.argmax(-1)
    if heads == "vote":
        each = best(taken, -1)
        out = np.array([np.bincount(column).argmax() for column in each.T])
    else:
        joined = {
            "mean": lambda w: w.mean(0), "first": lambda w: w[0], "last": lambda w: w[-1],
            "largest": lambda w: w.max(0), "product": lambda w: w.prod(0), "least": lambda w: w.min(0),
        }[heads](taken)  # fmt: skip
        if form == "weights":
            return joined.max(-1)
        if pick == "centre":
            place = np.arange(joined.shape[-1])
            out = np.rint((joined * place).sum(-1) / joined.sum(-1)).astype(int)
        elif pick == "last_of_ties":
            out = joined.shape[-1] - 1 - joined[:, ::-1].argmax(-1)
        else:
            out = best(joined, -1)
    return {
        "index": lambda: out, "from_one": lambda: out + 1, "floats": lambda: out.astype(float),
        "pairs": lambda: np.stack([out, np.arange(len(out))], -1), "column": lambda: out[:, None],
        "pairs_target_first": lambda: np.stack([np.arange(len(out)), out], -1),
        "weights": lambda: out,
    }[form]()  # fmt: skip


def _maps(seed, heads, n, source, behind, size=3.0):
    """Weights (heads, n + 1, source + behind) of which no two means in a row are alike."""
    scores = np.random.default_rng(seed).normal(size=(heads, n + 1, source + behind)) * size
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _maps_cases():
    behind = (
        "Columns from n_source on are the end sign and padding. No word of the translation comes from there."
    )
    high = _maps(5, 2, 5, 4, 2)
    high[:, :, 4] += 2                                     # the end sign takes the most
    disagree = np.array([
        [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]],
        [[0.0, 0.9, 0.1], [0.6, 0.3, 0.1]],
        [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]],
    ])
    return [
        Case("one head, 4 written words, 5 source words", (_maps(1, 1, 4, 5, 0), 5),
             hint="Row t is the step that has read word t and writes the next one. Which row wrote the "
                  "first?"),
        Case("two heads", (_maps(2, 2, 5, 6, 0), 6),
             hint="Take the mean over the heads first, and the largest weight of the mean then."),
        Case("three heads and an end sign", (_maps(3, 3, 6, 5, 1), 5), hint=behind),
        Case("an end sign that takes the most", (high / high.sum(-1, keepdims=True), 4), hint=behind),
        Case("as many written words as source words", (_maps(8, 2, 4, 4, 3), 4), hint=behind),
        Case("a single source word", (_maps(6, 2, 3, 1, 2), 1), hint="Then it is 0 throughout."),
        Case("a single written word", (_maps(7, 4, 1, 6, 1), 6), hint="The result has one entry, in an "
                                                                      "array."),
        Case("heads that disagree", (disagree, 3),
             hint="The mean decides, not the number of heads and not the loudest one."),
    ]  # fmt: skip


written_links = FunctionExercise(
    _written, _maps_cases,
    (
        Mistake("read_for_written", "You read row t as word t. Row t has word t for its query, the word "
                "that was read, and writes the word after it. The first row has only the start sign, and "
                "it wrote the first word.", {"rows": "read"}),
        Mistake("end_counted", "There is one row too many: the last step writes the end sign, which is no "
                               "word.",
                {"rows": "all"}),
        Mistake("read_for_written", "The first row and the last are left out. The first has read the start "
                "sign, and wrote the first word.", {"rows": "both_ends"}),
        Mistake("shifted_back", "The rows are moved the other way. The first row wrote the first word.",
                {"rows": "rolled"}),
        Mistake("backwards", "The words come out in reverse order.", {"rows": "backwards"}),
        Mistake("first_head", "You read the first head alone. Take the mean over the "
                              "heads.", {"heads": "first"}),
        Mistake("first_head", "You read the last head alone. Take the mean over the "
                              "heads.", {"heads": "last"}),
        Mistake("heads_apart", "You have a word for each head. Take the mean of the weights over the heads "
                "first.", {"heads": "each"}),
        Mistake("heads_vote", "Each head has one vote in yours, however sure it is. Take the mean of the "
                "weights first.", {"heads": "vote"}),
        Mistake("loudest_head", "The head with the largest weight decides in yours. Take the mean of all.",
                {"heads": "largest"}),
        *(Mistake("loudest_head", "You join the heads otherwise than by their mean.", {"heads": how})
          for how in ("product", "least")),
        Mistake("end_sign_linked", "You look at all columns. Those from n_source on are the end sign and "
                                   "padding.",
                {"columns": "all"}),
        Mistake("end_sign_linked", "You leave out the last column. n_source says how many are words.",
                {"columns": "last_out"}),
        Mistake("columns_counted", "The last source word is never found: a slice ends one too early.",
                {"columns": "one_less"}),
        Mistake("columns_counted", "The first source word is left out, and all others are counted one too "
                                   "low.",
                {"columns": "first_out"}),
        Mistake("over_targets", "You look for the best row of each column. Every written word has a source "
                "word, and a source word may have none.", {"axis": "target"}),
        Mistake("least_weight", "You take the least weight.", {"pick": "least"}),
        Mistake("centre_of_weight", "You take the centre of the weights. Between two words far apart there "
                "lies a third that has none.", {"pick": "centre"}),
        Mistake("from_one", "You count source words from 1. Indices begin at 0.", {"form": "from_one"}),
        Mistake("weights_given", "You give the weights. Their places are asked for.", {"form": "weights"}),
        *(Mistake("pairs", "You give pairs. One index for each written word is asked for, in their order.",
                  {"form": how}) for how in ("pairs", "pairs_target_first")),
        Mistake("column", "The result has an axis too many.", {"form": "column"}),
    ),
    "Checked with one head and several, with an end sign that takes the most, and with heads that "
    "disagree. A row of a decoder's map belongs to the word that it writes.",
    properties=(in_torch,),
)  # fmt: skip

# ------------------------------------------------------------------- two maps, one translation

_GOLD = ("苹果", "甜")
_MIXED = "To move weight and keep the mean, the values must allow it: can one of them be mixed of others?"


def two_maps(answer):
    """Two maps (2, 3) and values (3, 2): the same right translation, and one of the maps is no alignment."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 3:
        return unreadable("Give three things, joined by commas: (aligned, other, values).")
    aligned, other, values = (as_floats(part) for part in answer)
    parts = (("aligned", aligned, (2, 3)), ("other", other, (2, 3)), ("values", values, (3, 2)))
    for (name, array, shape), raw in zip(parts, answer, strict=True):
        if array is None or array.shape != shape:
            return unreadable(f"Let {name} be numbers of shape {shape}; got {short(raw)}.")
        if not np.isfinite(array).all() or np.abs(array).max() > 1e6:
            return unreadable(f"Let the numbers of {name} be finite, and none beyond a million.")
    for name, weights, _ in parts[:2]:
        if weights.min() < 0:
            return wrong(f"There is a negative weight in {name}. A softmax gives none.", "negative")
        if np.abs(weights.sum(-1) - 1).max() > 1e-6:
            at = int(np.abs(weights.sum(-1) - 1).argmax())
            return wrong(f"Row {at} of {name} sums to {weights[at].sum():.4g}. A row of weights sums to 1.",
                         "rows_do_not_sum")
    for step, word in enumerate(_GOLD):
        if not _strictly_largest(aligned[step], step):
            return wrong(f"In aligned, row {step} must have its largest weight on {word}, by 0.01 or more; "
                         f"it is {aligned[step].tolist()}.", "aligned_is_not")
    outputs = aligned @ values, other @ values
    if np.abs(outputs[0] - outputs[1]).max() > 1e-6 * max(1, np.abs(values).max()):
        at = int(np.abs(outputs[0] - outputs[1]).max(-1).argmax())
        told = _MIXED
        if np.abs(np.argsort(outputs[0]) - np.argsort(outputs[1])).max() == 0:
            told = f"Both would translate alike, and the outputs are to be equal. {told}"
        return wrong(f"Row {at}: {outputs[0][at].round(4).tolist()} from aligned, "
                     f"{outputs[1][at].round(4).tolist()} from other. {told}", "outputs_differ")
    for step, word in enumerate(("apple", "sweet")):
        if outputs[0][step, step] - outputs[0][step, 1 - step] < 0.01:
            alike = " If all values are alike, nothing can be told." * bool(np.ptp(values, 0).max() < 1e-9)
            return wrong(f"Step {step} must write {word}: its output {outputs[0][step].round(4).tolist()} "
                         f"needs its largest number at place {step}, by 0.01 or more."
                         + alike, "wrong_translation")
    for step, word in enumerate(_GOLD):
        if other[step].argmax() == step or other[step].max() - other[step, step] < 0.01:
            return wrong(f"In other, row {step} has its largest weight on {word}, or shares it: that would "
                         "still be read as the alignment. Take more away from it.", "other_is_aligned")
    return right(
        "The same outputs, the same translation, and of the two maps only one is the alignment. A map "
        "tells how a mean was made, and the same mean can be made in more ways than one wherever some "
        "value is a mixture of others. An encoder mixes all the time."
    )


def _strictly_largest(row, place):
    return row[place] - np.delete(row, place).max() >= 0.01


EXERCISES = (
    Exercise(
        "alignment_error_rate", "11", alignment_error_rate,
        (
            "For one sentence: how many found links are not even possible? How many sure ones are missing? "
            "Those are the errors.",
            "Errors divided by |A| + |S| are the same as 1 - (|A and S| + |A and P|) / (|A| + |S|). Sets "
            "have & for what is in both.",
            "For several sentences add up numerators and denominators, each in its sentence, and divide "
            "once at the end.",
        ),
        """def alignment_error_rate(found, sure, possible):
    right, all_of_them = 0, 0
    for a, s, p in zip(found, sure, possible, strict=True):
        right += len(a & s) + len(a & p)
        all_of_them += len(a) + len(s)
    return 1 - right / all_of_them""",
        "function",
    ),
    Exercise(
        "written_links", "11", written_links,
        (
            "The decoder reads the start sign, and writes the first word. Which row of the map is that step?",
            "There are n + 1 rows, and the last one writes the end sign. There are columns behind n_source "
            "that are no words.",
            "Mean over the heads, rows without the last, columns up to n_source; then the largest along "
            "each row.",
        ),
        """def written_links(weights, n_source):
    mean = weights.mean(0)                         # (n + 1, S) over the heads
    return mean[:-1, :n_source].argmax(-1)         # (n,) row t wrote word t + 1 of what was read""",
        "function",
    ),
    Exercise(
        "two_maps", "11", two_maps,
        (
            "Let the value of the comma be the mean of the two others. Which two ways are there, then, to "
            "make their mean?",
            "With values (2, 0), (0, 2) and (1, 1): give 苹果 some weight and 甜 less. Where both have "
            "weight, how much can be moved to the comma without changing the output?",
            "Row 0 of aligned: 0.7, 0.3, 0. Take 0.3 from each of the two words and give 0.6 to the comma.",
        ),
        """aligned = [[0.7, 0.3, 0.0], [0.3, 0.7, 0.0]]
other = [[0.4, 0.0, 0.6], [0.0, 0.4, 0.6]]
values = [[2, 0], [0, 2], [1, 1]]                  # the comma's value is the mean of the others
answer = (aligned, other, values)""",
        "construction",
    ),
)  # fmt: skip
