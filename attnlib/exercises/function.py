"""Exercises in which a function is written: judged on cases, and the mistake named by imitation.

A wrong function is recognised by building the wrong function that does the same. Ways of computing are
points in a space of choices (scale, axis, polarity of a mask, ...). `compute` takes each choice as a
keyword whose default is right; a `Mistake` sets one or more of them otherwise. The mistake, or the pair
of mistakes, whose outputs a submission reproduces on every case is the one that it makes.
"""

import contextlib
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from attnlib.exercises.answers import capital, short
from attnlib.exercises.calls import (
    ALL_SECONDS,
    Graded,
    Outcome,
    call,
    copy_of,
    failure,
    fixed_surroundings,
    runs_elsewhere,
    uses_the_package,
    with_gradients,
)
from attnlib.exercises.compare import PARTS, alike, complaint, entries, floats, shapes
from attnlib.exercises.verdict import right, unanswered, wrong

COUNTED = {2: "Two", 3: "Three", 4: "Four"}
STATE = (
    "Something of one call is left for the next: a global, a default argument that is changed, a stored "
    "result. Keep all that it needs inside."
)


@dataclass(frozen=True)
class Case:
    """One call, made for a purpose.

    Attributes
    ----------
    name : str
        What is special about it; read after the word "On".
    args : tuple
    gradient_of : tuple of int
        Positional arguments, floating torch tensors, in which the gradient is compared too.
    hint : str
        What to look at when this case is the first that fails and no known mistake fits.
    """

    name: str
    args: tuple
    gradient_of: tuple = ()
    hint: str = ""


@dataclass(frozen=True)
class Mistake:
    """A wrong way of computing.

    Attributes
    ----------
    name : str
        Its id, reported as the verdict's ``misconception``. Several ways may share one.
    hint : str
        What was computed, why that is wrong, and what to look at, without the code.
    choices : dict
        Keywords of the exercise's ``compute`` that make it compute this way.
    convention : bool
        Right under another convention than the exercise's.
    rare : bool
        Tried together with another only where one of the two explains the first failing case alone, and
        that case tells mistakes apart: a hundred make five thousand pairs, which take longer than a verdict
        may.
    things : int
        How many things are done otherwise, with a sentence of the hint for each.
    """

    name: str
    hint: str
    choices: dict
    convention: bool = False
    rare: bool = False
    things: int = 1


def rare_but(names, mistakes):
    """The mistakes, all of them rare but those with these names."""
    return tuple(m if m.name in names else replace(m, rare=True) for m in mistakes)


