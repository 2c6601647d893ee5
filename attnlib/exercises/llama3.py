"""Decoding with a cache, of lesson 15."""

from functools import partial

import numpy as np

from attnlib.exercises.calls import is_tensor
from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake, rare_but


def _feed(function, x, cache, w_q, w_k, w_v, rope, calls, other=None):
    """The outputs of a row of calls, each the next tokens of one of two sequences, joined by sequence.

    `calls` has (sequence, number of tokens) for each. An output of another shape, or what is no pair of an
    output and a cache, comes back as it is; a pair in the wrong order as a pair.
    """
    sequences = (x,) if other is None else (x, other)
    caches, outputs = [cache] * len(sequences), [[] for _ in sequences]
    read = [0] * len(sequences)
    for which, length in calls:
        x_t = sequences[which][:, read[which] : read[which] + length]
        read[which] += length
        result = function(x_t, caches[which], w_q, w_k, w_v, rope)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            return result
        output, caches[which] = result
        if not _array(output) and _array(result[1]) and result[1].shape == x_t.shape:
            return np.zeros(()), result[1]
        if not _array(output) or output.shape != x_t.shape:
            return output
        outputs[which].append(output)
    outputs = [_cat(parts) for parts in outputs]
    return outputs[0] if other is None else tuple(outputs)


def _array(x):
    return is_tensor(x) or isinstance(x, np.ndarray)


def _cat(parts, axis=1):
    import torch

    try:
        return torch.cat(parts, axis) if any(map(is_tensor, parts)) else np.concatenate(parts, axis)
    except ValueError:
        return torch.cat([*map(torch.from_numpy, parts)], axis)     # torch's own words for what does not fit


def _dot(a, b):
    import torch

    try:
        return a @ b
    except ValueError:
        return torch.from_numpy(a) @ torch.from_numpy(b)


def _decode(x, cache, w_q, w_k, w_v, rope, calls, other=None, **choices):
    """The same with `_step`, which computes in NumPy: it is asked some thousand times for one verdict."""
    import torch

    arrays = [a.numpy() for a in (x, w_q, w_k, w_v)]
    other = None if other is None else other.numpy()
    step = partial(_step, store={}, **choices)      # the store is for mistakes that keep state elsewhere
    result = _feed(step, arrays[0], cache, *arrays[1:], rope.turn, calls, other)
    if isinstance(result, tuple):
        return tuple(part if part.ndim == 0 else torch.from_numpy(part) for part in result)
    return torch.from_numpy(np.ascontiguousarray(result))


def _step(
    x_t, cache, w_q, w_k, w_v, rope, *, store, project="right", turn="right", q_at="right", k_at="right",
    held="all", count="tokens", scale="width", mask="right", fill="-inf", axis=-1, naive=False,
    memory="cache", out="right", order="output first",
):  # fmt: skip
    """`cache` is (keys, values, tokens read, calls made, outputs)."""
    first, none = cache is None, x_t[:, :0]
    if memory == "shared" and not first:
        cache = store["cache"]
    k_old, v_old, n, made, before = cache or (none, none, 0, 0, none)
    if memory == "counter" and not first:
        n = store["cache"][2]
    if memory == "buffer" and not first:
        k_old, v_old = (part[:, :n] for part in store["cache"][:2])
    if count == "length":
        n = k_old.shape[1]
    q, k, v = _projected(x_t, w_q, w_k, w_v, rope, project, turn, n)
    k_turned = k
    if turn in ("right", "keys_only", "values_too"):
        k_turned = rope(k, _positions(k_at, n, made, k))
    if turn in ("right", "queries_only", "values_too"):
        q = rope(q, _positions(q_at, n, made, q))
    if turn == "values_too":
        v = rope(v, _positions(k_at, n, made, v))
    keys, values, kept = _joined(k_old, v_old, k, k_turned, v, rope, n, held)
    scores = _dot(q, keys.swapaxes(-1, -2)) * {
        "width": q.shape[-1] ** -0.5, "none": 1, "linear": 1 / q.shape[-1], "times": q.shape[-1] ** 0.5,
        "keys": keys.shape[1] ** -0.5, "tokens": q.shape[1] ** -0.5, "pairs": (q.shape[-1] / 2) ** -0.5,
    }[scale]  # fmt: skip
    visible = _visible(mask, q.shape[1], keys.shape[1], first)
    result = _dot(_weights(scores, visible, fill, axis, naive), values)
    cache = (*kept, n + x_t.shape[1], made + 1, np.concatenate([before, result], 1) if out == "all" else none)
    store["cache"] = cache
    if out == "residual":
        result = result + x_t
    elif out == "last":
        result = result[:, -1:]
    elif out == "all":
        result = cache[-1]
    elif out != "right":
        lost = {"no_token": (1,), "no_batch": (0,), "squeezed": (0, 1, 2)}[out]
        result = result.squeeze(tuple(i for i in lost if result.shape[i] == 1))
    return {"output first": (result, cache), "cache first": (cache, result), "alone": result}[order]


