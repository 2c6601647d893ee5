import copy

import numpy as np
import pytest
import torch
from torch import nn

from attnlib import MultiHeadAttention, attention, causal_mask, merge_heads, padding_mask, split_heads
from attnlib.layers import multi_head


@pytest.fixture(autouse=True)
def a_random_state_of_its_own():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def tensors(golden_file):
    return {name: torch.from_numpy(golden_file[name]) for name in golden_file.files if name != "meta"}


def state(arrays, prefix):
    return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}


def same(got, wanted, rtol=1e-10, atol=1e-12):
    np.testing.assert_allclose(got.detach().numpy(), np.asarray(wanted), rtol=rtol, atol=atol)


def layers(seed=0, embed_dim=12, num_heads=3, **settings):
    """Ours and torch's with the same weights, none of them zero, in float64."""
    settings["dtype"] = torch.float64
    torch_layer = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True, **settings)
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in torch_layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=rng, dtype=torch.float64))
    ours = MultiHeadAttention(embed_dim, num_heads, **settings)
    ours.load_state_dict(torch_layer.state_dict())
    return ours, torch_layer


def normal(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


# the golden files


def test_agrees_with_the_golden_torch_layer(golden):
    g = tensors(golden("mha_torch"))
    layer = MultiHeadAttention(12, 3, dtype=torch.float64)
    layer.load_state_dict(state(g, "p."))
    out, weights = layer(g["in_x"], return_weights=True)
    same(out, g["out_plain"])
    same(layer(g["in_x"]), g["out_plain"])
    same(weights.mean(-3), g["out_plain_wavg"])

    x = g["in_x"].clone().requires_grad_()
    mask = ~g["in_attn_mask"] & ~g["in_key_padding_mask"][:, None, None, :]
    out, weights = layer(x, mask=mask, return_weights=True)
    same(out, g["out_masked"])
    same(weights, g["out_masked_w"])
    for way in (out, layer(x, mask=mask)):
        x.grad = None
        layer.zero_grad()
        (way * g["in_do"]).sum().backward()
        same(x.grad, g["g_x"])
        for name, parameter in layer.named_parameters():
            same(parameter.grad, g[f"g.{name}"])

    out, weights = layer(g["in_x"], mask=g["in_float_mask"].unflatten(0, (2, 3)), return_weights=True)
    same(out, g["out_floatmask"])
    same(weights, g["out_floatmask_w"])


def test_agrees_with_the_golden_appended_keys(golden):
    g = tensors(golden("mha_torch_zero_attn"))
    for kind in ("both", "zero"):
        layer = MultiHeadAttention(
            12, 3, add_bias_kv=kind == "both", add_zero_attn=True, dtype=torch.float64
        )
        layer.load_state_dict(state(g, f"p_{kind}."))
        out, weights = layer(g["in_x"], return_weights=True)
        same(out, g[f"out_{kind}"])
        same(weights, g[f"out_{kind}_w"])


def test_agrees_with_the_golden_annotated_transformer(golden):
    g = tensors(golden("annotated_attention_mha"))
    linears = [state(g, f"p.linears.{i}.") for i in range(4)]
    layer = MultiHeadAttention(16, 4, dtype=torch.float64)
    layer.load_state_dict({
        "in_proj_weight": torch.cat([linear["weight"] for linear in linears[:3]]),
        "in_proj_bias": torch.cat([linear["bias"] for linear in linears[:3]]),
        "out_proj.weight": linears[3]["weight"],
        "out_proj.bias": linears[3]["bias"],
    })
    out, weights = layer(g["in_x"], mask=g["in_causal"][:, None], return_weights=True)
    same(out, g["out_self"])
    same(weights, g["out_self_p"])
    same(layer(g["in_x"], causal=True), g["out_self"])
    out, weights = layer(g["in_x"], g["in_mem"], mask=g["in_mem_mask"][:, None], return_weights=True)
    same(out, g["out_cross"])
    same(weights, g["out_cross_p"])


def test_the_annotated_function_agrees_but_for_a_query_that_may_see_nothing(golden):
    g = golden("annotated_attention_mha")
    q, k, v, mask = (g[name] for name in ("in_q", "in_k", "in_v", "in_mask"))
    out, weights = attention(q, k, v, return_weights=True)
    np.testing.assert_allclose(out, g["out_nomask"], rtol=1e-10)
    np.testing.assert_allclose(weights, g["out_nomask_p"], rtol=1e-10)
    out, weights = attention(q, k, v, mask != 0, return_weights=True)
    some = np.broadcast_to((mask != 0).any(-1), out.shape[:-1])
    assert not some.all()
    np.testing.assert_allclose(out[some], g["out_mask"][some], rtol=1e-10)
    np.testing.assert_allclose(weights[some], g["out_mask_p"][some], rtol=1e-10)
    assert not out[~some].any() and not weights[~some].any()
    np.testing.assert_allclose(g["out_mask_p"][~some], 1 / 6)  # theirs is uniform there


# torch's own layer, live


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kdim, vdim", [(None, None), (7, None), (None, 5), (7, 5), (12, 12)])
@pytest.mark.parametrize("extra", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_cross_attention_agrees_with_torch(bias, kdim, vdim, extra):
    ours, theirs = layers(bias=bias, kdim=kdim, vdim=vdim, **extra)
    query, key, value = normal(2, 4, 12), normal(2, 6, kdim or 12), normal(2, 6, vdim or 12)
    hide, padded = np.random.default_rng(2).random((4, 6)) < 0.3, np.arange(6) >= np.array([[4], [6]])
    hide, padded = torch.from_numpy(hide), torch.from_numpy(padded)
    mask = ~hide & ~padded[:, None, None, :]
    inputs = [x.requires_grad_() for x in (query, key, value)]
    wanted, wanted_weights = theirs(*inputs, padded, attn_mask=hide, average_attn_weights=False)
    learned = [name for name, _ in ours.named_parameters()]
    wanted_gradients = torch.autograd.grad(
        wanted.square().sum(), [*inputs, *map(dict(theirs.named_parameters()).get, learned)]
    )
    out, weights = ours(*inputs, mask, return_weights=True)
    same(weights, wanted_weights.detach())
    for way in (out, ours(*inputs, mask)):
        same(way, wanted.detach())
        gradients = torch.autograd.grad(way.square().sum(), [*inputs, *ours.parameters()])
        for got, gradient in zip(gradients, wanted_gradients, strict=True):
            same(got, gradient, atol=1e-9)


@pytest.mark.parametrize("size", [1, 30])
@pytest.mark.parametrize(
    "shape, num_heads", [((2, 5), 3), ((3, 3), 3), ((4, 2), 12), ((2, 5), 1), ((1, 4), 2), ((2, 2), 2)]
)
@pytest.mark.parametrize("masked", [None, (1, 1, 0, 0), (0, 1, 0, 0), (0, 1, 1, 0), (0, 0, 0, 0)])
def test_self_attention_without_biases_agrees_with_torch(shape, num_heads, masked, size):
    ours, theirs = layers(num_heads=num_heads, bias=False)
    x = (size * normal(*shape, 12)).requires_grad_()
    full, mask = (shape[0], num_heads, shape[1], shape[1]), None
    if masked:
        ones = [1 if one else n for one, n in zip(masked, full, strict=True)]
        mask = torch.from_numpy(np.random.default_rng(3).random(ones) < 0.5) | (torch.arange(full[-1]) == 1)
        mask = mask[0, 0] if masked == (1, 1, 0, 0) else mask
    hidden = None if mask is None else ~mask.expand(full).flatten(0, 1)
    wanted = theirs(x, x, x, attn_mask=hidden)[0]
    out, weights = ours(x, mask=mask, return_weights=True)
    for way in (out, ours(x, mask=mask)):
        same(way, wanted.detach(), rtol=1e-8, atol=1e-8)
        if size > 1:
            continue
        gradients = torch.autograd.grad(way.square().sum(), [x, *ours.parameters()])
        expected = torch.autograd.grad(theirs(x, x, x, attn_mask=hidden)[0].square().sum(),
                                       [x, *map(dict(theirs.named_parameters()).get,
                                                dict(ours.named_parameters()))])  # fmt: skip
        for got, gradient in zip(gradients, expected, strict=True):
            same(got, gradient, atol=1e-9)
    same(weights.sum(-1), np.ones(full[:-1]))


def test_a_mask_of_queries_empties_their_rows():
    layer, _ = layers(bias=False)
    x, rows = normal(3, 3, 12), torch.tensor([[True], [False], [True]])
    for mask in (rows, rows[None, None], rows.expand(3, 1, 3, 1)):
        same(layer(x, mask=mask), torch.where(rows, layer(x), 0).detach())


def test_one_token_one_sentence_and_a_mask_that_hides_all():
    ours, theirs = layers(bias=False)
    for shape in ((1, 1, 12), (2, 1, 12), (1, 3, 12)):
        x = normal(*shape)
        same(ours(x), theirs(x, x, x)[0].detach())
        nothing = torch.zeros(shape[1], shape[1], dtype=torch.bool)
        for mask in (nothing, nothing[None, None], nothing.expand(shape[0], 3, -1, -1)):
            same(ours(x, mask=mask), np.zeros(shape))


def test_values_of_their_own_with_queries_as_keys():
    ours, theirs = layers()
    x, value = normal(2, 4, 12), normal(2, 4, 12, seed=2)
    same(ours(x, x, value), theirs(x, x, value)[0].detach())


def test_a_floating_mask_leaves_the_appended_keys_alone():
    ours, theirs = layers(add_bias_kv=True, add_zero_attn=True)
    x, floats = normal(2, 4, 12), normal(4, 4, seed=2)
    same(ours(x, mask=floats), theirs(x, x, x, attn_mask=floats)[0].detach())


@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"kdim": 7, "vdim": 5}, {"add_bias_kv": True}])
def test_state_dicts_go_both_ways(settings):
    ours, theirs = layers(**settings)
    assert list(ours.state_dict()) and ours.state_dict().keys() == theirs.state_dict().keys()
    theirs.load_state_dict(ours.state_dict())


