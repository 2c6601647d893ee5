import numpy as np
import pytest
import torch
from drawn import assert_same_gradients, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import BlockPool, PagedCache, attention, grouped_query_attention, paged_attention


def scattered(lengths, block_size=3, kv_heads=2, d=4, dv=5, seed=0):
    """Blocks in any order, filled with NaN where nothing may be read; and the tokens in a row."""
    rng = np.random.default_rng(seed)
    counts = [-(-n // block_size) for n in lengths]
    n_blocks = sum(counts) + 2
    order = iter(rng.permutation(n_blocks))
    keys = np.full((n_blocks, block_size, kv_heads, d), np.nan)
    values = np.full((n_blocks, block_size, kv_heads, dv), np.nan)
    tables = rng.integers(-(10**6), 10**6, (len(lengths), max(counts) + 1)).astype(np.int32)
    rows = []
    for b, (n, count) in enumerate(zip(lengths, counts, strict=True)):
        k, v = rng.normal(size=(n, kv_heads, d)), rng.normal(size=(n, kv_heads, dv))
        tables[b, :count] = [next(order) for _ in range(count)]
        for t in range(n):
            keys[tables[b, t // block_size], t % block_size] = k[t]
            values[tables[b, t // block_size], t % block_size] = v[t]
        rows.append((k.swapaxes(0, 1), v.swapaxes(0, 1)))
    return keys, values, tables, np.array(lengths, dtype=np.int32), rows


@pytest.mark.parametrize("n_query", [1, 2])
@pytest.mark.parametrize("heads, kv_heads", [(2, 2), (6, 2), (3, 1)])
def test_is_attention_over_the_tokens_in_a_row(lib, heads, kv_heads, n_query):
    lengths = [7, 1, 6, 0, 3]
    keys, values, tables, lengths, rows = scattered(lengths, kv_heads=kv_heads)
    q = normal(5, heads, n_query, 4)
    got = paged_attention(*map(lib.array, (q, keys, values, tables, lengths)), scale=0.3)
    assert tuple(got.shape) == (5, heads, n_query, 5)
    for b, (k, v) in enumerate(rows):
        if k.shape[1] == 0:
            assert not lib.numpy(got)[b].any()
            continue
        k, v = (x.repeat(heads // kv_heads, 0) for x in (k, v))
        wanted = attention(q[b], k, v, causal=True, scale=0.3)
        np.testing.assert_allclose(lib.numpy(got)[b], wanted, atol=1e-12)


def test_types_and_inputs_unchanged(lib):
    keys, values, tables, lengths, _ = scattered([7, 2])
    keys, values, q = np.nan_to_num(keys), np.nan_to_num(values), normal(2, 4, 1, 4)
    wanted = paged_attention(q, keys, values, tables, lengths)
    arrays = [lib.array(x) for x in (q, keys, values, tables, lengths)]
    before = [lib.numpy(x).copy() for x in arrays]
    paged_attention(*arrays)
    for x, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(lib.numpy(x), old)
    half = [lib.array(x.astype(np.float16)) for x in (q, keys, values)]
    out = lib.numpy(paged_attention(*half, *map(lib.array, (tables.astype(np.int64), lengths))))
    assert out.dtype == np.float16
    np.testing.assert_allclose(out, wanted, atol=5e-3)


def test_vllms_layouts_are_brought_here_as_the_text_says():
    keys, values, *rest = map(torch.from_numpy, scattered([4, 5], d=8)[:4])
    theirs = keys.reshape(*keys.shape[:3], 2, 4).permute(0, 2, 3, 1, 4), values.permute(0, 2, 3, 1)
    assert theirs[0].shape[1:] == (2, 2, 3, 4) and theirs[1].shape[1:] == (2, 5, 3)
    ours = theirs[0].permute(0, 3, 1, 2, 4).flatten(3), theirs[1].permute(0, 3, 1, 2)
    q = torch.from_numpy(normal(2, 2, 1, 8))
    got, wanted = paged_attention(q, *ours, *rest), paged_attention(q, keys, values, *rest)
    np.testing.assert_array_equal(got, wanted)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 11), min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 3),
       st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))  # fmt: skip
def test_any_tables_and_their_gradients(lengths, block_size, kv_heads, times, n_query, seed):
    keys, values, tables, lengths, _ = scattered(lengths, block_size, kv_heads, seed=seed)
    heads, tables, lengths = kv_heads * times, torch.from_numpy(tables), torch.from_numpy(lengths)
    q, keys, values = inputs = [
        torch.from_numpy(x).requires_grad_()
        for x in (normal(len(lengths), heads, n_query, 4), np.nan_to_num(keys), np.nan_to_num(values))
    ]
    rows = []
    for one, table, n in zip(q, tables, lengths.tolist(), strict=True):
        of_token = [(int(table[t // block_size]), t % block_size) for t in range(n)]
        k, v = (
            torch.stack([x[at] for at in of_token], 1).repeat_interleave(times, 0) if n else None
            for x in (keys, values)
        )
        zeros = 0 * one[..., :1].expand(-1, -1, 5)
        rows.append(attention(one, k, v, causal=True, return_weights=True)[0] if n else zeros)
    wanted = torch.stack(rows) + 0 * (keys.sum() + values.sum())
    got = paged_attention(*inputs, tables, lengths) + 0 * (q.sum() + keys.sum() + values.sum())
    np.testing.assert_allclose(got.detach(), wanted.detach(), atol=1e-12)
    assert_same_gradients(got, wanted, inputs, atol=1e-12)


# The cache


def in_a_row(cache, sequence):
    """What the cache holds of a sequence, token by token."""
    tables, lengths = cache.tables([sequence])
    size = cache.block_size
    at = [(int(tables[0, t // size]), t % size) for t in range(int(lengths[0]))]
    return [np.asarray(cache.keys)[i, j] for i, j in at], [np.asarray(cache.values)[i, j] for i, j in at]


@settings(max_examples=40)
@given(st.integers(1, 5), st.integers(0, 10**6), st.sampled_from(["numpy", "torch"]))
def test_any_chunks_forks_and_ends(block_size, seed, library):
    rng = np.random.default_rng(seed)
    array = np.asarray if library == "numpy" else torch.from_numpy
    cache = PagedCache(60, block_size, 2, 3, like=array(np.empty(0)))
    kept = {cache.start(): np.empty((2, 0, 3))}
    for _ in range(12):
        action = rng.choice(["start", "append", "append", "append", "fork", "fork", "end"])
        sequence = int(rng.choice([*kept])) if kept else None
        if action == "start" or sequence is None:
            kept[cache.start()] = np.empty((2, 0, 3))
        elif action == "append" and kept[sequence].shape[1] < 6:
            x = rng.normal(size=(2, rng.integers(1, 6), 3))
            cache.append(sequence, array(x), array(-x))
            kept[sequence] = np.concatenate([kept[sequence], x], 1)
        elif action == "fork" and len(kept) < 5:
            kept[cache.fork(sequence)] = kept[sequence]
        elif action == "end":
            cache.end(sequence)
            del kept[sequence]
    blocks = [set(np.asarray(cache.tables([s])[0])[0].tolist()) - {-1} for s in kept]
    for sequence, used in zip(kept, blocks, strict=True):
        keys, values = in_a_row(cache, sequence)
        assert len(keys) == kept[sequence].shape[1]
        for t, (k, v) in enumerate(zip(keys, values, strict=True)):
            np.testing.assert_array_equal(k, kept[sequence][:, t])
            np.testing.assert_array_equal(v, -kept[sequence][:, t])
        assert 0 <= len(used) * block_size - len(keys) < block_size, "less than one block is left over"
    users = [sum(block in used for used in blocks) for block in range(60)]
    assert cache.pool.users == users and sorted(cache.pool.free) == [b for b, n in enumerate(users) if n == 0]


def test_decoding_through_the_cache_is_decoding_over_the_whole(lib):
    q, k, v = normal(4, 11, 3), normal(2, 11, 3, seed=1), normal(2, 11, 3, seed=2)
    wanted = grouped_query_attention(q, k, v, causal=True)
    cache = PagedCache(4, 3, 2, 3, like=lib.array(q))
    sequence = cache.start()
    for a, b in ((0, 4), (4, 5), (5, 6), (6, 10), (10, 11)):
        cache.append(sequence, lib.array(k[:, a:b]), lib.array(v[:, a:b]))
        got = paged_attention(lib.array(q[None, :, a:b]), cache.keys, cache.values, *cache.tables([sequence]))
        np.testing.assert_allclose(lib.numpy(got)[0], wanted[:, a:b], atol=1e-12)


def test_a_shared_prefix_is_kept_once_and_copied_when_written_into():
    cache, x = PagedCache(8, 4, 1, 1), np.arange(6.0).reshape(1, 6, 1)
    prompt = cache.start()
    cache.append(prompt, x, x)
    twins = [cache.fork(prompt) for _ in range(2)]
    assert cache.pool.users[:2] == [3, 3] and len(cache.pool.free) == 6
    cache.append(twins[0], x[:, :1] + 100, x[:, :1])
    assert cache.tables([prompt, *twins])[0].tolist() == [[0, 1], [0, 2], [0, 1]]
    assert cache.pool.users[:3] == [3, 2, 1]
    cache.append(twins[1], x[:, :1] + 200, x[:, :1])
    assert cache.tables([twins[1]])[0].tolist() == [[0, 3]]
    cache.append(prompt, x[:, :1] + 300, x[:, :1])
    assert cache.tables([prompt])[0].tolist() == [[0, 1]], "the last one left writes in place"
    ends = [float(in_a_row(cache, s)[0][-1][0, 0]) for s in (prompt, *twins)]
    assert ends == [300, 100, 200]
    cache.end(prompt)
    cache.end(twins[0])
    assert [float(k[0, 0]) for k in in_a_row(cache, twins[1])[0]] == [0, 1, 2, 3, 4, 5, 200]
    cache.end(twins[1])
    assert len(cache.pool.free) == 8


def test_a_full_shared_block_is_not_copied():
    cache, x = PagedCache(3, 2, 1, 1), np.ones((1, 4, 1))
    a = cache.start()
    cache.append(a, x, x)
    b = cache.fork(a)
    cache.append(b, x[:, :1], x[:, :1])
    assert cache.tables([b])[0].tolist() == [[0, 1, 2]] and cache.pool.users == [2, 2, 1]


def test_without_a_free_block_nothing_changes():
    cache, x = PagedCache(2, 4, 1, 1), np.ones((1, 6, 1))
    a = cache.start()
    cache.append(a, x, x)
    for tokens in (3, 9):
        with pytest.raises(ValueError, match="of the 2 blocks 0 are free; [12] more are needed"):
            cache.append(a, x[:, :1].repeat(tokens, 1), x[:, :1].repeat(tokens, 1))
    b = cache.fork(a)
    with pytest.raises(ValueError, match="0 are free; 1 more"):
        cache.append(b, x[:, :1], x[:, :1])
    assert cache.tables([a, b])[0].tolist() == [[0, 1], [0, 1]] and cache.tables([b])[1].tolist() == [6]
    cache.end(a)
    cache.append(b, x[:, :2], x[:, :2])
    assert cache.tables([b])[1].tolist() == [8]


def test_blocks_are_taken_all_or_none_the_copy_of_a_shared_one_included():
    cache, x = PagedCache(4, 4, 1, 1), np.ones((1, 10, 1))
    a = cache.start()
    cache.append(a, x[:, :6], x[:, :6])
    b = cache.fork(a)
    with pytest.raises(ValueError, match="of the 4 blocks 2 are free; 3 more are needed"):
        cache.append(b, x, x)
    assert cache.tables([b])[0].tolist() == [[0, 1]] and cache.pool.users == [2, 2, 0, 0]
    assert cache.pool.free == [3, 2] and cache.tables([b])[1].tolist() == [6]


def test_blocks_are_of_the_librarys_own_type(lib):
    cache = PagedCache(2, 4, 1, 3, like=lib.array(np.empty(0, np.float16)))
    a = cache.start()
    k = normal(1, 2, 3)
    cache.append(a, lib.array(k), lib.array(k))
    assert lib.numpy(cache.keys).dtype == np.float16 and lib.numpy(cache.tables([a])[0]).dtype == np.int32
    assert PagedCache(2, 4, 1, 3).keys.dtype == np.float64


Q, (KEYS, VALUES, TABLES, LENGTHS, _) = normal(2, 4, 1, 4), scattered([4, 2])
CACHE = PagedCache(2, 4, 2, 3)
CACHE.start()


def tables(*rows):
    return np.array(rows, dtype=np.int32)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: paged_attention(Q[:, 0], KEYS, VALUES, TABLES, LENGTHS), ValueError, ["q must have shape"]),
        (lambda: paged_attention(Q, KEYS[..., :3], VALUES, TABLES, LENGTHS), ValueError, ["d = 4"]),
        (lambda: paged_attention(Q, KEYS, VALUES[:, :2], TABLES, LENGTHS), ValueError, ["value_blocks must"]),
        (lambda: paged_attention(Q[:, :3], KEYS, VALUES, TABLES, LENGTHS), ValueError, ["multiple"]),
        (lambda: paged_attention(Q, KEYS, VALUES, TABLES[:1], LENGTHS), ValueError, ["B = 2"]),
        (lambda: paged_attention(Q, KEYS, VALUES, TABLES, LENGTHS + 0.5), TypeError, ["lengths must hold"]),
        (lambda: paged_attention(Q, KEYS, VALUES, TABLES * 1.0, LENGTHS), TypeError, ["tables must hold"]),
        (
            lambda: paged_attention(Q, KEYS, VALUES, TABLES, tables(4, 10)),
            ValueError,
            ["lengths must lie in 0 .. 9", "got 10"],
        ),
        (
            lambda: paged_attention(Q, KEYS, VALUES, tables([0, 1, 0], [5, 0, 0]), LENGTHS),
            ValueError,
            ["blocks in 0 .. 4 for the 2 tokens of sequence 1", "[5]"],
        ),
        (
            lambda: paged_attention(Q, KEYS, VALUES, tables([0, -1, 0], [0, 0, 0]), LENGTHS),
            ValueError,
            ["sequence 0", "[0, -1]"],
        ),
        (lambda: BlockPool(0), ValueError, ["n_blocks must be at least 1; got 0"]),
        (lambda: BlockPool(1).check(2), ValueError, ["of the 1 blocks 1 are free; 2 more are needed"]),
        (lambda: BlockPool(1).share(0), ValueError, ["nobody uses block 0"]),
        (lambda: BlockPool(2).release(0), ValueError, ["nobody uses block 0"]),
        (lambda: BlockPool(2).release(-1), ValueError, ["nobody uses block -1"]),
        (
            lambda: PagedCache(2, 4, 1, 1, like=np.ones(1, int)),
            TypeError,
            ["like must be of a floating type"],
        ),
        (
            lambda: CACHE.append(0, *np.ones((2, 2, 1, 3), complex)),
            TypeError,
            ["k must hold real numbers", "complex"],
        ),
        (lambda: PagedCache(2, 0, 1, 1), ValueError, ["block_size must be at least 1"]),
        (lambda: PagedCache(2, 4, 1, 1.5), TypeError, ["head_dim must be a whole number"]),
        (lambda: CACHE.append(7, Q[0], Q[0]), ValueError, ["there is no sequence 7; there are: [0]"]),
        (lambda: CACHE.fork(7), ValueError, ["there is no sequence 7"]),
        (lambda: CACHE.end(7), ValueError, ["there is no sequence 7"]),
        (lambda: CACHE.tables([0, 7]), ValueError, ["there is no sequence 7"]),
        (lambda: CACHE.append(0, Q[0], Q[0]), ValueError, ["k must have shape (2, T, 3); got (4, 1, 4)"]),
        (
            lambda: CACHE.append(0, np.ones((2, 1, 3)), np.ones((2, 2, 3))),
            ValueError,
            ["v must have shape (2, T, 3)"],
        ),
        (
            lambda: CACHE.append(0, *torch.ones(2, 2, 1, 3)),
            TypeError,
            ["all arguments must come from one library"],
        ),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
