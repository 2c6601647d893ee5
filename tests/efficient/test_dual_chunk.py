import numpy as np
import pytest
import torch
from drawn import assert_same_gradients, qkv
from hypothesis import given
from hypothesis import strategies as st

from attnlib import attention, dual_chunk_attention, dual_chunk_positions, rope, rope_frequencies, softmax

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def distance(i, j, chunk, farthest):
    """As the definition says, for one query and one key."""
    back = i // chunk - j // chunk
    if j > i:
        return -1
    if back == 0:
        return i - j
    return (min(i % chunk + chunk, farthest) if back == 1 else farthest) - j % chunk


sizes = st.tuples(st.integers(1, 6), st.integers(0, 8)).map(lambda s: (s[0], s[0] + s[1]))


@given(st.integers(1, 20), st.integers(1, 20), sizes)
def test_positions_by_their_definition(n_query, n_key, size):
    chunk, farthest = size
    got = dual_chunk_positions(n_query, n_key, chunk=chunk, farthest=farthest)
    shift = n_key - n_query
    wanted = [[distance(i + shift, j, chunk, farthest) for j in range(n_key)] for i in range(n_query)]
    np.testing.assert_array_equal(got, wanted)
    theirs = dual_chunk_positions(n_query, n_key, chunk=chunk, farthest=farthest, like=torch.zeros(1))
    assert theirs.tolist() == wanted


@given(st.integers(1, 6), st.integers(0, 5), st.integers(1, 30))
def test_no_distance_is_longer_than_in_training_and_near_ones_are_true(chunk, window, n):
    farthest = chunk + window
    got = dual_chunk_positions(n, chunk=chunk, farthest=farthest)
    i, j = np.indices((n, n))
    assert (got[j <= i] >= 0).all() and got.max() <= farthest and (got[j > i] == -1).all()
    near = (j <= i) & (i - j <= min(window, chunk))
    np.testing.assert_array_equal(got[near], (i - j)[near])


def test_the_rule_of_the_codes():
    """A chunk of chunk_size - local_window, and queries up to chunk_size; the table of ChunkLlama."""
    chunk_size, local_window = 6, 2
    chunk = chunk_size - local_window
    following = (np.arange(chunk) + chunk).clip(max=chunk_size)
    got = dual_chunk_positions(3 * chunk, chunk=chunk, farthest=chunk_size)
    keys = np.arange(chunk)
    np.testing.assert_array_equal(got[chunk : 2 * chunk, :chunk], following[:, None] - keys)
    np.testing.assert_array_equal(got[2 * chunk :, :chunk], (following[-1] - keys)[None].repeat(chunk, 0))


@given(
    st.integers(1, 12), st.integers(1, 12), sizes, st.sampled_from([(), (2,), (2, 3)]),
    st.sampled_from(["interleaved", "halves"]),
)  # fmt: skip
def test_is_attention_with_each_pair_rotated_by_its_distance(n_query, n_key, size, before, layout):
    chunk, farthest = size
    q, k, v = qkv(*before, n_query=n_query, n_key=n_key)
    table = dual_chunk_positions(n_query, n_key, chunk=chunk, farthest=farthest)
    scores = np.full((*before, n_query, n_key), -np.inf)
    for a, b in np.argwhere(table >= 0):
        turned = rope(q[..., a : a + 1, :], table[a, b : b + 1], layout=layout)[..., 0, :]
        scores[..., a, b] = (turned * k[..., b, :]).sum(-1) / 2
    seen = (table >= 0).any(-1)
    weights = np.zeros_like(scores)
    if seen.any():
        weights[..., seen, :] = softmax(scores[..., seen, :])
    settings = {"chunk": chunk, "farthest": farthest, "layout": layout, "return_weights": True}
    for inputs in ((q, k, v), [torch.from_numpy(x) for x in (q, k, v)]):
        out, got = dual_chunk_attention(*inputs, **settings)
        np.testing.assert_allclose(got, weights, **CLOSE)
        np.testing.assert_allclose(out, weights @ v, **CLOSE)


@given(
    st.integers(1, 9), st.integers(1, 9), sizes, st.sampled_from([(), (2,)]),
    st.sampled_from(["interleaved", "halves"]),
)  # fmt: skip
def test_gradients_are_those_of_the_explicit_form(n_query, n_key, size, before, layout):
    chunk, farthest = size
    q, k, v = inputs = [
        torch.from_numpy(x).requires_grad_() for x in qkv(*before, n_query=n_query, n_key=n_key)
    ]
    table = dual_chunk_positions(n_query, n_key, chunk=chunk, farthest=farthest, like=q)
    at = table.clamp(min=0)[:, :, None].expand(*before, n_query, n_key, 1)  # each pair has its own rotation
    turned = rope(q[..., None, None, :].expand(*q.shape[:-1], n_key, 1, 4), at, layout=layout)[..., 0, :]
    scores = (turned * k[..., None, :, :]).sum(-1) / 2
    wanted = attention_of_scores(torch.where(table >= 0, scores, -torch.inf)) @ v
    got = dual_chunk_attention(*inputs, chunk=chunk, farthest=farthest, layout=layout)
    assert_same_gradients(got, wanted, inputs, **CLOSE)


