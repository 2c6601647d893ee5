"""Which word translates which: alignments found by a model, by counting and by position, and their errors.

An alignment is a set of links (index of the source word, index of the target word), from 0.
"""

import numpy as np

from attnlib.core.arrays import valid_length, whole_number


def alignment_error_rate(found, sure, possible):
    """How far found links are from gold links: 0 where all are possible and none that is sure is missing.

    ``1 - (|A & S| + |A & P|) / (|A| + |S|)`` with ``A`` found, ``S`` sure, ``P`` possible. A sure link is
    also possible, whether ``possible`` repeats it or not.

    Parameters
    ----------
    found, sure, possible : set of links, or sequence of such sets
        Of one sentence, or of many; then the counts are added before they are divided.

    Returns
    -------
    float
        Between 0 and 1; 0 where nothing is found and nothing is sure.

    Raises
    ------
    TypeError, ValueError
        If a link is no pair of whole numbers from 0 up, or there are not as many sets of one kind as of the
        others.

    References
    ----------
    Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models", Computational
    Linguistics 29(1).

    Examples
    --------
    >>> alignment_error_rate({(0, 0), (1, 2)}, sure={(0, 0)}, possible={(0, 0), (1, 1)})
    0.33333333333333337
    """
    sides = {"found": found, "sure": sure, "possible": possible}
    sides = {name: _sentences(links, name) for name, links in sides.items()}
    if len({len(sentences) for sentences in sides.values()}) > 1:
        counts = ", ".join(f"{len(sentences)} of {name}" for name, sentences in sides.items())
        raise ValueError(f"there must be as many sentences of each kind; got {counts}")
    right = total = 0
    for a, s, p in zip(*sides.values(), strict=True):
        right += len(a & s) + len(a & (p | s))
        total += len(a) + len(s)
    return 1 - right / total if total else 0.0


