"""Llama models from the checkpoints of Meta and of Hugging Face."""

import re
from collections.abc import Mapping

import torch

from attnlib.core.rotary import rope_permutation
from attnlib.layers.llama import Llama
from attnlib.layers.swiglu import swiglu_hidden_size


def llama_from_meta(state_dict, params):
    """A `Llama` with the weights of a checkpoint in Meta's names.

    Parameters
    ----------
    state_dict : dict
        Tensors or NumPy arrays under Meta's names, ``layers.0.attention.wq.weight`` and so on; they are
        copied. Where ``output.weight`` is missing, output and embeddings share their weights.
    params : dict
        Meta's ``params.json``: ``dim``, ``n_layers``, ``n_heads``, and, where they differ from Meta's
        defaults, ``n_kv_heads``, ``multiple_of``, ``ffn_dim_multiplier``, ``norm_eps``, ``rope_theta``,
        ``use_scaled_rope``. The vocabulary's size is that of the table.

    Returns
    -------
    Llama
        In the type of its table of embeddings.

    Raises
    ------
    TypeError, ValueError
        If a setting or a weight is missing, or a weight is unknown or has another shape.

    References
    ----------
    ``llama/model.py`` of meta-llama/llama3, ``models/llama3`` of meta-llama/llama-models. llama.cpp's GGUF
    files keep a Llama's rows in Meta's order too, under names of their own.

    Examples
    --------
    >>> params = {"dim": 8, "n_layers": 1, "n_heads": 2, "multiple_of": 4}
    >>> model = Llama(vocab_size=5, dim=8, n_layers=1, n_heads=2, hidden=24)
    >>> copy = llama_from_meta(model.state_dict(), params)
    >>> tokens = torch.tensor([[1, 4, 2]])
    >>> bool((copy(tokens) == model(tokens)).all())
    True
    """
    _check_dicts(state_dict=state_dict, params=params)
    state = {name: w for name, w in state_dict.items() if name != "rope.freqs"}
    dim = _setting(params, "dim")
    settings = {
        "dim": dim,
        "n_layers": _setting(params, "n_layers"),
        "n_heads": _setting(params, "n_heads"),
        "n_kv_heads": params.get("n_kv_heads"),
        "hidden": swiglu_hidden_size(dim, params.get("multiple_of", 256), params.get("ffn_dim_multiplier")),
        "norm_eps": params.get("norm_eps", 1e-5),
        "rope_base": params.get("rope_theta", 500000.0),
        "rope_scaling": {} if params.get("use_scaled_rope") else None,
        "tied": "output.weight" not in state,
    }
    return _loaded(Llama, state, settings, str, "tok_embeddings.weight")


