"""Values to bytes and back, between the grader and the sandbox. Nothing is ever unpickled.

A frame is a length (8 bytes) and that many bytes: a header of JSON, its length before it, and the numbers of
all arrays as they lie in memory. The header mirrors a value as a tree. What is neither number nor text nor
container stays where it is: the other side holds an opaque stand-in and may hand that back.

The sandbox's side is the student's. What comes from there is bounded and checked before it becomes a value:
sizes, types, nesting, names. This file is copied into the sandbox, so it imports NumPy, the standard
library and `figures` only.
"""

import contextlib
import json
import keyword
import math
import re
import struct
import sys
import zlib
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from attnlib.homework.figures import AxesData, FigureData

LARGEST_FRAME = 40 * 2**20
LARGEST_ARRAY = 16 * 2**20      # bytes; of a larger one the shape and type are told
LARGEST_HEADER = 2**20
DEPTH = 20
ENTRIES = 20_000                # of containers, together
PAIRS = 1000                    # of a dict: keys may be made to collide
TEXT = 10_000
ALIGN = 16

_DTYPE = re.compile(r"[<>|=]?(?:b1|[iu][1248]|f(?:2|4|8|16)|c(?:8|16|32)|[US]\d{1,4}|[mM]8\[[a-zA-Z]{1,2}\])")
_TORCH = re.compile(r"bool|u?int(?:8|16|32|64)|b?float16|float(?:32|64|8_e4m3fn|8_e5m2)|complex(?:64|128)")
_NAME = re.compile(r"[^\W\d]\w{0,59}")
# What moves the cursor or turns the direction of writing: a terminal and a page would obey
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class WireError(Exception):
    """What came is no message."""


class Foreign:
    """The stand-in of something on the other side that does not travel."""

    text = ""

    def __repr__(self):
        return self.text or f"<{type(self).__name__}>"


class ForeignNumbers(Foreign):
    """The stand-in of something that NumPy can read as numbers: a range, a column of a table."""

    array = None

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype)


class Objects:
    """What this side has sent and the other may speak of, and what it knows of the other's.

    An array that is sent again, or handed back, is the same array. Both sides keep only so many; one
    that is forgotten travels by value. ``taken`` counts the bytes of arrays that have come.
    """

    MOST, BYTES = 2000, 8 * 2**20

    def __init__(self):
        self.taken = 0
        self.forget()

    def forget(self):
        self._mine, self._ids, self._theirs, self._stand_ins, self._marks = {}, {}, {}, {}, {}
        self._room, self._next = self.BYTES, 0

    def forget_mine(self):
        """Forget what this side has sent; numbers go on."""
        self._mine, self._ids = {}, {}

    def forget_theirs(self):
        """Forget what has come from the other side."""
        self._theirs, self._stand_ins = {}, {}

    @property
    def crowded(self):
        """Whether so much is known that looking at all of it takes long."""
        return self._room < 0.75 * self.BYTES or len(self._mine) + len(self._theirs) > self.MOST / 4

    def keep(self, value, size=0):
        """The number by which the other side may name a thing of this side; None where there is no room."""
        if id(value) in self._ids:
            return self._ids[id(value)]
        if len(self._mine) + len(self._theirs) >= self.MOST or size > self._room:
            return None
        self._room -= size
        number, self._next = self._next, self._next + 1
        self._mine[number], self._ids[id(value)] = value, number
        return number

    def mine(self, number):
        """A thing of this side, by its number."""
        if type(number) is not int or number not in self._mine:
            raise WireError(f"no object {number!r}")
        return self._mine[number]

    def learn(self, value, number, size=0):
        """Remember the number of a thing of the other side."""
        if type(number) is not int or len(self._mine) + len(self._theirs) >= self.MOST or size > self._room:
            return value
        self._room -= size
        self._theirs[id(value)] = value, number
        self._stand_ins[number] = value
        return value

    def number_of_theirs(self, value):
        found = self._theirs.get(id(value))
        return None if found is None else found[1]

    def known(self, number):
        """The stand-in of a thing of the other side that was learnt before, or None."""
        return self._stand_ins.get(number) if type(number) is int else None

    def mark(self):
        """Look at all arrays of both sides, to tell later which have changed."""
        self._marks = {id(a): _digest(a) for a in self._arrays()}

    def changed(self):
        """(whose, number, array) of each that has changed since the mark; ``whose`` as this side says it."""
        found = []
        for value in self._arrays():
            if id(value) in self._marks and self._marks[id(value)] != _digest(value):
                mine = self._ids.get(id(value))
                found.append(("theirs", self._theirs[id(value)][1], value) if mine is None
                             else ("mine", mine, value))  # fmt: skip
        return found

    def _arrays(self):
        values = [*self._mine.values(), *(value for value, _ in self._theirs.values())]
        return [v for v in values if type(v) is np.ndarray or is_tensor(v)]


