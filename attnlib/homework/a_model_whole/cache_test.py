"""A test to write: does decoding with a cache give what the whole model gives?"""

import numpy as np

from attnlib.exercises.learner_test import Implementation
from attnlib.exercises.verdict import wrong
from attnlib.homework.assignment import Question, judge_of_tests

CHOICES = {"says_true_of": ("sound", "faulty"), "step_returns": ("logits", "cache"),
           "ids_lie": ("batch", "time")}  # fmt: skip
LESSON = None
SAMPLE = {"says_true_of": "faulty", "step_returns": "logits", "ids_lie": "batch"}

WORDS = 8       # in the vocabulary of the models

TEXT = """\
A model is given twice. `full(ids)` takes ids of shape **`{axes}`**, as a tensor or an array, and returns the
logits, `{axes_v}`. `step(ids, cache)` takes the ids of **new** words alone, of the same shape, any number of
places from 1 up, and a cache of what came before, `None` at the beginning. It returns {returned}.
The cache is an object that you can hand back and nothing else. B sentences are decoded at once.

Write a test, `{name}(full, step, n_words)`: it returns `True` if the cache is **{says}**, else `False`. It
is sound if `step` always gives the logits that `full` gives at the same places, up to rounding (differences
below 0.0001): whatever the ids from 0 to `n_words` - 1, for up to 4 sentences of up to 14 places, in whatever
chunks the words come, and also where one cache is used twice, for two ways of going on.

Your test is tried on ten caches, three of them sound. `full` is right in all of them. The others fail for
one reason each, and the logits are then wrong by 0.01 or more somewhere. A hundred calls of `step` are more
than enough for each; thousands take too long."""

STUB = """\
def {name}(full, step, n_words):
    \"\"\"Whether decoding with this cache is {says}; ids are {axes}.\"\"\""""

SOLUTION = """\
    rng = np.random.default_rng(0)
    ids = rng.integers(0, n_words, {shape})
    wanted = full(ids)

    def same(chunks):
        cache, at = None, 0
        for n in chunks:
            {got} = step(ids{part}, cache)
            if not torch.allclose(logits, wanted{part}, atol=1e-4):
                return False
            at = at + n
        return True

    sound = same([1] * 14) and same([14]) and same([5, 1, 3, 1, 4])
    {first} = step(ids{begun}, None)
    for _ in range(2):    # two ways of going on from one cache
        {after} = step(ids{on}, cache)
        sound = sound and torch.allclose(logits, wanted{on}, atol=1e-4)
    return {no}bool(sound)"""


def question(choice):
    sound, batch = choice["says_true_of"] == "sound", choice["ids_lie"] == "batch"
    logits_first = choice["step_returns"] == "logits"
    axes = "(B, L)" if batch else "(L, B)"
    words = {
        "name": f"is_{choice['says_true_of']}", "says": choice["says_true_of"], "axes": axes,
        "axes_v": axes[:-1] + ", V)",
        "returned": "the logits of the new places **and then** the new cache" if logits_first
        else "the new cache **and then** the logits of the new places",
    }  # fmt: skip

    def at(part):
        return f"[:, {part}]" if batch else f"[{part}]"

    def pair(logits, cache):
        return f"{logits}, {cache}" if logits_first else f"{cache}, {logits}"

    return Question(
        id="cache_test", title="Is the cache sound?",
        kind="test", name=words["name"], points=5, part=2, minutes=20,
        text=TEXT.format(**words),
        stub=STUB.format(**words),
        solution=SOLUTION.format(
            shape="(3, 14)" if batch else "(14, 3)", got=pair("logits", "cache"), part=at("at : at + n"),
            first=pair("_", "cache"), after=pair("logits", "_"), begun=at(":4"), on=at("4:7"),
            no="" if sound else "not ",
        ),
        judge=_judge_for(sound, logits_first, batch),
        other_names=("is_faulty" if sound else "is_sound",),
    )  # fmt: skip


def _judge_for(sound, logits_first, batch):
    said = {
        sound: ("all_sound", "You call all caches sound, and some are faulty. What would a cache get wrong "
                "if it forgot what came before?"),
        not sound: ("all_faulty", "You call all caches faulty, and some are sound. Compare logits of the "
                    "same places, and leave a little room for rounding."),
    }  # fmt: skip
    praise = "It lets sound caches pass, rounding and all, and finds each fault in the others."

    def judge(test, seed=None):
        tried = tuple(
            Implementation(f"a cache that {name}", lambda fault=fault: _given(fault, logits_first, batch),
                           is_sound == sound, mistake, told)
            for name, fault, is_sound, mistake, told in (CACHES[:4] if seed is None else CACHES)
        )  # fmt: skip
        verdict = judge_of_tests(tried, said, praise, test, seed, f"{len(tried)} of {len(CACHES)} caches")
        if verdict.message.startswith("0 of"):
            here, there = ("sound", "faulty") if sound else ("faulty", "sound")
            return wrong(f"Right under another convention. You return True where the cache is {there}. Here: "
                         f"True where it is {here}.", f"true_of_{there}", convention=True)
        return verdict

    return judge


