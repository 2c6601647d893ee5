"""The second assignment as students answer it: what is right in their own ways, what is wrong by its name."""

from itertools import product

import numpy as np
import pytest
from answering import variants

from attnlib.homework.figures import figure_data
from attnlib.homework.local import judged, points
from attnlib.homework.softmax_and_scale import (
    drawn_sureness,
    loss_and_slope,
    safe_softmax,
    soft_weights,
    spread_and_scale,
    two_rows,
    typical_slope,
)

HIDDEN = 11


def told(module, choice, answer, seed=HIDDEN):
    """The verdict, and the points."""
    made = module.question(choice)
    with np.errstate(all="ignore"):
        verdict = judged(made, answer, seed)
    return verdict, points(made, verdict)


def named(cases):
    return [pytest.param(*case, id=f"{case[0]}-{number}") for number, case in enumerate(cases)]


def check_wrong(module, name, answer, part=True):
    """Whatever the conventions, the mistake has this name, and earns a part where it should."""
    tried = 0
    for choice in variants(module)[::5]:        # each value of each convention is among them
        made = answer(choice)
        if made is None:
            continue
        tried += 1
        verdict, earned = told(module, choice, made)
        assert verdict.passed is False and verdict.misconception == name, (choice, str(verdict))
        assert earned == (module.question(choice).part if part else 0), (choice, str(verdict))
    assert tried


# ------------------------------------------------------------------------------------ soft weights


def by_loops(choice):
    """As somebody writes it who trusts no axis: query by query, key by key."""
    def soft_weights(scores, c):
        rows = scores if choice["keys_lie"] == "across" else scores.T
        out = np.zeros(rows.shape)
        for i, row in enumerate(rows):
            s = row * c[i] if choice["sharpness"] == "inverse" else row / c[i]
            if max(s) == -np.inf:
                out[i] = 0.0 if choice["nothing_left"] == "zeros" else 1 / len(s)
                continue
            counted = [(2.0 if choice["base"] == "2" else np.e) ** (x - max(s)) for x in s]
            for j, each in enumerate(counted):
                out[i, j] = each / sum(counted)
        return out if choice["keys_lie"] == "across" else out.T

    return soft_weights


def by_logaddexp(choice):
    def soft_weights(scores, c):
        axis = 1 if choice["keys_lie"] == "across" else 0
        c = c.reshape((-1, 1) if axis == 1 else (1, -1))
        s = scores * c if choice["sharpness"] == "inverse" else scores / c
        s = s * np.log(2) if choice["base"] == "2" else s
        w = np.exp(s - np.logaddexp.reduce(s, axis=axis, keepdims=True))
        empty = np.all(np.isneginf(s), axis=axis, keepdims=True)
        return np.where(empty, 0 if choice["nothing_left"] == "zeros" else 1 / s.shape[axis], w)

    return soft_weights


def by_power(choice):
    """The temperature as a power of the weights, and NaN mended at the end."""
    def soft_weights(scores, c):
        s = np.array(scores, order="F")
        s = s.T if choice["keys_lie"] == "across" else s                   # (n, m)
        s = s - np.nanmax(s, axis=0)
        e = np.exp2(s) if choice["base"] == "2" else np.exp(s)
        e = e ** (c if choice["sharpness"] == "inverse" else 1 / c)
        w = e / np.einsum("nm->m", e)
        w[np.isnan(w)] = 0.0 if choice["nothing_left"] == "zeros" else 1 / len(s)
        return w.T if choice["keys_lie"] == "across" else w

    return soft_weights


def by_apply(choice):
    def one(s):
        finite = np.isfinite(s)
        if not finite.any():
            return np.full(len(s), 0.0 if choice["nothing_left"] == "zeros" else 1 / len(s))
        e = np.zeros(len(s))
        e[finite] = np.power(2.0 if choice["base"] == "2" else np.e, s[finite] - s[finite].max())
        return e / e.sum()

    def soft_weights(scores, c):
        axis = 1 if choice["keys_lie"] == "across" else 0
        c = np.expand_dims(c if choice["sharpness"] == "inverse" else 1 / c, axis)
        return np.apply_along_axis(one, axis, scores * c)

    return soft_weights


