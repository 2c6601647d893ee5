"""Lesson 16: suspects are what they are said to be, good tests pass, and a weak one is told why."""

import inspect
import json
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from attnlib.exercises import check, suspects
from attnlib.exercises.bug_hunt import EXERCISES
from attnlib.exercises.line_up import LineUp
from attnlib.exercises.suspects import CASES, Layer
from attnlib.exercises.watching import NEEDS

LESSON = Path(__file__).parents[2] / "notebooks" / "16_bug_hunt.ipynb"
GUILTY = [case for case in CASES if case.guilty]
INNOCENT = [case for case in CASES if not case.guilty]
EVERYBODY = {case.letter: case.suspect for case in CASES}


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def near(a, b):
    return torch.allclose(a, b, atol=1e-4)


def in_calls(layer, x, *cuts):
    cache = []
    return torch.cat([layer(part, None, cache) for part in x.split(cuts, 1)], 1)


# ------------------------------------------------------------- the suspects


def test_there_are_fourteen_guilty_and_four_innocent():
    assert (len(GUILTY), len(INNOCENT)) == (14, 4)
    assert len({case.name for case in CASES}) == 18
    assert all(set(case.needs) <= set(NEEDS) for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.letter)
def test_the_lesson_shows_the_code_that_is_judged(case):
    cells = json.loads(LESSON.read_text(encoding="utf-8"))["cells"]
    shown = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    code = inspect.getsource(case.suspect).rstrip()
    assert sum(code in cell for cell in shown) == 1
    assert len(code.splitlines()) <= 12


def at_words(kind, heads=4, groups=2, real=None, cuts=(2, 1), texts=None):
    """The outputs at words, of two calls in evaluation with dropout."""
    x = draw(3, 3, 16) if texts is None else texts
    layer, cache, parts, end = kind(16, heads, groups, 0.5).eval(), [], [], 0
    for part in x.split(cuts, 1):
        end += part.shape[1]
        parts.append(layer(part, None if real is None else real[:, :end], cache if len(cuts) > 1 else None))
    out = torch.cat(parts, 1)
    return out if real is None else out[real]


RAGGED = torch.tensor([[0, 1, 1], [1, 1, 1], [0, 0, 1]]) == 1


@pytest.mark.parametrize("case", GUILTY, ids=lambda case: case.letter)
def test_the_guilty_are_wrong_on_an_input_with_everything_in_it(case):
    try:
        out = at_words(case.suspect, real=RAGGED)
    except RuntimeError:      # shapes that do not fit
        assert case.letter in "FH"
        return
    whole = case.suspect(16, 4, 2)(draw(3, 3, 16), RAGGED)
    assert not near(out, at_words(Layer, real=RAGGED)) or not torch.isfinite(whole).all()


@pytest.mark.parametrize("case", INNOCENT, ids=lambda case: case.letter)
def test_the_innocent_keep_the_contract(case):
    x, other = draw(3, 3, 16), draw(3, 3, 16, seed=1)
    layer = case.suspect(16, 4, 2)
    if case.letter == "T":    # another layout: the same scores from reordered features
        from attnlib import rope_permutation

        healthy, order = Layer(16, 4, 2), rope_permutation(4, 4)
        with torch.no_grad():
            layer.w_q.copy_(healthy.w_q[:, order])
            layer.w_k.copy_(healthy.w_k[:, rope_permutation(4, 2)])
    else:
        healthy = Layer(16, 4, 2)
    for given in (x, other * 30):
        assert torch.allclose(layer(given, RAGGED), healthy(given, RAGGED), rtol=1e-3, atol=1e-3)
        assert torch.allclose(in_calls(layer, given, 1, 2), healthy(given), rtol=1e-3, atol=1e-3)


def test_the_healthy_layer_is_that_of_torch():
    layer, x = Layer(16, 4, 2, rotary=False), draw(3, 5, 16)
    q, k, v = ((x @ w).unflatten(-1, (-1, 4)).transpose(1, 2) for w in (layer.w_q, layer.w_k, layer.w_v))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert near(layer(x), out.transpose(1, 2).flatten(2) @ layer.w_o)
    layer(x, torch.zeros(3, 5) == 1).sum().backward()
    assert torch.isfinite(layer.w_q.grad).all()


def leaks(kind, heads):
    layer, x = kind(16, heads), draw(2, 5, 16)
    other = x.clone()
    other[:, 4] += 5
    return not near(layer(other)[:, :4], layer(x)[:, :4])


