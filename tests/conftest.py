"""Both array libraries behind one pair of functions, so that each test runs on each; and a stretch of a test
in which nothing may warn."""

import warnings
from contextlib import contextmanager
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


@contextmanager
def warnings_are_errors():
    with warnings.catch_warnings(action="error"):
        warnings.simplefilter("ignore", ResourceWarning)
        yield


@pytest.fixture(scope="session")
def no_warnings():
    """`with no_warnings():`: every warning is an error, but for that of a file which other code of the same
    process left open: Python gives it wherever it happens to collect the file."""
    return warnings_are_errors