def _projected(x, w_q, w_k, w_v, rope, project, turn, n):
    w_q, w_k, w_v = {
        "right": (w_q, w_k, w_v), "transposed": (w_q.T, w_k.T, w_v.T), "key_is_query": (w_q, w_q, w_v),
        "query_is_key": (w_k, w_k, w_v), "value_is_key": (w_q, w_k, w_k), "exchanged": (w_k, w_q, w_v),
        "keys_values": (w_q, w_v, w_k), "raw_value": (w_q, w_k, None), "raw_key": (w_q, None, w_v),
    }[project]  # fmt: skip
    turned = rope(x, _positions("right", n, 0, x)) if turn in ("inputs", "inputs_all") else x
    sources = (turned, turned, turned if turn == "inputs_all" else x)
    return tuple(a if w is None else a @ w for a, w in zip(sources, (w_q, w_k, w_v), strict=True))


def _positions(at, n, made, x):
    length = x.shape[1]
    if at == "right":
        return np.arange(n, n + length)
    if at == "floats":
        raise TypeError(_FLOATS)
    if at in ("two_axes", "no_axis"):
        raise ValueError(_misshapen(length, (1, length) if at == "two_axes" else ()))
    if at == "too_many" and n:
        raise ValueError(_misshapen(length, (n + length,)))
    if at in ("same", "last"):
        return np.full(length, n if at == "same" else n + length - 1)
    start = {"restart": 0, "calls": made, "from_one": n + 1, "gap": n + 1 if n else 0, "end": n + length,
             "overlap": max(n - 1, 0), "twice": 2 * n, "chunks": made * length, "too_many": n,
             "batch": x.shape[0] if n else 0, "features": x.shape[2] if n else 0}[at]  # fmt: skip
    return np.arange(start, start + length)


def _joined(k_old, v_old, k, k_turned, v, rope, n, held):
    """Keys and values to attend to, and keys and values to keep."""
    has_old = k_old.shape[1] > 0

    def joined(old, new, dim=1, new_first=False):
        if not has_old:
            return new
        return _cat([new, old] if new_first else [old, new], dim)

    def turned(keys, start=0):
        return rope(keys, np.arange(start, start + keys.shape[1])) if keys.shape[1] else keys

    values = joined(v_old, v)
    if held in ("raw", "raw_half", "shifted", "turned_whole", "shifted_whole"):  # joined, then turned
        raw = joined(k_old, k)
        if held == "raw":
            return joined(k_old, k_turned), values, (raw, values)
        if held == "raw_half":
            return turned(raw), values, tuple(map(_rough, (raw, values)))
        keys = turned(raw, n if "shifted" in held else 0)
        return keys, values, (keys if "whole" in held else raw, values)
    if held in ("turned_old", "turned_old_whole"):
        keys = joined(turned(k_old), k_turned)
        return keys, values, (keys if "whole" in held else joined(k_old, k_turned), values)
    if held in ("batch", "features"):
        keys, values = (joined(*pair, {"batch": 0, "features": -1}[held])
                        for pair in ((k_old, k_turned), (v_old, v)))  # fmt: skip
        return keys, values, (keys, values)
    if held in ("new_first", "keys_new_first", "values_new_first"):
        keys = joined(k_old, k_turned, new_first=held != "values_new_first")
        values = joined(v_old, v, new_first=held != "keys_new_first")
        return keys, values, (keys, values)
    keys = joined(k_old, k_turned)
    everything = (keys, values)
    if isinstance(held, int):
        return *everything, (keys[:, -held:], values[:, -held:])
    if held == "turned_all":
        return turned(keys), values, everything
    if held == "nothing":
        return k_turned, v, everything
    if held == "last_chunk":
        return *everything, (k_turned, v)
    if held == "first":
        return *everything, (k_old, v_old) if has_old else everything
    if held == "late":                       # what is new is seen from the next call on
        return *((k_old, v_old) if has_old else everything), everything
    if held == "last_token" or (held == "last_token_later" and has_old):
        return *everything, (joined(k_old, k_turned[:, -1:]), joined(v_old, v[:, -1:]))
    if held == "twice":
        return _cat([keys, k_turned]), _cat([values, v]), everything
    if held == "kept_twice":
        return *everything, (_cat([keys, k_turned]), _cat([values, v]))
    if held == "values_new":
        return keys, v, (keys, v)
    if held == "exchanged":
        return *everything, (values, keys)
    if held == "one_sentence":
        return *everything, tuple(np.broadcast_to(part[:1], part.shape) for part in everything)
    if held == "one_sentence_for_all":
        return keys[:1], values[:1], everything
    if held == "one_sentence_s_keys":
        return keys[:1], values, everything
    if held == "half":
        return *everything, tuple(map(_rough, everything))
    return *everything, everything