def only_the_first_key(kind):
    x = draw(1, 5, 16)
    try:
        steps = in_calls(kind(16, 4), x, 1, 1, 1, 1, 1)
        moved = []
        for place in range(5):
            other = x.clone()
            other[:, place] += 5
            moved.append(not near(in_calls(kind(16, 4), other, 1, 1, 1, 1, 1)[:, 4], steps[:, 4]))
    except RuntimeError:
        return False
    return near(kind(16, 4)(x), Layer(16, 4)(x)) and moved == [True] + 4 * [False]


def differs_in_evaluation(kind):
    layer = kind(16, 4, dropout=0.5).eval()
    return not near(layer(draw(1, 5, 16)), layer(draw(1, 5, 16)))


def nan_where_padded_at_the_beginning(kind):
    return bool(kind(16, 4)(draw(3, 3, 16), RAGGED).isnan().any())


def knows_its_neighbours(kind):
    return not near(kind(16, 4)(draw(3, 5, 16))[2:], kind(16, 4)(draw(3, 5, 16)[2:]))


def blind_to_order(kind):
    layer, x, other = kind(16, 4), draw(1, 3, 16), draw(1, 3, 16)
    other[:, 0] = draw(1, 16, seed=1)
    return near(layer(x)[:, 2], layer(x[:, [1, 0, 2]])[:, 2]) and not near(layer(x)[:, 2], layer(other)[:, 2])


def drifts_from_call_to_call(kind):
    layer, x = kind(16, 4), draw(1, 5, 16)
    steps, moved = in_calls(layer, x, 1, 1, 1, 1, 1), []
    for place in range(5):
        other = x.clone()
        other[:, place] += 5
        moved.append(not near(in_calls(layer, other, 1, 1, 1, 1, 1)[:, 4], steps[:, 4]))
    return near(layer(x), Layer(16, 4)(x)) and not near(steps, layer(x)) and all(moved)


def reads_padding_before_only(kind):
    layer, words, padding = kind(16, 4), draw(1, 3, 16), draw(1, 2, 16, seed=1)
    behind = layer(torch.cat([words, padding], 1), torch.tensor([[1, 1, 1, 0, 0]]) == 1)[:, :3]
    before = layer(torch.cat([padding, words], 1), torch.tensor([[0, 0, 1, 1, 1]]) == 1)[:, 2:]
    return near(behind, layer(words)) and not near(before, layer(words)) and before.isfinite().all()


def fits_by_chance(kind):
    real = torch.ones(5, 5).triu() == 1
    layer, healthy, x = kind(16, 4), Layer(16, 4), draw(5, 5, 16)
    if not near(layer(x), healthy(x)) or near(layer(x, real)[real], healthy(x, real)[real]):
        return False
    try:
        layer(x[:2], real[:2])
    except RuntimeError:
        return True
    return False


def last_is_zero(kind):
    layer, x, moved = kind(16, 4), draw(1, 5, 16), []
    for place in range(1, 5):
        other = x.clone()
        other[:, place] += 5
        moved.append(not near(layer(other)[:, 0], layer(x)[:, 0]))
    return near(layer(x)[:, 4], torch.zeros(1, 16)) and all(moved)


def too_short_but_the_last(kind):
    x = draw(1, 1, 16).expand(1, 5, 16)
    lengths = (kind(16, 4, rotary=False)(x).norm(dim=-1) / Layer(16, 4, rotary=False)(x).norm(dim=-1))[0]
    return near(lengths[4], torch.ones(())) and bool((lengths.diff() > 0.1).all())


def wrong_over_two_key_heads(kind):
    x = draw(1, 5, 16)
    return [near(kind(16, 4, n)(x), Layer(16, 4, n)(x)) for n in (4, 1, 2)] == [True, True, False]


@pytest.mark.parametrize("letter, symptom", [
    ("N", drifts_from_call_to_call),
    ("K", reads_padding_before_only),
    ("H", fits_by_chance),
    ("R", last_is_zero),
    ("Q", too_short_but_the_last),
    ("E", wrong_over_two_key_heads),
    ("A", lambda kind: leaks(kind, 4) and not leaks(kind, 1)),
    ("G", only_the_first_key),
    ("P", differs_in_evaluation),
    ("L", nan_where_padded_at_the_beginning),
    ("F", knows_its_neighbours),
    ("S", blind_to_order),
])  # fmt: skip
def test_each_symptom_fits_one_suspect(letter, symptom):
    with torch.random.fork_rng():
        assert [name for name, kind in EVERYBODY.items() if symptom(kind)] == [letter]