@dataclass(frozen=True)
class FunctionExercise:
    """A judge of functions; ``judge(function)`` gives a `Verdict`.

    Attributes
    ----------
    compute : callable
        ``compute(*args)`` is the reference; with a mistake's choices as keywords it is that mistake.
    cases : callable
        Makes the list of cases, plain ones first: the first that fails is shown.
    mistakes : tuple of Mistake
    praise : str
        What the learner reads when all is right: what was checked, and what it means.
    properties : tuple of callable
        ``property(case, value, expected)`` gives a sentence when ``value`` lacks it, else None. The
        first sentence is said when no mistake fits.
    styles : tuple of dict
        Choices that are no mistake by themselves (a large negative number or minus infinity under a
        mask, say), but with which a mistake comes out differently on some case.
    drive : callable or None
        ``drive(function, *args)`` gives the result where one case calls the learner's function
        several times.
    same_dtype : bool
        The result must have the type of the first argument; float16 may also come back as float32.
    package : bool
        Whether the function may call attnlib.
    rtol, atol : float
        For results in float32 or float64; half precision gets what it needs.
    """

    compute: Callable
    cases: Callable
    mistakes: tuple
    praise: str
    properties: tuple = ()
    styles: tuple = ({},)
    drive: Callable | None = None
    same_dtype: bool = False
    package: bool = False
    rtol: float = 1e-4
    atol: float = 1e-6

    def __call__(self, function):
        if not callable(function):
            return wrong(f"Give a function, without calling it; got {short(function)}.")
        if not self.package and uses_the_package(function):
            return wrong("Your function calls the package. Write the steps yourself.", "package")
        with fixed_surroundings():
            return self._judge(function)

    def _judge(self, function):
        cases = self.cases()
        misfit = self.drive is None and _misfit(function, self.compute, cases[0])
        if misfit:
            return wrong(misfit, "signature", cases[0].args)
        expected = [self._run(self.compute, case, guarded=False).value for case in cases]
        returned, outcomes = [], []
        begun = time.monotonic()
        for case, ours in zip(cases, expected, strict=True):
            outcome = self._run(function, case)
            if time.monotonic() - begun > ALL_SECONDS:
                outcome = replace(outcome, late=True, error="did not end within the time that all calls may "
                                  "take together")  # fmt: skip
            if outcome.unanswered and not returned:
                return unanswered("Replace the line that raises NotImplementedError and run the cell again.")
            if outcome.late:
                return wrong(
                    f"On {case.name} your function {outcome.error}. Does a loop of it never end, or does it "
                    "wait for something?", "too_slow", case.args)
            if outcome.ended:
                return wrong(f"On {case.name} your function {outcome.error}", "ended", case.args)
            if entries(outcome.value) > 10**6 + 100 * entries(ours):
                return wrong(f"On {case.name}, {self._problem(case, outcome, ours)}", None, case.args)
            returned.append(outcome)
            outcomes.append(replace(outcome, value=_kept(outcome.value)))  # a later call may change it
        for case, outcome in zip(cases, outcomes, strict=True):
            if outcome.changed is not None:
                return wrong(
                    f"On {case.name} your function changed its argument number {outcome.changed + 1}. "
                    "Work on a copy.", "changes_input", case.args)
        problems = [self._problem(*told) for told in zip(cases, outcomes, expected, strict=True)]
        first = next((i for i, problem in enumerate(problems) if problem), None)
        if first is not None:
            return self._diagnose(function, cases, outcomes, expected, problems, first)
        return self._state(function, cases, returned, expected) or right(self.praise)

    def _run(self, function, case, *, guarded=True, **choices):
        """The outcome of one case. Our own functions change no input and need no guards."""
        if guarded and self.drive:
            function = _driven(self.drive, function)
        if case.gradient_of:
            function = with_gradients(function, case.gradient_of)
        if guarded:
            return call(function, case.args)
        try:
            return Outcome(function(*case.args, **choices))
        except Exception as error:
            return failure(error)

    def _tolerance(self, case):
        """rtol and atol: wider where half precision goes in, whatever type comes out."""
        half = any(map(_half, case.args))
        return (max(self.rtol, 1e-2), max(self.atol, 2e-3)) if half else (self.rtol, self.atol)

    def _problem(self, case, outcome, ours):
        """What is wrong with an outcome, as the end of a sentence that begins "On (the case)", or None."""
        if outcome.error:
            return f"your function {outcome.error.rstrip('.')}."
        value = outcome.value
        if isinstance(value, Graded):
            named = [p.name for p in inspect.signature(self.compute).parameters.values()]
            labels = ["the output", *(f"the gradient in {named[i]}" for i in case.gradient_of)]
            for label, part, wanted in zip(labels, value, ours, strict=True):
                problem = complaint(part, wanted, *self._tolerance(case))
                if problem:
                    return problem.replace("the result", label, 1)
            value = value[0]
        problem = complaint(value, ours[0] if case.gradient_of else ours, *self._tolerance(case))
        if not problem and _half(value) and not any(map(_half, (*case.args, ours))):
            return f"the result is in half precision, {value.dtype}, and nothing that went in was."
        if problem or not self.same_dtype:
            return problem
        given, got = str(case.args[0].dtype), str(value.dtype)
        if got == given or ("float16" in given and "float32" in got):
            return None
        return f"the result must have the dtype of its first argument, {given}; yours has {got}."

    def _state(self, function, cases, outcomes, expected):
        """A verdict where a second round, in reverse, differs or changes what the first one returned."""
        for case, ours in reversed([*zip(cases, expected, strict=True)]):
            problem = self._problem(case, self._run(function, case), ours)
            if problem:
                return wrong(
                    f"On {case.name} your function was right the first time and not the second: {problem} "
                    f"{STATE}", "state", case.args)
        for case, outcome, ours in zip(cases, outcomes, expected, strict=True):
            if self._problem(case, outcome, ours):
                return wrong(
                    f"On {case.name} your function's result was right, and a later call changed it. {STATE}",
                    "state", case.args)
        return self._by_identity(function, cases, expected)

    def _by_identity(self, function, cases, expected):
        """A verdict where an array, given again with other numbers in it, gives what it gave before."""
        pairs = combinations(range(len(cases)), 2)
        pair = next((p for p in pairs if _exchangeable(cases[p[0]], cases[p[1]])), ())
        held = [copy_of(argument) for i in pair[:1] for argument in cases[i].args]

        def in_the_same_arrays(*args, **named):
            if [*map(shapes, args)] != [*map(shapes, held)]:        # of a drive's own
                return function(*args, **named)
            for array, new in zip(held, args, strict=True):
                if getattr(array, "shape", ()):
                    array[...] = new
            return function(*held, **named)

        for i in pair:
            problem = self._problem(cases[i], self._run(in_the_same_arrays, cases[i]), expected[i])
            if problem:
                return wrong(
                    f"On {cases[i].name} your function was right, and not in an array that had held other "
                    f"numbers before: {problem} {STATE}", "state", cases[i].args)
        return None

    def _diagnose(self, function, cases, outcomes, expected, problems, first):
        case, outcome, ours, problem = cases[first], outcomes[first], expected[first], problems[first]
        told = f"On {case.name}, {problem.replace('?.', '?')}"
        found, everywhere = self._recognise(cases, outcomes, expected, problems, first)
        if not everywhere and self._wavers(function, cases, outcomes, first):
            return wrong(f"{told} With the same input again it gave something else. {STATE}", "state",
                         case.args)
        if found:
            hints = " ".join(mistake.hint for mistake in found)
            if len(found) > 1:
                count = sum(mistake.things for mistake in found)
                hints = f"{COUNTED.get(count, 'Several')} things at once. {hints}"
            elif found[0].convention:
                hints = f"Right under another convention. {hints}"
            if not everywhere:
                hints += " (Mend this first; it may not be all.)"
            alone = everywhere and len(found) == 1 and not found[0].convention
            return wrong(f"{told} {hints}", " and ".join(m.name for m in found), case.args, slip=alone)
        earlier = self._stored(cases, outcomes, expected, first)
        if earlier:
            return wrong(f"{told} It is what your function gave on {earlier.name}. {STATE}", "state",
                         case.args)
        if outcome.drew:
            return wrong(f"{told} Your function draws random numbers, and this exercise has none to draw.",
                         "random", case.args)
        if not outcome.error and shapes(outcome.value) == shapes(ours):
            lacking = self._lacking(case, outcome.value, ours)
            if lacking:
                problem = problem if lacking.endswith(":") else capital(problem)
                told = f"On {case.name}: {lacking} {problem}"
        # What a case asks to look at is of no use where something else than a result came back.
        a_result = isinstance(outcome.value, type(ours))
        a_result = a_result or (outcome.raised and outcome.raised[0] != "Forbidden")
        return wrong(f"{told} {case.hint if a_result else ''}".rstrip(), None, case.args)

    def _lacking(self, case, value, ours):
        """The first property's sentence; one that cannot read a value has nothing to say of it."""
        for has in self.properties:
            with contextlib.suppress(Exception):
                if lacking := has(case, value, ours):
                    return lacking
        return None

    def _wavers(self, function, cases, outcomes, first):
        """Whether a case that was right alone, or wrong, comes out differently a second time."""
        for index in {first, 0}:
            before, again = outcomes[index], self._run(function, cases[index])
            if bool(before.error) != bool(again.error):
                return True
            if not before.error and not self._same_again(before.value, again.value):
                return True
        return False

    def _stored(self, cases, outcomes, expected, first):
        """An earlier case, of other numbers in the same shapes, whose result was given again."""
        late = outcomes[first]
        for case, early, ours in zip(cases[:first], outcomes, expected, strict=False):
            if late.error or early.error or entries(late.value) < 2:
                continue
            arrays = [(a, b) for a, b in zip(case.args, cases[first].args, strict=False) if shapes(a)]
            again = alike(late.value, early.value) and not alike(expected[first], ours)
            if again and all(shapes(a) == shapes(b) and not alike(a, b) for a, b in arrays):
                return case
        return None

    def _same_again(self, before, again):
        try:
            if complaint(before, before):
                return True                      # of a kind that cannot be compared
            return shapes(before) == shapes(again) and complaint(again, before) is None
        except Exception:
            return True

    # ------------------------------------------------------------- diagnosis by simulation

    def _recognise(self, cases, outcomes, expected, problems, first):
        """The mistake or pair that gives the submission's outcomes, and whether on every case.

        Where none fits everywhere, the next best is the one that fits the first failing case, more than half
        of the failing ones, and two thirds of all.
        """
        failing = [i for i, problem in enumerate(problems) if problem]
        rest = [*(i for i in failing if i != first), *(i for i, p in enumerate(problems) if not p)]
        # Where every failure is an exception, the same type of exception is too little to go by.
        strict = all(outcomes[i].error for i in failing)

        def made(choices, i):
            return self._run(self.compute, cases[i], guarded=False, **choices)

        def fits(choices, i):
            return self._alike(cases[i], outcomes[i], made(choices, i), strict)

        def passes_alone(choices):
            """Whether the mistake alone shows on the first case, on which the submission is right."""
            return not self._alike(cases[0], outcomes[0], made(choices, 0), strict)

        nearest, most = (), len(failing) / 2
        alone, shows = {}, set()        # a mistake that fits `first`: where else it does not
        for index, mistake in enumerate(self.mistakes):
            for style in self.styles:
                choices = style | mistake.choices
                result = made(choices, first)
                differs = not self._alike(cases[first], Outcome(expected[first]), result, strict)
                if differs and not (first and passes_alone(choices)):
                    shows.add(index)
                told = differs or _dtypes(result.value) == _dtypes(outcomes[first].value)
                if not told or not self._alike(cases[first], outcomes[first], result, strict):
                    continue
                missed, count = [], len(failing)
                for i in rest:              # the failing ones first
                    if not fits(choices, i):
                        missed.append(i)
                        count -= i in failing
                        if count <= most or len(missed) > len(cases) / 3:
                            break
                else:
                    if not missed:
                        return (mistake,), True
                    nearest, most = (mistake,), count
                alone.setdefault(index, missed[0])
        for pair, telling in self._pairs(alone, shows, first, outcomes[first]):
            joined = pair[0].choices | pair[1].choices
            if any(
                all(fits(style | joined, i) for i in (telling, first, *rest)) for style in self.styles
            ):
                return pair, True
        return nearest, False

    def _pairs(self, alone, shows, first, outcome):
        """Pairs worth trying, each with the case on which it is tried first.

        Where a mistake explains the first failing case alone, the other must explain a case that it does
        not. Else both must show there; where the submission raises, two that do not are not looked for.
        """
        telling = not outcome.error and _tells(outcome.value)
        numbers = combinations(range(len(self.mistakes)), 2)
        for i, j in sorted(numbers, key=lambda ij: self.mistakes[ij[0]].rare or self.mistakes[ij[1]].rare):
            pair = self.mistakes[i], self.mistakes[j]
            rare = pair[0].rare or pair[1].rare
            if pair[0].choices.keys() & pair[1].choices.keys():
                continue
            if (i in alone or j in alone) and (telling or not rare):
                yield pair, alone.get(i, alone.get(j))
            elif not rare and not outcome.error and i in shows and j in shows:
                yield pair, first

    def _alike(self, case, outcome, made, strict):
        """Whether what our imitation came to is what the submission came to."""
        if made.error or outcome.error:
            return bool(made.raised and outcome.raised) and (
                made.raised == outcome.raised if strict else made.raised[0] == outcome.raised[0]
            )
        return alike(outcome.value, made.value, *self._tolerance(case))