def _rough(x):
    return x.astype(np.float16).astype(x.dtype)


def _visible(mask, n_query, n_key, first):
    """(queries, keys) in booleans; None where nothing is hidden."""
    if mask.endswith("_long"):               # one token alone is treated rightly
        mask = "right" if n_query == 1 else mask.removesuffix("_long")
    if mask.endswith("_later"):
        mask = "right" if first else mask.removesuffix("_later")
    if mask == "none" or (mask == "first_none" and first) or (mask == "right" and n_query == 1):
        return None
    i, j = np.arange(n_query)[:, None], np.arange(n_key)
    offset = n_key - n_query
    if mask == "own_chunk":
        return (j <= i + offset) & (j >= offset)
    if mask == "past_only":
        return np.broadcast_to(j < offset, (n_query, n_key)) if offset else j <= i
    if mask == "own_first":                  # the triangle lies over the oldest keys
        return (j <= i) | (j >= n_query)
    if mask == "diagonal":
        return (j < offset) | (j == i + offset)
    if mask == "reversed":
        return j >= i + offset
    if mask == "inverted":
        return j > i + offset
    return j <= i + {"start": 0, "one_more": offset + 1, "one_less": offset - 1}.get(mask, offset)


def _weights(scores, visible, fill, axis, naive):
    if visible is None:
        masked = scores
    elif fill in ("after", "plus"):
        masked = scores + visible if fill == "plus" else scores
    else:
        masked = np.where(visible, scores, {"-inf": -np.inf, "0": 0, "low": -1e9, "nan": np.nan}[fill])
    e = np.exp(masked if naive else masked - masked.max(axis, keepdims=True))
    weights = e / e.sum(axis, keepdims=True)
    return weights * visible if fill == "after" and visible is not None else weights


_FLOATS = "rope: positions must be a tensor of integers"


def _misshapen(length, shape):
    return f"rope: positions must have shape ({length},), one for each row that is rotated; got {shape}"


class _Rope:
    """A rotation by positions, for torch tensors; ``turn`` is the same for arrays and without questions.

    The pairs are neighbours, or halves. ``curve`` says what is done to a position before it turns anything:
    with squares no shift of all positions goes unseen, with quarter turns whole numbers stay whole.
    """

    def __init__(self, width, base=10000.0, halves=False, curve="line"):
        p, frequency = np.arange(400.0)[:, None], base ** (-np.arange(0, width, 2) / width)
        turns = {"line": p, "squares": 0.03 * (p + 1) ** 2, "quarters": p % 4 * np.pi / 2}[curve]
        angle = turns * (1 if curve == "quarters" else frequency)
        self.halves, self.cos, self.sin = halves, np.cos(angle), np.sin(angle)
        if curve == "quarters":
            self.cos, self.sin = self.cos.round(), self.sin.round()

    def __call__(self, a, positions):
        import torch

        if not is_tensor(positions) or positions.is_floating_point() or positions.dtype == torch.bool:
            raise TypeError(_FLOATS)
        if positions.ndim != 1 or len(positions) != a.shape[-2]:
            raise ValueError(_misshapen(a.shape[-2], tuple(positions.shape)))
        if len(positions) and not 0 <= int(positions.min()) <= int(positions.max()) < len(self.cos):
            raise ValueError("rope: positions are counted from 0, and no sequence here is that long")
        cos, sin = (torch.from_numpy(x[positions.numpy()]).to(a.dtype) for x in (self.cos, self.sin))
        pair = self._pair(a)
        pair = pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos
        return torch.cat(pair, -1) if self.halves else torch.stack(pair, -1).flatten(-2)

    def turn(self, a, positions):
        cos, sin, out = self.cos[positions], self.sin[positions], np.empty(a.shape, a.dtype)
        (one, two), (x, y) = self._pair(a), self._pair(out)
        x[...] = one * cos - two * sin
        y[...] = one * sin + two * cos
        return out

    def _pair(self, a):
        half = a.shape[-1] // 2
        return (a[..., :half], a[..., half:]) if self.halves else (a[..., ::2], a[..., 1::2])


