"""Lesson 24: the loss of a policy that is told right or wrong, and a round of a search without slopes."""

import numpy as np

from attnlib.exercises.common import few_digits
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake

# ------------------------------------------------------------- REINFORCE


def _policy(logits, actions, rewards, *, sign=-1, over="sum", samples="mean", taken="log", which="chosen",
            reward="as_is"):  # fmt: skip
    log_p = logits.log_softmax({"axis_1": 1, "axis_0": 0}.get(which, -1))
    p = {
        "log": log_p,
        "base_two": log_p / np.log(2),
        "raw": logits,
        "probability": log_p.exp(),
        "sigmoid": logits.sigmoid().log(),
    }[taken]
    chosen = p.gather(-1, actions.long()[..., None])[..., 0]
    if which == "likeliest":
        chosen = p.max(-1).values
    elif which == "all":
        chosen = p.sum(-1)
    whole = {"sum": chosen.sum(-1), "mean": chosen.mean(-1), "last": chosen[:, -1], "first": chosen[:, 0],
             "product": chosen.prod(-1)}[over]  # fmt: skip
    r = {"as_is": rewards, "size": rewards.abs(), "positive": rewards.clamp(min=0),
         "centred": rewards - rewards.mean(), "none": rewards * 0 + 1}[reward]  # fmt: skip
    each = sign * r * whole
    if samples == "apart":
        return sign * r.mean() * whole.mean()
    if samples == "one_sum":
        return sign * r.mean() * whole.sum()
    return {"mean": each.mean(), "sum": each.sum(), "none": each}[samples]


def _answers():
    import torch

    rng = np.random.default_rng(24)

    def case(name, B, T, V, rewards, spread=1.0, **more):
        logits = torch.from_numpy(spread * rng.normal(size=(B, T, V)))
        actions = torch.from_numpy(rng.integers(V, size=(B, T)))
        rewards = torch.tensor(rewards, dtype=torch.float64)
        return Case(name, (logits, actions, rewards), gradient_of=(0,), **more)

    return [
        case("three answers of four tokens", 3, 4, 5, [1.0, -1.0, 1.0]),
        case("rewards of different size", 4, 2, 3, [2.0, -0.5, 0.0, 1.0]),
        case("one answer of one token", 1, 1, 6, [-1.0]),
        case("as many answers as tokens", 3, 3, 3, [1.0, 1.0, -1.0]),
        case("logits far apart", 2, 3, 4, [1.0, -1.0], spread=300.0,
             hint="Is a logarithm taken of a probability that is rounded to zero?"),
        case("an answer of six hundred tokens", 1, 600, 4, [1.0],
             hint="The probability of a long answer is rounded to zero. Add up logarithms."),
    ]  # fmt: skip


