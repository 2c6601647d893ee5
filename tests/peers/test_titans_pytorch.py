"""Titans against titans-pytorch; the authors of the paper released no code."""

import random

import pytest
import torch

from attnlib import MemoryMLP, NeuralMemory, ResidualNorm, SegmentedAttention, titans_memory


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def moved(module):
    """In float64, every parameter away from where it starts, but not far: the memory must not run away."""
    module.double()
    with torch.no_grad():
        for i, (_, p) in enumerate(sorted(module.named_parameters())):
            p.set_(p.clone() + 0.1 * normal(*p.shape, seed=i))  # theirs shares storage between heads
    return module


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", range(24))
def test_neural_memory(peer, seed):
    theirs = peer("titans_pytorch")
    draw = random.Random(seed)
    heads, chunk, depth, length = (
        draw.choice([1, 2]),
        draw.randint(1, 5),
        draw.randint(1, 3),
        draw.randint(1, 14),
    )
    batch = draw.choice([None, chunk, 2 * chunk, 3 * chunk])
    residual, momentum, pre_norm, qk_norm = (draw.random() < 0.7 for _ in range(4))
    width = 4 if heads == 1 else 3
    torch.manual_seed(seed)
    module = moved(theirs.NeuralMemory(
        4, chunk_size=chunk, batch_size=batch, heads=heads, dim_head=width,
        model=theirs.MemoryMLP(width, depth), momentum=momentum, pre_rmsnorm=pre_norm, qk_rmsnorm=qk_norm,
        mem_model_norm_add_residual=residual,
    ))  # fmt: skip
    memory = MemoryMLP(width, depth, expansion=2)
    ours = NeuralMemory(
        4, heads, head_dim=width, memory=ResidualNorm(width, memory) if residual else memory,
        chunk_size=chunk, batch_size=batch, momentum=momentum, pre_norm=pre_norm, qk_norm=qk_norm,
        dtype=torch.float64,
    )  # fmt: skip
    ours.load_state_dict(module.state_dict())

    x = normal(2, length, 4, seed=seed).requires_grad_()
    mask = normal(2, length, seed=seed + 1) > -0.5
    wanted, their_state, (their_losses, _) = module(x, store_mask=mask, return_surprises=True)
    got, state, losses = ours(x, mask=mask, return_state=True, return_losses=True)
    close(got, wanted)
    upstream = normal(*got.shape, seed=seed + 2)
    close(*(torch.autograd.grad(out, x, upstream, retain_graph=True)[0] for out in (got, wanted)))
    if losses.numel():
        close(losses, their_losses)
    weights, their_momentum = their_state.states
    for name, value in ours.by_name(state.weights.flatten(0, 1)).items():
        close(value, weights[name])
    if momentum:
        for name, value in ours.by_name(state.momentum.flatten(0, 1)).items():
            close(value, their_momentum[name][0])

    _, their_state = module(x)
    _, state = ours(x, return_state=True)
    for i in range(7):  # one token at a time, over the ends of chunks and of batches
        token = normal(2, 1, 4, seed=seed + 3 + i)
        wanted, their_state = module(token, state=their_state)
        got, state = ours(token, state, return_state=True)
        close(got, wanted)


def test_the_recurrence_of_one_matrix(peer):
    theirs = peer("titans_pytorch")
    module = moved(theirs.NeuralMemory(
        4, chunk_size=1, batch_size=1, model=theirs.MemoryMLP(4, 1), pre_rmsnorm=False,
        mem_model_norm_add_residual=False,
    ))  # fmt: skip
    x = normal(2, 40, 4)
    gates = (torch.sigmoid(getattr(module, name)[0](x))[..., 0]
             for name in ("to_adaptive_step", "to_momentum", "to_decay_factor"))  # fmt: skip
    theta, eta, alpha = gates
    ours = titans_memory(
        module.to_queries(x), module.to_keys(x), module.to_values(x), theta / 4, eta, alpha,
        memory=module.memory_model_parameters[0].expand(2, 4, 4),
    )  # fmt: skip
    close(ours, module(x)[0])


@pytest.mark.parametrize("sliding", [False, True])
@pytest.mark.parametrize("length, segment_len, n_persistent", [(12, 4, 2), (7, 3, 0), (5, 8, 1), (9, 1, 3)])
def test_segmented_attention(peer, length, segment_len, n_persistent, sliding):
    theirs = peer("titans_pytorch.mac_transformer").SegmentedAttention(
        8, segment_len, num_persist_mem_tokens=n_persistent, dim_head=4, heads=2, sliding=sliding
    )
    moved(theirs)
    ours = SegmentedAttention(8, segment_len, n_heads=2, head_dim=4, n_persistent=n_persistent,
                              sliding=sliding, dtype=torch.float64)  # fmt: skip
    ours.load_state_dict(theirs.state_dict())
    x = normal(2, length, 8)
    torch.testing.assert_close(ours(x), theirs(x)[0], rtol=1e-5, atol=1e-6)
