"""A judge of tests for attention layers: who slips through, who is accused wrongly, and why.

A learner's test is a function of one argument, the class of a layer. It raises or returns False where the
layer is faulty, and returns True or nothing where it is right.
"""

import time
from dataclasses import dataclass, field

from attnlib.exercises.answers import capital, short
from attnlib.exercises.calls import (
    ALL_SECONDS,
    call,
    fixed_surroundings,
    names_in,
    used_from_outside,
    uses_the_package,
)
from attnlib.exercises.learner_test import as_bool
from attnlib.exercises.verdict import right, unanswered, wrong

_HEALTHY = "the healthy layer"
_ANCESTORS = {"__mro__", "mro", "__base__", "__bases__"}     # the way from a suspect to the healthy layer

# What an innocent is told to have done, with the mistake of a test that accuses it.
_RIGHT = {
    "D": ("scaled_first",
        "To divide the query divides every product, and to take the largest score off changes no softmax. "
        "Its numbers differ by rounding alone: allow for that, about 1e-6 of their size."),
    "J": ("one_above",
        "The complement of a triangle that begins one above the diagonal is the triangle with the diagonal. "
        "Do you look at the code, or at what it computes?"),
    "M": ("renormalised",
        "What is hidden after the exponential and before the division has no weight, and no place in the "
        "denominator. The 1e-9 there is below rounding."),
    "T": ("halves",
        "Which two features form a pair is free, as long as queries and keys agree. If you compute an output "
        "yourself, build the layer with `rotary=False`."),
}  # fmt: skip


@dataclass(frozen=True)
class LineUp:
    """A judge of tests; ``judge(test)`` gives a `Verdict`.

    A test is given the suspects under one name and with one code, so that it can tell them apart only by what
    they compute. Each is asked twice, the second time in the opposite order.

    Attributes
    ----------
    wanted : str
        The letters of the guilty that the test has to catch.
    praise : str
    spared : int
        How many of them may slip through.
    left : dict
        Guilty letters that the test must let pass, each with what is said to one that catches it.
    calls : int or None
        How often the test may call a layer.
    """

    wanted: str
    praise: str
    spared: int = 0
    left: dict = field(default_factory=dict)
    calls: int | None = None

    def __call__(self, test):
        if not callable(test):
            return wrong(f"Give a function, without calling it; got {short(test)}.")
        if uses_the_package(test):
            return wrong("Your function calls the package. Write it yourself.", "package")
        if names_in(test) & _ANCESTORS or any(map(_is_a_layer, _one_by_one(used_from_outside(test)))):
            return wrong(
                "Your test compares with a layer of this lesson that is known to be right. Outside there is "
                "none. Use a property, or compute an output from the layer's matrices.", "known_to_be_right")
        with fixed_surroundings():
            return self._judge(test)

    def _judge(self, test):
        from attnlib.exercises.suspects import CASES, Layer
        from attnlib.exercises.watching import blind

        innocent = {_HEALTHY: Layer} | {case.letter: case.suspect for case in CASES if not case.guilty}
        asked_for = [*self.wanted, *self.left]
        guilty = {case.letter: case for case in CASES if case.letter in asked_for}
        suspects = innocent | {letter: case.suspect for letter, case in guilty.items()}
        said, begun = {}, time.monotonic()
        for name in [*suspects, *reversed(suspects)]:
            caught, complaint = _asked(test, blind(suspects[name]), name, guilty=name in guilty)
            if complaint is None and time.monotonic() - begun > ALL_SECONDS:
                complaint = wrong(
                    f"All tries of your test together take longer than {ALL_SECONDS:.0f} seconds. A few "
                    "short texts, and a few calls of the layer, are enough.", "too_slow")
            if complaint:
                return complaint
            if bool(said.setdefault(name, caught)) != bool(caught):
                return wrong(
                    f"Your test said one thing of {_who(name)} the first time, and another the second time. "
                    "Is something of one call left for the next?", "state")
            if caught and name in innocent:
                return _by_looks(test, suspects, said) or _accused(test, name, caught)
        for letter, told in self.left.items():
            if said[letter]:
                caught = f"Your test catches {letter} too, and should let it pass. {told}"
                return wrong(caught, f"also_{letter}")
        missed = [guilty[letter] for letter in self.wanted if not said[letter]]
        if len(missed) <= self.spared:
            letters = ", ".join(case.letter for case in missed)
            praise = self.praise + (f" {letters} slipped through." if missed else "")
            return self._too_many_calls(test) or right(praise)
        if by_looks := _by_looks(test, suspects, said):
            return by_looks
        mistake, told = _why(test, missed[0])
        count = f"{len(self.wanted) - len(missed)} of {len(self.wanted)} guilty caught, no innocent accused. "
        return wrong(f"{count}{missed[0].letter} slips through: {told}", mistake, slip=len(missed) == 1)

    def _too_many_calls(self, test):
        """The verdict on a test that catches enough, with more calls of the healthy layer than it may use."""
        if self.calls is None:
            return None
        from attnlib.exercises.suspects import Layer
        from attnlib.exercises.watching import watched

        seen = []
        _asked(test, watched(Layer, seen), _HEALTHY)
        if len(seen) <= self.calls:
            return None
        return wrong(
            f"Your test catches enough, and calls a layer {len(seen)} times; {self.calls} are allowed. What "
            "must not matter can be changed all at once: how the text is cut into calls, what stands at "
            "padding, what comes later. One comparison tells of all.", "too_many_calls", slip=True)


