"""The attention weights of a whole model, as they were in one pass."""

import torch

from attnlib.layers.multi_head import MultiHeadAttention
from attnlib.layers.quiet import quiet


def attention_maps(model, *args, **kwargs):
    """Call ``model(*args, **kwargs)`` and give the weights of every multi-head attention in it.

    Parameters
    ----------
    model : Module
        Such as a `Transformer`; what it holds of `MultiHeadAttention` is found. Dropout is off.
    *args, **kwargs
        What the model takes.

    Returns
    -------
    dict of str to tensor (B, H, L, S)
        Under the names of the layers, in the order in which they ran: ``"encoder.layers.0.self_attn"``,
        ``"decoder.layers.0.cross_attn"`` and so on. A layer that ran twice is there as it ran last. No
        gradients are recorded.

    Raises
    ------
    TypeError
        If ``model`` is no module.

    Examples
    --------
    >>> from attnlib import Transformer
    >>> model = Transformer(9, d_model=8, num_heads=2, num_layers=1, d_ff=16)
    >>> maps = attention_maps(model, torch.tensor([[5, 3, 4]]), torch.tensor([[1, 7]]))
    >>> maps["decoder.layers.0.cross_attn"].shape
    torch.Size([1, 2, 2, 3])
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch module; got {type(model).__name__}")
    names = {layer: name for name, layer in model.named_modules() if isinstance(layer, MultiHeadAttention)}
    calls = {}
    handles = [
        layer.register_forward_pre_hook(
            lambda layer, args, kwargs: calls.update({layer: (args, kwargs)}), with_kwargs=True
        )
        for layer in names
    ]
    with quiet(model):
        try:
            model(*args, **kwargs)
        finally:
            for handle in handles:
                handle.remove()
        return {
            names[layer]: layer(*args, **kwargs | {"return_weights": True})[1]
            for layer, (args, kwargs) in calls.items()
        }
