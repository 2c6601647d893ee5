"""Lesson 04's exercises: every right way accepted, every known mistake named."""

import json
from pathlib import Path

import numpy as np
import pytest

import attnlib
from attnlib.core.scores import cosine_score
from attnlib.exercises import check
from attnlib.exercises.catalogue import EXERCISES as ALL
from attnlib.exercises.luong import EXERCISES as OF_LUONG
from attnlib.exercises.score_functions import DISHES
from attnlib.exercises.score_functions import EXERCISES as OF_SCORES

EXERCISES = (*OF_SCORES, *OF_LUONG)
FUNCTIONS = {
    "cosine_score": attnlib.cosine_score,
    "general_score": attnlib.general_score,
    "additive_score": attnlib.additive_score,
    "concat_score": attnlib.concat_score,
    "location_weights": lambda q, k, w: attnlib.softmax(attnlib.location_score(q, k, w)),
    "local_weights": attnlib.local_p_weights,
}


def cosine_by_loop(q, k):
    out = np.zeros((len(q), len(k)))
    for i, a in enumerate(q):
        for j, b in enumerate(k):
            size = np.sqrt(a @ a) * np.sqrt(b @ b)
            out[i, j] = a @ b / size if size else 0.0
    return out


def cosine_after_the_product(q, k):
    sizes = np.outer(np.linalg.norm(q, axis=1), np.linalg.norm(k, axis=1))
    return np.divide(q @ k.T, sizes, out=np.zeros(sizes.shape), where=sizes > 0)


def cosine_with_epsilon(q, k):
    u, w = (x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-8) for x in (q, k))
    return u @ w.T


def cosine_with_a_larger_epsilon(q, k):
    u, w = (x / (np.sqrt((x * x).sum(-1, keepdims=True)) + 1e-6) for x in (q, k))
    return np.einsum("id,jd->ij", u, w)


def cosine_in_float32(q, k):
    return cosine_with_epsilon(q.astype(np.float32), k.astype(np.float32))


def cosine_mended(q, k):
    with np.errstate(all="ignore"):
        u, w = (x / np.linalg.norm(x, axis=-1)[:, None] for x in (q, k))
    return np.nan_to_num(u @ w.T)


def general_by_einsum(q, k, w):
    return np.einsum("ia,ab,jb->ij", q, w, k)


def general_by_keys(q, k, w):
    return q @ (w @ k.T)


def general_by_loop(q, k, w):
    return np.array([[a @ w @ b for b in k] for a in q])


def additive_by_loop(q, k, w_q, w_k, v):
    return np.array([[v @ np.tanh(w_q @ a + w_k @ b) for b in k] for a in q])


def additive_by_concat(q, k, w_q, w_k, v):
    pairs = np.concatenate([np.repeat(q, len(k), axis=0), np.tile(k, (len(q), 1))], axis=1)
    return (np.tanh(pairs @ np.hstack([w_q, w_k]).T) @ v).reshape(len(q), len(k))


def additive_by_einsum(q, k, w_q, w_k, v):
    hidden = np.einsum("ad,id->ia", w_q, q)[:, None, :] + np.einsum("ad,jd->ja", w_k, k)[None, :, :]
    return np.einsum("ija,a->ij", np.tanh(hidden), v)


def additive_by_exponentials(q, k, w_q, w_k, v):
    h = (q @ w_q.T)[:, None] + k @ w_k.T
    return ((1 - 2 / (np.exp(2 * h) + 1)) * v).sum(2)


def additive_in_torch(q, k, w_q, w_k, v):
    import torch

    q, k, w_q, w_k, v = (torch.tensor(x, dtype=torch.float64) for x in (q, k, w_q, w_k, v))
    return (torch.tanh((q @ w_q.T)[:, None] + k @ w_k.T) @ v).numpy()


def rows_of_weights(score, n_query=8, n_key=5):
    rng = np.random.default_rng(3)
    s = score(rng.normal(size=(n_query, 4)), rng.normal(size=(n_key, 6)))
    with np.errstate(all="ignore"):
        e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def alike(w, **tolerance):
    return np.allclose(w, w[0], **tolerance)


def counts_by_weights(score):
    return not alike(rows_of_weights(score), rtol=0, atol=1e-8)