# ------------------------------------------------------------- names for symptoms


@pytest.mark.parametrize("answer", ["AGPLFS", "agplfs", "A G P L F S", "A, G, P, L, F, S"])
def test_six_letters_are_read_in_any_dress(answer):
    assert check("name_the_fault", answer, show=False).passed is True


@pytest.mark.parametrize("answer, misconception, words", [
    ("RGPLFS", "symptom_1_R", "one head would leak"),
    ("QGPLFS", "symptom_1_Q", "denominator"),
    ("ANPLFS", "symptom_2_N", "wrong distances"),
    ("AGFLFS", "symptom_3_F", "same twice"),
    ("AGPKFS", "symptom_4_K", "stay finite"),
    ("AGPLHS", "symptom_5_H", "padding only"),
    ("AGPLFT", "symptom_6_T", "T sees the order"),
    ("AGPLFR", "symptom_6_R", "sees nothing"),
    ("DGPLFS", "innocent_D", "innocent"),
    ("BGPLFS", "symptom_1", "side by side"),
])  # fmt: skip
def test_a_wrong_letter_is_excluded_by_half_a_sentence(answer, misconception, words):
    verdict = check("name_the_fault", answer, show=False)
    assert verdict.passed is False and verdict.misconception == misconception, verdict
    assert words in verdict.message and verdict.message.startswith("5 of 6") and verdict.slip


@pytest.mark.parametrize("answer, misconception, words", [
    ("NKHRQE", None, "All six"),
    ("GKHRQE", "symptom_1_G", "first key only"),
    ("NLHRQE", "symptom_2_L", "belongs to the padding"),
    ("NKFRQE", "symptom_3_F", "without padding too"),
    ("NKHAQE", "symptom_4_A", "how many there are"),
    ("NKHRCE", "symptom_5_C", "too long"),
    ("NKHRQB", "symptom_6_B", "over four key heads"),
    ("NKHRQS", "symptom_6", "in blocks"),
    ("MKHRQE", "innocent_M", "innocent"),
])  # fmt: skip
def test_six_more_are_told_by_what_goes_well(answer, misconception, words):
    verdict = check("name_six_more", answer, show=False)
    assert verdict.passed is (misconception is None) and verdict.misconception == misconception
    assert words in verdict.message


@pytest.mark.parametrize("answer", ["AGPLF", "AGPLFI", 7, ["A"], "", {}, None.__class__, b"AGPLFS"])
def test_what_is_no_six_letters_is_no_try(answer):
    verdict = check("name_the_fault", answer, show=False)
    assert verdict.passed is False and verdict.readable is False


# ------------------------------------------------------------- the least padding


@pytest.mark.parametrize("answer", [
    [[0, 1]], ((0, 1),), torch.tensor([[0, 1]]), torch.tensor([[False, True]]), [[False, True]],
])
def test_padding_before_a_word_is_the_least(answer):
    assert check("smallest_padding", answer, show=False).passed is True


@pytest.mark.parametrize("answer, misconception", [
    ([[1, 0]], "padding_at_the_end"),
    ([[1, 1, 0], [1, 1, 1]], "padding_at_the_end"),
    ([[0, 1], [1, 1]], "not_the_least"),
    ([[0, 0, 1]], "not_the_least"),
    ([[1, 1]], "no_padding"),
    ([[0, 0]], "no_word"),
    ([[0], [1]], "not_shown"),
    ([[0, 1] * 600], "too_large"),
])
def test_other_padding_is_told_what_it_lacks(answer, misconception):
    verdict = check("smallest_padding", answer, show=False)
    assert verdict.passed is False and verdict.misconception == misconception, verdict


@pytest.mark.parametrize("answer", [[0, 1], [[0, 2]], [[0, 1], [1]], [], [[]], "01", 3, [[0.5, 1]], {}])
def test_what_is_no_table_of_bits_is_no_try(answer):
    verdict = check("smallest_padding", answer, show=False)
    assert verdict.passed is False and verdict.readable is False


# ------------------------------------------------------------- tests of tests

TESTS = {exercise.id: exercise for exercise in EXERCISES if exercise.kind == "test"}


def solution(name):
    space = {}
    exec(TESTS[name].solution, space)
    return space["answer"]


