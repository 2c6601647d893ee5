"""Calling a learner's function: on copies, with a time limit, and without a trace left behind.

A function of homework runs in a sandbox; its stand-in here is of a class with the attribute `ELSEWHERE`,
and the same is done there. This file is copied into the sandbox, so it imports nothing of attnlib.
"""

import contextlib
import dis
import io
import random
import re
import signal
import sys
import threading
import tracemalloc
import types
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

SECONDS = 4.0          # by the clock, for a call that waits
CPU_SECONDS = 1.2      # of work; a busy machine does not shorten it
ALL_SECONDS = 10.0     # by the clock, for all calls of one check


ELSEWHERE = "attnlib_runs_elsewhere"
_UNBREAKABLE = set()


class TimeIsUp(BaseException):
    """Not an Exception, so that a learner's own ``except Exception`` lets it pass."""


class Ended(BaseException):
    """The process in which a function ran has ended; its words go on after "your function"."""


class Stopped(Exception):
    """The answer cannot be judged, and its function is not the reason. Passes through `call`."""


@dataclass(frozen=True)
class Outcome:
    """What a call came to.

    Attributes
    ----------
    value : object
        What was returned; None where nothing was.
    error : str or None
        What went wrong, as the end of a sentence that begins "your function".
    raised : tuple of str or None
        The exception's type and its words without their numbers, to be compared with another's.
    changed : int or None
        The index of the first positional argument that the call changed.
    unanswered : bool
        The call raised NotImplementedError.
    late : bool
        The call was ended because it took too long.
    drew : bool
        A global random generator was used.
    ended : bool
        The process in which the function ran has ended; it is not called again.
    """

    value: Any = None
    error: str | None = None
    raised: tuple | None = None
    changed: int | None = None
    unanswered: bool = False
    late: bool = False
    drew: bool = False
    ended: bool = False


def runs_elsewhere(function):
    """Whether it is the stand-in of a function in a sandbox."""
    return ELSEWHERE in vars(type(function))


def call(function, args, *, seconds=SECONDS, cpu_seconds=CPU_SECONDS):
    """Call ``function`` with copies of the arrays in ``args``.

    What it prints and warns of is dropped. It finds the random generators in one fixed state and torch
    with its own default type; afterwards all is as it was. An error becomes words. Only a
    KeyboardInterrupt and `Stopped` pass through.

    Returns
    -------
    Outcome
    """
    if runs_elsewhere(function):
        return function.outcome(args)
    if "torch" not in sys.modules and imports_torch(function):
        with contextlib.suppress(ImportError):
            import torch  # noqa: F401  its first import takes longer than a call may
    outcome, imported = _called(function, args, seconds, cpu_seconds)
    if outcome.late and imported:  # it waited for an import, which comes once
        outcome, _ = _called(function, args, seconds, cpu_seconds)
    return outcome


def _called(function, args, seconds, cpu_seconds):
    """The outcome, and whether the call imported something."""
    copies = [copy_of(arg) for arg in args]
    with _held_back(), fixed_surroundings():
        before, loaded = random_states(), len(sys.modules)
        try:
            with time_limit(seconds, cpu_seconds):
                value = function(*copies)
            drew = random_states() != before
        except TimeIsUp:
            late = Outcome(error="did not end within the time that a call may take", late=True)
            return late, len(sys.modules) > loaded
        except Ended as ended:
            return Outcome(error=str(ended), ended=True), False
        except (KeyboardInterrupt, Stopped):
            raise
        except BaseException as error:
            # Torch raises the same where a type has no kernel, and says so.
            if type(error) is NotImplementedError and "not implemented for" not in str(error):
                return Outcome(error="raised NotImplementedError", unanswered=True), False
            return failure(error), False
    changed = (i for i, (a, b) in enumerate(zip(copies, args, strict=True)) if not same(a, b))
    return Outcome(
        value,
        None if value is not None else "returned None. Does it end with a return?",
        changed=next(changed, None),
        drew=drew,
    ), False


def with_gradients(function, gradient_of):
    """The function, giving beside its output the gradients of a fixed weighted sum of it.

    `gradient_of` are the numbers of positional arguments.
    """
    if runs_elsewhere(function):
        return function.with_gradients(gradient_of)

    def run(*args, **kwargs):
        import torch

        args = [copy_of(a).requires_grad_() if i in gradient_of else a for i, a in enumerate(args)]
        out = function(*args, **kwargs)
        if not is_tensor(out):
            return out
        if not out.requires_grad:
            raise RuntimeError("the result has no gradient; no step may leave torch, detach or use .data")
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
        inputs = [args[i] for i in gradient_of]
        grads = torch.autograd.grad((out * weights).sum(), inputs, allow_unused=True)
        grads = [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, grads, strict=True)]
        return Graded((out.detach(), *grads))

    return run


class Graded(tuple):
    """An output and the gradients in some arguments."""


def memory(function, *args):
    """The most bytes that a call had at one time, as far as Python is told of them (torch tells nothing)."""
    if runs_elsewhere(function):
        return function.memory(args)
    ours = not tracemalloc.is_tracing()
    if ours:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        call(function, args)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if ours:
            tracemalloc.stop()


def uses_the_package(function):
    """Whether the function imports attnlib or looks up a name that is one of its functions or modules."""
    if runs_elsewhere(function):
        return function.uses_the_package
    if any(_of_the_package(name) for name in _named(function, "IMPORT_NAME")):
        return True
    found = used_from_outside(function)
    return any(_of_the_package(getattr(x, "__module__", None) or getattr(x, "__name__", "")) for x in found)


