import pytest
import torch

from attnlib import MixtureOfExperts, SwiGLU


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def layer(n_experts, top_k=2, dtype=torch.float64, **sizes):
    sizes = {"dim": 5, "hidden": 7, **sizes}
    made = MixtureOfExperts(**sizes, n_experts=n_experts, top_k=top_k, dtype=dtype)
    for i, parameter in enumerate(made.parameters()):
        parameter.data.copy_(drawn(*parameter.shape, seed=i))
    return made


def token_by_token(made, x):
    """Each token by itself: all experts, a softmax over all, the best renormalised."""
    out = torch.zeros_like(x)
    for i, token in enumerate(x):
        p = torch.exp(made.gate.weight @ token)
        p = p / p.sum()
        best = sorted(range(len(p)), key=lambda e: -p[e])[: made.top_k]
        for e in best:
            out[i] += p[e] / sum(p[b] for b in best) * made.experts[e](token)
    return out


@pytest.mark.parametrize("n_experts, top_k", [(1, 1), (4, 1), (4, 2), (5, 3), (3, 3)])
def test_is_the_sum_over_the_best_experts(n_experts, top_k):
    made, x = layer(n_experts, top_k), drawn(2, 6, 5, seed=99)
    torch.testing.assert_close(made(x), token_by_token(made, x.flatten(0, 1)).view(2, 6, 5))
    torch.testing.assert_close(made(x[0, 0]), made(x)[0, 0])


def test_one_expert_is_a_feed_forward_layer():
    made, x = layer(1, 1), drawn(2, 6, 5, seed=99)
    alone = SwiGLU(5, 7, dtype=torch.float64)
    alone.load_state_dict(made.experts[0].state_dict())
    torch.testing.assert_close(made(x), alone(x))


def test_routes_say_who_and_how_much():
    made, x = layer(5, 3), drawn(2, 6, 5, seed=99)
    weights, experts = made.route(x)
    p = torch.softmax(x @ made.gate.weight.T, -1)
    kept = p.gather(-1, experts)
    torch.testing.assert_close(weights, kept / kept.sum(-1, keepdim=True))
    assert (kept.min(-1).values >= p.scatter(-1, experts, 0).max(-1).values).all()
    assert (weights.diff(dim=-1) <= 0).all()
    # The softmax of the best alone gives the same weights.
    scores = (x @ made.gate.weight.T).topk(3).values
    torch.testing.assert_close(weights, torch.softmax(scores, -1))


def test_gradients_and_an_expert_nobody_likes():
    made = layer(3, 2)
    made.gate.weight.data[2] = 0
    made.gate.weight.data[:2] = made.gate.weight[:2].abs()
    x = drawn(4, 5, seed=99).abs().requires_grad_()
    assert torch.autograd.gradcheck(made, x)
    made(x).sum().backward()
    assert made.experts[2].w1.weight.grad is None
    assert made.experts[0].w1.weight.grad.abs().sum() > 0
    assert made.gate.weight.grad.abs().sum() > 0


def test_half_precision_routes_in_float32():
    made, x = layer(4, dtype=torch.bfloat16), drawn(3, 5, seed=99, dtype=torch.bfloat16)
    assert made(x).dtype == torch.bfloat16
    assert made.route(x)[0].dtype == torch.float32
    assert layer(4).route(drawn(3, 5))[0].dtype == torch.float64


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: MixtureOfExperts(4, 8, 2, top_k=3), ValueError, "top_k must be at most n_experts, 2; got 3"),
        (lambda: MixtureOfExperts(4, 8, 0), ValueError, "n_experts must be at least 1"),
        (lambda: MixtureOfExperts(4, 8, 2, top_k=0), ValueError, "top_k must be at least 1"),
        (lambda: MixtureOfExperts(0, 8, 2), ValueError, "dim must be at least 1"),
        (lambda: MixtureOfExperts(4, 8, 2)(torch.zeros(3, 5)), ValueError, "x must have 4 features"),
        (lambda: MixtureOfExperts(4, 8, 2).route(torch.zeros(3, 5)), ValueError, "x must have 4 features"),
    ],
)
def test_errors_are_sentences(call, error, words):
    with pytest.raises(error, match=words):
        call()
