import numpy as np
import pytest
import torch
from drawn import BOTH, normal
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy, kl_div

from attnlib import kl_divergence, reinforce_loss

CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def drawn(before, length, n, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(*before, length, n)), rng.integers(n, size=(*before, length)),
            rng.choice([-1.0, 1.0], size=before), rng.random((*before, length)) < 0.7)  # fmt: skip


@given(
    st.sampled_from([(), (1,), (5,), (2, 3)]), st.integers(1, 6), st.integers(1, 7), st.booleans(),
    st.integers(0, 99),
)  # fmt: skip
def test_is_the_sum_over_tokens_and_the_mean_over_samples(before, length, n, masked, seed):
    logits, actions, rewards, mask = drawn(before, length, n, seed)
    samples = []
    for at in np.ndindex(before):
        log_p = 0.0
        for t in range(length):
            shares = np.exp(logits[at][t]) / np.exp(logits[at][t]).sum()
            if not masked or mask[at][t]:
                log_p += np.log(shares[actions[at][t]])
        samples.append(-rewards[at] * log_p)
    for array in (np.asarray, torch.from_numpy):
        arrays = [array(np.asarray(x)) for x in (logits, actions, rewards)]
        got = reinforce_loss(*arrays, array(mask) if masked else None)
        np.testing.assert_allclose(got, np.mean(samples), **CLOSE)


def test_rewards_of_one_are_cross_entropy():
    logits, actions, _, _ = map(torch.from_numpy, drawn((4,), 5, 3))
    loss = cross_entropy(logits.mT, actions, reduction="sum") / 4
    ones = torch.ones(4, dtype=torch.float64)
    np.testing.assert_allclose(reinforce_loss(logits, actions, ones), loss, **CLOSE)
    np.testing.assert_allclose(reinforce_loss(logits, actions, -ones), -loss, **CLOSE)


def test_its_slope_is_that_of_the_expected_reward():
    """Over all answers, each as often as it is drawn."""
    logits = torch.from_numpy(normal(1, 4)).requires_grad_()
    rewards = torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=torch.float64)
    (wanted,) = torch.autograd.grad(-(logits.softmax(-1) @ rewards).sum(), logits)
    shares = logits.detach().softmax(-1)[0]
    got = 0
    for a in range(4):
        loss = reinforce_loss(logits[None], torch.tensor([[a]]), rewards[a : a + 1])
        got = got + shares[a] * torch.autograd.grad(loss, logits)[0]
    np.testing.assert_allclose(got, wanted, **CLOSE)


@BOTH
def test_small_integers_and_types(array):
    logits, actions, rewards, _ = drawn((3,), 2, 200)
    wanted = reinforce_loss(logits, actions, rewards)
    for kind in ("uint8", "int32"):
        got = reinforce_loss(array(logits), array(actions.astype(kind)), array(rewards.astype(int)))
        np.testing.assert_allclose(got, wanted, **CLOSE)
    half = reinforce_loss(array(logits.astype("float16")), array(actions), array(rewards.astype("float16")))
    assert "float16" in str(half.dtype)
    np.testing.assert_allclose(half, wanted, atol=2e-2)


def kl(p, q):
    return sum(a * (np.log(a) - np.log(b)) for a, b in zip(p, q, strict=True) if a > 0)


@given(st.integers(1, 6), st.integers(0, 99))
def test_divergence_from_its_definition(n, seed):
    p, q = normal(3, n, seed=seed), normal(3, n, seed=seed + 1)
    shares = [np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (p, q)]
    wanted = [kl(a, b) for a, b in zip(*shares, strict=True)]
    for array in (np.asarray, torch.from_numpy):
        np.testing.assert_allclose(kl_divergence(array(p), array(q)), wanted, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(kl_divergence(array(p), array(p + 3.0)), 0, atol=1e-12)


def test_the_public_code_has_the_arguments_of_pytorch_the_other_way_round():
    policy, reference = (torch.from_numpy(3 * normal(5, 4, seed=s)).log_softmax(-1) for s in (0, 1))
    theirs = kl_div(policy, reference, log_target=True, reduction="none").sum(-1)
    np.testing.assert_allclose(theirs, kl_divergence(reference, policy), **CLOSE)
    assert abs(theirs - kl_divergence(policy, reference)).max() > 0.05


@BOTH
def test_what_is_ruled_out(array):
    p, q = np.array([0.0, 0.0, -np.inf]), np.log([0.25, 0.25, 0.5])
    np.testing.assert_allclose(kl_divergence(array(p), array(q)), np.log(2), **CLOSE)
    assert np.isinf(np.asarray(kl_divergence(array(q), array(p))))


def test_gradients_by_differences():
    logits, actions, rewards, mask = map(torch.from_numpy, drawn((2,), 3, 4))
    assert torch.autograd.gradcheck(
        lambda x: reinforce_loss(x, actions, rewards, mask), logits.requires_grad_()
    )
    p, q = (torch.from_numpy(normal(2, 3, seed=s)).requires_grad_() for s in (0, 1))
    assert torch.autograd.gradcheck(kl_divergence, (p, q))
    p = torch.tensor([0.0, 0.0, -torch.inf], requires_grad=True)
    kl_divergence(p, torch.zeros(3)).backward()
    assert p.grad.isfinite().all()


L, A, R, M = drawn((4,), 3, 5)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: reinforce_loss(L, A[:, :2], R), ValueError, ["actions must have shape", "T = 3", "(4, 2)"]),
        (
            lambda: reinforce_loss(L, A.astype(float), R),
            TypeError,
            ["actions must hold whole numbers", "float64"],
        ),
        (lambda: reinforce_loss(L, A - 9, R), ValueError, ["actions must lie in 0 .. 4"]),
        (lambda: reinforce_loss(L, A + 3, R), ValueError, ["actions must lie in 0 .. 4"]),
        (
            lambda: reinforce_loss(L, A, R[:, None]),
            ValueError,
            ["rewards must have one number", "(4,)", "(4, 1)"],
        ),
        (lambda: reinforce_loss(L, A, R, M * 1.0), TypeError, ["mask must be boolean", "float64"]),
        (lambda: reinforce_loss(L, A, R, M[:1]), ValueError, ["mask must have"]),
        (lambda: reinforce_loss(L.tolist(), A, R), TypeError, ["logits must be a NumPy array"]),
        (lambda: kl_divergence(L, L[0]), ValueError, ["reference must have"]),
        (lambda: kl_divergence(L, L[..., :2]), ValueError, ["reference must have shape", "V = 5"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
