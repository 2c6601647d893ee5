"""Assignment 3 as students answer it: right in several ways, and wrong in the ways that people are."""

import math
from itertools import product

import matplotlib
import numpy as np
import pytest
from answering import passes, told, variants

from attnlib.homework import assignment
from attnlib.homework.local import judged, points
from attnlib.homework.masks_heads_positions import (
    leaks,
    masked_wrongly,
    places_alike,
    reach,
    turned,
    unpacked,
    window_weights,
)

matplotlib.use("agg")


def fails(module, choice, answer, name):
    """A wrong answer is told by its name; alone, a named mistake in a function earns its part."""
    made, verdict = told(module, choice, answer)
    assert verdict.passed is False and verdict.misconception == name, (choice, name, str(verdict))
    return verdict


# ------------------------------------------------------------------------------------ reach


@pytest.mark.parametrize("choice", variants(reach))
def test_the_layers_differ_by_convention(choice):
    made = reach.question(choice)
    other = {**choice, "window_is": "besides" if choice["window_is"] == "counted" else "counted"}
    number = int(made.solution.split("= ")[1])
    passes(reach, choice, number)
    passes(reach, choice, np.int64(number))
    wrong = int(reach.question(other).solution.split("= ")[1])
    fails(reach, choice, wrong, "own_word")
    fails(reach, choice, number - 0.5, "not_whole")
    assert judged(made, "7").passed is False
    assert judged(made, 400).misconception is None


# ------------------------------------------------------------------------------------ window_weights


def sees_of(choice, scores, key_mask, window, *, real=None, reach=None, own=0, both=False):
    """What each query sees, as a student might write it: loops."""
    b, m, n = scores.shape
    sees = np.zeros((b, m, n), bool)
    for s in range(b):
        for i in range(m):
            p = i + (n - m if choice["ends"] == "last" else 0)
            most = window - 1 if choice["window_is"] == "counted" else window
            most = most if reach is None else reach(most)
            for j in range(n):
                is_real = key_mask[s, j] == (choice["true_key"] == "real") if real is None else real
                near = abs(p - j) <= most if both else own <= p - j <= most
                sees[s, i, j] = near and is_real
    return sees


def even(choice, n):
    return 0.0 if choice["nothing"] == "zeros" else 1 / n


def by_loops(choice):
    def window_weights(scores, key_mask, window):
        sees = sees_of(choice, scores, key_mask, window)
        out = np.zeros_like(scores)
        for at in np.ndindex(scores.shape[:2]):
            row = [float(s) for s, seen in zip(scores[at], sees[at], strict=True) if seen]
            if row:
                e = [math.exp(s - max(row)) for s in row]
                out[at][sees[at]] = [x / sum(e) for x in e]
            else:
                out[at] = even(choice, scores.shape[2])
        return out
    return window_weights


def by_filling(choice):
    def window_weights(scores, key_mask, window):
        sees = sees_of(choice, scores, key_mask, window)
        s = np.where(sees, scores, np.finfo(float).min)
        e = np.exp(s - s.max(-1, keepdims=True))
        w = e / e.sum(-1, keepdims=True)
        return w * sees if choice["nothing"] == "zeros" else w
    return window_weights


