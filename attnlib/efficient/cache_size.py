"""How many bytes a model keeps of each token that it has read."""

import math

from attnlib.core.arrays import check_number, valid_length, whole_number


def cache_bytes_per_token(n_layers, n_kv_heads, head_dim, bytes_per_number=2):
    """Bytes of keys and values: ``2 * n_layers * n_kv_heads * head_dim * bytes_per_number``.

    Multi-head attention has as many key heads as query heads, multi-query attention a single one. The queries
    count for nothing: none is kept.

    Parameters
    ----------
    n_layers, n_kv_heads, head_dim : int >= 1
    bytes_per_number : float > 0
        2 for float16 and bfloat16; `quantised_bytes_per_number` for fewer.

    Returns
    -------
    int, or float where ``bytes_per_number`` is one

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or ``bytes_per_number`` no positive number.

    References
    ----------
    DeepSeek-AI 2024, arXiv 2405.04434, section 2.1.4 compares the four kinds, in numbers instead of bytes.

    Examples
    --------
    >>> cache_bytes_per_token(32, 8, 128), cache_bytes_per_token(32, 32, 128)    # Llama 3 8B; as multi-head
    (131072, 524288)
    """
    n_kv_heads, head_dim = valid_length(n_kv_heads, "n_kv_heads"), valid_length(head_dim, "head_dim")
    return _bytes(n_layers, 2 * n_kv_heads * head_dim, bytes_per_number)


def latent_cache_bytes_per_token(n_layers, kv_lora_rank, qk_rope_head_dim, bytes_per_number=2):
    """Bytes of latents and rotated keys: ``n_layers * (kv_lora_rank + qk_rope_head_dim) * bytes_per_number``.

    Parameters
    ----------
    n_layers, kv_lora_rank, qk_rope_head_dim : int >= 1
        As in `LatentAttention`; how many heads there are does not matter.
    bytes_per_number : float > 0
        As in `cache_bytes_per_token`.

    Returns
    -------
    int, or float where ``bytes_per_number`` is one

    Raises
    ------
    TypeError, ValueError
        As in `cache_bytes_per_token`.

    References
    ----------
    DeepSeek-AI 2024, arXiv 2405.04434, section 2.1.4.

    Examples
    --------
    >>> latent_cache_bytes_per_token(60, 512, 64)    # DeepSeek-V2
    69120
    >>> cache_bytes_per_token(60, 128, 128)          # with a key and a value for each of its heads
    3932160
    """
    kv_lora_rank = valid_length(kv_lora_rank, "kv_lora_rank")
    qk_rope_head_dim = valid_length(qk_rope_head_dim, "qk_rope_head_dim")
    return _bytes(n_layers, kv_lora_rank + qk_rope_head_dim, bytes_per_number)


def quantised_bytes_per_number(bits, group_size, shared_bytes=4):
    """Bytes of one number of a group: ``bits / 8``, and its part of what the group shares.

    Parameters
    ----------
    bits : int >= 1
    group_size : int >= 1
        Numbers that share a scale.
    shared_bytes : int >= 0
        4 for a scale and a zero in half precision, 2 for a scale alone.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        If a size is no integer or out of its range.

    Examples
    --------
    >>> quantised_bytes_per_number(4, group_size=32)
    0.625
    >>> cache_bytes_per_token(32, 8, 128, quantised_bytes_per_number(4, 32))    # from 131072
    40960.0
    """
    bits, group_size = valid_length(bits, "bits"), valid_length(group_size, "group_size")
    shared_bytes = whole_number(shared_bytes, f"shared_bytes must be a whole number; got {shared_bytes!r}")
    if shared_bytes < 0:
        raise ValueError(f"shared_bytes must be at least 0; got {shared_bytes}")
    return bits / 8 + shared_bytes / group_size


def _bytes(n_layers, numbers, bytes_per_number):
    check_number(bytes_per_number, "bytes_per_number")
    if not 0 < bytes_per_number < math.inf:
        raise ValueError(f"bytes_per_number must be positive and finite; got {bytes_per_number!r}")
    return valid_length(n_layers, "n_layers") * numbers * bytes_per_number
