"""Checkpoints as bytes: every kind of value comes back exactly, damage is noticed."""

from __future__ import annotations

import math
import struct
from collections import deque
from dataclasses import dataclass, field, make_dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
import xxhash
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, scalar_dtypes

import hyfdca
from hyfdca.algorithms.bundle.lbfgs import Path
from hyfdca.algorithms.bundle.messages import Move
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.blocks import Blocks
from hyfdca.crypto.schemes.fixedpoint import Grid
from hyfdca.crypto.schemes.stream_sums import Padded, StreamAdder
from hyfdca.protocol import checkpoint
from hyfdca.protocol.checkpoint import CheckpointError, decode, encode, load, save
from hyfdca.protocol.messages import GridSpec
from hyfdca.protocol.sessions import ServerSession
from tests.support.consortia import assert_one_sentence

# A field of any type, in which these classes may be.
Anything = object | Grid | GridSpec | Move | Padded | Blocks | Path


@dataclass(frozen=True)
class BoxState:
    """The state of a box."""

    value: Anything


@dataclass
class Box:
    """Something with one value."""

    value: Any = None
    label: str = "made of settings"

    def state(self) -> BoxState:
        """Return what a checkpoint keeps."""
        return BoxState(self.value)

    def restore(self, state: BoxState) -> None:
        """Take a state."""
        self.value = state.value


@dataclass(frozen=True)
class OtherState:
    """A state that looks the same, by another name."""

    value: Anything


class Other(Box):
    """Something else with one value."""

    def state(self) -> OtherState:
        """Return what a checkpoint keeps."""
        return OtherState(self.value)


@dataclass(frozen=True)
class ChestState:
    """The state of a chest."""

    box: BoxState
    boxes: list[BoxState]
    spare: BoxState | None


@dataclass
class Chest:
    """Something with parts, one of which is not always there."""

    box: Box = field(default_factory=Box)
    boxes: list[Box] = field(default_factory=lambda: [Box(), Box()])
    spare: Box | None = None

    def state(self) -> ChestState:
        """Return what a checkpoint keeps."""
        spare = None if self.spare is None else self.spare.state()
        return ChestState(self.box.state(), [b.state() for b in self.boxes], spare)

    def restore(self, state: ChestState) -> None:
        """Take a state."""
        self.box.restore(state.box)
        for box, kept in zip(self.boxes, state.boxes, strict=True):
            box.restore(kept)
        self.spare = None if state.spare is None else Box(state.spare.value)


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
        Padded(
            array.astype(np.uint64),
            np.ones((3, 1), np.uint32),
            np.zeros((1, 24), np.uint8),
        ),
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
    point, equal = np.zeros(3), np.zeros(3)
    chest = Chest(box=Box(point), boxes=[Box((point,)), Box(equal)], spare=Box(point))
    load(chest, save(chest))
    assert chest.boxes[0].value[0] is chest.box.value
    assert chest.spare.value is chest.box.value
    assert chest.boxes[1].value is not chest.box.value
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
    assert len(save(Box(np.broadcast_to(np.uint32(1), (10**9, 1))))) < 200


@pytest.mark.parametrize(
    "value", [object(), {1: object()}, np.array(["text"]), [np.zeros(1, "V3")], Box]
)
def test_other_values_have_no_state(value):
    """What is not known to come back as it was is refused when it is saved."""
    with pytest.raises(TypeError, match="no checkpoint can have"):
        save(Box(value))


# Objects


def test_what_settings_determine_stays():
    """A state has in it what rounds change, and nothing else."""
    used = Box("old", label="mine")
    load(used, save(Box("new", label="yours")))
    assert (used.value, used.label) == ("new", "mine")


def test_parts_come_and_go():
    """A state may have in it what another one of the same kind has not."""
    without, having = Chest(), Chest(spare=Box([1, 2]))
    contents = save(without), save(having)
    load(without, contents[1])
    load(having, contents[0])
    assert without.spare == Box([1, 2])
    assert having.spare is None


