"""The program inside the sandbox: runs a student's cells and calls their functions when it is asked to.

The student's code shares this process, so nothing that it says is believed: it only computes. Whoever asks
is outside, and ends the whole sandbox where no answer comes. This file is copied into the sandbox.
"""

import ast
import builtins
import contextlib
import copy
import importlib.abc
import importlib.machinery
import io
import json
import linecache
import os
import re
import resource
import shutil
import signal
import struct
import sys
import threading
import types
import warnings

import numpy as np

from attnlib.exercises import calls
from attnlib.homework import wire
from attnlib.homework.figures import AxesData, FigureData, figure_data

OUTPUT = 20_000     # characters of what a cell prints

# What changes nothing here; and `reset`, with which all answers would go
_HARMLESS = re.compile(
    r"(?m)^([ \t]*)%(?:matplotlib|config|load_ext|autoreload|precision|reset|reset_selective)\b.*$"
)
_OF_IPYTHON = {"get_ipython", "display", "In", "Out", "_", "__", "___", "_i", "_ih", "_oh", "exit", "quit"}
# Where a function of PyTorch or SciPy may be had, by its name
_PLACES = ("torch", "torch.nn", "torch.nn.functional", "torch.nn.modules.activation", "torch._C._nn",
           "torch.special", "torch._C._special", "torch._C._VariableFunctions", "scipy.special",
           "torch.nn.attention", "torch.sparse", "torch._VF", "torch._refs", "torch._refs.nn.functional",
           "torch._refs.special", "torch._decomp", "torch._decomp.decompositions",
           "scipy.special._logsumexp")  # fmt: skip


def main(settings):
    """Serve until the other side closes its end."""
    settings = json.loads(settings)
    link = _Link(*settings["descriptors"])
    limit(settings)
    _quiet()
    if settings.get("fonts"):
        with contextlib.suppress(OSError):
            shutil.copytree(settings["fonts"], os.environ["MPLCONFIGDIR"], dirs_exist_ok=True)
    forbid(settings["forbidden"])
    _Server(link).serve()
    os._exit(0)


