import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from attnlib import (
    LinearMemory,
    MemoryAsContext,
    MemoryAsGate,
    MemoryAsLayer,
    PersistentWindow,
    Titans,
    WindowAlone,
    attention,
)

CLOSE = {"rtol": 1e-9, "atol": 1e-11}
KINDS = [MemoryAsContext, MemoryAsGate, MemoryAsLayer, WindowAlone]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def changed(made, seed=0):
    """In float64, with parameters of our own, none of them where they start."""
    with torch.no_grad():
        for i, p in enumerate(made.double().parameters()):
            p.copy_(0.5 * normal(*p.shape, seed=100 * seed + i))
    return made


# From the formulas


def normed(x, norm):
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight


def learned(memory, rows, state):
    """The memory over rows (T, dim) of one sequence, token by token: what each reads, the state after it."""
    M, S = state
    outs, stale = [], M
    for t, row in enumerate(rows):
        stale = M if t % memory.chunk_size == 0 else stale
        q, k, v = memory.to_qkv(row).chunk(3)
        q, k = q / q.norm(), k / k.norm()
        theta, eta, alpha = torch.sigmoid(memory.to_gates(row))
        S = eta * S - theta * 2 * torch.outer(k, k @ stale - v)
        M = (1 - alpha) * M + S
        outs.append(q @ M)
    return normed(torch.stack(outs), memory.norm), (M, S)


def start(memory):
    return memory.first, torch.zeros_like(memory.first)


def attended(local, row, context):
    """One query (dim,) over the persistent tokens and those of a context."""
    seen = torch.cat([local.persistent, context])
    w, b = local.attention.in_proj_weight.chunk(3), local.attention.in_proj_bias.chunk(3)
    q, k, v = (rows @ w[i].T + b[i] for i, rows in enumerate((row[None], seen, seen)))
    heads = [attention(q[:, part], k[:, part], v[:, part]) for part in (slice(0, 3), slice(3, 6))]
    return local.attention.out_proj(torch.cat(heads, -1))[0]


def within(local, rows):
    return torch.stack(
        [attended(local, row, rows[max(0, t - local.window + 1) : t + 1]) for t, row in enumerate(rows)]
    )