def test_numbers_of_requests_never_go_back():
    """Clients refuse lower numbers than they have answered."""
    session, later = ServerSession(bytes(8), after=1), ServerSession(bytes(8), after=3)
    later._last = {0: "shares", 2: "margins"}
    earlier, kept = save(session), save(later)
    with later.among([0]):
        load(later, earlier)
        assert later.present is None
    assert later.number == 3
    assert later._last == {}
    load(session, kept)
    assert session.number == 3
    assert session._last == {0: "shares", 2: "margins"}


# Damage


def refusal(thing, content):
    """Return the sentence with which bytes are refused; nothing has changed."""
    before = save(thing)
    with pytest.raises(CheckpointError) as caught:
        load(thing, content)
    assert save(thing) == before
    said = str(caught.value)
    assert said.endswith(".")
    assert "\n" not in said
    return said


def _chest():
    return Chest(box=Box(np.arange(3)), boxes=[Box({1: "a"}), Box()], spare=Box(2.5))


DAMAGED = "The checkpoint is damaged or incomplete."
FOREIGN = "These bytes are not a checkpoint of hyfdca."


def test_truncated_checkpoints_are_refused():
    """Wherever they end, and if something follows."""
    content = save(_chest())
    said = [refusal(Chest(), content[:length]) for length in range(len(content))]
    start = len("hyfdca checkpoint\n")
    assert said == [FOREIGN] * start + [DAMAGED] * (len(content) - start)
    assert refusal(Chest(), content + b"\0") == DAMAGED


def test_damaged_checkpoints_are_refused():
    """Every bit counts, those of the version too."""
    content = save(_chest())
    start = len("hyfdca checkpoint\n")
    for place in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        said = refusal(Chest(), damaged)
        assert said == (FOREIGN if place // 8 < start else DAMAGED)


def test_checkpoints_of_another_version_are_refused(monkeypatch):
    """With one sentence that names both versions, and says what to do."""
    monkeypatch.setattr(checkpoint, "__version__", "0.0.7")
    content = save(_chest())
    used = Chest()
    load(used, content)
    assert used.spare == Box(2.5)  # the same version takes it
    monkeypatch.undo()
    said = refusal(Chest(), content)
    assert_one_sentence(said + "\n")
    assert "written by hyfdca 0.0.7," in said
    assert f"this is {hyfdca.__version__};" in said


@pytest.mark.parametrize(
    ("thing", "content", "said"),
    [
        (Other(), save(Box(1)), "'BoxState'"),
        (Box(), save(Other(1)), "'OtherState'"),
        (Box(), save(Chest()), "'ChestState'"),
        (Chest(), save(Box()), "is a BoxState, not a ChestState"),
        (Box(), save(ServerSession(bytes(8))), "'SessionState'"),
        (ServerSession(bytes(8)), save(Box()), "'BoxState'"),
        (Box(), encode([BoxState(1)]), "is a list, not a BoxState"),
        (Box(), encode(None), "is a NoneType, not a BoxState"),
    ],
)
def test_states_of_others_are_refused(thing, content, said):
    """A state fits the class that it was saved of."""
    assert said in refusal(thing, content)


def test_a_state_with_other_fields_is_refused():
    """As of a class that kept more, or less."""
    for members in ([], [1, 2]):
        forged = _forged(msgspec.msgpack.encode(["BoxState", *members]))
        assert "does not read" in refusal(Box(), forged)
    assert decode(BoxState, _forged(msgspec.msgpack.encode(["BoxState", 1]))).value == 1


@dataclass(frozen=True)
class TypedState:
    """A field of every type that states have."""

    number: int = 1
    real: float = 0.5
    is_so: bool = True
    name: str = "a"
    content: bytes = b"a"
    reals: FloatArray = field(default_factory=lambda: np.zeros(2))
    counts: IntArray | None = None
    members: set[int] = field(default_factory=lambda: {3})
    parts: dict[int, tuple[int, FloatArray]] = field(
        default_factory=lambda: {1: (2, np.ones(1))}
    )
    lists: list[list[IntArray | None]] = field(
        default_factory=lambda: [[None, np.zeros(1, np.int64)]]
    )
    several: tuple[int, ...] = (1, 2, 3)
    recent: deque[tuple[FloatArray, FloatArray]] = field(
        default_factory=lambda: deque([(np.zeros(1), np.ones(1))], 4)
    )
    grid: Grid = field(default_factory=lambda: Grid(3, 4))
    rows: IntArray | slice = field(default_factory=lambda: slice(None))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("number", 1.0),
        ("number", "1"),
        ("real", 1),
        ("is_so", 1),
        ("name", b"a"),
        ("content", "a"),
        ("content", None),
        ("reals", np.zeros(2, np.int64)),
        ("reals", np.zeros(2, np.float32)),
        ("reals", [0.0, 0.0]),
        ("counts", np.zeros(2)),
        ("members", {0.5}),
        ("members", [3]),
        ("parts", {1: (2, np.ones(1, np.int64))}),
        ("parts", {"1": (2, np.ones(1))}),
        ("parts", {1: (2,)}),
        ("lists", [[None, 0]]),
        ("lists", [None]),
        ("several", (1, "2")),
        ("recent", deque([(np.zeros(1),)], 4)),
        ("recent", [(np.zeros(1), np.ones(1))]),
        ("grid", GridSpec(3, 4)),
        ("grid", None),
        ("rows", None),
    ],
)
def test_a_field_of_another_type_is_refused(name, wrong):
    """What is in a checkpoint has the types that the state says, all the way down."""
    good = TypedState()
    back = decode(TypedState, encode(good))
    assert all(same(getattr(back, name), value) for name, value in vars(good).items())
    forged = encode(TypedState(**{name: wrong}))
    with pytest.raises(CheckpointError, match=rf"{name} of TypedState|does not read"):
        decode(TypedState, forged)


