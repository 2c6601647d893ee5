import re

import numpy as np
import pytest
import torch

from attnlib import (
    GroupedQueryAttention,
    LightningAttention,
    MiniMax,
    attention,
    lightning_rates,
    lightning_weights,
    minimax_from_hugging_face,
    minimax_layer_kinds,
    rope,
)
from attnlib.layers.grouped_query import rotary_turns

GOLDEN = {"rtol": 1e-4, "atol": 1e-5}


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def with_drawn_weights(module, std=0.4):
    for i, parameter in enumerate(module.parameters()):
        middle = 0 if parameter.ndim > 1 else 1
        parameter.data.copy_(middle + std * drawn(*parameter.shape, seed=i))
    return module


def lightning(dtype=torch.float64, **settings):
    settings = {"dim": 6, "n_heads": 3, "head_dim": 4, "layer": 1, "n_layers": 4, **settings}
    return with_drawn_weights(LightningAttention(**settings, dtype=dtype))


def model(**settings):
    kinds = ["lightning", "lightning", "softmax", "lightning"]
    settings = {"vocab_size": 30, "dim": 16, "n_layers": 4, "n_heads": 4, "n_kv_heads": 2, "n_experts": 3,
                "kinds": kinds, "hidden": 12, **settings}  # fmt: skip
    return with_drawn_weights(MiniMax(**settings, dtype=torch.float64))


def some_tokens(*shape, seed=1):
    return torch.randint(30, shape, generator=torch.Generator().manual_seed(seed))


# One lightning layer


@pytest.fixture(params=[0, 3, 7])
def official(request, golden):
    """The golden file, a layer with its weights, and the end of the names of its outputs."""
    g = golden("minimax_lightning_official")
    made = LightningAttention(12, n_heads=4, layer=request.param, n_layers=8, block_size=4)
    made.load_state_dict({name[2:]: torch.from_numpy(g[name]) for name in g.files if name.startswith("p.")})
    return g, made, f"l{request.param}"


@torch.no_grad()
def test_agrees_with_the_golden_file(official):
    g, made, end = official
    x, cache = torch.from_numpy(g["in_x"]), made.new_cache(2, 11)
    np.testing.assert_allclose(made.rates(), g[f"rate_{end}"], rtol=1e-4)
    np.testing.assert_allclose(made(x, cache=cache), g[f"out_{end}"], **GOLDEN)
    np.testing.assert_allclose(cache.state, g[f"kv_{end}"], **GOLDEN)
    made.block_size = 256
    np.testing.assert_allclose(made(x), g[f"out_{end}"], **GOLDEN)
    mask = torch.from_numpy(g["in_mask"]).bool()
    np.testing.assert_allclose(made(x, mask), g[f"out_masked_{end}"], **GOLDEN)


@torch.no_grad()
def test_decoding_agrees_with_the_golden_file(official):
    g, made, end = official
    x, cache = torch.from_numpy(g["in_x"]), made.new_cache(2, 11)
    made(x[:, :7], cache=cache)
    steps = [made(x[:, t : t + 1], cache=cache) for t in range(7, 11)]
    np.testing.assert_allclose(torch.cat(steps, 1), g[f"out_decode7_{end}"], **GOLDEN)
    np.testing.assert_allclose(cache.state, g[f"kv_{end}"], **GOLDEN)
    assert cache.length == 11


def by_hand(made, x, mask=None):
    """The layer from its formula, by the explicit weights."""
    rows = made.qkv_proj.weight.view(made.n_heads, 3, made.head_dim, made.dim)
    heads = torch.einsum("btd,hjed->jbhte", x, rows)
    q, k, v = heads * torch.sigmoid(heads)
    rates = lightning_rates(made.n_heads, made.layer, made.n_layers, rule=made.rule, like=x)
    weights = lightning_weights(q, k, rates, None if mask is None else mask[:, None, None])
    out = torch.einsum("bhts,bhse->bthe", weights, v).flatten(2)
    out = out / (out.square().mean(-1, keepdim=True) + 1e-6).sqrt() * made.norm.weight
    return (out * torch.sigmoid(x @ made.output_gate.weight.T)) @ made.out_proj.weight.T