def printable(text):
    """A student's text without control characters; lines and tabs stay."""
    return _CONTROL.sub("", text)


def is_tensor(x):
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "Tensor") and issubclass(type(x), torch.Tensor)


def _digest(a):
    if is_tensor(a):
        if a.layout.__str__() != "torch.strided" or a.device.type != "cpu":
            return None
        a = _bytes_of_tensor(a.detach())
    return a.shape, a.dtype.str, zlib.crc32(np.ascontiguousarray(a).reshape(-1).view(np.uint8)) if (
        a.dtype.kind in "biufc") else 0


# ---------------------------------------------------------------------------------------------- encoding


def encode(value, objects=None, *, same=False, storage=False, secret=False):
    """A value as bytes, without the frame's length.

    Parameters
    ----------
    value
        Anything.
    objects : Objects, optional
        Of this side; where it is left out, only data travels.
    same : bool
        Whether arrays get numbers, so that one that comes back is the same one.
    storage : bool
        Whether a tensor that is part of a larger one travels with all that it is part of.
    secret : bool
        Whether nothing is told of what does not travel but the names of its parameters: how a model is
        called or made may be what a student is asked to find out.
    """
    return _Encoder(objects, same, storage, secret).bytes_of(value)


class _Encoder:
    def __init__(self, objects, same, storage, secret):
        self.objects, self.same, self.storage, self.secret = objects, same, storage, secret
        self.buffers, self.size, self.entries = [], 0, 0

    def bytes_of(self, value):
        header = json.dumps(self.node(value, 0), ensure_ascii=True, separators=(",", ":")).encode()
        if len(header) > LARGEST_HEADER:
            raise WireError("too much text and too many entries")
        parts = [struct.pack(">I", len(header)), header, b" " * (-(4 + len(header)) % ALIGN)]
        for buffer in self.buffers:
            parts += [buffer, bytes(-len(buffer) % ALIGN)]
        return b"".join(parts)

    def node(self, x, depth):
        kind = type(x)
        if x is None or kind is bool or kind is float:
            return x
        if kind is str:
            return x[:TEXT]
        if kind is int:
            return x if x.bit_length() < 1000 else self.opaque(x)
        if x is ...:
            return {"k": "ellipsis"}
        if kind is bytes and len(x) <= TEXT:
            return {"k": "bytes", "v": x.decode("latin-1")}
        if kind is complex:
            return {"k": "complex", "v": [x.real, x.imag]}
        if self.objects is not None:
            number = self.objects.number_of_theirs(x)
            if number is not None:
                return {"k": "yours", "i": number}
        if is_tensor(x):
            return self.tensor(x)
        if issubclass(kind, np.ndarray):
            return self.array(x, depth)
        if issubclass(kind, np.generic):
            return self.array(np.asarray(x), depth, "scalar")
        if issubclass(kind, (list, tuple)) or kind is dict:
            return self.container(x, kind, depth)
        if kind in (AxesData, FigureData):
            fields = {name: self.node(getattr(x, name), depth + 1) for name in kind.__dataclass_fields__}
            return {"k": "record", "t": kind.__name__, "v": fields}
        return self.opaque(x)

    def container(self, x, kind, depth):
        base = dict if kind is dict else list if issubclass(kind, list) else tuple
        name = type_name(x)
        length = base.__len__(x)
        self.entries += length
        if depth >= DEPTH or self.entries > ENTRIES or (base is dict and length > PAIRS):
            self.entries -= length
            return {"k": base.__name__, "t": name, "long": length}
        if base is dict:
            items = [[self.node(k, depth + 1), self.node(v, depth + 1)] for k, v in x.items()]
        else:
            items = [self.node(part, depth + 1) for part in base.__iter__(x)]
        node = {"k": base.__name__, "v": items}
        if name != base.__name__:
            node["t"] = name
        if self.same and self.objects is not None:
            node["i"] = self.objects.keep(x)
        return node

    def buffer(self, data):
        at = self.size
        self.buffers.append(data)
        self.size += len(data) + (-len(data) % ALIGN)
        return at

    def fits(self, size):
        return size <= LARGEST_ARRAY and self.size + size <= LARGEST_FRAME - LARGEST_HEADER - 2**16

    def array(self, x, depth, kind="array"):
        whole, x = x, np.asarray(x)
        if x.dtype.kind == "O":
            return self.objects_array(x, depth)
        if not _DTYPE.fullmatch(x.dtype.str):
            return {"k": "hollow", "d": _told(x.dtype), "s": list(x.shape)}
        if not self.fits(x.size * x.dtype.itemsize):
            return {"k": "hollow", "d": x.dtype.str, "s": list(x.shape)}
        order = sorted(range(x.ndim), key=lambda i: -abs(x.strides[i]))
        data = x.transpose(order).tobytes()
        node = {"k": kind, "d": x.dtype.str, "s": list(x.shape), "at": self.buffer(data)}
        if order != list(range(x.ndim)):
            node["o"] = order
        if self.same and kind == "array" and self.objects is not None and type(whole) is np.ndarray:
            node["i"] = self.objects.keep(whole, len(data))
        return node

    def objects_array(self, x, depth):
        if x.size > 1000 or depth >= DEPTH:
            return {"k": "hollow", "d": "O", "s": list(x.shape)}
        self.entries += x.size
        return {"k": "objects", "s": list(x.shape), "v": [self.node(a, depth + 1) for a in x.ravel()]}

    def tensor(self, x):
        import torch

        with torch._C.DisableTorchFunctionSubclass():
            plain = x.detach()
            if type(plain) is not torch.Tensor:
                plain = plain.as_subclass(torch.Tensor)
            node = {"k": "tensor", "d": str(plain.dtype).removeprefix("torch."), "s": list(plain.shape),
                    "grad": bool(x.requires_grad)}  # fmt: skip
            layout = str(plain.layout).removeprefix("torch.")
            if layout != "strided" or plain.device.type != "cpu" or not _TORCH.fullmatch(node["d"]):
                return node | {"layout": layout, "device": plain.device.type}
            if self.storage:
                held = plain.untyped_storage()
                if plain.numel() * plain.element_size() != held.nbytes() and self.fits(held.nbytes()):
                    flat = plain.new_empty(0).set_(held, 0, (held.nbytes() // plain.element_size(),), (1,))
                    node |= {"strides": list(plain.stride()), "from": plain.storage_offset(),
                             "of": flat.numel()}  # fmt: skip
                    node["at"] = self.buffer(_bytes_of_tensor(flat).tobytes())
                    return self.numbered(node, x)
            if not self.fits(plain.numel() * plain.element_size()):
                return node | {"layout": "hollow"}
            order = sorted(range(plain.ndim), key=lambda i: -plain.stride(i))
            node["at"] = self.buffer(_bytes_of_tensor(plain.permute(order)).tobytes())
            if order != list(range(plain.ndim)):
                node["o"] = order
            return self.numbered(node, x)

    def numbered(self, node, x):
        if self.same and self.objects is not None:
            node["i"] = self.objects.keep(x, x.numel() * x.element_size())
        return node

    def opaque(self, x):
        node = {"k": "object"} if self.secret else {"k": "object", "t": type_name(x), "r": _shown(x)}
        if self.objects is not None:
            node["i"] = self.objects.keep(x)
            if callable(x):
                node |= {"call": True, "sign": signature_of(x, self.secret)}
        return node


def _bytes_of_tensor(x):
    import torch

    return x.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy()


def type_name(x):
    """The name of a type, asked of Python and not of the type."""
    return type.__dict__["__name__"].__get__(type(x))[:60]


def _shown(x):
    try:
        text = repr(x)
        return text[:200] if type(text) is str else ""
    except Exception:
        return ""


def _told(dtype):
    """The type of a structured array, where it is simple, else "V"."""
    fields = dtype.fields and [[name, dtype.fields[name][0].str] for name in dtype.names]
    return fields if fields and len(fields) <= 20 else "V1"


# ---------------------------------------------------------------------------------------------- decoding


def decode(data, objects=None, *, make=None, hollow=True, storage=False):
    """The value that `encode` made ``data`` of.

    Parameters
    ----------
    data : bytes or bytearray
        Arrays lie in it, so in a bytearray they can be written to.
    objects : Objects, optional
        Of this side.
    make : callable, optional
        ``make(number, node)`` gives the stand-in of a callable of the other side.
    hollow : bool
        Whether an array that was too large to send comes as zeros that take no memory, in its shape;
        else as an opaque object.
    storage : bool
        Whether a tensor may be part of a larger one.

    Raises
    ------
    WireError
        Where it is no message of `encode`.
    """
    try:
        return _Decoder(data, objects, make, hollow, storage).value()
    except WireError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {str(error)[:200]}"
        raise WireError(f"a message that cannot be read: {told}") from None


class _Decoder:
    def __init__(self, data, objects, make, hollow, storage):
        self.objects, self.make, self.hollow, self.storage = objects, make, hollow, storage
        if len(data) < 4:
            raise WireError("a message without a header")
        (length,) = struct.unpack(">I", data[:4])
        if length > LARGEST_HEADER or 4 + length > len(data):
            raise WireError("a header of impossible length")
        self.data, self.base = data, 4 + length + (-(4 + length) % ALIGN)
        self.header = bytes(data[4 : 4 + length])
        self.room, self.entries = len(data) - self.base, 2 * ENTRIES + 1000

    def value(self):
        return self.read(json.loads(self.header), 0)

    def read(self, node, depth):
        if node is None or type(node) in (bool, int, float):
            return node
        if type(node) is str:
            return node[:TEXT] if self.make else printable(node[:TEXT])
        if type(node) is not dict or depth > DEPTH + 5:
            raise WireError("an impossible node")
        reader = getattr(self, f"read_{node.get('k')}", None) if type(node.get("k")) is str else None
        if reader is None:
            raise WireError(f"a node of unknown kind {str(node.get('k'))[:40]!r}")
        return reader(node, depth)

    def read_ellipsis(self, node, depth):
        return ...

    def read_complex(self, node, depth):
        return complex(*map(float, node["v"]))

    def read_bytes(self, node, depth):
        return node["v"].encode("latin-1")

    def read_yours(self, node, depth):
        if self.objects is None:
            raise WireError("an object where there is none")
        return self.objects.mine(node["i"])

    def shape(self, node, size):
        shape = node["s"]
        if type(shape) is not list or len(shape) > 64 or not all(type(n) is int and n >= 0 for n in shape):
            raise WireError("an impossible shape")
        if math.prod(n or 1 for n in shape) * max(size, 1) >= 2**62:
            raise WireError("an impossible shape")
        return tuple(shape)

    def bytes_at(self, node, size):
        at = node["at"]
        if type(at) is not int or at < 0 or at % ALIGN or self.base + at + size > len(self.data):
            raise WireError("an array beyond the message")
        self.room -= size
        if self.room < 0:
            raise WireError("arrays that lie in one another")
        self.count(size)
        return memoryview(self.data)[self.base + at : self.base + at + size]

    def count(self, size):
        if self.objects is not None:
            self.objects.taken += size

    def order(self, node, n):
        order = node.get("o", list(range(n)))
        if sorted(order) != list(range(n)):
            raise WireError("an impossible order of axes")
        return order

    def read_array(self, node, depth):
        if type(node["d"]) is not str or not _DTYPE.fullmatch(node["d"]):
            raise WireError("an array of a type that does not travel")
        dtype = np.dtype(node["d"])
        shape = self.shape(node, dtype.itemsize)
        order = self.order(node, len(shape))
        size = math.prod(shape) * dtype.itemsize
        array = np.frombuffer(self.bytes_at(node, size), dtype) if size else np.empty(0, dtype)
        array = array.reshape([shape[i] for i in order]).transpose(np.argsort(order))
        return self.learnt(array, node, size)

    def read_scalar(self, node, depth):
        return self.read_array(node, depth)[()]

    def learnt(self, value, node, size=0):
        """The value, or the one of that number that is here already, brought up to date."""
        number = node.get("i")
        if self.objects is None or number is None:
            return value
        old = self.objects.known(number)
        if old is not None and put(old, value):
            return old
        return self.objects.learn(value, number, size)

    def read_hollow(self, node, depth):
        told = node["d"]
        if type(told) is list:
            fields = [(str(name)[:60], str(d)) for name, d in told[:20]]
            dtype = np.dtype([(name, d) for name, d in fields if _DTYPE.fullmatch(d)])
        elif told in ("O", "V1") or _DTYPE.fullmatch(told):
            dtype = np.dtype(told if told.lstrip("<>|=")[0] not in "SU" else told.lstrip("<>|=")[0] + "1")
        else:
            raise WireError("an array of an unknown type")
        shape = self.shape(node, dtype.itemsize)
        if not self.hollow:
            return stand_in("ndarray", f"an array of shape {shape}")
        if math.prod(shape) <= LARGEST_ARRAY:         # a judge might copy it
            self.count(math.prod(shape) * dtype.itemsize)
        return np.broadcast_to(np.zeros((), dtype), shape)

    def read_objects(self, node, depth):
        shape = self.shape(node, 1)
        values = self.items(node, depth)
        if math.prod(shape) != len(values):
            raise WireError("an array with too few objects")
        array = np.empty(len(values), object)
        for i, value in enumerate(values):
            array[i] = value
        return array.reshape(shape)

    def read_tensor(self, node, depth):
        import torch

        if type(node["d"]) is not str or not _TORCH.fullmatch(node["d"]):
            return stand_in("Tensor", "a tensor of an unknown type")
        dtype = getattr(torch, node["d"])
        shape = self.shape(node, dtype.itemsize)
        if "layout" in node:
            return self.unusual(node, shape, dtype)
        count = math.prod(shape)
        if "of" in node:
            count = node["of"]
            if not self.storage or type(count) is not int or count < 0:
                raise WireError("an impossible storage")
        size = count * dtype.itemsize
        flat = torch.empty(0, dtype=dtype)
        if size:
            flat = torch.frombuffer(self.bytes_at(node, size), dtype=dtype)
        if "of" in node:
            flat = flat.clone()                       # of its own, so that its storage is no larger
            tensor = flat.as_strided(shape, node["strides"], node["from"])
        else:
            order = self.order(node, len(shape))
            tensor = flat.clone().reshape([shape[i] for i in order])
            tensor = tensor.permute([int(i) for i in np.argsort(order)]) if shape else tensor
        if node.get("grad") is True and (dtype.is_floating_point or dtype.is_complex):
            tensor = tensor.detach().requires_grad_()
        return self.learnt(tensor, node, size)

    def unusual(self, node, shape, dtype):
        import torch

        with contextlib.suppress(Exception):
            if node["layout"] == "hollow" and self.hollow:
                return torch.zeros((), dtype=dtype).expand(shape)
            if node["layout"] == "strided" and node.get("device") == "meta":
                return torch.empty(shape, dtype=dtype, device="meta")
            if node["layout"] == "sparse_coo":
                return torch.sparse_coo_tensor(torch.empty((len(shape), 0), dtype=torch.long),
                                               torch.empty(0, dtype=dtype), shape,
                                               check_invariants=True)  # fmt: skip
        return stand_in("Tensor", f"a tensor of shape {shape}")

    def items(self, node, depth):
        items = node["v"]
        if type(items) is not list:
            raise WireError("a container without entries")
        self.entries -= len(items)
        if self.entries < 0:
            raise WireError("too many entries")
        return [self.read(item, depth + 1) for item in items]

    def read_list(self, node, depth):
        return self.sequence(node, depth, list)

    def read_tuple(self, node, depth):
        return self.sequence(node, depth, tuple)

    def sequence(self, node, depth, base):
        named = _kind(node.get("t", base.__name__), base)
        if "long" in node:
            if type(node["long"]) is not int or not 0 <= node["long"] < 2**62:
                raise WireError("an impossible length")
            return _long(named, base, node["long"])
        return self.learnt(named(self.items(node, depth)), node)

    def read_dict(self, node, depth):
        if "long" in node:
            return stand_in("dict", "a dict of many entries")
        pairs = node["v"]
        if type(pairs) is not list or not all(type(pair) is list and len(pair) == 2 for pair in pairs):
            raise WireError("a dict without pairs")
        self.entries -= 2 * len(pairs)
        if self.entries < 0 or len(pairs) > PAIRS:
            raise WireError("too many entries")
        keys = (self.read(key, depth + 1) for key, _ in pairs)
        values = (self.read(value, depth + 1) for _, value in pairs)
        return self.learnt(dict(zip(keys, values, strict=True)), node)

    def read_record(self, node, depth):
        kinds = {"AxesData": AxesData, "FigureData": FigureData}
        kind = kinds.get(node["t"])
        values = node["v"]
        if kind is None or type(values) is not dict or not values.keys() <= kind.__dataclass_fields__.keys():
            raise WireError("an unknown record")
        values = {name: self.read(value, depth + 1) for name, value in values.items()}
        for name, value in values.items():
            if type(value) is not type(kind.__dataclass_fields__[name].default):
                raise WireError("a record with a field of another type")
        made = kind(**values)
        if kind is FigureData and not all(type(axes) is AxesData for axes in made.axes):
            raise WireError("a figure without axes")
        if kind is AxesData and not all(map(_an_image, made.images)):
            raise WireError("a figure with an image that is none")
        return made

    def read_object(self, node, depth):
        number = node.get("i")
        known = None if self.objects is None or number is None else self.objects.known(number)
        if known is not None:
            return known
        if node.get("call") is True and self.make and type(number) is int:
            value = self.make(number, node)
        else:
            value = stand_in(node.get("t"), node.get("r"))
        return value if self.objects is None else self.objects.learn(value, number)


def _an_image(x):
    return type(x) is np.ndarray and x.dtype.kind in "biuf" and x.ndim > 0


def put(old, new):
    """Bring an array, list or dict up to date where it lies; whether that could be done."""
    if old is new:
        return True
    if is_tensor(old) and is_tensor(new) and old.shape == new.shape and old.dtype == new.dtype:
        with contextlib.suppress(Exception):
            old.detach().copy_(new.detach())
            return True
    if type(old) is type(new) is np.ndarray and old.shape == new.shape and old.dtype == new.dtype:
        if not old.flags.writeable:
            return False
        old[...] = new
        return True
    if type(old) is type(new) is list:
        old[:] = new
        return True
    if type(old) is type(new) is dict:
        old.clear()
        old.update(new)
        return True
    return False


def stand_in(name, text=""):
    """An opaque object whose type has this name."""
    value = _kind(name, Foreign)()
    value.text = printable(text[:200]) if type(text) is str else ""
    return value


def with_numbers(value, array):
    """The stand-in, such that NumPy can read it."""
    made = _kind(type(value).__name__, ForeignNumbers)()
    made.text, made.array = value.text, array
    return made


def _kind(name, base):
    """A class of this name, made of ``base``; ``base`` itself where it is its own name, or no name."""
    if type(name) is not str or not _NAME.fullmatch(name) or keyword.iskeyword(name) or name == base.__name__:
        return base
    return _made(name, base)


@lru_cache(1000)
def _made(name, base):
    return type(name, (base,), {})


def _long(named, base, length):
    """An empty list or tuple that says that it is longer; told by its length, before it is looked at."""
    value = _made_long(named.__name__, base)()
    value.length = length
    return value


@lru_cache(1000)
def _made_long(name, base):
    return type(name, (base,), {"length": 0, "__len__": lambda self: self.length})


# ---------------------------------------------------------------------------------------------- signatures


@dataclass(frozen=True)
class Text:
    """What is shown as it is told: a default of a parameter on the other side."""

    text: str = field(default="")

    def __repr__(self):
        return self.text


def signature_of(function, secret=False):
    """The parameters of a function as data: [name, kind, default, annotation]; None where there are none."""
    import inspect

    def shown(default):
        return "..." if secret else _shown(default)[:60]

    try:
        parameters = inspect.signature(function).parameters.values()
        return [
            [p.name, int(p.kind), None if p.default is p.empty else shown(p.default),
             None if p.annotation is p.empty or secret else inspect.formatannotation(p.annotation)[:60]]
            for p in parameters
        ][:50]  # fmt: skip
    except Exception:
        return None


def signature_from(told):
    """An `inspect.Signature` from what `signature_of` gave, or None."""
    import inspect

    if type(told) is not list:
        return None
    empty = inspect.Parameter.empty
    try:
        return inspect.Signature([
            inspect.Parameter(name, inspect._ParameterKind(kind),
                              default=empty if default is None else Text(str(default)[:60]),
                              annotation=empty if noted is None else Text(str(noted)[:60]))
            for name, kind, default, noted in told[:50]
        ])  # fmt: skip
    except (TypeError, ValueError):
        return None