@pytest.mark.parametrize("settings", [{}, {"kdim": 7, "vdim": 5, "add_bias_kv": True}, {"bias": False}])
def test_the_first_values_are_those_of_torch_under_the_same_seed(settings):
    drawn = []
    for cls in (MultiHeadAttention, nn.MultiheadAttention):
        torch.manual_seed(3)
        drawn.append(cls(12, 3, **settings).state_dict())
    for name in drawn[0]:
        assert torch.equal(drawn[0][name], drawn[1][name]), name


# what the layer promises of itself


def test_two_sequences_of_other_length_do_not_touch_each_other():
    layer, _ = layers()
    tokens = torch.tensor([[4, 2, 9, 0, 0], [3, 3, 8, 1, 7]])
    x = normal(2, 5, 12)
    together = layer(x, mask=padding_mask(tokens))
    same(layer(x[:1, :3]), together[:1, :3].detach())


@pytest.mark.parametrize("settings", [{}, {"add_bias_kv": True, "add_zero_attn": True}])
def test_causal_is_a_causal_mask(settings):
    layer, _ = layers(**settings)
    query, memory = normal(2, 3, 12), normal(2, 5, 12, seed=2)
    floats = normal(3, 5, seed=3)
    visible = causal_mask(3, 5, like=query)
    for way in (False, True):
        a = layer(query, memory, causal=True, return_weights=way)
        b = layer(query, memory, mask=visible, return_weights=way)
        c = layer(query, memory, mask=floats, causal=True, return_weights=way)
        d = layer(query, memory, mask=torch.where(visible, floats, -torch.inf), return_weights=way)
        for left, right in ((a, b), (c, d)):
            for x, y in zip(left if way else [left], right if way else [right], strict=True):
                same(x, y.detach())
    few = torch.tensor([True, False, True, True, True])
    same(layer(query, memory, mask=few, causal=True), layer(query, memory, mask=visible & few).detach())