def plain_weights(scores, c, choice, *, over="keys", c_axis=None, lowered="own", mend=True, base=None):
    """The usual way, with one thing done otherwise."""
    axis = 1 if choice["keys_lie"] == "across" else 0
    c = np.expand_dims(c, axis if c_axis is None else 1 - axis) if np.ndim(c) else c
    s = scores * c if choice["sharpness"] == "inverse" else scores / c
    power = base or {"e": np.exp, "2": np.exp2}[choice["base"]]
    along = {"keys": axis, "queries": 1 - axis, "all": (0, 1)}[over]
    less = {"own": s.max(axis=along, keepdims=True), "all": s.max(), "none": 0,
            "mean": s.mean(axis=axis, keepdims=True)}[lowered]  # fmt: skip
    e = power(s - less)
    w = e / e.sum(axis=along, keepdims=True)
    if mend:
        empty = np.isneginf(s).all(axis=axis, keepdims=True)
        w = np.where(empty, 0.0 if choice["nothing_left"] == "zeros" else 1 / s.shape[axis], w)
    return w


def plainly(**otherwise):
    return lambda choice: lambda scores, c: plain_weights(scores, c, choice, **otherwise)


def masked_by_zero(choice):
    return lambda scores, c: plain_weights(np.where(np.isinf(scores), 0.0, scores), c, choice)


def used_late(choice):
    def soft_weights(scores, c):
        axis = 1 if choice["keys_lie"] == "across" else 0
        w = plain_weights(scores, 1.0, choice)
        late = np.expand_dims(c, axis)
        return w * late if choice["sharpness"] == "inverse" else w / late

    return soft_weights


def not_divided(choice):
    def soft_weights(scores, c):
        axis = 1 if choice["keys_lie"] == "across" else 0
        c = np.expand_dims(c, axis)
        s = scores * c if choice["sharpness"] == "inverse" else scores / c
        top = s.max(axis=axis, keepdims=True)
        return (np.exp2 if choice["base"] == "2" else np.exp)(s - np.where(np.isinf(top), 0, top))

    return soft_weights


@pytest.mark.parametrize("answer", [by_loops, by_logaddexp, by_power, by_apply])
def test_soft_weights_in_other_words(answer):
    for choice in variants(soft_weights):
        for seed in (None, HIDDEN):
            verdict, earned = told(soft_weights, choice, answer(choice), seed)
            assert verdict.passed and earned == 4, (choice, str(verdict))


SOFT_WRONG = named([
    ("softmax_over_the_queries", plainly(over="queries")),
    ("softmax_over_everything", plainly(over="all")),
    ("c_of_the_keys", plainly(c_axis="other")),
    ("one_c_for_all", lambda choice: lambda scores, c: plain_weights(scores, c[0], choice)),
    ("c_forgotten", lambda choice: lambda scores, c: plain_weights(scores, 1.0, choice)),
    ("c_after_the_softmax", used_late),
    ("no_maximum_subtracted", plainly(lowered="none")),
    ("no_maximum_subtracted", plainly(lowered="none", mend=False)),
    ("one_maximum_for_all", plainly(lowered="all")),
    ("mean_subtracted", plainly(lowered="mean")),
    ("nan_hidden", lambda choice: lambda *args: np.nan_to_num(plain_weights(
        *args, choice, lowered="none", mend=False))),
    ("nothing_left_is_nan", plainly(mend=False)),
    ("minus_infinity_taken_for_zero", masked_by_zero),
    ("not_shared", not_divided),
    ("base_ten", plainly(base=lambda s: 10.0**s)),
    ("base_inverted", lambda choice: plainly(base=lambda s: np.exp(s / np.log(2)))(choice)
     if choice["base"] == "2" else None),
])  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), SOFT_WRONG)
def test_soft_weights_wrong(name, answer):
    check_wrong(soft_weights, name, answer)


# ------------------------------------------------------------------------------- loss and slope


def padding(choice, classes):
    return 0 if choice["left_out"] == "zero" else classes - 1


def divisor(choice, n, kept):
    return {"mean": max(kept, 1), "by_n": n, "sum": 1}[choice["total"]]


