import warnings

import numpy as np
import pytest
import torch
from torch import nn

from attnlib import AdaptiveLogSoftmax


def tensors(golden_file):
    return {name: torch.from_numpy(golden_file[name]) for name in golden_file.files if name != "meta"}


def state(arrays, prefix):
    return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}


def same(got, wanted, rtol=1e-10, atol=1e-12):
    np.testing.assert_allclose(got.detach().numpy(), np.asarray(wanted), rtol=rtol, atol=atol)


def normal(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def layers(in_features=16, n_classes=20, cutoffs=(4, 10, 15), size=1.0, **settings):
    """Ours and torch's with the same weights, in float64."""
    settings["dtype"] = torch.float64
    with warnings.catch_warnings(action="ignore"):
        ours = AdaptiveLogSoftmax(in_features, n_classes, cutoffs, **settings)
        theirs = nn.AdaptiveLogSoftmaxWithLoss(in_features, n_classes, cutoffs, **settings)
    with torch.no_grad():
        for seed, parameter in enumerate(ours.parameters()):
            parameter.copy_(size * normal(*parameter.shape, seed=seed))
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize(
    "end, cutoffs, settings",
    [("", [4, 10, 15], {"div_value": 2.0}), ("_hb", [4, 10], {"div_value": 4.0, "head_bias": True})],
)
def test_agrees_with_the_golden_torch_layer(golden, end, cutoffs, settings):
    g = tensors(golden("adaptive_softmax"))
    layer = AdaptiveLogSoftmax(16, 20, cutoffs, dtype=torch.float64, **settings)
    layer.load_state_dict(state(g, f"p{end}."))
    h = g[f"in_h{end}"].clone().requires_grad_()
    out, loss = layer(h, g["in_y"])
    same(out, g[f"out_output{end}"])
    same(loss, g[f"out_loss{end}"])
    same(layer.log_prob(h), g[f"out_log_prob{end}"])
    assert torch.equal(layer.predict(h), g[f"out_predict{end}"])
    if not end:
        loss.backward()
        same(h.grad, g["g_h"])
        for name, parameter in layer.named_parameters():
            same(parameter.grad, g[f"g.{name}"])


CASES = [
    {},
    {"cutoffs": [1]},
    {"cutoffs": [19], "div_value": 1.0},
    {"cutoffs": [2, 3, 4, 5], "div_value": 1.5, "head_bias": True},
    {"cutoffs": range(5, 20, 7), "div_value": 0.5},
    {"div_value": 6.0},  # the clusters read 2, 0 and 0 features
]


@pytest.mark.parametrize("settings", CASES)
def test_agrees_with_torch(settings):
    ours, theirs = layers(**settings)
    h, target = normal(40, 16), torch.arange(40) % 20
    for rows in (slice(None), slice(0, 1), slice(19, 20)):
        mine, other = h[rows].clone().requires_grad_(), h[rows].clone().requires_grad_()
        a, b = ours(mine, target[rows]), theirs(other, target[rows])
        same(a.output, b.output.detach())
        same(a.loss, b.loss.detach())
        ours.zero_grad(), theirs.zero_grad(), a.loss.backward(), b.loss.backward()
        same(mine.grad, other.grad)
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None)
            if p.grad is not None:
                same(p.grad, q.grad)
    same(ours.log_prob(h), theirs.log_prob(h).detach())
    same(ours.log_prob(h).exp().sum(-1), np.ones(40))
    assert torch.equal(ours.predict(h), theirs.predict(h))
    theirs.load_state_dict(ours.state_dict())


@pytest.mark.parametrize("settings", CASES)
def test_the_first_values_are_those_of_torch_under_the_same_seed(settings):
    drawn = []
    with torch.random.fork_rng(), warnings.catch_warnings(action="ignore"):
        for cls in (AdaptiveLogSoftmax, nn.AdaptiveLogSoftmaxWithLoss):
            torch.manual_seed(3)
            drawn.append(cls(16, 20, **{"cutoffs": [4, 10, 15], **settings}).state_dict())
    assert list(drawn[0]) == list(drawn[1])
    assert all(torch.equal(drawn[0][name], drawn[1][name]) for name in drawn[0])


def test_targets_are_read_off_the_whole_distribution_for_states_of_any_shape():
    ours, _ = layers()
    h = normal(2, 3, 5, 16)
    target = torch.randint(0, 20, (2, 3, 5), generator=torch.Generator().manual_seed(0))
    out, loss = ours(h, target)
    same(out, ours.log_prob(h).gather(-1, target[..., None])[..., 0].detach())
    same(loss, -out.detach().mean())
    one = ours(h[0, 0, 0], target[0, 0, 0].to(torch.uint8))
    assert one.output.shape == one.loss.shape == ()
    same(one.output, out[0, 0, 0].detach())
    assert torch.equal(ours.predict(h), ours.log_prob(h).argmax(-1))
    assert ours.predict(h[0, 0, 0]) == ours.predict(h)[0, 0, 0]


def test_predict_does_not_descend_into_the_likeliest_cluster():
    layer, torch_layer = layers(in_features=4, n_classes=6, cutoffs=[2], div_value=1.0, size=0.0)
    with torch.no_grad():
        layer.head.weight[:, 0] = torch.tensor([0.9, 0.0, 1.0], dtype=torch.float64)
    torch_layer.load_state_dict(layer.state_dict())
    h = torch.tensor([[1.0, 0, 0, 0]], dtype=torch.float64)
    assert layer.head(h).argmax() == 2  # the cluster; each of its four words has a quarter of it
    assert layer.predict(h).tolist() == torch_layer.predict(h).tolist() == [0]


