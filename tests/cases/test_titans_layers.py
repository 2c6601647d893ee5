import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call

from attnlib import MemoryMLP, NeuralMemory, ResidualNorm, titans_memory

CLOSE = {"rtol": 1e-7, "atol": 1e-9}


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(dim=4, n_heads=1, *, depth=2, residual=True, seed=0, head_dim=None, **settings):
    """A layer in float64 with parameters of our own, none of them where they start."""
    width = head_dim or dim
    memory = MemoryMLP(width, depth, 2)
    memory = ResidualNorm(width, memory) if residual else memory
    made = NeuralMemory(dim, n_heads, head_dim=head_dim, memory=memory, dtype=torch.float64, **settings)
    with torch.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(0.4 * normal(*p.shape, seed=100 * seed + i))
    return made


# The golden files


def golden_layer(g, variant):
    p = {name.removeprefix(f"p_{variant}."): torch.from_numpy(g[name]) for name in g.files
         if name.startswith(f"p_{variant}.")}  # fmt: skip
    linear = variant.startswith("lin")
    heads = 2 if variant.endswith("heads2") else 1
    width = 4 if heads == 2 else 6
    memory = MemoryMLP(6, depth=1) if linear else ResidualNorm(width, MemoryMLP(width, expansion=2))
    made = NeuralMemory(
        6, heads, head_dim=width, memory=memory,
        chunk_size=1 if linear else 4, batch_size=1 if linear else None, momentum="to_momentum.0.weight" in p,
        pre_norm="store_norm.weight" in p, qk_norm="q_norm.gamma" in p, dtype=torch.float64,
    )  # fmt: skip
    made.load_state_dict(p)
    return made


@pytest.mark.parametrize(
    "name, variant",
    [("linear", "lin"), ("linear", "lin_nomom"), ("mlp_chunked", "chunk4"), ("mlp_chunked", "chunk4_heads2")],
)
def test_agrees_with_the_golden_files(golden, name, variant):
    g = golden(f"titans_memory_{name}")
    made = golden_layer(g, variant)
    x = torch.from_numpy(g["in_x"]).requires_grad_()
    out, state, losses = made(x, return_state=True, return_losses=True)
    (slope,) = torch.autograd.grad(out, x, torch.from_numpy(g["in_do"]))
    theta, eta, alpha = made.gates(made.store_norm(x))
    per_head = made.n_heads * 2
    compared = {
        f"out_{variant}": out, f"g_x_{variant}": slope, f"loss_{variant}": losses, f"theta_{variant}": theta,
        f"decay_{variant}": alpha.reshape(per_head, -1, 1),
    }  # fmt: skip
    for weight, value in made.by_name(state.weights.flatten(0, 1)).items():
        compared[f"final_{variant}.{weight}"] = value
    if variant != "lin_nomom":
        compared[f"eta_{variant}"] = eta.reshape(1, per_head, -1, 1)
        for weight, value in made.by_name(state.momentum.flatten(0, 1)).items():
            compared[f"final_momentum_{variant}.{weight}"] = value[None]

    state, history = made.new_state(x), [made.new_state(x).weights]
    for piece in x.split(made.chunk_size, 1):
        _, state = made(piece, state, return_state=True)
        history.append(state.weights)
    for weight, value in made.by_name(torch.stack(history, 2).flatten(0, 1)).items():
        compared[f"updates_{variant}.{weight}"] = value

    for array, value in compared.items():
        np.testing.assert_allclose(value.detach(), g[array], err_msg=array, **CLOSE)
    of_variant = {a for a in g.files if a.split(".")[0].endswith(f"_{variant}") and not a.startswith("p_")}
    assert of_variant == set(compared)


# From the formulas, token by token


