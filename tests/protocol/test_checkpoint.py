"""States as bytes: every kind of value comes back exactly, damage is noticed."""

from __future__ import annotations

import math
import struct
from collections import deque
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
from gmpy2 import mpz
from hyfdca.protocol.checkpoint_values import Form, register
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, scalar_dtypes

from hyfdca.algorithms.bundle.lbfgs import Path
from hyfdca.algorithms.bundle.messages import Move
from hyfdca.crypto.schemes.blocks import Blocks
from hyfdca.crypto.schemes.fixedpoint import Grid
from hyfdca.crypto.schemes.stream_sums import Padded, StreamAdder
from hyfdca.protocol import checkpoint as state
from hyfdca.protocol.checkpoint import Kept, load, save
from hyfdca.protocol.messages import GridSpec
from hyfdca.protocol.server_session import ServerSession


@dataclass
class Box(Kept):
    """Something with one value."""

    kept: ClassVar[tuple[str, ...]] = ("value",)

    value: Any = None
    label: str = "made of settings"


@dataclass
class Other(Box):
    """The same by another name."""


@dataclass
class Chest(Box):
    """Something with parts, one of which is not always there."""

    kept: ClassVar[tuple[str, ...]] = ("box", "boxes", "spare")

    box: Box = field(default_factory=Box)
    boxes: list[Box] = field(default_factory=lambda: [Box(), Box()])
    spare: Box | None = None

    def new_part(self, name: str) -> Kept:
        """Return a spare box."""
        return Box()


def again(value):
    """Return a value that was saved and put back."""
    box = Box("something else")
    load(box, save(Box(value)))
    return box.value


