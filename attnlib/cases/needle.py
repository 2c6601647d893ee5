"""A needle in a haystack: one pair to be found again among many, however far back it stands."""

import numpy as np
from torch import nn

from attnlib.cases.minimax import LightningAttention, MiniMaxBlock
from attnlib.cases.mixture_of_experts import MixtureOfExperts
from attnlib.core.arrays import valid_length
from attnlib.layers.checks import check_integers
from attnlib.layers.grouped_query import GroupedQueryAttention
from attnlib.layers.rms_norm import RMSNorm


def needle_batch(n, length, *, n_questions=8, n_names=64, n_things=16, seed=0):
    """Texts of pairs, each a name and its thing, and questions at the end: a name, whose thing is asked.

    No name stands twice in a text, things do. All is drawn anew for each text, so that nothing can be known
    by heart: an answer must be looked up, among ``length`` pairs.

    Parameters
    ----------
    n : int >= 1
        Texts.
    length : int >= 1
        Pairs in each, at most ``n_names``.
    n_questions : int >= 1
        At most ``length``; each asks for another pair.
    n_names, n_things : int >= 1
    seed : int or numpy.random.Generator
        A generator goes on where it is.

    Returns
    -------
    names, things : int64 arrays (n, length + n_questions), NumPy
        The pairs, then the questions; where a question stands the thing is ``n_things``, which says nothing.
    answers : int64 array (n, n_questions)
    distances : int64 array (n, n_questions)
        How many positions before its question the pair stands, at least 1.

    Raises
    ------
    TypeError, ValueError
        If a number is no positive integer, or there are too few names or pairs.

    References
    ----------
    Arora et al. 2023, arXiv 2312.04927, has such questions as associative recall, with name and thing as
    tokens one after the other.

    Examples
    --------
    >>> names, things, answers, distances = needle_batch(1, 4, n_questions=2, n_names=9, n_things=5)
    >>> names[0], things[0], answers[0], distances[0]
    (array([3, 2, 1, 8, 3, 1]), array([2, 4, 1, 4, 5, 5]), array([2, 1]), array([4, 3]))
    """
    sizes = {"n": n, "length": length, "n_questions": n_questions, "n_names": n_names, "n_things": n_things}
    n, length, n_questions, n_names, n_things = (valid_length(x, name) for name, x in sizes.items())
    if length > n_names:
        raise ValueError(f"length must be at most n_names, {n_names}, for no name stands twice; got {length}")
    if n_questions > length:
        raise ValueError(f"n_questions must be at most length, {length}; got {n_questions}")
    rng = np.random.default_rng(seed)
    names = rng.random((n, n_names)).argsort(-1)[:, :length]
    things = rng.integers(n_things, size=(n, length))
    asked = rng.random((n, length)).argsort(-1)[:, :n_questions]
    answers = np.take_along_axis(things, asked, -1)
    unsaid = np.full((n, n_questions), n_things)
    names = np.concatenate([names, np.take_along_axis(names, asked, -1)], -1)
    things = np.concatenate([things, unsaid], -1)
    return names, things, answers, length + np.arange(n_questions) - asked


class NeedleReader(nn.Module):
    """MiniMax's blocks over the pairs of `needle_batch`, from the sum of two embeddings to scores of things.

    Nothing knows positions but what fades in the lightning layers.

    Parameters
    ----------
    kinds : sequence of {"lightning", "softmax"}
        One for each layer.
    n_names, n_things : int >= 1
        As in `needle_batch`.
    dim, n_heads, hidden : int >= 1
        Features of a token, heads of a layer, and features inside its feed-forward part.

    Raises
    ------
    TypeError, ValueError
        If a size or a kind is none.

    References
    ----------
    MiniMax 2025, arXiv 2501.08313, section 2, whose blocks it has, with one expert.

    Examples
    --------
    >>> import torch
    >>> model = NeedleReader(["lightning", "softmax"])
    >>> names, things, answers, _ = map(torch.from_numpy, needle_batch(3, 20))
    >>> model(names, things)[:, -8:].shape, answers.shape
    (torch.Size([3, 8, 16]), torch.Size([3, 8]))
    """

    def __init__(self, kinds, *, n_names=64, n_things=16, dim=32, n_heads=4, hidden=64):
        super().__init__()
        self.kinds = list(kinds)
        if not self.kinds or set(self.kinds) - {"lightning", "softmax"}:
            raise ValueError(f"kinds must be 'lightning' or 'softmax' for each layer; got {kinds!r:.80}")
        self.name = nn.Embedding(valid_length(n_names, "n_names"), dim)
        self.thing = nn.Embedding(valid_length(n_things, "n_things") + 1, dim)
        n_layers, residual = len(self.kinds), ((2 * len(self.kinds)) ** 0.25, 1.0)
        self.layers = nn.ModuleList()
        for layer, kind in enumerate(self.kinds):
            softmax = kind == "softmax"
            attention = (
                GroupedQueryAttention(dim, n_heads) if softmax
                else LightningAttention(dim, n_heads, layer, n_layers)
            )  # fmt: skip
            experts = MixtureOfExperts(dim, hidden, 1, top_k=1)
            self.layers.append(MiniMaxBlock(attention, experts, 1e-5, residual, residual))
        self.norm = RMSNorm(dim)
        self.output = nn.Linear(dim, n_things, bias=False)

    def forward(self, names, things, *, return_weights=False):
        """Score every thing, at every position.

        Parameters
        ----------
        names, things : integer tensors (B, T)
        return_weights : bool
            Return the weights of the softmax layers too.

        Returns
        -------
        scores : tensor (B, T, n_things)
        weights : list of tensors (B, n_heads, T, T), if asked for

        Raises
        ------
        TypeError
            If ``names`` or ``things`` are no integer tensors.
        """
        check_integers(names, "names")
        check_integers(things, "things")
        h, weights = self.name(names) + self.thing(things), []
        for block in self.layers:
            h = block(h, None, weights=weights if return_weights else None)
        scores = self.output(self.norm(h))
        return (scores, weights) if return_weights else scores