def by_hand(made, x, mask=None):
    """One sequence (T, dim): chunks and heads one after the other, each token's gradient by autograd."""
    c, first = made.chunk_size, made.memory_model_parameters
    normed_in, normed_out = made.store_norm(x), made.retrieve_norm(x)
    outs, losses = [], []
    for h in range(made.n_heads):
        part = slice(h * made.head_dim, (h + 1) * made.head_dim)
        q, k, v = (normed @ getattr(made, f"to_{name}").weight[part].T for name, normed in
                   [("queries", normed_out), ("keys", normed_in), ("values", normed_in)])  # fmt: skip
        if hasattr(made.q_norm, "gamma"):
            eps = np.finfo(float).eps
            q, k = (a / (a.square().mean(-1, keepdim=True) + eps).sqrt() * (n.gamma[h] + 1)
                    for a, n in [(q, made.q_norm), (k, made.k_norm)])  # fmt: skip

        def gate(linear, row, h=h):
            return torch.sigmoid(row @ linear[0].weight[h] + linear[0].bias[h])

        M = stale = [p[h] for p in first]
        S = [torch.zeros_like(w) for w in M]
        for t in range(len(x)):
            if (t + 1) % c == 0:
                steps = [torch.zeros_like(w) for w in M]
                for s in range(t + 1 - c, t + 1):
                    weights = [w.detach().requires_grad_() if not w.requires_grad else w for w in stale]
                    loss = (call(made, weights, k[s]) - v[s]).square().mean()
                    losses.append(loss)
                    if mask is None or mask[s]:
                        theta = gate(made.to_adaptive_step, normed_in[s])
                        slopes = torch.autograd.grad(loss, weights, create_graph=True)
                        steps = [a + theta * b for a, b in zip(steps, slopes, strict=True)]
                mean = normed_in[t + 1 - c : t + 1].mean(0)
                eta = gate(made.to_momentum, mean) if made.to_momentum else 0
                alpha = gate(made.to_decay_factor, mean)
                S = [eta * a - b for a, b in zip(S, steps, strict=True)]
                M = [(1 - alpha) * a + b for a, b in zip(M, S, strict=True)]
                if made.batch_size and (t + 1) % made.batch_size == 0:
                    stale = M
            outs.append(call(made, M, q[t]))
            if made.n_heads > 1:
                outs[-1] = outs[-1] * torch.sigmoid(normed_out[t] @ made.retrieve_gate[0].weight[h])
    out = torch.stack(outs).unflatten(0, (made.n_heads, -1)).transpose(0, 1).flatten(1)
    losses = torch.stack(losses).unflatten(0, (made.n_heads, -1)) if losses else torch.zeros(made.n_heads, 0)
    return made.combine_heads(out), losses


def call(made, weights, row):
    return functional_call(made._memory[0], dict(zip(made._names, weights, strict=True)), (row[None],))[0]


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 7), st.integers(1, 3), st.sampled_from([None, 1, 2]), st.integers(1, 2), st.integers(1, 3),
    st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_is_its_formula(T, chunk, batch, heads, depth, residual, momentum, norms, masked, seed):
    made = layer(3, heads, head_dim=2 if heads == 2 else None, depth=depth, residual=residual, seed=seed,
                 chunk_size=chunk, batch_size=batch and batch * chunk, momentum=momentum, pre_norm=norms,
                 qk_norm=not norms)  # fmt: skip
    x = normal(2, T, 3, seed=seed)
    mask = normal(2, T, seed=seed + 1) > 0 if masked else None
    out, losses = made(x, mask=mask, return_losses=True)
    for b in range(2):
        wanted = by_hand(made, x[b], None if mask is None else mask[b])
        np.testing.assert_allclose(out[b].detach(), wanted[0].detach(), **CLOSE)
        np.testing.assert_allclose(losses[b].detach(), wanted[1].detach(), **CLOSE)


def test_gradients_of_all_parameters_are_those_of_the_formula():
    made = layer(3, 2, head_dim=2, chunk_size=2, batch_size=4, qk_norm=True)
    x, upstream = normal(1, 7, 3), normal(1, 7, 3, seed=1)
    parameters = list(made.parameters())
    got = torch.autograd.grad(made(x), parameters, upstream)
    wanted = torch.autograd.grad(by_hand(made, x[0])[0], parameters, upstream[0])
    for (name, _), a, b in zip(made.named_parameters(), got, wanted, strict=True):
        np.testing.assert_allclose(a, b, err_msg=name, **CLOSE)
        assert abs(b).max() > 0


