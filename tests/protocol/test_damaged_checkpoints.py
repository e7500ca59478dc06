"""Checkpoints that are damaged, forged or of others: refused, and nothing changes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, make_dataclass

import msgspec
import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

import hyfdca
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import Grid
from hyfdca.protocol import checkpoint
from hyfdca.protocol.checkpoint import CheckpointError, decode, encode, load, save
from hyfdca.protocol.messages import GridSpec
from hyfdca.protocol.server_session import ServerSession
from tests.protocol.boxes import (
    Box,
    BoxState,
    Chest,
    Other,
    again,
    same,
)
from tests.support.consortia import assert_one_sentence


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
    """They are refused wherever they end, and if something follows."""
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
    """One sentence names both versions and says what to do."""
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
    """It could be from a class that kept more, or less."""
    for members in ([], [1, 2]):
        forged = _forged(msgspec.msgpack.encode(["BoxState", *members]))
        assert "cannot be read" in refusal(Box(), forged)
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
    with pytest.raises(CheckpointError, match=rf"{name} of TypedState|cannot be read"):
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
    """They are refused even if the digest fits."""
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
    """Any value in another's place raises only ``CheckpointError``."""
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
    """Sizes in the bytes are not trusted, and invalid values are refused."""
    forged = _forged(msgspec.msgpack.encode(["BoxState", node]))
    assert "cannot be read" in refusal(Box(), forged)


def test_deep_values_are_refused():
    """A state cannot exhaust the stack."""
    for depth in (1500, 100_000):
        node = b"\x92\xa4list" * depth + b"\x01"  # a list in a list in a list ...
        body = msgspec.msgpack.encode(["BoxState", "here"])
        forged = _forged(body.replace(b"\xa4here", node))
        assert "cannot be read" in refusal(Box(), forged)
