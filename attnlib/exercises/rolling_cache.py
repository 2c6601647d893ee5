"""A cache of a window and a few first tokens, of lesson 17: judged on what it gives and on what it holds."""

import numpy as np

from attnlib.exercises.calls import is_tensor
from attnlib.exercises.common import few_digits
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake, rare_but

_ZERO = -1  # a slot that nothing has been written to


def _seen(t, window, sinks, reach, first, own, empty, evict):
    """The tokens that token t attends to, as often as it does."""
    width = {"right": window, "more": window + 1, "less": max(1, window - 1),
             "budget": max(1, window - sinks), "and_sinks": window + sinks}[reach]  # fmt: skip
    near = list(range(max(0, t - width + 1), t + 1))
    if evict == "never":
        near = list(range(t + 1))
    elif evict == "cleared":
        near = list(range(t // width * width, t + 1))
    elif evict == "newest" and t >= width:
        near = [*range(width - 1), t]
    elif evict == "stops" and t >= width:
        near = list(range(width))
    if own == "missing":
        near = [j for j in near if j != t]
    elif own == "missing_wide":
        near = list(range(max(0, t - width), t))
    elif own == "twice":
        near = [*near, t]
    count = {"right": sinks, "twice": sinks, "none": 0, "one_more": sinks + 1, "one_less": max(0, sinks - 1),
             "one": min(sinks, 1), "late": sinks, "kept_out": sinks}[first]  # fmt: skip
    kept = list(range(min(count, t + 1)))
    if first in ("right", "one_more", "one_less", "one"):
        kept = [j for j in kept if j not in near]
    elif first == "late":
        kept = [j for j in kept if j not in near and t >= width + count]
    elif first == "kept_out":                 # each is left out until it has fallen out of the window
        kept = [j for j in kept if j <= t - width]
        near = [j for j in near if j >= count]
    zeros = 0
    if empty in ("window", "both"):
        zeros += max(0, width - len(near))
    if empty in ("first", "both"):
        zeros += max(0, count - (t + 1))
    if empty == "all":                        # places for both, each token in one of them
        zeros += width + count - min(t + 1, width + count)
    elif empty == "ring":                     # a ring that the first tokens are not in
        zeros += width - min(width, max(0, t + 1 - count))
    return kept + near + [_ZERO] * zeros


def _rolling(
    q, k, v, window, sinks, two, *, reach="right", first="right", own="right", empty="no", evict="oldest",
    scale="width", weigh="softmax", values="right", holds="little",
):  # fmt: skip
    rows = []
    streams = ((q, k, v), (q[::-1], k[::-1], v[::-1]))[: 1 + two]
    for queries, keys, content in streams:
        queries, keys, content = (np.asarray(x, float) for x in (queries, keys, content))
        for t in range(len(queries)):
            at = np.array(_seen(t, window, sinks, reach, first, own, empty, evict), int)
            if values == "shifted":
                taken = np.where(at > 0, at - 1, at)
            elif values == "not_evicted":
                taken = np.where(at < 0, at, np.arange(len(at)))
            else:
                taken = at
            real = (at >= 0)[:, None]
            met = np.where(real, keys[at], 0) if len(at) else np.zeros((0, keys.shape[1]))
            told = np.where(real, content[taken], 0) if len(at) else np.zeros((0, content.shape[1]))
            rows.append(_attended(queries[t], met, told, scale, weigh))
    result = np.array(rows)
    grows = holds == "all" or evict == "never"
    too_much = grows and len(q) * (k.shape[1] + v.shape[1]) > _allowed(k, v, window, sinks)
    return result, np.float64(too_much)


def _attended(query, keys, values, scale, weigh):
    if not len(keys):
        return np.zeros(values.shape[1])
    d = len(query)
    scores = keys @ query * {
        "width": d**-0.5, "none": 1.0, "linear": 1 / d, "times": d**0.5, "keys": len(keys) ** -0.5,
        "values": values.shape[1] ** -0.5,
    }[scale]  # fmt: skip
    if weigh == "naive":
        e = np.exp(scores)
    elif weigh == "scores":
        return scores @ values
    elif weigh == "mean":
        e = np.ones(len(keys))
    else:
        e = np.exp(scores - scores.max())
    if weigh == "unnormalised":
        return e @ values
    return e / e.sum() @ values


def _allowed(k, v, window, sinks):
    """The numbers that a state may hold: keys, values and two more a token, and a few besides."""
    return (window + sinks) * (k.shape[1] + v.shape[1] + 2) + 32


def _feed(function, q, k, v, window, sinks, two):
    """Token by token; two sequences take turns. The outputs, and 1 if too much was held."""
    streams = ((q, k, v), (q[::-1], k[::-1], v[::-1]))[: 1 + two]
    states, outs = [None] * len(streams), [[] for _ in streams]
    most, excess = _allowed(k, v, window, sinks), 0.0
    for t in range(len(q)):
        for n, (queries, keys, values) in enumerate(streams):
            result = function(queries[t].copy(), keys[t].copy(), values[t].copy(), states[n], window, sinks)
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                raise TypeError("two results are needed, out and the new state, joined by a comma")
            out, states[n] = result
            out = np.asarray(out.detach() if is_tensor(out) else out, float)
            if out.shape != (v.shape[1],):
                raise ValueError(f"out must have the shape of v_t, ({v.shape[1]},); it has {out.shape}")
            outs[n].append(out)
            if held(states[n]) > most:
                excess = 1.0
    return np.concatenate(outs), np.float64(excess)


def held(state):
    """How many numbers a state holds, whatever it is made of."""
    known, found, rest = set(), 0, [state]
    while rest and len(known) < 10_000:
        x = rest.pop()
        if id(x) in known and not isinstance(x, (int, float, bool)):
            continue
        known.add(id(x))
        if isinstance(x, np.ndarray) and x.dtype != object:
            found += x.size
        elif is_tensor(x):
            found += x.numel()
        elif isinstance(x, dict):
            rest += [*x.values()]
        elif isinstance(x, (str, bytes)) or x is None or callable(x):
            continue
        elif hasattr(x, "__dict__"):
            rest += [*vars(x).values()]
        elif hasattr(x, "__iter__") and hasattr(x, "__len__"):
            rest += [*x]
        else:
            found += 1
    return found


def _cases():
    rng = np.random.default_rng(17)

    def made(n, d=4, dv=3, size=1.0):
        return (size * rng.normal(size=(n, d)), rng.normal(size=(n, d)), rng.normal(size=(n, dv)))

    once = "A first token that is still in the window counts once."
    return [
        Case("24 tokens, a window of 3 and no first tokens", (*made(24), 3, 0, False),
             hint="Write down which tokens token 5 attends to: 3, 4 and 5."),
        Case("24 tokens, a window of 3 and two first tokens", (*made(24), 3, 2, False),
             hint=f"Write down what token 1, 3 and 9 attend to. {once}"),
        Case("the first 6 tokens of a window of 8", (*made(6), 8, 0, False),
             hint="Nothing has fallen out yet, and there is nothing yet in the empty places."),
        Case("a window of 1", (*made(20), 1, 0, False), hint="Each token attends to itself alone."),
        Case("a window of 1 and a first token", (*made(20, 5, 2), 1, 1, False),
             hint="Token 0 attends to itself, once; each later one to token 0 and to itself."),
        Case("more first tokens than the window is wide", (*made(30), 2, 5, False),
             hint=f"Token 3 attends to tokens 0 to 3. {once}"),
        Case("scores of size a thousand", (*made(24, size=700.0), 4, 1, False),
             hint="Take each query's largest score off before the exponential."),
        Case("two sequences that take turns", (*made(20), 3, 2, True),
             hint="All that a sequence needs has to be in its state: nothing outside, and no default "
                  "argument that is changed."),
        Case("a hundred tokens", (*made(100, 6, 5), 5, 2, False),
             hint="The state may hold the keys and values of window + sinks tokens, and no more."),
    ]  # fmt: skip


def _too_much(case, value, expected):
    """A property: the state holds no more than it may."""
    if isinstance(value, tuple) and len(value) == 2 and value[1] == 1 and np.allclose(value[0], expected[0]):
        return ("What you compute is right. Only the state keeps growing: it may hold the keys and values of "
                "window + sinks tokens.")
    return None


_MISTAKES = (
    Mistake("keeps_everything", "The outputs are right, and the state holds every token so far. Throw away "
            "what no later token will attend to.", {"holds": "all"}),
    Mistake("never_forgets", "Every token attends to all before it. Nothing falls out of the window.",
            {"evict": "never"}),
    Mistake("window_too_wide", "The window has one token too many: the own one is among the window's.",
            {"reach": "more"}),
    Mistake("window_too_narrow", "The window has one token too few: it is `window` tokens, the own one among "
            "them.", {"reach": "less"}),
    Mistake("budget_shared", "The first tokens take places of the window. They come besides.",
            {"reach": "budget"}),
    Mistake("sinks_widen_window", "The window is as wide as both together, and the first tokens fall out of "
            "it like all others.", {"reach": "and_sinks", "first": "none"}),
    Mistake("sinks_widen_window", "The window grows by the number of first tokens. They come besides.",
            {"reach": "and_sinks"}),
    Mistake("no_sinks", "The first tokens fall out of the window like all others. They stay.",
            {"first": "none"}),
    Mistake("sinks_counted_twice", "As long as a first token lies in the window it is there twice, and gets "
            "twice its weight.", {"first": "twice"}),
    Mistake("one_sink_too_many", "One first token too many stays.", {"first": "one_more"}),
    Mistake("one_sink_too_few", "One first token too few stays.", {"first": "one_less"}),
    Mistake("one_sink", "Only token 0 stays. The first `sinks` tokens do.", {"first": "one"}),
    Mistake("sinks_late", "A first token that has just left the window is not seen for a while.",
            {"first": "late"}),
    Mistake("sinks_kept_out", "A first token that is still in the window is left out. It counts there too, "
                              "once.",
            {"first": "kept_out"}),
    Mistake("own_missing", "A token does not attend to itself: its key is added after the scores are made.",
            {"own": "missing"}),
    Mistake("own_missing", "The window is that of the token before: the own key is added too late.",
            {"own": "missing_wide"}),
    Mistake("own_twice", "A token attends to itself twice: its key is in the cache and appended once more.",
            {"own": "twice"}),
    Mistake("empty_places", "Places of the window that nothing has been written to are attended to. A key of "
            "zeros scores 0, and 0 is a score.", {"empty": "window"}),
    Mistake("empty_places", "Places kept for first tokens are attended to before anything is written there. "
                            "A "
            "key of zeros scores 0, and 0 is a score.", {"empty": "first"}),
    Mistake("empty_places", "Places that nothing has been written to are attended to. A key of zeros scores "
            "0, and 0 is a score.", {"empty": "both"}),
    Mistake("empty_places", "Places that nothing has been written to are attended to. A key of zeros scores "
            "0, and 0 is a score.", {"empty": "all"}),
    Mistake("empty_places", "Places of the window that nothing has been written to are attended to. A key of "
            "zeros scores 0, and 0 is a score.", {"empty": "ring"}),
    Mistake("overwrites_newest", "When the window is full, a new token takes the place of the one before it. "
            "The oldest is to go.", {"evict": "newest"}),
    Mistake("full_is_full", "When the window is full nothing is written any more. The oldest is to go.",
            {"evict": "stops"}),
    Mistake("cleared_when_full", "When the window is full all of it is thrown away. Only the oldest is to "
            "go.", {"evict": "cleared"}),
    Mistake("values_apart", "Each weight meets the value of the token before. Keys and values go into the "
            "same place.", {"values": "shifted"}),
    Mistake("values_not_evicted", "Old keys are thrown away and old values are not, so weights meet the "
            "values of other tokens.", {"values": "not_evicted"}),
    Mistake("no_scale", "The scores are not scaled. Divide by the root of the width.", {"scale": "none"}),
    Mistake("scale_linear", "You divide by the width. Divide by its root.", {"scale": "linear"}),
    Mistake("scale_multiplied", "You multiply by the root of the width. Divide by it.", {"scale": "times"}),
    Mistake("scale_of_keys", "You divide by the root of the number of keys. It is the width that counts.",
            {"scale": "keys"}),
    Mistake("scale_of_values", "You divide by the root of the values' width. It is that of the keys.",
            {"scale": "values"}),
    Mistake("overflow", "The exponential of a large score is infinite, and inf/inf is NaN. Take the largest "
            "score off first.", {"weigh": "naive"}),
    Mistake("no_softmax", "Values are summed by their scores. Make weights of them first.",
            {"weigh": "scores"}),
    Mistake("mean", "All keys get the same weight. Scores decide.", {"weigh": "mean"}),
    Mistake("not_normalised", "The weights do not sum to one.", {"weigh": "unnormalised"}),
)  # fmt: skip

_IN_PAIRS = {
    "window_too_wide", "window_too_narrow", "no_sinks", "sinks_counted_twice", "own_missing", "empty_places",
    "no_scale", "scale_linear", "overflow", "keeps_everything",
}  # fmt: skip

rolling_cache = FunctionExercise(
    _rolling,
    _cases,
    rare_but(_IN_PAIRS, _MISTAKES),
    "Checked token by token with windows of 1 to 8 and up to five first tokens, before and after the window "
    "is "
    "full, with large scores, and with two sequences in turn. And the state never held more than it may.",
    properties=(_too_much, few_digits),
    drive=_feed,
    rtol=1e-4,
    atol=1e-5,
)

_SOLUTION = '''
import numpy as np


def rolling_cache(q_t, k_t, v_t, state, window, sinks):
    first, near = state or ((), ())                         # pairs of key and value
    if len(first) < sinks:
        first = (*first, (k_t, v_t))
    else:
        near = (*near, (k_t, v_t))[-window:]                # a first token is never in here
    keys, values = (np.array(part) for part in zip(*first, *near))
    scores = keys @ q_t / len(q_t) ** 0.5
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values, (first, near)
'''

EXERCISES = (
    Exercise(
        "rolling_cache", "17", rolling_cache,
        (
            "Write down for a window of 3 and two first tokens what tokens 0 to 6 attend to. When does a "
            "token "
            "become one that nobody will ask for again?",
            "Keep two lists: the first tokens, and those of the window. If a token goes into the first "
            "list, need "
            "it be in the second?",
            "While the first list is not full a token goes there; else it goes to the end of the second, of "
            "which "
            "the last `window` are kept. Then one softmax over both.",
        ),
        _SOLUTION, "function",
    ),
)  # fmt: skip
