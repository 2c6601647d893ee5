"""Patterns: which pairs of positions meet, as small rules that combine with ``&``, ``|`` and ``~``."""

from collections.abc import Callable
from dataclasses import dataclass, field

from array_api_compat import device

from attnlib.core.arrays import kind_of, namespace, valid_length, whole_number
from attnlib.core.masks import aligned_positions


@dataclass(frozen=True)
class Pattern:
    """A rule that says of a query's and a key's position whether the query may attend to the key.

    It is asked about positions, not about lengths, so that a tile of a mask can be made without the
    whole: ``pattern(i, j)``. Patterns combine with ``&``, ``|`` and ``~``, as masks do; each prints as
    the expression that makes it, and two are equal if they print alike.

    Parameters
    ----------
    expression : str
        What it prints as.
    rule : callable
        Gives booleans for two integer arrays that broadcast, positions of queries and of keys.

    Raises
    ------
    TypeError, ValueError
        If it is asked about anything but arrays of integers, combined with anything but a pattern, or
        combined by ``and``, ``or`` or ``not``.

    Returns
    -------
    Pattern

    Examples
    --------
    >>> causal & (window(2) | first(1))
    causal & (window(2) | first(1))
    >>> (causal & (window(2) | first(1))).mask(4).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [1, 1, 1, 0],
           [1, 0, 1, 1]])
    """

    expression: str
    rule: Callable = field(compare=False)
    looseness: int = 0  # of the operator outermost in the expression: none or ~, &, |

    def __call__(self, i, j):
        """Whether queries at positions ``i`` may attend to keys at positions ``j``.

        Parameters
        ----------
        i, j : integer arrays that broadcast
            NumPy or torch. Positions of queries may be negative: before the first key.

        Returns
        -------
        bool array
            Of the shape that ``i`` and ``j`` broadcast to; `per_head` puts an axis of heads before it.
        """
        xp = namespace(i=i, j=j)
        for name, positions in (("i", i), ("j", j)):
            if kind_of(xp, positions.dtype) != "integral":
                raise TypeError(
                    f"{name} must hold positions, which are integers; got dtype {positions.dtype}"
                )
        i, j = xp.broadcast_arrays(*(xp.astype(x, xp.int64, copy=False) for x in (i, j)))
        return self.rule(i, j)

    def mask(self, n_query, n_key=None, *, align="end", like=None):
        """The pattern as a boolean mask.

        Parameters
        ----------
        n_query : int >= 1
        n_key : int >= 1, optional
            As many as queries when left out.
        align : {"end", "start"}
            Which positions coincide when the lengths differ, as in `causal_mask`.
        like : array, optional
            The mask is made in this array's library and on its device; NumPy when left out.

        Returns
        -------
        bool array (n_query, n_key)
        """
        return self(*aligned_positions(n_query, n_key, align, like))

    def __and__(self, other):
        return self._joined(other, "&", 1, lambda i, j: self.rule(i, j) & other.rule(i, j))

    def __or__(self, other):
        return self._joined(other, "|", 2, lambda i, j: self.rule(i, j) | other.rule(i, j))

    def __invert__(self):
        return Pattern(f"~{self._inside(0)}", lambda i, j: ~self.rule(i, j))

    def __bool__(self):
        # Else `causal and window(2)` would be window(2), without a word.
        raise TypeError(
            "a pattern is neither true nor false, so it cannot be joined by and, or, not; use &, | and ~"
        )

    def __repr__(self):
        return self.expression

    def _joined(self, other, operator, looseness, rule):
        if not isinstance(other, Pattern):
            raise TypeError(
                f"a pattern combines with patterns; got {type(other).__name__}. Its mask combines with masks."
            )
        # Python groups from the left: only on the right does the same operator need parentheses.
        left, right = self._inside(looseness), other._inside(looseness - 1)
        return Pattern(f"{left} {operator} {right}", rule, looseness)

    def _inside(self, looseness):
        """The expression, in parentheses where one that binds as tightly as this is asked for."""
        return self.expression if self.looseness <= looseness else f"({self.expression})"


causal = Pattern("causal", lambda i, j: j <= i)


def window(width):
    """Keys less than ``width`` positions away, on either side: ``|i - j| < width``.

    Parameters
    ----------
    width : int >= 1
        ``causal & window(width)`` are ``width`` keys, the query's own included; without ``causal``
        ``2 * width - 1``.

    Returns
    -------
    Pattern

    Raises
    ------
    TypeError, ValueError
        If ``width`` is not a positive integer.

    References
    ----------
    Child et al. 2019, arXiv 1904.10509, count as here. Others do not: ``sliding_window=W``
    of Hugging Face's Mistral means ``W`` keys with the own one, ``causal & window(W)``;
    FlashAttention's ``window_size=(left, right)`` leaves the own key out, so ``(W - 1, 0)`` is the same
    (`between`); Longformer's ``attention_window=w``, an even number, means ``w / 2`` keys on each side
    and the own one, ``window(w // 2 + 1)``.

    Examples
    --------
    >>> window(2).mask(3).astype(int)
    array([[1, 1, 0],
           [1, 1, 1],
           [0, 1, 1]])
    """
    width = valid_length(width, "width")
    return Pattern(f"window({width})", lambda i, j: abs(i - j) < width)


