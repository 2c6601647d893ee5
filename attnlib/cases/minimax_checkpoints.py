"""MiniMax models from the checkpoints of Hugging Face."""

import re

from attnlib.cases.minimax import MiniMax
from attnlib.layers.llama_checkpoints import _check_dicts, _loaded, _rope_scaling, _setting


def minimax_from_hugging_face(state_dict, config):
    """A `MiniMax` with the weights of a ``MiniMaxForCausalLM``, and with its choices.

    They differ from the paper's: softmax layers rotate the whole head, the slopes follow the rule
    ``"hugging_face"`` of `lightning_rates`, and where ``layer_types`` is left out every other layer has
    softmax attention, beginning with the first.

    Parameters
    ----------
    state_dict : dict
        Tensors or NumPy arrays under Hugging Face's names; they are copied. Experts may be one by one, as in
        versions 4 and in files, or stacked, as in version 5. What is made from the configuration, such as
        ``slope_rate``, is passed over.
    config : dict
        Hugging Face's ``config.json``.

    Returns
    -------
    MiniMax
        In the type of its table of embeddings.

    Raises
    ------
    TypeError, ValueError
        If a setting or a weight is missing, a weight is unknown or has another shape, or the configuration
        asks for what a `MiniMax` does not have.

    References
    ----------
    ``models/minimax`` of Hugging Face transformers, whose defaults are taken where ``config`` is silent. In
    5.24, where the first layer is linear and nobody passes ``position_ids``, its cache counts no tokens, and
    what it decodes step by step is not what it gives for the whole text.

    Examples
    --------
    >>> import torch
    >>> config = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 8, "intermediate_size": 8}
    >>> minimax_from_hugging_face({"model.embed_tokens.weight": torch.zeros(5, 32)}, config)
    Traceback (most recent call last):
    ...
    ValueError: the state dict has no model.layers.0.self_attn.q_proj.weight
    """
    _check_dicts(state_dict=state_dict, config=config)
    state = {name: w for name, w in _unstacked(state_dict) if not _MADE.search(name)}
    settings = _settings(config)
    if settings["tied"]:
        state.pop("lm_head.weight", None)
    return _loaded(MiniMax, state, settings, _hugging_faces_name, "model.embed_tokens.weight", halves=True)


_MADE = re.compile(r"\.(slope_rate|query_decay|key_decay|diagonal_decay|inv_freq)$")

_KINDS = {"linear_attention": "lightning", "full_attention": "softmax"}

_OUTSIDE = {"tok_embeddings": "model.embed_tokens", "norm": "model.norm", "output": "lm_head"}

_INSIDE = {
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "feed_forward": "block_sparse_moe",
    "attention": "self_attn",
    "wq": "q_proj",
    "wk": "k_proj",
    "wv": "v_proj",
    "wo": "o_proj",
}


def _hugging_faces_name(name):
    block, part = re.fullmatch(r"(layers\.\d+\.)?(.+)\.weight", name).groups()
    if block is None:
        return f"{_OUTSIDE[part]}.weight"
    return f"model.{block}{'.'.join(_INSIDE.get(word, word) for word in part.split('.'))}.weight"


def _unstacked(state_dict):
    """The weights by the names that they have in files, one expert at a time."""
    for name, w in state_dict.items():
        block, expert = re.fullmatch(r"(.*\.mlp\.)?(.*)", name).groups()
        if block is None:
            yield name, w
            continue
        block = block.replace(".mlp.", ".block_sparse_moe.")
        if expert == "experts.gate_up_proj":
            for i, both in enumerate(w):
                half = len(both) // 2
                yield f"{block}experts.{i}.w1.weight", both[:half]
                yield f"{block}experts.{i}.w3.weight", both[half:]
        elif expert == "experts.down_proj":
            yield from ((f"{block}experts.{i}.w2.weight", down) for i, down in enumerate(w))
        else:
            yield block + expert, w


def _settings(config):
    for name, wanted in (("model_type", "minimax"), ("hidden_act", "silu"), ("sliding_window", None)):
        if config.get(name, wanted) != wanted:
            raise ValueError(f"{name} must be {wanted!r}; got {config[name]!r}")
    if _rope_scaling(config) is not None:
        raise ValueError("a MiniMax's rotation is not scaled; rope_type must be 'default'")
    n_layers, n_heads = _setting(config, "num_hidden_layers"), _setting(config, "num_attention_heads")
    dim = _setting(config, "hidden_size")
    types = config.get("layer_types") or [tuple(_KINDS)[1 - i % 2] for i in range(n_layers)]
    unknown = set(types) - set(_KINDS)
    if unknown:
        raise ValueError(f"layer_types must be {' or '.join(_KINDS)}; got {', '.join(sorted(unknown))}")
    head_dim = config.get("head_dim") or dim // n_heads
    rope = config.get("rope_parameters") or {}
    return {
        "dim": dim,
        "n_layers": n_layers,
        "n_heads": n_heads,
        "n_kv_heads": config.get("num_key_value_heads", 8) or n_heads,
        "kinds": [_KINDS[kind] for kind in types],
        "hidden": _setting(config, "intermediate_size"),
        "n_experts": config.get("num_local_experts", config.get("num_experts", 8)),
        "top_k": config.get("num_experts_per_tok", 2),
        "head_dim": head_dim,
        "rotary_dim": head_dim,
        "residuals": {
            ours: (config.get(f"{theirs}_alpha_factor", 1), config.get(f"{theirs}_beta_factor", 1))
            for ours, theirs in
            (("lightning", "linear_attn"), ("softmax", "full_attn"), ("experts", "mlp"))
        },
        "norm_eps": config.get("rms_norm_eps", 1e-5),
        "rope_base": rope.get("rope_theta", config.get("rope_theta", 1e6)),
        "block_size": config.get("block_size", 256),
        "rule": "hugging_face",
        "tied": config.get("tie_word_embeddings", False),
    }  # fmt: skip
