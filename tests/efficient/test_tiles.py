import math
from functools import partial

import drawn
import numpy as np
import pytest
import torch
from drawn import normal
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from attnlib import (
    alibi_bias,
    attention,
    causal_mask,
    logsumexp,
    padding_mask,
    tiled_attention,
    tiled_attention_backward,
)
from attnlib.efficient.patterns import between, causal, first, per_head, strided, window
from attnlib.efficient.tiles import row_blocks

SETTINGS = ("full", {}), ("causal", {"causal": True})
qkv = partial(drawn.qkv, n_query=7)


def plain(q, k, v, mask=None, causal=False, scale=None, softcap=None):
    """As the definition says, all scores at once, for tensors: output and log-sum-exp."""
    s = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        s = softcap * torch.tanh(s / softcap)
    if mask is not None:
        s = torch.where(mask, s, -math.inf) if mask.dtype == torch.bool else s + mask
    if causal:
        s = torch.where(causal_mask(*s.shape[-2:], like=s), s, -math.inf)
    lse = logsumexp(s)  # torch's own has NaN as its gradient where a row is -inf throughout
    return torch.exp(s - torch.where(lse == -math.inf, 0.0, lse)[..., None]) @ v, lse


@pytest.mark.parametrize("name, how", SETTINGS)
@pytest.mark.parametrize("block", [None, 1, (5, 8), (8, 5), 16, 99])
def test_agrees_with_the_golden_file(golden, lib, name, how, block):
    g = golden("flash_attention")
    q, k, v = (lib.array(g[f"in_{x}_{name}"]) for x in "qkv")
    out, lse = tiled_attention(q, k, v, scale=0.25, block=block, return_lse=True, **how)
    np.testing.assert_allclose(lib.numpy(out), g[f"out_{name}"], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(lib.numpy(lse), g[f"lse_{name}"], rtol=1e-9, atol=1e-11)
    delta = (lib.numpy(out) * g[f"in_do_{name}"]).sum(-1)
    np.testing.assert_allclose(delta, g[f"delta_{name}"], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name, how", SETTINGS)
@pytest.mark.parametrize("block", [None, 1, (5, 8)])
def test_gradients_agree_with_the_golden_file(golden, lib, name, how, block):
    g = golden("flash_attention")
    inputs = [lib.array(g[f"in_{x}_{name}"]) for x in "qkv"]
    d_out, how = lib.array(g[f"in_do_{name}"]), {"scale": 0.25, "block": block, **how}
    out, lse = tiled_attention(*inputs, return_lse=True, **how)
    ways = [tiled_attention_backward(*inputs, out, lse, d_out, **how)]
    if lib.name == "torch":
        inputs = [x.requires_grad_() for x in inputs]
        ways.append(torch.autograd.grad(tiled_attention(*inputs, **how), inputs, d_out))
        ways.append(tiled_attention_backward(*inputs, out, lse, d_out, **how))
    for gradients in ways:
        for x, gradient in zip("qkv", gradients, strict=True):
            np.testing.assert_allclose(gradient, g[f"g{x}_{name}"], rtol=1e-9, atol=1e-11)


def drawn_mask(kind, full, rng):
    """A mask of a random shape that broadcasts to the scores."""
    if kind == "none":
        return None
    shape = [n if rng.random() < 0.6 else 1 for n in full][rng.integers(len(full)) :]
    mask = rng.random(shape) < 0.4
    return mask if kind == "bool" else np.where(mask | (rng.random() < 0.5), rng.normal(size=shape), -np.inf)


@settings(max_examples=60)
@given(
    st.sampled_from([(), (2,), (9,), (2, 3)]), st.integers(1, 12), st.integers(1, 12), st.integers(1, 5),
    st.sampled_from(["none", "bool", "additive"]), st.booleans(), st.sampled_from([None, 0.7]),
    st.sampled_from([None, 0.3]), st.tuples(st.integers(1, 13), st.integers(1, 13)), st.integers(0, 999),
)  # fmt: skip
def test_is_the_definition(before, n_query, n_key, dv, kind, causal, softcap, scale, block, seed):
    rng = np.random.default_rng(seed)
    q, k, v = qkv(*before, n_query=n_query, n_key=n_key, dv=dv)
    mask = drawn_mask(kind, (*before, n_query, n_key), rng)
    d_out, d_lse = torch.from_numpy(normal(*q.shape[:-1], dv)), torch.from_numpy(normal(*q.shape[:-1]))
    how = {"causal": causal, "softcap": softcap, "scale": scale}
    names = ["q", "k", "v"] + ["mask"] * (kind == "additive")

    def run(function, **how):
        inputs = [torch.tensor(x).requires_grad_() for x in (q, k, v)]
        tensor = None if mask is None else torch.tensor(mask)
        if kind == "additive":
            inputs.append(tensor.requires_grad_())
        out, lse = function(*inputs[:3], tensor, **how)
        seen = lse != -math.inf
        loss = (out * d_out).sum() + (lse[seen] * d_lse[seen]).sum()
        return out.detach(), lse.detach(), torch.autograd.grad(loss, inputs, allow_unused=True)

    wanted, wanted_lse, wanted_gradients = run(plain, **how)
    got, lse, gradients = run(tiled_attention, block=block, return_lse=True, **how)
    np.testing.assert_allclose(got, wanted, atol=1e-12)
    np.testing.assert_allclose(lse, wanted_lse, atol=1e-12)
    for name, a, b in zip(names, gradients, wanted_gradients, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11, err_msg=name)
    in_numpy, lse = tiled_attention(q, k, v, mask, block=block, return_lse=True, **how)
    np.testing.assert_allclose(in_numpy, wanted, atol=1e-12)
    np.testing.assert_allclose(lse, wanted_lse, atol=1e-12)
    ours = tiled_attention_backward(q, k, v, in_numpy, lse, d_out.numpy(), mask, block=block, **how)
    inputs = [torch.tensor(x).requires_grad_() for x in (q, k, v)]
    theirs = tiled_attention(*inputs, None if mask is None else torch.tensor(mask), **how)
    for a, b in zip(ours, torch.autograd.grad(theirs, inputs, d_out), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)


def test_gradients_by_finite_differences():
    inputs = [torch.from_numpy(x).requires_grad_() for x in qkv(2, n_query=3, n_key=4, d=2, dv=2)]
    mask = torch.from_numpy(normal(2, 1, 4)).requires_grad_()
    settings = {"causal": True, "softcap": 1.5, "block": (2, 3)}
    assert torch.autograd.gradcheck(
        lambda q, k, v, mask: tiled_attention(q, k, v, mask, return_lse=True, **settings), [*inputs, mask]
    )
    hidden = torch.tensor([[True, True, False, True], [False] * 4, [True] * 4])
    assert torch.autograd.gradcheck(lambda *x: tiled_attention(*x, hidden, block=(2, 2)), inputs)


def test_a_row_that_sees_nothing_takes_no_gradient_however_it_comes():
    """torch's own log-sum-exp, taken over parts in which a row sees nothing, sends NaN back to each."""
    inputs = [torch.from_numpy(x).requires_grad_() for x in qkv(n_query=2, n_key=3)]
    mask = torch.tensor([[True, False, True], [False] * 3])
    _, lse = tiled_attention(*inputs, mask, return_lse=True)
    gradients = torch.autograd.grad(lse, inputs, torch.tensor([1.0, math.nan], dtype=torch.float64))
    _, first = tiled_attention(inputs[0][:1], *inputs[1:], mask[:1], return_lse=True)
    for got, wanted in zip(gradients, torch.autograd.grad(first.sum(), inputs), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-12)


def test_there_are_first_derivatives_only():
    q, k, v = (torch.from_numpy(x).requires_grad_() for x in qkv())
    with pytest.raises(RuntimeError, match="first derivatives only; attention with return_weights=True"):
        torch.autograd.grad(tiled_attention(q, k, v).sum(), q, create_graph=True)


@pytest.mark.parametrize("n_query, n_key", [(9, 9), (4, 9), (9, 4), (1, 9)])
@pytest.mark.parametrize(
    "pattern",
    [window(3), causal & (window(3) | first(1)), between(2, 1), ~window(2), strided(3), between(-1, -1)],
    ids=repr,
)
def test_a_pattern_is_its_mask(lib, pattern, n_query, n_key):
    arrays = qkv(2, n_query=n_query, n_key=n_key)
    q, k, v = map(lib.array, arrays)
    mask = pattern.mask(n_query, n_key)
    for how in ({}, {"causal": True}):
        wanted, weights = attention(*arrays, mask, return_weights=True, **how)
        for block in (1, 2, (4, 3), 99):
            got, lse = tiled_attention(q, k, v, pattern, block=block, return_lse=True, **how)
            np.testing.assert_allclose(lib.numpy(got), wanted, atol=1e-12)
            assert np.array_equal(np.isneginf(lib.numpy(lse)), weights.sum(-1) == 0)


def test_a_pattern_may_differ_from_head_to_head_and_be_any_function(lib):
    q, k, v = qkv(2, 3)
    many = per_head(window(2), first(2), causal)
    wanted = attention(q, k, v, many.mask(7, 9))
    tensors = [lib.array(x) for x in (q, k, v)]
    np.testing.assert_allclose(lib.numpy(tiled_attention(*tensors, many, block=2)), wanted, atol=1e-12)
    one = tiled_attention(*tensors, lambda i, j: (j == 0) & (i > 3), block=4)
    wanted = np.where(np.arange(2, 9)[:, None] > 3, v[..., :1, :], 0)
    np.testing.assert_allclose(lib.numpy(one), wanted, atol=1e-12)


def test_a_pattern_is_never_asked_for_more_than_a_tile():
    asked = []

    def watched(i, j):
        asked.append((i.ravel().tolist(), j.ravel().tolist()))
        return (j >= i - 1) & (j <= i)

    q, k, v = qkv(2, n_query=6, n_key=8)
    tiled_attention(q, k, v, watched, causal=True, block=(3, 4))
    assert asked == [([2, 3, 4], [0, 1, 2, 3]), ([2, 3, 4], [4]), ([5, 6, 7], [0, 1, 2, 3]),
                     ([5, 6, 7], [4, 5, 6, 7])]  # fmt: skip


@pytest.mark.parametrize("how, computed", [
    ({}, 16), ({"causal": True}, 10), ({"mask": window(3)}, 10), ({"mask": np.tri(8, dtype=bool)}, 10),
    ({"mask": np.where(np.tri(8), 0, -np.inf)}, 10), ({"mask": np.arange(8) < 3}, 8),
])  # fmt: skip
def test_tiles_in_which_nothing_is_seen_are_skipped(monkeypatch, lib, how, computed):
    from attnlib.efficient import tiles

    seen = []
    scores = tiles._scores
    monkeypatch.setattr(tiles, "_scores", lambda *a: seen.append(1) or scores(*a))
    how = {key: lib.array(x) if isinstance(x, np.ndarray) else x for key, x in how.items()}
    tiled_attention(*(lib.array(x) for x in qkv(n_query=8, n_key=8)), block=2, **how)
    assert len(seen) == computed


def test_the_grid_of_tiles():
    kinds = [
        [(keys.start, visible is None) for keys, visible in tiles]
        for _, tiles in row_blocks(8, 8, (3, 3), causal=True)
    ]
    assert kinds == [[(0, False)], [(0, True), (3, False)], [(0, True), (3, True), (6, False)]]
    more_queries = [len(tiles) for _, tiles in row_blocks(8, 4, (2, 2), causal=True)]
    assert more_queries == [0, 0, 1, 2]
    own = [[keys.start for keys, _ in tiles] for _, tiles in row_blocks(6, 6, (2, 2), pattern=between(0, 0))]
    assert own == [[0], [2], [4]]
    (rows, tiles), *_ = row_blocks(5, 9, (5, 4), pattern=between(1, 0))
    assert rows == slice(0, 5) and [keys.start for keys, _ in tiles] == [0, 4, 8]
    assert tiles[0][1].astype(int).tolist() == [[0, 0, 0, 1], *[[0] * 4] * 4]


def test_the_conventions_of_the_flash_reference():
    """Windows, softcap, ALiBi and padding together, each applied where FlashAttention applies it."""
    q, k, v = (torch.from_numpy(x) for x in qkv(2, 3, n_query=6, n_key=8))
    tokens = torch.tensor([[1] * 8, [0] * 3 + [1] * 2 + [0] * 3])
    bias = torch.from_numpy(alibi_bias(3, 6, 8))
    keep = padding_mask(tokens)
    see = between(2, 0).mask(6, 8, like=q)
    mask = torch.where(keep & see, bias, -math.inf)
    got, lse = tiled_attention(q, k, v, mask, softcap=2.0, block=(4, 3), return_lse=True)
    s = 2 * np.tanh((q @ k.mT).numpy() / 2 / 2) + mask.numpy()
    lse = lse.numpy()
    np.testing.assert_allclose(lse, logsumexp(s), atol=1e-12)
    weights = np.exp(s - np.where(np.isneginf(lse), 0, lse)[..., None])
    np.testing.assert_allclose(got, weights @ v.numpy(), atol=1e-12)
    assert (lse[1, :, -1] == -math.inf).all() and (got[1, :, -1] == 0).all()


def test_scores_that_rise_from_tile_to_tile_and_scores_that_overflow(lib):
    q = np.full((4, 1), 30.0)
    k = np.arange(-20.0, 20)[:, None]
    v = normal(40, 2)
    for keys in (k, k[::-1].copy(), 60 * k):
        out, lse = tiled_attention(
            *(lib.array(x.astype(np.float32)) for x in (q, keys, v)), block=(2, 3), return_lse=True
        )
        wanted = attention(q, keys, v)
        np.testing.assert_allclose(lib.numpy(out), wanted, rtol=1e-6)
        np.testing.assert_allclose(lib.numpy(lse), logsumexp(q @ keys.T), rtol=1e-6)


def test_a_row_that_sees_nothing_until_late_or_never(lib):
    q, k, v = qkv(n_query=3, n_key=6)
    mask = np.array([[0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]], bool)
    out, lse = tiled_attention(*map(lib.array, (q, k, v, mask)), block=(3, 2), return_lse=True)
    np.testing.assert_allclose(lib.numpy(out), [v[5], np.zeros(3), v[0]])
    assert np.isneginf(lib.numpy(lse)).tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_types(lib, dtype):
    arrays = [(3 * x).astype(dtype) for x in qkv(2, n_query=5, n_key=6)]
    out, lse = tiled_attention(*map(lib.array, arrays), block=(2, 3), return_lse=True)
    wanted = attention(*[lib.array(x) for x in arrays])
    assert out.dtype == wanted.dtype
    assert lib.numpy(lse).dtype == (np.float32 if dtype == np.float16 else lib.numpy(out).dtype)
    exact = attention(*[x.astype(float) for x in arrays])
    tolerance = {np.float16: 5e-3, np.float64: 1e-12}.get(dtype, 2e-5)
    np.testing.assert_allclose(lib.numpy(out), exact, atol=tolerance)


def test_bfloat16_and_its_gradients():
    q, k, v = (torch.from_numpy(x).bfloat16().requires_grad_() for x in qkv(2))
    mask = torch.zeros(7, 9, dtype=torch.bfloat16, requires_grad=True)
    out = tiled_attention(q, k, v, mask, block=3)
    gradients = torch.autograd.grad(out.sum(), (q, k, v, mask))
    assert {x.dtype for x in (out, *gradients)} == {torch.bfloat16}
    exact = attention(*(x.detach().double() for x in (q, k, v)))
    np.testing.assert_allclose(out.detach().double(), exact, atol=2e-2)


def test_the_gradient_of_a_mask_of_half_precision_is_summed_in_more():
    """Three hundred times 3/16: a sum in bfloat16 stops growing on its way."""
    q, v = torch.zeros(300, 2), torch.tensor([[1.0], [0.0], [0.0], [0.0]])
    mask = torch.zeros(1, 4, dtype=torch.bfloat16, requires_grad=True)
    out = tiled_attention(q, torch.zeros(4, 2), v, mask, block=1)
    (gradient,) = torch.autograd.grad(out.sum(), mask)
    assert gradient.dtype == torch.bfloat16
    np.testing.assert_allclose(gradient.float(), [[56.25, -18.75, -18.75, -18.75]], rtol=2**-8)


def test_is_accurate_to_rounding():
    """Scores of standard normal inputs, in float32 against float64 (a target of the benchmarks)."""
    q, k, v = torch.randn(3, 2, 1024, 64, generator=torch.Generator().manual_seed(0))
    exact = attention(*(x.double().numpy() for x in (q, k, v)), causal=True)
    for arrays in ((q, k, v), [x.numpy() for x in (q, k, v)]):
        out = np.asarray(tiled_attention(*arrays, causal=True))
        assert np.abs(out - exact).max() <= 2e-6


def test_agrees_with_torchs_own_kernel_on_inputs_that_are_not_contiguous():
    x = torch.randn(3, 2, 300, 3, 8, generator=torch.Generator().manual_seed(0))
    q, k, v = (t.transpose(1, 2) for t in x)
    wanted = scaled_dot_product_attention(q, k, v, is_causal=True)
    np.testing.assert_allclose(tiled_attention(q, k, v, causal=True), wanted, atol=2e-6)
    arrays = [t.numpy() for t in (q, k, v)]
    np.testing.assert_allclose(tiled_attention(*arrays, causal=True), wanted, atol=2e-6)
    inputs = [t.expand(2, 2, 3, 300, 8).requires_grad_() for t in (q, k, v)]
    gradients = torch.autograd.grad(tiled_attention(*inputs).sum(), inputs)
    repeated = [t.detach().contiguous().requires_grad_() for t in inputs]
    theirs = torch.autograd.grad(attention(*repeated).sum(), repeated)
    for a, b in zip(gradients, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)


def test_inputs_are_unchanged(lib):
    arrays = [lib.array(x) for x in (*qkv(2), normal(2, 7, 9) < 0)]
    before = [lib.numpy(x).copy() for x in arrays]
    out, lse = tiled_attention(*arrays, block=2, softcap=3.0, return_lse=True)
    tiled_attention_backward(*arrays[:3], out, lse, out, arrays[3], block=2, softcap=3.0)
    for x, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(lib.numpy(x), old)


Q, K, V = qkv(2)
OUT, LSE = tiled_attention(Q, K, V, return_lse=True)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: tiled_attention(Q, [[1.0]], V), TypeError, ["k must be a NumPy array", "list"]),
        (lambda: tiled_attention(Q, torch.from_numpy(K), V), TypeError, ["one library"]),
        (lambda: tiled_attention(Q, K[..., :3], V), ValueError, ["k must be as wide as q"]),
        (lambda: tiled_attention(Q, K, V, np.ones((5, 9), bool)), ValueError, ["mask must broadcast"]),
        (lambda: tiled_attention(Q, K, V, np.ones((7, 9), int)), TypeError, ["mask must be boolean"]),
        (lambda: tiled_attention(Q, K, V, lambda i, j: i - j), TypeError, ["mask(i, j) must give booleans"]),
        (lambda: tiled_attention(Q, K, V, lambda i, j: True), TypeError, ["mask(i, j)", "bool"]),
        (
            lambda: tiled_attention(Q, K, V, per_head(window(1), window(2), window(3))),
            ValueError,
            ["mask must broadcast to the scores, (2, 7, 9)", "(3, 7, 9)"],
        ),
        (lambda: tiled_attention(Q, K, V, causal=1), TypeError, ["causal must be True or False"]),
        (lambda: tiled_attention(Q, K, V, softcap=0), ValueError, ["softcap must be positive", "got 0"]),
        (lambda: tiled_attention(Q, K, V, softcap="2"), TypeError, ["softcap must be a number"]),
        (lambda: tiled_attention(Q, K, V, block=0), ValueError, ["block must be at least 1; got 0"]),
        (lambda: tiled_attention(Q, K, V, block=(2, 2.5)), TypeError, ["block must be a whole number"]),
        (lambda: tiled_attention(Q, K, V, block=(2, 2, 2)), TypeError, ["block", "(2, 2, 2)"]),
        (
            lambda: tiled_attention_backward(Q, K, V, OUT[0], LSE, OUT),
            ValueError,
            ["out must have shape (2, 7, 3)", "(7, 3)"],
        ),
        (
            lambda: tiled_attention_backward(Q, K, V, OUT, LSE[..., None], OUT),
            ValueError,
            ["lse must have shape (2, 7)"],
        ),
        (
            lambda: tiled_attention_backward([1.0], K, V, OUT, LSE, OUT),
            TypeError,
            ["q must be a NumPy array"],
        ),
        (
            lambda: tiled_attention_backward(Q, K, None, OUT, LSE, OUT),
            TypeError,
            ["v must be a NumPy array"],
        ),
        (
            lambda: tiled_attention_backward(Q, K, V, OUT, LSE, [1.0]),
            TypeError,
            ["d_out must be a NumPy array"],
        ),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
