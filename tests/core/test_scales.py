import numpy as np
import pytest
import torch

from attnlib import llama4_scale, log_n_scale, mup_scale, yarn_scale


def test_agrees_with_the_golden_file(golden, lib):
    g = golden("scaling_rules")
    qwen = log_n_scale(lib.array(g["in_i"].astype(float)), 2048)
    np.testing.assert_allclose(np.maximum(lib.numpy(qwen), 1), g["out_logn"], rtol=1e-6)
    np.testing.assert_allclose(lib.numpy(llama4_scale(lib.array(g["in_pos"]))), g["out_llama4"], rtol=1e-6)
    np.testing.assert_allclose(lib.numpy(mup_scale(lib.array(g["in_head_dims"]))), g["out_mup"], rtol=1e-6)


def test_yarn_agrees_with_the_golden_file(golden):
    g = golden("mla_deepseek")  # queries and keys of 10 features
    assert yarn_scale(40) / 10**0.5 == pytest.approx(float(g["scale_yarn"]), rel=1e-12)
    assert yarn_scale(0.5) / 10**0.5 == pytest.approx(float(g["scale_q"]), rel=1e-12)


def test_yarn_applies_as_much_as_it_is_told():
    assert yarn_scale(np.e, mscale=0) == 1 and yarn_scale(np.e, mscale=5.0) == pytest.approx(1.5**2)


def test_plain_numbers_give_plain_numbers():
    for value in (mup_scale(np.int64(64)), log_n_scale(8, 2), llama4_scale(8191)):
        assert type(value) is float
    assert mup_scale(64) == 1 / 64 and log_n_scale(8, 2) == pytest.approx(3)


def test_arrays_keep_their_library_and_type():
    assert mup_scale(torch.tensor([4.0, 8.0])).dtype == torch.float32
    assert isinstance(log_n_scale(np.arange(1, 4), 2), np.ndarray)
    positions = np.array([0, 8190])
    llama4_scale(positions)
    assert positions.dtype.kind == "i"


def test_mup_agrees_with_the_root_at_its_multiplier():
    assert mup_scale(64, multiplier=64) == pytest.approx(1 / np.sqrt(64))
    # Keys equal to queries, entries of variance 1: the score stays where it was at any width.
    for d in (16, 256):
        q = np.random.default_rng(d).normal(size=(4000, d))
        assert (q * q).sum(-1).mean() * mup_scale(d) == pytest.approx(1, abs=0.02)


def test_the_log_n_rule_is_one_at_the_trained_length():
    n = np.array([1, 2, 512, 1024])
    got = log_n_scale(n, 512)
    assert got[0] == 0 and got[2] == 1 and got[1] < 1 < got[3]


def test_llama4_rises_in_steps():
    got = llama4_scale(np.arange(0, 40), floor_scale=10, attn_scale=0.5)
    np.testing.assert_allclose(got, 1 + 0.5 * np.log(1 + (np.arange(0, 40) + 1) // 10))


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: mup_scale(0), ValueError, "d must be at least 1"),
        (lambda: mup_scale("64"), TypeError, "d must be a number"),
        (lambda: mup_scale(64, multiplier=0), ValueError, "multiplier must be positive"),
        (lambda: mup_scale(64, multiplier="1"), TypeError, "multiplier must be a number"),
        (lambda: log_n_scale(0, 512), ValueError, "n must be at least 1"),
        (lambda: log_n_scale(np.array([2.0, np.nan]), 512), ValueError, "n must be at least 1"),
        (lambda: log_n_scale(4, 1), ValueError, "n_trained must be above 1"),
        (lambda: log_n_scale(4, None), TypeError, "n_trained must be a number"),
        (lambda: yarn_scale(0), ValueError, "factor must be positive and finite; got 0"),
        (lambda: yarn_scale("40"), TypeError, "factor must be a number"),
        (lambda: yarn_scale(40, None), TypeError, "mscale must be a number"),
        (lambda: llama4_scale(-1), ValueError, "position must be at least 0"),
        (lambda: llama4_scale(3, floor_scale=0), ValueError, "floor_scale must be at least 1"),
        (lambda: llama4_scale(3, floor_scale="8"), TypeError, "floor_scale must be a number"),
    ],
)
def test_errors_name_the_argument(call, error, says):
    with pytest.raises(error, match=says):
        call()