def _is_a_layer(thing):
    """By names, for classes may have been loaded anew."""
    ours = "attnlib.exercises.suspects", "Layer"
    return any((base.__module__, base.__name__) == ours for base in getattr(thing, "__mro__", ()))


def _one_by_one(things):
    """The things, and what is in those that are lists and the like."""
    for thing in things:
        if isinstance(thing, dict):
            yield from thing.values()
        if isinstance(thing, (dict, list, tuple, set, frozenset)):
            yield from thing
        yield thing


def _who(name):
    return name if name == _HEALTHY else f"suspect {name}"


def _asked(test, suspect, name, *, guilty=False):
    """What the test caught, as words or False, and None; or None and the verdict that complains."""
    outcome = call(test, (suspect,))
    if outcome.unanswered and not guilty:
        return None, unanswered("Replace the line that raises NotImplementedError and run the cell again.")
    if outcome.late or outcome.ended:
        mistake = "too_slow" if outcome.late else "ended"
        return None, wrong(f"On {_who(name)} your function {outcome.error.rstrip('.')}.", mistake)
    if outcome.unanswered:      # it has passed others before: this is how it says no
        return "NotImplementedError", None
    if outcome.raised:
        kind, words = outcome.raised
        if guilty or kind == "AssertionError":
            return words or "assert", None
        return None, wrong(f"On {_who(name)} your function {outcome.error.rstrip('.')}.", "raises")
    if outcome.value is None:
        return False, None
    passes = as_bool(outcome.value)
    if passes is None:
        return None, wrong(
            f"Return True or False, or nothing and assert; on {_who(name)} it was {short(outcome.value)}.")
    return False if passes else "False", None


def _passes(test, suspect):
    """Whether a test returns True, or nothing, for a layer. It may do to the class what it likes."""
    copy = type(suspect.__name__, (suspect,), {})
    return _asked(test, copy, "", guilty=True) == (False, None)


def _by_looks(test, suspects, said):
    """The verdict on a test that says something else of a suspect when it can see its name and code."""
    for name, suspect in suspects.items():
        if name in said and _passes(test, suspect) == bool(said[name]):
            return wrong(
                f"Your test goes by the name or the code of a suspect: of {_who(name)} it says another thing "
                "when these are hidden. Give the layer words, and look at its outputs.", "looks")
    return None


def _accused(test, name, caught):
    """The verdict on a test that accuses an innocent."""
    if name != _HEALTHY:
        mistake, told = _RIGHT[name]
        return wrong(f"Suspect {name} is innocent, and your test accuses it. {told}", mistake)
    from attnlib.exercises.suspects import Layer
    from attnlib.exercises.watching import Forgiving, Noise, Rounded

    if _passes(test, Noise):
        return wrong(
            "Your test is the wrong way round: it accuses the healthy layer, and passes one that answers "
            "with random numbers. True, or nothing, stands for a layer that is right.", "inverted")
    with Forgiving():
        close = _passes(test, Layer) or _passes(test, Rounded)
    if close or _passes(test, Rounded):
        return wrong(
            "Your test accuses the healthy layer: it demands equal numbers where two ways of computing agree "
            "only up to rounding. Allow for that, about 1e-6 of their size.", "exact_comparison")
    words = "" if caught in ("assert", "False") else f" It says: {capital(caught)}."
    return wrong(
        f"Your test accuses the healthy layer.{words} Read the contract again: what does a layer promise, "
        "and what does it leave open?", "accuses_the_healthy")


def _why(test, case):
    """The mistake of a test that lets a guilty one pass, and words for it."""
    from attnlib.exercises.watching import NEEDS, Noise, Nonsense, Shapeless, watched

    seen = []
    _asked(test, watched(case.suspect, seen), case.letter, guilty=True)
    if not seen:
        return "never_called", ("you never ask a layer anything. Build one from the class that you get, and "
                                "call it: `layer(x)`.")
    random_passes, shapeless = _passes(test, Noise), call(test, (Shapeless,))
    failed = shapeless.raised and shapeless.raised[0] != "AssertionError"
    if random_passes and (failed or _passes(test, Shapeless)):
        return "asserts_nothing", (
            "your test passes whatever the layer answers. Is a `return` or an `assert` missing, or does it "
            "swallow its own error?")
    for need in case.needs:
        met, told = NEEDS[need]
        if not any(met(call) for call in seen):
            return f"no_{need}", told[0].lower() + told[1:]
    off = max(call.off for call in seen)
    if off < 1e-4:
        return "hidden", f"your inputs do not show its fault. It {case.hint}"
    if random_passes:
        return "shape_alone", (
            "your test also passes a layer that answers with random numbers. It looks at the shape, or at "
            "whether the numbers are finite, and not at what they are.")
    if _passes(test, Nonsense) and any(call.twice for call in seen):
        return "with_itself", (
            "your test compares the layer with itself: one that always gives the same nonsense passes too. "
            "Two calls must differ in something that should not matter.")
    shown = f"your inputs show it, an output is wrong by {off:.2g}, "
    if not _passes(test, watched(case.suspect, [], louder=1000)):
        return "wide_tolerance", (
            f"{shown}and your tolerance lets that pass. Rounding is about 1e-6 of the size of the numbers.")
    return "elsewhere", f"{shown}but not where you look. It {case.hint}"
