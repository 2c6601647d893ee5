"""A needle in a haystack: one pair to be found again among many, wherever it stands."""

import torch

from attnlib.core.arrays import valid_length, whole_number


def needle_batch(n, length=48, questions=16, *, n_names=64, n_things=16, fillers=0, generator):
    """Texts of pairs, each a name and its thing, and questions at the end: a name, whose thing is asked.

    No name stands twice in a text, things do. All is drawn anew for each text, so that nothing can be known
    by heart: an answer must be looked up among the pairs. Fillers are names without a thing; a reader sees at
    once that it need not keep them.

    Parameters
    ----------
    n : int >= 1
        Texts.
    length : int >= 1
        Pairs and fillers in each, at most ``n_names``.
    questions : int >= 1
        Each asks for another pair, so at most ``length - fillers``.
    n_names, n_things : int >= 1
    fillers : int >= 0
        They stand anywhere among the pairs.
    generator : torch.Generator

    Returns
    -------
    names, things : integer tensors (n, length + questions)
        Pairs and fillers, then the questions; where there is no thing stands ``n_things``.
    answers : integer tensor (n, questions)
        The things, at least 0 and below ``n_things``.
    distances : integer tensor (n, questions)
        How many positions before its question the pair stands, at least 1.

    Raises
    ------
    TypeError, ValueError
        If a number is no integer in its range, or ``generator`` is none.

    References
    ----------
    Arora et al. 2023, arXiv 2312.04927, has such questions as associative recall, with name and thing as
    tokens one after the other.

    Examples
    --------
    >>> drawn = torch.Generator().manual_seed(0)
    >>> names, things, answers, distances = needle_batch(32, 20, questions=4, fillers=12, generator=drawn)
    >>> names.shape, answers.shape, int((things[0, :20] == 16).sum())
    (torch.Size([32, 24]), torch.Size([32, 4]), 12)
    """
    sizes = {"n": n, "length": length, "questions": questions, "n_names": n_names, "n_things": n_things}
    n, length, questions, n_names, n_things = (valid_length(size, name) for name, size in sizes.items())
    fillers = whole_number(fillers, f"fillers must be a whole number; got {fillers!r}")
    if length > n_names:
        raise ValueError(f"length must be at most n_names, {n_names}, for no name stands twice; got {length}")
    if fillers < 0:
        raise ValueError(f"fillers must be at least 0; got {fillers}")
    if fillers + questions > length:
        raise ValueError(
            f"fillers and a pair a question must fit into length, {length}; got {fillers} + {questions}"
        )
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"generator must be a torch.Generator; got {type(generator).__name__}")
    names = torch.rand(n, n_names, generator=generator).argsort(-1)[:, :length]
    things = torch.randint(n_things, (n, length), generator=generator)
    order = torch.rand(n, length, generator=generator).argsort(-1)
    asked = order[:, :questions]
    answers = things.gather(1, asked)
    things = things.scatter(1, order[:, length - fillers :], n_things)
    names = torch.cat([names, names.gather(1, asked)], 1)
    things = torch.cat([things, torch.full_like(asked, n_things)], 1)
    return names, things, answers, length + torch.arange(questions) - asked
