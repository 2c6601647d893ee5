"""Exercises in which a function is written: judged on cases, and the mistake named by imitation.

A wrong function is recognised by building the wrong function that does the same. Ways of computing are
points in a space of choices (scale, axis, polarity of a mask, ...). `compute` takes each choice as a
keyword whose default is right; a `Mistake` sets one or more of them otherwise. The mistake, or the pair
of mistakes, whose outputs a submission reproduces on every case is the one that it makes.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from attnlib.exercises.answers import short, uses_the_package
from attnlib.exercises.calls import call, copy_of, is_tensor
from attnlib.exercises.verdict import right, unanswered, wrong


@dataclass(frozen=True)
class Case:
    """One call, made for a purpose.

    Attributes
    ----------
    name : str
        What is special about it; read after the word "On".
    args : tuple
    kwargs : dict
    gradient_of : tuple of int
        Positional arguments, floating torch tensors, in which the gradient is compared too.
    hint : str
        What to look at when this case is the first that fails and no known mistake fits.
    """

    name: str
    args: tuple
    kwargs: dict = field(default_factory=dict)
    gradient_of: tuple = ()
    hint: str = ""


@dataclass(frozen=True)
class Mistake:
    """A wrong way of computing.

    Attributes
    ----------
    name : str
        Its id, reported as the verdict's ``misconception``.
    hint : str
        What was computed, why that is wrong, and what to look at, without the code.
    choices : dict
        Keywords of the exercise's ``compute`` that make it compute this way.
    convention : bool
        Right under another convention than the exercise's.
    """

    name: str
    hint: str
    choices: dict
    convention: bool = False


@dataclass(frozen=True)
class FunctionExercise:
    """A judge of functions; ``judge(function)`` gives a `Verdict`.

    Attributes
    ----------
    compute : callable
        ``compute(*args, **kwargs)`` is the reference; with a mistake's choices it is that mistake.
    cases : callable
        Makes the list of cases, plain ones first: the first that fails is shown.
    mistakes : tuple of Mistake
    praise : str
        What the learner reads when all is right: what was checked, and what it means.
    properties : tuple of callable
        ``property(case, value, expected)`` gives a sentence when ``value`` lacks it, else None. The
        first sentence is said when no mistake fits.
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
    package: bool = False
    rtol: float = 1e-4
    atol: float = 1e-6

    def __call__(self, function):
        if not callable(function):
            return wrong(f"Give a function, without calling it; got {short(function)}.")
        if not self.package and uses_the_package(function):
            return wrong("Your function calls the package. Write the steps yourself.", "package")
        cases = self.cases()
        outcomes = [self._run(function, cases[0])]
        if outcomes[0].unanswered:
            return unanswered("Replace the line that raises NotImplementedError and run the cell again.")
        outcomes += [self._run(function, case) for case in cases[1:]]
        expected = [self._run(self.compute, case).value for case in cases]
        for case, outcome, ours in zip(cases, outcomes, expected, strict=True):
            if outcome.changed is not None:
                return wrong(
                    f"On {case.name} your function changed its argument number {outcome.changed + 1}. "
                    "Work on a copy.", "changes_input", case.args)
            if outcome.error or not self._same(outcome.value, ours):
                return self._diagnose(cases, outcomes, case, outcome, ours)
        again = self._run(function, cases[0])
        if again.error or not self._same(again.value, expected[0]):
            return wrong(
                f"On {cases[0].name} your function was right the first time and not the second: something "
                "of one call is left for the next. Keep all it needs inside.", "state", cases[0].args)
        return right(self.praise)

    def _run(self, function, case, **choices):
        if case.gradient_of:
            function = _with_gradients(function, case)
        return call(function, case.args, case.kwargs | choices)

    def _same(self, value, ours):
        return _complaint(value, ours, self.rtol, self.atol) is None

    def _diagnose(self, cases, outcomes, case, outcome, ours):
        # The case that failed comes first: most mistakes give something else there, and are done with.
        told_apart = sorted(zip(cases, outcomes, strict=True), key=lambda pair: pair[0] is not case)
        found = self._recognise(told_apart)
        if found:
            hints = found[0].hint
            if len(found) > 1 or found[0].convention:
                sentences = " ".join(mistake.hint[0].upper() + mistake.hint[1:] for mistake in found)
                first = "Two things at once." if len(found) > 1 else "Right under another convention."
                hints = f"{first} {sentences}"
            return wrong(f"On {case.name}: {hints}", " and ".join(m.name for m in found), case.args)
        if outcome.error:
            told = f"On {case.name} your function {outcome.error}. {case.hint}"
            return wrong(told.replace("?.", "?").rstrip(), None, case.args)
        problem = _complaint(outcome.value, ours, self.rtol, self.atol)
        if _shapes(outcome.value) == _shapes(ours):
            for has in self.properties:
                lacking = has(case, outcome.value, ours)
                if lacking:
                    problem = f"{lacking} {problem[0].upper()}{problem[1:]}"
                    break
        return wrong(f"On {case.name}: {problem} {case.hint}".rstrip(), None, case.args)

    def _recognise(self, told_apart):
        """The mistake, or the pair, that gives the submission's outcome on every case."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for found in [*combinations(self.mistakes, 1), *combinations(self.mistakes, 2)]:
                choices = {name: value for mistake in found for name, value in mistake.choices.items()}
                apart = len(choices) == sum(len(mistake.choices) for mistake in found)
                if apart and all(self._imitates(choices, *told) for told in told_apart):
                    return found
        return ()

    def _imitates(self, choices, case, outcome):
        """Whether `compute` with these choices does the same; called often, so without `call`'s guards."""
        function = _with_gradients(self.compute, case) if case.gradient_of else self.compute
        try:
            value = function(*map(copy_of, case.args), **case.kwargs | choices)
        except Exception:
            return bool(outcome.error)
        if outcome.error or _shapes(outcome.value) != _shapes(value):
            return False
        return self._same(outcome.value, value)


