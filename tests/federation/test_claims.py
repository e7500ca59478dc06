"""What clients claim, and what they are asked to hold, is bounded."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from msgspec.structs import replace

from hyfdca.algorithms.bundle import messages as b
from hyfdca.federation import messages as m
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_indices,
    pack_numbers,
    pack_reals,
)
from hyfdca.protocol.messages import GridSpec, Sealed
from hyfdca.protocol.server_session import BadReplyError
from tests.protocol.wires import four_clients, listen
from tests.support.small_runs import make_training, set_up, table_for
from tests.support.small_runs import partition_of as partition

_LITTLE = 20_000_000  # bytes, of which a small study needs a hundredth


def costs_little(act):
    """Check that something is refused, and takes little memory until then."""
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError) as raised:
            act()
        assert tracemalloc.get_traced_memory()[1] < _LITTLE
    finally:
        tracemalloc.stop()
    return str(raised.value)


@pytest.mark.parametrize("vectors", [[], [Sealed(0, memoryview(bytes(8)))]])
def test_totals_larger_than_what_came_of_them(vectors):
    """A few bytes that say they are 10^8 numbers are refused before any is made."""
    party = set_up(four_clients()).parties[0]
    request = m.OpenRequest([vectors], [(1_000_000, 100)])
    assert "the wrong shape" in costs_little(lambda: party.open_totals(request))


def test_buckets_without_samples():
    """Each bucket of a client has one of its samples, so there are not many."""
    client = set_up(four_clients()).clients[0]
    numbers = np.arange(100)
    notice = b.BucketsNotice(
        pack_indices(numbers), pack_indices(np.zeros(client.party.n_held))
    )
    said = costs_little(lambda: client.handlers["buckets"](notice))
    assert "none of this client's samples" in said


def test_more_buckets_than_the_study_has():
    """The study's own limit holds, whatever a server says."""
    client = set_up(four_clients(max_buckets=2)).clients[0]
    numbers = np.arange(3)
    places = np.arange(client.party.n_held) % 3
    notice = b.BucketsNotice(pack_indices(numbers), pack_indices(places))
    with pytest.raises(RemoteProtocolError, match="below 2"):
        client.handlers["buckets"](notice)


@pytest.mark.parametrize(
    ("n_slopes", "message"), [(100, "come with their slopes"), (200_000, "slopes")]
)
def test_slopes_of_nobody(n_slopes, message):
    """Empty sums of many buckets are refused before room is made for them."""
    client = set_up(four_clients()).clients[0]
    request = b.GramRequest(
        pack_indices(np.array([])),
        1,
        [[]] * n_slopes,
        64,
        pack_reals(np.ones(64)),
        GridSpec(10, 50),
    )
    assert message in costs_little(lambda: client.handlers["gram"](request))


@pytest.mark.parametrize(
    "field", ["row_norm", "column_sum", "slope_at_zero", "loss_at_zero"]
)
@pytest.mark.parametrize("algorithm", ["bundle", "hyfdca", "fedavg"])
def test_huge_bounds_name_the_client_that_claims_them(field, algorithm):
    """Grids for such numbers would have others' requests fail."""
    X, y = table_for("logistic")
    run = make_training(X, y, partition("2x2"), loss="logistic", algorithm=algorithm)
    _, wires = listen(run)
    wires[2].tamper["bounds"] = (m.Bounds, lambda r: replace(r, **{field: 1e140}))
    with pytest.raises(BadReplyError, match="too large to train with") as raised:
        run.finish()
    assert list(raised.value.reasons) == [2]


def test_bounds_that_leave_no_grid_for_the_start():
    """The client with the widest bounds is among those that are named."""
    X, y = table_for("logistic")
    run = make_training(X, y, partition("2x2"), loss="logistic", algorithm="fedavg")
    _, wires = listen(run)
    wires[2].tamper["bounds"] = (m.Bounds, lambda r: replace(r, column_sum=1e51))
    with pytest.raises(BadReplyError, match="no grid fits") as raised:
        run.finish()
    assert 2 in raised.value.reasons


@pytest.mark.parametrize("value", [2**60, -(2**60)])
def test_totals_beyond_the_range_of_their_sum(value):
    """An opener cannot report numbers that no sum on that grid can be."""
    run = four_clients()
    _, wires = listen(run)
    wires[0].tamper["open planes"] = (
        m.Opened,
        lambda r: m.Opened(pack_numbers(np.full(len(r.values) // 8, value))),
    )
    with pytest.raises(BadReplyError, match="beyond the range of its sum") as raised:
        run.finish()
    assert list(raised.value.reasons) == [0]


def test_sums_beyond_the_range_of_sums():
    """A client does not believe that margins are 2^62 steps of their grid."""
    party = set_up(four_clients()).parties[0]
    numbers = np.full(party.n_held, 2**62, "<i8")
    sums = [Sealed(40, memoryview(numbers.tobytes()))]
    with pytest.raises(RemoteProtocolError, match="a sum does not open"):
        party.margins(sums)
