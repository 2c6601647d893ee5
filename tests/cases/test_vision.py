from functools import partial

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from attnlib import (
    TinyVisionTransformer,
    attention,
    image_from_patches,
    image_patches,
    linear_attention_weights,
    polarity_weights,
)
from attnlib.datasets import digits


def drawn(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def a_model(seed=0, size=(6, 8), **settings):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = TinyVisionTransformer(size, 2, dim=12, depth=2, n_heads=3, n_classes=5, **settings).double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.5)
    return model


def permuted(images, order):
    """The squares of 6 x 8 images in another order."""
    return image_from_patches(image_patches(images, 2)[:, order], (3, 4), 2)


def softmax(q, k):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)


def by_relu(q, k):
    return linear_attention_weights(q, k, feature_map=torch.relu, eps=1e-15)


def by_its_definition(model, images, kind):
    """Token by token where they do not mix, head by head where they do."""
    p = model.state_dict()

    def linear(x, name):
        return x @ p[f"{name}.weight"].mT + p[f"{name}.bias"]

    def norm(x, name):
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
        return x * p[f"{name}.weight"] + p[f"{name}.bias"]

    x = linear(torch.from_numpy(image_patches(images.numpy(), 2)), "embedding") + p["positions"]
    for i in range(2):
        q, k, v = linear(norm(x, f"layers.{i}.norm1"), f"layers.{i}.qkv").split(12, -1)
        heads = []
        for h in range(0, 12, 4):
            own = slice(h, h + 4)
            if kind == "polarity":
                like, unlike = polarity_weights(q[..., own], k[..., own])
                heads += [like @ v[..., h : h + 2], unlike @ v[..., h + 2 : h + 4]]
            else:
                weigh = softmax if kind == "softmax" else by_relu
                heads.append(weigh(q[..., own], k[..., own]) @ v[..., own])
        x = x + linear(torch.cat(heads, -1), f"layers.{i}.proj")
        inner = torch.relu(linear(norm(x, f"layers.{i}.norm2"), f"layers.{i}.ff.linear1"))
        x = x + linear(inner, f"layers.{i}.ff.linear2")
    return linear(norm(x, "norm").mean(1), "head")


@pytest.mark.parametrize("kind", ["softmax", "relu", "polarity"])
@torch.no_grad()
def test_by_its_definition(kind):
    model, images = a_model(attention=kind, channels=3), drawn(4, 6, 8, 3)
    torch.testing.assert_close(model(images), by_its_definition(model, images, kind), rtol=1e-7, atol=1e-9)


@torch.no_grad()
def test_any_function_may_mix():
    images = drawn(4, 6, 8, 1)
    wide = a_model(attention=partial(attention, scale=0.5))  # heads of four features
    torch.testing.assert_close(wide(images), a_model(attention="softmax")(images), rtol=1e-9, atol=1e-9)
    alone, order = a_model(attention=lambda q, k, v: v), torch.arange(11, -1, -1)
    whole = alone.layers(drawn(1, 12, 12))
    torch.testing.assert_close(alone.layers(drawn(1, 12, 12)[:, order]), whole[:, order])


def test_models_that_differ_in_attention_alone_have_the_same_parameters():
    states = [a_model(attention=kind).state_dict() for kind in ("softmax", "relu", "polarity")]
    for state in states[1:]:
        assert state.keys() == states[0].keys()
        assert all(torch.equal(state[name], states[0][name]) for name in state)


@pytest.mark.parametrize("kind", ["softmax", "relu", "polarity"])
@torch.no_grad()
def test_without_positions_the_order_of_squares_is_seen_by_the_convolution_alone(kind):
    images, order = drawn(4, 6, 8, 1), torch.from_numpy(np.random.default_rng(0).permutation(12))
    blind = a_model(attention=kind, positions=False)
    torch.testing.assert_close(blind(permuted(images, order)), blind(images), rtol=1e-8, atol=1e-9)
    for sighted in (
        a_model(attention=kind),
        a_model(attention=kind, positions=False, mix_ffn=True),
    ):
        assert (sighted(permuted(images, order)) - sighted(images)).abs().max() > 0.01


def test_the_convolution_sees_the_neighbours_of_a_square_on_the_grid():
    model = a_model(attention=lambda q, k, v: v, mix_ffn=True)  # nothing else mixes tokens
    x = drawn(1, 12, 12).requires_grad_()
    model.layers[0](x)[0, 5].sum().backward()  # row 1, column 1, of 3 rows and 4 columns
    seen = x.grad[0].abs().sum(-1).reshape(3, 4) > 0
    assert seen[:, :3].all() and not seen[:, 3].any()


def test_gradients_reach_every_parameter():
    for settings in ({}, {"mix_ffn": True, "positions": False}):
        for kind in ("softmax", "relu", "polarity"):
            model = a_model(attention=kind, **settings)
            model(drawn(4, 6, 8, 1)).square().sum().backward()
            assert all(p.grad.isfinite().all() and p.grad.any() for p in model.parameters())


@pytest.mark.parametrize("kind", ["softmax", "relu", "polarity"])
def test_learns_digits(kind):
    """A hundred steps; a guess is right one time in ten, and those tried were seven times or more."""
    images, labels = digits()
    images, labels = torch.from_numpy(images[..., None] / 16).float(), torch.from_numpy(labels)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TinyVisionTransformer((8, 8), 2, 32, 2, 4, 10, attention=kind)
        order = torch.randperm(1797)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for rows in 5 * order[:1280].split(64):
        optimizer.zero_grad()
        cross_entropy(model(images[rows]), labels[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        right = (model(images[order[1280:]]).argmax(-1) == labels[order[1280:]]).float().mean()
    assert right > 0.5


def test_errors_name_what_is_wrong():
    def made(size=(6, 8), patch=2, dim=12, depth=2, n_heads=3, n_classes=5, **others):
        return TinyVisionTransformer(size, patch, dim, depth, n_heads, n_classes, **others)

    for call, error, says in (
        (lambda: made(size=8), TypeError, "grid must be two integers"),
        (lambda: made(patch=4), ValueError, "patch must divide the sides of an image, 6 and 8; got 4"),
        (lambda: made(n_heads=5), ValueError, "dim 12 does not divide into 5 heads"),
        (lambda: made(depth=0), ValueError, "depth must be at least 1"),
        (lambda: made(n_classes=0), ValueError, "n_classes must be at least 1"),
        (lambda: made(channels=0), ValueError, "channels must be at least 1"),
        (lambda: made(attention="linear"), ValueError, "softmax, relu, polarity; got 'linear'"),
        (lambda: made(attention=["relu"]), ValueError, "attention must be a function or one of"),
        (lambda: made()(torch.ones(2, 6, 8)), ValueError, r"images must have shape \(B, 6, 8, 1\)"),
        (lambda: made()(torch.ones(2, 8, 6, 1)), ValueError, r"got \(2, 8, 6, 1\)"),
        (lambda: made()(np.ones((2, 6, 8, 1))), TypeError, "images must be a torch tensor"),
    ):
        with pytest.raises(error, match=says):
            call()
