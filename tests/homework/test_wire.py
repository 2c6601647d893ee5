"""Values arrive as they were sent; what is no message is refused, and nothing of it is believed."""

import json
import random
import struct
import time
import tracemalloc
from functools import reduce

import numpy as np
import pytest
import torch

from attnlib.homework import wire
from attnlib.homework.figures import AxesData, FigureData, figure_data
from attnlib.homework.wire import Objects, WireError, decode, encode

PLAIN = [
    None, True, 3, -1.5, "text", b"\x00\xff", 1 + 2j, ..., [], [1, (2, [3])], {"a": 1, 2: (3,)},
    np.float32(3), np.int8(-1), np.True_, np.str_("a"),
]  # fmt: skip
ARRAYS = [
    np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3).T, np.asfortranarray(np.ones((3, 4, 2))),
    np.zeros((0, 3)), np.array(2.0), np.array([True, False]), np.arange(4, dtype=np.float16),
    np.arange(3, dtype=">i4"), np.array(["a", "bc"]), np.array([1j]),
    np.arange(24.0).reshape(2, 3, 4)[:, ::2],
    np.broadcast_to(np.arange(3.0), (4, 3)), np.array([np.nan, np.inf]), np.array([1, "a", None], object),
    np.array(["2020-01-01"], "M8[D]"),
]  # fmt: skip
TENSORS = [
    torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(2, 3).T, torch.tensor(1.5),
    torch.arange(4, dtype=torch.bfloat16), torch.tensor([True]), torch.zeros(0, 2), torch.tensor([1 + 1j]),
    torch.arange(12.0).reshape(3, 4)[:, ::2], torch.arange(3.0).expand(2, 3),
    torch.ones(2, requires_grad=True),
]  # fmt: skip


def there_and_back(value, **options):
    return decode(bytearray(encode(value, Objects())), Objects(), **options)


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values(value):
    result = there_and_back(value)
    assert type(result) is type(value) and result == value


def test_not_a_number():
    assert np.isnan(there_and_back(float("nan"))) and there_and_back(-float("inf")) == -float("inf")


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype} {a.shape}")
def test_arrays_and_the_order_of_their_axes(array):
    result = there_and_back(array)
    assert result.dtype == array.dtype and result.shape == array.shape
    np.testing.assert_array_equal(result, array)
    copy = array.copy(order="K")
    if array.dtype != object and 0 not in array.strides:
        assert result.strides == copy.strides
    if result.dtype != object:
        assert result.flags.writeable or not result.size


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda t: f"{t.dtype} {tuple(t.shape)} {t.stride()}")
def test_tensors(tensor):
    result = there_and_back(tensor)
    assert result.dtype == tensor.dtype and result.requires_grad == tensor.requires_grad
    assert torch.equal(result, tensor)


def test_a_part_of_a_tensor_travels_with_the_whole():
    part = torch.arange(12.0).reshape(3, 4)[1:, ::2]
    data = encode(part, storage=True)
    result = decode(bytearray(data), storage=True)
    assert torch.equal(result, part) and result.stride() == part.stride()
    assert result.storage_offset() == 4 and result.untyped_storage().nbytes() == 48
    with pytest.raises(WireError):
        decode(bytearray(data))                    # a student's part of nothing may be endless


def test_unusual_tensors_keep_what_judges_tell_of():
    sparse, meta = torch.eye(3).to_sparse(), torch.empty(2, 3, device="meta")
    assert there_and_back(sparse).layout == torch.sparse_coo and there_and_back(sparse).shape == (3, 3)
    assert there_and_back(meta).device.type == "meta" and there_and_back(meta).shape == (2, 3)


class Pair(tuple):
    """As a namedtuple is."""


def test_kinds_of_containers_keep_their_names():
    result = there_and_back(Pair((1, 2)))
    assert isinstance(result, tuple) and type(result).__name__ == "Pair" and result == (1, 2)
    assert type(there_and_back(torch.max(torch.eye(2), 0))).__name__ == "max"


def test_too_large_arrays_are_told_and_take_no_memory():
    data = encode([np.broadcast_to(0.0, (10**5, 10**5)), torch.zeros(1).expand(10**9)])
    assert len(data) < 1000
    tracemalloc.start()
    array, tensor = decode(bytearray(data))
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()
    assert array.shape == (10**5, 10**5) and array.dtype == float and tensor.shape == (10**9,)
    assert type(decode(bytearray(data), hollow=False)[0]).__name__ == "ndarray"


