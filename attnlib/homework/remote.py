"""The grader's side of a student's session: the cells run in the sandbox, and here are stand-ins for answers.

A judge is given a `RemoteFunction` in place of the student's own and cannot tell the difference. What does
not answer in time, ends its process or says what cannot be read is ended with its sandbox; the session then
starts again and goes on without the cell or function that did it.
"""

import ast
import builtins
import contextlib
import os
import re
import select
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attnlib.exercises import calls
from attnlib.exercises.answers import capital
from attnlib.homework import wire
from attnlib.homework.cell_code import Unparsed, is_a_program, read_code

_TICK = 0.25                # seconds between looks at the memory of a sandbox that is waited for
_RESULTS = 48 * 2**20       # bytes that all results of one function may have
_ROWS, _NUMBERS = 2000, 2**17       # the longest axis and most numbers of what a student's test gives a model
_MATPLOTLIB = re.compile(r"\b(?:matplotlib|pyplot|plt|pylab|plots)\b")
_LATE = "did not end within the time that a call may take"


@dataclass(frozen=True)
class Limits:
    """What a student's code may take.

    Attributes
    ----------
    cell, call, total : float
        Seconds by the clock for a cell, for a call beyond its own limit, and for all that one student's code
        does.
    starts : int
        How often a session is started again after something has ended it.
    memory : int
        Bytes, of all processes of the sandbox together.
    """

    cell: float = 30.0
    call: float = calls.SECONDS
    total: float = 120.0
    starts: int = 8
    memory: int = 6 * 2**30


@dataclass(frozen=True)
class Trouble:
    """A cell or function that failed or was not run.

    Attributes
    ----------
    label : str
        As the cell was labelled; a function's name where a call ended the process.
    kind : str
        "error", "late", "died", "memory", "garbage" or "not run".
    told : str
        A sentence for the student.
    """

    label: str
    kind: str
    told: str


@dataclass(frozen=True)
class Missing:
    """There is no answer of this name, and why.

    Attributes
    ----------
    reason : str
    fault : bool
        Whether it is the student's: False where the session could not go on, so that nothing is known.
    """

    reason: str
    fault: bool = True


class _Ended(calls.Stopped):
    """The sandbox was ended, and why."""

    WORDS = {
        "late": "did not end within the time that it may take",
        "died": "ended the process that it ran in",
        "broken": "left its process in a state in which it cannot be asked",
        "memory": "took more memory than there is for it",
        "garbage": "wrote to files that are not its own, and its process cannot be understood any more",
    }

    def __init__(self, kind):
        super().__init__(self.WORDS[kind])
        self.kind = kind