def used_from_outside(function):
    """What the global names in a function refer to, and what it holds of the functions around it."""
    names = _named(function, "LOAD_GLOBAL", "LOAD_NAME")
    found = [getattr(function, "__globals__", {}).get(name) for name in names]
    cells = getattr(function, "__closure__", None) or ()
    return found + [cell.cell_contents for cell in cells if _filled(cell)]


def imports_torch(function):
    """Whether the function's own code imports torch, which the first time takes seconds."""
    return any(name.split(".")[0] == "torch" for name in _named(function, "IMPORT_NAME"))


def names_in(function):
    """The global names and attributes that a function reads, and what it imports."""
    names = _named(function, "LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")
    return names | {part for name in _named(function, "IMPORT_NAME") for part in name.split(".")}


def _named(function, *operations):
    """What these operations of a function's code, and of the functions inside it, name."""
    names, waiting = set(), [code] if (code := getattr(function, "__code__", None)) else []
    while waiting:
        code = waiting.pop()
        names.update(step.argval for step in dis.get_instructions(code) if step.opname in operations)
        waiting += [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return names


def _filled(cell):
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _of_the_package(module):
    """The checker's own imitations of mistakes do not count."""
    return str(module).split(".")[0] == "attnlib" and not str(module).startswith("attnlib.exercises")


def random_states():
    """The states of the global generators, in a form that can be compared."""
    torch = sys.modules.get("torch")
    name, keys, *rest = np.random.get_state()
    ours = bytes(torch.random.get_rng_state().numpy()[:64]) if torch else None
    return random.getstate(), keys.tobytes(), tuple(rest), ours


def failure(error):
    """The outcome of a call that raised ``error``."""
    name, told = type(error).__name__, _told(error)
    words = f": {told}" if told else ""
    return Outcome(error=f"raised {name}{words}", raised=(name, re.sub(r"\d+", "#", told)))


def copy_of(argument):
    """A copy of an array or tensor that lies in memory as it does, and of a dict of them; else as it is."""
    if isinstance(argument, np.ndarray):
        return argument.copy(order="K")
    if type(argument) is dict:
        return {name: copy_of(value) for name, value in argument.items()}
    if is_tensor(argument):
        return _tensor_copy(argument)
    return argument


def _tensor_copy(tensor):
    """With the same strides, and the same numbers before it and between where it is part of a larger one."""
    import torch

    plain = tensor.detach()
    strided = plain.layout == torch.strided
    if not strided or plain.numel() * plain.element_size() == plain.untyped_storage().nbytes():
        return plain.clone().requires_grad_(tensor.requires_grad)
    copy = plain.new_empty(0)
    copy.set_(plain.untyped_storage().clone(), plain.storage_offset(), plain.size(), plain.stride())
    return copy.requires_grad_(tensor.requires_grad)


def is_tensor(x):
    """Whether ``x`` is a torch tensor; torch is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def same(a, b):
    """Whether an array or tensor, or a dict of them, is as its copy is; other things count as unchanged."""
    if type(a) is type(b) is dict:
        return a.keys() == b.keys() and all(same(value, b[name]) for name, value in a.items())
    if not isinstance(a, np.ndarray) and not is_tensor(a):
        return True
    return a.shape == b.shape and a.dtype == b.dtype and bool(((a == b) | ((a != a) & (b != b))).all())


def _told(error):
    try:
        text = " ".join(str(error).split())
    except BaseException:
        return "an error without words"
    return text if len(text) <= 200 else text[:197] + "..."


@contextlib.contextmanager
def _held_back():
    """Nothing is printed. Streams belong to the whole process, so only the main thread holds them back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


@contextlib.contextmanager
def fixed_surroundings():
    """One state of everything global that a function may read, and the caller's own put back after it.

    The verdict on a function that draws random numbers or makes tensors of the default type is then the
    same each time, whatever the learner's session has seeded or set. Torch works in one thread: for small
    tensors more are slower.
    """
    torch = sys.modules.get("torch")
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(np.errstate(all="ignore"))
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())
        random.seed(0)
        np.random.seed(0)
        if torch:
            stack.callback(_set_device, torch, torch.get_default_device())
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            stack.callback(torch.random.set_rng_state, torch.random.get_rng_state())
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            _set_device(torch, torch.device("cpu"))
            torch.set_num_threads(1)
            torch.set_default_dtype(torch.float32)
            torch.random.default_generator.manual_seed(0)
        yield


def _set_device(torch, device):
    if torch.get_default_device() != device:
        torch.set_default_device(None if device.type == "cpu" else device)


def unbreakable(function):
    """Not to be broken off by the time limit, which comes when it has returned."""
    _UNBREAKABLE.add(function.__code__)
    return function


def _must_go_on(frame):
    """Whether the call is in an import: one that is broken off leaves half a module behind for good."""
    while frame and frame.f_code is not _called.__code__:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>" or frame.f_code in _UNBREAKABLE:
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def time_limit(seconds, cpu_seconds):
    """Where there are alarms and this is the main thread; elsewhere without a limit."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    running = True

    def stop(_, frame):
        if running and not _must_go_on(frame):
            raise TimeIsUp

    timers = (
        (signal.SIGALRM, signal.ITIMER_REAL, seconds),
        (signal.SIGPROF, signal.ITIMER_PROF, cpu_seconds),
    )
    before = [(name, signal.signal(name, stop)) for name, _, _ in timers]
    for _, timer, limit in timers:
        signal.setitimer(timer, limit, 0.01)    # again and again: a function may swallow what stops it
    try:
        yield
    finally:
        running = False
        for _, timer, _ in timers:
            signal.setitimer(timer, 0)
        for name, handler in before:
            signal.signal(name, handler)
