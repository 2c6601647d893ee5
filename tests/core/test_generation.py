import numpy as np
import pytest
import torch

from attnlib import generate, sampling_probabilities

TABLE = np.random.default_rng(0).normal(size=(7, 7, 7))


class Remembering:
    """The next token's scores depend on the last two tokens; padding is never read."""

    def __init__(self, lib):
        self.lib, self.rows, self.calls = lib, None, []

    def __call__(self, tokens, mask):
        tokens = self.lib.numpy(tokens)
        real = np.ones(tokens.shape, bool) if mask is None else self.lib.numpy(mask)
        self.calls.append((tokens.shape, mask is None))
        self.rows = self.rows or [[] for _ in tokens]
        for row, new, keep in zip(self.rows, tokens, real, strict=True):
            row.extend(new[keep].tolist())
        return self.lib.array(np.array([TABLE[([0] + row)[-2], row[-1]] for row in self.rows]))


def alone(prompt, n_new, pick):
    row = list(prompt)
    for _ in range(n_new):
        row.append(pick(TABLE[([0] + row)[-2], row[-1]]))
    return row[len(prompt) :]


def test_takes_the_most_probable_token_each_time(lib):
    step = Remembering(lib)
    got = generate(step, lib.array(np.array([[1, 2, 3], [6, 5, 4]])), 5)
    wanted = [alone(p, 5, lambda s: int(s.argmax())) for p in ([1, 2, 3], [6, 5, 4])]
    assert got.tolist() == wanted
    assert step.calls == [((2, 3), True)] + 4 * [((2, 1), True)]  # nothing is computed in vain


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_each_sequence_of_a_batch_gets_what_it_gets_alone(lib, side, temperature):
    prompts, seeds = [[3], [1, 2, 6, 4], [5, 5]], [4, 9, 0]
    settings = {"temperature": temperature, "top_k": 4, "top_p": 0.9}
    tokens, mask = np.zeros((3, 4), int), np.zeros((3, 4), bool)
    for i, prompt in enumerate(prompts):
        at = slice(4 - len(prompt), 4) if side == "left" else slice(len(prompt))
        tokens[i, at], mask[i, at] = prompt, True
    batch = generate(Remembering(lib), lib.array(tokens), 6, mask=lib.array(mask), seed=seeds, **settings)
    for prompt, seed, row in zip(prompts, seeds, batch, strict=True):
        by_itself = generate(Remembering(lib), lib.array(np.array([prompt])), 6, seed=seed, **settings)
        assert by_itself[0].tolist() == row.tolist()


def test_draws_by_the_probabilities_of_each_step(lib):
    rng = np.random.default_rng(3)

    def pick(scores):
        p = sampling_probabilities(scores, temperature=0.7, top_k=3)
        return int((np.cumsum(p) <= rng.random()).sum())

    wanted = alone([2], 8, pick)
    got = generate(Remembering(lib), lib.array(np.array([[2]])), 8, temperature=0.7, top_k=3, seed=3)
    assert got.tolist() == [wanted]


def test_one_integer_stands_for_the_next_ones_too(lib):
    prompts = lib.array(np.array([[1], [1], [1]]))
    a = generate(Remembering(lib), prompts, 9, temperature=1.0, seed=5)
    assert a.tolist() == generate(Remembering(lib), prompts, 9, temperature=1.0, seed=[5, 6, 7]).tolist()
    assert a[0].tolist() != a[1].tolist()
    free = generate(Remembering(lib), prompts, 9, temperature=1.0)
    assert free.tolist() != generate(Remembering(lib), prompts, 9, temperature=1.0).tolist()


def test_stops_where_all_have_ended_and_repeats_what_ended_one(lib):
    def counting(tokens, mask):
        return lib.array(np.eye(10)[(lib.numpy(tokens)[:, -1] + 1) % 10])

    prompts = lib.array(np.array([[1], [4]]))
    for stop in (6, [6], {6}, np.int64(6)):
        assert generate(counting, prompts, 9, stop=stop).tolist() == [[2, 3, 4, 5, 6], [5, 6, 6, 6, 6]]
    assert generate(counting, prompts, 9, stop=(3, 7)).tolist() == [[2, 3, 3], [5, 6, 7]]
    assert generate(counting, prompts, 2, stop=6).tolist() == [[2, 3], [5, 6]]
    assert generate(counting, prompts, 2).tolist() == [[2, 3], [5, 6]]


T = np.array([[1, 2]])


def uniform(tokens, mask):
    return np.zeros((len(tokens), 7))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: generate(uniform, [[1]], 2), TypeError, ["tokens must be a NumPy array", "list"]),
        (lambda: generate(uniform, T * 1.0, 2), TypeError, ["tokens must hold integer ids", "float64"]),
        (lambda: generate(uniform, T[0], 2), ValueError, ["tokens must have shape (B, L)", "(2,)"]),
        (lambda: generate(uniform, T, 0), ValueError, ["n_new must be at least 1"]),
        (lambda: generate(uniform, T, 2, mask=T), ValueError, ["mask must be boolean", "int64"]),
        (lambda: generate(uniform, T, 2, mask=T[:, :1] > 0), ValueError, ["shape of tokens", "(1, 1)"]),
        (lambda: generate(uniform, T, 2, mask=torch.ones(1, 2) > 0), TypeError, ["one library"]),
        (lambda: generate(uniform, T, 2, stop="x"), TypeError, ["stop must hold integer ids", "'x'"]),
        (lambda: generate(uniform, T, 2, seed=[1, 2]), ValueError, ["seed must be", "or 1 of them"]),
        (lambda: generate(uniform, T, 2, seed=1.5), ValueError, ["seed must be one integer", "1.5"]),
        (lambda: generate(uniform, T, 2, seed=[0.5]), TypeError, ["seed must be a whole number", "0.5"]),
        (lambda: generate(uniform, T, 2, temperature=-1), ValueError, ["temperature must be at least 0"]),
        (lambda: generate(lambda t, m: np.zeros((1, 2, 7)), T, 2), ValueError, ["step must", "(1, 2, 7)"]),
        (lambda: generate(lambda t, m: None, T, 2), ValueError, ["step must give scores (1, V)", "NoneType"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
