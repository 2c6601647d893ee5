import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import entropy, label_smoothing_loss, smoothed_targets

KINDS = ("all", "others")


def draw(seed=0, shape=(3, 4), n_classes=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(*shape, n_classes)), rng.integers(0, n_classes, size=shape)


def test_agrees_with_the_golden_annotated_distribution_and_loss(golden, lib):
    g = golden("transformer_pieces")
    logs, targets = lib.array(g["in_ls_logp"]), lib.array(g["in_ls_target"])
    settings = dict(pad_id=0, over="others")
    rows = smoothed_targets(targets, 5, 0.4, like=logs, **settings)
    np.testing.assert_allclose(lib.numpy(rows), g["out_ls_true_dist"], rtol=1e-6)
    mean = label_smoothing_loss(logs, targets, 0.4, minus_entropy=True, **settings)
    np.testing.assert_allclose(3 * lib.numpy(mean), g["out_ls_loss"], rtol=1e-6)  # three real targets


def test_agrees_with_the_golden_cross_entropy_of_torch(golden, lib):
    g = golden("transformer_pieces")
    loss = label_smoothing_loss(lib.array(g["in_ce_logits"]), lib.array(g["in_ls_target"]), 0.1)
    np.testing.assert_allclose(lib.numpy(loss), g["out_ce_label_smoothing_0p1"], rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0, 0.1, 0.5, 1])