def loss_by_loops(choice):
    def loss_and_slope(logits, targets):
        across = choice["classes_lie"] == "across"
        slope, loss, kept = np.zeros(logits.shape), 0.0, 0
        for i, y in enumerate(targets):
            z = logits[i] if across else logits[:, i]
            if y == padding(choice, len(z)):
                continue
            kept += 1
            m = max(z)
            total = sum(np.exp(x - m) for x in z)
            loss += m + np.log(total) - z[y]
            for j in range(len(z)):
                slope[(i, j) if across else (j, i)] = np.exp(z[j] - m) / total - (j == y)
        by = divisor(choice, len(targets), kept)
        return loss / by, slope / by

    return loss_and_slope


def loss_by_index(choice, *, turned=1, loss_sign=-1, keep=False, slope_by=None, one=1, log="early", over=1,
                  form=None, none_left=None, lower=True):  # fmt: skip
    def loss_and_slope(logits, targets):
        z = logits.T.copy() if choice["classes_lie"] == "down" else logits.copy()
        n, classes = z.shape
        if lower:
            z -= z.max(over, keepdims=True)
        e = np.exp(z)
        w = e / e.sum(over, keepdims=True)
        log_w = {"early": z - np.log(e.sum(over, keepdims=True)), "late": np.log(w),
                 "clipped": np.log(w + 1e-12)}[log]  # fmt: skip
        kept = targets != padding(choice, classes)
        kept = np.ones(n, bool) if form == "all" else kept
        loss = (loss_sign * log_w[np.arange(n), targets])[kept].sum()
        if form == "share":
            loss = (1 - w[np.arange(n), targets])[kept].sum()
        slope = w.copy()
        slope[np.arange(n), targets] -= one
        if form in ("share", "share slope"):
            slope *= w[np.arange(n), targets][:, None]
        if form == "right alone":
            slope *= np.eye(classes)[targets]
        slope *= turned
        if not keep:
            slope[~kept] = 0
        by = divisor(choice, n, kept.sum())
        if none_left and choice["total"] == "mean":
            by = kept.sum()
        slope = slope / {"entries": logits.size, "sum": 1, None: by}[slope_by]
        return loss / by, (slope.T if choice["classes_lie"] == "down" else slope)

    return loss_and_slope


def loss_by_one_hot(choice):
    def loss_and_slope(logits, targets):
        z = np.asarray(logits, dtype=np.float64)
        axis = 1 if choice["classes_lie"] == "across" else 0
        classes = z.shape[axis]
        y = np.eye(classes)[targets]
        y = y if axis == 1 else y.T
        kept = (targets != padding(choice, classes)).astype(float)
        lse = np.logaddexp.reduce(z, axis=axis)                                # (n,)
        each = lse - np.einsum("nc,nc->n" if axis == 1 else "cn,cn->n", z, y)
        share = kept / divisor(choice, len(targets), int(kept.sum()))
        w = np.exp(z - np.expand_dims(lse, axis))
        return float(each @ share), (w - y) * np.expand_dims(share, axis)

    return loss_and_slope


def loss_by_masking(choice):
    """Only the examples that count are computed at all."""
    def loss_and_slope(logits, targets):
        z = logits if choice["classes_lie"] == "across" else logits.T
        out = np.zeros(z.shape)
        rows = [i for i, y in enumerate(targets) if y != padding(choice, z.shape[1])]
        if not rows:
            return 0.0, np.zeros_like(logits)
        part, y = z[rows], targets[rows]
        part = part - part.max(axis=1)[:, None]
        log_w = part - np.log(np.exp(part).sum(axis=1))[:, None]
        by = divisor(choice, len(targets), len(rows))
        out[rows] = (np.exp(log_w) - np.eye(z.shape[1])[y]) / by
        return -np.trace(log_w[:, y]) / by, (out if choice["classes_lie"] == "across" else out.T)

    return loss_and_slope


@pytest.mark.parametrize("answer", [loss_by_loops, loss_by_index, loss_by_one_hot, loss_by_masking])
def test_loss_in_other_words(answer):
    for choice in variants(loss_and_slope):
        for seed in (None, HIDDEN):
            verdict, earned = told(loss_and_slope, choice, answer(choice), seed)
            assert verdict.passed and earned == 5, (choice, str(verdict))