def limit(settings):
    """Give up what is not needed: memory, processes, and root's rights where there are any."""
    uid = settings.get("uid")
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    for name, value in settings["limits"].items():
        kind = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _quiet():
    """What is not written through Python's streams goes nowhere, and there is nothing to read."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  for as long as the process lives


class _Link:
    """Frames through two descriptors with high numbers, which nobody meets by chance."""

    def __init__(self, reading, writing):
        import fcntl

        self._in = fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, 200)
        self._out = fcntl.fcntl(writing, fcntl.F_DUPFD_CLOEXEC, 200)
        os.close(reading)
        os.close(writing)
        self._read, self._write, self._exit, self._process = os.read, os.write, os._exit, os.getpid
        self._owner = os.getpid()

    def receive(self):
        (size,) = struct.unpack(">Q", self._exactly(8))
        return self._exactly(size)

    def _exactly(self, size):
        data = bytearray()
        while len(data) < size:
            part = self._read(self._in, min(size - len(data), 1 << 20))
            if not part:
                self._exit(0)
            data += part
        return data

    def send(self, data):
        if self._process() != self._owner:      # a student's fork that has come back from their function
            self._exit(0)
        rest = memoryview(struct.pack(">Q", len(data)) + data)
        while rest:
            rest = rest[self._write(self._out, rest) :]


class _Bounded(io.TextIOBase):
    """Keeps the beginning of what is written."""

    def __init__(self):
        self.parts, self.room = [], OUTPUT

    def write(self, text):
        if self.room > 0 and type(text) is str:
            self.parts.append(text[: self.room])
            self.room -= len(text)
        return len(text)

    def writable(self):
        return True

    def text(self):
        return "".join(self.parts) + ("\n..." if self.room < 0 else "")


class _Server:
    def __init__(self, link):
        self.link, self.objects, self.lock = link, wire.Objects(), threading.RLock()
        self.shell = None
        self.module = types.ModuleType("__main__")
        self.module.__dict__["__builtins__"] = __builtins__
        self.functions, self.answers = {}, {}
        sys.modules["__main__"] = self.module
        self.kept = [(names, dict(names)) for names in (
            vars(builtins), sys.modules, vars(json), vars(json.encoder), vars(json.decoder), vars(os),
            vars(struct), vars(signal), vars(contextlib), vars(threading), vars(calls), vars(wire), globals(),
        )]  # fmt: skip

    @property
    def names(self):
        return self.module.__dict__

    def serve(self):
        while True:
            request = self.decode(self.link.receive())
            _in_force.clear()           # until the next request: an answer may compute when it is looked at
            _in_force.update(request.get("forbids", ()))
            number = {"number": request["number"]}
            try:
                answer, same = getattr(self, f"on_{request['op']}")(request)
                self.restore()
                data = self.encoded(answer | number, same)
            except BaseException as error:
                self.restore()
                data = wire.encode({"failed": f"{type(error).__name__}: {_text(error)}"} | number)
            self.link.send(data)

    def encoded(self, answer, same):
        """A value that resists being looked at stays here, and its type is told."""
        try:
            with calls.time_limit(2, 1):
                return wire.encode(answer, self.objects, same=same)
        except BaseException:
            if "value" not in answer:
                raise
            return wire.encode(answer | {"value": wire.stand_in(wire.type_name(answer["value"]))}, same=same)

    def restore(self):
        """What students' code has put in the place of Python's own, which this program needs."""
        for names, kept in self.kept:
            names.update(kept)
        sys.settrace(None)
        sys.setprofile(None)

    def decode(self, data):
        return wire.decode(data, self.objects, make=self.proxy, storage=True)

    # ------------------------------------------------------------------------------ cells

    def on_run(self, request):
        said = _Bounded()
        answer = {"error": None, "late": False}
        error = None
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                with calls.time_limit(request["seconds"], request["seconds"]):
                    error, line = self.run(request["source"], request["label"])
            except BaseException as stopped:
                error, line = stopped, None
        if isinstance(error, calls.TimeIsUp):
            answer["late"] = True
        elif error is not None:
            answer["error"] = [type(error).__name__, _text(error), line]
        else:
            self.keep(request["keep"])
        _close_figures()
        return answer | {"output": said.text(), "threads": threading.active_count()}, False

    def keep(self, names):
        """The values of these names as they are now: later cells may change them."""
        for name in names:
            if name in self.names and not callable(self.names[name]):
                self.answers[name] = self.names[name]
                with contextlib.suppress(BaseException), calls.time_limit(2, 2):
                    self.answers[name] = _kept(self.names[name])

    def run(self, source, label):
        """What was raised, and in which line."""
        source = _HARMLESS.sub(r"\1pass", source)
        name = f"<{label}>"
        code = None if self.shell else _compiled(source, name)
        if code is None:
            return self.run_in_ipython(source)
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
        try:
            try:
                exec(code, self.names)
            finally:
                self.restore()
        except BaseException as error:
            line, trace = None, error.__traceback__
            while trace:
                line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == name else line
                trace = trace.tb_next
            return error, line or getattr(error, "lineno", None)
        return None, None

    def run_in_ipython(self, source):
        if self.shell is None:
            self.shell = _ipython(self.module)
        importlib.invalidate_caches()       # a cell may write a module
        try:
            result = self.shell.run_cell(source, store_history=False)
        finally:
            self.restore()
        error = result.error_before_exec or result.error_in_exec
        if result.error_before_exec is not None:
            return error, getattr(error, "lineno", None)
        line, trace = None, getattr(error, "__traceback__", None)
        while trace:
            inside = trace.tb_frame.f_globals is self.names and trace.tb_frame.f_code.co_name == "<module>"
            line = trace.tb_lineno if inside else line
            trace = trace.tb_next
        return error, line

    # ------------------------------------------------------------------------------ answers

    def on_describe(self, request):
        self.objects.forget()
        name = request["name"]
        if name not in self.answers and name not in self.names:
            return {"found": False}, False
        value = self.answers[name] if name in self.answers else self.names[name]
        if callable(value):
            self.functions[name] = value
            return {
                "found": True, "callable": True, "sign": wire.signature_of(value),
                "package": calls.uses_the_package(value), "torch": calls.imports_torch(value),
                "threads": threading.active_count(),
            }, False  # fmt: skip
        with calls.time_limit(2, 2):
            answer = {"found": True, "callable": False, "value": _reduced(value)}
            with contextlib.suppress(Exception):
                if type(value) not in (list, tuple, dict) and not wire.is_tensor(value):
                    numbers = np.asarray(value)
                    if numbers.dtype.kind in "biufc":
                        answer["numbers"] = numbers
            return answer, False

    def on_forget(self, request):
        self.objects.forget_theirs()
        if request["results"]:
            self.objects.forget()
        return {"threads": threading.active_count()}, False

    def on_torch(self, request):
        import torch  # noqa: F401

        return {"threads": threading.active_count()}, False

    def on_call(self, request):
        function, args = self.functions[request["name"]], request["args"]
        self.objects.mark()
        if request["memory"]:
            return {"memory": calls.memory(function, *args)}, False
        if request["guarded"]:
            gradient_of = tuple(request["gradient_of"])
            called = calls.with_gradients(function, gradient_of) if gradient_of else function
            try:
                outcome = calls.call(called, args)
            except KeyboardInterrupt as error:          # nobody has pressed a key
                outcome = calls.failure(error)
        else:
            outcome = self.plainly(function, args, request["named"])
        answer = {name: getattr(outcome, name) for name in calls.Outcome.__dataclass_fields__}
        answer["graded"] = type(outcome.value) is calls.Graded
        answer["updates"] = [[whose, number, _copy(array)] for whose, number, array in self.objects.changed()]
        answer["threads"] = threading.active_count()
        return answer, True

    def plainly(self, function, args, named):
        """As one call of several in a row: with the arguments themselves, and an exception told."""
        with contextlib.redirect_stdout(_Bounded()), contextlib.redirect_stderr(_Bounded()):
            with warnings.catch_warnings(), calls.fixed_surroundings():
                before = calls.random_states()
                try:
                    with calls.time_limit(calls.SECONDS, calls.CPU_SECONDS):
                        value = function(*args, **named)
                except calls.TimeIsUp:
                    return calls.Outcome(late=True)
                except BaseException as error:
                    return calls.Outcome(error=_text(error), raised=(type(error).__name__, _base(error)))
                return calls.Outcome(value, drew=calls.random_states() != before)

    # ------------------------------------------------------------------- functions of the other side

    def proxy(self, number, node):
        """A function that asks the other side to call one of its own."""

        def model(*args, **named):
            return self.ask(number, args, named)

        signature = wire.signature_from(node.get("sign"))
        if signature is not None:
            model.__signature__ = signature
        return model

    def ask(self, number, args, named):
        answer = self.exchange({"callback": number, "args": args, "named": named})
        for index, value in answer["changed"]:
            wire.put(args[index], value)
        if answer["raised"] is not None:
            raise _exception(*answer["raised"])
        return answer["value"]

    @calls.unbreakable
    def exchange(self, message):
        with self.lock:
            self.link.send(wire.encode(message, self.objects))
            return self.decode(self.link.receive())


def _compiled(source, name):
    """The code of a cell that is plain Python; None where it needs IPython, or to be told by it."""
    try:
        tree = ast.parse(source, name)
        used = {node.id for node in ast.walk(tree)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return None if used & _OF_IPYTHON else compile(tree, name, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _ipython(module):
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.cache_size = 100
    return InteractiveShell.instance(config=config, user_module=module, user_ns=module.__dict__)


class _Drawn:
    """The data of a figure, as it was read here: such data that a student's code has made is no figure."""

    def __init__(self, data):
        self.data = data


