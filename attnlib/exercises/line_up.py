"""A judge of tests for attention layers: who slips through, who is accused wrongly, and why.

A learner's test is a function of one argument, the class of a layer. It raises or returns False where the
layer is faulty, and returns True or nothing where it is right.
"""

from dataclasses import dataclass

from attnlib.exercises.answers import capital, short
from attnlib.exercises.calls import call, fixed_surroundings, used_from_outside, uses_the_package
from attnlib.exercises.learner_test import as_bool
from attnlib.exercises.verdict import right, unanswered, wrong

_HEALTHY = "the healthy layer"

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

    Attributes
    ----------
    wanted : str
        The letters of the guilty that the test has to catch.
    praise : str
    spared : int
        How many of them may slip through.
    """

    wanted: str
    praise: str
    spared: int = 0

    def __call__(self, test):
        if not callable(test):
            return wrong(f"Give a function, without calling it; got {short(test)}.")
        if uses_the_package(test):
            return wrong("Your function calls the package. Write it yourself.", "package")
        if any(map(_is_a_layer, used_from_outside(test))):
            return wrong(
                "Your test compares with a layer of this lesson that is known to be right. Outside there is "
                "none. Use a property, or compute an output from the layer's matrices.", "known_to_be_right")
        with fixed_surroundings():
            return self._judge(test)

    def _judge(self, test):
        from attnlib.exercises.suspects import CASES, Layer

        for name, innocent in [(_HEALTHY, Layer), *((c.letter, c.suspect) for c in CASES if not c.guilty)]:
            caught, complaint = _asked(test, innocent, name)
            if complaint or caught:
                return complaint or _accused(test, name, caught)
        guilty = [case for case in CASES if case.letter in self.wanted]
        missed = []
        for case in guilty:
            caught, complaint = _asked(test, case.suspect, case.letter, guilty=True)
            if complaint:
                return complaint
            if not caught:
                missed.append(case)
        caught, complaint = _asked(test, Layer, _HEALTHY)
        if complaint or caught:
            return complaint or wrong(
                "The first time your test passed the healthy layer, the second time it accused it. Is "
                "something of one call left for the next?", "state")
        if len(missed) <= self.spared:
            letters = ", ".join(case.letter for case in missed)
            return right(self.praise + (f" {letters} slipped through." if missed else ""))
        mistake, told = _why(test, missed[0])
        count = f"{len(guilty) - len(missed)} of {len(guilty)} guilty caught, no innocent accused. "
        return wrong(f"{count}{missed[0].letter} slips through: {told}", mistake, slip=len(missed) == 1)


def _is_a_layer(thing):
    """By names, for classes may have been loaded anew."""
    ours = "attnlib.exercises.suspects", "Layer"
    return any((base.__module__, base.__name__) == ours for base in getattr(thing, "__mro__", ()))


def _asked(test, suspect, name, *, guilty=False):
    """What the test caught, as words or False, and None; or None and the verdict that complains."""
    outcome = call(test, (suspect,))
    where = name if name == _HEALTHY else f"suspect {name}"
    if outcome.unanswered:
        return None, unanswered("Replace the line that raises NotImplementedError and run the cell again.")
    if outcome.late or outcome.ended:
        mistake = "too_slow" if outcome.late else "ended"
        return None, wrong(f"On {where} your function {outcome.error}.", mistake)
    if outcome.raised:
        kind, words = outcome.raised
        if guilty or kind == "AssertionError":
            return words or "assert", None
        return None, wrong(f"On {where} your function {outcome.error.rstrip('.')}.", "raises")
    if outcome.value is None:
        return False, None
    passes = as_bool(outcome.value)
    if passes is None:
        return None, wrong(
            f"Return True or False, or nothing and assert; on {where} it was {short(outcome.value)}.")
    return False if passes else "False", None


def _accused(test, name, caught):
    """The verdict on a test that accuses an innocent."""
    if name != _HEALTHY:
        mistake, told = _RIGHT[name]
        return wrong(f"Suspect {name} is innocent, and your test accuses it. {told}", mistake)
    from attnlib.exercises.watching import Rounded

    if not any(_asked(test, Rounded, name)):
        return wrong(
            "Your test accuses the healthy layer: it demands equal numbers where two ways of computing agree "
            "only up to rounding. Allow for that, about 1e-6 of their size.", "exact_comparison")
    words = "" if caught in ("assert", "False") else f" It says: {capital(caught)}."
    return wrong(
        f"Your test accuses the healthy layer.{words} Read the contract again: what does a layer promise, "
        "and what does it leave open?", "accuses_the_healthy")


def _why(test, case):
    """The mistake of a test that lets a guilty one pass, and words for it."""
    from attnlib.exercises.watching import NEEDS, Noise, Nonsense, watched

    seen = []
    _asked(test, watched(case.suspect, seen), case.letter, guilty=True)
    if not seen:
        return "never_called", "you never call the layer. Build one from the class that you get, and call it."
    for need in case.needs:
        met, told = NEEDS[need]
        if not any(met(call) for call in seen):
            return f"no_{need}", told[0].lower() + told[1:]
    off = max(call.off for call in seen)
    if off < 1e-4:
        return "hidden", f"your inputs do not show its fault. It {case.hint}"
    if not any(_asked(test, Noise, case.letter)):
        return "shape_alone", ("your test also passes a layer that answers with random numbers. It looks at "
                               "the shape, or at whether they are finite, and not at what they are.")
    if not any(_asked(test, Nonsense, case.letter)) and any(call.twice for call in seen):
        return "with_itself", ("your test compares the layer with itself: one that always gives the same "
                               "nonsense passes too. Two calls must differ in something that should not "
                               "matter.")
    if any(_asked(test, watched(case.suspect, [], louder=1000), case.letter, guilty=True)):
        return "wide_tolerance", (
            f"your inputs show it, an output is wrong by {off:.2g}, and your tolerance lets that pass. "
            f"Rounding "
            "is about 1e-6 of the size of the numbers.")
    return "elsewhere", (
        f"your inputs show it, an output is wrong by {off:.2g}, but not where you look. It {case.hint}")
