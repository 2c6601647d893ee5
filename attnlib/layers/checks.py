"""What layers ask of their input, in sentences."""

import torch


def check_tensor(x, name, least_axes=1):
    """Raise where ``x`` is no tensor, or has too few axes."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} must be a torch tensor; got {type(x).__name__}. torch.as_tensor makes one.")
    if x.ndim < least_axes:
        raise ValueError(f"{name} must have at least {least_axes} axes; got shape {tuple(x.shape)}")


def check_features(x, name, width):
    """Raise where ``x`` is no tensor with so many features."""
    if isinstance(x, torch.Tensor) and x.shape[-1:] == (width,):
        return
    check_tensor(x, name, 0)
    raise ValueError(f"{name} must have {width} features; got shape {tuple(x.shape)}")


def check_tokens(x, width):
    """Raise where ``x`` is no tensor ``(B, T, width)`` of one token or more."""
    check_tensor(x, "x", 0)
    if x.ndim != 3 or x.shape[-1] != width or 0 in x.shape:
        raise ValueError(f"x must have shape (B, T, {width}), not empty; got {tuple(x.shape)}")


def check_dtype(x, layer, name="x"):
    """Raise where ``x`` has another type than the layer's parameters, and autocast does not see to it."""
    dtype = next(layer.parameters()).dtype
    if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(
            f"{name} must have the layer's dtype, {dtype}; got {x.dtype}. "
            f"{name}.to(...) or layer.to(...) changes one of them."
        )


def check_integers(ids, name):
    """Raise where ``ids`` is no tensor of integers that an embedding takes."""
    if not isinstance(ids, torch.Tensor) or ids.dtype not in (torch.int32, torch.int64):
        got = ids.dtype if isinstance(ids, torch.Tensor) else type(ids).__name__
        raise TypeError(f"{name} must be a torch tensor of int32 or int64; got {got}")


def valid_dropout(dropout):
    """A dropout rate, if it is one."""
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be at least 0 and below 1; got {dropout!r}")
    return dropout
