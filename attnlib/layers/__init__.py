"""Attention as torch modules, with parameters that train and load from other libraries."""

from attnlib.layers.multi_head import MultiHeadAttention, merge_heads, split_heads

__all__ = ["MultiHeadAttention", "merge_heads", "split_heads"]