def otherwise(**ways):
    return lambda choice: loss_by_index(choice, **ways)


def unless_sum(**ways):
    return lambda choice: loss_by_index(choice, **ways) if choice["total"] != "sum" else None


LOSS_WRONG = named([
    ("slope_not_divided", unless_sum(slope_by="sum")),
    ("divided_by_entries", otherwise(slope_by="entries")),
    ("sign_turned", otherwise(turned=-1)),
    ("negative_loss", otherwise(loss_sign=1)),
    ("weights_as_slopes", otherwise(one=0)),
    ("right_class_alone", otherwise(form="right alone")),
    ("slope_of_one_minus_w", otherwise(form="share slope")),
    ("loss_without_logarithm", otherwise(form="share")),
    ("logarithm_of_zero", otherwise(log="late")),
    ("logarithm_clipped", otherwise(log="clipped")),
    ("no_maximum_subtracted", otherwise(lower=False)),
    ("softmax_over_the_examples", otherwise(over=0)),
    ("left_out_counted", otherwise(form="all")),
    ("left_out_slopes", otherwise(keep=True)),
    ("nothing_counts", lambda choice: loss_by_index(choice, none_left="nan")
     if choice["total"] == "mean" else None),
    ("results_turned", lambda choice: lambda z, y: loss_by_index(choice)(z, y)[::-1]),
    ("one_result", lambda choice: lambda z, y: loss_by_index(choice)(z, y)[0]),
])  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), LOSS_WRONG)
def test_loss_wrong(name, answer):
    check_wrong(loss_and_slope, name, answer)


@pytest.mark.parametrize("answer", [loss_by_loops, loss_by_index, loss_by_one_hot, loss_by_masking])
def test_a_loss_of_another_class_is_told(answer):
    every = variants(loss_and_slope)
    for here, there in product(every[::5], every):
        if here != there:
            verdict, earned = told(loss_and_slope, here, answer(there))
            assert verdict.passed is False and earned == 0
            if here["classes_lie"] == there["classes_lie"]:
                assert "Right under another convention" in verdict.message, (here, there, str(verdict))


# ----------------------------------------------------------------------------- spread and scale


def finished(choice, spread, wanted):
    return spread, (wanted / spread if choice["given_as"] == "factor" else spread / wanted)


def combined(choice, variances):
    root = choice["of_all"] == "root_mean"
    return np.mean(variances) ** 0.5 if root else np.median(np.sqrt(variances))


def spread_by_loops(choice):
    def spread_and_scale(queries, keys, wanted):
        variances = []
        for q in queries:
            s = [sum(a * b for a, b in zip(q, k, strict=True)) for k in keys]
            mean = sum(s) / len(s)
            by = len(s) - (choice["variance_by"] == "n_less_1")
            variances.append(sum((x - mean) ** 2 for x in s) / by)
        return finished(choice, combined(choice, variances), wanted)

    return spread_and_scale


def spread_by_covariance(choice):
    def spread_and_scale(queries, keys, wanted):
        covariance = np.atleast_2d(np.cov(keys.T, bias=choice["variance_by"] == "n"))             # (d, d)
        variances = np.einsum("md,de,me->m", queries, covariance, queries)
        return finished(choice, combined(choice, variances), wanted)

    return spread_and_scale