def counts_by_differences(score):
    """No softmax at all: rows of scores that differ by more than a number for the row."""
    rng = np.random.default_rng(3)
    s = score(rng.normal(size=(8, 4)), rng.normal(size=(5, 6)))
    return np.ptp(s - s[0], axis=1).max() > 1e-8


def counts_one_call_a_query(score):
    rng = np.random.default_rng(4)
    keys, first = rng.normal(size=(7, 6)), None
    for q in rng.normal(size=(10, 1, 4)):
        s = score(q, keys)[0]
        logs = s - s.max() - np.log(np.exp(s - s.max()).sum())
        if first is not None and max(abs(np.exp(logs) - np.exp(first))) > 1e-7:
            return True
        first = logs
    return False


def counts_by_distinct_rows(score):
    return len(np.unique(rows_of_weights(score).round(8), axis=0)) > 1


def by_scores(score):
    rng = np.random.default_rng(3)
    return not alike(score(rng.normal(size=(8, 4)), rng.normal(size=(5, 6))))


def by_first_choice(score):
    return len(set(rows_of_weights(score).argmax(-1).tolist())) > 1


def without_taking_off_the_largest(score):
    rng = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        e = np.exp(score(rng.normal(size=(8, 4)), rng.normal(size=(5, 6))))
        return not alike(e / e.sum(-1, keepdims=True))


def by_nan(score):
    """The exponentials unshifted, and a comparison that NaN never passes."""
    rng = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        e = np.exp(score(rng.normal(size=(8, 4)), rng.normal(size=(5, 6))))
        w = e / e.sum(-1, keepdims=True)
        return bool(np.abs(w - w[0]).max() > 1e-8)


def by_a_longer_query(score):
    rng = np.random.default_rng(3)
    q = rng.normal(size=(1, 4))
    s = score(np.concatenate([q, 2 * q]), rng.normal(size=(5, 6)))
    e = np.exp(s - s.max(-1, keepdims=True))
    return not alike(e / e.sum(-1, keepdims=True))


def by_unit_vectors(score):
    s = score(np.eye(4), np.random.default_rng(3).normal(size=(5, 6)))
    e = np.exp(s - s.max(-1, keepdims=True))
    return not alike(e / e.sum(-1, keepdims=True))


def by_the_first_number(score):
    q = np.zeros((5, 4))
    q[:, 0] = np.arange(5)
    s = score(q, np.random.default_rng(3).normal(size=(5, 6)))
    e = np.exp(s - s.max(-1, keepdims=True))
    return not alike(e / e.sum(-1, keepdims=True))


def by_exchanged_keys(score):
    rng = np.random.default_rng(3)
    q, k = rng.normal(size=(4, 4)), rng.normal(size=(5, 6))
    s, t = score(q, k), score(q, k[::-1])[:, ::-1]
    return not np.allclose(s - s.max(-1, keepdims=True), t - t.max(-1, keepdims=True))


def concat_by_pairs(q, k, w, v):
    return np.array([[v @ np.tanh(w @ np.concatenate([a, b])) for b in k] for a in q])


def concat_by_repeating(q, k, w, v):
    pairs = np.concatenate([np.repeat(q, len(k), 0), np.tile(k, (len(q), 1))], axis=1)
    return (np.tanh(pairs @ w.T) @ v).reshape(len(q), len(k))


def concat_by_broadcasting(q, k, w, v):
    shape = (len(q), len(k))
    both = [np.broadcast_to(q[:, None], (*shape, q.shape[1])), np.broadcast_to(k, (*shape, k.shape[1]))]
    return np.tanh(np.concatenate(both, axis=-1) @ w.T) @ v


def location_by_loop(q, k, w):
    rows = []
    for a in q:
        e = [np.exp(row @ a - max(w[: len(k)] @ a)) for row in w[: len(k)]]
        rows.append(np.array(e) / sum(e))
    return np.array(rows)


def location_cut_and_renormalised(q, k, w):
    s = q @ w.T
    e = np.exp(s - s.max(-1, keepdims=True))
    e = (e / e.sum(-1, keepdims=True))[:, : len(k)]
    return e / e.sum(-1, keepdims=True)


def location_hidden_not_cut(q, k, w):
    s = q @ w.T
    s[:, len(k) :] = -np.inf
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def location_hidden(q, k, w):
    s = np.where(np.arange(len(w)) < len(k), q @ w.T, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True))[:, : len(k)]


