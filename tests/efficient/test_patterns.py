import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import (
    between,
    blocks,
    causal,
    causal_mask,
    dilated,
    first,
    fixed,
    global_tokens,
    per_head,
    receptive_field,
    strided,
    window,
    window_mask,
)

small = st.integers(1, 6)
lengths = st.integers(1, 11)

# Each kind of pattern with what its definition says of one query and one key.
KINDS = st.one_of(
    st.just((causal, lambda i, j: j <= i)),
    small.map(lambda w: (window(w), lambda i, j: abs(i - j) < w)),
    st.tuples(st.integers(-1, 5), st.integers(-1, 5)).map(
        lambda s: (between(*s), lambda i, j: (s[0] == -1 or i - j <= s[0]) and (s[1] == -1 or j - i <= s[1]))
    ),
    small.map(lambda n: (first(n), lambda i, j: j < n)),
    st.tuples(small, small).map(
        lambda s: (dilated(*s), lambda i, j: abs(i - j) in range(0, s[0] * s[1], s[1]))
    ),
    small.map(lambda s: (strided(s), lambda i, j: abs(i - j) % s == 0)),
    small.map(lambda s: (blocks(s), lambda i, j: i // s == j // s)),
    st.tuples(small, st.integers(0, 2)).map(
        lambda s: (
            fixed(3 * s[0], *s),
            lambda i, j: i // (3 * s[0]) == j // (3 * s[0]) or j % (3 * s[0]) // s[0] == 2 - s[1],
        )
    ),
    st.lists(st.integers(0, 9), min_size=1).map(lambda p: (global_tokens(p), lambda i, j: i in p or j in p)),
)


def combined(parts):
    return st.one_of(
        st.tuples(parts, parts).map(
            lambda p: (p[0][0] & p[1][0], lambda i, j: p[0][1](i, j) and p[1][1](i, j))
        ),
        st.tuples(parts, parts).map(
            lambda p: (p[0][0] | p[1][0], lambda i, j: p[0][1](i, j) or p[1][1](i, j))
        ),
        parts.map(lambda p: (~p[0], lambda i, j: not p[1](i, j))),
    )


anything = st.recursive(KINDS, combined, max_leaves=5)


@given(anything, lengths, lengths, st.sampled_from(["end", "start"]))
def test_patterns_and_what_is_made_of_them_say_what_their_definition_says(made, n_query, n_key, align):
    pattern, rule = made
    mask = pattern.mask(n_query, n_key, align=align)
    shift = n_key - n_query if align == "end" else 0
    wanted = [[rule(i + shift, j) for j in range(n_key)] for i in range(n_query)]
    np.testing.assert_array_equal(mask, wanted)
    assert mask.dtype == bool
    theirs = pattern.mask(n_query, n_key, align=align, like=torch.zeros(1))
    assert theirs.dtype == torch.bool and theirs.tolist() == wanted


@given(anything)
def test_a_pattern_prints_as_the_expression_that_makes_it(made):
    pattern, _ = made
    again = eval(repr(pattern))
    assert again == pattern and repr(again) == repr(pattern)
    np.testing.assert_array_equal(again.mask(12), pattern.mask(12))


def test_only_needed_parentheses_are_printed():
    for text in (
        "causal & window(3) | first(4)", "causal & (window(3) | first(4))", "~(causal & first(1))",
        "~causal & ~first(1)", "causal & first(1) & first(2)", "causal & (first(1) & first(2))", "~~causal",
    ):  # fmt: skip
        assert repr(eval(text)) == text


@given(anything, st.integers(0, 5), st.integers(1, 5), st.integers(0, 5), st.integers(1, 5))
def test_a_tile_is_made_without_the_whole(made, top, height, left, width):
    pattern, _ = made
    whole = pattern.mask(12)
    i, j = np.arange(top, top + height), np.arange(left, left + width)
    np.testing.assert_array_equal(pattern(i[:, None], j), whole[top : top + height, left : left + width])
    np.testing.assert_array_equal(pattern(i[:, None, None], j[:, None])[..., 0], pattern(i[:, None], j))


def test_agrees_with_the_golden_sparse_transformer(golden, lib):
    g = golden("sparse_transformer_masks")
    for name, pattern in {
        "all": causal,
        "local4": causal & window(4),
        "local4_blocksparse2": causal & window(4),
        "strided4": causal & strided(4),
        "fixed4_c1": causal & fixed(4),
        "fixed4_c1_4verts": causal & per_head(*[fixed(4, 1, h) for h in range(4)]),
        "fixed8_c2_2verts": causal & per_head(*[fixed(8, 2, h % 2) for h in range(4)]),
    }.items():
        got = pattern.mask(16, like=lib.array(np.zeros(1)))
        np.testing.assert_array_equal(lib.numpy(got), g[f"mask_{name}"], err_msg=name)


def test_the_ways_to_count_a_window():
    n = 12
    np.testing.assert_array_equal((causal & window(3)).mask(n), window_mask(n, 3))  # W keys with the own one
    np.testing.assert_array_equal(between(2, 0).mask(n), window_mask(n, 3))  # flash: the own one not counted
    assert (window(3).mask(n).sum(-1)[2:-2] == 5).all()  # Longformer's window of 4
    np.testing.assert_array_equal(between(2, 2).mask(n), window(3).mask(n))
    np.testing.assert_array_equal(between(-1, 0).mask(4, n), causal_mask(4, n))
    assert between(-1, -1).mask(3).all()
    np.testing.assert_array_equal(dilated(3, 1).mask(n), window(3).mask(n))


def test_patterns_by_head_join_others(lib):
    pattern = per_head(window(2), blocks(2)) & causal | first(1)
    mask = lib.numpy(pattern.mask(3, 5, like=lib.array(np.zeros(1))))
    assert mask.shape == (2, 3, 5)
    for head, own in enumerate((window(2), blocks(2))):
        np.testing.assert_array_equal(mask[head], (own & causal | first(1)).mask(3, 5))


def test_positions_beyond_what_their_type_may_subtract(lib):
    for kind in (np.uint8, np.int8, np.int32):
        i, j = (lib.array(np.array(x, kind)) for x in ([[0], [100]], [0, 1, 127]))
        np.testing.assert_array_equal(lib.numpy(window(2)(i, j)), [[1, 1, 0], [0, 0, 0]])
        np.testing.assert_array_equal(lib.numpy(causal(i, j)), [[1, 0, 0], [1, 1, 0]])


def test_a_pattern_is_frozen_and_stands_in_sets():
    with pytest.raises(AttributeError):
        causal.expression = "acausal"
    assert len({window(2), window(2), window(3)}) == 2


@given(anything, st.integers(1, 8), st.integers(1, 9))
def test_a_receptive_field_is_every_way_through_the_layers(made, n, layers):
    mask = made[0].mask(n)
    reached = mask.tolist()
    for _ in range(layers - 1):
        reached = [[any(mask[i, m] and reached[m][j] for m in range(n)) for j in range(n)] for i in range(n)]
    np.testing.assert_array_equal(receptive_field(mask, layers), reached)
    assert receptive_field(torch.from_numpy(mask), layers).tolist() == reached


def test_a_receptive_field_after_very_many_layers(lib):
    turn = np.eye(3, dtype=bool)[[1, 2, 0]]  # back where it was after three layers
    got = lib.numpy(receptive_field(lib.array(turn), 3 * 10**30 + 1))
    np.testing.assert_array_equal(got, turn)


def test_two_layers_of_the_sparse_transformer_reach_all():
    local_or_strided = causal & (window(4) | strided(4))
    np.testing.assert_array_equal(receptive_field(local_or_strided.mask(16), 2), causal_mask(16))
    windows = receptive_field((causal & window(3)).mask(16), 5)
    np.testing.assert_array_equal(windows, window_mask(16, 5 * 2 + 1))
    heads = receptive_field(per_head(causal, first(1)).mask(4), 2)
    assert heads.shape == (2, 4, 4) and heads.dtype == bool


I = np.arange(3)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: window(0), ValueError, ["width must be at least 1", "0"]),
        (lambda: window(2.5), TypeError, ["width must be a whole number", "2.5"]),
        (lambda: between(-2, 0), ValueError, ["left must be at least 0, or -1", "-2"]),
        (lambda: between(0, True), TypeError, ["right must be a whole number", "True"]),
        (lambda: first(0), ValueError, ["n must be at least 1"]),
        (lambda: dilated(2, 0), ValueError, ["rate must be at least 1"]),
        (lambda: strided(0), ValueError, ["stride must be at least 1"]),
        (lambda: blocks("2"), TypeError, ["size must be a whole number", "'2'"]),
        (lambda: fixed(4, 2, 2), ValueError, ["group must lie in 0 .. 1", "block of 4", "got 2"]),
        (lambda: fixed(4, 1, -1), ValueError, ["group must lie in 0 .. 3", "got -1"]),
        (lambda: global_tokens([]), ValueError, ["positions must be one or more"]),
        (lambda: global_tokens([3, -1]), ValueError, ["at least 0", "-1"]),
        (lambda: global_tokens([0.5]), TypeError, ["positions must hold integers", "0.5"]),
        (lambda: per_head(), TypeError, ["per_head takes patterns"]),
        (lambda: per_head(causal, causal_mask(2)), TypeError, ["per_head takes patterns"]),
        (lambda: causal & causal_mask(2), TypeError, ["a pattern combines with patterns", "ndarray"]),
        (lambda: causal and window(2), TypeError, ["neither true nor false", "use &, | and ~"]),
        (lambda: causal or window(2), TypeError, ["neither true nor false"]),
        (lambda: not causal, TypeError, ["neither true nor false"]),
        (lambda: causal(I, 1), TypeError, ["j must be a NumPy array", "int"]),
        (lambda: causal(I, torch.arange(3)), TypeError, ["one library"]),
        (lambda: causal(I, I / 2), TypeError, ["j must hold positions", "float64"]),
        (lambda: causal.mask(0), ValueError, ["n_query must be at least 1"]),
        (lambda: causal.mask(2, align="left"), ValueError, ["align must be 'end' or 'start'", "left"]),
        (lambda: receptive_field(np.ones((2, 2)), 1), TypeError, ["mask must be boolean", "float64"]),
        (lambda: receptive_field(np.ones((2, 3), bool), 1), ValueError, ["(..., n, n)", "(2, 3)"]),
        (lambda: receptive_field(np.ones((2, 2), bool), 0), ValueError, ["layers must be at least 1"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