@pytest.mark.parametrize("pad_id", [None, 0, 3, -100])
def test_over_all_is_the_cross_entropy_of_torch_with_its_gradient(lib, smoothing, pad_id):
    x, targets = draw()
    wanted_x = torch.from_numpy(x).requires_grad_()
    wanted = torch.nn.functional.cross_entropy(
        wanted_x.flatten(0, 1), torch.from_numpy(targets).flatten(), label_smoothing=smoothing,
        ignore_index=-100 if pad_id is None else pad_id,
    )
    logits = lib.array(x)
    if lib.name == "torch":
        logits.requires_grad_()
    loss = label_smoothing_loss(logits, lib.array(targets), smoothing, pad_id=pad_id)
    np.testing.assert_allclose(lib.numpy(loss), wanted.detach(), rtol=1e-12)
    if lib.name == "torch":
        wanted.backward()
        loss.backward()
        np.testing.assert_allclose(logits.grad, wanted_x.grad, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("pad_id", [None, 2])
@pytest.mark.parametrize("over", KINDS)
def test_the_entropy_is_all_that_lies_between_the_two_forms(lib, over, pad_id):
    x, targets = draw(1)
    logits, targets = lib.array(x), lib.array(targets)
    settings = dict(smoothing=0.3, pad_id=pad_id, over=over)
    whole, rest = (lib.numpy(label_smoothing_loss(logits, targets, minus_entropy=minus, **settings))
                   for minus in (False, True))  # fmt: skip
    rows = lib.numpy(smoothed_targets(targets, 6, like=logits, **settings))
    some = rows[rows.sum(-1) > 0]
    np.testing.assert_allclose(whole - rest, entropy(some).mean(), rtol=1e-12)
    logs = lib.array(np.log(np.where(rows > 0, rows, 1e-300)))
    perfect = label_smoothing_loss(logs, targets, minus_entropy=True, **settings)
    assert abs(lib.numpy(perfect)) < 1e-12 < rest


@pytest.mark.parametrize("over", KINDS)
@pytest.mark.parametrize("minus_entropy", [False, True])
def test_gradients_are_right(over, minus_entropy):
    x, targets = draw(2, (2, 2))
    logits, targets = torch.from_numpy(x).requires_grad_(), torch.from_numpy(targets)
    assert torch.autograd.gradcheck(
        lambda y: label_smoothing_loss(y, targets, 0.2, pad_id=1, over=over, minus_entropy=minus_entropy),
        logits,
    )
    label_smoothing_loss(logits, targets, 0.2, pad_id=int(targets[0, 0]), over=over).backward()
    assert not logits.grad[0, 0].any() and logits.grad.any()


@given(st.integers(3, 9), st.floats(0, 0.5), st.sampled_from(KINDS), st.integers(0, 2), st.integers(0, 99))
def test_rows_sum_to_one_and_the_target_has_the_most(n_classes, smoothing, over, pad_id, seed):
    targets = np.random.default_rng(seed).integers(0, n_classes, 5)
    rows = smoothed_targets(targets, n_classes, smoothing, pad_id=pad_id, over=over)
    real = targets != pad_id
    np.testing.assert_allclose(rows.sum(-1), real)
    for row, target in zip(rows[real], targets[real], strict=True):
        assert row[target] == row.max() and (row >= 0).all()
        others = np.delete(row, [target, pad_id])
        np.testing.assert_allclose(others, others[:1].repeat(len(others)))
        assert over == "all" or row[pad_id] == 0


def test_the_shares_by_hand(lib):
    targets = lib.array(np.array([1]))
    for settings, wanted in (
        (dict(over="all"), [0.1, 0.7, 0.1, 0.1]),
        (dict(over="others"), [0.4 / 3, 0.6, 0.4 / 3, 0.4 / 3]),
        (dict(over="others", pad_id=0), [0, 0.6, 0.2, 0.2]),
        (dict(over="others", pad_id=-100), [0.4 / 3, 0.6, 0.4 / 3, 0.4 / 3]),
    ):
        rows = lib.numpy(smoothed_targets(targets, 4, 0.4, **settings))
        np.testing.assert_allclose(rows, [wanted], rtol=1e-6)


def test_padding_only_has_no_loss_and_no_gradient():
    logits = torch.randn(1, 2, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss = label_smoothing_loss(logits, torch.zeros(1, 2, dtype=torch.long), pad_id=0)
    loss.backward()
    assert loss == 0 and not logits.grad.any()


def test_an_impossible_class_that_nobody_asks_for_does_no_harm(lib):
    logits = lib.array(np.array([[-np.inf, 0.0, 0.0]]))
    for smoothing, settings in ((0, {}), (0.3, dict(pad_id=0, over="others"))):
        loss = label_smoothing_loss(logits, lib.array(np.array([1])), smoothing, **settings)
        np.testing.assert_allclose(lib.numpy(loss), np.log(2))


def test_types(lib):
    x, targets = draw(3)
    for dtype in (np.float16, np.float32, np.float64):
        loss = label_smoothing_loss(lib.array(x.astype(dtype)), lib.array(targets.astype(np.int32)))
        assert lib.numpy(loss).dtype == dtype and lib.numpy(loss).shape == ()
    wanted = label_smoothing_loss(x, targets)
    half = label_smoothing_loss(lib.array(x.astype(np.float16)), lib.array(targets))
    np.testing.assert_allclose(lib.numpy(half), wanted, rtol=2e-3)
    default = np.float64 if lib.name == "numpy" else np.float32
    assert lib.numpy(smoothed_targets(lib.array(targets), 6)).dtype == default


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: smoothed_targets(np.array([0.5]), 3), TypeError, "targets must hold integer ids; got dtype"),
        (lambda: smoothed_targets(np.array([3]), 3), ValueError, r"targets must lie in 0 .. 2; got 3"),
        (lambda: smoothed_targets(np.array([-1]), 3, pad_id=0), ValueError, "-1, which is not pad_id 0"),
        (lambda: smoothed_targets(np.zeros((0, 2), int), 3), ValueError, "targets must not be empty"),
        (lambda: smoothed_targets(np.array([1]), 3, 1.5), ValueError, "smoothing must lie between 0 and 1"),
        (lambda: smoothed_targets(np.array([1]), 3, "x"), TypeError, "smoothing must be a number; got 'x'"),
        (lambda: smoothed_targets(np.array([1]), 3, over="rest"), ValueError, "'others'; got 'rest'"),
        (lambda: smoothed_targets(np.array([1]), 3, pad_id=0.5), TypeError, "pad_id must be one integer"),
        (lambda: smoothed_targets(np.array([1]), 2, pad_id=0, over="others"), ValueError, "no other class"),
        (lambda: smoothed_targets(np.array([1]), 0), ValueError, "n_classes must be at least 1"),
        (lambda: label_smoothing_loss(np.zeros((2, 3)), np.array([[1]])), ValueError,
         r"logits must have the shape of targets, \(1, 1\), and one axis more; got shape \(2, 3\)"),
        (lambda: label_smoothing_loss(np.zeros((1, 3)), np.array([1]), minus_entropy=1), TypeError,
         "minus_entropy must be True or False"),
        (lambda: label_smoothing_loss(torch.zeros(1, 3), np.array([1])), TypeError, "one library"),
    ],
)
def test_errors_name_the_argument(call, error, says):
    with pytest.raises(error, match=says):
        call()