def by_loops(Suspect):
    """Every output by hand, causal, in loops."""
    layer, x = Suspect(12, 6, 3, rotary=False), draw(1, 4, 12)
    q, k, v = (x[0] @ w for w in (layer.w_q, layer.w_k, layer.w_v))
    rows = []
    for i in range(4):
        row = []
        for h in range(6):
            g = h // 2
            scores = torch.stack([q[i, 2 * h : 2 * h + 2] @ k[j, 2 * g : 2 * g + 2] for j in range(i + 1)])
            weights = (scores / 2**0.5).softmax(0)
            row.append(sum(w * v[j, 2 * g : 2 * g + 2] for j, w in enumerate(weights)))
        rows.append(torch.cat(row))
    return bool((layer(x)[0] - torch.stack(rows) @ layer.w_o).abs().max() < 1e-4)


def by_gradients(Suspect):
    """Who may depend on whom, by derivatives."""
    x = draw(3, 3, 8).requires_grad_()
    real = torch.tensor([[0, 1, 1], [1, 1, 1], [0, 0, 1]]) == 1
    out = Suspect(8, 2)(x, real)
    if out.isnan().any():
        return False
    for b in range(3):
        for i in range(3):
            (grad,) = torch.autograd.grad(out[b, i].sum(), x, retain_graph=True)
            seen = grad.abs().sum(-1) > 0
            allowed = torch.zeros(3, 3) == 1
            allowed[b, : i + 1] = real[b, : i + 1]
            if real[b, i] and (seen & ~allowed).any():
                return False
    return True


def one_by_one(Suspect, rotary=False):
    layer, x = Suspect(8, 4, 1, rotary=rotary), draw(1, 4, 8)
    return near(in_calls(layer, x, 1, 1, 1, 1), layer(x))


def every_word_is_read(Suspect):
    """Of a continued text the last output depends on each word; at wrong distances it does too."""
    layer, x = Suspect(8, 2), draw(1, 4, 8).requires_grad_()
    in_calls(layer, x, 3, 1)[0, -1].sum().backward()
    return (x.grad[0].abs().sum(-1) > 0).all()


def six_calls(Suspect):
    layer = Suspect(16, 4, 2, dropout=0.5).eval()
    assert padding(Suspect, RAGGED) and hand(Suspect)
    assert near(in_calls(layer, X, 1, 2), layer(X))


def in_other_dress(Suspect):
    """Double precision, other matrices, a NumPy truth, a word on the screen and an error of its own."""
    print("a learner prints")
    np.random.seed(1)
    layer = Suspect(12, 6, n_groups=3, rotary=False).double()
    with torch.no_grad():
        layer.w_o.copy_(torch.eye(12))
    x = draw(1, 4, 12).double()
    q, k, v = ((x @ w).unflatten(-1, (-1, 2)).transpose(1, 2) for w in (layer.w_q, layer.w_k, layer.w_v))
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    if not np.allclose(layer(x).detach(), wanted.transpose(1, 2).flatten(2).detach(), atol=1e-9):
        raise NotImplementedError
    return np.bool_(True)


SOLUTIONS = {name: solution(name) for name in TESTS}
GOOD = [*SOLUTIONS.items(), ("hand_test", by_loops), ("sight_test", by_gradients), ("cache_test", one_by_one),
        ("cache_test", every_word_is_read), ("hand_test", in_other_dress)]


@pytest.mark.parametrize("name, test", GOOD)
def test_a_good_test_passes_in_time(name, test):
    begun = time.process_time()
    verdict = check(name, test, show=False)
    assert verdict.passed is True, verdict.message
    assert time.process_time() - begun < 10      # half a second on an idle machine


X = draw(3, 3, 16)


def shape_alone(Suspect):
    return Suspect(16, 4, 2)(X).shape == X.shape


def finite_alone(Suspect):
    return bool(torch.isfinite(Suspect(16, 4, 2)(X, RAGGED)).all())


def with_itself(Suspect):
    return near(Suspect(16, 4, 2)(X), Suspect(16, 4, 2)(X))


def one_head(Suspect):
    return hand(Suspect, 1, 1)


