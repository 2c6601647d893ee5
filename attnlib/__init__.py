"""Attention mechanisms in their smallest correct form, for NumPy and PyTorch.

Conventions, the same in every module
-------------------------------------
* Shapes are ``(..., L, d)``: batch first, heads at axis ``-3``, positions at ``-2``, features last.
  ``q`` is ``(..., Lq, d)``, ``k`` is ``(..., Lk, d)``, ``v`` is ``(..., Lk, dv)``.
* Scores are ``q @ k.mT * scale``; ``scale=None`` means ``1/sqrt(d)``.
* A boolean mask says ``True`` where a query may attend. A floating mask is added to the scores.
  Boolean masks combine with ``&``, ``|`` and ``~``.
* A causal mask is aligned at the end: the last query sees every key.
* A query with nothing to attend to gets zeros, never NaN, forward and backward.
* Inputs are never modified. Integers are computed in the library's default float; float16 and
  bfloat16 are computed in float32 and come back in their own type.

The same functions take NumPy arrays and torch tensors. ``import attnlib`` loads neither torch nor
Matplotlib; a name is loaded from its module when it is first asked for.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "IBMModel1": "analysis.alignments",
    "alignment_error_rate": "analysis.alignments",
    "attention_alignment": "analysis.alignments",
    "diagonal_alignment": "analysis.alignments",
    "circuit_eigenvalues": "analysis.circuits",
    "composition_score": "analysis.circuits",
    "copying_score": "analysis.circuits",
    "full_ov_circuit": "analysis.circuits",
    "full_qk_circuit": "analysis.circuits",
    "ov_circuit": "analysis.circuits",
    "qk_circuit": "analysis.circuits",
    "random_composition": "analysis.circuits",
    "duplicate_token_pattern": "analysis.induction",
    "induction_pattern": "analysis.induction",
    "pattern_score": "analysis.induction",
    "previous_token_pattern": "analysis.induction",
    "repeated_tokens": "analysis.induction",
    "future_leaks": "analysis.leaks",
    "gradient_influence": "analysis.leaks",
    "influence": "analysis.leaks",
    "attention_maps": "analysis.maps",
    "generate": "core.generation",
    "grouped_query_attention": "core.grouped_queries",
    "hierarchical_log_prob": "core.hierarchical",
    "hierarchical_log_softmax": "core.hierarchical",
    "expected_code_length": "core.huffman",
    "huffman_tree": "core.huffman",
    "attentional_state": "core.luong",
    "local_m_weights": "core.luong",
    "local_p_weights": "core.luong",
    "predicted_position": "core.luong",
    "causal_mask": "core.masks",
    "padding_mask": "core.masks",
    "window_mask": "core.masks",
    "alibi_bias": "core.positions",
    "alibi_slopes": "core.positions",
    "sinusoidal_positions": "core.positions",
    "llama3_rope_scaling": "core.rotary",
    "rope": "core.rotary",
    "rope_frequencies": "core.rotary",
    "rope_permutation": "core.rotary",
    "yarn_frequencies": "core.rotary",
    "sample": "core.sampling",
    "sampling_probabilities": "core.sampling",
    "attention": "core.scaled_dot_product",
    "attention_weights": "core.scaled_dot_product",
    "llama4_scale": "core.scales",
    "log_n_scale": "core.scales",
    "mup_scale": "core.scales",
    "yarn_scale": "core.scales",
    "cosine_rate": "core.schedules",
    "noam_rate": "core.schedules",
    "additive_score": "core.scores",
    "concat_score": "core.scores",
    "cosine_score": "core.scores",
    "dot_score": "core.scores",
    "general_score": "core.scores",
    "linear_concat_score": "core.scores",
    "location_score": "core.scores",
    "scaled_dot_score": "core.scores",
    "teacher_forcing": "core.shifting",
    "softmax_off_by_one": "core.sinks",
    "softmax_with_sink": "core.sinks",
    "label_smoothing_loss": "core.smoothing",
    "smoothed_targets": "core.smoothing",
    "log_softmax": "core.softmaxes",
    "logsumexp": "core.softmaxes",
    "online_softmax": "core.softmaxes",
    "softmax": "core.softmaxes",
    "entmax": "core.sparse_softmaxes",
    "entmax15": "core.sparse_softmaxes",
    "sparsemax": "core.sparse_softmaxes",
    "dot_product_variance": "core.statistics",
    "entropy": "core.statistics",
    "softmax_jacobian": "core.statistics",
    "softmax_jacobian_norm": "core.statistics",
    "bigbird_attention": "efficient.bigbird",
    "bigbird_counts": "efficient.bigbird",
    "bigbird_random_blocks": "efficient.bigbird",
    "cache_bytes_per_token": "efficient.cache_size",
    "latent_cache_bytes_per_token": "efficient.cache_size",
    "quantised_bytes_per_number": "efficient.cache_size",
    "dual_chunk_attention": "efficient.dual_chunk",
    "dual_chunk_positions": "efficient.dual_chunk",
    "lsh_attention": "efficient.hashing",
    "lsh_buckets": "efficient.hashing",
    "lsh_counts": "efficient.hashing",
    "LatentAttention": "efficient.latent",
    "elu_plus_one": "efficient.linear",
    "linear_attention": "efficient.linear",
    "linear_attention_step": "efficient.linear",
    "linear_attention_weights": "efficient.linear",
    "LongformerAttention": "efficient.longformer",
    "linformer_attention": "efficient.low_rank",
    "low_rank_basis": "efficient.low_rank_cache",
    "merge_attention": "efficient.merging",
    "between": "efficient.patterns",
    "blocks": "efficient.patterns",
    "causal": "efficient.patterns",
    "dilated": "efficient.patterns",
    "first": "efficient.patterns",
    "fixed": "efficient.patterns",
    "global_tokens": "efficient.patterns",
    "Pattern": "efficient.patterns",
    "per_head": "efficient.patterns",
    "receptive_field": "efficient.patterns",
    "strided": "efficient.patterns",
    "window": "efficient.patterns",
    "hyperbolic_features": "efficient.performer",
    "orthogonal_projection": "efficient.performer",
    "performer_attention": "efficient.performer",
    "positive_features": "efficient.performer",
    "relu_features": "efficient.performer",
    "trigonometric_features": "efficient.performer",
    "pooled_heads": "efficient.pooling",
    "quantise": "efficient.quantisation",
    "QuantisedCache": "efficient.quantised_cache",
    "tiled_attention": "efficient.tiles",
    "tiled_attention_backward": "efficient.tiles",
    "diag_attention": "efficient.transnormer",
    "norm_attention": "efficient.transnormer",
    "windowed_attention": "efficient.windows",
    "AdaptiveLogSoftmax": "layers.adaptive_softmax",
    "AnnotatedLayerNorm": "layers.annotated_norm",
    "AttentionOnlyTransformer": "layers.attention_only",
    "Decoder": "layers.decoder",
    "DecoderLayer": "layers.decoder",
    "CachedAttention": "layers.decoder_cache",
    "DecoderCache": "layers.decoder_cache",
    "beam_decode": "layers.decoding",
    "greedy_decode": "layers.decoding",
    "ScaledEmbedding": "layers.embeddings",
    "Encoder": "layers.encoder",
    "EncoderLayer": "layers.encoder",
    "EncoderDecoder": "layers.encoder_decoder",
    "FeedForward": "layers.feed_forward",
    "GroupedQueryAttention": "layers.grouped_query",
    "HierarchicalSoftmax": "layers.hierarchical_softmax",
    "Llama": "layers.llama",
    "llama_from_hugging_face": "layers.llama_checkpoints",
    "llama_from_meta": "layers.llama_checkpoints",
    "MultiHeadAttention": "layers.multi_head",
    "merge_heads": "layers.multi_head",
    "split_heads": "layers.multi_head",
    "LearnedPositions": "layers.positions",
    "Residual": "layers.residual",
    "RMSNorm": "layers.rms_norm",
    "SwiGLU": "layers.swiglu",
    "swiglu_hidden_size": "layers.swiglu",
    "train": "layers.training",
    "Transformer": "layers.transformer",
    "from_annotated_transformer": "layers.transformer_names",
    "from_torch_transformer": "layers.transformer_names",
    "check_installation": "installation",
}

__all__ = sorted(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"attnlib has no {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(f"attnlib.{_HOME[name]}"), name)
    globals()[name] = value  # the next access does not come here
    return value


def __dir__():
    return sorted([*globals(), *__all__])