class Session:
    """One student's cells, run, and their answers. A context manager.

    Parameters
    ----------
    sandbox : Sandbox
        It has been entered.
    cells : list of (label, source)
        In the order in which they are to be run.
    seconds : Limits
    keeps : dict of str to list of str
        By a cell's label the names whose values count as they are when it has run.

    Attributes
    ----------
    troubles : list of Trouble
        Cells and functions that failed or were not run.
    output : str
        What the cells printed, cut.
    cpu_seconds : float
        What the sandbox took, as far as it has been closed.
    """

    def __init__(self, sandbox, cells, seconds=None, keeps=None):
        self.sandbox, self.cells, self.limits = sandbox, list(cells), seconds or Limits()
        self._keeps = keeps or {}
        self._told, self._printed, self.cpu_seconds = {}, {}, 0.0
        self._running, self._ran, self._dropped = None, set(), {}
        self._starts, self._spent, self._only_needed, self._over = 0, 0.0, False, None
        self._looked, self._torch = 0.0, False
        self._longer, self._why_needed = False, "other cells ended the process"
        self._threads, self._beside = False, 0
        self._ever, self._number, self._complaint = set(), 0, ""
        self._fonts = any(_MATPLOTLIB.search(source) for _, source in self.cells)
        self.objects = wire.Objects()

    def __enter__(self):
        try:
            self._run_all()
            self._spent = min(self._spent, self.limits.total / 2)       # half of it is for the answers
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """End the sandbox with all that runs in it."""
        if self._running:
            _, seconds, self._beside = taken_by(self._running.process.pid)
            self.cpu_seconds += seconds
            self._running.end()
            self._running = None

    @property
    def troubles(self):
        told = dict(self._told)
        for index, (label, _) in enumerate(self.cells):
            if index not in self._ever and index not in told:
                why = self._over or f"No answer needs it, and {self._why_needed}."
                told[index] = Trouble(label, "not run", f"{capital(label)} was not run. {why}")
        return [told[key] for key in sorted(told, key=lambda key: (type(key) is str, key))]

    @property
    def output(self):
        text = "".join(self._printed[i] for i in sorted(self._printed))
        return text if len(text) <= 20_000 else text[:20_000] + "\n..."

    # ------------------------------------------------------------------------------ cells

    def _run_all(self):
        died = []
        while not self._over:
            try:
                self._start()
                for index in range(len(self.cells)):
                    if index not in self._dropped:
                        self._run(index)
                return
            except _Ended as ended:
                if self._over or self._longer:
                    return
                index = next(i for i in range(len(self.cells)) if i not in self._ran | self._dropped.keys())
                self._drop(index, ended)
                if ended.kind != "late":
                    died.append(index)
                if len(died) > 1:
                    # Perhaps another cell's doing: from now on only what an answer needs is run.
                    for i in died:
                        del self._dropped[i], self._told[i]
                    self._only_needed = True
                    return

    def _start(self):
        self.close()
        if self._starts >= self.limits.starts:
            self._over = f"The notebook ended its process {self._starts} times, and it was not started again."
            raise _Ended("died")
        self._starts += 1
        self._ran, self._torch, self._number = set(), False, 0
        self.objects = wire.Objects()
        self._running = self.sandbox.start(self.limits.total, self._fonts)
        spent, self._spent = self._spent, 0.0       # until it has started the time is not the student's
        try:
            self._ask({"op": "forget", "results": True}, 60)
            self._spent = spent
        except _Ended as ended:
            self._over = f"The sandbox did not start: {self._complaint or ended}"
            raise

    def _run(self, index):
        label, source = self.cells[index]
        message = {"op": "run", "label": label, "source": source, "seconds": self.limits.cell,
                   "keep": list(self._keeps.get(label, ()))}  # fmt: skip
        answer = self._ask(message, self.limits.cell + 2)
        self._ran.add(index)
        self._ever.add(index)
        self._printed[index] = _word(answer.get("output"), wire.TEXT)
        self._told.pop(index, None)
        error = answer.get("error")
        if answer.get("late") is True:
            told = f"did not end within {self.limits.cell:g} seconds and was stopped."
            self._tell(index, "late", f"{capital(label)} {told}")
        elif error is not None or "failed" in answer:
            name, words, line = error if type(error) is list and len(error) == 3 else ("an error", "", None)
            where = f" in line {line}" if type(line) is int else ""
            words = f": {_word(words, 300)}" if words else ""
            self._tell(index, "error", f"{capital(label)} raised {_word(name, 60)}{where}{words}")

    def _drop(self, index, ended):
        self._dropped[index] = ended.kind
        label, _ = self.cells[index]
        told = f"{ended}. It was left out, and the other cells were run without it."
        self._tell(index, ended.kind, f"{capital(label)} {told}")

    def _tell(self, key, kind, told):
        label = self.cells[key][0] if type(key) is int else key
        self._told[key] = Trouble(label, kind, told)

    def _run_needed(self, name):
        """Run the cells that define a name, and what those use, as far as they have not been run."""
        sources = ["" if i in self._dropped else source for i, (_, source) in enumerate(self.cells)]
        for index in needed(sources, name):
            if index in self._ran or index in self._dropped:
                continue
            longer = self._longer
            try:
                self._run(index)
            except _Ended as ended:
                if not self._over and self._longer == longer:
                    self._drop(index, ended)
                raise

    def ready(self, name, *, alone=False):
        """Start the session again if it has ended; with ``alone``, with those cells that ``name`` needs."""
        self._only_needed |= alone
        while not self._over:
            try:
                if alone or not self._running:
                    self._start()
                    if not self._only_needed:
                        for index in range(len(self.cells)):
                            if index not in self._dropped:
                                self._run(index)
                if self._only_needed:
                    self._run_needed(name)
                return
            except _Ended as ended:
                left = [i for i in range(len(self.cells)) if i not in self._ran | self._dropped.keys()]
                if not self._over and not self._only_needed and left:
                    self._drop(left[0], ended)

    # ------------------------------------------------------------------------------ answers

    def answer(self, name, forbids=()):
        """What the student's notebook has under this name.

        Parameters
        ----------
        name : str
        forbids : sequence of str
            What raises while a function of this name is called, of what the sandbox can forbid.

        Returns
        -------
        RemoteFunction, Missing, `figures.FigureData`, or a copy of the value
        """
        for again in (False, True):
            try:
                told = self.describe(name, alone=again)
                break
            except _Ended as ended:
                if again:
                    return Missing(f"Looking at {name} {ended}.")
            except calls.Stopped as stopped:
                return Missing(str(stopped), fault=False)
        if told.get("found") is not True:
            return Missing(self._why_missing(name))
        if told.get("callable") is True:
            return RemoteFunction(self, name, told, forbids)
        if "value" not in told:
            return Missing(f"{name} cannot be read.")
        value, numbers = told["value"], told.get("numbers")
        if isinstance(value, wire.Foreign) and type(numbers) is np.ndarray and numbers.dtype.kind in "biufc":
            return wire.with_numbers(value, numbers)
        return value

    def describe(self, name, *, alone=False):
        """What the worker says of a name; every judgement of a function begins with it."""
        self.ready(name, alone=alone)
        self._no_longer()
        self.objects.forget()
        self.objects.taken = 0
        told = self._ask({"op": "describe", "name": name}, 5 * self.limits.call, hollow=False)
        if told.get("torch") is True:
            self.prepare_torch()
        return told if "failed" not in told else {"found": True}

    def _why_missing(self, name):
        """With the trouble of the cell that should have defined it."""
        for index, (_, source) in enumerate(self.cells):
            if index in self._told and name in _names(source)[0]:
                return f"{name} is not defined. {self._told[index].told}"
        return f"{name} is not defined when all cells have been run."

    def _no_longer(self):
        if self._over:
            raise calls.Stopped(self._over)

    def begin(self):
        """A row of calls begins. Earlier arguments go; what calls gave is watched on, until it is much."""
        self._no_longer()
        if crowded := self.objects.crowded:
            self.objects.forget()
        self.objects.forget_mine()
        self._ask({"op": "forget", "results": crowded}, self.limits.call)

    @property
    def disturbed(self):
        """Whether threads or processes of the student's run beside what is asked, and may slow it down."""
        if self._running:
            self._beside = taken_by(self._running.process.pid)[2]
        return self._threads or self._beside > 2        # bubblewrap's own and the worker

    def failed(self, name, ended):
        """Tell that a call of a function ended its process."""
        self._tell(name, ended.kind, f"A call of {name} {ended}.")

    # ------------------------------------------------------------------------------ the wire

    @calls.unbreakable
    def _ask(self, message, seconds, *, same=False, hollow=True):
        """The worker's answer to a message; what it asks meanwhile is answered."""
        if not self._running:
            raise _Ended("died")
        begun = time.monotonic()
        if begun > self._looked + 1:
            self._look()
        deadline = begun + min(seconds, max(self.limits.total - self._spent, 0.01))
        try:
            self._number += 1
            message |= {"number": self._number}
            data = wire.encode(message, self.objects, same=same, storage=True, secret=True)
            while True:
                self._send(data, deadline)
                answer = wire.decode(self._receive(deadline), self.objects, hollow=hollow)
                if type(answer) is not dict:
                    raise wire.WireError("no answer")
                if "callback" not in answer:
                    if answer.get("number") != self._number:
                        raise wire.WireError("an answer to another question")
                    self._threads = answer.get("threads") != 1
                    return answer
                data = wire.encode(self._called_back(answer), self.objects, secret=True)
        except wire.WireError:
            self.close()
            raise _Ended("garbage") from None
        except BaseException:
            if self._running and self._number == 1:
                self._complaint = self._running.complaint()
            self.close()
            raise
        finally:
            self._spent += time.monotonic() - begun
            if self._spent >= self.limits.total and not self._over:
                self.close()
                if self._longer or message["op"] != "run":
                    total = f"{self.limits.total:g} seconds"
                    self._over = f"The notebook took longer than the {total} it may take."
                else:                           # once more, with those cells only that an answer needs
                    self._longer, self._only_needed, self._spent = True, True, 0.0
                    self._why_needed = f"all together took longer than {self.limits.total:g} seconds"

    def _send(self, data, deadline):
        rest = memoryview(struct.pack(">Q", len(data)) + data)
        while rest:
            self._wait(self._running.writing, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._running.writing, rest[: 1 << 16]) :]
            except BlockingIOError:
                continue
            except OSError:
                raise _Ended("died") from None

    def _receive(self, deadline):
        (size,) = struct.unpack(">Q", self._exactly(8, deadline))
        if size > wire.LARGEST_FRAME:
            raise wire.WireError("a frame of impossible length")
        return self._exactly(size, deadline)

    def _exactly(self, size, deadline):
        data = bytearray()
        while len(data) < size:
            self._wait(self._running.reading, select.POLLIN, deadline)
            part = os.read(self._running.reading, min(size - len(data), 1 << 20))
            if not part:
                raise _Ended("died")
            data += part
        return data

    def _wait(self, descriptor, event, deadline):
        poll = select.poll()
        poll.register(descriptor, event)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _Ended("late")
            if poll.poll(1000 * min(left, _TICK)):
                return
            self._look()

    def _look(self):
        """Processes that it has started take memory too, each by itself less than the limit."""
        self._looked = time.monotonic()
        if taken_by(self._running.process.pid)[0] > self.limits.memory:
            self.close()
            raise _Ended("memory")

    def prepare_torch(self):
        """Its import takes longer than a call may."""
        if not self._torch:
            self._ask({"op": "torch"}, 120)
            self._torch = True

    def _called_back(self, message):
        """The worker's code calls a function of ours."""
        args, named = message.get("args"), message.get("named")
        if type(args) is not tuple or type(named) is not dict or not all(type(k) is str for k in named):
            raise wire.WireError("no arguments")
        function = self.objects.mine(message["callback"])
        if not callable(function):
            raise wire.WireError("no function")
        try:
            _small_enough([args, named])
            before = [calls.copy_of(a) for a in args]
            value = function(*args, **named)
        except calls.Stopped:
            raise
        except Exception as error:
            kind = next(k for k in type(error).__mro__ if k.__module__ == "builtins").__name__
            return {"raised": [kind, str(error)[:500]], "value": None, "changed": []}
        changed = [[i, a] for i, (a, b) in enumerate(zip(args, before, strict=True)) if not calls.same(a, b)]
        return {"raised": None, "value": value, "changed": changed}