@pytest.mark.parametrize("rule", ["minimax", "hugging_face"])
@pytest.mark.parametrize("size", [1, 4, 256])
@torch.no_grad()
def test_a_lightning_layer_is_its_formula(rule, size):
    made, x = lightning(rule=rule, block_size=size), drawn(2, 9, 6, seed=50)
    torch.testing.assert_close(made(x), by_hand(made, x))
    mask = torch.tensor([[False] * 4 + [True] * 5, [True, False, True] * 3])
    torch.testing.assert_close(made(x, mask), by_hand(made, x, mask))


@torch.no_grad()
def test_padding_on_the_left_changes_nothing_and_a_row_of_padding_gives_zeros():
    made, x = lightning(), drawn(2, 9, 6, seed=50)
    mask = torch.arange(9) >= torch.tensor([[4], [9]])
    out = made(x, mask)
    torch.testing.assert_close(out[0, 4:], made(x[:1, 4:])[0])
    assert (out[1] == 0).all()


@torch.no_grad()
def test_pieces_of_any_lengths_give_what_the_whole_gives():
    made, x = lightning(block_size=3), drawn(2, 12, 6, seed=50)
    mask = torch.arange(12) >= torch.tensor([[0], [5]])
    whole, cache = made(x, mask), made.new_cache(2, 12)
    parts = [made(x[:, a:b], mask[:, a:b], cache=cache) for a, b in ((0, 1), (1, 6), (6, 8), (8, 12))]
    torch.testing.assert_close(torch.cat(parts, 1), whole)
    with pytest.raises(ValueError, match="room for 12 tokens and holds 12; 1 more"):
        made(x[:, :1], cache=cache)
    assert cache.length == 12


def test_gradients_of_a_lightning_layer():
    made, x = lightning(block_size=2), drawn(2, 5, 6, seed=50).requires_grad_()
    mask = torch.tensor([[False] * 5, [False, True, False, True, True]])
    assert torch.autograd.gradcheck(lambda x: made(x, mask), x)
    made(x, mask).sum().backward()
    assert all(p.grad.isfinite().all() for p in made.parameters())


@torch.no_grad()
def test_half_precision_keeps_the_rates():
    """In float16 the last layer's rates would round to multiples of 6e-8."""
    made, x = lightning(layer=3), drawn(1, 9, 6, seed=50)
    wanted = made(x)
    made.half()
    torch.testing.assert_close(made.rates().double(), lightning_rates(3, 3, 4, like=x))
    assert made(x.half()).dtype == torch.float16
    torch.testing.assert_close(made(x.half()).double(), wanted, rtol=0.02, atol=0.02)


# The hybrid


def test_the_last_of_each_period_is_softmax():
    kinds = minimax_layer_kinds(80)
    assert [i for i, kind in enumerate(kinds) if kind == "softmax"] == list(range(7, 80, 8))
    assert minimax_layer_kinds(3, period=1) == ["softmax"] * 3
    assert minimax_layer_kinds(5) == ["lightning"] * 5
    made = MiniMax(vocab_size=5, dim=8, n_layers=8, n_heads=2)
    assert made.kinds == minimax_layer_kinds(8)
    assert [type(block.attention) for block in made.layers] == (
        [LightningAttention] * 7 + [GroupedQueryAttention]
    )
    assert [block.attention.layer for block in made.layers[:7]] == list(range(7))
    assert {block.attention.n_layers for block in made.layers[:7]} == {8}


def test_the_papers_residual_weight():
    made = MiniMax(vocab_size=5, dim=4, n_layers=80, n_heads=2)
    assert made.layers[0].attention_residual == made.layers[7].experts_residual
    assert made.layers[7].attention_residual[0] == pytest.approx(3.5565588)
    assert made.layers[7].attention_residual[1] == 1


def normed(x, weight):
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight


