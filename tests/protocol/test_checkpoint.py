"""Checkpoints as bytes: every kind of value comes back exactly."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, scalar_dtypes

from hyfdca.algorithms.bundle.lbfgs import Path
from hyfdca.algorithms.bundle.messages import Move
from hyfdca.crypto.schemes.blocks import Blocks
from hyfdca.crypto.schemes.fixedpoint import Grid
from hyfdca.crypto.schemes.stream_sums import Padded, StreamAdder
from hyfdca.protocol.checkpoint import load, save
from hyfdca.protocol.messages import GridSpec
from hyfdca.protocol.server_session import ServerSession
from tests.protocol.boxes import (
    Box,
    Chest,
    again,
    same,
)

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
    later.present = {0}
    load(later, earlier)
    assert later.present is None
    assert later.number == 3
    assert later._last == {}
    load(session, kept)
    assert session.number == 3
    assert session._last == {0: "shares", 2: "margins"}