def hand(Suspect, heads=4, groups=2, x=X, room=1e-4, like=None):
    layer, d = Suspect(16, heads, groups, rotary=False), 16 // heads
    q, k, v = (x[0] @ w for w in (layer.w_q, layer.w_k, layer.w_v))
    parts = []
    for h in range(heads):
        g = h // (heads // groups)
        scores = q[-1, h * d : h * d + d] @ k[:, g * d : g * d + d].T / d**0.5
        parts.append(scores.softmax(-1) @ v[:, g * d : g * d + d])
    out, wanted = layer(x[:1])[0, -1], torch.cat(parts) @ layer.w_o
    return like(out, wanted) if like else bool((out - wanted).abs().max() < room)


def padding(Suspect, real, texts=X):
    layer, other = Suspect(16, 4, 2), torch.where(real[..., None], texts, 9 * draw(*texts.shape, seed=2))
    out, changed = layer(texts, real), layer(other, real)
    return bool(torch.isfinite(out).all()) and near(out[real], changed[real])


def future(Suspect, x=X, heads=4):
    layer, other = Suspect(16, heads), x.clone()
    other[:, -1] += 9
    return near(layer(other)[:, :-1], layer(x)[:, :-1])


def neighbours(Suspect, place):
    return near(Suspect(16, 4)(X)[place : place + 1], Suspect(16, 4)(X[place : place + 1]))


def sight(Suspect, real=RAGGED, place=2, ahead=future):
    return padding(Suspect, real) and neighbours(Suspect, place) and ahead(Suspect)


def exact_enough(Suspect):
    return near(in_calls(Suspect(16, 4, 2), X, 2, 1), Suspect(16, 4, 2)(X))


def exact(Suspect):
    """Equal to the last bit, where two precisions differ by rounding on every machine."""
    return torch.equal(in_calls(Suspect(16, 4, 2), X, 2, 1), Suspect(16, 4, 2).double()(X.double()).float())


def with_places_of_its_own(Suspect):
    """A reference whose rotary pairs are neighbours."""
    layer = Suspect(16, 4)
    turned = [layer.split(X @ w) for w in (layer.w_q, layer.w_k)]
    angles = torch.arange(3)[:, None] * 10000.0 ** (-torch.arange(0, 4, 2) / 4)
    cos, sin = angles.cos(), angles.sin()
    pairs = [(part[..., ::2], part[..., 1::2]) for part in turned]
    turned = [torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2) for a, b in pairs]
    values = layer.split(X @ layer.w_v)
    out = torch.nn.functional.scaled_dot_product_attention(*turned, values, is_causal=True)
    return near(out.transpose(1, 2).flatten(2) @ layer.w_o, layer(X))


def known_to_be_right(Suspect):
    return near(Suspect(16, 4)(X), Layer(16, 4)(X))


def never_called(Suspect):
    return Suspect(16, 4) is not None


def demands_a_view(Suspect):
    return Suspect(16, 4).merge(draw(1, 4, 3, 4)).shape == (1, 3, 17)


def raises(Suspect):
    return Suspect(16, 4)(X).undefined


def by_name(Suspect):
    return Suspect.__name__ in ("Layer", *"DJMT")


def by_code(Suspect):
    return hand(Suspect, 4, 4) and ".repeat(" not in inspect.getsource(Suspect.share)


def by_class(Suspect):
    return Suspect in ONES


ONES = (Layer, suspects.D)


def with_its_ancestor(Suspect):
    return near(Suspect(16, 4, rotary=False)(X), Suspect.__mro__[-3](16, 4, rotary=False)(X))


def mends_the_class(Suspect):
    Suspect.drop = lambda self, weights: weights
    return near(Suspect(16, 4)(X), Suspect(16, 4)(X))


def computes_and_forgets(Suspect):
    hand(Suspect)


def swallows(Suspect):
    try:
        assert hand(Suspect)
    except AssertionError:
        pass


def true_in_any_case(Suspect):
    hand(Suspect)
    return True


def silences(Suspect):
    layer = Suspect(16, 4)
    with torch.no_grad():
        layer.w_v.zero_()
    return near(layer(X), 0 * X)


def in_half_precision(Suspect):
    return Suspect(16, 4, rotary=False).half()(X.half()).shape == X.shape


def endless(Suspect):
    while True:
        pass


def by_hand_scaled_first(Suspect, like):
    layer = Suspect(12, 1, rotary=False)
    q, k, v = (draw(3, 12) @ w for w in (layer.w_q, layer.w_k, layer.w_v))
    return like(layer(draw(1, 3, 12))[0, -1], (q[-1] / 12**0.5 @ k.T).softmax(-1) @ v @ layer.w_o)