def softmax_by_hand(layer, x, rotary_dim, base):
    q, k, v = (
        (x @ w.weight.T).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
        for w in (layer.wq, layer.wk, layer.wv)
    )
    positions = torch.arange(x.shape[1])
    q, k = (torch.cat([rope(y[..., :rotary_dim], positions, base), y[..., rotary_dim:]], -1) for y in (q, k))
    k, v = (y.repeat_interleave(layer.n_heads // layer.n_kv_heads, 1) for y in (k, v))
    return attention(q, k, v, causal=True).transpose(1, 2).flatten(2) @ layer.wo.weight.T


@pytest.mark.parametrize("rotary_dim", [None, 2, 6, 8])
@torch.no_grad()
def test_the_model_is_its_formula(rotary_dim):
    residuals = {"lightning": (1.5, 0.5), "softmax": (2.0, 0.25), "experts": (3.0, 0.75)}
    made = model(residuals=residuals, rotary_dim=rotary_dim, head_dim=8, rope_base=50.0)
    tokens = some_tokens(2, 9)
    h = made.tok_embeddings.weight[tokens]
    for kind, block in zip(made.kinds, made.layers, strict=True):
        x = normed(h, block.attention_norm.weight)
        if kind == "softmax":
            out = softmax_by_hand(block.attention, x, rotary_dim or 4, 50.0)
        else:
            out = by_hand(block.attention, x)
        alpha, beta = residuals[kind]
        x = normed(alpha * x + beta * out, block.ffn_norm.weight)
        h = 3.0 * x + 0.75 * block.feed_forward(x)
    torch.testing.assert_close(made(tokens), normed(h, made.norm.weight) @ made.output.weight.T)


@torch.no_grad()
def test_tied_weights():
    made = model(tied=True)
    assert made.output is None
    assert made(some_tokens(1, 4)).shape == (1, 4, 30)


@torch.no_grad()
def test_a_cache_and_padding_give_what_each_text_gives_alone():
    made, tokens = model(), some_tokens(3, 14)
    real = torch.arange(14) >= torch.tensor([[0], [5], [9]])
    whole = made(tokens, real)
    for row, start in enumerate((0, 5, 9)):
        torch.testing.assert_close(whole[row, start:], made(tokens[row : row + 1, start:])[0])
    cache = made.new_cache(3, 14)
    parts = [made(tokens[:, a:b], real[:, a:b], cache=cache) for a, b in ((0, 6), (6, 7), (7, 8), (8, 14))]
    torch.testing.assert_close(torch.cat(parts, 1)[real], whole[real])


@torch.no_grad()
def test_later_tokens_change_nothing_before_them():
    made, tokens = model(), some_tokens(1, 12)
    changed = tokens.clone()
    changed[0, 7] = (tokens[0, 7] + 1) % 30
    moved = (made(tokens) - made(changed)).abs().amax(-1)[0]
    assert moved[:7].max() < 1e-12  # experts that got other tokens round otherwise
    assert moved[7:].min() > 1e-6


def test_generation_goes_on_from_prompts_of_any_lengths():
    made, prompts = model(), [[3, 4, 5, 6, 7], [9], [1, 2, 3]]
    new = made.generate(prompts, 6)
    for prompt, written in zip(prompts, new, strict=True):
        tokens = list(prompt)
        for token in written:
            assert made(torch.tensor([tokens]))[0, -1].argmax() == token
            tokens.append(token)


@torch.no_grad()
def test_weights_are_those_of_the_softmax_layers():
    made, tokens = model(), some_tokens(2, 9)
    logits, weights = made(tokens, return_weights=True)
    torch.testing.assert_close(logits, made(tokens))
    assert [tuple(w.shape) for w in weights] == [(2, 4, 9, 9)]
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(2, 4, 9, dtype=torch.float64))


def test_every_weight_has_a_gradient():
    made = model(n_experts=2)
    mask = torch.arange(9) >= torch.tensor([[0], [4]])
    made(some_tokens(2, 9), mask)[mask].square().sum().backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


# Checkpoints of Hugging Face


CONFIG = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 6,
          "num_key_value_heads": 1, "num_local_experts": 3, "head_dim": 6}  # fmt: skip