def llama_from_hugging_face(state_dict, config):
    """A `Llama` with the weights of a checkpoint in Hugging Face's names.

    The rows of the query and key projections are put into the order of the paper and of Meta, in which
    features 2i and 2i + 1 rotate together (`rope_permutation`).

    Parameters
    ----------
    state_dict : dict
        Tensors or NumPy arrays under Hugging Face's names, ``model.layers.0.self_attn.q_proj.weight`` and so
        on; they are copied.
    config : dict
        Hugging Face's ``config.json``.

    Returns
    -------
    Llama
        In the type of its table of embeddings.

    Raises
    ------
    TypeError, ValueError
        If a setting or a weight is missing, a weight is unknown or has another shape, or the
        configuration asks for what a `Llama` does not have: biases, another activation, another scaling
        of the rotation.

    References
    ----------
    ``models/llama`` of Hugging Face transformers, whose defaults are taken where ``config`` is silent.

    Examples
    --------
    >>> config = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    ...           "intermediate_size": 24, "tie_word_embeddings": True}
    >>> table = {"model.embed_tokens.weight": torch.zeros(5, 8)}
    >>> llama_from_hugging_face(table, config)
    Traceback (most recent call last):
    ...
    ValueError: the state dict has no model.layers.0.self_attn.q_proj.weight
    """
    _check_dicts(state_dict=state_dict, config=config)
    rope = config.get("rope_parameters") or {}
    settings = {
        "dim": _setting(config, "hidden_size"),
        "n_layers": _setting(config, "num_hidden_layers"),
        "n_heads": _setting(config, "num_attention_heads"),
        "n_kv_heads": config.get("num_key_value_heads"),
        "hidden": _setting(config, "intermediate_size"),
        "head_dim": config.get("head_dim"),
        "norm_eps": config.get("rms_norm_eps", 1e-6),
        "rope_base": rope.get("rope_theta", config.get("rope_theta", 10000.0)),
        "rope_scaling": _rope_scaling(config),
        "tied": config.get("tie_word_embeddings", False),
    }
    for name, wanted in (("model_type", "llama"), ("hidden_act", "silu"), ("attention_bias", False),
                         ("mlp_bias", False)):  # fmt: skip
        if config.get(name, wanted) != wanted:
            raise ValueError(f"{name} must be {wanted!r}; got {config[name]!r}")
    state = {name: w for name, w in state_dict.items() if not name.endswith("rotary_emb.inv_freq")}
    if settings["tied"]:
        state.pop("lm_head.weight", None)
    return _loaded(Llama, state, settings, _hugging_faces_name, "model.embed_tokens.weight", halves=True)


_NAMES = {
    "tok_embeddings": "model.embed_tokens",
    "norm": "model.norm",
    "output": "lm_head",
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attention.wq": "self_attn.q_proj",
    "attention.wk": "self_attn.k_proj",
    "attention.wv": "self_attn.v_proj",
    "attention.wo": "self_attn.o_proj",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w2": "mlp.down_proj",
    "feed_forward.w3": "mlp.up_proj",
}


def _hugging_faces_name(name):
    block, part = re.fullmatch(r"(layers\.\d+\.)?(.+)\.weight", name).groups()
    return f"model.{block}{_NAMES[part]}.weight" if block else f"{_NAMES[part]}.weight"


def _check_dicts(**given):
    for name, value in given.items():
        if not isinstance(value, Mapping):
            raise TypeError(f"{name} must be a dict; got {type(value).__name__}")


def _loaded(kind, state, settings, name_of, table, *, halves=False):
    """A ``kind`` of model with the weights of ``state``, where its ``name`` is called ``name_of(name)``."""
    state = {name: torch.as_tensor(w) for name, w in state.items()}
    if table not in state:
        raise ValueError(f"the state dict has no {table}")
    model = kind(state[table].shape[0], **settings, device="meta", dtype=state[table].dtype)
    weights = {}
    for name, parameter in model.named_parameters():
        theirs = name_of(name)
        if theirs not in state:
            raise ValueError(f"the state dict has no {theirs}")
        w = state.pop(theirs)
        if w.shape != parameter.shape:
            raise ValueError(
                f"{theirs} must have shape {tuple(parameter.shape)} by the configuration; "
                f"got {tuple(w.shape)}"
            )
        if halves and name.endswith(("wq.weight", "wk.weight")):
            d = model.layers[0].attention.head_dim
            w = w[torch.from_numpy(rope_permutation(d, len(w) // d, to="interleaved"))]
        weights[name] = w.to(parameter.dtype, copy=True)
    if state:
        raise ValueError(f"the model has no place for {', '.join(sorted(state))}")
    model.load_state_dict(weights, assign=True)
    return model


def _rope_scaling(config):
    """The settings of Hugging Face's ``rope_scaling``, from version 5 on ``rope_parameters``."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return None
    if kind != "llama3":
        raise ValueError(f"the rotation may be scaled as in Llama 3.1, rope_type 'llama3'; got {kind!r}")
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    return {name: _setting(rope, name) for name in names}


def _setting(config, name):
    if name not in config:
        raise ValueError(f"the configuration has no {name}")
    return config[name]