@pytest.mark.parametrize("array", [np.zeros(2, [("a", "<f8")]), np.zeros(10**4, object)], ids=["V", "O"])
def test_arrays_that_do_not_travel_keep_their_type_and_shape(array):
    result = there_and_back(array)
    assert result.dtype == array.dtype and result.shape == array.shape


def test_long_deep_and_circular_containers_are_cut():
    long = there_and_back([0] * 10**6)
    assert isinstance(long, list) and len(long) == 10**6 and type(long).__name__ == "list"
    deep = circular = []
    for _ in range(10**4):
        deep = [deep]
    circular += [circular, circular]
    assert len(there_and_back(deep)) == 1
    begun = time.process_time()
    assert len(there_and_back(circular)) == 2 and time.process_time() - begun < 5


class Evil:
    """Nothing of it may be called."""

    def __repr__(self):
        raise ValueError

    def __reduce__(self):
        raise AssertionError("pickled")

    def __array__(self, *args, **kwargs):
        raise AssertionError("made an array")

    def __eq__(self, other):
        raise AssertionError("compared")

    __hash__ = None


def test_objects_stay_where_they_are_and_may_be_handed_back():
    here, there = Objects(), Objects()
    thing = Evil()
    stand_in = decode(bytearray(encode(thing, here)), there)
    assert type(stand_in).__name__ == "Evil" and isinstance(stand_in, wire.Foreign)
    assert decode(bytearray(encode([stand_in], there)), here)[0] is thing


def test_functions_become_stand_ins_with_a_signature():
    def model(x, scale=2.5, *, name: str = "a"):
        return x

    made = decode(bytearray(encode(model, Objects())), Objects(), make=lambda number, node: (number, node))
    assert str(wire.signature_from(made[1]["sign"])) == "(x, scale=2.5, *, name: str = 'a')"


def test_an_array_that_is_handed_back_is_the_same_one():
    here, there = Objects(), Objects()
    array, held = np.arange(3.0), [np.ones(2)]
    copy, list_copy = decode(bytearray(encode([array, held], here, same=True)), there)
    back = decode(bytearray(encode([copy, list_copy], there)), here)
    assert back[0] is array and back[1] is held
    array += 1
    again = decode(bytearray(encode(array, here, same=True)), there)
    assert again is copy and copy[0] == 1          # brought up to date where it lies


def test_changes_are_noticed():
    objects = Objects()
    array, tensor = np.arange(3.0), torch.ones(2)
    encode([array, tensor], objects, same=True)
    objects.mark()
    assert objects.changed() == []
    array[1] = 7
    tensor.add_(1)
    assert [(whose, value.tolist()) for whose, _, value in objects.changed()] == [
        ("mine", [0, 7, 2]), ("mine", [2, 2])]  # fmt: skip


# What is no message


def message(node, body=b"", length=None):
    header = json.dumps(node).encode()
    start = struct.pack(">I", len(header) if length is None else length) + header
    return bytearray(start + bytes(-len(start) % wire.ALIGN) + body)


