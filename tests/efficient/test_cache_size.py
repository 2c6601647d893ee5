import pytest

from attnlib import (
    GroupedQueryAttention,
    LatentAttention,
    cache_bytes_per_token,
    latent_cache_bytes_per_token,
    quantised_bytes_per_number,
)


def test_published_models():
    assert cache_bytes_per_token(32, 8, 128) == 131_072  # Llama 3 8B
    assert cache_bytes_per_token(32, 32, 128) == 524_288  # with a key head for each query head
    assert cache_bytes_per_token(32, 1, 128) == 16_384  # with one
    assert latent_cache_bytes_per_token(60, 512, 64) == 69_120  # DeepSeek-V2
    assert cache_bytes_per_token(60, 128, 128) == 3_932_160  # as multi-head
    assert round(100 * 69_120 / 3_932_160, 2) == 1.76
    # "equal to grouped queries with only 2.25 groups"
    assert latent_cache_bytes_per_token(60, 512, 64) == cache_bytes_per_token(60, 1, 128) * 2.25


def test_counts_what_caches_really_hold():
    cache = GroupedQueryAttention(12, 6, 2).new_cache(1, 7)  # float32
    assert cache.keys.nbytes + cache.values.nbytes == 7 * cache_bytes_per_token(1, 2, 2, 4)
    layer = LatentAttention(12, 3, 5, qk_nope_head_dim=3, qk_rope_head_dim=4, v_head_dim=2)
    assert layer.new_cache(1, 7).rows.nbytes == 7 * latent_cache_bytes_per_token(1, 5, 4, 4)


def test_fractions_of_bytes():
    assert quantised_bytes_per_number(8, 64, shared_bytes=2) == 1 + 1 / 32
    assert quantised_bytes_per_number(2, 32) == 0.25 + 0.125
    assert quantised_bytes_per_number(16, 1, 0) == 2
    assert cache_bytes_per_token(32, 8, 128, quantised_bytes_per_number(2, 32)) == 24_576
    assert latent_cache_bytes_per_token(60, 512, 64, 0.5) == 17_280


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: cache_bytes_per_token(0, 8, 128), ValueError, "n_layers must be at least 1"),
        (lambda: cache_bytes_per_token(2, 8.0, 128), TypeError, "n_kv_heads must be a whole number"),
        (lambda: cache_bytes_per_token(2, 8, 0), ValueError, "head_dim must be at least 1"),
        (lambda: cache_bytes_per_token(2, 8, 4, 0), ValueError, "bytes_per_number must be positive"),
        (lambda: cache_bytes_per_token(2, 8, 4, "2"), TypeError, "bytes_per_number must be a number"),
        (lambda: latent_cache_bytes_per_token(2, 0, 4), ValueError, "kv_lora_rank must be at least 1"),
        (lambda: latent_cache_bytes_per_token(2, 4, 0), ValueError, "qk_rope_head_dim must be at least 1"),
        (lambda: quantised_bytes_per_number(0, 32), ValueError, "bits must be at least 1"),
        (lambda: quantised_bytes_per_number(4, None), TypeError, "group_size must be a whole number"),
        (lambda: quantised_bytes_per_number(4, 32, -1), ValueError, "shared_bytes must be at least 0"),
        (lambda: quantised_bytes_per_number(4, 32, 0.5), TypeError, "shared_bytes must be a whole number"),
    ],
)
def test_errors_name_the_argument(call, error, says):
    with pytest.raises(error, match=says):
        call()