def _cases():
    import torch

    def arrays(seed, b, length, width, kind=torch.float64):
        rng = np.random.default_rng(1500 + seed)
        x = torch.tensor(rng.normal(size=(b, length, width))).to(kind)
        return x, None, *(torch.tensor(rng.normal(size=(width, width)) * 1.2 / width**0.5).to(kind)
                          for _ in range(3))  # fmt: skip

    def one(*lengths):
        return tuple((0, length) for length in lengths)

    def case(name, given, calls, other=None, hint="", **kind):
        rope = _Rope(given[0].shape[-1], **kind)
        return Case(name, (*given, rope, calls) if other is None else (*given, rope, calls, other), hint=hint)

    rng = np.random.default_rng(15)
    large = (torch.tensor(rng.integers(-9, 10, size=(2, 6, 4))).double(), None,
             *(torch.tensor(rng.integers(-2, 3, size=(4, 4))).double() for _ in range(3)))
    plain, turns = arrays(0, 2, 6, 4), ((0, 2), (1, 3), (0, 1), (1, 1), (0, 3), (1, 2))
    few = (plain[0][:, :3], *plain[1:])
    return [
        case("5 tokens in one call", arrays(1, 1, 5, 4), one(5),
             hint="Without a cache this is causal self-attention with rotated queries and keys."),
        case("3 tokens one by one", few, one(1, 1, 1),
             hint="Every call but the first reads the cache: what must it hold, and at which position is the "
             "new token?"),
        case("chunks of 3, 1 and 2 tokens", plain, one(3, 1, 2),
             hint="Within a chunk too, no token sees a later one. Write down which keys the second token of "
             "the last chunk may see."),
        case("chunks of 1, 4 and 2 tokens", arrays(2, 3, 7, 6), one(1, 4, 2),
             hint="A chunk may be longer than all before it."),
        case("two chunks of 3 tokens, a batch of 3", arrays(3, 3, 6, 2), one(3, 3)),
        case("4 sentences in chunks of 4 tokens, width 4", arrays(4, 4, 8, 4), one(4, 4)),
        case("a rotation that is given in another form", arrays(5, 2, 6, 4), one(2, 3, 1),
             hint="Use the rope that is handed over.", base=100.0, halves=True),
        case("a rotation that shows every shift of positions", arrays(6, 2, 7, 4), one(2, 1, 3, 1),
             curve="squares",
             hint="Positions are counted from 0 at the start of the sequence, across calls."),
        case("scores in the hundreds", large, one(2, 1, 3), curve="quarters",
             hint="A softmax that subtracts the largest score is safe."),
        case("float32", arrays(7, 2, 6, 4, torch.float32), one(2, 1, 3),
             hint="Make what you add in the type of x_t."),
        case("a new sequence after another one", plain, ((0, 3), (0, 3), (1, 2), (1, 4)),
             arrays(8, 2, 6, 4)[0],
             hint="A cache of None begins a new sequence: nothing of the last one may be left."),
        case("two sequences that are continued in turn", plain, turns, arrays(9, 2, 6, 4)[0],
             hint="Each goes on from its own cache: keep nothing outside of it."),
        case("two sequences in turn, with batches of 2 and 1", plain, turns, arrays(10, 1, 6, 4)[0],
             hint="Each goes on from its own cache: keep nothing outside of it.", curve="squares"),
        case("a long sequence", arrays(11, 1, 67, 2), one(65, 1, 1),
             hint="The cache has no largest length."),
    ]  # fmt: skip


def _not_finite(case, value, expected):
    for part in value if isinstance(value, (tuple, list)) else (value,):
        part = floats(part)
        if part is not None and not np.isfinite(part).all():
            return "There are NaN or infinite numbers."
    return None


def _where(case, value, expected):
    """What kind of token goes wrong."""
    got, lengths = floats(value), [length for _, length in case.args[6]]
    if isinstance(value, (tuple, list)) or got is None:
        return None
    right = np.split(np.isclose(got, floats(expected), 1e-4, 1e-5).all((0, 2)), np.cumsum(lengths)[:-1])
    if len(lengths) > 1 and right[0].all():
        if all(part.all() for part in right if len(part) == 1):
            several = " of several tokens" if 1 in lengths else ""
            return f"The first call is right, which has no cache, and a later one{several} is not."
        return "The first call is right, which has no cache, and a later one is not."
    if max(lengths) > 1 and all(part[-1] for part in right):
        return "The last token of a chunk is right, and one before it is not."
    if max(lengths) > 1 and all(part[0] for part in right):
        return "The first token of a chunk is right, and one after it is not."
    return None


