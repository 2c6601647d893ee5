import json

import numpy as np
import pytest
import torch

from attnlib import (
    Llama,
    llama_from_hugging_face,
    llama_from_meta,
    minimax_from_hugging_face,
    rope_permutation,
)

CONFIG = {
    "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 112, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    "vocab_size": 17, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
    "rope_scaling": None, "tie_word_embeddings": False,
}  # fmt: skip
PARAMS = {"dim": 32, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "multiple_of": 8,
          "ffn_dim_multiplier": 1.3, "norm_eps": 1e-5, "rope_theta": 500000.0}  # fmt: skip
PARTS = {
    "attention.wq": "self_attn.q_proj", "attention.wk": "self_attn.k_proj",
    "attention.wv": "self_attn.v_proj", "attention.wo": "self_attn.o_proj",
    "feed_forward.w1": "mlp.gate_proj", "feed_forward.w2": "mlp.down_proj",
    "feed_forward.w3": "mlp.up_proj", "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}  # fmt: skip


def as_hugging_face(state, *, permuted=True):
    """Meta's weights under Hugging Face's names, in its order of rows."""
    out = {"model.embed_tokens.weight": state["tok_embeddings.weight"],
           "model.norm.weight": state["norm.weight"], "lm_head.weight": state["output.weight"]}  # fmt: skip
    for i in range(2):
        for meta, theirs in PARTS.items():
            w = state[f"layers.{i}.{meta}.weight"]
            if permuted and meta.endswith(("wq", "wk")):
                w = w[rope_permutation(8, w.shape[0] // 8)]
            out[f"model.layers.{i}.{theirs}.weight"] = w
    return out


def meta_state():
    torch.manual_seed(0)
    return Llama(17, 32, 2, 4, 2, hidden=112).state_dict()


TOKENS = torch.tensor([[1, 16, 3, 3, 0, 9]])


@pytest.fixture(autouse=True)
def a_random_state_of_its_own():
    with torch.random.fork_rng():
        yield


def test_hugging_faces_weights_give_its_golden_scores(golden):
    meta, hf = golden("llama3_transformer"), golden("llama_hf_rotate_half")
    state = as_hugging_face({n.removeprefix("p."): meta[n] for n in meta.files if n.startswith("p.")})
    for name in ("q", "k"):
        theirs = state[f"model.layers.0.self_attn.{name}_proj.weight"]
        np.testing.assert_array_equal(theirs, hf[f"out_w{name}0_permuted"])
    tokens = torch.from_numpy(hf["in_tokens"])
    with torch.no_grad():
        logits = llama_from_hugging_face(state, CONFIG)(tokens)
        np.testing.assert_allclose(logits, hf["out_logits"], rtol=2e-4, atol=2e-5)
        wrong = llama_from_hugging_face(as_hugging_face(
            {n.removeprefix("p."): meta[n] for n in meta.files if n.startswith("p.")}, permuted=False
        ), CONFIG)(tokens)  # fmt: skip
    assert abs(wrong.numpy() - hf["out_logits"]).max() > 0.01


@torch.no_grad()
def test_both_kinds_of_names_give_the_same_model():
    state = meta_state()
    meta = llama_from_meta(state | {"rope.freqs": torch.ones(4)}, PARAMS)
    inv_freq = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    hf = llama_from_hugging_face(as_hugging_face(state) | inv_freq, CONFIG)
    assert torch.equal(meta(TOKENS), hf(TOKENS))
    for name, w in state.items():
        assert torch.equal(meta.state_dict()[name], w) and torch.equal(hf.state_dict()[name], w)
        assert meta.state_dict()[name].data_ptr() != w.data_ptr()  # copied
    assert all(p.requires_grad for p in hf.parameters())


@torch.no_grad()
def test_tied_output():
    state = meta_state()
    state["output.weight"] = state["tok_embeddings.weight"]
    wanted = llama_from_meta(state, PARAMS)(TOKENS)
    hf = as_hugging_face(state)
    del state["output.weight"]
    assert torch.equal(llama_from_meta(state, PARAMS)(TOKENS), wanted)
    tied = CONFIG | {"tie_word_embeddings": True}
    assert torch.equal(llama_from_hugging_face(hf, tied)(TOKENS), wanted)
    del hf["lm_head.weight"]
    assert torch.equal(llama_from_hugging_face(hf, tied)(TOKENS), wanted)


@torch.no_grad()
def test_the_rotation_of_llama_31():
    state = meta_state()
    for name, w in state.items():
        state[name] = w * 30 if "wq" in name or "wk" in name else w
    tokens = torch.arange(64)[None] % 17
    plain = llama_from_meta(state, PARAMS)(tokens)
    wanted = llama_from_meta(state, PARAMS | {"use_scaled_rope": True})(tokens)
    assert (wanted - plain).abs().max() > 1e-6
    settings = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192}  # fmt: skip
    for rope in (
        {"rope_scaling": settings | {"rope_type": "llama3"}},
        {"rope_parameters": settings | {"rope_type": "llama3", "rope_theta": 500000.0}, "rope_theta": None},
    ):
        assert torch.equal(llama_from_hugging_face(as_hugging_face(state), CONFIG | rope)(tokens), wanted)
    other = {"rope_scaling": settings | {"rope_type": "llama3", "factor": 32.0}}
    assert not torch.equal(llama_from_hugging_face(as_hugging_face(state), CONFIG | other)(tokens), wanted)


def test_settings_are_read():
    model = llama_from_hugging_face(as_hugging_face(meta_state()), CONFIG | {"rms_norm_eps": 1e-3})
    assert model.norm.eps == model.layers[0].ffn_norm.eps == 1e-3
    few = {k: v for k, v in CONFIG.items() if k not in ("rms_norm_eps", "rope_theta")}
    model = llama_from_hugging_face(as_hugging_face(meta_state()), json.loads(json.dumps(few)))
    assert model.norm.eps == 1e-6 and model.rope_base == 10000.0  # transformers' own defaults
    few = {k: v for k, v in PARAMS.items() if k not in ("norm_eps", "rope_theta")}
    model = llama_from_meta(meta_state(), few)
    assert model.norm.eps == 1e-5 and model.rope_base == 500000.0
    half = {name: w.bfloat16() for name, w in meta_state().items()}
    assert llama_from_meta(half, PARAMS)(TOKENS).dtype == torch.bfloat16


@pytest.mark.parametrize("load, settings", [
    (llama_from_meta, "params"), (llama_from_hugging_face, "config"), (minimax_from_hugging_face, "config"),
])  # fmt: skip
def test_what_is_no_dict_is_named(load, settings):
    with pytest.raises(TypeError, match=f"^{settings} must be a dict; got NoneType"):
        load({}, None)
    with pytest.raises(TypeError, match="^state_dict must be a dict; got list"):
        load([], {})


def test_errors_name_what_is_wrong():
    state = meta_state()
    hf = as_hugging_face(state)

    def without(d, name):
        return {key: value for key, value in d.items() if key != name}

    for call, says in (
        (lambda: llama_from_meta(state, without(PARAMS, "n_heads")), "the configuration has no n_heads"),
        (lambda: llama_from_meta(without(state, "norm.weight"), PARAMS), "the state dict has no norm.weight"),
        (lambda: llama_from_meta(hf, PARAMS), "the state dict has no tok_embeddings.weight"),
        (lambda: llama_from_meta(state | {"extra": torch.ones(1)}, PARAMS), "has no place for extra"),
        (lambda: llama_from_meta(state, PARAMS | {"n_layers": 1}), "has no place for layers.1.attention.wk"),
        (
            lambda: llama_from_meta(state, PARAMS | {"multiple_of": 256}),
            r"layers.0.feed_forward.w1.weight must have shape \(256, 32\) by .*; got \(112, 32\)",
        ),
        (
            lambda: llama_from_hugging_face(without(hf, "model.layers.1.mlp.up_proj.weight"), CONFIG),
            "the state dict has no model.layers.1.mlp.up_proj.weight",
        ),
        (lambda: llama_from_hugging_face(hf, without(CONFIG, "hidden_size")), "has no hidden_size"),
        (lambda: llama_from_hugging_face(hf, CONFIG | {"num_key_value_heads": 4}), "k_proj"),
        (lambda: llama_from_hugging_face(hf, CONFIG | {"attention_bias": True}), "attention_bias must be"),
        (lambda: llama_from_hugging_face(hf, CONFIG | {"hidden_act": "gelu"}), "hidden_act must be 'silu'"),
        (lambda: llama_from_hugging_face(hf, CONFIG | {"model_type": "gemma"}), "model_type must be"),
        (
            lambda: llama_from_hugging_face(hf, CONFIG | {"rope_scaling": {"type": "linear", "factor": 2}}),
            "rope_type 'llama3'; got 'linear'",
        ),
    ):
        with pytest.raises(ValueError, match=says):
            call()