def local_by_loop(scores, position, half_window):
    out = np.zeros(np.shape(scores))
    for i, p in enumerate(position):
        window = [j for j in range(scores.shape[1]) if abs(j - p) <= half_window]
        e = np.exp(scores[i, window] - scores[i, window].max())
        out[i, window] = e / e.sum() * [np.exp(-2 * (j - p) ** 2 / half_window**2) for j in window]
    return out


def local_by_masking(scores, position, half_window):
    distance = np.abs(np.arange(scores.shape[1])[None] - np.reshape(position, (-1, 1)))
    masked = np.ma.array(scores, mask=distance > half_window)
    e = np.exp(masked - masked.max(axis=1, keepdims=True)).filled(0.0)
    return e / e.sum(axis=1, keepdims=True) * np.exp(-0.5 * (distance / (half_window / 2)) ** 2)


def network(c=6.0, b=(-3.0, -9.0), v=(5.0, -5.0)):
    return np.reshape(b, (2, 1)), np.full((2, 2), c), np.array(v)


RIGHT = {
    "terms_that_count": ["AC", "ca", "A, C", "A and C", ["A", "C"], {"C", "A"}, ("a", "c")],
    "exactly_one": [
        network(), tuple(x.tolist() for x in network()), network(5, (-2, -8), (9, -9)),
        network(-6, (3, 9), (-5, 5)),                                # both signs turned
        (np.array([[-4.0], [-4.0]]), np.array([[8.0, -8.0], [-8.0, 8.0]]), np.array([5.0, 5.0])),
    ],
    "cosine_score": [cosine_by_loop, cosine_after_the_product, cosine_with_epsilon,
                     cosine_with_a_larger_epsilon, cosine_in_float32, cosine_mended],
    "general_score": [general_by_einsum, general_by_keys, general_by_loop],
    "additive_score": [additive_by_loop, additive_by_concat, additive_by_einsum, additive_by_exponentials,
                       additive_in_torch],
    "query_counts": [counts_by_weights, counts_by_differences, counts_one_call_a_query,
                     counts_by_distinct_rows],
    "concat_score": [concat_by_pairs, concat_by_repeating, concat_by_broadcasting],
    "location_weights": [location_by_loop, location_hidden],
    "local_weights": [local_by_loop, local_by_masking],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_solutions_pass_and_hints_lead_there(exercise):
    names = {}
    exec(exercise.solution, names)
    assert check(exercise.id, names.get("answer", names.get(exercise.id)), show=False).passed is True
    assert 2 <= len(exercise.hints) <= 4 and exercise.lesson == "04"


def row_with_row(q, k, w_q, w_k, v):
    return np.tanh(q @ w_q.T + k @ w_k.T) @ v


def two_mistakes(q, k, w_q, w_k, v):
    return ((q @ w_q)[:, None] + k @ w_k) @ v


def cosine_of_columns(q, k):
    return q / np.linalg.norm(q, axis=0) @ (k / np.linalg.norm(k, axis=0)).T


def cosine_of_one_and_nan(q, k):
    return q @ k.T / np.linalg.norm(q, axis=1, keepdims=True)


def changes_input(q, k):
    q /= 2
    return cosine_with_epsilon(q, k)


def by_half(function):
    """The function with a result that no mistake describes."""
    return lambda *args: function(*args) * np.linspace(0.5, 1, len(args[1]))


WRONG = [
    ("terms_that_count", "A", "biases_never", "a.k"),
    ("terms_that_count", "ABC", "query_part_counts", "along one row"),
    ("terms_that_count", "AB", "wrong_row", "queries of one key"),
    ("terms_that_count", "ABCD", "all_count", "do not change"),
    ("terms_that_count", "ACD", "constant_counts", "one number"),
    ("terms_that_count", "BD", "invisible_ones", "other two"),
    ("terms_that_count", "C", "match_forgotten", "q.k"),
    ("terms_that_count", "D", None, "from key to key"),
    ("terms_that_count", "E", None, "letters"),
    ("terms_that_count", "", None, "letters"),
    ("terms_that_count", 3, None, "got 3"),
    ("terms_that_count", [1, 2], None, "letters"),
    ("exactly_one", network(v=(-5.0, 5.0)), "upside_down", "upside down"),
    ("exactly_one", network(v=(0.5, -0.5)), "too_quiet", "lead"),
    ("exactly_one", network(v=(0.0, 0.0)), "zero", "v = 0"),
    ("exactly_one", network(c=0.0), "zero", "w_k = 0"),
    ("exactly_one", network(0.01, (0.0, 0.0), (9.0, 9.0)), "no_bend", "hardly bends"),
    ("exactly_one", network(b=(3.0, 9.0)), "flat", "end of the tanh"),
    ("exactly_one", network(1, (0.0, 0.0), (1.0, -1.0)), "all_alike", "the other takes away"),
    ("exactly_one", network(6, (-3.0, -3.0), (5.0, 5.0)), "or", "or both"),
    ("exactly_one", network(-6, (9.0, 9.0), (5.0, 5.0)), "not_both", "everything but both"),
    ("exactly_one", network(6, (-9.0, -9.0), (5.0, 5.0)), "more_is_better", "both wins"),
    ("exactly_one", (np.array([[-3.0], [3.0]]), np.array([[6.0, 0.0], [0.0, -6.0]]), np.array([5.0, 5.0])),
     "one_taste_each", "one taste alone"),
    ("exactly_one", (np.array([[-3.0], [0.0]]), np.array([[6.0, -6.0], [0.0, 0.0]]), np.array([5.0, 1.0])),
     "one_sided", "leads alone"),
    ("exactly_one", (np.zeros(2), np.ones((2, 2)), np.ones(2)), "shape", "w_q have shape (2, 1)"),
    ("exactly_one", network(c=60.0), "too_large", "reach 60"),
    ("exactly_one", network(c=np.nan), None, "finite"),
    ("exactly_one", (1, 2), None, "three arrays"),
    ("exactly_one", ("a", "b", "c"), None, "'a'"),
    ("exactly_one", 5, None, "three arrays"),
    ("cosine_score", cosine_of_columns, "wrong_axis", "columns"),
    ("cosine_score", cosine_of_one_and_nan, "one_norm and zero_is_nan", "key is still loud"),
    ("cosine_score", lambda q, k: q @ k.T / np.linalg.norm(q) / np.linalg.norm(k), "one_length_for_all",
     "one number"),
    ("cosine_score", changes_input, "changes_input", "Work on a copy"),
    ("cosine_score", lambda q, k: cosine_score(q, k), "package", "calls the package"),
    ("cosine_score", lambda q, k: q @ k.T / (np.sqrt(np.outer((q * q).sum(1), (k * k).sum(1))) + 1e-3),
     "large_epsilon", "product of the lengths"),
    ("cosine_score", by_half(cosine_with_epsilon), None, "should be"),
    ("cosine_score", lambda q, k: (q / np.linalg.norm(q, axis=-1)) @ (k / np.linalg.norm(k, axis=-1)).T,
     "norm_loses_its_axis", "keepdims"),
    ("general_score", lambda q, k, w: q @ w.T @ k.T, "transposed", "another convention"),
    ("general_score", lambda q, k, w: k @ (q @ w).T, "result_transposed", "row for each key"),
    ("general_score", lambda q, k, w: q @ k.T, "without_w", "dot product"),
    ("general_score", lambda q, k, w: q @ w @ k, "keys_not_turned", "as it stands"),
    ("general_score", lambda q, k, w: np.array([q[i] @ w @ k[i] for i in range(len(q))]), "row_with_row",
     "Every query meets every key"),
    ("general_score", lambda q, k, w: q @ np.linalg.inv(w) @ k.T, None, "raised LinAlgError"),
    ("general_score", lambda q, k, w: attnlib.general_score(q, k, w), "package", "calls the package"),
    ("general_score", lambda q, w: q, "signature", "(q, k, w)"),
    ("additive_score", row_with_row, "row_with_row", "Every query meets every key"),
    ("additive_score", lambda q, k, a, b, v: v @ np.tanh((q @ a.T)[:, None] + k @ b.T), "wrong_axis",
     "before the hidden numbers"),
    ("additive_score", two_mistakes, "no_tanh and transposed", "Two things at once"),
    ("additive_score", lambda q, k, a, b, v: np.tanh((q @ a.T)[None] + (k @ b.T)[:, None]) @ v,
     "result_transposed", "row for each key"),
    ("additive_score", lambda q, k, a, b, v: (q @ a.T @ v)[:, None] + k @ b.T @ v, "no_tanh",
     "every query gets the same weights"),
    ("additive_score", by_half(additive_by_loop), None, "should be"),
    ("additive_score", lambda q, k, a, b, v: attnlib.additive_score(q, k, a, b, v), "package",
     "calls the package"),
    ("additive_score", lambda *a: None, None, "end with a return"),
    ("additive_score", 7, None, "Give a function"),
    ("query_counts", by_scores, "scores_compared", "by one number in the whole row"),
    ("query_counts", by_first_choice, "order_compared", "the same order"),
    ("query_counts", without_taking_off_the_largest, "large_scores", "overflow"),
    ("query_counts", by_nan, "nan_is_no", "no comparison"),
    ("query_counts", lambda s: bool((rows_of_weights(s) != rows_of_weights(s)[0]).any()), "exact_comparison",
     "rounding alone"),
    ("query_counts", lambda s: not alike(rows_of_weights(s), atol=0.01), "too_coarse", "faintly"),
    ("query_counts", lambda s: np.ptp(rows_of_weights(s), axis=1).max() > 1e-6, "says_yes",
     "Do you compare weights"),
    ("query_counts", lambda s: not alike(rows_of_weights(s, 1)), "says_no", "How many keys"),
    ("query_counts", lambda s: not alike(rows_of_weights(s, 8, 1)), "says_no", "How many keys"),
    ("query_counts", by_a_longer_query, "length_only", "direction"),
    ("query_counts", by_unit_vectors, "direction_only", "of one length"),
    ("query_counts", by_the_first_number, "one_number", "last number"),
    ("query_counts", by_exchanged_keys, "match_missed", "lets the query count"),
    ("query_counts", lambda s: rows_of_weights(s), None, "Return True or False"),
    ("query_counts", lambda s: bool(s(np.zeros((2, 5)), np.zeros((2, 6))).any()), None, "shape (n, 4)"),
    ("query_counts", lambda s: attnlib.softmax(s(np.eye(4), np.eye(6))).any(), "package",
     "calls the package"),
    ("concat_score", lambda q, k, w, v: concat_by_pairs(k, q, w, v).T, "key_first", "[k; q]"),
    ("concat_score", lambda q, k, w, v: (q @ w[:, -q.shape[1]:].T @ v)[:, None]
     + k @ w[:, :k.shape[1]].T @ v, "key_first and no_tanh", "Two things at once"),
    ("concat_score", lambda q, k, w, v: np.tanh(np.hstack([q, k]) @ w.T) @ v, "row_with_row", "all pairs"),
    ("concat_score", lambda q, k, w, v: np.tanh((q @ w[:, :q.shape[1]].T @ v)[:, None]
     + k @ w[:, q.shape[1]:].T @ v), "tanh_after_v", "before v adds them up"),
    ("concat_score", lambda q, k, w, v: np.tile(np.tanh(k @ w[:, q.shape[1]:].T) @ v, (len(q), 1)),
     "query_forgotten", "no part"),
    ("concat_score", lambda q, k, w, v: attnlib.concat_score(q, k, w, v), "package", "calls the package"),
    ("concat_score", by_half(concat_by_pairs), None, "should be"),
    ("location_weights", lambda q, k, w: location_by_loop(q, w, w)[:, :len(k)], "softmax_before_the_cut",
     "do not sum to 1"),
    ("location_weights", lambda q, k, w: location_by_loop(q, k, w) / 2, None, "sums to 0.5"),
    ("location_weights", lambda q, k, w: location_by_loop(q, k, np.linalg.inv(w)), None, "raised"),
    ("location_weights", lambda q, k, w: (q @ w.T)[:, :len(k)], "no_softmax", "makes them weights"),
    ("location_weights", lambda q, k, w: location_by_loop(q, w, w), "not_cut", "first len(k)"),
    ("location_weights", location_cut_and_renormalised, "renormalised", "0/0 is NaN"),
    ("location_weights", location_hidden_not_cut, "hidden_not_cut", "still there"),
    ("general_score", lambda q, k, w: (q @ w)[:, None, :] * k[None], "not_summed", "their sum"),
    ("local_weights", lambda s, p, d: local_by_loop(s, p, d) / local_by_loop(s, p, d).sum(1, keepdims=True),
     "renormalised", "sum to 1"),
    ("local_weights", lambda s, p, d: local_by_loop(s, np.round(p), d), "position_rounded", "round p"),
    ("local_weights", lambda s, p, d: local_by_loop(s, p, d) ** 0.5, None, "should be"),
    ("local_weights", lambda s, p, d: np.exp(-2 * ((np.arange(s.shape[1]) - p[:, None]) / d) ** 2)
     * attnlib.softmax(s), "package", "calls the package"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exercise, answer, misconception, words", WRONG)
def test_wrong_answers_are_told_what_is_wrong(exercise, answer, misconception, words):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.misconception == misconception, verdict.message
    assert words in verdict.message and len(verdict.message) < 650, verdict.message


@pytest.mark.parametrize(
    "exercise, mistake", [(e, m) for e in FUNCTIONS for m in ALL[e].judge.mistakes],
    ids=lambda x: x if isinstance(x, str) else f"{x.name}-{x.choices}",
)  # fmt: skip
def test_each_mistake_is_named(exercise, mistake):
    compute = ALL[exercise].judge.compute
    verdict = check(exercise, lambda *args: compute(*args, **mistake.choices), show=False)
    assert verdict.passed is False and verdict.misconception == mistake.name, verdict.message
    assert mistake.hint in verdict.message


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_the_references_are_the_packages_functions(exercise):
    judge = ALL[exercise].judge
    for case in judge.cases():
        wanted = FUNCTIONS[exercise](*case.args)
        np.testing.assert_allclose(judge.compute(*case.args), wanted, atol=1e-12)


def test_untouched_answers_are_not_answered_yet():
    def stub(*args):
        raise NotImplementedError

    for exercise in EXERCISES:
        assert check(exercise.id, ..., show=False).passed is None
    for exercise in FUNCTIONS:
        assert check(exercise, stub, show=False).passed is None
    assert check("exactly_one", (..., ..., ...), show=False).passed is None
    assert check("exactly_one", (*network()[:2], ...), show=False).passed is None


def test_no_linear_score_wants_exactly_one():
    """What the lesson says: sweet and sour together score as much as neither and both."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        neither, sweet, sour, both = attnlib.general_score(rng.normal(size=(1, 3)), DISHES,
                                                           rng.normal(size=(3, 2)))[0]  # fmt: skip
        assert np.isclose(sweet + sour, neither + both)


def test_the_biases_that_count_are_those_of_the_verdict():
    rng = np.random.default_rng(1)
    q, k = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))
    a, b = rng.normal(size=(2, 4))
    weights = attnlib.softmax(attnlib.dot_score(q, k))
    np.testing.assert_allclose(attnlib.softmax(attnlib.dot_score(q, k + b)), weights)
    assert abs(attnlib.softmax(attnlib.dot_score(q + a, k)) - weights).max() > 0.1


def test_the_contracts_of_the_lesson_are_those_that_are_judged():
    path = Path(__file__).resolve().parents[2] / "notebooks" / "04_score_functions.ipynb"
    cells = ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    text = "\n".join(cell for cell in cells if "### Exercise" in cell)
    for promise in ("more than 0.45 each", "no number beyond 10", "a row of zeros scores 0", "1e-6 or less",
                    "`w` has shape $(d_q, d_k)$", "`w_q` has shape $(d_a, d_q)$", "length between 0.2",
                    "a difference of 1e-6", "one of 1e-10 is rounding", "shape $(L_q, 4)$",
                    "shape $(d_a, d_q + d_k)$", "with the query on top", "never fewer",
                    "the places that have a key", "any number from 0 to $L_k$", "counted from 0"):
        assert promise in text, promise


def test_a_test_meets_what_its_text_promises():
    """For random queries and keys: weights differ by more than 1e-6, or by rounding alone."""
    for implementation in ALL["query_counts"].judge.implementations:
        (score,) = implementation.make()
        for seed in range(20):
            rng = np.random.default_rng(seed)
            w = attnlib.softmax(score(rng.normal(size=(8, 4)), rng.normal(size=(5, 6))))
            difference = np.ptp(w, axis=0).max()
            assert difference > 1e-6 if implementation.answer else difference < 1e-10, implementation.name