class RemoteFunction:
    """A function in the sandbox, for judges: `attnlib.exercises.calls` asks it in place of calling it.

    Parameters
    ----------
    session : Session
    name : str
    told : dict
        What the worker says of it.
    forbids : sequence of str
        What it may not call.
    """

    attnlib_runs_elsewhere = True

    def __init__(self, session, name, told, forbids=()):
        self._session, self._name, self._forbids = session, name, list(forbids)
        self._dead = None
        self.uses_the_package = told.get("package") is True
        self.__name__ = name
        signature = wire.signature_from(told.get("sign"))
        if signature is not None:
            self.__signature__ = signature

    def __repr__(self):
        return f"<function {self._name} in the sandbox>"

    def outcome(self, args):
        """What a guarded call comes to: an `attnlib.exercises.calls.Outcome`."""
        return self._tried(lambda: self._outcome(args))

    def with_gradients(self, gradient_of):
        """As `calls.with_gradients`; the gradients are computed in the sandbox."""
        return _WithGradients(self, gradient_of)

    def driven(self, drive):
        """The function of several calls that `drive` makes, here, with this one in the sandbox."""
        return _Driven(self, drive)

    def memory(self, args):
        """As `calls.memory`."""
        bytes_taken = []

        def ask():
            answer = self._call(args, {"memory": True})
            found = answer.get("memory")
            bytes_taken.append(found if type(found) is int else 0)
            return calls.Outcome()

        self._tried(ask)
        return bytes_taken[-1] if bytes_taken else 0

    def __call__(self, *args, **named):
        """One call of several: with what earlier ones gave, and the exception raised here."""
        if self._dead:
            raise calls.Ended(self._dead.error)
        answer = self._call(args, {"guarded": False, "named": named}, same=True)
        if answer.get("drew") is True:
            np.random.random()      # as it would have been seen to draw here
        if answer.get("late") is True:
            raise calls.TimeIsUp
        if answer.get("raised") is not None:
            raise _exception(answer)
        return answer.get("value")

    def _tried(self, ask):
        """A call that ends the process is tried once more in a new one, with the cells that it needs."""
        again = False
        while not self._dead:
            try:
                if again or not self._session._running:
                    self._session.describe(self._name, alone=again)
                outcome = ask()
                if not outcome.late or not self._session.disturbed:
                    return outcome
                if again:
                    self._session.close()       # what it has left running is no other answer's affair
                    self._dead = outcome
            except _Ended as ended:
                self._session._no_longer()
                if not self._dead and (again or (ended.kind == "late" and not self._session.disturbed)):
                    self._session.failed(self._name, ended)
                    late = ended.kind == "late"
                    error = _LATE if late else f"{ended}."
                    self._dead = calls.Outcome(error=error, late=late, ended=not late)
            again = True
        return self._dead

    def _outcome(self, args, gradient_of=()):
        if self._session.objects.crowded and any(map(callable, args)):
            self._session.begin()       # what earlier calls were handed by such an argument
        with calls.fixed_surroundings() if any(map(callable, args)) else contextlib.nullcontext():
            answer = self._call(args, {"gradient_of": list(gradient_of)})
        values = {name: answer.get(name) for name in calls.Outcome.__dataclass_fields__}
        for name in ("unanswered", "late", "drew"):
            values[name] = values[name] is True
        changed, raised, error = values["changed"], values["raised"], values["error"]
        values["changed"] = changed if type(changed) is int and 0 <= changed < len(args) else None
        told = type(raised) in (tuple, list) and len(raised) == 2 and all(type(x) is str for x in raised)
        values["raised"] = tuple(raised) if told else None
        values["error"] = _word(error, 500) if type(error) is str else None
        values["ended"] = False
        if values["late"] and not values["error"]:
            values["error"] = _LATE
        if values["error"] is None and values["value"] is None:
            values["error"] = "returned None. Does it end with a return?"
        parts = values["value"]
        if answer.get("graded") is True and isinstance(parts, tuple) and len(parts) == 1 + len(gradient_of):
            values["value"] = calls.Graded(parts)
        return calls.Outcome(**values)

    def _call(self, args, options, same=False):
        session = self._session
        session._no_longer()
        if any(map(calls.is_tensor, args)):
            session.prepare_torch()
        message = {"op": "call", "name": self._name, "args": tuple(args), "named": {}, "guarded": True,
                   "gradient_of": [], "memory": False, "forbids": self._forbids}  # fmt: skip
        answer = session._ask(message | options, self._allowed(), same=same)
        if "failed" in answer:
            session.close()
            raise _Ended("broken")
        if session.objects.taken > _RESULTS:
            session.close()
            self._dead = calls.Outcome(error="gave back more numbers than can be looked at.", ended=True)
            raise _Ended("memory")
        for update in answer.get("updates") or ():
            self._update(*update)
        return answer

    def _allowed(self):
        return 2 * self._session.limits.call + 1       # twice: its first import is waited for

    def _update(self, whose, number, value):
        """An earlier result, or an argument, was changed by this call."""
        with contextlib.suppress(wire.WireError):
            objects = self._session.objects
            old = objects.mine(number) if whose == "theirs" else objects.known(number)
            wire.put(old, value)


