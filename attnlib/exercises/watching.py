"""What a test does with the layer that it is given: by that one knows why a faulty one slips through."""

from dataclasses import dataclass

import torch
from torch.overrides import TorchFunctionMode

from attnlib.exercises.suspects import Layer


@dataclass(frozen=True)
class Seen:
    """One call of a layer.

    Attributes
    ----------
    heads, groups, batch, words, keys : int
    padded, ragged : bool
        Some key is padding; sentences differ in it.
    behind : bool
        Some word stands behind padding.
    rotary, evaluated : bool
        It turns queries and keys; it has dropout and is in evaluation.
    varied : bool
        The words differ.
    twice : bool
        An earlier call of the same test had the same input.
    off : float
        How far the output is from that of the healthy layer with the same matrices.
    """

    heads: int
    groups: int
    batch: int
    words: int
    keys: int
    padded: bool
    ragged: bool
    behind: bool
    rotary: bool
    evaluated: bool
    varied: bool
    twice: bool
    off: float


# What a call must have for a fault to show, and what is said to a test none of whose calls has it.
NEEDS = {
    "heads": (lambda s: s.heads > 1,
        "All your layers have one head. It is as wide as the model, and there is no second one with which it "
        "could be mixed up."),
    "groups": (lambda s: 1 < s.groups < s.heads,
        "With as many key heads as query heads, or with a single one, every way to share them is the same. "
        "Ask for a number in between."),
    "words": (lambda s: s.keys > 1,
        "All your texts have one word, which can look at itself alone."),
    "three": (lambda s: s.keys > 2,
        "Two words leave no order among the earlier ones. Take three or more."),
    "batch": (lambda s: s.batch > 1,
        "You give one sentence at a time. The fault needs a second one beside it."),
    "padding": (lambda s: s.padded,
        "None of your texts has padding: `real` is left out, or it is True everywhere."),
    "ragged": (lambda s: s.ragged,
        "All your sentences are padded alike. Then it does not matter whose padding a query is given."),
    "left": (lambda s: s.behind,
        "No word of yours stands behind padding. At the end of a sentence padding is hidden by the causal "
        "mask already. Put it at the beginning."),
    "empty": (lambda s: s.behind,
        "None of your queries has nothing to see. Under a causal mask the first one has, where a sentence "
        "begins with padding."),
    "cached": (lambda s: s.keys > s.words,
        "You never continue from a filled cache. In a single call there are as many keys as queries, and "
        "places start at 0 anyway."),
    "rotary": (lambda s: s.rotary,
        "You switch the places off in all your layers, with `rotary=False`."),
    "evaluated": (lambda s: s.evaluated,
        "Your layers have no dropout, or they are never in evaluation: a layer takes `dropout` when it is "
        "built, and begins in training."),
    "varied": (lambda s: s.varied,
        "All words of your texts are the same. A mean of equal vectors does not depend on the weights."),
}  # fmt: skip


STEPS = "forward", "split", "turn", "may_attend", "share", "weights", "drop", "merge"


def blind(suspect):
    """A class that does as the suspect does, with a name and a code that all have, made anew each time."""
    def passed_on(step):
        def method(self, *args, **kwargs):
            return getattr(suspect, step)(self, *args, **kwargs)
        return method

    return type("Suspect", (suspect,), {step: passed_on(step) for step in STEPS})


def watched(suspect, seen, louder=1):
    """A class that does as the suspect does, notes its calls in the list, and can exaggerate its fault."""
    caches, inputs = {}, []

    class Watched(suspect):
        def forward(self, x, real=None, cache=None):
            twin = Layer(*self.sizes).to(self.w_q.dtype)
            twin.load_state_dict(self.state_dict())
            twin.train(self.training)
            kept = None if cache is None else caches.setdefault(id(cache), (cache, list(cache)))[1]
            with torch.no_grad():
                right = twin(x, real, kept)
            out = super().forward(x, real, cache)
            twice = any(x is one or (x.shape == one.shape and torch.equal(x, one)) for one in inputs)
            inputs.append(x.detach().clone())
            keys = x.shape[1] if cache is None else cache[0].shape[-2]
            seen.append(_note(self, x, real, keys, twice, out, right))
            return right + louder * (out - right) if louder != 1 else out

    Watched.__name__ = Watched.__qualname__ = suspect.__name__
    return Watched


def _note(layer, x, real, keys, twice, out, right):
    off = torch.nan_to_num(out.detach(), 1e9) - torch.nan_to_num(right, 1e9)
    padding = torch.zeros(1, 1) == 1 if real is None else ~real
    return Seen(
        heads=layer.n_heads,
        groups=layer.n_groups,
        batch=x.shape[0],
        words=x.shape[1],
        keys=keys,
        padded=bool(padding.any()),
        ragged=bool((padding != padding[:1]).any()),
        behind=bool((padding.cummax(-1).values & ~padding).any()) if padding.any() else False,
        rotary=layer.rotary,
        evaluated=layer.dropout > 0 and not layer.training,
        varied=bool((x != x[:1, :1]).any()),
        twice=twice,
        off=float(off.abs().max()) if off.numel() else 0.0,
    )


class Noise(Layer):
    """The right shape, and other numbers in every call."""

    def forward(self, x, real=None, cache=None):
        super().forward(x, real, cache)
        return torch.randn(x.shape)


class Nonsense(Layer):
    """The right shape, and the same nonsense for the same input: all words of all sentences, mixed."""

    def forward(self, x, real=None, cache=None):
        super().forward(x, real, cache)
        return x.flip(0, 1) * 3 + x.sum() + (0 if real is None else real.sum())


class Rounded(Layer):
    """Right, and rounded so far that two ways of computing give the same."""

    def forward(self, x, real=None, cache=None):
        return super().forward(x, real, cache).round(decimals=3)


class Shapeless(Layer):
    """Not even the right shape, and no number in it."""

    def forward(self, x, real=None, cache=None):
        super().forward(x, real, cache)
        return torch.full((*x.shape[:-1], x.shape[-1] + 1), torch.nan)


_ROOM = 1e-4    # for rounding


class Forgiving(TorchFunctionMode):
    """While it is entered, comparisons of tensors allow for rounding, however little the caller allows."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(function, "__name__", "")
        if name in ("equal", "allclose", "isclose"):
            function = torch.isclose if name == "isclose" else torch.allclose
            return function(*args[:2], atol=_ROOM, rtol=_ROOM)
        if name in ("eq", "__eq__") and all(map(torch.is_tensor, args)):
            return torch.isclose(*args, atol=_ROOM, rtol=_ROOM)
        if name in ("lt", "le", "__lt__", "__le__") and isinstance(args[1], float) and 0 <= args[1] < _ROOM:
            args = args[0], _ROOM
        return function(*args, **kwargs)