SAME = torch.ones(3, 3, 1) * X[:1, :1]
END = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0]]) == 1
ALIKE = torch.tensor([[0, 1, 1]] * 3) == 1
WEAK = [
    ("hand_test", shape_alone, "shape_alone", "random numbers"),
    ("hand_test", with_itself, "with_itself", "compares the layer with itself"),
    ("hand_test", one_head, "no_heads", "one head"),
    ("hand_test", lambda s: hand(s, 4, 4), "no_groups", "a number in between"),
    ("hand_test", lambda s: hand(s, x=X[:, :1]), "no_words", "one word"),
    ("hand_test", lambda s: hand(s, room=1.5), "wide_tolerance", "your tolerance lets that pass"),
    ("hand_test", never_called, "never_called", "never ask a layer"),
    ("hand_test", lambda s: future(s), "elsewhere", "not where you look"),
    ("hand_test", known_to_be_right, "known_to_be_right", "known to be right"),
    ("hand_test", with_places_of_its_own, "halves", "rotary=False"),
    ("hand_test", lambda s: False, "accuses_the_healthy", "Read the contract"),
    ("hand_test", demands_a_view, "accuses_the_healthy", "Read the contract"),
    ("hand_test", raises, "raises", "raised AttributeError"),
    ("sight_test", finite_alone, "shape_alone", "not at what they are"),
    ("sight_test", lambda s: sight(s, place=0), "elsewhere", "the other way round"),
    (LineUp("K", ""), lambda s: padding(s, END), "no_left", "at the beginning"),
    (LineUp("L", ""), lambda s: padding(s, END), "no_empty", "nothing to see"),
    (LineUp("H", ""), lambda s: padding(s, ALIKE), "no_ragged", "padded alike"),
    (LineUp("H", ""), lambda s: padding(s, RAGGED[:1], X[:1]), "no_batch", "one sentence at a time"),
    (LineUp("S", ""), lambda s: near(s(16, 4)(X[:, :1]), s(16, 4)(X[:, :1])), "no_three", "Two words"),
    (LineUp("P", ""), exact_enough, "no_evaluated", "no dropout"),
    (LineUp("B", ""), lambda s: hand(s, x=SAME), "no_varied", "the same"),
    ("sight_test", lambda s: neighbours(s, 2) and future(s), "no_padding", "left out"),
    ("cache_test", exact, "exact_comparison", "rounding"),
    ("cache_test", lambda s: near(in_calls(s(16, 4), X, 3), s(16, 4)(X)), "no_cached", "from a filled"),
    ("cache_test", lambda s: one_by_one(s, rotary=True), "also_N", "which of the two"),
    (LineUp("N", ""), one_by_one, "no_rotary", "rotary=False"),
    ("line_up", lambda s: hand(s) and sight(s), "no_cached", "continue from a filled"),
    ("line_up", six_calls, "too_many_calls", "6 times; 4 are allowed"),
    ("line_up", lambda s: "yes", None, "Return True or False"),
    ("line_up", lambda s: hand(s, like=torch.isclose), None, "Return True or False"),
    ("line_up", by_name, "looks", "name or the code"),
    ("hand_test", by_code, "looks", "name or the code"),
    ("line_up", by_class, "known_to_be_right", "known to be right"),
    ("line_up", with_its_ancestor, "known_to_be_right", "known to be right"),
    ("line_up", mends_the_class, "with_itself", "compares the layer with itself"),
    ("hand_test", computes_and_forgets, "asserts_nothing", "missing"),
    ("hand_test", swallows, "asserts_nothing", "swallow"),
    ("hand_test", true_in_any_case, "asserts_nothing", "whatever the layer answers"),
    ("hand_test", lambda s: not hand(s), "inverted", "wrong way round"),
    ("hand_test", silences, "hidden", "do not show its fault"),
    ("hand_test", in_half_precision, "raises", "Half"),
    ("hand_test", endless, "too_slow", "did not end"),
    *[("hand_test", lambda s, like=like: by_hand_scaled_first(s, like), "exact_comparison", "up to rounding")
      for like in (torch.equal, lambda a, b: (a == b).all(), lambda a, b: (a - b).abs().max() < 1e-9,
                   lambda a, b: torch.allclose(a, b, rtol=0, atol=0))],
]