FLOATS = {"k": "array", "d": "<f8", "s": [2], "at": 0}
REFUSED = {
    "nothing": b"",
    "three bytes": b"abc",
    "a long header": struct.pack(">I", 2**31) + b"x" * 100,
    "no JSON": message(0, length=4)[:4] + b"{[,]",
    "pickle": b"\x80\x04\x95" + bytes(100),
    "an unknown kind": message({"k": "class"}),
    "no kind": message({}),
    "a kind that is a method": message({"k": "__init__"}),
    "a list for a node": message([1, 2]),
    "too deep for JSON": message(0)[:0] + struct.pack(">I", 100_000) + b"[" * 100_000,
    "too deep": message(reduce(lambda a, _: {"k": "list", "v": [a]}, range(40), 1)),
    "beyond the end": message(FLOATS, bytes(8)),
    "before the beginning": message(FLOATS | {"at": -16}, bytes(16)),
    "not aligned": message(FLOATS | {"at": 1}, bytes(64)),
    "a negative length": message(FLOATS | {"s": [-2]}, bytes(16)),
    "a fraction of a length": message(FLOATS | {"s": [1.5]}, bytes(16)),
    "too many numbers": message(FLOATS | {"s": [2**40, 2**40]}, bytes(16)),
    "too many axes": message(FLOATS | {"s": [1] * 65}, bytes(16)),
    "objects as numbers": message(FLOATS | {"d": "|O"}, bytes(16)),
    "a pickled type": message(FLOATS | {"d": "O8"}, bytes(16)),
    "records as numbers": message(FLOATS | {"d": "f8,f8"}, bytes(32)),
    "no order": message(FLOATS | {"o": [1]}, bytes(16)),
    "arrays in one another": message({"k": "list", "v": [FLOATS] * 100}, bytes(16)),
    "an object of mine": message({"k": "yours", "i": 5}),
    "a wrong record": message({"k": "record", "t": "FigureData", "v": {"axes": 3}}),
    "a record with other fields": message({"k": "record", "t": "FigureData", "v": {"__class__": "x"}}),
    "another record": message({"k": "record", "t": "Objects", "v": {}}),
    "a long dict": message({"k": "dict", "v": [[i * (2**61 - 1), 0] for i in range(5000)]}),
    "a dict with a list for a key": message({"k": "dict", "v": [[{"k": "list", "v": []}, 0]]}),
    "too many entries": message({"k": "list", "v": [0] * 50_000}),
    "a long int": message(0, length=9000)[:4] + b"1" * 9000,
    "an impossible length": message({"k": "list", "long": -1}),
    "a storage": message({"k": "tensor", "d": "float32", "s": [10**9], "of": 1, "strides": [0], "from": 0,
                          "at": 0}, bytes(16)),
}  # fmt: skip


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_what_is_no_message_is_refused(data):
    begun = time.process_time()
    with pytest.raises(WireError):
        decode(bytearray(data), Objects())
    assert time.process_time() - begun < 2


def test_damaged_messages_are_values_or_refused():
    rng = random.Random(0)
    value = {"a": [np.arange(6.0).reshape(2, 3), torch.eye(2), "text", (1, 2.5)]}
    whole = encode(value, Objects(), same=True)
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        try:
            decode(data, Objects())
        except WireError:
            pass


# Figures


def test_a_figure_becomes_its_data():
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2], [3, 4], label="a line")
    axes.bar([5, 6], [7, 8])
    axes.imshow(np.eye(2))
    axes.scatter([1, 2], [3, 4], label="dots")
    axes.set(title="Title", xlabel="x", ylabel="y")
    axes.text(0, 0, "note")
    for drawn in (figure, axes):
        (data,) = there_and_back(figure_data(drawn)).axes
        assert (data.title, data.xlabel, data.ylabel, data.texts) == ("Title", "x", "y", ("note",))
        (label, x, y), *_ = data.lines
        assert label == "a line" and x.tolist() == [1, 2] and y.tolist() == [3, 4]
        assert data.bars == ((5.0, 7.0), (6.0, 8.0))
        assert data.images[0].tolist() == [[1, 0], [0, 1]]
        assert data.points[0][0] == "dots" and data.points[0][1].tolist() == [[1, 3], [2, 4]]


def test_a_legend_of_the_figure_is_that_of_its_axes():
    from matplotlib.figure import Figure

    figure = Figure()
    one, other = figure.subplots(1, 2)
    lines = one.plot([1, 2], label="mine")
    other.plot([1, 2], label="own")
    other.legend()
    figure.legend(handles=lines)
    assert [axes.legend for axes in figure_data(figure).axes] == [("mine",), ("own",)]


@pytest.mark.parametrize("told", [
    FigureData((1, 2)), FigureData((AxesData(images=("abc",)),)),
    FigureData((AxesData(images=(np.array(["a"]),)),)), FigureData((AxesData(images=(np.array(1.0),)),)),
])  # fmt: skip
def test_a_forged_figure_is_no_message(told):
    with pytest.raises(WireError, match="figure"):
        there_and_back(told)


def test_lying_bars():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    axes.barh([5, 6], [7, 8])
    assert figure_data(axes).axes[0].bars == ((5.0, 7.0), (6.0, 8.0))