def by_hand(made, x):
    """One sequence (T, dim)."""
    rows = normed(x, made.norm_in)
    if isinstance(made, WindowAlone):
        return x + within(made.local, rows)
    if isinstance(made, MemoryAsGate):
        read, _ = learned(made.memory, rows, start(made.memory))
        return x + read + normed(within(made.local, rows), made.norm_out) * read
    if isinstance(made, MemoryAsLayer):
        y = x + learned(made.memory, rows, start(made.memory))[0]
        return y + within(made.local, normed(y, made.norm_out))
    state, outs = start(made.memory), []
    for first in range(0, len(x), made.local.window):
        segment = rows[first : first + made.local.window]
        q = made.memory.to_qkv(segment)[:, : x.shape[-1]]
        h = normed(q / q.norm(dim=-1, keepdim=True) @ state[0], made.memory.norm)
        y = torch.stack([attended(made.local, row, torch.cat([h[: t + 1], segment[: t + 1]]))
                         for t, row in enumerate(segment)])  # fmt: skip
        y = normed(segment + y, made.norm_out)
        read, state = learned(made.memory, y, state)
        outs.append(read + y * read)
    return x + torch.cat(outs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("T, window, chunk_size", [(1, 3, 1), (7, 3, 1), (8, 4, 2), (9, 20, 4)])
def test_is_its_formula(kind, T, window, chunk_size):
    settings = {} if kind is WindowAlone else {"chunk_size": chunk_size}
    made = changed(kind(6, window, n_persistent=2, **settings))
    x = normal(2, T, 6)
    out = made(x)
    for b in range(2):
        np.testing.assert_allclose(out[b].detach(), by_hand(made, x[b]).detach(), **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_no_token_sees_a_later_one_and_the_memory_reaches_the_first(kind):
    made = changed(kind(6, 4))
    x = normal(1, 14, 6)
    for s in range(14):
        other = x.clone()
        other[0, s] = normal(6, seed=s + 1)
        differs = (made(other) - made(x)).abs().amax(-1)[0] > 1e-12
        reached = range(s, min(14, s + 4)) if kind is WindowAlone else range(s, 14)
        assert differs.nonzero()[:, 0].tolist() == list(reached), s


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_has_a_gradient(kind):
    made = changed(kind(6, 3))
    made(normal(2, 7, 6)).square().sum().backward()
    for name, p in made.named_parameters():
        assert p.grad is not None and p.grad.abs().max() > 0, name


# Memory


def test_a_memory_may_be_read_in_pieces_and_is_not_changed_by_reading():
    memory = changed(LinearMemory(6))
    x = normal(2, 9, 6)
    whole, after = memory(x, return_state=True)
    out, state = memory(x[:, :5], return_state=True)
    before = [s.clone() for s in state]
    read = memory.read(x, state)
    q = memory.to_qkv(x)[..., :6]
    wanted = normed(q / q.norm(dim=-1, keepdim=True) @ state[0], memory.norm)
    torch.testing.assert_close(read, wanted)
    rest, last = memory(x[:, 5:], state, return_state=True)
    torch.testing.assert_close(torch.cat([out, rest], 1), whole)
    for a, b in zip((*last, *state), (*after, *before), strict=True):
        torch.testing.assert_close(a, b)
    first = memory.read(x)
    torch.testing.assert_close(first, normed(q / q.norm(dim=-1, keepdim=True) @ memory.first, memory.norm))


def test_a_new_memory_writes_at_once():
    """Gates at their biases: half a step, the whole way to the value; little is carried on or forgotten."""
    gates = torch.sigmoid(LinearMemory(6).to_gates.bias)
    np.testing.assert_allclose(gates.detach(), 1 / (1 + np.exp([0, 2, 4])), rtol=1e-5)


# Titans


def test_tokens_at_one_position_are_added():
    model = Titans(9, 6, "gate", window=3)
    tokens = torch.tensor([[[1, 7], [2, 8], [0, 5]]])
    x = model.embedding.weight[tokens[..., 0]] + model.embedding.weight[tokens[..., 1]]
    torch.testing.assert_close(model(tokens), model.output(model.norm(model.blocks(x))))
    single = model.blocks(model.embedding.weight[tokens[..., 0]])
    torch.testing.assert_close(model(tokens[..., 0]), model.output(model.norm(single)))


@pytest.mark.parametrize("variant", ["context", "gate", "layer", "window"])
def test_a_model_has_so_many_blocks_of_its_kind(variant):
    settings = {} if variant == "window" else {"chunk_size": 2}
    model = Titans(9, 6, variant, window=3, n_layers=2, n_heads=3, n_persistent=1, **settings)
    kinds = {"context": MemoryAsContext, "gate": MemoryAsGate, "layer": MemoryAsLayer, "window": WindowAlone}
    assert [type(b) for b in model.blocks] == [kinds[variant]] * 2
    for block in model.blocks:
        assert block.local.window == 3 and block.local.persistent.shape == (1, 6)
        assert block.local.attention.num_heads == 3
        assert variant == "window" or block.memory.chunk_size == 2


def told_and_asked(n, gen):
    """Six pairs of a name (0 to 7) and a thing (8 to 11), then two names alone (12 is nothing)."""
    names = torch.rand(n, 8, generator=gen).argsort(-1)[:, :6]
    things = torch.randint(8, 12, (n, 6), generator=gen)
    asked = torch.rand(n, 6, generator=gen).argsort(-1)[:, :2]
    tokens = torch.stack([torch.cat([names, names.gather(1, asked)], 1),
                          torch.cat([things, torch.full((n, 2), 12)], 1)], -1)  # fmt: skip
    return tokens, things.gather(1, asked)


@pytest.mark.parametrize("variant, steps", [("window", 150), ("context", 120), ("gate", 120), ("layer", 150)])
def test_a_memory_recalls_what_no_window_sees(variant, steps):
    torch.manual_seed(0)
    model, gen = Titans(13, 16, variant, window=2), torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    for _ in range(steps):
        tokens, answers = told_and_asked(32, gen)
        optimizer.zero_grad()
        cross_entropy(model(tokens)[:, -2:].flatten(0, 1), answers.flatten()).backward()
        optimizer.step()
    tokens, answers = told_and_asked(400, gen)
    right = (model(tokens)[:, -2:].argmax(-1) == answers).float().mean()
    assert right < 0.4 if variant == "window" else right > 0.8  # one in four by chance


# Errors


X = torch.zeros(1, 5, 6)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: LinearMemory(0), ValueError, ["dim must be at least 1"]),
        (lambda: LinearMemory(6, chunk_size=0), ValueError, ["chunk_size must be at least 1"]),
        (lambda: LinearMemory(6)(X[0]), ValueError, ["x must have shape (B, T, 6)"]),
        (lambda: LinearMemory(6)(X, (X, X)), ValueError, ["memory must have shape"]),
        (lambda: PersistentWindow(6, 0), ValueError, ["window must be at least 1"]),
        (lambda: PersistentWindow(6, 2, n_persistent=0), ValueError, ["n_persistent must be at least 1"]),
        (lambda: PersistentWindow(6, 2, n_heads=4), ValueError, ["6 does not divide into 4 heads"]),
        (lambda: PersistentWindow(6, 2)(X[..., :5]), ValueError, ["x must have shape (B, T, 6)"]),
        (lambda: MemoryAsContext(6, 2)(X[0]), ValueError, ["x must have shape (B, T, 6)"]),
        (lambda: MemoryAsGate(6, 2)(X[..., :5]), ValueError, ["x must have shape (B, T, 6)"]),
        (lambda: Titans(9, 6, ["gate"], window=2), ValueError, ["variant must be one of", "['gate']"]),
        (lambda: LinearMemory(6)(X, 3), TypeError, ["state must be the pair", "int"]),
        (lambda: LinearMemory(6).read(X[..., :5]), ValueError, ["x must have shape (B, T, 6)"]),
        (lambda: Titans(9, 6, "MAC", window=2), ValueError, ["variant", "context, gate, layer", "'MAC'"]),
        (lambda: Titans(9, 6, "gate", window=2)(X), TypeError, ["tokens must be a torch tensor of int32"]),
        (lambda: Titans(9, 6, "gate", window=2)(X[0, 0].long()), ValueError, ["tokens", "got (6,)"]),
        (lambda: Titans(9, 6, "gate", window=2)(torch.tensor([[3, 9]])), ValueError, ["0 .. 8; got 9"]),
        (lambda: Titans(9, 6, "gate", window=2)(torch.tensor([[3, -1]])), ValueError, ["0 .. 8; got -1"]),
    ],
)  # fmt: skip
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