def theirs(config=CONFIG, vocab_size=7, stacked=False):
    """Weights under Hugging Face's names: softmax first, then lightning."""
    d, width = config["hidden_size"], config["num_attention_heads"] * config["head_dim"]
    kv, hidden, n = config["num_key_value_heads"] * config["head_dim"], config["intermediate_size"], 3
    shapes = {"model.embed_tokens": (vocab_size, d), "model.norm": (d,), "lm_head": (vocab_size, d)}
    inside = [
        {"q_proj": (width, d), "k_proj": (kv, d), "v_proj": (kv, d), "o_proj": (d, width)},
        {"qkv_proj": (3 * width, d), "output_gate": (width, d), "out_proj": (d, width), "norm": (width,)},
    ]
    for layer in range(2):
        block = f"model.layers.{layer}"
        shapes |= {f"{block}.self_attn.{name}": shape for name, shape in inside[layer].items()}
        shapes |= {f"{block}.{name}": (d,) for name in ("input_layernorm", "post_attention_layernorm")}
        shapes[f"{block}.{'mlp' if stacked else 'block_sparse_moe'}.gate"] = (n, d)
        if stacked:
            shapes[f"{block}.mlp.experts.gate_up_proj"] = (n, 2 * hidden, d)
            shapes[f"{block}.mlp.experts.down_proj"] = (n, d, hidden)
        else:
            for e in range(n):
                for name, shape in (("w1", (hidden, d)), ("w2", (d, hidden)), ("w3", (hidden, d))):
                    shapes[f"{block}.block_sparse_moe.experts.{e}.{name}"] = shape
    return {
        name if "experts." in name and stacked else f"{name}.weight": drawn(*shape, seed=i)
        for i, (name, shape) in enumerate(shapes.items())
    }


@torch.no_grad()
def test_its_choices_are_hugging_faces():
    made = minimax_from_hugging_face(theirs(), CONFIG)
    assert made.kinds == ["softmax", "lightning"]
    assert (made.rope_base, made.rotary_dim, made.layers[0].attention_residual) == (1e6, 6, (1, 1))
    assert made.norm.eps == made.layers[1].ffn_norm.eps == 1e-5
    torch.testing.assert_close(
        made.layers[1].attention.rates(),
        lightning_rates(2, 1, 2, rule="hugging_face", like=torch.zeros(1, dtype=torch.float64)),
    )
    settings = {"layer_types": ["full_attention", "linear_attention"], "rope_theta": 99.0, "block_size": 8,
                "linear_attn_alpha_factor": 2, "linear_attn_beta_factor": 3, "full_attn_alpha_factor": 4,
                "full_attn_beta_factor": 5, "mlp_alpha_factor": 6, "mlp_beta_factor": 7,
                "num_experts_per_tok": 1, "rms_norm_eps": 0.5}  # fmt: skip
    made = minimax_from_hugging_face(theirs(), CONFIG | settings)
    softmax, linear = made.layers
    assert (softmax.attention_residual, softmax.experts_residual) == ((4, 5), (6, 7))
    assert (linear.attention_residual, linear.attention.block_size) == ((2, 3), 8)
    assert (made.rope_base, linear.feed_forward.top_k, linear.ffn_norm.eps) == (99.0, 1, 0.5)
    assert linear.attention.norm.eps == 1e-6
    made = minimax_from_hugging_face(theirs(), CONFIG | {"tie_word_embeddings": True})
    assert made.output is None


@torch.no_grad()
def test_its_pairs_are_halves_of_the_whole_head():
    state, x, positions = theirs(), drawn(2, 9, 8, seed=50), torch.arange(9)
    q, k, v, o = (state[f"model.layers.0.self_attn.{name}_proj.weight"] for name in "qkvo")
    q, k, v = ((x @ w.T).unflatten(-1, (-1, 6)).transpose(1, 2) for w in (q, k, v))
    q, k = (rope(y, positions, 5.0, layout="halves") for y in (q, k))
    wanted = attention(q, k.expand_as(q), v.expand_as(q), causal=True).transpose(1, 2).flatten(2) @ o.T
    made = minimax_from_hugging_face(state, CONFIG | {"rope_theta": 5.0})
    turns = rotary_turns(positions, made._frequencies(x))
    torch.testing.assert_close(made.layers[0].attention(x, turns), wanted)


@torch.no_grad()
def test_experts_one_by_one_or_stacked_and_arrays_are_copied():
    stacked, single = theirs(stacked=True), theirs()
    for name, w in stacked.items():
        block = name.split(".mlp.")[0]
        if name.endswith("gate_up_proj"):
            for e in range(3):
                for part, rows in (("w1", w[e, :6]), ("w3", w[e, 6:])):
                    single[f"{block}.block_sparse_moe.experts.{e}.{part}.weight"] = rows
        elif name.endswith("down_proj"):
            for e in range(3):
                single[f"{block}.block_sparse_moe.experts.{e}.w2.weight"] = w[e]
        else:
            single[name.replace(".mlp.", ".block_sparse_moe.")] = w
    single["model.layers.1.self_attn.slope_rate"] = torch.zeros(2, 1, 1)
    tokens = torch.tensor([[1, 2, 3, 6]])
    one = minimax_from_hugging_face({name: w.numpy() for name, w in single.items()}, CONFIG)
    other = minimax_from_hugging_face(stacked, CONFIG)
    torch.testing.assert_close(one(tokens), other(tokens))
    before = one(tokens)
    single["model.norm.weight"].zero_()
    torch.testing.assert_close(one(tokens), before)