def _given(fault, logits_first, batch):
    """What the student's test is called with."""
    import torch

    def read(ids):
        ids = np.asarray(ids)
        if ids.ndim != 2 or ids.dtype.kind not in "iu" or 0 in ids.shape:
            axes = "(B, L)" if batch else "(L, B)"
            raise ValueError(f"ids are whole numbers of shape {axes}; got the shape {ids.shape} and the type "
                             f"{ids.dtype}")
        if ids.min() < 0 or ids.max() >= WORDS:
            raise ValueError(f"ids go from 0 to {WORDS - 1}; got {ids.min()} to {ids.max()}")
        return ids if batch else ids.T

    def told(logits):
        return torch.from_numpy(np.ascontiguousarray(logits if batch else logits.swapaxes(0, 1)))

    def full(ids):
        return told(_stepped(read(ids), None, "none")[0])

    def step(ids, cache):
        if cache is not None and not isinstance(cache, _Cache):
            raise ValueError("cache is None at the beginning, and then what step has returned as the cache")
        logits, cache = _stepped(read(ids), cache, fault)
        return (told(logits), cache) if logits_first else (cache, told(logits))

    return full, step, WORDS


# -------------------------------------------------------------------------- a model of one layer


class _Cache:
    """Ids, keys and values of the words that were read, and in how many calls."""

    def __init__(self, ids, keys, values, calls):
        self.ids, self.keys, self.values, self.calls = ids, keys, values, calls


def _weights(width=6):
    rng = np.random.default_rng(11)
    table, *square, out = (rng.normal(size=shape) for shape in
                           ((WORDS, width), *[(width, width)] * 3, (width, WORDS)))  # fmt: skip
    angles = np.arange(64)[:, None] * 0.7 ** np.arange(width)
    return table, np.sin(angles + np.arange(width)), *square, out


TABLE, PLACES, W_Q, W_K, W_V, W_OUT = _weights()


def _stepped(ids, cache, fault):
    """Logits of new words and the new cache; ``fault`` is what is wrong with it."""
    b, n = ids.shape
    if cache is None:
        none = np.zeros((b, 0, TABLE.shape[1]))
        cache = _Cache(ids[:, :0], none, none, 0)
    if len(cache.ids) != b:
        raise ValueError(f"the cache is of {len(cache.ids)} sentences, and there are new words of {b}")
    old = cache.ids.shape[1]
    if old + n > len(PLACES):
        raise ValueError(f"a sentence has at most {len(PLACES)} places")
    if fault == "anew" and old:
        logits, new = _stepped(np.concatenate([cache.ids, ids], 1), None, fault)
        return logits[:, old:], new
    begin = {"restart": 0, "calls": cache.calls}.get(fault, old)
    x = TABLE[ids] + PLACES[begin : begin + n]
    kept_k, kept_v = cache.keys, cache.values
    if fault == "first_sentence" and old:
        kept_k, kept_v = (np.repeat(a[:1], b, 0) for a in (kept_k, kept_v))
    keys, values = np.concatenate([kept_k, x @ W_K], 1), np.concatenate([kept_v, x @ W_V], 1)
    sees = np.tri(n, old + n, old, dtype=bool) | (fault == "chunk")
    if fault == "short":                    # what lies further back than 9 places has been dropped
        sees = sees & ~np.tri(n, old + n, old - 10, dtype=bool)
    q = x @ W_Q
    if fault == "rounded":
        q, keys, values = (a.astype(np.float32) for a in (q, keys, values))
    scores = q @ keys.swapaxes(1, 2) / np.sqrt(x.shape[-1])
    e = np.where(sees, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    read = e / e.sum(-1, keepdims=True) @ values
    ids, keys, values = np.concatenate([cache.ids, ids], 1), keys.astype(float), values.astype(float)
    new = _Cache(ids, keys, values, cache.calls + 1)
    if fault == "same_object" and old:      # what was handed in goes on, too
        cache.__dict__.update(new.__dict__)
    logits = (x + read) @ W_OUT
    if fault == "softened":
        logits = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return logits, new


# What it does, the fault, whether it is sound, who is fooled, and what is said; the first four are shown.
CACHES = (
    ("keeps all keys and values", "none", True, "sound_refused",
     "is sound. Do you compare the logits of the right places?"),
    ("starts its places at 0 in each call", "restart", False, "second_call_missed",
     "is faulty from the second call on. Do you compare more than the first?"),
    ("keeps the ids and computes all anew", "anew", True, "sound_refused",
     "is sound, if slow. Do you compare the logits of the right places?"),
    ("lets new words see one another", "chunk", False, "chunks_missed",
     "is faulty where several words come at once: each sees those after it in its chunk. Do you try that?"),
    ("gives logarithms of probabilities", "softened", False, "likeliest_alone",
     "is faulty: its numbers are the logits shifted, at each place by as much. Do you compare logits, or "
     "only which word is likeliest?"),
    ("counts calls for places", "calls", False, "chunks_missed",
     "is faulty where a chunk of several words came before: it counts calls, not words. Do you try unequal "
     "chunks?"),
    ("keeps the last nine places", "short", False, "length_missed",
     "is faulty in sentences of more than ten places. Are yours as long as the task allows?"),
    ("keeps the first sentence for all", "first_sentence", False, "sentences_missed",
     "is faulty where several sentences are decoded at once: all read the first one's past. Do you try more "
     "than one, and different ones?"),
    ("is changed by the step that reads it", "same_object", False, "second_use_missed",
     "is faulty where it is used again: the first way of going on has been written into it. Do you go on "
     "twice from one cache?"),
    ("computes in 32 bits", "rounded", True, "exact_comparison",
     "is sound: its logits differ by about 0.000001. Do you leave room for rounding?"),
)  # fmt: skip