def between(left, right):
    """Keys from ``left`` positions before the query to ``right`` after it: ``i - left <= j <= i + right``.

    Parameters
    ----------
    left, right : int >= -1
        -1 is without limit. The query's own key is among them besides.

    Returns
    -------
    Pattern

    Raises
    ------
    TypeError, ValueError
        If ``left`` or ``right`` is not an integer of at least -1.

    References
    ----------
    ``window_size`` of Dao-AILab/flash-attention, where ``causal`` sets ``right`` to 0.

    Examples
    --------
    >>> between(1, 0).mask(3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    """
    left, right = _limit(left, "left"), _limit(right, "right")

    def rule(i, j):
        near = i == i
        near = near if left == -1 else near & (i - left <= j)
        return near if right == -1 else near & (j <= i + right)

    return Pattern(f"between({left}, {right})", rule)


def first(n):
    """The first ``n`` keys: ``j < n``.

    Parameters
    ----------
    n : int >= 1

    Returns
    -------
    Pattern
        ``causal & (window(w) | first(n))`` is the window with sinks; without the parentheses the first
        queries would see ahead.

    Raises
    ------
    TypeError, ValueError
        If ``n`` is not a positive integer.

    References
    ----------
    Xiao et al. 2023, arXiv 2309.17453 (StreamingLLM): four of them keep a window alive.

    Examples
    --------
    >>> first(1).mask(2).astype(int)
    array([[1, 0],
           [1, 0]])
    """
    n = valid_length(n, "n")
    return Pattern(f"first({n})", lambda i, j: j < n)


def dilated(width, rate):
    """Every ``rate``-th key within ``rate * width``: ``(i - j) % rate == 0`` and ``|i - j| < rate * width``.

    Parameters
    ----------
    width : int >= 1
        ``causal & dilated(width, rate)`` are ``width`` keys, as ``causal & window(width)`` are.
    rate : int >= 1
        1 is `window`.

    Returns
    -------
    Pattern

    Raises
    ------
    TypeError, ValueError
        If an argument is not a positive integer.

    References
    ----------
    Beltagy, Peters and Cohan 2020, arXiv 2004.05150, section 3.1, after the atrous convolution.

    Examples
    --------
    >>> (causal & dilated(2, 3)).mask(5).astype(int)
    array([[1, 0, 0, 0, 0],
           [0, 1, 0, 0, 0],
           [0, 0, 1, 0, 0],
           [1, 0, 0, 1, 0],
           [0, 1, 0, 0, 1]])
    """
    width, rate = valid_length(width, "width"), valid_length(rate, "rate")
    return Pattern(
        f"dilated({width}, {rate})", lambda i, j: ((i - j) % rate == 0) & (abs(i - j) < rate * width)
    )


def strided(stride):
    """Every ``stride``-th key, at any distance: ``(i - j) % stride == 0``.

    Parameters
    ----------
    stride : int >= 1

    Returns
    -------
    Pattern

    Raises
    ------
    TypeError, ValueError
        If ``stride`` is not a positive integer.

    References
    ----------
    Child et al. 2019, arXiv 1904.10509, with ``causal &``. After a layer of
    ``causal & window(stride)`` one of these brings every earlier token within reach.

    Examples
    --------
    >>> (causal & strided(2)).mask(3).astype(int)
    array([[1, 0, 0],
           [0, 1, 0],
           [1, 0, 1]])
    """
    stride = valid_length(stride, "stride")
    return Pattern(f"strided({stride})", lambda i, j: (i - j) % stride == 0)