@pytest.mark.parametrize("bias", [True, False])
def test_a_query_that_may_see_nothing_gets_the_last_bias_and_no_gradient_is_nan(bias):
    layer, _ = layers(bias=bias)
    x = normal(2, 4, 12).requires_grad_()
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    for return_weights in (False, True):
        out = layer(x, mask=mask, return_weights=return_weights)
        out = out[0] if return_weights else out
        same(out[:, 2], layer.out_proj.bias.detach().expand(2, 12) if bias else np.zeros((2, 12)))
        gradients = torch.autograd.grad(out.sum(), [x, *layer.parameters()])
        assert all(g.isfinite().all() for g in gradients)


def test_an_appended_zero_can_be_looked_at_by_a_query_that_may_see_nothing_else():
    layer, _ = layers(add_zero_attn=True)
    _, weights = layer(normal(1, 2, 12), mask=torch.zeros(1, 1, dtype=torch.bool), return_weights=True)
    same(weights, np.broadcast_to([0.0, 0.0, 1.0], (1, 3, 2, 3)))


def test_dropout_acts_in_training_alone_and_keeps_the_mean():
    layer = MultiHeadAttention(12, 3, dropout=0.25, dtype=torch.float64)
    x = normal(1, 5, 12)
    quiet = layer.eval()(x)
    same(layer(x), quiet.detach())
    layer.train()
    draws = torch.stack([layer(x).detach() for _ in range(4000)])
    # One key in four is left out: each key's part of an output varies by p / (1 - p) of its square.
    values = split_heads((x @ layer.in_proj_weight[24:].T + layer.in_proj_bias[24:]).detach(), 3)
    parts = layer(x, return_weights=True)[1].detach()[..., None] * values[:, :, None]  # (1, 3, 5, 5, 4)
    heads = torch.cat(tuple(parts.square().sum(-2)[0]), -1)                            # (5, 12)
    with torch.no_grad():
        layer.out_proj.weight.copy_(torch.eye(12))
    bare = torch.stack([layer(x).detach()[0] for _ in range(4000)])
    assert (bare.var(0) / (heads / 3) - 1).abs().max() < 0.2
    error = draws.std(0) / np.sqrt(len(draws))
    assert (draws.std(0) > 0).all()
    assert ((draws.mean(0) - quiet.detach()).abs() < 5 * error).all()
    out, weights = layer(x, return_weights=True)
    assert not torch.allclose(out, layer(x, return_weights=True)[0])
    same(weights.sum(-1), np.ones((1, 3, 5)))  # as they are before dropout


