"""Calling a learner's function: on copies, with a time limit, and without a trace left behind."""

import contextlib
import io
import random
import signal
import sys
import threading
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

SECONDS = 5.0


class _TimeIsUp(BaseException):
    """Not an Exception, so that a learner's own ``except Exception`` lets it pass."""


@dataclass(frozen=True)
class Outcome:
    """What a call came to.

    Attributes
    ----------
    value : object
        What was returned; None where nothing was.
    error : str or None
        What went wrong, as the end of a sentence that begins "your function".
    changed : int or None
        The index of the first positional argument that the call changed.
    unanswered : bool
        The call raised NotImplementedError.
    """

    value: Any = None
    error: str | None = None
    changed: int | None = None
    unanswered: bool = False


def call(function, args, kwargs=None, *, seconds=SECONDS):
    """Call ``function`` with copies of the arrays in ``args``.

    What it prints and warns of is dropped, the global random states are put back, and an error becomes
    words. Only a KeyboardInterrupt passes through.

    Returns
    -------
    Outcome
    """
    copies = [copy_of(arg) for arg in args]
    with _unchanged_random_state(), contextlib.redirect_stdout(io.StringIO()):
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"), _time_limit(seconds):
                warnings.simplefilter("ignore")
                value = function(*copies, **{name: copy_of(x) for name, x in (kwargs or {}).items()})
        except NotImplementedError:
            return Outcome(error="raised NotImplementedError", unanswered=True)
        except _TimeIsUp:
            return Outcome(error=f"did not end within {seconds:g} seconds")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return Outcome(error=f"raised {type(error).__name__}: {_told(error)}")
    changed = (i for i, (a, b) in enumerate(zip(copies, args, strict=True)) if not _equal(a, b))
    return Outcome(value, None if value is not None else "returned None. Does it end with a return?",
                   next(changed, None))


def copy_of(argument):
    """A copy of an array or tensor, with the same order of its axes in memory; other things as they are."""
    if isinstance(argument, np.ndarray):
        return argument.copy(order="K")
    if is_tensor(argument):
        return argument.detach().clone().requires_grad_(argument.requires_grad)
    return argument


def is_tensor(x):
    """Whether ``x`` is a torch tensor; torch is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _equal(a, b):
    if not isinstance(a, np.ndarray) and not is_tensor(a):
        return True
    return a.shape == b.shape and a.dtype == b.dtype and bool(((a == b) | ((a != a) & (b != b))).all())


def _told(error):
    try:
        text = " ".join(str(error).split())
    except Exception:
        return "an error without words"
    return text if len(text) <= 200 else text[:197] + "..."


@contextlib.contextmanager
def _unchanged_random_state():
    torch = sys.modules.get("torch")
    before = random.getstate(), np.random.get_state(), torch and torch.random.get_rng_state()
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        if torch:
            torch.random.set_rng_state(before[2])


@contextlib.contextmanager
def _time_limit(seconds):
    """Where there is an alarm and this is the main thread; elsewhere without a limit."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_):
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
