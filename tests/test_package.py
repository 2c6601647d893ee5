"""What `import attnlib` promises: one public face, nothing heavy, every example true."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import attnlib

MODULES = [m.name for m in pkgutil.walk_packages(attnlib.__path__, "attnlib.")]


def test_every_public_name_loads_has_a_docstring_with_an_example_and_shares_no_module_name():
    for name in attnlib.__all__:
        value = getattr(attnlib, name)
        doc = value.__doc__ + (value.forward.__doc__ if hasattr(value, "forward") else "")
        for part in ("Returns\n", "Raises\n", "Examples\n", ">>>"):
            assert part in doc, f"{name}: no {part.strip()}"
    assert not {m.rsplit(".", 1)[1] for m in MODULES} & set(attnlib.__all__)


def test_an_unknown_name_says_what_there_is():
    with pytest.raises(AttributeError, match="attnlib has no 'attend'; it has .*, attention, "):
        attnlib.attend  # noqa: B018


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_neither_the_import_nor_numpy_work_loads_torch_or_matplotlib():
    code = (
        "import sys, numpy as np, attnlib\n"
        "early = set(sys.modules)\n"
        "a = np.ones((2, 2)); attnlib.attention(a, a, a, attnlib.causal_mask(2))\n"
        "attnlib.softmax_jacobian_norm(a); attnlib.entropy(a)\n"
        "heavy = {'torch', 'matplotlib', 'scipy', 'IPython'}\n"
        "print(sorted(heavy & set(sys.modules)), 'array_api_compat' in early)"
    )
    assert run(code).strip() == "[] False"