_PROJECT = (
    Mistake("weights_transposed", "You multiply by the transposes of the matrices, as nn.Linear does. Here "
            "each is used as x @ w.", {"project": "transposed"}, convention=True),
    Mistake("same_projection", "Queries and keys both come from w_q. Keys have a matrix of their own.",
            {"project": "key_is_query"}),
    Mistake("same_projection", "Queries and keys both come from w_k. Queries have a matrix of their own.",
            {"project": "query_is_key"}),
    Mistake("same_projection", "Values come from w_k. They have a matrix of their own.",
            {"project": "value_is_key"}),
    Mistake("roles_swapped", "Queries come from w_k and keys from w_q. Who asks and who is asked are "
            "exchanged.", {"project": "exchanged"}),
    Mistake("roles_swapped", "Keys come from w_v and values from w_k: the two are exchanged.",
            {"project": "keys_values"}),
    Mistake("not_projected", "Your values are x_t itself. They are x_t @ w_v.", {"project": "raw_value"}),
    Mistake("not_projected", "Your keys are x_t itself. They are x_t @ w_k.", {"project": "raw_key"}),
)  # fmt: skip
_TURN = (
    Mistake("not_rotated", "Neither queries nor keys are rotated, so nothing knows where a token stands.",
            {"turn": "none"}),
    Mistake("queries_not_rotated", "Keys are rotated and queries are not. A score knows the distance of two "
            "tokens only when both are.", {"turn": "keys_only"}),
    Mistake("keys_not_rotated", "Queries are rotated and keys are not. A score knows the distance of two "
            "tokens only when both are.", {"turn": "queries_only"}),
    Mistake("values_rotated", "You rotate the values as well. A position is needed for the score, not in "
            "what is handed out.", {"turn": "values_too"}),
    Mistake("rotated_before_projection", "You rotate x_t and project afterwards. The matrix mixes what was "
            "rotated; project first.", {"turn": "inputs"}),
    Mistake("rotated_before_projection", "You rotate x_t and project afterwards, the values too. The matrix "
            "mixes what was rotated; project first, and leave the values as they are.",
            {"turn": "inputs_all"}),
)  # fmt: skip


