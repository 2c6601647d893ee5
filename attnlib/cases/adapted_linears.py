"""A model in which some linear layers are exchanged for ones with few trained numbers."""

from torch import nn


def adapt_linears(model, make, where=None):
    """Freeze a model, and put ``make(layer)`` in the place of each linear layer that is to be adapted.

    Parameters
    ----------
    model : nn.Module
        Changed where it stands: none of its parameters is trained any more. `copy.deepcopy` before keeps
        the old one.
    make : function
        From an ``nn.Linear`` to a module that maps the same, as `SingularValueLinear`.
    where : function, optional
        Of a layer's dotted name: whether it is adapted. All of them when left out.

    Returns
    -------
    dict
        The new layers by name, in the model's order. A layer that the model has in two places is exchanged
        in both for one new layer, if both of its names are taken.

    Raises
    ------
    TypeError, ValueError
        If ``model`` is no module, or no linear layer in it is named so.

    Examples
    --------
    >>> from attnlib import LowRankLinear
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    >>> list(adapt_linears(model, lambda layer: LowRankLinear(layer, rank=1), lambda name: name == "2"))
    ['2']
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module; got {type(model).__name__}")
    found = {name: layer for name, layer in model.named_modules(remove_duplicate=False)
             if name and isinstance(layer, nn.Linear) and (where is None or where(name))}  # fmt: skip
    if not found:
        raise ValueError("model must have a linear layer whose name `where` takes; none was found")
    model.requires_grad_(False)
    new = {layer: make(layer) for layer in dict.fromkeys(found.values())}
    for name, layer in found.items():
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, new[layer])
    return {name: new[layer] for name, layer in found.items()}