def test_one_matrix_is_the_memory_of_the_array_function():
    for chunk_size in (1, 5):
        made = layer(depth=1, residual=False, batch_size=chunk_size)
        x = normal(2, 12, 4)
        normed = made.store_norm(x)
        theta, eta, alpha = (gate[:, 0] for gate in made.gates(normed))
        memory = made.memory_model_parameters[0].expand(2, 4, 4)
        wanted = titans_memory(
            made.to_queries(made.retrieve_norm(x)), made.to_keys(normed), made.to_values(normed),
            theta / 4, eta, alpha, chunk_size=chunk_size, memory=memory,
        )  # fmt: skip
        torch.testing.assert_close(made(x), wanted)


# In pieces


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 14), st.lists(st.integers(1, 13), max_size=5), st.integers(1, 4),
       st.sampled_from([None, 1, 2]), st.booleans())  # fmt: skip
def test_a_text_may_be_read_in_pieces(T, cuts, chunk, batch, masked):
    made = layer(chunk_size=chunk, batch_size=batch and batch * chunk)
    x = normal(2, T, 4)
    mask = normal(2, T, seed=1) > 0 if masked else torch.ones(2, T, dtype=torch.bool)
    whole, after, losses = made(x, mask=mask, return_state=True, return_losses=True)
    state, outs, parts = None, [], []
    cuts = sorted({0, T, *(cut for cut in cuts if cut < T)})
    for start, stop in zip(cuts, cuts[1:], strict=False):
        out, state, part = made(x[:, start:stop], state, mask=mask[:, start:stop], return_state=True,
                                return_losses=True)  # fmt: skip
        outs.append(out)
        parts.append(part)
    np.testing.assert_allclose(torch.cat(outs, 1).detach(), whole.detach(), **CLOSE)
    np.testing.assert_allclose(torch.cat(parts, -1).detach(), losses.detach(), **CLOSE)
    for a, b in zip(state, after, strict=True):
        np.testing.assert_allclose(torch.as_tensor(a).detach(), torch.as_tensor(b).detach(), **CLOSE)


def test_a_token_reads_whole_chunks_only_and_none_that_come_later():
    made = layer(chunk_size=3)
    x = normal(1, 9, 4)
    out = made(x)
    first = NeuralMemory.by_name(made, made.new_state(x).weights[0, 0])
    q = made.to_queries(made.retrieve_norm(x))
    read = functional_call(made._memory[0], first, (q[0, :2],))
    torch.testing.assert_close(out[0, :2], read)  # nothing is learned before the third token
    changed = x.clone()
    changed[:, 5:] = 7.0
    torch.testing.assert_close(made(changed)[:, :5], out[:, :5])
    changed = x.clone()
    changed[:, 2] = 7.0
    differs = (made(changed) - out).abs().sum(-1)[0] > 1e-6
    assert differs.tolist() == [False] * 2 + [True] * 7


# Parameters


def test_the_names_are_those_of_titans_pytorch():
    made = NeuralMemory(6, 2, head_dim=4, qk_norm=True)
    assert set(made.state_dict()) == {
        "retrieve_norm.weight", "store_norm.weight", "q_norm.gamma", "k_norm.gamma", "combine_heads.weight",
        "retrieve_gate.0.weight", "to_queries.weight", "to_keys.weight", "to_values.weight",
        "to_adaptive_step.0.weight", "to_adaptive_step.0.bias", "to_momentum.0.weight", "to_momentum.0.bias",
        "to_decay_factor.0.weight", "to_decay_factor.0.bias", "memory_model_parameters.0",
        "memory_model_parameters.1", "memory_model_parameters.2",
    }  # fmt: skip
    theirs = {**made.state_dict(), "memory_model.norm.gamma": torch.zeros(4)}
    made.load_state_dict(theirs)
    assert "memory_model.norm.gamma" in theirs


def test_the_pattern_of_a_memory_is_left_as_it_was_and_every_head_starts_with_it():
    pattern = MemoryMLP(4, expansion=2)
    before = [w.detach().clone() for w in pattern.weights]
    made = NeuralMemory(8, 2, head_dim=4, memory=pattern)
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    made(normal(2, 5, 8).float()).square().sum().backward()
    optimizer.step()
    for old, new, learned in zip(before, pattern.weights, made.memory_model_parameters, strict=True):
        assert torch.equal(old, new) and learned.shape == (2, *old.shape) and not torch.equal(learned[0], old)
    for old, start in zip(before, NeuralMemory(8, 2, head_dim=4, memory=pattern).memory_model_parameters,
                          strict=True):  # fmt: skip
        assert torch.equal(start[0], old) and torch.equal(start[1], old)