policy_loss = FunctionExercise(
    _policy,
    _answers,
    (
        Mistake("wrong_sign", "The sign is the other way round: stepping down this loss makes wrong answers "
                "likelier.", {"sign": 1}),
        Mistake("mean_over_tokens", "You take the mean over the tokens of an answer. The log-probability of "
                "the whole is their sum; with a mean, long answers count less.", {"over": "mean"}),
        Mistake("one_token", "Only the last token of each answer counts. The whole answer was rewarded.",
                {"over": "last"}),
        Mistake("one_token", "Only the first token of each answer counts. The whole answer was rewarded.",
                {"over": "first"}),
        Mistake("logs_multiplied", "The logarithms of an answer's tokens are multiplied. Probabilities are; "
                "logarithms are added.", {"over": "product"}),
        Mistake("sum_over_samples", "You sum over the samples. Their mean is asked for, so that the size of "
                "a batch does not change the step.", {"samples": "sum"}),
        Mistake("not_reduced", "There is one number for each sample. Their mean is asked for.",
                {"samples": "none"}),
        Mistake("means_multiplied", "The mean reward is multiplied by the mean log-probability. Each sample "
                "has its own reward: multiply first.", {"samples": "apart"}),
        Mistake("means_multiplied", "One sum over the whole batch is multiplied by the mean reward. Each "
                "sample has its own reward: multiply first.", {"samples": "one_sum"}),
        Mistake("base_two", "The logarithm is to the base 2. The natural one is meant.",
                {"taken": "base_two"}),
        Mistake("no_logarithm", "Probabilities are weighed, not their logarithms.", {"taken": "probability"}),
        Mistake("raw_logits", "The logits are taken as they are. They are no log-probabilities before a "
                "log-softmax.", {"taken": "raw"}),
        Mistake("sigmoid", "Each logit goes through a sigmoid by itself. One token of V was chosen: a "
                "softmax over the last axis.", {"taken": "sigmoid"}),
        Mistake("softmax_axis", "The softmax runs along the tokens of the answer. It runs over the V "
                "choices, the last axis.", {"which": "axis_1"}),
        Mistake("softmax_axis", "The softmax runs along the batch. It runs over the V choices, the last "
                "axis.",
                {"which": "axis_0"}),
        Mistake("likeliest_token", "The likeliest token of each place counts, not the one that was written.",
                {"which": "likeliest"}),
        Mistake("all_tokens", "All V log-probabilities are added up. Only that of the token which was "
                "written counts.", {"which": "all"}),
        Mistake("punishment_lost", "Rewards below zero count as zero, so wrong answers teach nothing.",
                {"reward": "positive"}),
        Mistake("size_of_reward", "Only the size of a reward counts. A wrong answer is made likelier too.",
                {"reward": "size"}),
        Mistake("baseline", "The mean reward is taken off first. That is a baseline, often wise and not "
                "asked for here.", {"reward": "centred"}),
        Mistake("no_reward", "Rewards are not used: this makes likelier whatever was drawn.",
                {"reward": "none"}),
    ),
    "Loss and gradient agree, for rewards of any size and sign. With rewards of 1 it is the cross-entropy, "
    "summed over tokens: learning from one's own answers as if they were given.",
    properties=(few_digits,),
)  # fmt: skip


# ------------------------------------------------------------- a round of the search


def _round(population, scores, n_elite, *, best="greatest", kept="greatest", more=0, spread="unbiased",
           middle="mean", weighed=False, returned=(0, 1, 2)):  # fmt: skip
    order = np.argsort(-scores if kept == "greatest" else scores, kind="stable")
    count = {0: n_elite, 1: min(n_elite + 1, len(order)), -1: max(n_elite - 1, 2)}[more]
    elite = {
        "all": population,
        "first": population[:n_elite],
        "columns": np.sort(population, 0)[-n_elite:],
    }.get(kept, population[order[:count]])
    mean = elite.mean(0) if middle == "mean" else np.median(elite, 0)
    if weighed:
        w = scores[order[:count]] / scores[order[:count]].sum()
        mean = w @ elite
    std = {"unbiased": lambda: elite.std(0, ddof=1), "biased": lambda: elite.std(0),
           "variance": lambda: elite.var(0, ddof=1), "whole": lambda: np.full_like(mean, elite.std(ddof=1)),
           "error": lambda: elite.std(0, ddof=1) / np.sqrt(len(elite)),
           "around_all": lambda: population.std(0, ddof=1)}[spread]()  # fmt: skip
    at = {"least": int(np.argmin(scores)), "last": -1, "zero": 0, "least_of_kept": int(order[n_elite - 1]),
          "longest": int(population.sum(1).argmax())}.get(best, int(np.argmax(scores)))  # fmt: skip
    results = mean, std, mean if best == "mean_of_kept" else population[at].copy()
    return tuple(results[i] for i in returned)


def _populations():
    rng = np.random.default_rng(7)
    sizes = (("twelve candidates of three numbers", 12, 3, 4), ("two that are kept", 5, 2, 2),
             ("as many numbers as candidates", 4, 4, 3), ("one number each", 9, 1, 3),
             ("all of them kept", 6, 2, 6))  # fmt: skip
    for name, P, n, n_elite in sizes:
        yield Case(
            name,
            (rng.normal(size=(P, n)), rng.normal(size=P), n_elite),
            hint="Mean and spread run over the kept candidates, number by number. The best is a whole "
            "candidate. Each of the three is (n,).",
        )


