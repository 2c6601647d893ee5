"""The exercises of lesson 13 on the adaptive softmax: what it costs, and where to cut."""

from itertools import pairwise

import numpy as np

from attnlib.datasets import word_counts
from attnlib.exercises.answers import numbers
from attnlib.exercises.common import in_torch
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, wrong

# ------------------------------------------------------------- what a word costs


def _width(how, d, div_value, i, n_tails):
    """Features that cluster ``i`` reads, rightly or otherwise."""
    return {
        "right": d // div_value ** (i + 1), "from_zero": d // div_value**i, "always_once": d // div_value,
        "times_number": d // (div_value * (i + 1)), "not_whole": d / div_value ** (i + 1),
        "rounded": np.round(d / div_value ** (i + 1)), "up": np.ceil(d / div_value ** (i + 1)),
        "at_least_one": max(1, d // div_value ** (i + 1)), "full": d,
        "reversed": d // div_value ** (n_tails - i),
    }[how]  # fmt: skip


def _expected_work(
    counts, d, cutoffs, div_value, *,
    head="right", head_for="all", share="right", width="right", tail="right", ends="right", kind="float",
):  # fmt: skip
    counts, n_words = np.asarray(counts, dtype=float), len(counts)
    cutoffs = [int(c) for c in cutoffs]
    if ends == "sizes":
        cutoffs = np.minimum(np.cumsum(cutoffs), n_words).tolist()
    limits = [*cutoffs, n_words]
    if ends == "last_lost":
        limits = cutoffs
    shares = counts / counts.sum()
    n_tails = len(limits) - 1
    entries = {"right": limits[0] + len(cutoffs), "no_names": limits[0], "one_name": limits[0] + 1,
               "all_cutoffs": sum(cutoffs), "full": n_words}[head]  # fmt: skip
    total = float(d * entries)
    if head_for == "short":
        total *= shares[: limits[0]].sum()
    elif head_for == "none":
        total = 0.0
    for i, (first, end) in enumerate(pairwise(limits)):
        w = _width(width, d, div_value, i, n_tails)
        n = end if ends == "up_to" else end - first
        cost = {
            "right": w * (d + n), "no_projection": w * n, "projection_alone": w * d, "not_factored": d * n,
            "product": w * d * n,
        }[tail]
        part = {
            "right": shares[first:end].sum(), "always": 1.0, "words": (end - first) / n_words,
            "counts": counts[first:end].sum(), "and_before": shares[first:].sum(),
            "up_to": shares[:end].sum(), "equal": 1 / (n_tails + 1), "none": 0.0,
        }[share]
        total += part * cost
    return {"float": lambda: float(total), "whole": lambda: float(np.floor(total)),
            "of_full": lambda: float(total / (d * n_words)), "speedup": lambda: float(d * n_words / total),
            "text": lambda: float(total * counts.sum())}[kind]()  # fmt: skip


_WORK = (
    Mistake("names_forgotten", "The head has an entry for each word of the short list, and one more for each "
            "cluster: its name. You left the names out.", {"head": "no_names"}),
    Mistake("one_name", "Your head has a single entry for all clusters together. Each cluster has its own.",
            {"head": "one_name"}),
    Mistake("head_of_all_words", "Your head has all words. It has the short list and the clusters' names.",
            {"head": "full"}),
    Mistake("head_for_short_alone", "You count the head for the words of the short list alone. A rare word "
            "needs it too, to find its cluster: it is computed for every state.", {"head_for": "short"}),
    Mistake("head_forgotten", "The head is missing. It is computed for every state.", {"head_for": "none"}),
    Mistake("tails_always", "You count each cluster for every word. A cluster is computed only where the "
            "target lies in it: weigh it with its share of the text.", {"share": "always"}),
    Mistake("share_of_words", "You weigh a cluster with its share of the vocabulary. It is needed as "
            "often as its words stand in the text: use the counts.", {"share": "words"}),
    Mistake("counts_not_divided", "You weigh a cluster with its counts, and not with their share of all "
            "counts. The work for one word on average is asked for.", {"share": "counts"}),
    Mistake("clusters_one_after_another", "In yours a word of a late cluster pays for the earlier clusters "
            "too. The head names the cluster at once; the others are not opened.", {"share": "and_before"}),
    Mistake("share_up_to", "You weigh a cluster with the share of all words up to its end, frequent ones "
            "included. Only its own words open it.", {"share": "up_to"}),
    Mistake("clusters_equally_often", "You weigh all parts equally. The counts say how often each is needed.",
            {"share": "equal"}),
    Mistake("tails_forgotten", "Only the head is counted. A rare word pays for its cluster besides.",
            {"share": "none"}),
    Mistake("width_from_zero", "Your first cluster still reads all d features. Cluster i, counted from 0, "
            "reads d // div_value ** (i + 1).", {"width": "from_zero"}),
    Mistake("width_divided_once", "All your clusters read equally many features. Each is narrower than the "
            "one before: div_value is raised to i + 1.", {"width": "always_once"}),
    Mistake("width_divided_once", "You multiply div_value by the cluster's number. It is raised to a power.",
            {"width": "times_number"}),
    Mistake("width_not_whole", "Your clusters read a fraction of a feature. The division drops the rest.",
            {"width": "not_whole"}),
    Mistake("width_not_whole", "You round the width to the nearest whole number. The division drops the "
            "rest.", {"width": "rounded"}),
    Mistake("width_not_whole", "You round the width up. The division drops the rest, down to 0.",
            {"width": "up"}),
    Mistake("width_never_zero", "You keep at least one feature. The formula gives 0 there, and torch builds "
            "it: a cluster that costs nothing and learns nothing.", {"width": "at_least_one"}),
    Mistake("width_full", "Your clusters read all d features. They read fewer, the rarer they are.",
            {"width": "full"}),
    Mistake("width_reversed", "Your rarest cluster is the widest. It is the narrowest.",
            {"width": "reversed"}),
    Mistake("projection_forgotten", "A cluster first brings d features down to w. Those w * d products "
            "are missing.", {"tail": "no_projection"}),
    Mistake("cluster_words_forgotten", "You count what brings d features down to w, and not the scores of "
            "the cluster's words, w * n.", {"tail": "projection_alone"}),
    Mistake("not_factored", "You count d * n for a cluster of n words. It reads w features: w * d to make "
            "them, and w * n for the scores.", {"tail": "not_factored"}),
    Mistake("not_factored", "You multiply w, d and n. The two layers come one after the other: w * d and "
            "then w * n.", {"tail": "product"}),
    Mistake("last_cluster_lost", "The last cluster is missing. It goes from the last cutoff to the end of "
            "the vocabulary.", {"ends": "last_lost"}),
    Mistake("cutoffs_are_places", "You take the cutoffs for the sizes of the parts. They are places in the "
            "list of words at which it is cut.", {"ends": "sizes"}),
    Mistake("size_is_the_end", "You take the end of a cluster for its size. Its size is the end minus the "
            "start.", {"ends": "up_to"}),
    Mistake("rounded", "It is rounded down to a whole number. An average need not be whole.",
            {"kind": "whole"}),
    Mistake("a_ratio", "That is the part of a full softmax's work. The number of products is asked for.",
            {"kind": "of_full"}),
    Mistake("a_ratio", "That is how many times less the work is. The number of products is asked for.",
            {"kind": "speedup"}),
    Mistake("whole_text", "That is the work for the whole text. One word on average is asked for.",
            {"kind": "text"}),
)


def _work_cases():
    falling = np.array([50, 30, 20, 12, 9, 7, 5, 4, 3, 2, 1, 1])
    return [
        Case("twelve words, cutoffs 3 and 7, width 8", (falling, 8, (3, 7), 2),
             hint="Head: 3 words and 2 names, 8 features each. First cluster: 4 words from 4 features."),
        Case("one cutoff", (falling, 12, (5,), 4)),
        Case("width 10, which 4 does not divide", (falling, 10, (2, 6), 4)),
        Case("three cutoffs, and a cluster of no features", (falling, 16, (2, 4, 8), 4)),
        Case("a cluster that reads nothing", (falling, 6, (4, 8), 3)),
        Case("words that are equally frequent", (np.ones(12), 8, (3, 7), 2)),
        Case("probabilities in place of counts", (falling / falling.sum(), 9, (1, 5), 2)),
        Case("a short list of all words but one", (falling, 5, (11,), 2)),
        Case("nothing narrowed", (falling, 8, (4, 9), 1)),
        Case("2,000 words whose counts fall like 1/rank", (1e6 / np.arange(1, 2001), 64, (100, 600), 4)),
    ]  # fmt: skip


expected_work = FunctionExercise(
    _expected_work, _work_cases, _WORK,
    "Checked with one to three cutoffs, with widths that do not divide, down to a cluster that reads "
    "nothing, and on counts and shares. The head is paid for every word, a cluster only by its own.",
    properties=(in_torch,), rtol=1e-6, atol=1e-9,
)  # fmt: skip


# ------------------------------------------------------------- where to cut

_D, _DIV = 256, 4.0


def _works():
    """Products for a word of the list, on average, for each single cutoff from 1 on."""
    counts = word_counts().counts
    n_words, cutoff = len(counts), np.arange(1, len(counts))
    rare = 1 - np.cumsum(counts)[:-1] / counts.sum()
    return _D * (cutoff + 1) + rare * (_D // _DIV) * (_D + n_words - cutoff)


def best_cutoff(answer):
    """The single cutoff with the least work on the real list, at width 256 and div_value 4."""
    given, complaint = numbers(answer, (), "your cutoff")
    if complaint:
        return complaint
    works, cutoff = _works(), float(given)
    n_words = len(works) + 1
    if cutoff != round(cutoff) or not 1 <= cutoff < n_words:
        return wrong(f"A cutoff is a whole number from 1 to {n_words - 1}: so many words are in the head.")
    cutoff = int(cutoff)
    mine, least = works[cutoff - 1], works.min()
    told = f"With a cutoff of {cutoff:,} a word costs {mine:,.0f} products on average."
    if mine <= 1.01 * least:
        return right(
            f"{told} The least possible is {least:,.0f}, against {_D * n_words:,} of a full softmax. Around "
            "the best place the curve is flat, so a round number near it does as well."
        )
    counts = word_counts().counts
    covered = counts[:cutoff].sum() / counts.sum()
    for near, name, hint in (
        (n_words // 2, "half_the_words", "Half of the words is nearly all of the text: the cluster is "
         "hardly ever opened, and the head is paid for every word."),
        (int(np.searchsorted(np.cumsum(counts), 0.5 * counts.sum())) + 1, "half_the_text", "Then every "
         "second word of the text opens the cluster, which is large."),
        (int(np.searchsorted(np.cumsum(counts), 0.8 * counts.sum())) + 1, "most_of_the_text", "A head that "
         "covers four fifths of the text sounds right, and it is long: its length is paid for every word."),
        (int(np.searchsorted(np.cumsum(counts), 0.9 * counts.sum())) + 1, "most_of_the_text", "A head that "
         "covers nine tenths of the text sounds right, and it is long: its length is paid for every word."),
    ):
        if abs(cutoff - near) <= max(2, 0.03 * near):
            return wrong(f"{told} {hint} It can be less.", name)
    if cutoff > works.argmin() + 1:
        return wrong(f"{told} The head covers {covered:.0%} of the text, and all of it is computed for every "
                     "word. A shorter one costs less.", "head_too_long")
    return wrong(f"{told} The head covers only {covered:.0%} of the text, so the large cluster is opened too "
                 "often. A longer head costs less.", "head_too_short")


EXERCISES = (
    Exercise(
        "expected_work", "13", expected_work,
        (
            "Two sums. The head is computed for every word of the text: how many entries, and how many "
            "products for each? A cluster is computed for its own words only.",
            "Cluster i first makes w = d // div_value ** (i + 1) features out of d, and then scores its n "
            "words with them. How many products is that?",
            "d * (cutoffs[0] + K), with K clusters, and for each cluster its share of the counts times "
            "w * (d + n). The clusters end at the next cutoff, the last one at the number of words.",
        ),
        '''\
def expected_work(counts, d, cutoffs, div_value):
    ends = [*cutoffs, len(counts)]
    work = d * (ends[0] + len(cutoffs))                     # the short list, and a name for each cluster
    for i in range(len(cutoffs)):
        first, end = ends[i], ends[i + 1]
        width = d // div_value ** (i + 1)
        share = counts[first:end].sum() / counts.sum()
        work += share * width * (d + end - first)
    return float(work)
''',
        "function",
    ),
    Exercise(
        "best_cutoff", "13", best_cutoff,
        (
            "A longer head is paid for by every word; a shorter one opens the cluster more often. Where the "
            "two hold each other, the sum is least.",
            "With the function of the exercise before, try 10, 100, 1000. Then look between.",
            "expected_work(counts, 256, (c,), 4) for every tenth c will do: take the smallest.",
        ),
        '''\
from attnlib.datasets import word_counts

_, counts = word_counts()


def work(c):                                                # (c,) cuts once; width 256 // 4 = 64
    share = counts[c:].sum() / counts.sum()
    return 256 * (c + 1) + share * 64 * (256 + len(counts) - c)


answer = min(range(1, len(counts)), key=work)
''',
        "construction",
    ),
)