def _reduced(value):
    """A figure, or a part of one, as its data; all else as it is."""
    if type(value) is _Drawn:
        return value.data
    if type(value) in (AxesData, FigureData):
        return wire.stand_in(wire.type_name(value))
    artists = sys.modules.get("matplotlib.artist")
    return figure_data(value) if artists and isinstance(value, artists.Artist) else value


def _kept(value):
    """A copy that nothing changes any more."""
    found = _reduced(value)
    if type(found) is FigureData:
        return _Drawn(found)
    if type(value) in (list, dict, tuple, set):
        return copy.deepcopy(value)
    return calls.copy_of(value)


def _close_figures():
    """As Jupyter does after each cell: what is drawn next comes into a figure of its own."""
    with contextlib.suppress(Exception):
        sys.modules["matplotlib.pyplot"].close("all")


def _text(error):
    try:
        return " ".join(str(error).split())[:500]
    except BaseException:
        return "an error without words"


def _copy(array):
    """A copy travels with its numbers, and not as the other side's own array."""
    return array.detach().clone() if wire.is_tensor(array) else array.copy()


def _base(error):
    """The built-in exception that an error is."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")


def _exception(name, text):
    """The built-in exception of this name."""
    kind = getattr(builtins, name, None)
    return kind(text) if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError(text)


# ------------------------------------------------------------------------------------ what is forbidden


# What is the same by another name. It is a convention and no wall: what is written down in full (`exp`, a
# sum), `torch._C.TensorBase`, `logcumsumexp` and tricks with `sys.modules` remain.
_ALIKE = {
    "softmax": ("softmin", "gumbel_softmax", "_safe_softmax", "_masked_softmax"),
    "attention": ("multi_head_attention_forward",),
    "scaled_dot_product_attention": (
        "_scaled_dot_product_attention_math", "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_fused_attention_overrideable", "_native_multi_head_attention",
        "_transformer_encoder_layer_fwd",
    ),
}  # fmt: skip
_LAYERS = {
    "softmax": ("Softmax", "Softmin", "Softmax2d"),
    "log_softmax": ("LogSoftmax",),
    "cross_entropy": ("CrossEntropyLoss",),
    "attention": ("MultiheadAttention",),
}


class Forbidden(Exception):
    """Something that the assignment asks to be written."""


_in_force = set()       # the names that the question asked about forbids


def forbid(names):
    """Put a stand-in in the place of each, in PyTorch and SciPy, once they are imported."""
    if not names:
        return
    for module in _PLACES:
        if module in sys.modules:
            _take_away(sys.modules[module], names)
    sys.meta_path.insert(0, _Hook(frozenset(names)))


def stand_in(original, name, layer=False):
    """Raises where a student's answer to a question that forbids it calls it; the library's calls pass.

    Of a ``layer`` it is a method, which the library calls for the student.
    """

    def forbidden(*args, **named):
        if name not in _in_force:
            return original(*args, **named)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if not layer and caller.partition(".")[0] in ("torch", "attnlib", "scipy") and caller != "attnlib":
            return original(*args, **named)
        raise Forbidden(f"{name} is not available in this question; write it yourself")

    forbidden.stands_in = True
    forbidden.__name__ = name
    forbidden.__module__ = getattr(original, "__module__", None)     # a function of torch stays one
    if not hasattr(original, "overloads"):
        return forbidden
    members = {"__call__": staticmethod(forbidden), "__getattr__": lambda _, part: getattr(original, part)}
    return type(name, (), members | {"stands_in": True})()      # of an operator torch reads its overloads


def _take_away(module, names):
    for name in names:
        for each in (name, f"_{name}", *_ALIKE.get(name, ())):
            with contextlib.suppress(Exception):
                original = getattr(module, each, None)
                if isinstance(original, type):          # the library asks what is one of these
                    _take_away_layer(original, name)
                elif callable(original) and not isinstance(original, types.ModuleType) and not hasattr(
                    original, "stands_in"
                ):
                    setattr(module, each, stand_in(original, name))


def _take_away_layer(kind, name):
    for method in ("__init__", "forward"):
        if not hasattr(getattr(kind, method), "stands_in"):
            setattr(kind, method, stand_in(getattr(kind, method), name, layer=True))


class _Hook(importlib.abc.MetaPathFinder):
    """Takes names away when torch or SciPy's special functions have been imported."""

    def __init__(self, names):
        self.names, self.busy = names, set()

    def find_spec(self, name, path=None, target=None):
        if name not in ("torch", "scipy.special") or name in self.busy:
            return None
        self.busy.add(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            self.loaded()

        spec.loader.exec_module = exec_module
        return spec

    def loaded(self):
        for module in _PLACES:
            if module in sys.modules:
                _take_away(sys.modules[module], self.names)
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "Tensor"):
            _take_away(torch.Tensor, self.names)
            for name in self.names:
                for each in _LAYERS.get(name, ()):
                    _take_away_layer(getattr(torch.nn, each), name)
            for place in (torch.ops.aten, torch, torch._C._VariableFunctions):
                _take_away(place, self.names)