def spread_by_std(choice):
    def spread_and_scale(queries, keys, wanted):
        s = np.einsum("md,nd->nm", queries, keys)
        roots = np.std(s, axis=0, ddof=int(choice["variance_by"] == "n_less_1"))
        spread = np.linalg.norm(roots) / len(roots) ** 0.5
        spread = spread if choice["of_all"] == "root_mean" else sorted(roots)[len(roots) // 2]
        if choice["of_all"] == "median" and len(roots) % 2 == 0:
            spread = sum(sorted(roots)[len(roots) // 2 - 1 : len(roots) // 2 + 1]) / 2
        return list(finished(choice, float(spread), wanted))

    return spread_and_scale


def spread_by_centring(choice):
    """Keys less their mean key: that takes each query's mean score off."""
    def spread_and_scale(queries, keys, wanted):
        s = queries @ (keys - keys.mean(0)).T
        variances = (s * s).sum(1) / (len(keys) - (choice["variance_by"] == "n_less_1"))
        return finished(choice, combined(choice, variances), wanted)

    return spread_and_scale


@pytest.mark.parametrize(
    "answer", [spread_by_loops, spread_by_covariance, spread_by_std, spread_by_centring]
)
def test_spread_in_other_words(answer):
    for choice in variants(spread_and_scale):
        for seed in (None, HIDDEN):
            verdict, earned = told(spread_and_scale, choice, answer(choice), seed)
            assert verdict.passed and earned == 4, (choice, str(verdict))


def measured(scores=lambda q, k: q @ k.T, spread=None, scale=None):
    """The usual way, with one thing done otherwise."""
    def made(choice):
        ddof = int(choice["variance_by"] == "n_less_1")

        def spread_and_scale(queries, keys, wanted):
            s = scores(queries, keys)
            found = spread(s, ddof) if spread else combined(choice, s.var(axis=1, ddof=ddof))
            if scale:
                given = scale(found, wanted, queries)
                return found, given if choice["given_as"] == "factor" else 1 / given
            return finished(choice, found, wanted)

        return spread_and_scale

    return made


def squared(choice):
    def spread_and_scale(queries, keys, wanted):
        variances = (queries @ keys.T).var(axis=1, ddof=int(choice["variance_by"] == "n_less_1"))
        return finished(choice, combined(choice, variances) ** 2, wanted)

    return spread_and_scale


SPREAD_WRONG = named([
    ("scores_pooled", measured(spread=lambda s, ddof: s.std(ddof=ddof))),
    ("over_the_queries", measured(scores=lambda q, k: k @ q.T)),
    ("pairs", measured(scores=lambda q, k: (q * k).sum(1), spread=lambda s, ddof: s.std(ddof=ddof))),
    ("variance_returned", squared),
    ("scale_from_the_variance", measured(scale=lambda found, wanted, q: wanted / found**2)),
    ("mean_of_roots", measured(spread=lambda s, ddof: s.std(axis=1, ddof=ddof).mean())),
    ("scaled_first", measured(scores=lambda q, k: q @ k.T / np.sqrt(q.shape[1]))),
    ("scale_of_strangers", measured(scale=lambda found, wanted, q: wanted / np.sqrt(q.shape[1]))),
    ("wanted_forgotten", measured(scale=lambda found, wanted, q: 1 / found)),
    ("wanted_as_variance", measured(scale=lambda found, wanted, q: np.sqrt(wanted) / found)),
    ("one_for_each_query", measured(spread=lambda s, ddof: s.std(axis=1, ddof=ddof))),
    ("largest", measured(spread=lambda s, ddof: s.std(axis=1, ddof=ddof).max())),
    ("results_turned", lambda choice: lambda *args: spread_by_std(choice)(*args)[::-1]),
    ("one_result", lambda choice: lambda *args: spread_by_std(choice)(*args)[0]),
])  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), SPREAD_WRONG)
def test_spread_wrong(name, answer):
    check_wrong(spread_and_scale, name, answer)


# ----------------------------------------------------------------------------------- prediction


def test_the_typical_slope_is_predicted_on_paper_or_by_the_exact_formula():
    for choice in variants(typical_slope):
        gap, width = float(choice["first_gap"]), int(choice["new_width"])
        root = (width / 256) ** 0.5

        def sloped(gap):
            w = 1 / (1 + np.exp(-gap))
            return 2 * w * (1 - w)

        truth = np.exp(gap * root - gap)
        for answer in (truth, round(truth, 1), sloped(gap) / sloped(gap * root), np.float64(truth * 1.09)):
            assert told(typical_slope, choice, answer)[1] == 2, choice
        for name, answer in (
            ("gap_for_slope", root), ("width_for_slope", width / 256), ("inverted", 1 / truth),
            ("growth_for_difference", np.exp(root)), ("new_gap", gap * root),
            ("gap_difference", gap * (root - 1)), ("base_two", 2 ** (gap * (root - 1))),
            ("gap_grows_as_the_width", np.exp(gap * width / 256 - gap)),
            ("old_slope_forgotten", np.exp(gap * root)),
        ):  # fmt: skip
            verdict, earned = told(typical_slope, choice, answer)
            assert verdict.passed is False and earned == 0
            same = answer == width / 256            # one number, come to in two ways
            assert verdict.misconception == name or same, (choice, answer, str(verdict))
        for answer in (-3, 0, 1e6, "12", [1, 2], np.nan, None, "many"):
            assert told(typical_slope, choice, answer)[1] == 0


# ---------------------------------------------------------------------------------- two rows


def test_two_rows_made_in_other_ways():
    for choice in variants(two_rows):
        p, n = float(choice["largest"]), int(choice["among"])
        rest = np.log((1 - p) / (n - 1))
        rivals = [np.log(p), np.log(1 - p), *[-60.0] * (n - 2)]
        even = [np.log(p), *[rest] * (n - 1)]
        lead = np.log(p * (n - 1) / (1 - p))
        right = (
            np.array([rivals, even]),
            [rivals, even],
            np.array([rivals[::-1], np.roll(even, 3)]) + 1000,
            np.array([[0.0] * (n - 2) + [50.0 + np.log(p / (1 - p)), 50.0], [lead] + [0.0] * (n - 1)]),
        )
        for answer in right:
            verdict, earned = told(two_rows, choice, answer)
            assert verdict.passed and earned == 3, (choice, str(verdict))
        for name, answer, part in (
            ("turned_round", np.array([even, rivals]), 1),
            ("weights_given", np.exp([rivals, even]), 1),
            ("one_row_right", np.array([rivals, rivals]), 1),
            ("one_row_right", np.array([even, even]), 1),
            (None, np.zeros((2, n)), 0),
            (None, np.array([even, even]) * 2, 0),
            (None, np.array([[np.log(p / (1 - p))] + [0.0] * (n - 1)] * 2), 0),
            (None, np.array([rivals, even]).T, 0),
            (None, np.array([rivals, even]) * -np.inf, 0),
            (None, rivals, 0),
        ):
            verdict, earned = told(two_rows, choice, answer)
            assert not verdict.passed and verdict.misconception == name, (choice, str(verdict))
            assert earned == part, (choice, str(verdict))


# ------------------------------------------------------------------------------- safe softmax


def made_test(choice, scores, *, compare=lambda a, b: np.allclose(a, b, rtol=0, atol=1e-6), each=False):
    """A test that compares with a softmax of its own on these scores, an array or one for each call."""
    row, safe = choice["one_query_is"] == "row", choice["says_true_of"] == "safe"

    def is_it(softmax):
        for s in (scores if each else [scores]):
            s = np.array(s, float)
            top = s.max(1, keepdims=True)
            wanted = np.exp(s - top - np.log(np.exp(s - top).sum(1, keepdims=True)))
            found = softmax(s) if row else softmax(s.T).T
            if not compare(found, wanted):
                return not safe
        return safe

    return is_it


CLOSE = [[9999.0, 9998.7, 9998.1], [-9999.0, -9998.6, -9999.9]]
JUMP = [[9000.0, 0.0, 0.0, -9000.0], [0.0, 0.1, 0.3, 0.2]]
HOLES = [[1.0, -np.inf, 0.5], [-np.inf, 2.0, -np.inf]]


def thorough(choice):
    return made_test(choice, [CLOSE, JUMP, HOLES], each=True)


def drawn(choice):
    rng = np.random.default_rng(3)
    tried = []
    for level in (0, 5000.0, 9990.0):
        s = rng.normal(size=(6, 8)) + rng.choice([-level, level], size=(6, 1))
        s[rng.random(s.shape) < 0.2] = -np.inf
        s[:, 0] = s[:, 0].clip(-9000)
        tried.append(s)
    spread = rng.uniform(-9000, 9000, size=(40, 9))
    return made_test(choice, [*tried, spread], each=True)


def exact(choice):
    """Compares with whole-number arithmetic in Python, entry by entry."""
    def compare(a, b):
        close = (abs(x - y) <= 1e-6 for x, y in zip(np.ravel(a).tolist(), np.ravel(b).tolist(), strict=True))
        return all(close)

    return made_test(choice, [CLOSE, JUMP, HOLES], each=True, compare=compare)


def by_its_marks(choice):
    """No reference: shares, ratios of neighbours, and the same after a shift."""
    row, safe = choice["one_query_is"] == "row", choice["says_true_of"] == "safe"

    def is_it(softmax):
        for s in (CLOSE, JUMP, HOLES):
            s = np.array(s)
            w = softmax(s) if row else softmax(s.T).T
            ratios = w / w.max(1, keepdims=True)
            good = np.abs(w.sum(1) - 1).max() < 1e-6
            good = good and np.abs(ratios - np.exp(s - s.max(1, keepdims=True))).max() < 1e-6
            if not good:
                return not safe
        return safe

    return is_it


@pytest.mark.parametrize("answer", [thorough, drawn, exact, by_its_marks])
def test_safe_in_other_words(answer):
    for choice in variants(safe_softmax):
        for seed in (None, HIDDEN):
            verdict, earned = told(safe_softmax, choice, answer(choice), seed)
            assert verdict.passed and earned == 4, (choice, str(verdict))


def by_sums(choice):
    row, safe = choice["one_query_is"] == "row", choice["says_true_of"] == "safe"
    s = np.array([[9000.0, 9000.5], [-9000.0, -9000.5]])
    return lambda softmax: bool(np.allclose(softmax(s).sum(1 if row else 0), 1)) == safe


SAFE_WRONG = named([
    ("overflow_missed", lambda choice: made_test(
        choice, [[[30.0, 29, 28], [-30, -31, -29]], HOLES], each=True)),
    ("always_true", lambda choice: lambda softmax: True),
    ("always_false", lambda choice: lambda softmax: False),
    ("{row}s_too_alike", lambda choice: made_test(choice, [[9000.0, 8999.0], [9001.0, 9000.0]])),
    ("far_above_the_mean_missed", lambda choice: made_test(choice, [CLOSE, HOLES], each=True)),
    ("minus_infinity_missed", lambda choice: made_test(choice, [CLOSE, JUMP], each=True)),
    ("two_large_ones_missed", lambda choice: made_test(
        choice, [JUMP, HOLES, [[300.0, 299.0], [-3000.0, 0.0]]], each=True)),
    ("lost_digits_missed", lambda choice: made_test(
        choice, [[[5000.0, 4999.0], [-5000.0, -4999.0]], JUMP, HOLES], each=True)),
    ("exact_sum_asked", lambda choice: made_test(
        choice, [CLOSE, JUMP, HOLES], each=True,
        compare=lambda a, b: np.allclose(a, b, rtol=0, atol=1e-10))),
])  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), SAFE_WRONG)
def test_safe_wrong(name, answer):
    for choice in variants(safe_softmax):
        verdict, earned = told(safe_softmax, choice, answer(choice))
        assert verdict.passed is False, (choice, str(verdict))
        assert verdict.misconception == name.format(row=choice["one_query_is"]), (choice, str(verdict))
        assert earned == (2 if "8 of 9" in verdict.message else 0)


