import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from attnlib import attention, attention_weights, causal_mask

OUT = {"rtol": 1e-10, "atol": 1e-12}


def draw(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def by_hand(q, k, v, mask=None, scale=None):
    """One query at a time, one key at a time: slow, and nothing to get wrong."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    visible = np.broadcast_to(True if mask is None else mask, (*q.shape[:-1], k.shape[-2]))
    for place in np.ndindex(*q.shape[:-1]):
        lead, keys = place[:-1], np.flatnonzero(visible[place])
        if len(keys):
            scores = np.array([q[place] @ k[lead][j] * scale for j in keys])
            weights = np.exp(scores - scores.max())
            out[place] = sum(w * v[lead][j] for w, j in zip(weights / weights.sum(), keys, strict=True))
    return out


def test_agrees_with_the_golden_file(golden, lib):
    g = golden("sdpa_masks")
    q, k, v = (lib.array(g[f"in_{name}"]) for name in "qkv")
    pad = lib.array(g["in_pad_keep"])[:, None, None, :]
    start = causal_mask(5, 7, align="start", like=q)
    cases = {
        "none": {},
        "pad": {"mask": pad},
        "lower_right": {"causal": True},
        "upper_left": {"mask": start},
        "is_causal": {"mask": start},
        "scale_0p125": {"scale": 0.125},
        "bool": {"mask": lib.array(g["in_mask_bool"])},
        "add": {"mask": lib.array(g["in_mask_add"])},
        "add_inf": {"mask": lib.array(g["in_mask_add_inf"])},
        "fullrows": {"mask": lib.array(g["in_mask_bool_fullrows"])},
    }
    for name, options in cases.items():
        for got in (
            attention(q, k, v, **options),
            attention(q, k, v, return_weights=True, **options)[0],
        ):
            np.testing.assert_allclose(lib.numpy(got), g[f"out_{name}"], err_msg=name, **OUT)


@pytest.mark.parametrize("explicit", [True, False])
def test_gradients_agree_with_the_golden_file(golden, explicit):
    g = golden("sdpa_masks")
    masks = {"none": None, "bool": g["in_mask_bool"], "fullrows": g["in_mask_bool_fullrows"]}
    for name, mask in masks.items():
        q, k, v = (torch.tensor(g[f"in_{x}"], requires_grad=True) for x in "qkv")
        mask = None if mask is None else torch.tensor(mask)
        out = attention(q, k, v, mask, return_weights=explicit)
        (out[0] if explicit else out).backward(torch.tensor(g["in_do"]))
        for x, got in zip("qkv", (q, k, v), strict=True):
            np.testing.assert_allclose(got.grad.numpy(), g[f"g_{name}_{x}"], err_msg=name, **OUT)


shapes = st.tuples(
    st.lists(st.integers(1, 3), max_size=3), *[st.integers(1, 6)] * 4, st.integers(0, 2**32 - 1)
)


def test_an_additive_mask_and_causal_hold_together(lib):
    q, k, v, bias = draw(11, (2, 4, 3), (2, 6, 3), (2, 6, 2), (4, 6))
    bias[2, 1] = -np.inf
    hidden = np.where(causal_mask(4, 6), bias, -np.inf)
    expected = attention(q, k, v, hidden)
    tensors, bias = [lib.array(x) for x in (q, k, v)], lib.array(bias)
    explicit, weights = attention(*tensors, bias, causal=True, return_weights=True)
    np.testing.assert_allclose(lib.numpy(explicit), expected, **OUT)
    np.testing.assert_allclose(lib.numpy(attention(*tensors, bias, causal=True)), expected, **OUT)
    assert (lib.numpy(weights)[:, hidden == -np.inf] == 0).all()


def test_more_queries_than_keys_with_an_additive_mask_leave_the_first_rows_empty(lib):
    q, k, v = (lib.array(x) for x in draw(14, (5, 4), (3, 4), (3, 2)))
    for weights in (False, True):
        out = attention(q, k, v, lib.array(np.zeros((5, 3))), causal=True, return_weights=weights)
        assert (lib.numpy(out[0] if weights else out)[:2] == 0).all()


@given(shapes, st.booleans(), st.booleans())
def test_both_speeds_and_both_libraries_give_what_a_loop_gives(shape, causal, masked):
    lead, n_query, n_key, d, dv, seed = shape
    q, k, v = draw(seed, (*lead, n_query, d), (*lead, n_key, d), (*lead, n_key, dv))
    mask = np.random.default_rng(seed).random((n_query, n_key)) < 0.6 if masked else None
    both = causal_mask(n_query, n_key) if causal else np.array(True)
    expected = by_hand(q, k, v, both if mask is None else both & mask)
    out, weights = attention(q, k, v, mask, causal=causal, return_weights=True)
    np.testing.assert_allclose(out, expected, **OUT)
    np.testing.assert_allclose(weights @ v, out, **OUT)
    tensors = [torch.tensor(x) for x in (q, k, v)]
    mask = None if mask is None else torch.tensor(mask)
    fused = attention(*tensors, mask, causal=causal)
    explicit = attention(*tensors, mask, causal=causal, return_weights=True)[0]
    assert fused.shape == explicit.shape == out.shape
    np.testing.assert_allclose(fused.numpy(), expected, **OUT)
    np.testing.assert_allclose(explicit.numpy(), expected, **OUT)


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (2, 3, 2)])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks_of_every_rank_broadcast_alike_in_both_speeds(lead, kind):
    q, k, v = (torch.tensor(x) for x in draw(1, (*lead, 4, 8), (*lead, 5, 8), (*lead, 5, 8)))
    full = (*lead, 4, 5)
    for drop in range(len(full) + 1):
        for ones in range(2 ** (len(full) - drop)):
            shape = [1 if ones >> i & 1 else n for i, n in enumerate(full[drop:])]
            mask = torch.tensor(np.random.default_rng(ones).random(shape))
            mask = mask > 0.3 if kind == "bool" else mask
            expected = attention(q, k, v, mask, return_weights=True)[0]
            torch.testing.assert_close(attention(q, k, v, mask), expected)


def test_weights_alone_are_the_weights_beside_the_output(lib):
    q, k, v = (lib.array(x) for x in draw(2, (2, 4, 3), (2, 5, 3), (2, 5, 2)))
    mask = lib.array(np.random.default_rng(2).random((2, 4, 5)) < 0.5)
    _, weights = attention(q, k, v, mask, causal=True, scale=0.7, return_weights=True)
    alone = attention_weights(q, k, mask, causal=True, scale=0.7)
    np.testing.assert_array_equal(lib.numpy(alone), lib.numpy(weights))
    sums = lib.numpy(weights).sum(-1)
    assert np.all(np.isclose(sums, 1) | (sums == 0))


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_masked_keys_get_exactly_nothing_whatever_the_scores(lib, size):
    q, k, v = draw(3, (4, 8), (6, 8), (6, 2))
    k[4] = 1e3 * size
    mask = np.array([True, True, False, True, False, True])[None]
    out, weights = attention(*(lib.array(x) for x in (q * size, k, v)), lib.array(mask), return_weights=True)
    assert (lib.numpy(weights)[:, [2, 4]] == 0).all()
    v[[2, 4]] = 1e9
    changed = attention(*(lib.array(x) for x in (q * size, k, v)), lib.array(mask))
    np.testing.assert_allclose(lib.numpy(changed), lib.numpy(out), **OUT)


@pytest.mark.parametrize(
    "scores, visible",
    [
        ([[900, 899, -900], [-3000, -3001, -2999], [1e-3, 0, 2e-3]], [[1, 1, 1]] * 3),
        ([[2000, 1999, 1998], [0, 1, 2], [-5, -5, -5]], [[1, 0, 1], [0, 1, 1], [1, 1, 0]]),
        ([[-60, 60, 61]], [[1, 1, 1]]),
        ([[-1e10, 0, -1e10, 1, -4e10]], [[1, 0, 1, 0, 1]]),
        ([[-1e5, 0, -1e5, 1, -4e5]], [[1, 0, 1, 0, 1]]),
        ([[1, 0, 1e11], [0, 1, 5]], [[1, 1, 0], [0, 0, 0]]),
        ([[1, 2, 3000]], [[1, 1, 0]]),
        ([[1, 2, 3]], [[0, 0, 0]]),
        ([[1, 2], [4, 3]], [[0, 0], [0, 0]]),
    ],
)
def test_scores_and_hidden_scores_of_any_size(lib, scores, visible):
    k = np.array(scores, float).T                        # (Lk, Lq): with unit queries the scores are these
    q, mask = np.eye(k.shape[1]) * k.shape[1] ** 0.5, np.array(visible) == 1
    v = np.random.default_rng(15).normal(size=(len(k), 2))
    expected, weights = by_hand(q, k, v, mask), by_hand(q, k, np.eye(len(k)), mask)
    for m in [mask] if not mask.all() else [mask, None]:
        tensors = [None if x is None else lib.array(x) for x in (q, k, v, m)]
        out, got = attention(*tensors, return_weights=True)
        np.testing.assert_allclose(lib.numpy(got), weights, rtol=1e-9, atol=1e-12)
        for way in (out, attention(*tensors)):
            np.testing.assert_allclose(lib.numpy(way), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("kind", ["bool", "float", "causal"])
@pytest.mark.parametrize("lead, d, dv", [((), 4, 4), ((2,), 4, 3), ((2, 3), 16, 16)])
def test_an_empty_row_gives_zero_and_passes_no_gradient(explicit, kind, lead, d, dv):
    q, k, v = (
        torch.tensor(x, requires_grad=True) for x in draw(4, (*lead, 5, d), (*lead, 3, d), (*lead, 3, dv))
    )
    empty, options = [0, 1], {"causal": True}
    if kind != "causal":
        mask = torch.ones(5, 3, dtype=torch.bool)
        mask[empty] = False
        bias = torch.zeros(5, 3, dtype=torch.float64).masked_fill(~mask, -torch.inf)
        options = {"mask": mask if kind == "bool" else bias}
    out = attention(q, k, v, return_weights=explicit, **options)
    out = out[0] if explicit else out
    out[..., empty, :].sum().backward(retain_graph=True)
    for x in (q, k, v):
        assert (x.grad == 0).all()
    out.sum().backward()
    assert (out[..., empty, :] == 0).all() and (q.grad[..., empty, :] == 0).all()
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v)) and (v.grad != 0).any()
    numpy_options = {n: x if isinstance(x, bool) else x.numpy() for n, x in options.items()}
    again = attention(*(x.detach().numpy() for x in (q, k, v)), **numpy_options)
    np.testing.assert_allclose(again, out.detach().numpy(), **OUT)
    assert (again[..., empty, :] == 0).all()


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"scale": 2.0}, {"mask": "bool"}, {"mask": "float"}]
)
def test_gradcheck(explicit, options):
    q, k, v = (torch.tensor(x, requires_grad=True) for x in draw(5, (2, 3, 4), (2, 5, 4), (2, 5, 2)))
    if "mask" in options:
        mask = torch.tensor(np.random.default_rng(5).random((3, 5)) < 0.6)
        options = {"mask": mask if options["mask"] == "bool" else mask.double()}

    def run(*tensors):
        out = attention(*tensors, return_weights=explicit, **options)
        return out[0] if explicit else out

    assert torch.autograd.gradcheck(run, (q, k, v))


def test_a_learned_additive_mask_receives_its_gradient():
    q, k, v, bias = (torch.tensor(x, requires_grad=True) for x in draw(6, (3, 4), (5, 4), (5, 4), (3, 5)))
    assert torch.autograd.gradcheck(lambda b: attention(q, k, v, b), bias)
    assert torch.autograd.gradcheck(lambda b: attention(q, k, v, b, return_weights=True), bias)


@given(st.integers(0, 2**32 - 1), st.integers(2, 7))
def test_order_and_copies(seed, n):
    q, k, v = draw(seed, (3, 4), (n, 4), (n, 2))
    order = np.random.default_rng(seed).permutation(n)
    out = attention(q, k, v)
    np.testing.assert_allclose(attention(q, k[order], v[order]), out, **OUT)  # a set of pairs
    np.testing.assert_allclose(attention(q[::-1], k, v), out[::-1], **OUT)  # query by query
    np.testing.assert_allclose(attention(q, np.tile(k, (2, 1)), np.tile(v, (2, 1))), out, **OUT)


def test_causal_output_ignores_the_future(lib):
    q, k, v = draw(7, (6, 4), (6, 4), (6, 4))
    before = lib.numpy(attention(*(lib.array(x) for x in (q, k, v)), causal=True))
    q[4:], k[4:], v[4:] = 9, -9, 99
    after = lib.numpy(attention(*(lib.array(x) for x in (q, k, v)), causal=True))
    np.testing.assert_allclose(after[:4], before[:4], **OUT)
    assert not np.allclose(after[4:], before[4:])


@pytest.mark.parametrize("dtype, atol", [(np.float16, 2e-3), (np.float32, 1e-6)])
def test_narrow_types_come_back_in_their_own_type(lib, dtype, atol):
    narrow = [x.astype(dtype) for x in draw(8, (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8))]
    expected = by_hand(*(x.astype(np.float64) for x in narrow))
    out, weights = attention(*(lib.array(x) for x in narrow), return_weights=True)
    fused = attention(*(lib.array(x) for x in narrow))
    assert lib.numpy(out).dtype == lib.numpy(weights).dtype == lib.numpy(fused).dtype == dtype
    for got in (out, fused):
        np.testing.assert_allclose(lib.numpy(got), expected, atol=atol)


def test_half_precision_weights_are_not_rounded_before_the_mean(lib):
    # Large values that nearly cancel: a weight off by 1e-4 would move the mean by 0.4.
    q, k = np.array([[1.0]], np.float16), np.array([[0.5], [0.0]], np.float16)
    v = np.array([[1546.0], [-2550.0]], np.float16)
    expected = by_hand(*(x.astype(np.float64) for x in (q, k, v)))
    out, _ = attention(*(lib.array(x) for x in (q, k, v)), return_weights=True)
    np.testing.assert_allclose(lib.numpy(out), expected, atol=1e-3)


def test_half_precision_scores_that_would_overflow_do_not(lib):
    q = np.full((1, 64), 60.0, np.float16)  # q.k = 230,400; float16 ends at 65,504
    k = np.stack([q[0], q[0] - 1]).astype(np.float16)
    weights = attention_weights(lib.array(q), lib.array(k))
    np.testing.assert_array_equal(lib.numpy(weights), [[1, 0]])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [[-1e9, -1e9, -1e9], [-7e4, -7e4 - 1, 0], [0.5, -1, 2]])
def test_additive_masks_of_another_type_give_both_speeds_the_same(dtype, bias):
    q, k, v = (torch.tensor(x, dtype=dtype) for x in draw(12, (2, 4), (3, 4), (3, 4)))
    for kind in (torch.float32, torch.float64):
        mask = torch.tensor([bias, [0, 0, 0]], dtype=kind)
        explicit = attention(q, k, v, mask, return_weights=True)[0]
        fused = attention(q, k, v, mask)
        assert explicit.dtype == fused.dtype == dtype
        torch.testing.assert_close(fused, explicit)


@pytest.mark.parametrize("dv", [3, 8, 20])
def test_values_of_another_width_take_the_fast_path_too(monkeypatch, dv):
    widths = []

    def spy(q, k, v, *args, **kwargs):
        widths.append({x.shape[-1] for x in (q, k, v)})
        return scaled_dot_product_attention(q, k, v, *args, **kwargs)

    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", spy)
    q, k, v = (torch.tensor(x) for x in draw(13, (2, 4, 8), (2, 5, 8), (2, 5, dv)))
    out = attention(q, k, v)
    assert out.shape == (2, 4, dv) and widths == [{max(8, dv)}]
    torch.testing.assert_close(out, attention(q, k, v, return_weights=True)[0])


def test_integers_and_mixed_types(lib):
    q, k, v = (np.arange(n).reshape(-1, 2) for n in (4, 6, 6))
    got = lib.numpy(attention(*(lib.array(x) for x in (q, k, v))))
    np.testing.assert_allclose(got, by_hand(q, k, v), rtol=1e-6)
    mixed = attention(lib.array(q.astype(np.float32)), lib.array(k.astype(np.float64)), lib.array(v))
    assert lib.numpy(mixed).dtype == np.float64
    np.testing.assert_allclose(lib.numpy(mixed), by_hand(q, k, v), **OUT)


def test_inputs_and_strides(lib):
    q, k, v = draw(9, (8, 3, 5), (8, 4, 5), (2, 4, 5))
    tensors = [lib.array(x).T if lib.name == "numpy" else lib.array(x).permute(2, 1, 0) for x in (q, k, v)]
    before = [lib.numpy(x).copy() for x in tensors]
    mask = lib.array(np.array(True).reshape(1, 1))
    out, _ = attention(*tensors, mask, return_weights=True)
    fused = attention(*tensors, mask)
    np.testing.assert_allclose(lib.numpy(out), by_hand(q.T, k.T, v.T), **OUT)
    np.testing.assert_allclose(lib.numpy(fused), lib.numpy(out), **OUT)
    for x, old in zip(tensors, before, strict=True):
        np.testing.assert_array_equal(lib.numpy(x), old)


def test_without_weights_torch_uses_its_fused_kernel(monkeypatch):
    calls = []

    def spy(*args, **kwargs):
        calls.append(kwargs)
        return scaled_dot_product_attention(*args, **kwargs)

    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", spy)
    q, k, v = (torch.tensor(x) for x in draw(10, (2, 4, 8), (2, 4, 8), (2, 4, 8)))
    attention(q, k, v, causal=True)
    assert calls == [{"is_causal": True, "scale": None}]
    attention(q, k, v, causal=True, return_weights=True)
    attention_weights(q, k)
    assert len(calls) == 1


A, B = np.zeros((2, 3)), np.zeros((4, 3))
ERRORS = [
    (lambda: attention([[1.0]], A, A), TypeError, ["q must be a NumPy array", "list"]),
    (lambda: attention(A, None, A), TypeError, ["k must be a NumPy array", "NoneType"]),
    (lambda: attention(A, A, 1.0), TypeError, ["v must be a NumPy array", "float"]),
    (
        lambda: attention(A, torch.tensor(A), A),
        TypeError,
        ["one library", "q from numpy", "k from torch"],
    ),
    (lambda: attention(A, A, A, torch.ones(2, 2)), TypeError, ["one library", "mask from torch"]),
    (lambda: attention(A[0], A, A), ValueError, ["q", "at least two axes", "(3,)", "q[None, :]"]),
    (lambda: attention(A, A[0], A), ValueError, ["k", "at least two axes", "(3,)"]),
    (lambda: attention(A, A, np.zeros(2)), ValueError, ["v", "at least two axes", "(2,)"]),
    (
        lambda: attention(A, np.zeros((2, 4)), A),
        ValueError,
        ["k must be as wide as q", "3", "(2, 4)"],
    ),
    (lambda: attention(A, A, B), ValueError, ["v", "one row for each", "2 keys", "(4, 3)"]),
    (lambda: attention(A[None], A, A), ValueError, ["k", "leading axes of q", "(1,)", "(2, 3)"]),
    (lambda: attention(A[None], A[None], A), ValueError, ["v", "leading axes of q", "(2, 3)"]),
    (lambda: attention(A[:0], A, A), ValueError, ["q must not be empty", "(0, 3)"]),
    (lambda: attention(A, A[:0], A[:0]), ValueError, ["k must not be empty", "(0, 3)"]),
    (lambda: attention(A[:, :0], A[:, :0], A), ValueError, ["q must not be empty", "(2, 0)"]),
    (lambda: attention(A, A, A[:, :0]), ValueError, ["v must not be empty", "(2, 0)"]),
    (lambda: attention(A > 0, A, A), TypeError, ["q must hold real numbers", "bool"]),
    (lambda: attention(A, A + 1j, A), TypeError, ["k must hold real numbers", "complex"]),
    (lambda: attention(A, A, A.astype(str)), TypeError, ["v must hold real numbers", "<U"]),
    (lambda: attention(A, A, A, np.ones((2, 3), bool)), ValueError, ["mask", "(2, 2)", "(2, 3)"]),
    (
        lambda: attention(A, A, A, np.ones((1, 2, 2), bool)),
        ValueError,
        ["mask", "(2, 2)", "(1, 2, 2)"],
    ),
    (
        lambda: attention(A, A, A, np.ones((2, 2), int)),
        TypeError,
        ["mask", "boolean", "int64", "mask != 0"],
    ),
    (lambda: attention(A, A, A, [[True]]), TypeError, ["mask must be a NumPy array", "list"]),
    (
        lambda: attention(A, A, A, causal="yes"),
        TypeError,
        ["causal must be True or False", "'yes'"],
    ),
    (lambda: attention(A, A, A, scale="small"), TypeError, ["scale", "number", "'small'"]),
    (lambda: attention(A, A, A, scale=np.nan), ValueError, ["scale must be finite", "nan"]),
    (lambda: attention(A, A, A, scale=True), TypeError, ["scale", "number", "True"]),
    (lambda: attention(np.ma.array(A), A, A), TypeError, ["q must be a plain array", "masked"]),
    (lambda: attention_weights(A, B[:, :2]), ValueError, ["k must be as wide as q", "(4, 2)"]),
]


@pytest.mark.parametrize("call, error, words", ERRORS)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_errors_are_the_same_for_tensors():
    a = torch.zeros(2, 3)
    for bad, words in (
        ((a[0], a, a), ["q", "at least two axes", "(3,)"]),
        ((a, torch.zeros(2, 4), a), ["k must be as wide as q", "(2, 4)"]),
        ((a, a, a, torch.ones(3, 3) > 0), ["mask", "(2, 2)", "(3, 3)"]),
    ):
        with pytest.raises(ValueError) as caught:
            attention(*bad)
        assert all(word in str(caught.value) for word in words)
    with pytest.raises(ValueError, match="k is on meta, q on cpu"):
        attention(a, a.to("meta"), a)


def test_products_beyond_the_input_s_own_type_are_right():
    """float16 ends at 65504 and a byte at 127; what is multiplied is wider."""
    q, k = (np.array([[x] * 4 for x in rows], np.float16) for rows in ((200, 0.01), (200, 200, 199)))
    v = np.array([[1.0, 0.0], [3.0, 1.0], [100.0, 50.0]], np.float16)
    out, weights = attention(q, k, v, return_weights=True)
    np.testing.assert_allclose(weights[0], [0.5, 0.5, 0], atol=1e-3)
    np.testing.assert_allclose(out[0], [2.0, 0.5], rtol=1e-2)
    small = [np.array(rows, np.int8) for rows in ([[100, 90]], [[100, 100], [-100, 90]], [[1], [2]])]
    out, weights = attention(*small, return_weights=True)
    np.testing.assert_allclose(weights, [[1.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(out, [[1.0]], atol=1e-6)