def test_a_memory_of_ones_own():
    memory = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4))
    made = NeuralMemory(4, memory=memory, chunk_size=2, batch_size=4)
    x = normal(1, 7, 4).float()
    out, state = made(x, return_state=True)
    assert out.shape == (1, 7, 4) and set(made.by_name(state.weights)) == set(dict(memory.named_parameters()))


def test_the_loss_falls_where_a_text_says_the_same_again():
    """What is told over and over surprises less and less."""
    made = NeuralMemory(8, memory=MemoryMLP(8, depth=1), batch_size=1, pre_norm=False)
    with torch.no_grad():
        made.to_decay_factor[0].bias.fill_(-20.0)  # nothing is forgotten
        made.to_momentum[0].bias.fill_(-20.0)
        made.to_adaptive_step[0].bias.fill_(0.0)
    x = normal(1, 1, 8).float().expand(1, 12, 8)
    losses = made(x, return_losses=True)[1][0, 0]
    assert (losses[1:] < losses[:-1]).all()


def test_memories_and_norms():
    mlp = MemoryMLP(4, depth=3, expansion=2).double()
    x = normal(5, 4)
    a, b, c = (w.detach().numpy() for w in mlp.weights)
    assert [w.shape for w in (a, b, c)] == [(4, 8), (8, 8), (8, 4)]
    gelu = np.vectorize(
        lambda z: z * (1 + torch.erf(torch.tensor(z / 2**0.5, dtype=torch.float64)).item()) / 2
    )
    np.testing.assert_allclose(mlp(x).detach(), gelu(gelu(x.numpy() @ a) @ b) @ c, **CLOSE)
    normed = ResidualNorm(4, nn.Identity()).double()
    with torch.no_grad():
        normed.norm.gamma.copy_(normal(4, seed=1))
    y = x.numpy()
    centred = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(normed(x).detach(), y + centred * (1 + normal(4, seed=1).numpy()), **CLOSE)


# Errors


X = torch.zeros(2, 5, 4)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: NeuralMemory(0), ValueError, ["dim must be at least 1"]),
        (lambda: NeuralMemory(4, head_dim=2), ValueError, ["one head has all 4 features", "head_dim 2"]),
        (lambda: NeuralMemory(4, chunk_size=0), ValueError, ["chunk_size must be at least 1"]),
        (
            lambda: NeuralMemory(4, chunk_size=2, batch_size=3),
            ValueError,
            ["multiple of chunk_size 2; got 3"],
        ),
        (lambda: NeuralMemory(4, memory=torch.relu), TypeError, ["memory must be a torch module"]),
        (lambda: NeuralMemory(4, memory=nn.Linear(4, 3)), ValueError, ["memory must map", "got (2, 3)"]),
        (lambda: NeuralMemory(4, memory=nn.ReLU()), ValueError, ["memory must have parameters"]),
        (lambda: NeuralMemory(4, memory=nn.BatchNorm1d(4)), ValueError, ["no buffers"]),
        (lambda: NeuralMemory(4)(X[0]), ValueError, ["x must have shape (B, T, 4)"]),
        (lambda: NeuralMemory(4)(X, X), TypeError, ["state must be a MemoryState", "Tensor"]),
        (
            lambda: NeuralMemory(4)(X, NeuralMemory(4).new_state(X[:1])),
            ValueError,
            ["state must be of 2 sequences", "got 1"],
        ),
        (lambda: NeuralMemory(4)(X, mask=X[..., 0]), TypeError, ["mask must be a boolean tensor"]),
        (lambda: NeuralMemory(4)(X, mask=X[0] > 0), ValueError, ["mask must have shape (2, 5); got (5, 4)"]),
        (lambda: NeuralMemory(4, chunk_size=2).gates(X), ValueError, ["whole chunks of 2", "got 5 tokens"]),
        (lambda: MemoryMLP(4, depth=0), ValueError, ["depth must be at least 1"]),
        (lambda: MemoryMLP(4)(X[..., :3]), ValueError, ["x must have 4 features"]),
        (lambda: ResidualNorm(4, nn.ReLU())(X[..., :3]), ValueError, ["x must have 4 features"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