def test_safe_turned_or_blind():
    for choice in variants(safe_softmax):
        good = thorough(choice)
        for bad in (lambda softmax, good=good: not good(softmax), by_sums(choice),
                    lambda softmax: softmax(np.zeros(3)), lambda softmax: None, 5):  # fmt: skip
            assert told(safe_softmax, choice, bad)[0].passed is False


# ------------------------------------------------------------------------------------- figure


@pytest.fixture
def plt():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def sureness(choice, s, axis=1):
    e = np.exp(s - s.max(axis, keepdims=True))
    w = e / e.sum(axis, keepdims=True)
    with np.errstate(all="ignore"):
        each = w.max(1) if choice["shown"] == "largest" else np.exp(-np.nansum(w * np.log(w), 1))
    return np.mean(each) if choice["over_queries"] == "mean" else np.median(each)


def drawing(plt, choice, *, raw=lambda s, d: s, scaled=lambda s, d: s / d**0.5, of=sureness,
            names=("raw", "scaled"), legend=True, x=None, title="How sure?", labels=True, log=True, order=1,
            extra=False):  # fmt: skip
    s = drawn_sureness.scores(int(choice["key_count"]))
    widths = list(s)[::order]
    figure, axes = plt.subplots()
    x = widths if x is None else x
    for name, way in zip(names, (raw, scaled), strict=True):
        axes.plot(x, [of(choice, way(s[d], d)) for d in widths], "o--", label=name)
    if extra:
        axes.axhline(1)
    if log:
        axes.set_xscale("log")
    if labels:
        word = "Largest weight" if choice["shown"] == "largest" else "Keys heard"
        axes.set(xlabel="Width", ylabel=word)
    if legend:
        axes.legend()
    axes.set_title(title)
    return figure