def same(one, other):
    """Whether two values are alike: kinds, bits, order and place in memory."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        facts = [(a.dtype, a.shape, a.tolist()) for a in (one, other)]
        if one.dtype != object:
            facts = [(a.dtype, a.shape, a.tobytes()) for a in (one, other)]
        return facts[0] == facts[1]
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, dict):
        one, other = list(one.items()), list(other.items())
    if isinstance(one, (list, tuple, deque)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=True)
    | st.text()
    | st.binary()
    | st.builds(slice, st.none() | st.integers(), st.none() | st.integers())
)
ARRAYS = arrays(
    scalar_dtypes().filter(lambda dtype: dtype.kind in "biuf" and dtype.itemsize < 16),
    array_shapes(min_dims=0, min_side=0),
)
KEYS = st.integers() | st.text() | st.tuples(st.text(), st.integers())
VALUES = st.recursive(
    PLAIN | ARRAYS | st.sets(KEYS) | st.frozensets(KEYS),
    lambda inside: (
        st.lists(inside)
        | st.lists(inside).map(tuple)
        | st.builds(deque, st.lists(inside), st.integers(5, 9))
        | st.dictionaries(KEYS, inside)
    ),
)


@given(VALUES)
def test_values_come_back_exactly(value):
    """Kinds, bits and order are those that were saved."""
    assert same(again(value), value)


@pytest.mark.parametrize(
    "value",
    [
        math.inf,
        -0.0,
        float("nan"),
        2**64 - 1,
        2**64,
        -(2**63),
        -(2**63) - 1,
        np.float64(0.1),
        np.int64(-3),
        np.bool_(1),
        mpz(2) ** 4000,
        mpz(1),
        Grid(40, 58),
        GridSpec(-3, 7),
        Move(3, [0.5, 2.0]),
        np.array([mpz(1), mpz(3) ** 999], object),
        deque([1, 2], maxlen=32),
        deque([1]),
    ],
    ids=repr,
)
def test_special_values_come_back_exactly(value):
    """Numbers of any size, scalars of numpy and the values of upper layers too."""
    back = again(value)
    assert same(back, value)
    assert getattr(back, "maxlen", None) == getattr(value, "maxlen", None)


def test_sealed_vectors_and_paths_come_back():
    """Dataclasses with arrays come back with theirs."""
    array = np.arange(6.0).reshape(3, 2)
    values = [
        Padded(array.astype(np.uint64), np.ones((3, 1), np.uint32), np.zeros((1, 24))),
        Blocks(np.array([True, False]), np.array([mpz(5), mpz(7)], object)),
        Path([array], [array + 1, array], 0.25),
    ]
    for value in values:
        back = again(value)
        assert type(back) is type(value)
        for name, part in vars(value).items():
            assert same(getattr(back, name), part)


@given(ARRAYS, st.randoms())
def test_arrays_may_be_changed_and_stay_in_their_order(array, random):
    """They are copies of their own, with axes as they were in memory."""
    axes = list(range(array.ndim))
    random.shuffle(axes)
    turned = array.transpose(axes)
    back = again(turned)
    assert back.flags.writeable
    assert not np.shares_memory(back, turned)
    if array.size > 1 and min(array.shape) > 1:
        assert back.strides == turned.strides


def test_the_same_array_comes_back_as_one():
    """Arrays that are one object are one again, and others are not."""
    point, equal, few = np.zeros(3), np.zeros(3), np.array([mpz(2)], object)
    once, inside, other, *objects = again([point, {"in": point}, equal, few, few])
    assert inside["in"] is once
    assert other is not once
    assert objects[0] is objects[1]


def test_arrays_of_parts_are_the_same_too():
    """Who shares an array with a part still does so afterwards."""
    point = np.zeros(3)
    chest = Chest(box=Box(point), boxes=[Box((point,)), Box()])
    load(chest, save(chest))
    assert chest.boxes[0].value[0] is chest.box.value
    assert chest.box.value is not point


@pytest.mark.parametrize("n_rows", [0, 1, 2, 5])
def test_one_row_that_stands_for_many_stays_one(n_rows):
    """The ids of sums that all have the same contributors take no room."""
    adder = StreamAdder()
    padded = adder.zeros((n_rows, 3))
    for _ in range(2):
        back = again(padded)
        assert back.is_uniform
        assert back.ids.nbytes == padded.ids.nbytes
        assert bytes(adder.dump(back)) == bytes(adder.dump(padded))
        payload = memoryview(bytes(24 + 8 * 3 * n_rows))
        padded = adder.load(payload, (n_rows, 3))
    assert len(save(Box(np.broadcast_to(np.uint32(1), (10**9, 1))))) < 150


@pytest.mark.parametrize(
    "value", [object(), {1: object()}, np.array(["text"]), [np.zeros(1, "V3")], Box]
)
def test_other_values_have_no_state(value):
    """What is not known to come back as it was is refused when it is saved."""
    with pytest.raises(TypeError, match="no state can have"):
        save(Box(value))


def test_a_name_stands_for_one_kind_of_value():
    """A second class of the same name would be taken for the first."""
    for name in ("Grid", "array"):
        with pytest.raises(ValueError, match="already"):
            register(Other, Form(name, iter, Other))


# Objects


def test_parts_are_restored_in_place():
    """Whoever else refers to a part has its new state."""
    chest = Chest(Box(), "one", Box(1), [Box(2), Box(3)], Box(4))
    content = save(chest)
    used = Chest(Box(), "two", Box(), [Box(), Box()], Box())
    parts = [used.box, *used.boxes, used.spare]
    load(used, content)
    assert [used.box, *used.boxes, used.spare] == [Box(1), Box(2), Box(3), Box(4)]
    for part, now in zip(parts, [used.box, *used.boxes, used.spare], strict=True):
        assert part is now
    assert used.label == "two"  # of no concern to states


def test_parts_come_and_go():
    """A part that the state has is made; one that it has not is given up."""
    without, having = Chest(), Chest(spare=Box([1, 2]))
    contents = save(without), save(having)
    load(without, contents[1])
    load(having, contents[0])
    assert without.spare == Box([1, 2])
    assert having.spare is None


def test_a_part_has_one_owner():
    """Restored in place for two owners, a part could only please one of them."""
    box = Box()
    with pytest.raises(TypeError, match="part of two objects"):
        save(Chest(box=box, spare=box))


def test_numbers_of_requests_never_go_back():
    """Clients refuse lower numbers than they have answered."""
    session, later = ServerSession(bytes(8)), ServerSession(bytes(8))
    earlier = save(session)
    for number in (1, 2):
        assert later._next_number() == number
    with later.among([0]):
        load(later, earlier)
        assert later.present is None
    assert later._next_number() == 3
    load(session, save(later))
    assert session._next_number() == 4


# Damage


def _is_refused(thing, content):
    """Return whether bytes are refused with one sentence, and nothing changed."""
    before = save(thing)
    try:
        load(thing, content)
    except ValueError as error:
        said = str(error)
        return said.endswith(".") and "\n" not in said and save(thing) == before
    return False


def _chest():
    return Chest(box=Box(np.arange(3)), boxes=[Box({1: "a"}), Box()], spare=Box(2.5))


def test_truncated_states_are_refused():
    """Wherever they end, and if something follows."""
    content = save(_chest())
    for length in range(len(content)):
        assert _is_refused(Chest(), content[:length])
    assert _is_refused(Chest(), content + b"\0")


def test_damaged_states_are_refused():
    """Every bit counts."""
    content = save(_chest())
    for place in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        assert _is_refused(Chest(), damaged)


@pytest.mark.parametrize(
    ("thing", "content"),
    [
        (Other(), save(Box(1))),
        (Box(), save(_chest())),
        (Chest(boxes=[Box()]), save(_chest())),
        (Chest(boxes=[]), save(_chest())),
        (Chest(box=Other()), save(_chest())),
        (Box(), save(ServerSession(bytes(8)))),
    ],
)
def test_states_of_others_are_refused(thing, content):
    """A state fits the class and the parts that it was saved of."""
    assert _is_refused(thing, content)


def test_a_part_that_cannot_be_made_is_refused():
    """Where a class does not say how, a part that is missing stays so."""
    assert _is_refused(Box(), save(Box(Box(3))))


def test_a_state_with_other_attributes_is_refused():
    """As of a version of a class that kept more."""
    for members in ({}, {"value": 1, "more": 2}, {"other": 1}):
        forged = _forged(msgspec.msgpack.encode(["part", "Box", members]))
        assert _is_refused(Box(), forged)


def _forged(body):
    """Return bytes that nothing happened to on their way."""
    return state._FORMAT + state._digest(body) + body


@given(st.binary())
def test_bytes_that_are_no_state_are_refused(body):
    """Even if the digest fits."""
    assert _is_refused(Box(), body)
    assert _is_refused(Box(), _forged(body))


WORDS = "array same repeated list dict set slice deque int Grid mpz float64 part parts"
NODES = st.recursive(
    st.none()
    | st.integers(-3, 2**64 - 1)
    | st.floats()
    | st.binary(max_size=9)
    | st.sampled_from([*WORDS.split(), "<f8", "|O", "M8[s]"]),
    lambda inside: st.lists(inside, max_size=6) | st.dictionaries(st.text(), inside),
)


@given(NODES)
def test_values_that_nobody_wrote_are_refused_or_read(node):
    """Whatever is in the place of a value, nothing else than ``ValueError`` comes."""
    forged = _forged(msgspec.msgpack.encode(["part", "Box", {"value": node}]))
    box = Box()
    before = save(box)
    try:
        load(box, forged)
    except ValueError:
        assert save(box) == before


@pytest.mark.parametrize(
    "node",
    [
        ["array", "<f8", [2**40], [0], bytes(8)],
        ["array", "<f8", [-1, -1], [0, 1], bytes(8)],
        ["array", "<f8", [1], [1], bytes(8)],
        ["array", "<f8", [1], [0], bytes(7)],
        ["array", "|O", [2], [0], [1]],
        ["array", "<M8[s]", [1], [0], bytes(8)],
        ["repeated", 2**62, "<f8", [1, 4], [0, 1], bytes(32)],
        ["same", 0],
        ["int", 3, 4],
        ["nothing"],
        [],
        {"a": 1},
        ["dict", 1],
        ["set", ["list"]],
    ],
    ids=repr,
)
def test_arrays_have_as_many_numbers_as_bytes(node):
    """Nothing is made as large as somebody says, and what is no value is refused."""
    assert _is_refused(
        Box(), _forged(msgspec.msgpack.encode(["part", "Box", {"value": node}]))
    )


def test_deep_values_are_refused():
    """A state cannot exhaust the stack."""
    for depth in (1500, 100_000):
        node = b"\x92\xa4list" * depth + b"\x01"  # a list in a list in a list ...
        body = msgspec.msgpack.encode(["part", "Box", {"value": "here"}])
        assert _is_refused(Box(), _forged(body.replace(b"\xa4here", node)))
