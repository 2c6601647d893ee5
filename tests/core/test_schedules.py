import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import cosine_rate, noam_rate


def test_agrees_with_the_golden_rates(golden):
    g = golden("transformer_pieces")
    for (d_model, factor, warm_up), wanted in zip(g["in_rate_opts"], g["out_rates"], strict=True):
        got = [noam_rate(step, d_model, warm_up, float(factor)) for step in g["in_steps"]]
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


@given(st.integers(1, 2000), st.integers(1, 10_000), st.integers(1, 1000))
def test_rises_in_a_line_to_the_warm_up_and_falls_with_the_square_root(warm_up, step, d_model):
    top = noam_rate(warm_up, d_model, warm_up)
    assert top == pytest.approx((d_model * warm_up) ** -0.5)
    wanted = top * (step / warm_up if step <= warm_up else (warm_up / step) ** 0.5)
    assert noam_rate(step, d_model, warm_up) == pytest.approx(wanted)
    assert noam_rate(0, d_model, warm_up, 3.0) == pytest.approx(3 * noam_rate(1, d_model, warm_up))


def test_the_cosine_is_that_of_torch_after_a_line():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.3)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
    for step in range(10, 51):
        assert cosine_rate(step, 50, 10, 0.3) == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        theirs.step()
    assert [cosine_rate(step, 50, 10, 0.3) for step in (0, 5)] == pytest.approx([0, 0.15])
    assert cosine_rate(50, 50, 10) == cosine_rate(80, 50, 10) == 0
    assert cosine_rate(60, 50, 50, 2) == 2


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: noam_rate(-1), ValueError, "step must be at least 0; got -1"),
        (lambda: noam_rate(1.5), TypeError, "step must be one integer; got 1.5"),
        (lambda: noam_rate(1, 0), ValueError, "d_model must be at least 1"),
        (lambda: noam_rate(1, 8, 0), ValueError, "warm_up must be at least 1"),
        (lambda: noam_rate(1, 8, 10, "2"), TypeError, "factor must be a number; got '2'"),
        (lambda: cosine_rate(-1, 5), ValueError, "step and warm_up must be at least 0; got -1 and 100"),
        (lambda: cosine_rate(1, 0), ValueError, "steps must be at least 1"),
        (lambda: cosine_rate(1, 5, 0.5), TypeError, "warm_up must be one integer; got 0.5"),
        (lambda: cosine_rate(1, 5, highest="2"), TypeError, "highest must be a number; got '2'"),
    ],
)
def test_errors_name_the_argument(call, error, says):
    with pytest.raises(error, match=says):
        call()
