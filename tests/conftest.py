"""Both array libraries behind one pair of functions, so that each test runs on each."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch


@pytest.fixture(params=["numpy", "torch"])
def lib(request):
    """``lib.array(x)`` makes an array of the library, ``lib.numpy(x)`` takes it back."""
    if request.param == "numpy":
        return SimpleNamespace(name="numpy", array=np.asarray, numpy=np.asarray)
    return SimpleNamespace(
        name="torch",
        array=lambda x: torch.from_numpy(np.array(x)),
        numpy=lambda x: x.detach().numpy(),
    )