def test_no_batch_axis_or_several():
    layer, _ = layers()
    x = normal(2, 3, 4, 12)
    out = layer(x, causal=True)
    same(layer(x[1, 2], causal=True), out[1, 2].detach())


def test_gradients_are_right():
    layer, _ = layers(embed_dim=4, num_heads=2, kdim=3, vdim=2)
    inputs = [normal(1, *shape).requires_grad_() for shape in ((2, 4), (3, 3), (3, 2))]
    mask = torch.tensor([[True, False, True], [True, True, False]])
    assert torch.autograd.gradcheck(lambda *x: layer(*x, mask), inputs)


def test_heads_are_independent():
    # Only the value rows of head 1 change; heads 0 and 2 must give the same to an identity as output map.
    layer, _ = layers(bias=False)
    with torch.no_grad():
        layer.out_proj.weight.copy_(torch.eye(12))
    x, other = normal(2, 5, 12), copy.deepcopy(layer)
    with torch.no_grad():
        other.in_proj_weight[24 + 4 : 24 + 8] += 1
    changed = (layer(x) - other(x)).abs().amax((0, 1)) > 1e-9
    assert changed.tolist() == [False] * 4 + [True] * 4 + [False] * 4


def test_half_precision_comes_back_as_it_came():
    layer = MultiHeadAttention(8, 2, dtype=torch.float16)
    out, weights = layer(torch.ones(1, 3, 8, dtype=torch.float16), return_weights=True)
    assert out.dtype == weights.dtype == torch.float16


def test_nothing_that_goes_in_is_changed():
    layer, _ = layers(add_bias_kv=True)
    x, mask = normal(1, 3, 12), torch.tensor([[True, True, False]])
    before = x.clone(), mask.clone()
    layer(x, mask=mask, causal=True)
    assert torch.equal(x, before[0]) and torch.equal(mask, before[1])


# split and merge


def test_split_gives_each_head_its_features():
    x = normal(2, 3, 8)
    heads = split_heads(x, 4)
    assert heads.shape == (2, 4, 3, 2)
    for h in range(4):
        same(heads[:, h], x[..., 2 * h : 2 * h + 2])


@pytest.mark.parametrize("shape", [(2, 3, 6), (3, 3, 6), (3, 6), (2, 2, 3, 6), (2, 1, 6), (1, 1, 6)])
def test_merge_undoes_split(shape):
    x = normal(*shape)
    for n_heads in (1, 2, 3, 6):
        assert torch.equal(merge_heads(split_heads(x, n_heads)), x)
    crooked = x.transpose(0, -2).contiguous().transpose(0, -2)
    assert torch.equal(merge_heads(split_heads(crooked, 3)), x)


