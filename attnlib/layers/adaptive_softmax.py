"""Adaptive softmax as the last layer of a model: frequent words at once, rare ones by clusters."""

import warnings
from itertools import pairwise
from numbers import Real
from typing import NamedTuple

import torch
from torch import nn

from attnlib.core.arrays import namespace, valid_length, whole_number
from attnlib.core.hierarchical import valid_target
from attnlib.layers.checks import check_features


class TargetLogProb(NamedTuple):
    """What a model's last layer makes of states and of the words that should follow.

    Attributes
    ----------
    output : tensor (...)
        Log-probability of each target.
    loss : tensor ()
        The negative mean of ``output``.
    """

    output: torch.Tensor
    loss: torch.Tensor


class AdaptiveLogSoftmax(nn.Module):
    """A softmax over a short list of frequent words and a name for each cluster of rarer ones.

    Words are numbered by falling frequency; ``cutoffs`` cut them into the short list and ``K`` clusters. For
    a word of the short list ``log p = head``, and for one in cluster ``i``
    ``log p = head[c_0 + i] + tail_i``, where ``head`` is the log-softmax over ``c_0 + K`` entries and
    ``tail_i`` that over the cluster's words. A cluster is computed only for the states whose target lies in
    it, and from fewer features, for its words are rare and teach little. State dicts load from
    ``torch.nn.AdaptiveLogSoftmaxWithLoss`` with the same arguments, and go back.

    Parameters
    ----------
    in_features : int >= 1
        Features of a state, ``d``.
    n_classes : int >= 2
        Words, ``V``.
    cutoffs : sequence of int
        ``c_0 < c_1 < ...``, between 1 and ``V - 1``: where the short list ends and where each cluster but
        the last does.
    div_value : float > 0
        Cluster ``i``, counted from 0, reads ``floor(d / div_value**(i + 1))`` features. Where that is 0 its
        words all have the same probability, whatever is learned: a warning says so (there is none in torch).
    head_bias : bool
        Add a bias in the head; the paper's own code has none.

    Raises
    ------
    TypeError, ValueError
        If a number is out of its range, or the cutoffs do not rise.

    References
    ----------
    Grave et al. 2017, arXiv 1609.04309, section 4. Names and initial values are those of
    ``torch.nn.AdaptiveLogSoftmaxWithLoss``.

    Examples
    --------
    >>> layer = AdaptiveLogSoftmax(16, 1000, [10, 100])
    >>> out, loss = layer(torch.zeros(3, 16), torch.tensor([0, 50, 999]))
    >>> out.exp()                                   # 1 / 12, 1 / 12 / 90 and 1 / 12 / 900
    tensor([8.3333e-02, 9.2593e-04, 9.2593e-05], grad_fn=<ExpBackward0>)
    """

    def __init__(self, in_features, n_classes, cutoffs, *, div_value=4.0, head_bias=False, device=None,
                 dtype=None):  # fmt: skip
        super().__init__()
        self.in_features = valid_length(in_features, "in_features")
        self.n_classes = valid_length(n_classes, "n_classes")
        self.cutoffs = [*_valid_cutoffs(cutoffs, self.n_classes), self.n_classes]
        if isinstance(div_value, bool) or not isinstance(div_value, Real) or not div_value > 0:
            raise ValueError(f"div_value must be a positive number; got {div_value!r}")

        def linear(n_in, n_out, bias=False):
            return nn.Linear(n_in, n_out, bias=bias, device=device, dtype=dtype)

        self.head = linear(self.in_features, self.cutoffs[0] + len(self.cutoffs) - 1, head_bias)
        self.tail = nn.ModuleList()
        for i, (first, end) in enumerate(pairwise(self.cutoffs)):
            width = int(self.in_features // div_value ** (i + 1))
            if width == 0:
                warnings.warn(
                    f"cluster {i} reads {in_features} / {div_value:g}**{i + 1} = 0 features, so its "
                    f"{end - first} words stay equally probable; lower div_value, or set fewer cutoffs",
                    stacklevel=2,
                )
            with warnings.catch_warnings(action="ignore"):  # torch's own, of a matrix without numbers
                self.tail.append(nn.Sequential(linear(self.in_features, width), linear(width, end - first)))

    def forward(self, h, target):
        """Log-probabilities of the targets, and the loss.

        Parameters
        ----------
        h : tensor (..., in_features)
        target : integer tensor (...)

        Returns
        -------
        TargetLogProb
            ``output`` (...) and ``loss`` ().

        Raises
        ------
        TypeError, ValueError
            If an argument is no tensor, its shape does not fit, or a target is no word.
        """
        check_states(h, self.in_features)
        target = valid_target(namespace(h=h, target=target), target, h, self.n_classes)
        states, target = h.reshape(-1, self.in_features), target.reshape(-1)
        entry, output = target.clone(), h.new_zeros(len(states))
        for i, (first, end) in enumerate(pairwise(self.cutoffs)):
            rows = ((target >= first) & (target < end)).nonzero().ravel()
            if len(rows):
                within = self.tail[i](states[rows]).log_softmax(-1)
                within = within.gather(-1, (target[rows] - first)[:, None])[:, 0]
                output = output.to(within.dtype).index_copy(0, rows, within)
                entry[rows] = self.cutoffs[0] + i
        output = output + self.head(states).log_softmax(-1).gather(-1, entry[:, None])[:, 0]
        return TargetLogProb(output.reshape(h.shape[:-1]), -output.mean())

    def log_prob(self, h):
        """Log-probabilities of all words.

        Parameters
        ----------
        h : tensor (..., in_features)

        Returns
        -------
        tensor (..., n_classes)

        Raises
        ------
        TypeError, ValueError
            As for the forward pass.
        """
        check_states(h, self.in_features)
        short, clusters = self.head(h).log_softmax(-1).tensor_split([self.cutoffs[0]], dim=-1)
        tails = [clusters[..., i, None] + tail(h).log_softmax(-1) for i, tail in enumerate(self.tail)]
        return torch.cat([short, *tails], dim=-1)

    def predict(self, h):
        """The most probable word for each state.

        Where the largest entry of the head is a word, no word of a cluster is more probable than it: that
        spares the clusters. Where it is a cluster, the word need not lie in it, for the cluster shares its
        probability among many: all words must be compared. To descend into the likeliest cluster and take
        its likeliest word is a mistake often made; torch does not make it.

        Parameters
        ----------
        h : tensor (..., in_features)

        Returns
        -------
        int64 tensor (...)

        Raises
        ------
        TypeError, ValueError
            As for the forward pass.
        """
        check_states(h, self.in_features)
        best = self.head(h).argmax(-1)
        open_ = best >= self.cutoffs[0]
        if open_.any():
            best[open_] = self.log_prob(h[open_]).argmax(-1)
        return best

    def multiply_adds(self, counts):
        """Products that the forward pass makes for a state, on average over words seen so often.

        ``d * (c_0 + K)`` for the head, and ``w_i * (d + n_i)`` more for a word of cluster ``i``, which has
        ``n_i`` words and reads ``w_i`` features. A full softmax makes ``d * V``.

        Parameters
        ----------
        counts : array (V,)

        Returns
        -------
        float
        """
        counts = torch.as_tensor(counts, dtype=torch.float64)
        shares = counts / counts.sum()
        total = float(self.head.weight.numel())
        for (first, end), (narrow, wide) in zip(pairwise(self.cutoffs), self.tail, strict=True):
            total += float(shares[first:end].sum()) * (narrow.weight.numel() + wide.weight.numel())
        return total

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return f"in_features={self.in_features}, n_classes={self.n_classes}, cutoffs={self.cutoffs[:-1]}"


def check_states(h, in_features):
    """A sentence where ``h`` is no tensor of states with so many features."""
    check_features(h, "h", in_features)
    if 0 in h.shape:
        raise ValueError(f"h must not be empty; got shape {tuple(h.shape)}")


def _valid_cutoffs(cutoffs, n_classes):
    try:
        cutoffs = [whole_number(c, f"cutoffs must hold whole numbers; got {c!r}") for c in cutoffs]
    except TypeError as wrong:
        if "whole numbers" in str(wrong):
            raise
        raise TypeError(f"cutoffs must be a sequence of whole numbers; got {cutoffs!r}") from None
    if not cutoffs or any(a >= b for a, b in pairwise([0, *cutoffs, n_classes])):
        raise ValueError(
            f"cutoffs must be one or more numbers that rise, between 1 and {n_classes - 1}; got {cutoffs}"
        )
    return cutoffs