def attention_of_scores(scores):
    """Weights of scores, zeros where all are hidden."""
    seen = (scores > -torch.inf).any(-1, keepdim=True)
    return torch.where(seen, torch.softmax(torch.where(seen, scores, 0), -1), 0)


def test_in_a_text_of_one_chunk_it_is_attention_with_rotary_positions(lib):
    q, k, v = qkv(2)
    p, frequencies = np.arange(9), rope_frequencies(4) / 3
    for settings in ({}, {"base": 100.0}, {"frequencies": frequencies}):
        wanted = attention(rope(q, p, **settings), rope(k, p, **settings), v, causal=True, scale=0.3)
        if "frequencies" in settings:
            settings = {"frequencies": lib.array(frequencies)}
        got = dual_chunk_attention(*map(lib.array, (q, k, v)), chunk=9, farthest=9, scale=0.3, **settings)
        np.testing.assert_allclose(lib.numpy(got), wanted, **CLOSE)


def test_the_last_queries_alone(lib):
    q, k, v = map(lib.array, qkv(2))
    whole = lib.numpy(dual_chunk_attention(q, k, v, chunk=3, farthest=4))
    last = lib.numpy(dual_chunk_attention(q[:, -2:], k, v, chunk=3, farthest=4))
    np.testing.assert_allclose(last, whole[:, -2:], **CLOSE)


def test_gradients_also_where_a_query_sees_nothing():
    inputs = [torch.from_numpy(x).requires_grad_() for x in qkv(n_query=6, n_key=4, dv=2)]
    assert torch.autograd.gradcheck(
        lambda q, k, v: dual_chunk_attention(q, k, v, chunk=2, farthest=3), inputs
    )
    assert (dual_chunk_attention(*inputs, chunk=2, farthest=3)[:2] == 0).all()


def test_types_views_and_inputs(lib):
    q, k, v = qkv(2)
    old, size = [x.copy() for x in (q, k, v)], {"chunk": 3, "farthest": 4}
    wanted = dual_chunk_attention(q, k, v, **size)
    half = dual_chunk_attention(*[lib.array(x.astype(np.float16)) for x in (q, k, v)], **size)
    assert lib.numpy(half).dtype == np.float16
    np.testing.assert_allclose(lib.numpy(half), wanted, atol=1e-2)
    whole = [(3 * x).astype(int) for x in (q, k, v)]
    got = lib.numpy(dual_chunk_attention(*map(lib.array, whole), **size))
    assert got.dtype == (np.float64 if lib.name == "numpy" else np.float32)
    np.testing.assert_allclose(
        got, dual_chunk_attention(*[x.astype(float) for x in whole], **size), atol=1e-4
    )
    views = [lib.array(np.repeat(x, 2, -1))[..., ::2] for x in (q, k, v)]
    np.testing.assert_allclose(lib.numpy(dual_chunk_attention(*views, **size)), wanted, **CLOSE)
    for x, before in zip((q, k, v), old, strict=True):
        np.testing.assert_array_equal(x, before)


Q, K, V = qkv(2)
SIZE = {"chunk": 3, "farthest": 4}


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: dual_chunk_positions(4, chunk=0, farthest=4), ValueError, ["chunk must be at least 1"]),
        (lambda: dual_chunk_positions(4, chunk=3, farthest=2), ValueError, ["at least chunk, 3", "got 2"]),
        (lambda: dual_chunk_positions(4, chunk=3, farthest=4.0), TypeError, ["farthest must be a whole"]),
        (lambda: dual_chunk_positions(0, **SIZE), ValueError, ["n_query must be at least 1"]),
        (lambda: dual_chunk_attention(Q, K, V[:, 1:], **SIZE), ValueError, ["v must have", "Lk = 9"]),
        (lambda: dual_chunk_attention(Q[..., :3], K[..., :3], V, **SIZE), ValueError, ["even number"]),
        (lambda: dual_chunk_attention(Q, torch.from_numpy(K), V, **SIZE), TypeError, ["one library"]),
        (lambda: dual_chunk_attention(Q, K, V, scale="1", **SIZE), TypeError, ["scale must be a number"]),
        (lambda: dual_chunk_attention(Q, K, V, layout="meta", **SIZE), ValueError, ["layout must be"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