def test_two_classes_of_one_name_are_refused():
    """One would be taken for the other."""
    namesake = make_dataclass("Grid", [("value", int)], frozen=True)
    both = make_dataclass("Both", [("one", Grid), ("other", namesake)], frozen=True)
    content = encode(both(Grid(1, 2), namesake(3)))
    with pytest.raises(CheckpointError, match="two classes of a state are named Grid"):
        decode(both, content)


def _forged(body):
    """Return bytes that nothing happened to on their way."""
    version = hyfdca.__version__.encode()
    digest = xxhash.xxh3_128_digest(version + body)
    return b"hyfdca checkpoint\n" + version + b"\n" + digest + body


@given(st.binary())
def test_bytes_that_are_no_state_are_refused(body):
    """Even if the digest fits."""
    assert refusal(Box(), body) in (FOREIGN, DAMAGED)
    refusal(Box(), _forged(body))


WORDS = "array same repeated list dict set slice deque int mpz float64 Grid GridSpec"
NODES = st.recursive(
    st.none()
    | st.integers(-3, 2**64 - 1)
    | st.floats()
    | st.binary(max_size=9)
    | st.sampled_from([*WORDS.split(), "BoxState", "<f8", "|O", "M8[s]"]),
    lambda inside: st.lists(inside, max_size=6) | st.dictionaries(st.text(), inside),
)


@given(NODES)
def test_values_that_nobody_wrote_are_refused_or_read(node):
    """Whatever is in the place of a value, only ``CheckpointError`` is raised."""
    forged = _forged(msgspec.msgpack.encode(["BoxState", node]))
    box = Box()
    before = save(box)
    try:
        load(box, forged)
    except CheckpointError:
        assert save(box) == before
    else:
        assert same(again(box.value), box.value)  # it was a value


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
    forged = _forged(msgspec.msgpack.encode(["BoxState", node]))
    assert "does not read" in refusal(Box(), forged)


def test_deep_values_are_refused():
    """A state cannot exhaust the stack."""
    for depth in (1500, 100_000):
        node = b"\x92\xa4list" * depth + b"\x01"  # a list in a list in a list ...
        body = msgspec.msgpack.encode(["BoxState", "here"])
        refusal(Box(), _forged(body.replace(b"\xa4here", node)))
