import numpy as np
import pytest
import torch

from attnlib import AttentionOnlyTransformer, attention_weights, causal_mask, future_leaks

TOKENS = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 5, 3, 5]])


def same(got, wanted, rtol=1e-7, atol=1e-9):
    np.testing.assert_allclose(got.detach().numpy(), np.asarray(wanted), rtol=rtol, atol=atol)


def some_model(**settings):
    settings = {"d_vocab": 9, "d_model": 12, "n_heads": 3, "n_layers": 2, "n_ctx": 8, **settings}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AttentionOnlyTransformer(**settings, dtype=torch.float64)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return model


def test_agrees_with_the_golden_model_of_transformer_lens(golden):
    g = golden("circuits_transformerlens")
    model = AttentionOnlyTransformer(9, 12, 2, 2, 10, d_head=4, bias=True, dtype=torch.float64)
    state = {name[2:]: torch.tensor(g[name]) for name in g.files if name.startswith("p.")}
    assert set(state) == set(model.state_dict())
    model.load_state_dict(state)
    tokens = torch.tensor(g["in_tokens"])
    trace = model.trace(tokens)
    same(model(tokens), g["out_logits"])
    same(trace.logits, g["out_logits"])
    same(trace.weights, g["out_pattern"])
    same(trace.residual.diff(dim=0), g["out_attn_out"])
    same(trace.results[0].transpose(1, 2), g["out_head_result_l0"])


@pytest.mark.parametrize("positions", ["standard", "shortformer"])
@pytest.mark.parametrize("bias", [False, True])
def test_the_logits_are_a_sum_over_paths(positions, bias):
    model = some_model(positions=positions, bias=bias, d_head=5)
    trace = model.trace(TOKENS)
    same(model(TOKENS), trace.logits.detach())
    start = model.W_E[TOKENS] + (model.W_pos[:5] if positions == "standard" else 0)
    same(trace.residual[0], start.detach())
    added = trace.results.sum((0, -3)) + sum(b["attn"]["b_O"] for b in model.blocks if bias)
    b_U = model.unembed["b_U"] if bias else 0
    same(trace.logits, ((start + added) @ model.W_U + b_U).detach())
    for n in range(2):
        into = trace.residual[n] + (0 if positions == "standard" else model.W_pos[:5])
        heads = model.blocks[n]["attn"]
        for h in range(3):
            b = {k: heads[f"b_{k}"][h] if bias else 0 for k in "QKV"}
            q, k = into @ model.W_Q[n, h] + b["Q"], into @ model.W_K[n, h] + b["K"]
            v = trace.residual[n] @ model.W_V[n, h] + b["V"]
            weights = attention_weights(q, k, causal_mask(5, like=q))
            same(trace.weights[n, :, h], weights.detach())
            same(trace.results[n, :, h], (weights @ v @ model.W_O[n, h]).detach())


@pytest.mark.parametrize("positions", ["standard", "shortformer"])
def test_no_token_knows_its_future_and_the_order_matters(positions):
    model = some_model(positions=positions)
    leaks = future_leaks(lambda x: model(x).detach(), TOKENS[0], replacements=torch.arange(9))
    assert leaks == []
    other = TOKENS[0][[1, 0, 2, 3, 4]]
    assert (model(other)[-1] - model(TOKENS[0])[-1]).abs().max() > 1e-3
    same(model(TOKENS)[0], model(TOKENS[0]).detach())


def test_shortformer_keeps_positions_out_of_the_stream():
    model = some_model(positions="shortformer", n_layers=1)
    same_tokens = model(torch.full((6,), 4))
    same(same_tokens, same_tokens[:1].expand(6, 9).detach())  # what is read is the same wherever it stands


def test_first_values():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AttentionOnlyTransformer(500, 64, 4, 1, 500, bias=True)
    for name, parameter in model.named_parameters():
        kind = name.rpartition(".")[2]
        wanted = 0 if kind[0] == "b" else 0.5 if kind in ("W_E", "W_pos") else 1 / 8
        assert abs(parameter.std(unbiased=False).item() - wanted) <= 0.05 * wanted, name


def test_gradients_are_right():
    model = some_model(n_layers=1, d_model=4, n_heads=2, d_vocab=7)
    names = list(dict(model.named_parameters()))

    def loss(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), TOKENS[:1])

    assert torch.autograd.gradcheck(loss, tuple(p.detach().requires_grad_() for p in model.parameters()))


def test_errors_name_what_is_wrong():
    model = some_model()
    for call, error, says in (
        (lambda: some_model(d_vocab=0), ValueError, "d_vocab must be at least 1"),
        (lambda: some_model(n_layers=1.0), TypeError, "n_layers must be a whole number"),
        (lambda: some_model(n_heads=5), ValueError, "d_model 12 does not divide into 5 heads"),
        (lambda: some_model(positions="rotary"), ValueError, "positions must be 'standard' or 'shortformer'"),
        (lambda: model([1, 2]), TypeError, "tokens must be a torch tensor; got list"),
        (lambda: model(TOKENS.float()), TypeError, "tokens must be whole numbers; got dtype torch.float32"),
        (lambda: model(TOKENS[:, :0]), ValueError, r"one or more in a row; got shape \(2, 0\)"),
        (lambda: model(torch.zeros(9).long()), ValueError, "tokens must be at most 8 in a row"),
        (lambda: model.trace(TOKENS + 4), ValueError, "tokens must lie in 0 .. 8; got 9"),
    ):
        with pytest.raises(error, match=says):
            call()