def blocks(size):
    """Keys of the query's own block: ``i // size == j // size``.

    Parameters
    ----------
    size : int >= 1

    Returns
    -------
    Pattern

    Raises
    ------
    TypeError, ValueError
        If ``size`` is not a positive integer.

    Examples
    --------
    >>> blocks(2).mask(3).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """
    size = valid_length(size, "size")
    return Pattern(f"blocks({size})", lambda i, j: i // size == j // size)


def fixed(block, summary=1, group=0):
    """The query's own block, and a few summary columns of every block.

    With ``causal &``: of every earlier block. Group 0 are the last ``summary`` columns of a block, group
    1 those before them, and so on:
    ``block - (group + 1) * summary <= j % block < block - group * summary``.

    Parameters
    ----------
    block : int >= 1
    summary : int >= 1
        Columns in a group.
    group : int >= 0
        Counted from the end of the block. Heads may take one each:
        ``per_head(*[fixed(8, 2, group) for group in range(4)])``.

    Returns
    -------
    Pattern

    Raises
    ------
    TypeError, ValueError
        If ``block`` or ``summary`` is not a positive integer, or the group does not fit into the block.

    References
    ----------
    Child et al. 2019, arXiv 1904.10509. Groups are those of openai/sparse_attention, whose
    head ``h`` of ``num_verts`` takes group ``h % num_verts``.

    Examples
    --------
    >>> (causal & fixed(2)).mask(4).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 1, 1, 1]])
    """
    block, summary = valid_length(block, "block"), valid_length(summary, "summary")
    group = whole_number(group, f"group must be a whole number; got {group!r}")
    start, end = block - (group + 1) * summary, block - group * summary
    if group < 0 or start < 0:
        raise ValueError(
            f"group must lie in 0 .. {block // summary - 1}, for a block of {block} has "
            f"{block // summary} groups of {summary}; got {group}"
        )

    def rule(i, j):
        return (i // block == j // block) | ((start <= j % block) & (j % block < end))

    return Pattern(f"fixed({block}, {summary}, {group})", rule)


def global_tokens(positions):
    """All pairs with one of these tokens: it sees every key, and every query sees it.

    Parameters
    ----------
    positions : ints >= 0
        Where they stand, one or more.

    Returns
    -------
    Pattern
        Those rows and those columns.

    Raises
    ------
    TypeError, ValueError
        If ``positions`` is empty or one is no integer of at least 0.

    References
    ----------
    Beltagy, Peters and Cohan 2020, arXiv 2004.05150, section 3.1.

    Examples
    --------
    >>> global_tokens([1]).mask(3).astype(int)
    array([[0, 1, 0],
           [1, 1, 1],
           [0, 1, 0]])
    """
    tokens = [whole_number(p, f"positions must hold integers; got {p!r}") for p in positions]
    if not tokens or min(tokens) < 0:
        raise ValueError(f"positions must be one or more numbers of at least 0; got {tokens}")

    def among(x):
        xp = namespace(x=x)
        return xp.any(x[..., None] == xp.asarray(tokens, device=device(x)), axis=-1)

    return Pattern(f"global_tokens({tokens})", lambda i, j: among(i) | among(j))


def per_head(*patterns):
    """A pattern for each head: its booleans have an axis of heads before the queries.

    Parameters
    ----------
    patterns : Pattern
        One for each head.

    Returns
    -------
    Pattern
        Its mask has shape ``(heads, n_query, n_key)``.

    Raises
    ------
    TypeError
        If there is none, or one is no pattern.

    References
    ----------
    Child et al. 2019, arXiv 1904.10509, on heads that look in different ways.

    Examples
    --------
    >>> (causal & per_head(window(1), strided(2))).mask(3).astype(int)
    array([[[1, 0, 0],
            [0, 1, 0],
            [0, 0, 1]],
    <BLANKLINE>
           [[1, 0, 0],
            [0, 1, 0],
            [1, 0, 1]]])
    """
    if not patterns or not all(isinstance(pattern, Pattern) for pattern in patterns):
        raise TypeError(f"per_head takes patterns, one for each head; got {patterns!r}")

    def rule(i, j):
        return namespace(i=i).stack([pattern.rule(i, j) for pattern in patterns])

    return Pattern(f"per_head({', '.join(map(repr, patterns))})", rule)


def receptive_field(mask, layers):
    """Which inputs reach which outputs after several layers of one mask.

    The boolean power of the mask: an input reaches an output if there is a way of ``layers`` steps, each
    of which the mask allows. With the residual connection a token reaches itself in any layer:
    give ``mask | eye``, where the mask does not say so.

    Parameters
    ----------
    mask : bool array (..., n, n)
    layers : int >= 1

    Returns
    -------
    bool array (..., n, n)
        Outputs down, inputs across. ``.mean()`` is the share of pairs.

    Raises
    ------
    TypeError, ValueError
        If the mask is not boolean and square, or ``layers`` is not a positive integer.

    Examples
    --------
    >>> receptive_field((causal & window(2)).mask(4), layers=2).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [1, 1, 1, 0],
           [0, 1, 1, 1]])
    """
    xp = namespace(mask=mask)
    layers, shape = valid_length(layers, "layers"), tuple(mask.shape)
    if kind_of(xp, mask.dtype) != "bool":
        raise TypeError(f"mask must be boolean (True = may attend); got dtype {mask.dtype}")
    if len(shape) < 2 or shape[-1] != shape[-2] or 0 in shape:
        raise ValueError(f"mask must have shape (..., n, n), not empty; got {shape}")
    reached, step = None, mask  # step: what 1, 2, 4, 8, ... layers reach
    while True:
        if layers % 2:
            reached = step if reached is None else _after(xp, step, reached)
        layers //= 2
        if not layers:
            return reached
        step = _after(xp, step, step)


def _after(xp, step, reached):
    return xp.astype(step, xp.float32) @ xp.astype(reached, xp.float32) > 0


def _limit(value, name):
    value = whole_number(value, f"{name} must be a whole number; got {value!r}")
    if value < -1:
        raise ValueError(f"{name} must be at least 0, or -1 for no limit; got {value}")
    return value
