"""What the tests of several forms of attention draw."""

import numpy as np
import pytest
import torch

BOTH = pytest.mark.parametrize("array", [np.ascontiguousarray, lambda x: torch.from_numpy(np.array(x))],
                               ids=["numpy", "torch"])  # fmt: skip


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def qkv(*before, n_query=9, n_key=9, d=4, dv=3):
    return (normal(*before, n_query, d), normal(*before, n_key, d, seed=1),
            normal(*before, n_key, dv, seed=2))  # fmt: skip


def assert_same_gradients(got, wanted, inputs, **close):
    """Of two outputs that should be one, the gradients with respect to each input."""
    upstream = torch.from_numpy(normal(*got.shape, seed=9))
    for i, (ours, theirs) in enumerate(
        zip(*(torch.autograd.grad(out, inputs, upstream) for out in (got, wanted)), strict=True)
    ):
        np.testing.assert_allclose(ours, theirs, **close, err_msg=f"input {i}")
