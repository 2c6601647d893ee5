"""Where the words of a Chinese sentence begin and end, which its writing does not say."""

__all__ = ["cut"]

_WIDE = str.maketrans(",?", "，？")
_NAMED = 3  # pieces, and words near them, that an error names
_LONGEST = 20  # signs of a word that is not known


def cut(text, words):
    """The fewest words that a text consists of; the longest first, where several cuts have as few.

    Spaces are kept as cuts. A comma and a question mark may be narrow; full stops at the end are left out.

    Parameters
    ----------
    text : str
    words : iterable of str
        All that there are.

    Returns
    -------
    tuple of str

    Raises
    ------
    TypeError
        If ``text`` is no string.
    ValueError
        If it holds no word, or something that is none.

    Examples
    --------
    >>> cut("我爱我的狗。", ["我", "我的", "的", "爱", "狗"])
    ('我', '爱', '我的', '狗')
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string; got {type(text).__name__}")
    known = frozenset(words)
    pieces = [piece for part in text.translate(_WIDE).rstrip("。. \n").split() for piece in _cut(part, known)]
    if not pieces:
        raise ValueError("The sentence is empty; it must hold a word at least")
    strange = list(dict.fromkeys(piece for piece in pieces if piece not in known))
    if strange:
        raise ValueError(f"No word is known for {_some(strange)}{_near(strange, known)}")
    return tuple(pieces)


def _cut(part, known):
    """Words and, joined, what lies between them: as little as can be of that, then as few words."""
    longest = max(map(len, known), default=1)
    best = {len(part): (0, 0, None)}  # from here on: strange characters, words, where the first ends
    for start in reversed(range(len(part))):
        strange, count, _ = best[start + 1]
        best[start] = strange + 1, count, None
        for end in range(start + 1, min(start + longest, len(part)) + 1):
            strange, count, _ = best[end]
            if part[start:end] in known and (strange, count + 1) <= best[start][:2]:
                best[start] = strange, count + 1, end
    pieces, start, between = [], 0, ""
    while start < len(part):
        end = best[start][2]
        if end is None:
            between, start = between + part[start], start + 1
            continue
        pieces += [*filter(None, [between]), part[start:end]]
        between, start = "", end
    return [*pieces, *filter(None, [between])]


def _near(strange, known):
    """The rest of a sentence: the words that share a character with what is none."""
    characters = set().union(*strange)
    near = sorted(word for word in known if characters & set(word))
    return f"; near it: {_some(near)}" if near else ", and no word shares a character with it"


def _some(words):
    words = [word if len(word) <= _LONGEST else f"{word[:_LONGEST]}…" for word in words]
    return ", ".join(words[:_NAMED]) + (f" and {len(words) - _NAMED} more" if len(words) > _NAMED else "")
