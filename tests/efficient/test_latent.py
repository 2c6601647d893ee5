import json

import numpy as np
import pytest
import torch
from drawn import assert_same_gradients
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import LatentAttention, attention, rope, rope_frequencies, yarn_frequencies, yarn_scale
from attnlib.layers.grouped_query import rotary_turns

FORMS = [False, True]
VARIANTS = ["q", "noq", "yarn"]


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def a_layer(dim=12, n_heads=3, kv_lora_rank=5, **others):
    sizes = {"qk_nope_head_dim": 3, "qk_rope_head_dim": 4, "v_head_dim": 2, "q_lora_rank": 7} | others
    layer = LatentAttention(dim, n_heads, kv_lora_rank, dtype=torch.float64, **sizes)
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=i))
    return layer


def turns_at(positions, layer):
    f = rope_frequencies(layer.qk_rope_head_dim, like=layer.wo.weight.detach())
    return rotary_turns(torch.as_tensor(positions), f)


def by_its_definition(layer, x, positions, mask=None):
    """One head after the other, from the formulas, with whole keys and values."""
    nope, pe, v_dim = layer.qk_nope_head_dim, layer.qk_rope_head_dim, layer.v_head_dim

    def norm(x, weight):
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight

    if layer.q_lora_rank:
        q_all = norm(x @ layer.wq_a.weight.T, layer.q_norm.weight) @ layer.wq_b.weight.T
    else:
        q_all = x @ layer.wq.weight.T
    both = x @ layer.wkv_a.weight.T
    c, k_pe = norm(both[..., :-pe], layer.kv_norm.weight), rope(both[..., -pe:], positions)
    outs, weights = [], []
    for h in range(layer.n_heads):
        q = q_all[..., h * (nope + pe) : (h + 1) * (nope + pe)]
        q = torch.cat([q[..., :nope], rope(q[..., nope:], positions)], -1)
        w = layer.wkv_b.weight[h * (nope + v_dim) : (h + 1) * (nope + v_dim)]
        k, v = torch.cat([c @ w[:nope].T, k_pe], -1), c @ w[nope:].T
        own = mask if mask is None or mask.ndim < 3 else mask[:, h]
        out, p = attention(q, k, v, own, causal=True, scale=layer.scale, return_weights=True)
        outs.append(out)
        weights.append(p)
    return torch.cat(outs, -1) @ layer.wo.weight.T, torch.stack(weights, 1)


def golden_layer(g, variant):
    cfg = json.loads(str(g["meta"]))["cfg"]
    scale = None
    if variant == "yarn":
        scale = yarn_scale(cfg["rope_factor"], cfg["mscale"]) / (cfg["qk_nope"] + cfg["qk_rope"]) ** 0.5
    layer = LatentAttention(
        cfg["dim"], cfg["n_heads"], cfg["kv_lora_rank"], qk_nope_head_dim=cfg["qk_nope"],
        qk_rope_head_dim=cfg["qk_rope"], v_head_dim=cfg["v"], scale=scale,
        q_lora_rank=None if variant == "noq" else 12,
    )  # fmt: skip
    start = f"p_{variant}."
    names = [name for name in g.files if name.startswith(start)]
    layer.load_state_dict({name.removeprefix(start): torch.from_numpy(g[name]) for name in names})
    assert layer.scale == pytest.approx(float(g[f"scale_{variant}"]), rel=1e-12)
    like = torch.zeros(1)
    f = rope_frequencies(4, cfg["theta"], like=like)
    if variant == "yarn":
        f = yarn_frequencies(4, cfg["theta"], factor=cfg["rope_factor"], beta_fast=cfg["beta_fast"],
                             beta_slow=cfg["beta_slow"], original_max_position_embeddings=8,
                             like=like)  # fmt: skip
    return layer, rotary_turns(torch.arange(7), f)


@pytest.mark.parametrize("variant", VARIANTS)
def test_agrees_with_the_golden_file(golden, variant):
    g = golden("mla_deepseek")
    layer, turns = golden_layer(g, variant)
    x, tolerance = torch.from_numpy(g["in_x"]), {"rtol": 2e-4, "atol": 2e-5}
    with torch.no_grad():
        for absorbed, name in zip(FORMS, ("naive", "absorb"), strict=True):
            whole = layer(x, turns, absorbed=absorbed)
            np.testing.assert_allclose(whole, g[f"out_{variant}_{name}"], **tolerance)
            cache = layer.new_cache(2, 7)
            for start, end in ((0, 5), (5, 6), (6, 7)):
                out = layer(x[:, start:end], turns[start:end], cache=cache, absorbed=absorbed)
                np.testing.assert_allclose(out, g[f"out_{variant}_{name}"][:, start:end], **tolerance)
    if variant == "q":
        latents, rotated = cache.rows[:, 0].split([10, 4], -1)
        np.testing.assert_allclose(latents, g["out_q_latent_cache"], **tolerance)
        np.testing.assert_allclose(rotated, g["out_q_pe_cache"], **tolerance)


