import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.crypto.schemes.plain import PlainAdder
from hyfdca.crypto.schemes.registry import Adders, Encryption
from hyfdca.crypto.schemes.stream_sums import NONCE_BYTES, StreamAdder
from hyfdca.federation.latest_sum import LatestSum
from hyfdca.federation.sums import CachedSum, RunningSum, layout_for
from hyfdca.federation.totals import sum_of
from hyfdca.holdings.axis import Axis
from hyfdca.maths.seeds import stream
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Sealed
from hyfdca.protocol.server_session import BadReplyError

N_ITEMS = 7
PLAIN = Adders(Encryption(), {"none": b""})
FINEST = 24  # all numbers of the oracle are multiples of 2**-FINEST


def _layout(axis, width):
    return layout_for(axis, np.zeros(axis.n_items, np.int64), width, PlainAdder())


def _sealed(numbers, bits):
    """Return a vector as it comes off the wire."""
    payload = bytearray(np.asarray(numbers, dtype="<i8").tobytes())
    return Sealed(bits, memoryview(payload))


def _exact(numbers, bits):
    """Return numbers on a grid as whole multiples of the finest step."""
    return np.asarray(numbers, dtype=np.int64) << (FINEST - bits)


def _opened(sums, n_items, n_outputs):
    """Return a sum in finest steps; checks that it has those items and no others."""
    total = np.zeros((n_items, n_outputs), dtype=np.int64)
    bits = [vector.fraction_bits for vector in sums]
    assert len(set(bits)) == len(bits)
    for vector in sums:
        assert len(vector.payload) == 8 * n_items * n_outputs
        numbers = np.frombuffer(vector.payload, "<i8").reshape(n_items, n_outputs)
        total += _exact(numbers, vector.fraction_bits)
    return total


@st.composite
def _axes(draw):
    subsets = st.lists(st.sampled_from(range(N_ITEMS)), unique=True)
    clients = draw(st.lists(subsets, min_size=1, max_size=4))
    items = tuple(np.array(sorted(held), dtype=np.int64) for held in clients)
    return Axis(N_ITEMS, items)


def _some_positions(draw, axis, client):
    """Draw none (all) or some of a client's positions."""
    held = len(axis.items[client])
    some = st.lists(st.sampled_from(range(held)), unique=True) if held else st.just([])
    positions = draw(st.one_of(st.none(), some))
    return None if positions is None else np.array(sorted(positions), dtype=np.int64)


def _numbers(draw, n_items, n_outputs):
    size = n_items * n_outputs
    values = st.lists(st.integers(-(2**30), 2**30), min_size=size, max_size=size)
    return np.array(draw(values), dtype=np.int64).reshape(n_items, n_outputs)


class Dense:
    """Each client's part in a table of its own; the sum is numpy's."""

    def __init__(self, axis, n_outputs):
        self.axis = axis
        self.parts = np.zeros((len(axis.items), N_ITEMS, n_outputs), dtype=np.int64)

    def items(self, client, positions):
        """Return the items at some or all of a client's positions."""
        held = self.axis.items[client]
        return held if positions is None else held[positions]

    def check(self, total, data, n_outputs):
        """Compare what every client takes, at all and at some of its positions."""
        for client in range(len(self.axis.items)):
            for positions in (None, _some_positions(data.draw, self.axis, client)):
                items = self.items(client, positions)
                opened = _opened(total.take(client, positions), len(items), n_outputs)
                np.testing.assert_array_equal(opened, self.parts.sum(axis=0)[items])


@given(axis=_axes(), n_outputs=st.integers(1, 3), data=st.data())
def test_a_running_sum_is_the_sum_of_all_changes(axis, n_outputs, data):
    """Changes on several grids add up, and a client takes its own items only."""
    total, dense = RunningSum(_layout(axis, n_outputs)), Dense(axis, n_outputs)
    dense.check(total, data, n_outputs)
    for _ in range(data.draw(st.integers(0, 5))):
        client = data.draw(st.sampled_from(range(len(axis.items))))
        positions = _some_positions(data.draw, axis, client)
        bits = data.draw(st.sampled_from([FINEST, 16, 3]))
        items = dense.items(client, positions)
        numbers = _numbers(data.draw, len(items), n_outputs)
        total.add(client, _sealed(numbers, bits), positions)
        dense.parts[client, items] += _exact(numbers, bits)
    dense.check(total, data, n_outputs)