class _WithGradients:
    """A remote function that gives gradients beside its output."""

    attnlib_runs_elsewhere = True

    def __init__(self, function, gradient_of):
        self._function, self._gradient_of = function, gradient_of

    def outcome(self, args):
        return self._function._tried(lambda: self._function._outcome(args, self._gradient_of))


class _Driven:
    """Several calls of a remote function, joined here."""

    attnlib_runs_elsewhere = True

    def __init__(self, function, drive):
        self._function, self._drive = function, drive

    def __call__(self, *args):
        return self._drive(self._function, *args)

    def outcome(self, args):
        function = self._function

        def ask():
            function._session.begin()
            return calls.call(lambda *args: self._drive(function, *args), args)

        return function._tried(ask)


def _exception(answer):
    """The exception that a call raised: of a built-in class with the name and the words of the original."""
    raised, words = answer.get("raised"), _word(answer.get("error"), 500)
    name, base = raised if type(raised) in (tuple, list) and len(raised) == 2 else ("Exception", "Exception")
    kind = getattr(builtins, base, None) if type(base) is str else None
    if not (isinstance(kind, type) and issubclass(kind, (Exception, SystemExit))):
        kind = Exception
    if kind is NotImplementedError and name == base:
        return NotImplementedError(words)
    name = name if type(name) is str and name.isidentifier() else "Exception"
    made = type(name[:60], (kind,), {"__str__": lambda self: words, "__init__": lambda self: None})
    return made.__new__(made)


