import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import SegmentedAttention

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(dim=6, segment_len=3, seed=0, **settings):
    made = SegmentedAttention(dim, segment_len, dtype=torch.float64, **settings)
    with torch.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(normal(*p.shape, seed=100 * seed + i))
    return made


@pytest.mark.parametrize("variant", ["segment", "sliding"])
def test_agrees_with_the_golden_file(golden, variant):
    g = golden("titans_segmented_attention")
    made = SegmentedAttention(8, 4, n_heads=2, head_dim=4, n_persistent=2, sliding=variant == "sliding")
    np.testing.assert_allclose(made.rotary_emb.freqs, g["p.rotary_emb.freqs"], rtol=1e-6)
    made.load_state_dict({name[2:]: torch.from_numpy(g[name]) for name in g.files if name.startswith("p.")})
    out = made(torch.from_numpy(g["in_x"]))
    np.testing.assert_allclose(out.detach(), g[f"out_{variant}"], rtol=1e-4, atol=1e-5)


def by_hand(made, x, sliding):
    """Token by token, head by head, pair of features by pair, for one sequence."""
    H, d = made.n_heads, made.head_dim
    weight, out_weight = made.to_qkv.weight.detach().numpy(), made.to_out.weight.detach().numpy()
    x = x.numpy() / np.sqrt((x.numpy() ** 2).mean(-1, keepdims=True) + np.finfo(float).eps)
    x = x * made.norm.weight.detach().numpy()
    q, k, v = (x @ w.T for w in np.split(weight, 3))
    turn = np.exp(1j * np.outer(np.arange(len(x)), 10000.0 ** (-2 * np.arange(d // 2) / d)))
    persistent = made.persistent_memory.detach().numpy()
    joined = []
    for h in range(H):
        own = [a[:, h * d : (h + 1) * d] for a in (q, k, v)]
        qc, kc = ((a[:, ::2] + 1j * a[:, 1::2]) * turn for a in own[:2])
        rows = []
        for t in range(len(x)):
            first = max(0, t - made.segment_len) if sliding else t // made.segment_len * made.segment_len
            scores = [own_q @ key for own_q in [np.stack([qc[t].real, qc[t].imag], -1).reshape(-1)]
                      for key in persistent[0, h]]  # fmt: skip
            scores += [(qc[t] * kc[s].conj()).real.sum() for s in range(first, t + 1)]
            weights = np.exp(np.array(scores) / d**0.5)
            values = np.concatenate([persistent[1, h], own[2][first : t + 1]])
            rows.append(weights @ values / weights.sum())
        joined.append(np.stack(rows))
    return np.concatenate(joined, -1) @ out_weight.T


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 13), st.integers(1, 3), st.sampled_from([2, 4]), st.integers(0, 3),
       st.booleans(), st.integers(0, 99))  # fmt: skip
def test_is_its_formula(T, segment_len, n_heads, head_dim, n_persistent, sliding, seed):
    made = layer(5, segment_len, seed, n_heads=n_heads, head_dim=head_dim, n_persistent=n_persistent,
                 sliding=sliding)  # fmt: skip
    x = normal(2, T, 5, seed=seed)
    out = made(x)
    for b in range(2):
        np.testing.assert_allclose(out[b].detach(), by_hand(made, x[b], sliding), **CLOSE)
    out, weights = made(x, return_weights=True)
    assert weights.shape == (2, n_heads, T, n_persistent + T)
    np.testing.assert_allclose(weights.sum(-1).detach(), 1)
    np.testing.assert_allclose(out.detach(), made(x).detach(), **CLOSE)


@pytest.mark.parametrize("sliding, seen", [(False, [6, 7]), (True, [4, 5, 6, 7])])
def test_what_a_token_sees(sliding, seen):
    made = layer(n_heads=2, head_dim=4, n_persistent=2, sliding=sliding)
    x = normal(1, 9, 6)
    for s in range(9):
        changed = x.clone()
        changed[0, s] += 1.0
        differs = (made(changed) - made(x))[0, 7].abs().max() > 1e-9
        assert differs == (s in seen), s


def test_gradients_by_differences():
    made = layer(n_heads=2, head_dim=2, n_persistent=1)
    x = normal(1, 5, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: made(x, return_weights=True), x)
    made(x).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in made.parameters())


X = torch.zeros(1, 5, 6)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: SegmentedAttention(6, 0), ValueError, ["segment_len must be at least 1"]),
        (lambda: SegmentedAttention(6, 2, head_dim=3), ValueError, ["even", "3"]),
        (lambda: SegmentedAttention(6, 2, n_persistent=-1), ValueError, ["n_persistent must be at least 0"]),
        (lambda: SegmentedAttention(6, 2, n_persistent=0.5), TypeError, ["n_persistent", "whole number"]),
        (lambda: SegmentedAttention(6, 2, sliding=1), TypeError, ["sliding must be True or False; got 1"]),
        (lambda: SegmentedAttention(6, 2)(X[0]), ValueError, ["x must have shape (B, T, 6)"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