_SIDES = (
    ("", ("q_at", "k_at")),
    (" So it is with your queries; your keys are right.", ("q_at",)),
    (" So it is with your keys; your queries are right.", ("k_at",)),
)
_POSITIONS = tuple(
    Mistake(name, hint + side, dict.fromkeys(keywords, at))
    for side, keywords in _SIDES
    for at, name, hint in (
        ("restart", "positions_restart", "Every chunk begins at position 0 again. The position of a token "
         "counts from the start of the sequence; how many came before stands in the cache."),
        ("calls", "calls_counted", "The position grows by one with each call. It must grow by the number of "
         "tokens in the chunk."),
        ("chunks", "calls_counted", "The position is the number of calls times the length of this chunk. "
         "Chunks may differ in length: count the tokens."),
        ("from_one", "positions_from_one", "Positions begin at 1. They are counted from 0."),
        ("gap", "position_skipped", "After the first chunk every position is one too large: one is skipped "
         "between the cache and the chunk."),
        ("overlap", "position_repeated", "After the first chunk every position is one too small: the last "
         "one in the cache is used again."),
        ("end", "positions_after_append", "You read the length after the chunk was appended, so its "
         "positions begin where they should end."),
        ("same", "one_position_for_all", "All tokens of a chunk get the position of its first. Each has its "
         "own."),
        ("last", "one_position_for_all", "All tokens of a chunk get the position of its last. Each has its "
         "own."),
        ("twice", "tokens_counted_twice", "The number of tokens before the chunk is counted twice. Is "
         "it read off the cache and added up as well?"),
        ("batch", "positions_off_the_cache", "The number of tokens before the chunk is read off the wrong "
         "axis of the cache: it is the size of the batch."),
        ("features", "positions_off_the_cache", "The number of tokens before the chunk is read off the wrong "
         "axis of the cache: it is the width."),
        ("floats", "positions_not_whole", "Positions are handed to rope as floating numbers. It takes a "
         "tensor of integers, as torch.arange makes of integers."),
        ("two_axes", "positions_misshapen", "Positions are one row (n,), the same for all sentences; yours "
         "have two axes."),
        ("no_axis", "positions_misshapen", "Positions are one row (n,), also where n is 1; yours is a single "
         "number."),
        ("too_many", "positions_misshapen", "You hand positions of the whole sequence to rope with rows of "
         "the chunk. Each row needs its own position."),
    )
)  # fmt: skip
_TWICE = "You rotate keys again that the cache holds rotated. A key is rotated once, by its own position. "
_HELD = (
    Mistake("rotated_twice", _TWICE + "Keep keys raw and rotate all at each call, or keep them rotated and "
            "rotate only the new ones.", {"held": "turned_whole"}),
    Mistake("rotated_twice", _TWICE + "Here the new ones are rotated twice too.", {"held": "turned_all"}),
    Mistake("rotated_twice", _TWICE + "Here the old ones are, at every call, and once more each time.",
            {"held": "turned_old_whole"}),
    Mistake("rotated_twice", _TWICE + "Here the old ones are, at every call.", {"held": "turned_old"}),
    Mistake("cached_keys_raw", "The cache holds keys without rotation, and only the new ones are rotated. "
            "Old keys need theirs too.", {"held": "raw"}),
    Mistake("old_keys_shifted", "You rotate all keys, old and new, by positions that begin at the chunk. The "
            "oldest key in the cache has position 0.", {"held": "shifted"}),
    Mistake("old_keys_shifted", "You rotate all keys, old and new, by positions that begin at the chunk, and "
            "keep them so. The oldest has position 0, and each is rotated once.", {"held": "shifted_whole"}),
    Mistake("cache_not_used", "A chunk attends to itself alone: the keys and values of earlier chunks are "
            "not read.", {"held": "nothing"}),
    *(Mistake(name, hint, {"held": held, "count": count}) for name, hint, held in (
        ("cache_of_last_chunk", "The cache keeps the last chunk only, so tokens before it are forgotten. "
         "Append to what is there.", "last_chunk"),
        ("cache_not_updated", "The cache of the first call is handed on for ever: later chunks are never "
         "appended to it.", "first"),
        ("last_token_cached", "Of each chunk only the last token gets into the cache. All of them must.",
         "last_token"),
        ("last_token_cached", "Of a later chunk only the last token gets into the cache. All of them must.",
         "last_token_later"),
        ("chunk_counted_twice", "Each chunk gets into the cache twice. Once is enough.", "kept_twice"),
        *(("window", f"The cache keeps no more than {size} tokens. Full causal attention forgets none.", size)
          for size in (1, 2, 3, 4, 5, 6, 8, 10, 16, 20, 32, 50, 64)),
    ) for count in ("tokens", "length")),
    Mistake("own_keys_missing", "A later chunk attends to the cache alone: its own keys are appended too "
            "late. A token sees itself.", {"held": "late"}),
    Mistake("chunk_counted_twice", "The chunk's keys and values are there twice: they are appended to a "
            "cache that holds them already.", {"held": "twice"}),
    Mistake("values_not_cached", "Keys are kept and values are not. Each weight needs the value of its key.",
            {"held": "values_new"}),
    Mistake("cache_exchanged", "What goes into the cache as keys comes out as values. Write and read it in "
            "one order.", {"held": "exchanged"}),
    Mistake("cache_of_first_sentence", "Only the first sentence of the batch is kept, and serves all.",
            {"held": "one_sentence"}),
    Mistake("cache_of_first_sentence", "The keys of the first sentence serve the whole batch. Each sentence "
            "attends to itself.", {"held": "one_sentence_s_keys"}),
    Mistake("cache_of_first_sentence", "The keys and values of the first sentence serve the whole batch. "
            "Each sentence attends to itself.", {"held": "one_sentence_for_all"}),
    *(Mistake("half_precision", "Keys and values are kept in half precision, so what comes back differs in "
              "the fourth digit. Keep them in the type in which they were made.", {"held": held})
      for held in ("half", "raw_half")),
    Mistake("new_keys_first", "The chunk's keys come before the old ones, and the mask reads them as if they "
            "came after. Append at the end.", {"held": "new_first"}),
    Mistake("keys_and_values_apart", "Old values stand behind the new ones, while keys are in order: weights "
            "meet the values of other tokens.", {"held": "values_new_first"}),
    Mistake("keys_and_values_apart", "Old keys stand behind the new ones, while values are in order: weights "
            "meet the values of other tokens.", {"held": "keys_new_first"}),
    Mistake("joined_along_batch", "You join the cache and the chunk along the batch. Tokens lie along "
            "axis 1.", {"held": "batch"}),
    Mistake("joined_along_features", "You join the cache and the chunk along the features. Tokens lie along "
            "axis 1.", {"held": "features"}),
)  # fmt: skip
_LONG = " One token alone you treat rightly; a chunk needs the same."
_MASK = (
    Mistake("no_mask", "Nothing is hidden: tokens of a chunk see the ones after them. One token at a time "
            "needs no mask, a chunk does.", {"mask": "none"}),
    *(Mistake("mask_aligned_at_start", "Token i of a chunk sees keys 0 to i, as if the cache were empty (so "
              "does is_causal=True). It sees all of the cache, and the chunk up to itself: align the mask at "
              f"the end.{more}", {"mask": mask}) for mask, more in (("start", ""), ("start_long", _LONG))),
    Mistake("mask_in_first_call_only", "The mask is there when the cache is empty and missing later. Every "
            "chunk of several tokens needs one.", {"mask": "none_later"}),
    Mistake("mask_in_later_calls_only", "The mask is missing in the first call, where tokens of a chunk see "
            "later ones.", {"mask": "first_none"}),
    *(Mistake("sees_next_token", "A token sees the one after it: the mask's diagonal is one too far right.",
              {"mask": mask}) for mask in ("one_more", "one_more_later")),
    *(Mistake("does_not_see_itself", f"A token does not see itself{more}: the mask's diagonal is one too far "
              "left.", {"mask": mask, "fill": fill})
      for mask, more in (("one_less", ", and the very first sees nothing"), ("one_less_later", ""),
                         ("one_less_long", " in a chunk of several")) for fill in ("-inf", "low")),
    Mistake("cache_masked", f"The mask hides the cache: a token sees its own chunk only.{_LONG}",
            {"mask": "own_chunk_long"}),
    *(Mistake("own_chunk_masked", "The mask hides the whole chunk and leaves the cache. A token sees itself "
              f"and those before it in its chunk.{more}", {"mask": mask})
      for mask, more in (("past_only", ""), ("past_only_long", _LONG))),
    Mistake("mask_over_oldest", "The triangle lies over the oldest keys. The chunk's own keys are the last "
            "ones.", {"mask": "own_first"}),
    Mistake("chunk_sees_only_itself", "A token sees the cache and itself, and not the tokens before it in "
            "its chunk.", {"mask": "diagonal"}),
    Mistake("mask_reversed", "A token sees itself and what comes after it. Turn the triangle round.",
            {"mask": "reversed"}),
    *(Mistake("polarity", "You hide what may be seen and show what comes later. Turn the mask round.",
              {"mask": mask, "fill": fill}) for mask in ("inverted", "inverted_long")
      for fill in ("-inf", "low")),
    Mistake("masked_after", "You mask the weights after the softmax, and what is left no longer sums to 1. "
            "Mask the scores.", {"fill": "after"}),
    Mistake("fill_zero", "Hidden scores become 0. A score of 0 is a score: its exponential is 1.",
            {"fill": "0"}),
    Mistake("mask_added", "You add the mask to the scores as it is: True adds 1, and nothing is hidden.",
            {"fill": "plus"}),
    Mistake("zero_times_infinity", "The mask is multiplied by infinity, and 0 times infinity is NaN. Choose "
            "the score by the mask.", {"fill": "nan"}),
)  # fmt: skip
_REST = (
    Mistake("no_scale", "The scores are not scaled. Divide them by the root of the width.",
            {"scale": "none"}),
    Mistake("scale_linear", "You divide by the width, or twice by its root. Divide by the root, once.",
            {"scale": "linear"}),
    Mistake("scale_multiplied", "You multiply by the root of the width. Divide by it.", {"scale": "times"}),
    Mistake("scale_of_keys", "You divide by the root of the number of keys, so a score changes as the cache "
            "grows. It is the width that counts.", {"scale": "keys"}),
    Mistake("scale_of_tokens", "You divide by the root of the chunk's length. It is the width that counts.",
            {"scale": "tokens"}),
    Mistake("scale_of_pairs", "You divide by the root of half the width. A dot product runs over all D "
            "features.", {"scale": "pairs"}),
    Mistake("softmax_over_queries", "The softmax runs over the queries. Each query's weights must sum to 1 "
            "over its keys, the last axis.", {"axis": 1}),
    Mistake("softmax_over_batch", "The softmax runs over the batch. It runs over the keys, the last axis.",
            {"axis": 0}),
    Mistake("overflow", "The exponential of a large score is infinite, and inf/inf is NaN. Subtract each "
            "row's largest score, or use a softmax that does.", {"naive": True}),
    Mistake("residual", "You add x_t to the result. The residual belongs to the block around this.",
            {"out": "residual"}),
    Mistake("last_token_only", "Only the last token's output comes back. Return one for each token of the "
            "chunk.", {"out": "last"}),
    Mistake("shared_state", "What you keep is shared by all sequences and begins anew with a cache of None. "
            "A second sequence then takes the place of the first. Keep everything in the cache that you "
            "return.", {"memory": "shared"}),
    Mistake("shared_state", "The position is counted outside the cache, and two sequences in turn share the "
            "counter. Keep it in the cache that you return, or read it off its length.",
            {"memory": "counter"}),
    Mistake("shared_state", "All sequences write into one store, and only the length is in the cache, so one "
            "sequence overwrites another. Keep everything in the cache that you return.",
            {"memory": "buffer"}),
    Mistake("axis_squeezed", "Where the chunk is one token its axis is dropped. The output keeps its three "
            "axes, (B, T, D).", {"out": "no_token"}),
    Mistake("axis_squeezed", "Where the batch is one sentence its axis is dropped. The output keeps its "
            "three axes, (B, T, D).", {"out": "no_batch"}),
    Mistake("axis_squeezed", "Axes of length 1 are dropped. The output keeps its three axes, (B, T, D).",
            {"out": "squeezed"}),
    Mistake("all_outputs", "The outputs of all tokens so far come back. Return those of the chunk.",
            {"out": "all"}),
    Mistake("results_swapped", "You return the cache first. The order is output, cache.",
            {"order": "cache first"}),
    Mistake("cache_not_returned", "Only the output comes back, so the next call knows nothing of this one. "
            "Return both, the output and the new cache.", {"order": "alone"}),
)  # fmt: skip