def _small_enough(value):
    """Raise where a model of ours would take much memory over it."""
    if isinstance(value, (list, tuple, dict)):
        if len(value) > _ROWS:
            raise ValueError(f"here a model takes at most {_ROWS} rows; got {len(value)}")
        for part in value.values() if isinstance(value, dict) else value:
            _small_enough(part)
    shape = tuple(getattr(value, "shape", ()))
    if shape and (max(shape) > _ROWS or np.prod([float(n) for n in shape]) > _NUMBERS):
        raise ValueError(f"here a model takes at most {_ROWS} rows and {_NUMBERS} numbers; got {shape}")


def needed(sources, name):
    """Which cells define a name, and what those use, and so on; and cells that may define anything."""
    found = [_names(source) for source in sources]
    makers = {}
    for i, (defined, _, _) in enumerate(found):
        for each, imported in defined.items():
            if not imported or each not in makers:      # what is imported once is there
                makers.setdefault(each, set()).add(i)
    wanted, waiting = set(), {name}
    chosen = {i for i, (_, _, star) in enumerate(found) if star}
    while waiting:
        wanted |= waiting
        new = set().union(*(makers.get(each, ()) for each in waiting)) - chosen
        chosen |= new
        waiting = set().union(*(found[i][1] for i in new)) - wanted
    return sorted(chosen)