def _tells(result):
    """Whether a result is of more than one number, all finite: zeros and NaN come of many mistakes."""
    found = floats(result[0] if isinstance(result, (tuple, list)) and result else result)
    return found is not None and found.size > 1 and np.isfinite(found).all() and np.ptp(found) > 0


def _half(x):
    return "float16" in str(getattr(x, "dtype", ""))


def _misfit(function, compute, case):
    """What to say where the function cannot be called with a case's arguments, else None."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*case.args)
    except TypeError as error:
        asked = inspect.signature(compute).parameters.values()
        asked = ", ".join(str(p) for p in asked if p.kind is p.POSITIONAL_OR_KEYWORD)
        return f"Your function must take the arguments ({asked}), and it takes {signature}: {error}."
    return None


def _exchangeable(one, other):
    """Whether two cases differ in the numbers of their arrays alone, and need no gradient."""
    return not (one.gradient_of or other.gradient_of) and len(one.args) == len(other.args) and all(
        a is b if type(a) is dict else
        shapes(a) == shapes(b) and getattr(a, "dtype", a) == getattr(b, "dtype", b)
        for a, b in zip(one.args, other.args, strict=True)
    )


def _driven(drive, function):
    if runs_elsewhere(function):
        return function.driven(drive)
    return lambda *args: drive(function, *args)


def _kept(result):
    """A copy of a result, or of each of several; what is no array stays as it is."""
    if type(result) in (tuple, list, Graded) and len(result) <= PARTS:
        return type(result)(part if isinstance(part, (tuple, list)) else _kept(part) for part in result)
    try:
        return copy_of(result)
    except Exception:
        return result


def _dtypes(result):
    """The type of a result's numbers, or of each of several."""
    if isinstance(result, (tuple, list)) and len(result) <= PARTS:
        return [str(getattr(part, "dtype", type(part))) for part in result]
    return str(getattr(result, "dtype", type(result)))