@given(axis=_axes(), n_outputs=st.integers(1, 3), data=st.data())
def test_a_cached_sum_is_the_sum_of_latest_parts(axis, n_outputs, data):
    """Parts replace a client's old ones; those of absent clients stay."""
    total, dense = CachedSum(_layout(axis, n_outputs)), Dense(axis, n_outputs)
    dense.check(total, data, n_outputs)
    for _ in range(data.draw(st.integers(0, 6))):
        client = data.draw(st.sampled_from(range(len(axis.items))))
        positions = _some_positions(data.draw, axis, client)
        bits = data.draw(st.sampled_from([FINEST, 16, 3]))
        held = total.fraction_bits(client)
        if positions is not None and held is not None:
            bits = held  # a part stands on one grid
        items = dense.items(client, positions)
        numbers = _numbers(data.draw, len(items), n_outputs)
        total.put(client, _sealed(numbers, bits), positions)
        dense.parts[client, items] = _exact(numbers, bits)
        assert total.fraction_bits(client) == bits
        if data.draw(st.booleans()):  # what was taken before must not be remembered
            dense.check(total, data, n_outputs)
    dense.check(total, data, n_outputs)
    whole = _opened(total.take_all(), N_ITEMS, n_outputs)
    np.testing.assert_array_equal(whole, dense.parts.sum(axis=0))


AXIS = Axis(4, (np.array([0, 1, 3]), np.array([1, 2]), np.array([], dtype=np.int64)))


@pytest.mark.parametrize("kind", [RunningSum, CachedSum])
def test_a_sum_without_parts_is_empty(kind):
    """Before the first part there is no vector and no grid."""
    total = kind(_layout(AXIS, 2))
    assert total.take(0, None) == []
    assert total.take(0, np.array([1])) == []


def test_a_client_without_part_has_no_grid():
    """The grid of a part is known once there is a part."""
    total = CachedSum(_layout(AXIS, 1))
    assert total.fraction_bits(0) is None
    total.put(0, _sealed([[1], [2], [3]], 5))
    assert total.fraction_bits(0) == 5
    assert total.fraction_bits(1) is None


def test_positions_never_sent_count_as_zero():
    """A first part at some positions leaves the others at zero."""
    total = CachedSum(_layout(AXIS, 1))
    total.put(0, _sealed([[7]], FINEST), np.array([2]))
    assert _opened(total.take_all(), 4, 1).ravel().tolist() == [0, 0, 0, 7]


def test_a_grid_nobody_uses_any_more_is_forgotten():
    """A whole part on another grid leaves nothing on the old one."""
    total = CachedSum(_layout(AXIS, 1))
    total.put(0, _sealed([[1], [2], [3]], 9))
    total.put(0, _sealed([[1], [2], [3]], 4))
    assert [vector.fraction_bits for vector in total.take_all()] == [4]


BAD_SIZES = [0, 1, 8, 23, 25, 48]


@pytest.mark.parametrize("n_bytes", BAD_SIZES)
def test_malformed_parts_are_refused_and_change_nothing(n_bytes):
    """A vector of another size than the client's raises RemoteProtocolError."""
    bad = Sealed(9, memoryview(bytearray(n_bytes)))
    good = _sealed([[1], [2], [3]], FINEST)
    cached, running = (k(_layout(AXIS, 1)) for k in (CachedSum, RunningSum))
    cached.put(0, good)
    running.add(0, good, None)
    for send in (
        lambda: cached.put(0, bad),
        lambda: cached.put(0, Sealed(FINEST, bad.payload), np.array([0, 1])),
        lambda: running.add(0, bad, None),
        lambda: running.add(0, bad, np.array([0, 1])),
    ):
        with pytest.raises(RemoteProtocolError, match="does not load: expected"):
            send()
    assert cached.fraction_bits(0) == FINEST
    for total in (cached, running):
        assert _opened(total.take(0, None), 3, 1).ravel().tolist() == [1, 2, 3]