def _names(source):
    """What a cell defines at its top and whether by import, what it uses, and whether it may define more."""
    if is_a_program(source):
        return {}, set(), True
    try:
        code = read_code(source)
    except Unparsed:
        return {}, set(), False
    used, given, star = set(), set(), False
    for node in (node for statement in code.statements for node in ast.walk(statement)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.add(node.id)
        elif isinstance(node, ast.Global):
            given |= set(node.names)
        elif isinstance(node, ast.ImportFrom):
            star |= any(alias.name == "*" for alias in node.names)
    imports = (ast.Import, ast.ImportFrom)
    defined = {
        name: all(isinstance(code.statements[place], imports) for place in places)
        for name, places in code.defines.items()
    }
    return defined | dict.fromkeys(given, False), used, star


def taken_by(pid):
    """Of all that a process has started: bytes in memory, CPU seconds, and how many; 0 where unknown."""
    if not sys.platform.startswith("linux"):
        return 0, 0.0, 0
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                told = int(name), int(fields[21]), sum(map(int, fields[11:15]))
                children.setdefault(int(fields[1]), []).append(told)
    pages, ticks, count, waiting = 0, 0, 0, [pid]
    while waiting:
        for child, size, worked in children.pop(waiting.pop(), ()):
            pages += size
            ticks += worked
            count += 1
            waiting.append(child)
    return pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK"), count


def _word(text, length):
    return text[:length] if type(text) is str else ""
