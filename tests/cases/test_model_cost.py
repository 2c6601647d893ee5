import pytest

from attnlib import relative_flops


@pytest.mark.parametrize(
    "length, softmax, lightning, hybrid",
    [(2**13, 1.2223, 1.0079, 1.0347), (2**17, 4.5556, 1.0079, 1.4513), (2**20, 29.4445, 1.0079, 4.5624)],
)
def test_the_table_of_the_paper_evaluated_for_its_model(length, softmax, lightning, hybrid):
    for kind, wanted in (("softmax", softmax), ("lightning", lightning), ("hybrid", hybrid)):
        assert relative_flops(kind, length) == pytest.approx(wanted, abs=5e-5)


def test_each_term_for_a_small_model():
    """Counted by hand: ``12 d**2`` weights, 6 operations of training for each; n keys at ``12 d`` each."""
    n, d, h = 300, 20, 5
    tail = 5 / 360
    assert relative_flops("softmax", n, d, h) == pytest.approx((72 * d**2 + 12 * n * d) / (72 * d**2) + tail)
    assert relative_flops("lightning", n, d, h) == pytest.approx(1 + 0.1 + tail)
    assert relative_flops("hybrid", n, d, h) == pytest.approx(1 + 300 / 960 + 7 / 80 + tail)
    assert relative_flops("lightning", 9 * n, d, h) == relative_flops("lightning", n, d, h)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: relative_flops("linear", 8), ValueError, "kind must be 'softmax', .*'linear'"),
        (lambda: relative_flops([], 8), ValueError, "kind must be"),
        (lambda: relative_flops("softmax", 0), ValueError, "length must be at least 1; got 0"),
        (lambda: relative_flops("softmax", 8.0), TypeError, "length must be a whole number"),
        (lambda: relative_flops("softmax", 8, 0), ValueError, "dim must be at least 1"),
        (lambda: relative_flops("softmax", 8, 8, 0), ValueError, "n_heads must be at least 1"),
    ],
)
def test_errors_are_sentences(call, error, words):
    with pytest.raises(error, match=words):
        call()
