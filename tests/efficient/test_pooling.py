import numpy as np
import pytest
import torch
from drawn import normal
from hypothesis import given
from hypothesis import strategies as st

from attnlib import GroupedQueryAttention, pooled_heads
from attnlib.layers.grouped_query import rotary_turns


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.sampled_from([(), (1,), (4,)]))
def test_is_the_mean_of_heads_in_a_row(n_kv_heads, times, d, rest):
    n_heads = n_kv_heads * times
    weight = normal(n_heads * d, *rest)
    got = pooled_heads(weight, n_heads, n_kv_heads)
    assert got.shape == (n_kv_heads * d, *rest)
    for g in range(n_kv_heads):
        for feature in range(d):
            members = [weight[(g * times + t) * d + feature] for t in range(times)]
            np.testing.assert_allclose(got[g * d + feature], sum(members) / times, atol=1e-12)
    theirs = pooled_heads(torch.from_numpy(weight), n_heads, n_kv_heads)
    np.testing.assert_allclose(theirs, got, atol=1e-12)


def test_heads_that_were_alike_within_groups_lose_nothing():
    many, few = GroupedQueryAttention(12, 6), GroupedQueryAttention(12, 6, 2)
    with torch.no_grad():
        for name in ("wk", "wv"):
            weight = getattr(many, name).weight
            weight.copy_(weight.view(2, 3, 2, 12)[:, :1].expand(-1, 3, -1, -1).reshape(12, 12))
    state = many.state_dict()
    for name in ("wk.weight", "wv.weight"):
        state[name] = pooled_heads(state[name], 6, 2)
    few.load_state_dict(state)
    x = torch.from_numpy(normal(2, 5, 12)).float()
    turns = rotary_turns(torch.arange(5), torch.tensor([0.3]))
    with torch.no_grad():
        torch.testing.assert_close(few(x, turns), many(x, turns), atol=1e-6, rtol=1e-5)


def test_a_pooled_key_is_the_mean_of_rotated_keys():
    """What lets a checkpoint with rotary positions be converted."""
    many, few = GroupedQueryAttention(12, 6), GroupedQueryAttention(12, 6, 2)
    few.wk.weight.data = pooled_heads(many.wk.weight.data, 6, 2)
    x, turns = torch.from_numpy(normal(1, 5, 12)).float(), rotary_turns(torch.arange(5), torch.tensor([0.3]))
    kept = {}
    with torch.no_grad():
        for name, layer in (("many", many), ("few", few)):
            cache = layer.new_cache(1, 5)
            layer(x, turns, cache=cache)
            kept[name] = cache.keys
    torch.testing.assert_close(kept["few"], kept["many"].view(1, 2, 3, 5, 2).mean(2), atol=1e-6, rtol=1e-5)


def test_types_gradients_and_inputs_unchanged(lib):
    weight = lib.array((1000 * normal(8, 3)).astype(np.float16))
    before = lib.numpy(weight).copy()
    got = lib.numpy(pooled_heads(weight, 4, 2))
    assert got.dtype == np.float16
    wanted = before.astype(np.float32).reshape(2, 2, 2, 3).mean(1).reshape(4, 3)
    np.testing.assert_array_equal(got, wanted.astype(np.float16))
    np.testing.assert_array_equal(lib.numpy(weight), before)
    assert lib.numpy(pooled_heads(lib.array(np.array([1, 2, 4, 4])), 4, 2)).tolist() == [1.5, 4]
    turned = lib.array(normal(3, 8)).T  # not contiguous
    np.testing.assert_allclose(
        lib.numpy(pooled_heads(turned, 4, 1)), normal(3, 8).T.reshape(4, 2, 3).mean(0), atol=1e-12
    )
    tensor = torch.from_numpy(normal(4, 2)).requires_grad_()
    assert torch.autograd.gradcheck(lambda w: pooled_heads(w, 4, 2), tensor)


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: pooled_heads([1.0, 2.0], 2, 1), TypeError, "weight must be a NumPy array"),
        (lambda: pooled_heads(np.ones(4) > 0, 2, 1), TypeError, "weight must hold real numbers"),
        (lambda: pooled_heads(np.ones((6, 2)), 3, 2), ValueError, "multiple of n_kv_heads; got 3 and 2"),
        (lambda: pooled_heads(np.ones((6, 2)), 4, 2), ValueError, r"into 4 heads; got shape \(6, 2\)"),
        (lambda: pooled_heads(np.ones((0, 2)), 4, 2), ValueError, r"into 4 heads; got shape \(0, 2\)"),
        (lambda: pooled_heads(np.ones((4, 0)), 4, 2), ValueError, r"no empty axis.*got shape \(4, 0\)"),
        (lambda: pooled_heads(np.ones(()), 1, 1), ValueError, r"into 1 heads; got shape \(\)"),
        (lambda: pooled_heads(np.ones((6, 2)), 2.0, 1), TypeError, "n_heads must be a whole number"),
    ],
)
def test_errors_name_what_is_wrong(call, error, says):
    with pytest.raises(error, match=says):
        call()
