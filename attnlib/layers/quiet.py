"""A model as it is used, for a while."""

from contextlib import contextmanager

import torch


@contextmanager
def quiet(model):
    """No gradients and no dropout; afterwards every part of the model is in the mode it was in."""
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True