def diagonal_alignment(n_source, n_target):
    """Each target word linked to the source word as far along its sentence: what costs no thought.

    Target word ``j`` goes to the source word under its middle, ``floor((j + 1/2) * n_source / n_target)``.

    Parameters
    ----------
    n_source, n_target : int >= 1
        Words of both sentences.

    Returns
    -------
    set of links
        ``n_target`` of them.

    Raises
    ------
    TypeError, ValueError
        If a length is no positive integer.

    Examples
    --------
    >>> sorted(diagonal_alignment(2, 4))
    [(0, 0), (0, 1), (1, 2), (1, 3)]
    """
    n_source, n_target = valid_length(n_source, "n_source"), valid_length(n_target, "n_target")
    return {((2 * j + 1) * n_source // (2 * n_target), j) for j in range(n_target)}


def attention_alignment(weights):
    """Each target word linked to the source word that it attends to most.

    Parameters
    ----------
    weights : real array (L, S)
        A row for each target word. A decoder writes a word while it reads the one before: take the row of the
        step that *writes* it, so for the first word the row of the step that reads the start mark.

    Returns
    -------
    set of links
        ``L`` of them; of equal weights the first counts.

    Raises
    ------
    TypeError, ValueError
        If ``weights`` is no array of two axes of real numbers, or is empty, or holds NaN.

    Examples
    --------
    >>> import numpy as np
    >>> sorted(attention_alignment(np.array([[0.1, 0.9], [0.8, 0.2]])))
    [(0, 1), (1, 0)]
    """
    if hasattr(weights, "detach"):
        weights = weights.detach().cpu().numpy()
    if not isinstance(weights, np.ndarray) or weights.dtype.kind not in "fiu":
        got = weights.dtype if isinstance(weights, np.ndarray) else type(weights).__name__
        raise TypeError(f"weights must be an array or a tensor of real numbers; got {got}")
    if weights.ndim != 2 or 0 in weights.shape:
        raise ValueError(f"weights must have shape (L, S), one head of one sentence; got {weights.shape}")
    if np.isnan(weights).any():
        raise ValueError("weights must not hold NaN")
    return {(int(i), j) for j, i in enumerate(weights.argmax(-1))}


class IBMModel1:
    """How likely a source word translates as each target word, found by counting in pairs of sentences.

    Each target word comes from one source word or from none (NULL), all equally likely beforehand, whatever
    their places. Expectation-maximisation takes turns: each target word is shared out among the source words
    of its sentence in proportion to ``t(target | source)``; then ``t`` is what was shared out, summed over
    all sentences and divided by its total for each source word. It begins uniform. The likelihood that it
    climbs is concave, so there is no lower peak to be caught on.

    Parameters
    ----------
    pairs : sequence of (source, target)
        Sequences of words; a `Pair` will do, of which the first two count.
    rounds : int >= 1
        Of expectation-maximisation.
    null : bool
        Whether a target word may come from none.

    Attributes
    ----------
    table : float64 array (1 + source words, target words)
        ``t``; rows sum to 1, row 0 is NULL's.

    Returns
    -------
    IBMModel1

    Raises
    ------
    TypeError, ValueError
        If there are no pairs, or one has an empty sentence.

    References
    ----------
    Brown, Della Pietra, Della Pietra and Mercer 1993, "The Mathematics of Statistical Machine Translation",
    Computational Linguistics 19(2), section 4.1.

    Examples
    --------
    >>> pairs = [("这本 书", "this book"), ("这本 小说", "this novel"), ("两本 小说", "two novels")]
    >>> model = IBMModel1([(zh.split(), en.split()) for zh, en in pairs])
    >>> sorted(model.align(["书", "这本"], ["this", "book"]))
    [(0, 1), (1, 0)]
    """

    def __init__(self, pairs, rounds=10, *, null=True):
        rounds = valid_length(rounds, "rounds")
        pairs = [(list(source), list(target)) for source, target, *_ in pairs]
        if not pairs or any(not source or not target for source, target in pairs):
            raise ValueError("pairs must hold one pair or more, and no empty sentence")
        self.null = null
        self._source = {word: i for i, word in enumerate(_types(source for source, _ in pairs), 1)}
        self._target = {word: i for i, word in enumerate(_types(target for _, target in pairs))}
        # One entry for each source word beside each target word of its sentence.
        e, f, token = [], [], []
        n = 0
        for source, target in pairs:
            rows = [0] * null + [self._source[word] for word in source]
            for word in target:
                e += rows
                f += [self._target[word]] * len(rows)
                token += [n] * len(rows)
                n += 1
        e, f, token = map(np.array, (e, f, token))
        shape = (len(self._source) + 1, len(self._target))
        cell = e * shape[1] + f
        self.table = np.full(shape, 1 / shape[1])
        for _ in range(rounds):
            share = self.table[e, f]
            share = share / np.bincount(token, share)[token]
            counts = np.bincount(cell, share, minlength=shape[0] * shape[1]).reshape(shape)
            total = counts.sum(1, keepdims=True)
            self.table = np.divide(counts, total, out=np.zeros(shape), where=total > 0)

    def probability(self, source, target):
        """``t(target | source)``; 0 for words that never stood in one pair."""
        i, j = 0 if source is None else self._source.get(source), self._target.get(target)
        return 0.0 if i is None or j is None else float(self.table[i, j])

    def align(self, source, target):
        """Each target word linked to its likeliest source word, or to none where NULL is likelier."""
        links = set()
        for j, word in enumerate(target):
            chances = [self.probability(other, word) for other in source]
            best = int(np.argmax(chances))
            if chances[best] > (self.probability(None, word) if self.null else 0):
                links.add((best, j))
        return links


def _types(sentences):
    return sorted({word for sentence in sentences for word in sentence})


def _sentences(links, name):
    """A list of sets of links: one, or one for each sentence."""
    links = [links] if isinstance(links, set | frozenset) else list(links)
    if any(not isinstance(one, set | frozenset) for one in links):
        raise TypeError(f"{name} must be a set of links (source, target), or a sequence of such sets")
    return [{_link(link, name) for link in one} for one in links]


def _link(link, name):
    wrong = f"a link of {name} must be two whole numbers (source, target) from 0 up; got {link!r}"
    if not isinstance(link, tuple) or len(link) != 2:
        raise TypeError(wrong)
    link = tuple(whole_number(place, wrong) for place in link)
    if min(link) < 0:
        raise ValueError(wrong)
    return link