_KEPT = "The candidates with the *greatest* scores are kept"
search_round = FunctionExercise(
    _round,
    lambda: list(_populations()),
    (
        Mistake("biased_spread", "The variance is divided by the number that is kept. It is divided by one "
                "less.", {"spread": "biased"}, convention=True),
        Mistake("variance", "You return the variance. Its root is asked for.", {"spread": "variance"}),
        Mistake("one_spread", "There is one spread for all numbers together. Each number has its own.",
                {"spread": "whole"}),
        Mistake("spread_of_all", "The spread is that of the whole population. It is that of the kept: this "
                "is how the search narrows.", {"spread": "around_all"}),
        Mistake("worst_kept", f"{_KEPT}, and you keep the least.", {"kept": "least"}),
        Mistake("worst_kept", f"{_KEPT}, and you keep the least, and return the least as the best.",
                {"kept": "least", "best": "least"}),
        Mistake("least_is_best", "The best candidate is the one with the greatest score; you return the one "
                "with the least.", {"best": "least"}),
        Mistake("first_kept", f"{_KEPT}, and you keep the first ones, before anything is sorted.",
                {"kept": "first"}),
        Mistake("all_kept", "Mean and spread are of the whole population. Nothing is learned from the "
                "scores.", {"kept": "all"}),
        Mistake("one_too_many", "One too many is kept.", {"more": 1}),
        Mistake("one_too_few", "One too few is kept.", {"more": -1}),
        Mistake("median", "You return the median of the kept. The mean is asked for.", {"middle": "median"}),
        Mistake("weighed", "The kept are weighed by their scores. Each of them counts the same.",
                {"weighed": True}),
        Mistake("mean_as_best", "The third result is the mean. It should be the best candidate, as it was "
                "drawn.", {"best": "mean_of_kept"}),
        Mistake("least_of_kept", "The third result is the least of the kept. An argsort begins with the "
                "least: where is the greatest?", {"best": "least_of_kept"}),
        Mistake("not_by_score", "The third result is the candidate with the greatest sum of its own numbers. "
                "Which has the greatest score?", {"best": "longest"}),
        Mistake("sorted_apart", "Each number is sorted by itself, so the rows are no candidates any more. "
                "Sort the scores, and take whole rows.", {"kept": "columns"}),
        Mistake("error_of_the_mean", "The spread is divided by the root of n_elite: that is the error of a "
                "mean. The spread itself is asked for.", {"spread": "error"}),
        Mistake("order", "The best comes first in yours. The order is mean, spread, best.",
                {"returned": (2, 0, 1)}),
        Mistake("last_as_best", "The third result is the last candidate of the population. Which has the "
                "greatest score?", {"best": "last"}),
        Mistake("first_as_best", "The third result is the first candidate of the population. Which has the "
                "greatest score?", {"best": "zero"}),
    ),
    "Mean, spread and best agree. The best goes into the next round as it is, and so cannot be lost.",
    properties=(few_digits,),
)  # fmt: skip

_POLICY_SOLUTION = '''
def policy_loss(logits, actions, rewards):
    chosen = logits.log_softmax(-1).gather(-1, actions[..., None])[..., 0]
    return -(rewards * chosen.sum(-1)).mean()
'''.lstrip()  # fmt: skip
_ROUND_SOLUTION = '''
import numpy as np

def search_round(population, scores, n_elite):
    kept = population[np.argsort(scores)[-n_elite:]]
    return kept.mean(0), kept.std(0, ddof=1), population[scores.argmax()]
'''.lstrip()  # fmt: skip

EXERCISES = (
    Exercise("policy_loss", "24", policy_loss, (
        "Three steps: log-probabilities of all choices, those of the tokens that were written, and then the "
        "rewards.",
        "log_softmax over the last axis; gather the actions along it; sum over the tokens of an answer.",
        "Multiply by each sample's reward, take the mean over the samples, and put a minus in front.",
    ), _POLICY_SOLUTION, "function"),
    Exercise("search_round", "24", search_round, (
        "Sort the scores and keep the rows of the population that belong to the greatest ones.",
        "The least come first in an argsort, so the best n_elite are its last. Mean and spread run over the "
        "kept, for each number by itself.",
        "NumPy's std has a ddof, which is taken off the number that the variance is divided by. The best is "
        "the row at the argmax of the scores.",
    ), _ROUND_SOLUTION, "function"),
)  # fmt: skip
