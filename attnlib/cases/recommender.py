"""What will be bought next: the smallest model of sequences of items, whose attention may be exchanged."""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from attnlib.core.arrays import valid_length
from attnlib.layers.checks import check_integers
from attnlib.layers.feed_forward import FeedForward
from attnlib.layers.grouped_query import GroupedQueryAttention
from attnlib.layers.positions import LearnedPositions


class NextItemModel(nn.Module):
    """Scores of what comes after each item of a session.

    ``x = items[ids] + positions``, then in each block ``x = x + attention(norm(x))`` and
    ``x = x + feed_forward(norm(x))``, and the scores are ``norm(x) @ items.T``: the vector of an item is what
    it enters with and what it is recognised by.

    Parameters
    ----------
    n_items : int >= 1
        Their ids are 1 to ``n_items``; 0 is padding, at the right of shorter sessions.
    dim : int >= 1
        Features of an item.
    length : int >= 1
        The longest session.
    attention : function, optional
        Called once for each block, without arguments, it makes a layer: a module that maps ``(B, L, dim)`` to
        ``(B, L, dim)`` and hides what comes later by itself. ``GroupedQueryAttention(dim, 2)``, two heads,
        when left out.
    n_layers : int >= 1

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or ``attention`` makes no module.

    References
    ----------
    After Kang and McAuley 2018, arXiv 1808.09781 (SASRec): embeddings of items and positions, causal blocks,
    tied scores. Theirs norms queries alone, has dropout, and learns from one bought and one drawn item where
    `train_next_item` compares with all.

    Examples
    --------
    >>> model = NextItemModel(32, dim=16, length=8)
    >>> scores = model(torch.tensor([[3, 1, 4, 0, 0]]))
    >>> scores.shape, scores[0, :, 0].max().item()    # padding is never next
    (torch.Size([1, 5, 33]), -inf)
    """

    def __init__(self, n_items, dim, length, attention=None, *, n_layers=1, device=None, dtype=None):
        super().__init__()
        self.n_items, self.length = valid_length(n_items, "n_items"), valid_length(length, "length")
        dim, settings = valid_length(dim, "dim"), {"device": device, "dtype": dtype}
        if attention is None:

            def attention():
                return GroupedQueryAttention(dim, 2, **settings)

        self.items = nn.Embedding(self.n_items + 1, dim, padding_idx=0, **settings)
        self.positions = LearnedPositions(self.length, dim, **settings)
        nn.init.normal_(self.items.weight.data[1:], std=dim**-0.5)
        nn.init.normal_(self.positions.weight, std=dim**-0.5)
        self.blocks = nn.ModuleList()
        for _ in range(valid_length(n_layers, "n_layers")):
            layer = attention()
            if not isinstance(layer, nn.Module):
                raise TypeError(f"attention must make a torch module; it made {type(layer).__name__}")
            norms = (nn.LayerNorm(dim, **settings) for _ in range(2))
            self.blocks.append(_Block(layer, FeedForward(dim, 2 * dim, **settings), *norms))
        self.norm = nn.LayerNorm(dim, **settings)

    def forward(self, ids):
        """Scores of all items, after each item.

        Parameters
        ----------
        ids : integer tensor (B, L)

        Returns
        -------
        tensor (B, L, n_items + 1)
            Before the softmax; that of padding is minus infinity.

        Raises
        ------
        TypeError, ValueError
            If ``ids`` is no such tensor, or an id or the length is out of its range.
        """
        check_integers(ids, "ids")
        if ids.ndim != 2 or 0 in ids.shape or ids.shape[1] > self.length:
            raise ValueError(f"ids must have shape (B, L), L up to {self.length}; got {tuple(ids.shape)}")
        if ids.min() < 0 or ids.max() > self.n_items:
            raise ValueError(f"ids must lie in 0 .. {self.n_items}; got {int(ids.min())} .. {int(ids.max())}")
        x = self.items(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        scores = self.norm(x) @ self.items.weight.mT
        scores[..., 0] = -torch.inf
        return scores


class _Block(nn.Module):
    def __init__(self, attention, feed_forward, norm1, norm2):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.norm1, self.norm2 = norm1, norm2

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


def train_next_item(model, items, *, steps=300, batch_size=64, rate=1e-2, seed=0):
    """Train a `NextItemModel` on sessions, each item against all others, by AdamW.

    Parameters
    ----------
    model : NextItemModel
        Trained where it stands.
    items : integer array (n, L)
        Sessions, filled up with 0 at the right.
    steps, batch_size : int >= 1
    rate : float
        The learning rate of the first step; it falls to zero in a straight line.
    seed : int
        Of the sessions that are drawn for each step.

    Returns
    -------
    list of float
        The loss before each step: nats an item.

    Raises
    ------
    TypeError, ValueError
        If a number is out of its range, or the sessions are none.

    Examples
    --------
    >>> from attnlib.datasets import generated_sessions
    >>> model = NextItemModel(32, dim=8, length=8)
    >>> len(train_next_item(model, generated_sessions(50).items, steps=3))
    3
    """
    items = _sessions(items)
    steps, batch_size = valid_length(steps, "steps"), valid_length(batch_size, "batch_size")
    rng, losses = np.random.default_rng(seed), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(steps):
        batch = items[rng.integers(len(items), size=batch_size)]
        scores = model(batch[:, :-1])
        loss = cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def next_item_accuracy(model, items, asked=None):
    """How often the item with the highest score is the one that was bought.

    Parameters
    ----------
    model : NextItemModel
    items : integer array (n, L)
        Sessions, filled up with 0 at the right.
    asked : bool array (n, L), optional
        Which items to ask about, as ``decided`` of `shop_sessions`; all when left out. The first of a
        session is never asked about.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    TypeError, ValueError
        If the sessions are none, or no item is asked about.

    Examples
    --------
    >>> from attnlib.datasets import shop_sessions
    >>> shop = shop_sessions()
    >>> 0 <= next_item_accuracy(NextItemModel(32, dim=8, length=8), shop.items, shop.decided) <= 1
    True
    """
    items = _sessions(items)
    wanted = items[:, 1:] > 0
    if asked is not None:
        if tuple(getattr(asked, "shape", ())) != tuple(items.shape):
            got = getattr(asked, "shape", type(asked).__name__)
            raise ValueError(f"asked must have the shape of items, {tuple(items.shape)}; got {got}")
        wanted = wanted & torch.as_tensor(asked, dtype=torch.bool)[:, 1:]
    if not wanted.any():
        raise ValueError("asked must name at least one item that is not the first of its session")
    with torch.no_grad():
        right = model(items[:, :-1]).argmax(-1) == items[:, 1:]
    return right[wanted].double().mean().item()


def _sessions(items):
    """The table of item ids as a tensor, if it is one."""
    if not isinstance(items, np.ndarray | torch.Tensor):
        raise TypeError(f"items must be an array of item ids; got {type(items).__name__}")
    items = torch.as_tensor(items)
    if items.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"items must hold ids, int32 or int64; got {items.dtype}")
    if items.ndim != 2 or len(items) == 0 or items.shape[1] < 2:
        raise ValueError(f"items must have shape (n, L), two places or more; got {tuple(items.shape)}")
    return items.long()
