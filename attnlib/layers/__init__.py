"""Attention as torch modules, with parameters that train and load from other libraries."""

from attnlib.layers.multi_head import MultiHeadAttention, merge_heads, split_heads
from attnlib.layers.positions import LearnedPositions

__all__ = ["LearnedPositions", "MultiHeadAttention", "merge_heads", "split_heads"]