def by_nan(choice):
    def window_weights(scores, key_mask, window):
        s = np.where(sees_of(choice, scores, key_mask, window), scores, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        return np.nan_to_num(e / e.sum(-1, keepdims=True), nan=even(choice, scores.shape[2]))
    return window_weights


def by_triangles(choice):
    def window_weights(scores, key_mask, window):
        b, m, n = scores.shape
        shift = n - m if choice["ends"] == "last" else 0
        reach = window - (choice["window_is"] == "counted")
        band = np.tri(m, n, shift, dtype=bool) & ~np.tri(m, n, shift - reach - 1, dtype=bool)
        real = key_mask if choice["true_key"] == "real" else np.logical_not(key_mask)
        sees = np.einsum("mn,bn->bmn", band, real).astype(bool)
        top = np.max(scores, axis=-1, where=sees, initial=-1e30, keepdims=True)
        e = np.exp(np.minimum(scores - top, 0)) * sees
        total = e.sum(-1, keepdims=True)
        empty = total == 0
        return np.where(empty, even(choice, n), e / (total + empty))
    return window_weights


@pytest.mark.parametrize("way", [by_loops, by_filling, by_nan, by_triangles])
def test_weights_are_right_in_any_style(way):
    for choice in variants(window_weights):
        passes(window_weights, choice, way(choice))


def softmax(s, axis=-1):
    e = np.exp(s - s.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def wrong_weights(choice):
    """By the mistake's name, functions that make it."""
    def over(way, **of_sees):
        return lambda s, k, w: way(s, sees_of(choice, s, k, w, **of_sees))

    def rest(s, sees, n=None):
        e = np.where(sees, np.exp(s - np.where(sees, s, -np.inf).max(-1, keepdims=True)), 0)
        return np.where(sees.any(-1, keepdims=True), e / np.maximum(e.sum(-1, keepdims=True), 1e-300),
                        even(choice, s.shape[2]))

    def unmended(s, sees):
        low = np.where(sees, s, -np.inf)
        e = np.exp(low - low.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def overflowing(s, sees):
        e = np.where(sees, np.exp(s), 0)
        total = e.sum(-1, keepdims=True)
        return np.where(total > 0, e / np.where(total > 0, total, 1), even(choice, s.shape[2]))

    def then_shared(s, sees):
        w = softmax(s) * sees
        total = w.sum(-1, keepdims=True)
        return np.where(total > 0, w / np.where(total > 0, total, 1), even(choice, s.shape[2]))

    def by_queries(s, k, w):
        real = k if choice["true_key"] == "real" else ~k
        return rest(s, sees_of(choice, s, k, w, real=True) & np.broadcast_to(real, s.shape))

    return {
        "nothing_is_nan": over(unmended),
        "weights_hidden_after": over(lambda s, sees: softmax(s) * sees),
        "scores_multiplied": over(lambda s, sees: softmax(s * sees)),
        "number_added": over(lambda s, sees: softmax(s + -1e9 * ~sees)),
        "maximum_of_hidden_scores": over(then_shared),
        "padding_seen": over(rest, real=True),
        "window_ignored": over(rest, reach=lambda most: 10**6),
        "future_seen": over(rest, both=True),
        "own_key_hidden": over(rest, own=1),
        "no_maximum_subtracted": over(overflowing),
        "sentences_taken_for_queries": by_queries,
    }


@pytest.mark.parametrize("choice", variants(window_weights)[::3])
def test_wrong_weights_are_named(choice):
    for name, function in wrong_weights(choice).items():
        fails(window_weights, choice, function, name)


def test_a_window_that_is_off_by_one_is_a_convention_or_a_mistake():
    for more, counts, name in ((-1, "besides", "window_with_its_own_place"),
                               (-1, "counted", "window_too_short"),
                               (1, "counted", "window_besides_its_own_place"),
                               (1, "besides", "window_too_long")):
        choice = {**window_weights.SAMPLE, "window_is": counts}
        good = by_loops(choice)
        verdict = fails(window_weights, choice, lambda s, k, w, m=more, good=good: good(s, k, w + m), name)
        assert ("Right under another convention" in verdict.message) == name.endswith("its_own_place")


# ------------------------------------------------------------------------------------ masked_wrongly


def rows_for(choice, first, second):
    """Rows of (three seen, two hidden) scores, as arrays of five."""
    hidden = [int(key) for key in choice["hidden_keys"].split(", ")]
    rows = np.zeros((2, 5))
    for row, (seen, unseen) in zip(rows, (first, second), strict=True):
        row[[key for key in range(5) if key not in hidden]] = seen
        row[hidden] = unseen
    return rows


FAULTY_ROWS = {      # by the fault: other right answers than the solution's
    "zeroed": (((-2, -1, 0), (9, 90)), ((30, 31, 30.5), (2, 1))),
    "after": (((5, 6, 4), (6.5, 7)), ((5, 6, 4), (-20, -21))),
    "small": (((-90, -91, -92), (0, 1)), ((50, 51, 52), (0, 1))),
    "lowered": (((0, 0.5, 1), (26, 25)), ((0, 0.5, 1), (5, 6))),
    "lowest": (((-1, -0.5, 0), (1, 90)), ((10, 11, 12), (-8, 5))),
    "top": (((-40, -39, -41), (0, 9)), ((7, 8, 9), (10, 11))),
}


@pytest.mark.parametrize("choice", variants(masked_wrongly))
def test_rows_that_show_and_hide_a_fault(choice):
    first, second = FAULTY_ROWS[choice["fault"]]
    rows = rows_for(choice, first, second)
    passes(masked_wrongly, choice, rows)
    passes(masked_wrongly, choice, rows.tolist())
    fails(masked_wrongly, choice, rows[::-1], "rows_exchanged")
    assert "On your first row faulty gives" in fails(masked_wrongly, choice, rows[[1, 1]], None).message
    assert "Your first row shows the fault" in fails(masked_wrongly, choice, rows[[0, 0]], None).message
    fails(masked_wrongly, choice, rows_for(choice, first, ((60, 0, 1), (-40, -60))), "one_key_takes_all")
    fails(masked_wrongly, choice, np.zeros((2, 5)), "scores_too_near")
    for odd in (rows * 100, rows[0], "rows", None, np.full((2, 5), np.nan), rows.T):
        assert not told(masked_wrongly, choice, odd)[1].passed


# ------------------------------------------------------------------------------------ leaks


def detector(choice, *, sizes=(1, 20), own=None, cut=True, sentences=True, room=1e-6, tries=3, only=None,
             one_sentence=False):  # fmt: skip
    """A detector that looks place by place, with a part of it left out or done otherwise."""
    second = choice["time"] == "second"
    own = choice["may_read"] == "own" if own is None else own

    def leaks(model, shape):
        rng = np.random.RandomState(1)
        view = (lambda a: a) if second else (lambda a: np.swapaxes(a, 0, 1))
        n_sentences, length, width = shape if second else (shape[1], shape[0], shape[2])
        x = rng.standard_normal((n_sentences, length, width))
        out = view(model(view(x)))
        for b in range(1 if one_sentence else n_sentences):
            for t in range(length) if only is None else only:
                for size in sizes:
                    for _ in range(tries):
                        other = rng.standard_normal(x.shape) * size if sentences else x.copy()
                        other[b] = rng.standard_normal(x[b].shape) * size
                        other[b, : t + own] = x[b, : t + own]
                        apart = np.abs(view(model(view(other)))[b, t] - out[b, t]).max()
                        if apart > room:
                            return True
                if cut and np.abs(view(model(view(x[:, : t + 1])))[b, t] - out[b, t]).max() > room:
                    return True
        return False

    return leaks


def by_sentences(choice):
    """Right in another order: whole blocks of outputs at once, cut down to one sentence."""
    second, own = choice["time"] == "second", choice["may_read"] == "own"

    def leaks(model, shape):
        rng = np.random.default_rng(3)
        x = rng.uniform(-2, 2, shape)
        out, axis = model(x), 1 if second else 0
        for b in range(shape[1 - axis]):
            alone = np.take(x, [b], 1 - axis)
            for t in range(1, shape[axis] + 1):
                short = model(np.take(alone, range(t), axis))
                if not np.allclose(short, np.take(np.take(out, [b], 1 - axis), range(t), axis), atol=1e-7):
                    return True
            mine = model(alone)
            for t in range(shape[axis]):
                for big in (2, 15, -15, 15):
                    changed = alone.copy()
                    later = changed[:, t:] if second else changed[t:]
                    later[...] = rng.uniform(0, 1, later.shape) * big
                    seen = range(t if own else t + 1)
                    after = np.take(model(changed), seen, axis)
                    if not np.allclose(after, np.take(mine, seen, axis), atol=1e-7):
                        return True
        return False

    return leaks


@pytest.mark.parametrize("choice", variants(leaks))
def test_detectors(choice):
    own = choice["may_read"] == "own"
    passes(leaks, choice, detector(choice))
    passes(leaks, choice, detector(choice, sizes=(20,), room=1e-8, tries=6))
    passes(leaks, choice, by_sentences(choice))
    passes(leaks, choice, lambda model, shape: np.bool_(detector(choice)(model, shape)))
    fails(leaks, choice, detector(choice, sizes=(1,)), "gate")
    fails(leaks, choice, detector(choice, cut=False), "length")
    fails(leaks, choice, detector(choice, sentences=False), "other_sentences")
    fails(leaks, choice, detector(choice, room=0), "exact_comparison")
    fails(leaks, choice, detector(choice, one_sentence=True), "one_place")
    fails(leaks, choice, detector(choice, own=not own), "all_leaky" if own else "next_place")
    for answer, said in ((True, "all models leaky"), (False, "all models clean")):
        name = "all_leaky" if answer else "all_clean"
        verdict = fails(leaks, choice, lambda model, shape, answer=answer: answer, name)
        assert said in verdict.message and points(leaks.question(choice), verdict) == 0
    made, verdict = told(leaks, choice, detector(choice, room=0.5, sizes=(1,)))
    assert "judged rightly. 'attention plus a little of the batch's mean' leaks" in verdict.message
    assert points(made, verdict) == 0
    made, verdict = told(leaks, choice, detector(choice, cut=False))
    assert points(made, verdict) == made.part
    assert told(leaks, choice, lambda model, shape: None)[1].passed is False
    verdict = told(leaks, choice, lambda model, shape: bool(model(np.zeros(shape[1:])).any()))[1]
    assert "model takes an array of shape (" in verdict.message


def test_the_visible_models_leave_the_hardest_to_the_grader():
    for choice in variants(leaks):
        assert told(leaks, choice, detector(choice, sizes=(1,), cut=False), seed=None)[1].passed


# ------------------------------------------------------------------------------------ unpacked


def by_stack(choice):
    """Number by number."""
    def unpacked(packed, n_heads):
        if choice["lead"] == "time":
            packed = packed.swapaxes(0, 1)
        b, length, width = packed.shape
        d = width // 3 // n_heads
        out = np.zeros((3, b, n_heads, length, d))
        for k, h, f in product(range(3), range(n_heads), range(d)):
            at = {"kind": k * n_heads * d + h * d + f, "head": h * 3 * d + k * d + f,
                  "feature": k * n_heads * d + f * n_heads + h}[choice["packed_by"]]  # fmt: skip
            out[k, :, h, :, f] = packed[:, :, at]
        out = out if choice["heads_are"] == "second" else out.swapaxes(1, 2)
        return out[0], out[1], out[2]
    return unpacked


def by_einsum(choice):
    def unpacked(packed, n_heads):
        letters = {"kind": "khf", "head": "hkf", "feature": "kfh"}[choice["packed_by"]]
        d = packed.shape[-1] // (3 * n_heads)
        sizes = [{"k": 3, "h": n_heads, "f": d}[letter] for letter in letters]
        lead = "bl" if choice["lead"] == "batch" else "lb"
        out = "bhlf" if choice["heads_are"] == "second" else "hblf"
        return tuple(np.einsum(f"{lead}{letters}->k{out}", packed.reshape(*packed.shape[:2], *sizes)))
    return unpacked


def by_splits(choice):
    def unpacked(packed, n_heads):
        x = packed if choice["lead"] == "batch" else np.moveaxis(packed, 0, 1)
        kinds = [[], [], []]
        if choice["packed_by"] == "head":
            for head in np.split(x, n_heads, axis=-1):
                for kind, part in zip(kinds, np.split(head, 3, axis=-1), strict=True):
                    kind.append(part)
        else:
            for kind, part in zip(kinds, np.split(x, 3, axis=-1), strict=True):
                if choice["packed_by"] == "kind":
                    kind += np.split(part, n_heads, axis=-1)
                else:
                    kind += [part[..., h::n_heads] for h in range(n_heads)]
        return [np.stack(kind, 1 if choice["heads_are"] == "second" else 0) for kind in kinds]
    return unpacked


def by_index(choice):
    def unpacked(packed, n_heads):
        b, length = packed.shape[:2]
        d = packed.shape[2] // 3 // n_heads
        k, h, f = np.ogrid[:3, :n_heads, :d]
        at = {"kind": (k * n_heads + h) * d + f, "head": (h * 3 + k) * d + f,
              "feature": (k * d + f) * n_heads + h}[choice["packed_by"]]  # fmt: skip
        parts = packed[:, :, at]
        parts = parts if choice["lead"] == "batch" else parts.swapaxes(0, 1)       # (B, L, 3, H, d)
        axes = (2, 0, 3, 1, 4) if choice["heads_are"] == "second" else (2, 3, 0, 1, 4)
        q, k, v = parts.transpose(axes)
        return q, k, v
    return unpacked


@pytest.mark.parametrize("way", [by_stack, by_einsum, by_splits, by_index])
def test_unpacking_is_right_in_any_style(way):
    for choice in variants(unpacked):
        passes(unpacked, choice, way(choice))


@pytest.mark.parametrize("choice", variants(unpacked))
def test_wrong_unpacking_is_named(choice):
    good = by_einsum(choice)

    def moved(*axes):
        return lambda packed, n_heads: tuple(np.transpose(part, axes) for part in good(packed, n_heads))

    def chosen(*order):
        return lambda packed, n_heads: tuple(good(packed, n_heads)[i] for i in order)

    def by_view(packed, n_heads):
        q, k, v = good(packed, n_heads)
        sizes = packed.shape[:2] if choice["lead"] == "batch" else packed.shape[1::-1]
        if choice["packed_by"] == "kind":
            parts = np.split(packed, 3, axis=-1)
        elif choice["packed_by"] == "head":
            parts = np.moveaxis(packed.reshape(*packed.shape[:2], n_heads, 3, -1), 3, 0)
        else:
            parts = packed.reshape(*packed.shape[:2], 3, -1).transpose(2, 0, 1, 3)
        assert len(sizes) == 2
        return tuple(part.reshape(q.shape) for part in parts)

    heads_last = (0, 2, 1, 3) if choice["heads_are"] == "second" else (1, 2, 0, 3)
    fails(unpacked, choice, moved(*heads_last), "heads_behind_places")
    fails(unpacked, choice, moved(0, 1, 3, 2), "features_before_places")
    fails(unpacked, choice, moved(2, 1, 0, 3) if choice["heads_are"] == "second" else moved(0, 2, 1, 3),
          "batch_before_places" if choice["lead"] == "time" else "places_before_batch")
    fails(unpacked, choice, chosen(1, 0, 2), "keys_first")
    fails(unpacked, choice, chosen(0, 2, 1), "values_before_keys")
    fails(unpacked, choice, chosen(2, 1, 0), "values_first")
    fails(unpacked, choice, chosen(0, 0, 0), "queries_alone")
    fails(unpacked, choice, lambda packed, n_heads: good(packed, packed.shape[-1] // 3 // n_heads),
          "width_for_number")
    fails(unpacked, choice, by_view, "cut_from_memory")
    made, verdict = told(unpacked, choice, lambda packed, n_heads: np.stack(good(packed, n_heads)))
    assert "must return 3 results" in verdict.message
    made, verdict = told(unpacked, choice, chosen(1, 0, 2))
    assert points(made, verdict) == made.part


# ------------------------------------------------------------------------------------ turned


def pair_of(choice, i, r):
    return (2 * i, 2 * i + 1) if choice["pairs"] == "neighbours" else (i, i + r // 2)


def width_of(choice, d):
    return d if choice["turns"] == "all" else d // 2


def turned_by_loops(choice, angle=None, place=None, sign=None):
    def turned(x, places, base):
        out = np.array(x)
        d = x.shape[-1]
        r = width_of(choice, d)
        for head, row, i in product(range(x.shape[0]), range(x.shape[1]), range(r // 2)):
            p = places[row] if place is None else place(places, row)
            t = angle(p, i, r, d, base) if angle else p * base ** (-2 * i / r)
            t = t if choice["sense"] == "counter" else -t
            one, two = pair_of(choice, i, r)
            a, b = x[head, row, one], x[head, row, two]
            out[head, row, one] = a * math.cos(t) - b * math.sin(t)
            out[head, row, two] = a * math.sin(t) + b * math.cos(t)
        return out
    return turned


def turned_by_complex(choice):
    def turned(x, places, base):
        r = width_of(choice, x.shape[-1])
        t = np.outer(places, float(base) ** (-np.arange(0, r, 2) / r))
        hand = np.exp((1j if choice["sense"] == "counter" else -1j) * t)
        part = x[..., :r]
        if choice["pairs"] == "neighbours":
            z = part.reshape(*part.shape[:-1], -1, 2)
            z = (z[..., 0] + 1j * z[..., 1]) * hand
            new = np.stack([z.real, z.imag], -1).reshape(part.shape)
        else:
            z = (part[..., : r // 2] + 1j * part[..., r // 2 :]) * hand
            new = np.concatenate([z.real, z.imag], -1)
        return np.concatenate([new, x[..., r:]], -1)
    return turned


def turned_by_matrices(choice):
    def turned(x, places, base):
        d = x.shape[-1]
        r = width_of(choice, d)
        matrices = np.zeros((len(places), d, d)) + np.eye(d)
        for row, p in enumerate(places):
            for i in range(r // 2):
                t = p / base ** (2 * i / r)
                one, two = pair_of(choice, i, r)
                s = np.sin(t) if choice["sense"] == "counter" else -np.sin(t)
                matrices[row, one, one] = matrices[row, two, two] = np.cos(t)
                matrices[row, one, two], matrices[row, two, one] = -s, s
        return np.einsum("lij,hlj->hli", matrices, x)
    return turned


def turned_by_rotating_half(choice, *, tiled=None):
    """As libraries write it: x cos + rotated x sin."""
    def turned(x, places, base):
        r = width_of(choice, x.shape[-1])
        part, rest = x[..., :r], x[..., r:]
        halves = choice["pairs"] == "halves"
        t = places[:, None] * (1.0 / base ** (np.arange(0, r, 2) / r))
        t = np.concatenate([t, t], -1) if (halves if tiled is None else tiled) else np.repeat(t, 2, -1)
        if halves:
            rotated = np.concatenate([-part[..., r // 2 :], part[..., : r // 2]], -1)
        else:
            rotated = np.stack([-part[..., 1::2], part[..., ::2]], -1).reshape(part.shape)
        rotated = rotated if choice["sense"] == "counter" else -rotated
        return np.concatenate([part * np.cos(t) + rotated * np.sin(t), rest], -1)
    return turned


@pytest.mark.parametrize(
    "way", [turned_by_loops, turned_by_complex, turned_by_matrices, turned_by_rotating_half]
)
def test_turning_is_right_in_any_style(way):
    for choice in variants(turned):
        passes(turned, choice, way(choice))


@pytest.mark.parametrize("choice", variants(turned))
def test_wrong_turning_is_named(choice):
    def speed(angle):
        return turned_by_loops(choice, angle=angle)

    def at(place):
        return turned_by_loops(choice, place=place)

    def slow(x, places, base):
        out, r = np.array(x), width_of(choice, x.shape[-1])
        for i in range(r // 2):
            one, two = pair_of(choice, i, r)
            t = places * base ** (-2 * i / r) * (1 if choice["sense"] == "counter" else -1)
            out[..., one] = out[..., one] * np.cos(t) - out[..., two] * np.sin(t)
            out[..., two] = out[..., one] * np.sin(t) + out[..., two] * np.cos(t)
        return out

    fails(turned, choice, speed(lambda p, i, r, d, base: p * base ** (-i / r)), "exponent_halved")
    fails(turned, choice, speed(lambda p, i, r, d, base: p * base ** (-4 * i / r)), "exponent_doubled")
    fails(turned, choice, speed(lambda p, i, r, d, base: p * base ** (2 * i / r)), "exponent_without_minus")
    fails(turned, choice, speed(lambda p, i, r, d, base: p * base ** (-2 * (i + 1) / r)),
          "first_pair_too_slow")
    fails(turned, choice, speed(lambda p, i, r, d, base: p), "one_speed")
    fails(turned, choice, speed(lambda p, i, r, d, base: p * 10000 ** (-2 * i / r)), "base_fixed")
    fails(turned, choice, speed(lambda p, i, r, d, base: math.radians(p * base ** (-2 * i / r))), "degrees")
    fails(turned, choice, at(lambda places, row: row), "places_counted")
    fails(turned, choice, at(lambda places, row: places[row] + 1), "places_from_one")
    fails(turned, choice, at(lambda places, row: abs(places[row])), "places_without_sign")
    fails(turned, choice, at(lambda places, row: places[row] - places[0]), "places_from_the_first")
    fails(turned, choice, slow, "overwritten")
    fails(turned, choice, turned_by_rotating_half(choice, tiled=choice["pairs"] != "halves"),
          "angles_of_other_pairs")
    if choice["turns"] == "half":
        fails(turned, choice, speed(lambda p, i, r, d, base: p * base ** (-2 * i / d)),
              "exponent_halved")
        good = turned_by_loops(choice)
        fails(turned, choice, lambda x, places, base: good(x, places, base)[..., : x.shape[-1] // 2],
              "rest_lost")
    made, verdict = told(turned, choice, slow)
    assert points(made, verdict) == made.part

    def in_place(x, places, base):
        x[...] = turned_by_loops(choice)(x, places, base)
        return x

    fails(turned, choice, in_place, "changes_input")


# ------------------------------------------------------------------------------------ places_alike


def drawn(choice, *, y=None, x=None, labels=True, legend=True, words=True, title="Which are alike?",
          which=None, order=slice(None)):  # fmt: skip
    """A figure as a student might draw it."""
    import matplotlib.pyplot as plt

    names = {"np": np}
    exec(places_alike.GIVEN, names)
    rows = names["PLACES"]
    cosine, distance = choice["alike"] == "cosine", choice["along"] == "distance"
    figure, axes = plt.subplots()
    for p in which or [int(p) for p in choice["two_places"].split(", ")]:
        up = rows @ rows[p] / (16 if cosine else 1) if y is None else y(rows, p)
        across = np.arange(60) - (p if distance else 0) if x is None else x(p)
        axes.plot(across[order], up[order], "o-", label=f"as seen from {p}" if labels else None)
    axes.axvline(0, color="grey", lw=0.5)
    if legend and labels:
        axes.legend()
    if words:
        axes.set_xlabel("Distance in words" if distance else "Place of the other")
        axes.set_ylabel("Cosine of the angle" if cosine else "Dot product")
    axes.set_title(title)
    plt.close(figure)
    return figure


def test_figures():
    for choice in variants(places_alike)[::3]:
        distance = choice["along"] == "distance"
        passes(places_alike, choice, drawn(choice))
        passes(places_alike, choice, drawn(choice).axes[0])
        passes(places_alike, choice, drawn(choice, order=slice(None, None, -1)))
        passes(places_alike, choice, drawn(choice, which=choice_places(choice)[::-1]))
        other = "product" if choice["alike"] == "cosine" else "cosine"
        for name, wrong in (("other_measure", {"y": lambda rows, p, other=other: rows @ rows[p] / (
                16 if other == "cosine" else 1)}),
                            ("other_axis", {"x": lambda p, d=distance: np.arange(60) - (0 if d else p)})):
            made, verdict = told(places_alike, choice, drawn(choice, **wrong))
            assert verdict.misconception == name and points(made, verdict) == 0
        made, verdict = told(places_alike, choice, drawn(choice, words=False, title=""))
        assert "label of x" in verdict.message and "A title is missing" in verdict.message
        assert points(made, verdict) == 1
        fails(places_alike, choice, drawn(choice, y=lambda rows, p: np.linalg.norm(rows - rows[p], axis=1)),
              "how_far_apart")
        fails(places_alike, choice, drawn(choice, labels=False), "no_labels")
        fails(places_alike, choice, drawn(choice, legend=False), "no_legend")
        fails(places_alike, choice, drawn(choice, words=False), "no_axis_labels")
        fails(places_alike, choice, drawn(choice, title=""), "no_title")
        fails(places_alike, choice, drawn(choice, which=choice_places(choice)[:1]), "one_line")
        fails(places_alike, choice, drawn(choice, which=[p - 1 for p in choice_places(choice)]),
              "neighbour_drawn")
        if distance:
            fails(places_alike, choice, drawn(choice, x=lambda p: p - np.arange(60)), "sign_of_the_distance")
            fails(places_alike, choice, drawn(choice, x=lambda p: abs(p - np.arange(60))),
                  "distance_without_sign")
        else:
            fails(places_alike, choice, drawn(choice, x=lambda p: np.arange(1, 61)), "counted_from_one")
        assert not told(places_alike, choice, "a figure")[1].passed


def choice_places(choice):
    return [int(place) for place in choice["two_places"].split(", ")]


# ------------------------------------------------------------------------------------ the whole


def test_points_and_minutes():
    for seed in range(6):
        made = assignment.load("hw3", seed)
        assert 25 <= made.points <= 28 and 85 <= made.minutes <= 110
