"""State dicts of other Transformers under our names."""

import re

import torch

_TORCH = [
    (r"\.(linear[12])\.", r".feed_forward.\1."),
    (r"\.multihead_attn\.", ".cross_attn."),
    (r"\.norm([123])\.", lambda match: f".residuals.{int(match[1]) - 1}.norm."),
]
_ANNOTATED = [
    (r"\.src_attn\.", ".cross_attn."),
    (r"\.w_([12])\.", r".linear\1."),
    (r"\.sublayer\.(\d)\.", r".residuals.\1."),
    (r"\.a_2$", ".weight"),
    (r"\.b_2$", ".bias"),
    (r"\.linears\.3\.", ".out_proj."),
    (r"^(src|tgt)_embed\.0\.lut\.", r"\1_embedding."),
    (r"^generator\.proj\.", "output."),
]


def from_torch_transformer(state_dict):
    """Our names for the parameters of a ``torch.nn.Transformer``, in either order of its norms.

    They load into ``EncoderDecoder(..., final_norm=True)`` with the same ``norm_first``, for PyTorch has
    the last norms in both orders. A model that was made with ``bias=False`` loads into one with
    ``bias=False, norm=partial(nn.LayerNorm, bias=False)``. What a state dict does not tell must be the same:
    the heads, the order of the norms, their ``eps``, and ReLU, which is all that we have.

    Parameters
    ----------
    state_dict : dict of tensors

    Returns
    -------
    dict of tensors
        The same tensors, not copied.

    Raises
    ------
    ValueError
        If it has no parameters of such a model.

    Examples
    --------
    >>> theirs = torch.nn.Transformer(8, 2, 1, 1, 32, batch_first=True)
    >>> from attnlib.layers.encoder_decoder import EncoderDecoder
    >>> ours = EncoderDecoder(8, 2, 1, 32, final_norm=True)
    >>> ours.load_state_dict(from_torch_transformer(theirs.state_dict()))
    <All keys matched successfully>
    """
    _expect(state_dict, "encoder.layers.0.linear1.weight", "torch.nn.Transformer")
    return {_renamed(name, _TORCH): x for name, x in state_dict.items()}


def from_annotated_transformer(state_dict):
    """Our names for the parameters of the Annotated Transformer.

    They load into ``Transformer(src_vocab, tgt_vocab, ..., norm_first=True, norm=AnnotatedLayerNorm,
    tied=False)``.

    Parameters
    ----------
    state_dict : dict of tensors

    Returns
    -------
    dict of tensors
        The matrices of queries, keys and values are laid one on the other; the table of positions, which
        is no parameter, is left out.

    Raises
    ------
    ValueError
        If it has no parameters of such a model.

    References
    ----------
    "The Annotated Transformer", Rush 2018; Huang et al. 2022, ``make_model``.

    Examples
    --------
    >>> from_annotated_transformer({"decoder.norm.a_2": torch.ones(8)})
    Traceback (most recent call last):
        ...
    ValueError: no encoder.layers.0.feed_forward.w_1.weight: not a state dict of the Annotated Transformer
    """
    _expect(state_dict, "encoder.layers.0.feed_forward.w_1.weight", "the Annotated Transformer")
    found, projections = {}, {}
    for name, x in state_dict.items():
        if projection := re.fullmatch(r"(.*)\.linears\.([012])\.(weight|bias)", name):
            layer, number, kind = projection.groups()
            projections.setdefault(_renamed(f"{layer}.in_proj_{kind}", _ANNOTATED), {})[number] = x
        elif not re.fullmatch(r"(src|tgt)_embed\.1\.pe", name):
            found[_renamed(name, _ANNOTATED)] = x
    return found | {name: torch.cat([parts[n] for n in "012"]) for name, parts in projections.items()}


def _renamed(name, rules):
    for pattern, new in rules:
        name = re.sub(pattern, new, name)
    return name


def _expect(state_dict, name, model):
    if name not in state_dict:
        raise ValueError(f"no {name}: not a state dict of {model}")