def _with_gradients(function, case):
    """The function, giving beside its output the gradients of a fixed weighted sum of it."""

    def run(*args, **kwargs):
        import torch

        args = [copy_of(a).requires_grad_() if i in case.gradient_of else a for i, a in enumerate(args)]
        out = function(*args, **kwargs)
        if not is_tensor(out):
            return out
        if not out.requires_grad:
            raise RuntimeError("the result has no gradient; no step may leave torch, detach or use .data")
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
        inputs = [args[i] for i in case.gradient_of]
        grads = torch.autograd.grad((out * weights).sum(), inputs, allow_unused=True)
        grads = [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, grads, strict=True)]
        return (out.detach(), *grads)

    return run


def _complaint(value, ours, rtol, atol):
    """None where ``value`` is right, else what is wrong with it, from its type to its entries."""
    if isinstance(ours, tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(ours):
            return f"the function must return {len(ours)} results, joined by commas; yours is {_kind(value)}."
        for index, (a, b) in enumerate(zip(value, ours, strict=True)):
            problem = _complaint(a, b, rtol, atol)
            if problem:
                return f"result {index + 1} of {len(ours)}: {problem}"
        return None
    value = np.asarray(value) if isinstance(value, (bool, int, float)) and not is_tensor(ours) else value
    array = is_tensor(value) if is_tensor(ours) else isinstance(value, np.ndarray | np.generic)
    if not array:
        return f"the result must be {_kind(ours)}; yours is {_kind(value)}."
    if value.is_complex() if is_tensor(value) else value.dtype.kind not in "biuf":
        return f"the result must hold real numbers; yours has dtype {value.dtype}."
    if value.shape != ours.shape:  # before any number is copied: there may be many
        return f"the result must have shape {tuple(ours.shape)}; yours has {tuple(value.shape)}."
    got, wanted = _floats(value), _floats(ours)
    if got is None:
        return f"the result must hold real numbers; yours has dtype {value.dtype}."
    boolean = "bool" in str(ours.dtype)
    if boolean != ("bool" in str(value.dtype)):
        return f"the result must be {'boolean' if boolean else 'of numbers'}; yours has dtype {value.dtype}."
    if "float16" in f"{value.dtype} {ours.dtype}":
        rtol, atol = max(rtol, 1e-2), max(atol, 2e-3)
    wrong_at = ~np.isclose(got, wanted, rtol=rtol, atol=atol, equal_nan=True)
    if not wrong_at.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong_at)[0])
    place = f"index {', '.join(map(str, at))} of the result" if at else "the result"
    shown = (lambda x: str(bool(x))) if boolean else (lambda x: f"{x:.6g}")
    return f"{place} should be {shown(wanted[at])}; yours is {shown(got[at])}."


def _floats(x):
    try:
        if is_tensor(x):
            x = x.detach().to("cpu")
            x = (x.double() if x.is_floating_point() else x).numpy()
        array = np.asarray(x)
        return array.astype(float) if array.dtype.kind in "biuf" else None
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def _kind(x):
    if is_tensor(x):
        return "a torch tensor"
    if isinstance(x, np.ndarray):
        return "a NumPy array"
    if isinstance(x, (tuple, list)):
        return f"a {type(x).__name__} of {len(x)}"
    if isinstance(x, np.number):
        return "a number"
    return f"of type {type(x).__name__}"


def _shapes(x):
    if isinstance(x, (tuple, list)):
        return [_shapes(part) for part in x]
    return tuple(getattr(x, "shape", ()))
