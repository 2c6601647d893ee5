"""Lesson 22: tokens of an image. Right ways accepted, every known mistake named."""

import numpy as np
import pytest
import torch
from judging import its_solution, making, mistakes, named, stub

from attnlib import MixFFN, relu_linear_attention
from attnlib.exercises import check
from attnlib.exercises.image_tokens import EXERCISES, _order_claims, image_grows


@pytest.mark.parametrize("exercise", [e.id for e in EXERCISES])
def test_solutions_pass_and_stubs_are_no_answer(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed
    assert check(exercise, stub if exercise == "token_convolution" else ..., show=False).passed is None


# ------------------------------------------------------------- a finer photograph


@pytest.mark.parametrize("answer", [(36, 1296, 36), [36.0, 1296, 36.0], np.array([36, 1296, 36])])
def test_the_factors(answer):
    assert image_grows(answer).passed


@pytest.mark.parametrize("answer, name", [
    ((9, 81, 9), "patches_forgotten"), ((18, 324, 18), "halved_once"), ((6, 36, 6), "one_side"),
    ((12, 144, 12), "one_side"), ((3, 9, 3), "one_side"), ((2.25, 5.0625, 2.25), "larger_patches"),
    ((1.5, 2.25, 1.5), "larger_patches"), ((4.5, 20.25, 4.5), "larger_patches"),
    ((1296, 36, 36), "tokens_squared"),
    ((7, 49, 7), "tokens"), ((36, 36, 36), "pairs_as_tokens"), ((36, 72, 36), "doubled"),
    ((36, 100, 36), "pairs"), ((36, 1296, 1296), "work_as_pairs"), ((36, 1296, 6), "work_as_side"),
    ((36, 1296, 1), "work_constant"), ((36, 1296, 72), "work"),
])  # fmt: skip
def test_wrong_factors_are_explained(answer, name):
    verdict = image_grows(answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("answer", [36, "36", (36, 1296), (36, np.inf, 36), None])
def test_what_is_no_three_numbers_is_unreadable(answer):
    assert image_grows(answer).readable is False


# ------------------------------------------------------------- tokens as an image


def by_loops(x, kernels, grid):
    H, W = grid
    out = np.zeros_like(x)
    for i in range(H):
        for j in range(W):
            for a in range(3):
                for b in range(3):
                    row, column = i + a - 1, j + b - 1
                    if 0 <= row < H and 0 <= column < W:
                        out[i * W + j] += kernels[:, a, b] * x[row * W + column]
    return out


def by_torch(x, kernels, grid):
    image = torch.tensor(x).T.unflatten(-1, grid)[None]
    out = torch.nn.functional.conv2d(image, torch.tensor(kernels)[:, None], padding=1, groups=x.shape[1])
    return out[0].flatten(1).T.numpy()


def features_last(x, kernels, grid):
    image = np.pad(x.reshape(*grid, -1), ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (0, 1))  # (H, W, d, 3, 3)
    return np.einsum("hwcab,cab->hwc", windows, kernels).reshape(x.shape)


@pytest.mark.parametrize("way", [by_loops, by_torch, features_last])
def test_right_ways_are_accepted(way):
    verdict = check("token_convolution", way, show=False)
    assert verdict.passed, verdict.message


@pytest.mark.parametrize("exercise, mistake", mistakes("token_convolution"),
                         ids=lambda m: getattr(m, "name", m))  # fmt: skip
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


def along_the_line(x, kernels, grid):
    """Neighbours by their number in the sequence, wherever a row ends."""
    out, n = np.zeros_like(x), len(x)
    for t in range(n):
        for a in range(3):
            for b in range(3):
                u = t + (a - 1) * grid[1] + b - 1
                if 0 <= u < n:
                    out[t] += kernels[:, a, b] * x[u]
    return out


def with_negative_indices(x, kernels, grid):
    """An IndexError is taken for the edge; -1 raises none."""
    image, out = x.reshape(*grid, -1), np.zeros_like(x)
    for t in range(len(x)):
        i, j = divmod(t, grid[1])
        for a in range(3):
            for b in range(3):
                if i + a - 1 < grid[0] and j + b - 1 < grid[1]:
                    out[t] += kernels[:, a, b] * image[i + a - 1, j + b - 1]
    return out


def inside_alone(x, kernels, grid):
    windows = np.lib.stride_tricks.sliding_window_view(x.reshape(*grid, -1), (3, 3), (0, 1))
    return np.einsum("hwcab,cab->hwc", windows, kernels).reshape(-1, x.shape[1])


@pytest.mark.parametrize("way, name", [
    (along_the_line, "rows_run_on"), (with_negative_indices, "negative_index"), (inside_alone, "no_padding"),
])  # fmt: skip
def test_loops_that_lose_the_edge_are_named(way, name):
    verdict = check("token_convolution", way, show=False)
    assert verdict.misconception == name, verdict.message


def printed(x, kernels, grid):
    """The function as the lesson prints it."""
    H, W = grid
    image = x.reshape(x.shape[-1], H, W)
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)), mode="wrap")
    out = 0
    for i in range(3):
        for j in range(3):
            out = out + kernels[:, j, i, None, None] * padded[:, i : i + H, j : j + W]
    return out.reshape(x.shape)