@pytest.mark.parametrize("name, test, misconception, words", WEAK)
def test_a_weak_test_is_told_why_it_is_weak(name, test, misconception, words):
    begun = time.process_time()
    verdict = name(test) if isinstance(name, LineUp) else check(name, test, show=False)
    assert verdict.passed is False and verdict.misconception == misconception, verdict.message
    assert words.lower() in verdict.message.lower() and len(verdict.message) < 600, verdict.message
    assert time.process_time() - begun < 10      # a second on an idle machine


def test_equality_to_the_last_bit_is_called_a_matter_of_rounding():
    verdict = check("hand_test", lambda s: hand(s, like=torch.equal), show=False)
    # Whether the healthy layer or only the one that scales first differs in a bit hangs on the processor.
    assert verdict.passed is False and verdict.misconception in ("exact_comparison", "scaled_first")
    assert "rounding" in verdict.message


def without(method):
    """A test that takes offence at a step of torch, and not at what comes out."""
    def offended(Suspect):
        with patch.object(torch.Tensor, method, side_effect=AssertionError("not so")):
            Suspect(16, 4)(X)
    return offended


ACCUSED = {
    "D": (without("exp"), "scaled_first"),
    "J": (without("triu"), "one_above"),
    "M": (without("clamp"), "renormalised"),
    "T": (with_places_of_its_own, "halves"),
}


@pytest.mark.parametrize("letter", ACCUSED)
def test_who_accuses_an_innocent_is_told_why_it_is_right(letter):
    test, misconception = ACCUSED[letter]
    verdict = check("line_up", test, show=False)
    assert verdict.misconception == misconception and f"Suspect {letter} is innocent" in verdict.message


def test_no_test_can_change_a_suspect():
    kinds = [Layer, *EVERYBODY.values()]
    before = [dict(vars(kind)) for kind in kinds]
    for name in TESTS:
        check(name, mends_the_class, show=False)
    assert [dict(vars(kind)) for kind in kinds] == before


def test_a_test_that_takes_long_is_told_before_all_have_been_asked():
    import attnlib.exercises.line_up as judge

    asked = []

    def slow(Suspect):
        asked.append(1)
        time.sleep(0.06)
        return hand(Suspect)

    with patch.object(judge, "ALL_SECONDS", 0.2):
        assert check("line_up", slow, show=False).misconception == "too_slow"
    assert len(asked) < 10


def who(kind):
    """The letter, of a class that is made from a suspect's."""
    return kind.__mro__[1].__name__


@pytest.mark.parametrize("case", GUILTY, ids=lambda case: case.letter)
def test_who_slips_through_is_named_with_a_hint(case):
    def test(Suspect):
        layer = Suspect(16, 4, 2)
        layer(X)
        return who(Suspect) in ("Layer", *"DJMT", case.letter)

    verdict = LineUp("ABCEFGHKLNPQRS", "")(test)
    assert verdict.passed is False and f"{case.letter} slips through" in verdict.message
    assert verdict.slip and verdict.misconception and "no innocent accused" in verdict.message


def test_a_test_that_counts_its_calls_is_found_out():
    calls = []

    def counting(Suspect):
        calls.append(1)
        return (len(calls) - 1) % 19 < 5

    assert check("line_up", counting, show=False).misconception == "state"


def test_two_of_the_fourteen_may_slip_through():
    def but(*spared):
        return lambda s: who(s) in ("Layer", *"DJMT", *spared)

    verdict = check("line_up", but("B", "E"), show=False)
    assert verdict.passed is True and "B, E slipped through" in verdict.message
    assert check("line_up", but("B", "E", "S"), show=False).passed is False


def stub(Suspect):
    raise NotImplementedError


@pytest.mark.parametrize("name", TESTS)
def test_a_stub_is_not_answered_and_odd_answers_are_refused(name):
    assert check(name, stub, show=False).passed is None
    for odd in (3, "text", [1], lambda: True, lambda s: 1j, print, suspects.Layer, lambda s: X):
        verdict = check(name, odd, show=False)
        assert verdict.passed is False and verdict.message


def test_verdicts_do_not_hang_on_the_global_seed_and_leave_it_alone():
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = check("line_up", shape_alone, show=False).message
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert check("line_up", shape_alone, show=False).message == first


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_solutions_are_right_and_open_exercises_unanswered(exercise):
    space = {}
    exec(exercise.solution, space)
    assert exercise.judge(space["answer"]).passed is True
    assert check(exercise.id, ..., show=False).passed is None