@given(
    st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.integers(1, 5), st.integers(1, 2),
    st.integers(1, 4), st.sampled_from([None, 1, 6]), st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=50)
def test_both_forms_by_the_definition(B, H, rank, nope, pairs, v_dim, q_rank, seed):
    layer = a_layer(8, H, rank, qk_nope_head_dim=nope, qk_rope_head_dim=2 * pairs, v_head_dim=v_dim,
                    q_lora_rank=q_rank, scale=None if seed % 2 else 0.7)  # fmt: skip
    T = 1 + seed % 5
    x, positions = normal(B, T, 8, seed=seed), torch.arange(seed, seed + T)
    mask = None
    if seed % 3:
        mask = normal(B, H, T, T, seed=seed + 1)
        mask = mask < 0.5 if seed % 3 == 1 else mask
    with torch.no_grad():
        wanted, wanted_weights = by_its_definition(layer, x, positions, mask)
        for absorbed in FORMS:
            turns = turns_at(positions, layer)
            out, weights = layer(x, turns, mask, absorbed=absorbed, return_weights=True)
            np.testing.assert_allclose(weights, wanted_weights, atol=1e-10)
            for got in (out, layer(x, turns, mask, absorbed=absorbed)):
                np.testing.assert_allclose(got, wanted, atol=1e-9)


@given(
    st.integers(1, 2), st.integers(1, 3), st.integers(1, 5), st.integers(1, 4), st.integers(1, 2),
    st.integers(1, 3), st.sampled_from([None, 1, 4]), st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=40)