def test_the_lessons_function_has_three_faults():
    verdict = check("token_convolution", printed, show=False)
    assert verdict.misconception == "unmended", verdict.message


@pytest.mark.parametrize("left, names", [
    ({"edge": "wrap", "kernel": "transposed"}, {"wrapped", "kernel_transposed"}),
    ({"enter": "reshape", "leave": "reshape", "edge": "wrap"}, {"not_transposed", "wrapped"}),
    ({"enter": "reshape", "leave": "reshape", "kernel": "transposed"},
     {"not_transposed", "kernel_transposed"}),
])  # fmt: skip
def test_two_faults_that_are_left_are_both_named(left, names):
    verdict = check("token_convolution", making("token_convolution", **left), show=False)
    assert set(verdict.misconception.split(" and ")) == names, verdict.message


# ------------------------------------------------------------- order


@pytest.mark.parametrize("answer", ["ABEF", "fbea", "A, B, E, F"])
def test_the_right_letters(answer):
    assert _order_claims(answer).passed


@pytest.mark.parametrize("answer, name", [
    ("BEF", "equivariant"), ("AEF", "invariant"), ("ABCEF", "causal"), ("ABDEF", "padding"),
    ("ABF", "positions_by_place"), ("ABE", "local"),
])  # fmt: skip
def test_wrong_letters_are_explained(answer, name):
    verdict = _order_claims(answer)
    assert verdict.passed is False and verdict.misconception == name


def test_the_statements_hold_as_the_judge_says():
    rng = np.random.default_rng(0)
    q, k, v, positions = rng.normal(size=(4, 20, 6))
    order = rng.permutation(20)

    def causal(q, k, v):
        weights = np.tril(np.maximum(q, 0) @ np.maximum(k, 0).T)
        return weights @ v

    assert np.allclose(
        relu_linear_attention(q[order], k[order], v[order]), relu_linear_attention(q, k, v)[order]
    )
    assert not np.allclose(causal(q[order], k[order], v[order]), causal(q, k, v)[order])  # C
    added = relu_linear_attention(q[order] + positions, k[order] + positions, v[order])
    assert not np.allclose(added, relu_linear_attention(q + positions, k + positions, v)[order])  # E
    torch.manual_seed(0)
    net = MixFFN(3)
    wall = net(torch.ones(1, 3, 9, 9))[0].detach()
    assert not torch.allclose(wall[:, 0, 0], wall[:, 4, 4])  # D
    one = torch.ones(1, 3, 9, 9)
    one[..., 1, 1] = 5
    out = net(one)[0].detach()
    assert torch.allclose(out[:, 4, 4], out[:, 6, 5]) and torch.allclose(out[:, 4, 4], wall[:, 4, 4])  # F
