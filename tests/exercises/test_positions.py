"""Lesson 10's exercises on positions: every right way accepted, every known mistake named."""

import math

import numpy as np
import pytest
import torch

from attnlib.exercises import check
from attnlib.exercises.positions import EXERCISES

JUDGES = {exercise.id: exercise.judge for exercise in EXERCISES}
NAMES = {"sinusoidal": "sinusoidal", "alibi": "alibi", "rope": "rope"}


# Right answers


def sinusoidal_by_loops(n_pos, d_model, base=10000.0):
    out = np.zeros((n_pos, d_model))
    for p in range(n_pos):
        for j in range(d_model):
            angle = p / base ** ((j - j % 2) / d_model)
            out[p, j] = math.cos(angle) if j % 2 else math.sin(angle)
    return out


def sinusoidal_in_float32(n_pos, d_model, base=10000.0):
    i = torch.arange(0, d_model, 2, dtype=torch.float32)
    angles = torch.arange(n_pos, dtype=torch.float32)[:, None] * torch.exp(-math.log(base) * i / d_model)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :d_model].numpy()


def sinusoidal_by_phase(n_pos, d_model, base=10000.0):
    j = np.arange(d_model)
    return np.sin(np.outer(np.arange(n_pos), base ** (-(j // 2) * 2 / d_model)) + j % 2 * np.pi / 2)


def alibi_by_loops(n_heads, n_query, n_key):
    out = np.zeros((n_heads, n_query, n_key))
    for h in range(n_heads):
        for i in range(n_query):
            for j in range(n_key):
                out[h, i, j] = -abs(n_key - n_query + i - j) / 2 ** (8 * (h + 1) / n_heads)
    return out


def alibi_by_a_start_and_a_ratio(n_heads, n_query, n_key):
    start = 2 ** -(2 ** -(math.log2(n_heads) - 3))
    i, j = np.mgrid[n_key - n_query : n_key, :n_key]
    return np.multiply.outer([start * start**h for h in range(n_heads)], np.minimum(i - j, j - i))


def alibi_in_float32(n_heads, n_query, n_key):
    slopes = np.float32(2) ** np.linspace(-8 / n_heads, -8, n_heads, dtype=np.float32)
    near = -np.arange(max(n_query, n_key), dtype=np.float32)
    table = near[abs(np.arange(n_key - n_query, n_key)[:, None] - np.arange(n_key))]
    return slopes.reshape(-1, 1, 1) * table


def rope_by_loops(x, positions, base=10000.0):
    out = x.clone()
    d = x.shape[-1]
    for l, p in enumerate(positions.tolist()):
        for i in range(d // 2):
            c, s = math.cos(p * base ** (-2 * i / d)), math.sin(p * base ** (-2 * i / d))
            a, b = x[..., l, 2 * i], x[..., l, 2 * i + 1]
            out[..., l, 2 * i] = a * c - b * s
            out[..., l, 2 * i + 1] = a * s + b * c
    return out


def rope_complex(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None].float() * base ** (-torch.arange(0, d, 2).float() / d)
    turned = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())
    turned = torch.view_as_real(turned * torch.polar(torch.ones_like(angles), angles))
    return turned.flatten(-2).to(x.dtype)


def rope_rotate_every_two(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = torch.outer(positions.float(), 1 / base ** (torch.arange(0, d, 2) / d)).repeat_interleave(2, -1)
    turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape)
    return (x * angles.cos() + turned * angles.sin()).type_as(x)


def rope_by_matrices(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions.double()[:, None] * base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    turn = torch.stack([torch.stack([angles.cos(), -angles.sin()], -1),
                        torch.stack([angles.sin(), angles.cos()], -1)], -2)          # (L, d/2, 2, 2)
    pairs = x.double().unflatten(-1, (-1, 2))
    return torch.einsum("liab,...lib->...lia", turn, pairs).flatten(-2).to(x.dtype)


def rope_float32_from_float16(x, positions, base=10000.0):
    out = rope_by_matrices(x.float() if x.dtype == torch.float16 else x, positions, base)
    return out


RIGHT = [("sinusoidal", f) for f in (sinusoidal_by_loops, sinusoidal_in_float32, sinusoidal_by_phase)] + [
    ("rope", f) for f in (rope_by_loops, rope_complex, rope_rotate_every_two, rope_by_matrices,
                          rope_float32_from_float16)
] + [("alibi", f) for f in (alibi_by_loops, alibi_by_a_start_and_a_ratio, alibi_in_float32)]


@pytest.mark.parametrize("exercise, answer", RIGHT)
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


PAIRS = [
    ("rope", {"pairs": "halves", "exponent": "single"}, "rotate_half and exponent_halved"),
    ("rope", {"turn": "clockwise", "place": "from_one"}, "clockwise and positions_shifted"),
    ("rope", {"order": "split", "place": "counted"}, "output_order and positions_ignored"),
    ("sinusoidal", {"layout": "halves", "place": "from_one"}, "halves and positions_from_one"),
    ("sinusoidal", {"exponent": "single", "shape": "transposed"}, "exponent_halved and transposed"),
    ("alibi", {"slope": "halved", "align": "start"}, "align_start and slopes_halve"),
    ("alibi", {"sign": 1, "slope": "from_zero"}, "bonus and heads_from_zero"),
]


def base_kept(n_pos, d_model, base=10000.0, tables={}):  # noqa: B006
    if (n_pos, d_model) not in tables:
        tables[n_pos, d_model] = sinusoidal_by_phase(n_pos, d_model, base)
    return tables[n_pos, d_model].copy()


def cosines_uncut(n_pos, d_model, base=10000.0):
    angles = np.arange(n_pos)[:, None] / base ** (np.arange(0, d_model, 2) / d_model)
    out = np.zeros((n_pos, d_model))
    out[:, ::2], out[:, 1::2] = np.sin(angles), np.cos(angles)
    return out


def cosines_uncut_in_torch(n_pos, d_model, base=10000.0):
    angles = torch.arange(n_pos)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    out = torch.zeros(n_pos, d_model)
    out[:, ::2], out[:, 1::2] = angles.sin(), angles.cos()
    return out.numpy()


def first_width():
    kept = []

    def sinusoidal(n_pos, d_model, base=10000.0):
        kept[:] = kept or [base ** (-(c // 2) * 2 / d_model) for c in range(d_model)]
        more = [base ** (-(c // 2) * 2 / d_model) for c in range(len(kept), d_model)]
        angles = np.outer(np.arange(n_pos), (kept + more)[:d_model])
        return np.sin(angles + np.arange(d_model) % 2 * np.pi / 2)

    return sinusoidal


def four_axes(x, positions, base=10000.0):
    while x.ndim < 4:
        x = x[None]
    b, heads, length, width = x.shape
    return rope_by_matrices(x, positions, base)


def always_float32(x, positions, base=10000.0):
    return rope_by_matrices(x, positions, base).float()


def half_angles(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = (positions[:, None] * base ** (-torch.arange(0, d, 2) / d)).to(x.dtype)
    c, s = angles.cos(), angles.sin()
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)


def in_place(x, positions, base=10000.0):
    a = x[..., ::2].clone()
    x[..., ::2] = rope_by_matrices(x, positions, base)[..., ::2]
    return x + 0 * a.sum()


def shortcut_at_zero(x, positions, base=10000.0):
    return x.clone() if positions[0] == 0 else rope_by_matrices(x, positions, base)


def by_data(x, positions, base=10000.0):
    return rope_by_matrices(x.data, positions, base)


def short_table(x, positions, base=10000.0):
    return rope_by_matrices(x, positions.clamp(-4096, 4095), base)


def making_three(n_heads, n_query, n_key):
    distance = np.subtract.outer(range(n_query), range(n_key))
    return -np.multiply.outer(0.5 ** np.arange(1, n_heads + 1), distance)


WRONG = [
    ("sinusoidal", cosines_uncut, "odd_width_refused", "one more sine"),
    ("sinusoidal", base_kept, "base_fixed", "earlier call"),
    ("sinusoidal", lambda n, d, base=10000.0: sinusoidal_by_phase(min(n, 512), d, base), None, "too far"),
    ("sinusoidal", lambda n, d, base=10000.0: 2 * sinusoidal_by_phase(n, d, base), None, "sum to 4"),
    ("sinusoidal", lambda n: n, "signature", "d_model"),
    ("sinusoidal", lambda n, d, base=1e4: torch.tensor(sinusoidal_by_phase(n, d, base)), None,
     "only they come as a torch tensor"),
    ("sinusoidal", lambda n, d, base=1e4: sinusoidal_by_phase(n, d, base**0.8), None,
     "What is its exponent?"),
    ("sinusoidal", first_width(), None, "The frequencies are those of width 8"),
    ("sinusoidal", lambda n, d, base=1e4: sinusoidal_by_phase(40, d, base)[np.arange(n) % 40], None,
     "at position 40, for the first time"),
    ("sinusoidal", cosines_uncut_in_torch, "base_fixed and odd_width_refused", "Two things at once"),
    ("alibi", lambda h, q: np.zeros((h, q, q)), "signature", "n_key"),
    ("alibi", lambda h, q, k: torch.tensor(alibi_by_loops(h, q, k)), None, "come as a torch tensor"),
    ("alibi", lambda h, q, k: alibi_by_loops(h, q, k) - 0.3, None, "has distance 0 and pays nothing"),
    ("alibi", lambda h, q, k: np.maximum(alibi_by_loops(h, q, k), -2), None, "Which factor is off"),
    ("alibi", making_three, None, "Keys after their query get a bonus"),
    ("alibi", lambda h, q, k: np.zeros((h, q, k)), "nothing", "no key pays"),
    ("alibi", lambda h, q, k: alibi_by_loops(h, q, k) * 1.5, None, "the slope or the distance"),
    ("rope", four_axes, "axes_added", "more axes than x"),
    ("rope", lambda x, p, base=1e4: rope_by_matrices(x, p.clamp(-99, 99), base), None,
     "The token at position 250 turns its pair 0"),
    ("rope", always_float32, "dtype", "float64"),
    ("rope", half_angles, "half_precision", "in x's type"),
    ("rope", in_place, "changes_input", "argument number 1"),
    ("rope", shortcut_at_zero, None, "beside one that stands at 0"),
    ("rope", by_data, "no_gradient", "left torch"),
    ("rope", short_table, None, "a table ends"),
    ("rope", lambda x, p, base=1e4: 1.2 * rope_by_matrices(x, p, base), None, "At position 0 the angle is 0"),
    ("rope", lambda x, p, base=1e4: x, "unchanged", "as it was"),
    ("rope", lambda x, p, base=1e4: x.flip(-1) * 0.5, None, "must come back as it was"),
]

ODD = [  # of a tensor or an array
    lambda right: right * 2 if isinstance(right, np.ndarray) else right.numpy(),
    lambda right: None, lambda right: "text", lambda right: right.tolist(), lambda right: (right, right),
    lambda right: right > 0, lambda right: right[None], lambda right: right * float("nan"),
    lambda right: torch.as_tensor(right).detach().to_sparse(),
    lambda right: torch.as_tensor(right).to(torch.complex64), lambda right: print(right),
    lambda right: torch.as_tensor(right).detach().numpy().astype(object),
]


# Mistakes


def making(exercise, **choices):
    """A function that makes the mistake; a wrapper, for the engine may not recognise it by identity."""
    return lambda *args: JUDGES[exercise].compute(*args, **choices)


@pytest.mark.parametrize(
    "exercise, mistake", [(id, mistake) for id in JUDGES for mistake in JUDGES[id].mistakes],
    ids=lambda x: getattr(x, "name", x),
)
def test_every_mistake_is_named(exercise, mistake):
    verdict = check(exercise, making(exercise, **mistake.choices), show=False)
    assert verdict.passed is False
    assert verdict.misconception == mistake.name, verdict.message
    assert mistake.hint in verdict.message
    assert ("another convention" in verdict.message) == mistake.convention


@pytest.mark.parametrize("exercise, choices, names", PAIRS)
def test_two_mistakes_together_are_named(exercise, choices, names):
    verdict = check(exercise, making(exercise, **choices), show=False)
    assert verdict.misconception == names, verdict.message


@pytest.mark.parametrize("exercise, answer, name, words", WRONG)
def test_wrong_answers_are_told(exercise, answer, name, words):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message
    assert words in verdict.message


# Odd answers


@pytest.mark.parametrize("exercise", JUDGES)
@pytest.mark.parametrize("odd", ODD)
def test_odd_results_are_judged(exercise, odd):
    def answer(*args):
        return odd(JUDGES[exercise].compute(*args))

    assert check(exercise, answer, show=False).passed is False


@pytest.mark.parametrize("exercise", JUDGES)
def test_a_function_that_always_raises_makes_no_known_mistake(exercise):
    def raises(*args):
        raise RuntimeError("of my own")

    verdict = check(exercise, raises, show=False)
    assert verdict.misconception is None
    assert "raised RuntimeError: of my own" in verdict.message


# Solution, hints, stub


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_the_solution_passes_and_the_stub_is_unanswered(exercise):
    names = {}
    exec(exercise.solution, names)
    assert check(exercise.id, names[NAMES[exercise.id]], show=False).passed is True
    assert len(exercise.hints) in (2, 3)

    def stub(*args):
        raise NotImplementedError

    assert check(exercise.id, stub, show=False).passed is None
