import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import causal_mask, padding_mask, window_mask

lengths = st.integers(1, 9)


@given(lengths, lengths)
def test_causal_masks_by_their_definition(n_query, n_key):
    end, start = causal_mask(n_query, n_key), causal_mask(n_query, n_key, align="start")
    assert end.shape == start.shape == (n_query, n_key) and end.dtype == start.dtype == bool
    for i in range(n_query):
        for j in range(n_key):
            assert end[i, j] == (j <= i + n_key - n_query)
            assert start[i, j] == (j <= i)


def test_causal_masks_agree_with_the_golden_file(golden):
    g = golden("sdpa_masks")
    np.testing.assert_array_equal(causal_mask(5, 7), g["mask_lower_right"])
    np.testing.assert_array_equal(causal_mask(5, 7, align="start"), g["mask_upper_left"])


def test_causal_mask_is_square_by_default_and_may_have_empty_rows():
    np.testing.assert_array_equal(causal_mask(4), np.tri(4, dtype=bool))
    np.testing.assert_array_equal(causal_mask(5, 3).any(-1), [False, False, True, True, True])


def test_masks_of_more_positions_than_a_byte_counts():
    np.testing.assert_array_equal(causal_mask(300, 200), np.tri(300, 200, -100, dtype=bool))
    np.testing.assert_array_equal(causal_mask(200, 300), np.tri(200, 300, 100, dtype=bool))
    far = np.tri(300, dtype=bool) & ~np.tri(300, k=-130, dtype=bool)
    np.testing.assert_array_equal(window_mask(300, 130), far)


@given(lengths, st.integers(1, 12))
def test_window_masks_by_their_definition(n, window):
    mask = window_mask(n, window)
    assert mask.shape == (n, n) and mask.dtype == bool
    for i in range(n):
        assert np.flatnonzero(mask[i]).tolist() == list(range(max(0, i - window + 1), i + 1))


def test_padding_left_right_ragged_none_and_nothing_else(lib):
    tokens = np.array([[0, 0, 7, 8], [7, 8, 0, 0], [7, 0, 8, 0], [5, 6, 7, 8], [0, 0, 0, 0]])
    mask = padding_mask(lib.array(tokens))
    assert tuple(mask.shape) == (5, 1, 1, 4)
    np.testing.assert_array_equal(lib.numpy(mask)[:, 0, 0], tokens != 0)
    np.testing.assert_array_equal(lib.numpy(padding_mask(lib.array(tokens), -1)).all(), True)
    np.testing.assert_array_equal(lib.numpy(padding_mask(lib.array(tokens), 7))[:, 0, 0], tokens != 7)


@pytest.mark.parametrize("pad_id", [-5, 0, 1, 7, 256, 2048, 65536, 2**24, 10**9, 2**53])
def test_ids_of_any_size_are_told_apart(lib, pad_id):
    tokens = np.array([[0, 1, 2, 3, 4]]) + pad_id
    tokens = np.concatenate([tokens, tokens - 2, pad_id + 2 ** np.array([[8, 16, 32, 40, 60]])])
    mask = lib.numpy(padding_mask(lib.array(tokens), pad_id))
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask[:, 0, 0], tokens != pad_id)
    if pad_id == 0:
        np.testing.assert_array_equal(lib.numpy(padding_mask(lib.array(tokens))), mask)


def test_an_id_that_no_token_can_hold_hides_nothing(lib):
    tokens = lib.array(np.arange(256, dtype=np.uint8)[None])
    for pad_id in (256, -1, 300, 10**30):
        assert lib.numpy(padding_mask(tokens, pad_id)).all()


def test_masks_combine(lib):
    tokens = lib.array(np.array([[4, 4, 0]]))
    both = padding_mask(tokens) & causal_mask(3, like=tokens)
    expected = [[True, False, False], [True, True, False], [True, True, False]]
    np.testing.assert_array_equal(lib.numpy(both)[0, 0], expected)
    window = causal_mask(3, like=tokens) & ~window_mask(3, 2, like=tokens)
    np.testing.assert_array_equal(lib.numpy(window), np.tri(3, k=-2, dtype=bool))


def test_like_chooses_library_and_device():
    assert isinstance(causal_mask(2), np.ndarray)
    mask = causal_mask(2, like=torch.zeros(1, device="meta"))
    assert mask.device.type == "meta" and mask.dtype == torch.bool
    assert window_mask(2, 1, like=torch.zeros(1)).tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: causal_mask(0), ValueError, ["n_query must be at least 1", "got 0"]),
        (lambda: causal_mask(3, -2), ValueError, ["n_key must be at least 1", "got -2"]),
        (lambda: causal_mask(torch.tensor(3.0)), TypeError, ["n_query must be a whole number", "3."]),
        (lambda: causal_mask(2.0), TypeError, ["n_query must be a whole number", "2.0"]),
        (lambda: causal_mask(True), TypeError, ["n_query must be a whole number", "True"]),
        (lambda: causal_mask(3, align="left"), ValueError, ["align", "'end' or 'start'", "'left'"]),
        (lambda: causal_mask(3, like=[1]), TypeError, ["like must be a NumPy array", "list"]),
        (lambda: window_mask(3, 0), ValueError, ["window must be at least 1", "got 0"]),
        (lambda: window_mask(None, 1), TypeError, ["n must be a whole number", "None"]),
        (lambda: padding_mask([[1, 0]]), TypeError, ["tokens must be", "list"]),
        (lambda: padding_mask(np.array([1, 0])), ValueError, ["tokens", "(B, L)", "(2,)"]),
        (
            lambda: padding_mask(np.zeros((2, 0), int)),
            ValueError,
            ["tokens", "not empty", "(2, 0)"],
        ),
        (lambda: padding_mask(np.array([[1.0]])), TypeError, ["tokens", "integer ids", "float64"]),
        (lambda: padding_mask(np.array([[1]]), np.array([0, 0])), TypeError, ["pad_id", "one integer"]),
        (lambda: padding_mask(torch.tensor([[1]]), torch.tensor(0.5)), TypeError, ["pad_id"]),
        (lambda: causal_mask(3, align=np.array(["end"])), ValueError, ["align", "'end' or 'start'"]),
        (lambda: padding_mask(np.array([[1]]), "0"), TypeError, ["pad_id", "one integer", "'0'"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