_IN_PAIRS = {
    "weights_transposed", "same_projection", "not_rotated", "queries_not_rotated", "keys_not_rotated",
    "values_rotated", "positions_restart", "calls_counted", "rotated_twice", "cached_keys_raw",
    "cache_not_used", "cache_of_last_chunk", "no_mask", "mask_aligned_at_start", "mask_in_first_call_only",
    "sees_next_token", "polarity", "masked_after", "no_scale", "scale_linear", "scale_multiplied",
    "softmax_over_queries", "residual", "last_token_only", "results_swapped", "cache_not_returned",
}  # fmt: skip

decode_step = FunctionExercise(
    _decode,
    _cases,
    rare_but(_IN_PAIRS, (*_PROJECT, *_TURN, *_POSITIONS, *_HELD, *_MASK, *_REST)),
    "Checked in one call, token by token and in chunks of mixed sizes, with batches of 1 to 4, two kinds of "
    "rotation, large scores, a long sequence, and two sequences in turn. What comes out is full causal "
    "attention, whatever the chunks.",
    properties=(_not_finite, _where),
    drive=_feed,
    rtol=1e-4,
    atol=1e-5,
)

_SOLUTION = '''
import torch


def decode_step(x_t, cache, w_q, w_k, w_v, rope):
    n = 0 if cache is None else cache[0].shape[1]           # tokens before this chunk
    positions = torch.arange(n, n + x_t.shape[1])
    q, k, v = rope(x_t @ w_q, positions), rope(x_t @ w_k, positions), x_t @ w_v
    if cache is not None:
        k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
    scores = q @ k.mT / q.shape[-1] ** 0.5                  # (B, T, n + T)
    later = torch.arange(k.shape[1]) > positions[:, None]
    weights = scores.masked_fill(later, -torch.inf).softmax(-1)
    return weights @ v, (k, v)
'''

EXERCISES = (
    Exercise(
        "kv_cache", "15", decode_step,
        (
            "Write full causal attention first, for a cache of None. Which of its parts could a later call "
            "use again, and which does no later token ask for?",
            "Keys and values of earlier tokens are asked for again, queries are not. The number of tokens "
            "read so far gives the positions of the chunk, and it is the length of what the cache holds.",
            "Project the chunk; rotate its queries and keys by n, n + 1, ..., where n is the cache's length. "
            "Append keys and values to the cached ones along axis 1. Query i of the chunk has position n + i "
            "and sees the keys 0 to n + i. Return the outputs, and the longer keys and values as the cache.",
        ),
        _SOLUTION, "function",
    ),
)  # fmt: skip
