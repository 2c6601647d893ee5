import numpy as np
import pytest

from attnlib import teacher_forcing


def test_each_position_is_asked_for_the_next_token(lib):
    tokens = np.array([[1, 7, 8, 9, 2], [1, 5, 2, 0, 0]])
    inputs, targets = teacher_forcing(lib.array(tokens))
    np.testing.assert_array_equal(lib.numpy(inputs), tokens[:, :-1])
    np.testing.assert_array_equal(lib.numpy(targets), tokens[:, 1:])
    inputs, targets = teacher_forcing(lib.array(tokens), 0)
    np.testing.assert_array_equal(lib.numpy(targets), tokens[:, 1:])


@pytest.mark.parametrize("pad_id", [0, 3, -1])
@pytest.mark.parametrize("left, right", [(0, 2), (2, 0), (1, 2), (3, 3)])
def test_a_padded_sentence_has_the_pairs_that_it_has_alone(lib, pad_id, left, right):
    sentence = [1, 7, 8, 2]
    padded = lib.array(np.array([[pad_id] * left + sentence + [pad_id] * right, [5] * (4 + left + right)]))
    inputs, targets = (lib.numpy(x)[0] for x in teacher_forcing(padded, pad_id))
    real = targets != pad_id
    assert inputs[real].tolist() == sentence[:-1] and targets[real].tolist() == sentence[1:]


def test_nothing_that_goes_in_is_changed(lib):
    tokens = lib.array(np.array([[0, 1, 7, 2]]))
    teacher_forcing(tokens, 0)
    assert lib.numpy(tokens).tolist() == [[0, 1, 7, 2]]


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: teacher_forcing([[1, 2]]), TypeError, "tokens must be a NumPy array or a torch tensor"),
        (lambda: teacher_forcing(np.ones((2, 3))), TypeError, "tokens must hold integer ids; got dtype"),
        (lambda: teacher_forcing(np.array([1, 2])), ValueError, r"\(B, L\) with L at least 2; got \(2,\)"),
        (lambda: teacher_forcing(np.array([[1]])), ValueError, r"L at least 2; got \(1, 1\)"),
        (lambda: teacher_forcing(np.array([[1, 2]]), 0.0), TypeError, "pad_id must be one integer or None"),
    ],
)
def test_errors_name_the_argument(call, error, says):
    with pytest.raises(error, match=says):
        call()