def test_errors_name_what_is_wrong():
    layer = MultiHeadAttention(8, 2, kdim=6, vdim=5)
    q, k, v = torch.ones(2, 3, 8), torch.ones(2, 4, 6), torch.ones(2, 4, 5)
    for call, error, says in (
        (lambda: MultiHeadAttention(8, 3), ValueError, "embed_dim 8 does not divide into 3 heads"),
        (lambda: MultiHeadAttention(8.0, 2), TypeError, "embed_dim must be a whole number"),
        (lambda: MultiHeadAttention(8, 0), ValueError, "num_heads must be at least 1"),
        (lambda: MultiHeadAttention(8, 2, kdim=-1), ValueError, "kdim must be at least 1"),
        (lambda: MultiHeadAttention(8, 2, dropout=1.0), ValueError, "dropout must be at least 0 and below 1"),
        (lambda: layer(np.ones((2, 3, 8)), k, v), TypeError, "query must be a torch tensor; got ndarray"),
        (lambda: layer(q), ValueError, r"key must have 6 features; got shape \(2, 3, 8\)"),
        (lambda: layer(q, k), ValueError, r"value must have 5 features; got shape \(2, 4, 6\)"),
        (lambda: layer(q[0, 0], k, v), ValueError, r"query must have at least 2 axes; got shape \(8,\)"),
        (lambda: layer(q, k[:1], v[:1]), ValueError, "key must have the leading axes of query"),
        (lambda: layer(q, k, v[:, :3]), ValueError, "value must have one row for each of the 4 keys"),
        (lambda: layer(q, k, v, torch.ones(4, 3) > 0), ValueError, "mask must broadcast to the scores"),
        (lambda: split_heads(q, 3), ValueError, "8 features of x do not divide into 3 heads"),
        (lambda: split_heads([1], 1), TypeError, "x must be a torch tensor"),
        (lambda: merge_heads(torch.ones(2, 2)), ValueError, "x must have at least 3 axes"),
    ):
        with pytest.raises(error, match=says):
            call()


@pytest.mark.parametrize("settings", [{}, {"add_zero_attn": True}, {"add_bias_kv": True}])
def test_masks_are_looked_at_before_keys_are_appended(settings):
    layer, x = MultiHeadAttention(8, 2, **settings), torch.ones(2, 3, 8)
    for call, error, says in (
        (lambda: layer(x, mask=torch.ones(3, 3).long()), TypeError, "mask must be boolean"),
        (lambda: layer(x, mask=torch.ones(3, 3).long(), causal=True), TypeError, "mask must be boolean"),
        (lambda: layer(x, mask=torch.ones(3, 4) > 0), ValueError, r"broadcast to the scores, \(2, 2, 3, 3\)"),
        (lambda: layer(x, mask=torch.ones(4, 3) > 0, causal=True), ValueError, "broadcast to the scores"),
        (lambda: layer(x, mask=np.ones((3, 3), bool)), TypeError, "one library"),
        (lambda: layer(x, mask=[[True]]), TypeError, "mask must be a NumPy array or a torch tensor"),
        (lambda: layer(x, causal="no"), TypeError, "causal must be True or False"),
        (lambda: layer(x, x[:, :0], causal=True), ValueError, "key must not be empty"),
        (lambda: layer(x.double()), TypeError, "query must have the layer's dtype, torch.float32"),
        (lambda: layer(x.long()), TypeError, "query must have the layer's dtype"),
    ):
        with pytest.raises(error, match=says):
            call()


def test_autocast_may_change_types():
    layer = MultiHeadAttention(8, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(torch.ones(1, 3, 8)).isfinite().all()
        assert layer(torch.ones(1, 3, 8, dtype=torch.bfloat16)).isfinite().all()


def test_self_attention_projects_once(monkeypatch):
    calls = []
    linear = multi_head.linear
    monkeypatch.setattr(multi_head, "linear", lambda *a: calls.append(1) or linear(*a))
    MultiHeadAttention(8, 2)(torch.ones(1, 3, 8))
    assert len(calls) == 1