def test_gradients_of_both_forms_are_those_of_the_definition(B, H, rank, nope, pairs, v_dim, q_rank, seed):
    layer = a_layer(6, H, rank, qk_nope_head_dim=nope, qk_rope_head_dim=2 * pairs, v_head_dim=v_dim,
                    q_lora_rank=q_rank)  # fmt: skip
    T = 1 + seed % 5
    x, positions = normal(B, T, 6, seed=seed).requires_grad_(), torch.arange(seed, seed + T)
    mask = normal(B, H, T, T, seed=seed + 1) < 0.5 if seed % 2 else None
    inputs = [x, *layer.parameters()]
    for absorbed in FORMS:
        got = layer(x, turns_at(positions, layer), mask, absorbed=absorbed)
        wanted, _ = by_its_definition(layer, x, positions, mask)
        assert_same_gradients(got, wanted, inputs, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("pieces", [(1,) * 7, (3, 4), (4, 1, 2), (6, 1), (7,)])
@pytest.mark.parametrize("forms", [(False,), (True,), (None,), (False, True)])
def test_pieces_of_any_length_give_what_the_whole_gives(pieces, forms):
    layer, x = a_layer(), normal(2, 7, 12)
    with torch.no_grad():
        whole, whole_weights = layer(x, turns_at(range(7), layer), return_weights=True)
        for ask in (False, True):
            cache, start = layer.new_cache(2, 7), 0
            for i, length in enumerate(pieces):
                end = start + length
                out = layer(x[:, start:end], turns_at(range(start, end), layer), cache=cache,
                            absorbed=forms[i % len(forms)], return_weights=ask)  # fmt: skip
                if ask:
                    out, weights = out
                    np.testing.assert_allclose(weights, whole_weights[:, :, start:end, :end], atol=1e-12)
                np.testing.assert_allclose(out, whole[:, start:end], atol=1e-10)
                start = end


def test_padding_is_not_seen_and_takes_no_position():
    layer, x = a_layer(), normal(2, 6, 12)
    real = torch.tensor([[False, False, True, True, True, True], [True] * 6])
    positions = (real.cumsum(-1) - 1).clamp(min=0)[:, None]
    with torch.no_grad():
        alone = layer(x[:1, 2:], turns_at(range(4), layer))
        for absorbed in FORMS:
            out = layer(x, turns_at(positions, layer), real[:, None, None], absorbed=absorbed)
            np.testing.assert_allclose(out[:1, 2:], alone, atol=1e-11)
            assert not out[0, :2].any()  # nothing to attend to


def test_the_cache_holds_normed_latents_and_rotated_keys_alone_and_is_made_once():
    layer, x = a_layer(), normal(3, 4, 12)
    cache = layer.new_cache(3, 10)
    before = cache.rows.data_ptr()
    with torch.no_grad():
        layer(x, turns_at(range(4), layer), cache=cache)
        c, k_pe = layer.wkv_a(x).split([5, 4], -1)
    assert cache.rows.shape == (3, 1, 10, 5 + 4) and cache.rows.data_ptr() == before and cache.length == 4
    c = c / (c.square().mean(-1, keepdim=True) + 1e-6).sqrt() * layer.kv_norm.weight.detach()
    np.testing.assert_allclose(cache.rows[:, 0, :4, :5], c, atol=1e-12)
    np.testing.assert_allclose(cache.rows[:, 0, :4, 5:], rope(k_pe, torch.arange(4)), atol=1e-12)


def test_the_form_with_fewer_multiplications_is_taken(monkeypatch):
    layer = a_layer()
    taken = []
    kept = layer._keys_and_values
    monkeypatch.setattr(layer, "_keys_and_values", lambda *a: taken.append("expanded") or kept(*a))
    with torch.no_grad():
        cache = layer.new_cache(1, 40)
        layer(normal(1, 30, 12), cache=cache)
        assert taken == ["expanded"]
        layer(normal(1, 1, 12), cache=cache)
        layer(normal(1, 1, 12), cache=cache, absorbed=False)
        assert taken == ["expanded"] * 2


def test_multiplications_are_those_of_the_products():
    """Counted by multiplying the shapes of all products of the definition."""
    layer = a_layer()  # 3 heads; latents of 5; queries 3 + 4; values of 2
    T, S = 6, 11
    products = {
        False: [(S, 5, 3), (S, 5, 2), (T, 3 + 4, S), (T, S, 2)],
        True: [(T, 3, 5), (T, 5 + 4, S), (T, S, 5), (T, 5, 2)],
    }
    for absorbed, shapes in products.items():
        wanted = 3 * sum(a * b * c for a, b, c in shapes)
        assert layer.multiplications(T, S, absorbed=absorbed) == wanted


@pytest.mark.parametrize("absorbed", FORMS)
def test_gradients(absorbed):
    layer = a_layer(4, 2, 3, qk_nope_head_dim=1, qk_rope_head_dim=2, q_lora_rank=2)
    x, turns = normal(1, 3, 4).requires_grad_(), turns_at([4, 5, 6], layer)
    mask = torch.ones(3, 3, dtype=torch.bool)
    mask[0] = False  # nothing to attend to
    assert torch.autograd.gradcheck(lambda x: layer(x, turns, mask, absorbed=absorbed), x)
    grads = {}
    for form in FORMS:
        grads[form] = torch.autograd.grad(layer(x, turns, absorbed=form).square().sum(), layer.parameters())
    for one, other in zip(grads[False], grads[True], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("absorbed", FORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_non_contiguous_and_unchanged(absorbed, dtype):
    layer = LatentAttention(12, 3, 5, qk_nope_head_dim=3, qk_rope_head_dim=4, v_head_dim=2)
    x = normal(12, 6, 2).float().permute(2, 1, 0)
    before, turns = x.clone(), turns_at(range(6), layer)
    wanted = layer(x, turns, absorbed=absorbed)
    half = layer.to(dtype)(x.to(dtype), turns, absorbed=absorbed)
    assert half.dtype == dtype and not x.is_contiguous()
    np.testing.assert_allclose(half.float().detach(), wanted.detach(), atol=0.03)
    assert torch.equal(x, before)


def test_errors_name_what_is_wrong():
    layer = LatentAttention(8, 2, 4, qk_nope_head_dim=2, qk_rope_head_dim=2, v_head_dim=2)
    x = torch.ones(2, 3, 8)

    def made(**others):
        sizes = {"qk_nope_head_dim": 2, "qk_rope_head_dim": 2, "v_head_dim": 2} | others
        return LatentAttention(8, 2, 4, **sizes)

    for call, error, says in (
        (lambda: made(qk_rope_head_dim=3), ValueError, "qk_rope_head_dim must be even, for pairs; got 3"),
        (lambda: made(v_head_dim=0), ValueError, "v_head_dim must be at least 1"),
        (lambda: made(q_lora_rank=1.5), TypeError, "q_lora_rank must be a whole number"),
        (lambda: made(scale="big"), TypeError, "scale must be a number"),
        (lambda: layer.multiplications(0, 1, absorbed=True), ValueError, "n_new must be at least 1"),
        (lambda: layer(x, torch.ones(3, 1)), TypeError, "turns must be a complex tensor.*got torch.float32"),
        (
            lambda: layer(x, turns_at(range(4), layer)),
            ValueError,
            r"turns must.*\(3, 1\); got shape",
        ),
        (lambda: layer(x.numpy()), TypeError, "x must be a torch tensor; got ndarray"),
        (lambda: layer(x[0]), ValueError, r"x must have shape \(B, T, 8\), not empty; got \(3, 8\)"),
        (lambda: layer(x, absorbed="yes"), TypeError, "absorbed must be True, False or None; got 'yes'"),
        (lambda: layer(x, mask=torch.ones(4, 3) > 0), ValueError, "mask must broadcast to the scores"),
        (lambda: layer(x, cache=layer.new_cache(1, 5)), ValueError, "the cache is for 1 sequences; got 2"),
        (lambda: layer(x, cache=layer.new_cache(2, 2)), ValueError, "room for 2 tokens and holds 0; 3 more"),
    ):
        with pytest.raises(error, match=says):
            call()
