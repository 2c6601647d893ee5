"""The 2017 Transformer, from the ids of one sentence to scores for the words of another."""

import torch
from torch import nn

from attnlib.core.arrays import valid_length, whole_number
from attnlib.core.positions import sinusoidal_positions
from attnlib.layers.checks import valid_dropout
from attnlib.layers.embeddings import ScaledEmbedding
from attnlib.layers.encoder_decoder import EncoderDecoder


class Transformer(nn.Module):
    """Embeddings and positions, encoder, decoder, and a score for each word at the output.

    Padding, left or right, changes nothing: it is hidden, and a token's position is the number of real
    tokens before it.

    Parameters
    ----------
    src_vocab : int >= 1
        Words of the source.
    tgt_vocab : int >= 1, optional
        Words of the target. Left out: the two languages share one table, as in the paper.
    d_model, num_heads, num_layers, d_ff, norm_first, final_norm, norm, cross_heads, bias
        As in `EncoderDecoder`; what is left out gives the paper's base model.
    dropout : float, 0 <= dropout < 1
        As in `EncoderLayer`, and on the sums of embeddings and positions.
    tied : bool
        The output's matrix is the target's table, without a bias. Otherwise a linear map of its own.
    pad_id : int or None
        The id that means padding in both languages. None: there is none.

    Raises
    ------
    TypeError, ValueError
        If a width or a number is out of its range, or the heads do not divide the features.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 3. State dicts load from ``torch.nn.Transformer``
    by `from_torch_transformer` (all but the words), from the Annotated Transformer by
    `from_annotated_transformer`.

    Examples
    --------
    >>> model = Transformer(11, 13, d_model=8, num_heads=2, num_layers=1, d_ff=32)
    >>> model(torch.tensor([[5, 3, 0]]), torch.tensor([[1, 7, 9, 4]])).shape
    torch.Size([1, 4, 13])
    """

    def __init__(self, src_vocab, tgt_vocab=None, *, d_model=512, num_heads=8, num_layers=6, d_ff=2048,
                 dropout=0.1, norm_first=False, final_norm=None, norm=nn.LayerNorm, cross_heads=None,
                 bias=True, tied=True, pad_id=0, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.d_model = valid_length(d_model, "d_model")
        self.pad_id = pad_id if pad_id is None else whole_number(
            pad_id, f"pad_id must be one integer or None; got {pad_id!r}"
        )  # fmt: skip
        self.src_embedding = ScaledEmbedding(src_vocab, d_model, **made)
        shared = tgt_vocab is None
        self.tgt_embedding = self.src_embedding if shared else ScaledEmbedding(tgt_vocab, d_model, **made)
        stacks = EncoderDecoder(d_model, num_heads, num_layers, d_ff, dropout=dropout, norm_first=norm_first,
                                final_norm=final_norm, norm=norm, cross_heads=cross_heads,
                                bias=bias, **made)  # fmt: skip
        self.encoder, self.decoder = stacks.encoder, stacks.decoder
        self.output = None if tied else nn.Linear(d_model, self.tgt_embedding.num_embeddings, **made)
        self.dropout = nn.Dropout(valid_dropout(dropout))
        self.register_buffer("positions", torch.empty(0, d_model, **made), persistent=False)

    def forward(self, src, tgt):
        """Scores for the word after each beginning of the target.

        Parameters
        ----------
        src : integer tensor (B, S)
        tgt : integer tensor (B, L)
            The inputs of `teacher_forcing`.

        Returns
        -------
        tensor (B, L, tgt_vocab)
            Before the softmax.

        Raises
        ------
        TypeError, ValueError
            If the ids are no tensors of integers of two axes, or one is no word.
        """
        return self.decode(tgt, *self.encode(src))

    def encode(self, src):
        """The memory of the source ``(B, S, d_model)``, and its mask ``(B, 1, 1, S)`` for the decoder."""
        real = self._real(src, "src")
        mask = real[:, None, None, :]
        return self.encoder(self._embed(self.src_embedding, src, real), mask), mask

    def decode(self, tgt, memory, memory_mask=None, *, cache=None):
        """Scores ``(B, L, tgt_vocab)`` for a target ``(B, L)`` that continues what ``cache`` has seen.

        A new `DecoderCache` has seen nothing. However a target is cut into pieces, the scores are those
        of one pass over the whole.
        """
        visible = self._real(tgt, "tgt")
        if len(memory) != len(tgt):
            raise ValueError(f"tgt must have the {len(memory)} sentences of memory; got {len(tgt)}")
        visible = visible if cache is None else cache.add(visible)
        x = self._embed(self.tgt_embedding, tgt, visible)
        x = self.decoder(x, memory, visible[:, None, None, :], memory_mask, cache=cache)
        return self.tgt_embedding.scores(x) if self.output is None else self.output(x)

    def _real(self, ids, name):
        """Where ``ids`` are no padding."""
        if not isinstance(ids, torch.Tensor) or ids.ndim != 2 or 0 in ids.shape:
            got = f"shape {tuple(ids.shape)}" if isinstance(ids, torch.Tensor) else type(ids).__name__
            raise ValueError(f"{name} must be a tensor of ids of shape (B, L), not empty; got {got}")
        return torch.ones_like(ids, dtype=torch.bool) if self.pad_id is None else ids != self.pad_id

    def _embed(self, table, ids, real):
        """Embeddings and positions of the last tokens of ``real`` ``(B, S)``, whose ids are ``(B, L)``."""
        length = real.shape[1]
        if length > len(self.positions):
            rows = torch.from_numpy(sinusoidal_positions(2 * length, self.d_model))
            self.positions = rows.to(self.positions)
        # Padding keeps its index; nobody looks at it.
        index = torch.where(real, real.cumsum(1) - 1, torch.arange(length, device=ids.device))
        return self.dropout(table(ids) + self.positions[index[:, -ids.shape[1] :]])