@pytest.mark.parametrize(
    "change, config, error, words",
    [
        ({}, {"hidden_act": "gelu"}, ValueError, "hidden_act must be 'silu'; got 'gelu'"),
        ({}, {"model_type": "llama"}, ValueError, "model_type must be 'minimax'"),
        ({}, {"sliding_window": 5}, ValueError, "sliding_window must be None; got 5"),
        ({}, {"layer_types": ["mamba", "full_attention"]}, ValueError, "layer_types must be .*mamba"),
        ({}, {"rope_parameters": {"rope_type": "yarn"}}, ValueError, "rope_type"),
        ({"lm_head.weight": None}, {}, ValueError, "the state dict has no lm_head.weight"),
        ({"model.embed_tokens.weight": None}, {}, ValueError, "has no model.embed_tokens.weight"),
        ({"more.weight": torch.ones(1)}, {}, ValueError, "no place for more.weight"),
        ({"model.norm.weight": torch.ones(3)}, {}, ValueError, re.escape("shape (8,) by the configuration")),
        ({}, {"num_hidden_layers": None}, ValueError, "the configuration has no num_hidden_layers"),
    ],
)
def test_what_a_checkpoint_must_have(change, config, error, words):
    state = {name: w for name, w in (theirs() | change).items() if w is not None}
    config = {name: value for name, value in (CONFIG | config).items() if value is not None or "sl" in name}
    with pytest.raises(error, match=words):
        minimax_from_hugging_face(state, config)


X = torch.zeros(2, 5, 6, dtype=torch.float64)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: LightningAttention(6, 4, 0, 4), ValueError, "dim 6 does not divide into 4 heads"),
        (
            lambda: LightningAttention(6, 3, 0, 4)(torch.ones(1, 2, 6), cache=5),
            TypeError,
            "cache must be one that new_cache made; got int",
        ),
        (lambda: LightningAttention(6, 3, 4, 4), ValueError, "layer must lie in 0 .. 3; got 4"),
        (lambda: LightningAttention(6, 3, 0, 4, rule="fla"), ValueError, "rule must be 'minimax' or"),
        (lambda: LightningAttention(6, 3, 0, 4, block_size=0), ValueError, "block_size must be at least 1"),
        (lambda: lightning()(X[0]), ValueError, re.escape("x must have shape (B, T, 6)")),
        (lambda: lightning()(X, torch.ones(2, 5)), TypeError, "mask must be a boolean tensor.*float32"),
        (lambda: lightning()(X, np.ones((2, 5), bool)), TypeError, "mask must be a boolean tensor.*ndarray"),
        (lambda: lightning()(X, torch.ones(5, 2) > 0), ValueError, re.escape("(2, 5), as x has; got (5, 2)")),
        (lambda: lightning()(X, cache=lightning().new_cache(3, 9)), ValueError, "for 3 sequences; got 2"),
        (lambda: model(kinds=["lightning"]), ValueError, "kinds must be 4 times 'lightning' or 'softmax'"),
        (lambda: model(kinds=["linear"] * 4), ValueError, "kinds must be 4 times"),
        (lambda: model(rotary_dim=6), ValueError, "rotary_dim must be at most head_dim, 4; got 6"),
        (lambda: model(residuals={"mlp": (1, 1)}), ValueError, "residuals must have pairs"),
        (lambda: model(residuals={"softmax": (1,)}), ValueError, "residuals must have pairs"),
        (lambda: minimax_layer_kinds(0), ValueError, "n_layers must be at least 1"),
        (lambda: minimax_layer_kinds(8, 0), ValueError, "period must be at least 1"),
    ],
)  # fmt: skip
def test_errors_are_sentences(call, error, words):
    with pytest.raises(error, match=words):
        call()