def test_figures_drawn_in_other_ways(plt):
    for choice in variants(drawn_sureness)[1::3]:
        for ways in ({}, {"log": False, "order": -1}, {"names": ("raw scores", "Scaled by 1/√d")},
                     {"extra": True}):  # fmt: skip
            answer = drawing(plt, choice, **ways)
            for given in (answer, answer.axes[0], figure_data(answer)):
                verdict, earned = told(drawn_sureness, choice, given)
                assert verdict.passed and earned == 3, (choice, ways, str(verdict))
        plt.close("all")


def over_the_queries(choice, s):
    return sureness(choice, s, axis=0)


def over_everything(choice, s):
    return sureness(choice, s, axis=(0, 1))


def other(choice, what):
    exchanged = {"largest": "heard", "heard": "largest", "mean": "median", "median": "mean"}
    return {**choice, what: exchanged[choice[what]]}


FIGURES_WRONG = named([
    ("divided_by_the_width", {"scaled": lambda s, d: s / d}),
    ("multiplied", {"scaled": lambda s, d: s * d**0.5}),
    ("one_scale_for_all", {"scaled": lambda s, d: s / s.shape[1] ** 0.5}),
    ("scaled_line_wrong", {"scaled": lambda s, d: s / s.std() ** 2 * 1.3}),
    ("raw_line_wrong", {"raw": lambda s, d: 1.3 * s}),
    ("other_statistic", {"of": lambda choice, s: sureness(other(choice, "over_queries"), s)}),
    ("other_quantity", {"of": lambda choice, s: sureness(other(choice, "shown"), s)}),
    ("softmax_over_the_queries", {"of": lambda choice, s: over_the_queries(choice, s)}),
    ("softmax_over_everything", {"of": lambda choice, s: over_everything(choice, s)}),
    ("names_exchanged", {"names": ("scaled", "raw")}),
    ("no_names", {"names": ("a", "b")}),
    ("no_legend", {"legend": False}),
    ("no_labels", {"labels": False}),
    ("no_title", {"title": ""}),
    (None, {"x": [0, 1, 2, 3, 4]}),
    (None, {"raw": lambda s, d: s * 1.5, "scaled": lambda s, d: s * 0.3}),
])  # fmt: skip


@pytest.mark.parametrize(("name", "ways"), FIGURES_WRONG)
def test_figures_wrong(name, ways, plt):
    for choice in variants(drawn_sureness)[::5]:
        verdict, earned = told(drawn_sureness, choice, drawing(plt, choice, **ways))
        assert verdict.passed is False and verdict.misconception == name, (choice, str(verdict))
        elsewhere = name in ("other_statistic", "other_quantity")       # right in another class
        assert earned == (1 if name and not elsewhere else 0)
        plt.close("all")


def test_all_that_a_figure_lacks_is_told_at_once(plt):
    choice = drawn_sureness.SAMPLE
    verdict, earned = told(drawn_sureness, choice, drawing(plt, choice, labels=False, title=""))
    assert "the word width" in verdict.message and "A title is missing" in verdict.message and earned == 1
    plt.close("all")


def test_what_is_no_figure(plt):
    choice = drawn_sureness.SAMPLE
    for answer in (3, "figure", plt, plt.subplots(), plt.figure(), [1, 2]):
        assert told(drawn_sureness, choice, answer)[0].passed is False