@given(n_parts=st.integers(1, 5), data=st.data())
def test_totals_add_up(n_parts, data):
    """Vectors that every sender has in full are added place by place."""
    shape = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 3)))
    parts = [_numbers(data.draw, *shape) for _ in range(n_parts)]
    total = sum_of(
        {client: _sealed(part, 11) for client, part in enumerate(parts)},
        math.prod(shape),
        PLAIN,
    )
    assert [vector.fraction_bits for vector in total] == [11]
    np.testing.assert_array_equal(
        _opened(total, *shape), _exact(np.sum(parts, axis=0), 11)
    )


@pytest.mark.parametrize("n_bytes", BAD_SIZES)
def test_malformed_totals_are_refused(n_bytes):
    """One vector of another size spoils the sum, and its sender is named."""
    spoilt = Sealed(9, memoryview(bytearray(n_bytes)))
    parts = {2: _sealed([[1], [2], [3]], 9), 5: spoilt}
    with pytest.raises(BadReplyError, match=r"client 5: .*does not load") as raised:
        sum_of(parts, 3, PLAIN)
    assert list(raised.value.reasons) == [5]


def test_a_part_of_a_whole_part_can_be_replaced():
    """A part that came as read-only bytes can be replaced at some positions."""
    axis = Axis(3, (np.array([0, 1, 2]),))
    total = CachedSum(_layout(axis, 1))
    whole = _sealed([1, 2, 3], 5)
    total.put(0, whole)
    total.put(0, _sealed([9], 5), np.array([1]))
    assert np.frombuffer(total.take(0)[0].payload, "<i8").tolist() == [1, 9, 3]
    assert np.frombuffer(whole.payload, "<i8").tolist() == [1, 2, 3]


def test_parts_on_different_grids_do_not_mix():
    """A part at some positions on another grid is refused, as are mixed totals."""
    axis = Axis(3, (np.array([0, 1, 2]),))
    total = CachedSum(_layout(axis, 1))
    total.put(0, _sealed([1], 5), np.array([0]))
    with pytest.raises(RemoteProtocolError):
        total.put(0, _sealed([8], 8), np.array([1]))
    with pytest.raises(BadReplyError, match=r"clients 0 and 4: .*different grids"):
        sum_of({0: _sealed([1], 5), 4: _sealed([8], 8)}, 1, PLAIN)
    with pytest.raises(RemoteProtocolError):
        sum_of({}, 1, PLAIN)


@given(axis=_axes(), data=st.data())
def test_a_latest_sum_keeps_what_nobody_replaced(axis, data):
    """Items of those who took part have their sum, others the sum from before."""
    total, expected = LatestSum(_layout(axis, 1)), np.zeros((N_ITEMS, 1), np.int64)
    clients = range(len(axis.items))
    for _ in range(3):
        active = data.draw(st.lists(st.sampled_from(clients), unique=True))
        bits = data.draw(st.sampled_from([16, FINEST]))
        parts = {c: np.full((len(axis.items[c]), 1), c + 1) for c in active}
        total.update({c: _sealed(part, bits) for c, part in parts.items()})
        for c in active:
            expected[axis.items[c]] = 0
        for c, part in parts.items():
            expected[axis.items[c]] += _exact(part, bits)
        restored = LatestSum(_layout(axis, 1))
        restored.restore(total.state())
        for client in clients:
            held = axis.items[client]
            for each in (total, restored):
                assert np.array_equal(
                    _opened(each.take(client), len(held), 1), expected[held]
                )


@pytest.mark.parametrize("senders", [(0, 1, 2, 3), (0, 1, 2), (0, 1), (0, 2)])
def test_sums_at_places_that_do_not_overlap_are_sent_as_parts_of_the_whole(senders):
    places = [np.array([0, 2, 3]), np.array([1, 4])]
    axis = Axis(5, (places[0], places[0], places[1], places[1]))
    rng = stream(0, "parts")
    parts = {
        client: Sealed(
            3, memoryview(rng.bytes(NONCE_BYTES + 8 * len(axis.items[client])))
        )
        for client in senders
    }
    layout = layout_for(axis, np.array([0, 1, 0, 0, 1]), 1, StreamAdder())
    alone, whole = CachedSum(layout), CachedSum(layout)
    alone.update(parts)
    whole.update(parts)
    whole.take_all()  # adds up all places
    assert alone.take_each(range(4)) == whole.take_each(range(4))