def test_a_cluster_that_reads_nothing_is_told_and_stays_even(no_warnings):
    with pytest.warns(UserWarning, match=r"cluster 1 reads 8 / 4\*\*2 = 0 features, so its 10 words stay"):
        layer = AdaptiveLogSoftmax(8, 20, [4, 10])
    p = layer.log_prob(torch.ones(8)).exp()
    assert torch.allclose(p[10:], p[10].expand(10)) and not torch.allclose(p[4:10], p[4].expand(6))
    with no_warnings():
        AdaptiveLogSoftmax(16, 20, [4, 10])


def test_clusters_without_a_target_are_not_computed():
    layer, _ = layers()
    called = []
    for i, tail in enumerate(layer.tail):
        tail.register_forward_hook(lambda _, states, __, i=i: called.append((i, len(states[0]))))
    layer(normal(4, 16), torch.tensor([0, 16, 3, 19]))
    assert called == [(2, 2)]


def test_gradients_are_right():
    layer, _ = layers(in_features=4, n_classes=7, cutoffs=[2, 4], div_value=1.5)
    h, target = normal(5, 4).requires_grad_(), torch.tensor([0, 2, 3, 6, 1])
    assert torch.autograd.gradcheck(lambda h: layer(h, target), h)
    assert torch.autograd.gradcheck(layer.log_prob, h)


def test_products_are_counted():
    layer = AdaptiveLogSoftmax(8, 20, [4, 10], div_value=2.0)
    # The head reads 8 features for 6 entries; the clusters 4 for 6 words, and 2 for 10.
    assert layer.multiply_adds([1] + [0] * 19) == 48
    assert layer.multiply_adds([0] * 4 + [3] + [0] * 15) == 48 + 4 * (8 + 6)
    assert layer.multiply_adds(np.ones(20)) == pytest.approx(48 + 0.3 * 4 * 14 + 0.5 * 2 * 18)


def test_half_precision_autocast_and_nothing_that_goes_in_is_changed():
    layer = AdaptiveLogSoftmax(16, 20, [4, 10], dtype=torch.bfloat16)
    h, target = torch.ones(3, 16, dtype=torch.bfloat16), torch.tensor([0, 5, 19])
    before = h.clone(), target.clone()
    out, loss = layer(h, target)
    assert out.dtype == loss.dtype == layer.log_prob(h).dtype == torch.bfloat16
    assert torch.equal(h, before[0]) and torch.equal(target, before[1])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert AdaptiveLogSoftmax(16, 20, [4, 10])(torch.ones(3, 16), target).loss.isfinite()


def test_errors_name_what_is_wrong():
    layer = AdaptiveLogSoftmax(8, 20, [4, 10], div_value=2.0)
    h, y = torch.ones(2, 3, 8), torch.ones(2, 3, dtype=torch.long)
    for call, error, says in (
        (lambda: AdaptiveLogSoftmax(8.0, 20, [4]), TypeError, "in_features must be a whole number"),
        (lambda: AdaptiveLogSoftmax(8, 0, [4]), ValueError, "n_classes must be at least 1"),
        (lambda: AdaptiveLogSoftmax(8, 20, []), ValueError, "cutoffs must be one or more numbers that rise"),
        (lambda: AdaptiveLogSoftmax(8, 20, [4, 4]), ValueError, r"between 1 and 19; got \[4, 4\]"),
        (lambda: AdaptiveLogSoftmax(8, 20, [0, 4]), ValueError, "cutoffs must be one or more"),
        (lambda: AdaptiveLogSoftmax(8, 20, [4, 20]), ValueError, "cutoffs must be one or more"),
        (lambda: AdaptiveLogSoftmax(8, 20, [4.0]), TypeError, "cutoffs must hold whole numbers; got 4.0"),
        (lambda: AdaptiveLogSoftmax(8, 20, 4), TypeError, "cutoffs must be a sequence of whole"),
        (lambda: AdaptiveLogSoftmax(8, 20, [4], div_value=0), ValueError, "div_value must be a positive"),
        (lambda: AdaptiveLogSoftmax(8, 20, [4], div_value="2"), ValueError, "div_value must be a positive"),
        (lambda: layer(h.numpy(), y), TypeError, "h must be a torch tensor; got ndarray"),
        (lambda: layer(h[..., :7], y), ValueError, r"h must have 8 features; got shape \(2, 3, 7\)"),
        (lambda: layer(h[:0], y[:0]), ValueError, "h must not be empty"),
        (lambda: layer(h, y.numpy()), TypeError, "one library"),
        (lambda: layer(h, y[0]), ValueError, r"target must have one word for each state, shape \(2, 3\)"),
        (lambda: layer(h, y.float()), TypeError, "target must hold whole numbers"),
        (lambda: layer(h, 20 * y), ValueError, r"target must lie in 0 .. 19; got 20"),
        (lambda: layer.log_prob(h[..., 0]), ValueError, "h must have 8 features"),
        (lambda: layer.predict([1.0]), TypeError, "h must be a torch tensor"),
    ):
        with pytest.raises(error, match=says):
            call()
