"""Sparse softmaxes against the package entmax, values and gradients."""

import pytest
import torch

import attnlib


@pytest.mark.parametrize("name, settings", [("sparsemax", {}), ("entmax15", {}), ("entmax", {"alpha": 1.3})])
def test_values_and_gradients(peer, name, settings):
    entmax = peer("entmax")
    generator = torch.Generator().manual_seed(0)
    x, weights = torch.randn(2, 20, 33, generator=generator, dtype=torch.float64) * 3
    x.requires_grad_()
    theirs = getattr(entmax, name if name != "entmax" else "entmax_bisect")
    ours = getattr(attnlib, name)(x, **settings)
    expected = theirs(x, dim=-1, **settings)
    torch.testing.assert_close(ours, expected, atol=1e-7, rtol=1e-6)
    ours, expected = (torch.autograd.grad((p * weights).sum(), x)[0] for p in (ours, expected))
    torch.testing.assert_close(ours, expected, atol=1e-6, rtol=1e-5)
