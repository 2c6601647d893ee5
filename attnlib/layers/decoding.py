"""How a Transformer writes: the likeliest word each time, or the likeliest of several sentences."""

import torch

from attnlib.core.arrays import check_number, valid_length, whole_number
from attnlib.layers.decoder_cache import DecoderCache
from attnlib.layers.quiet import quiet


def greedy_decode(model, src, *, bos_id, eos_id=None, max_len=64):
    """Take the likeliest word each time, until every sentence has ended.

    Parameters
    ----------
    model : Transformer
        Dropout is off while it writes.
    src : integer tensor (B, S)
    bos_id : int
        The word that a target begins with.
    eos_id : int, optional
        The word that ends one. Left out: every sentence has ``max_len`` words.
    max_len : int >= 1
        The greatest length, ``bos_id`` and ``eos_id`` counted.

    Returns
    -------
    int64 tensor (B, L)
        Targets with their marks; behind ``eos_id`` padding, or more of ``eos_id`` where the model has no
        padding. Padding is never chosen as a word.

    Raises
    ------
    TypeError, ValueError
        If ``src`` is no tensor of ids, or an id is no word of the target.

    Examples
    --------
    >>> from attnlib.layers.transformer import Transformer
    >>> model = Transformer(9, d_model=8, num_heads=2, num_layers=1, d_ff=16)
    >>> greedy_decode(model, torch.tensor([[5, 3, 4]]), bos_id=1, max_len=6).shape
    torch.Size([1, 6])
    """
    bos_id, eos_id, max_len = _check(model, bos_id, eos_id, max_len)
    fill = eos_id if model.pad_id is None else model.pad_id
    with quiet(model):
        memory, memory_mask = model.encode(src)
        cache = DecoderCache()
        tokens = torch.full((len(src), 1), bos_id, device=src.device)
        ended = torch.zeros(len(src), dtype=torch.bool, device=src.device)
        while tokens.shape[1] < max_len and not ended.all():
            word = _next(model, tokens[:, -1:], memory, memory_mask, cache).argmax(-1)
            if eos_id is not None:
                word = torch.where(ended, fill, word)
                ended = ended | (word == eos_id)
            tokens = torch.cat([tokens, word[:, None]], 1)
    return tokens


def beam_decode(model, src, *, bos_id, eos_id, beam_size=4, max_len=64, length_penalty=0.6):
    """Follow the ``beam_size`` likeliest beginnings, and give the best sentence that has ended.

    A sentence of ``n`` words, ``eos_id`` counted and ``bos_id`` not, is worth its log-probability over
    ``((5 + n) / 6)**length_penalty``. One that ends leaves its place in the beam empty; a beginning that
    can no longer be worth more than the best sentence leaves it too. A beam of 1 is `greedy_decode`.

    Parameters
    ----------
    model, src, bos_id, max_len
        As in `greedy_decode`.
    eos_id : int
    beam_size : int >= 1
    length_penalty : float >= 0
        0 favours short sentences, for every word costs; larger values make up for the length.

    Returns
    -------
    tokens : int64 tensor (B, L)
        As in `greedy_decode`. Where nothing has ended by ``max_len``, the best beginning.
    worth : tensor (B,)
        Its log-probability over the penalty.

    Raises
    ------
    TypeError, ValueError
        As for `greedy_decode`, or if ``length_penalty`` is negative.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 6.1 (a beam of 4, a penalty of 0.6); Wu et al. 2016,
    arXiv 1609.08144, equation 14. A beam that narrows as sentences end is that of Bahdanau et al. 2014's
    code; others refill it.

    Examples
    --------
    >>> from attnlib.layers.transformer import Transformer
    >>> model = Transformer(9, d_model=8, num_heads=2, num_layers=1, d_ff=16)
    >>> tokens, worth = beam_decode(model, torch.tensor([[5, 3, 4]]), bos_id=1, eos_id=2, max_len=6)
    >>> tokens.shape[0], worth.shape
    (1, torch.Size([1]))
    """
    if eos_id is None:
        raise TypeError("eos_id must be one integer: without it no sentence ends")
    bos_id, eos_id, max_len = _check(model, bos_id, eos_id, max_len)
    check_number(length_penalty, "length_penalty")
    if not length_penalty >= 0:
        raise ValueError(f"length_penalty must be at least 0; got {length_penalty!r}")
    k = valid_length(beam_size, "beam_size")
    fill = eos_id if model.pad_id is None else model.pad_id

    def penalty(n):
        return ((5 + n) / 6) ** length_penalty

    with quiet(model):
        memory, memory_mask = (x.repeat_interleave(k, 0) for x in model.encode(src))  # (B k, ...)
        cache, b = DecoderCache(), len(src)
        first_row = k * torch.arange(b, device=src.device)[:, None]
        tokens = torch.full((b * k, 1), bos_id, device=src.device)
        dtype = torch.promote_types(memory.dtype, torch.float32)
        scores = torch.full((b, k), -torch.inf, dtype=dtype, device=src.device)
        # Log-probabilities of the beginnings. At first all k are the same: one counts.
        scores[:, 0] = 0
        best = torch.full((b, max_len), fill, device=src.device)
        worth = torch.full_like(scores[:, 0], -torch.inf)
        n = 0
        while n + 1 < max_len and scores.max() > -torch.inf:
            n += 1
            logs = _next(model, tokens[:, -1:], memory, memory_mask, cache)  # (B k, V)
            total = scores[..., None] + logs.unflatten(0, (b, k))  # (B, k, V)
            scores, chosen = total.flatten(1).topk(k)
            rows = (first_row + chosen // logs.shape[-1]).flatten()
            word = chosen % logs.shape[-1]
            tokens = torch.cat([tokens[rows], word.flatten()[:, None]], 1)
            cache.select(rows)

            ended = word == eos_id
            top, place = torch.where(ended, scores / penalty(n), -torch.inf).max(1)
            better = top > worth
            worth = torch.where(better, top, worth)
            best[better, : n + 1] = tokens.unflatten(0, (b, k))[better, place[better]]
            hopeless = scores / penalty(max_len - 1) <= worth[:, None]
            scores = torch.where(ended | hopeless, -torch.inf, scores)

        open_ended = worth == -torch.inf
        top, place = scores.max(1)
        worth = torch.where(open_ended, top / penalty(max(n, 1)), worth)
        best[open_ended, : n + 1] = tokens.unflatten(0, (b, k))[open_ended, place[open_ended]]
    longest = int((best != fill).sum(1).max()) + (fill == eos_id)
    return best[:, :longest], worth


def _next(model, tokens, memory, memory_mask, cache):
    """Log-probabilities ``(B, V)`` of the word after ``tokens``; padding is none."""
    logits = model.decode(tokens, memory, memory_mask, cache=cache)[:, -1]
    logs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    if model.pad_id is not None and 0 <= model.pad_id < logs.shape[-1]:
        logs[:, model.pad_id] = -torch.inf
    return logs


def _check(model, bos_id, eos_id, max_len):
    words = model.tgt_embedding.num_embeddings
    ids = []
    for name, value in (("bos_id", bos_id), ("eos_id", eos_id)):
        if value is not None or name == "bos_id":
            value = whole_number(value, f"{name} must be one integer; got {value!r}")
            if not 0 <= value < words:
                raise ValueError(f"{name} must be a word, 0 .. {words - 1}; got {value}")
            if value == model.pad_id:
                raise ValueError(f"{name} must not be the padding, {model.pad_id}")
        ids.append(value)
    return *ids, valid_length(max_len, "max_len")
