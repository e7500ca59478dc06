"""What a client of the bundle method answers: all that honest servers ask."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hyfdca.algorithms.bundle.asked import PlaneNumbers, asked_by_bundle
from hyfdca.algorithms.bundle.buckets import buckets_of, open_groups, sealed_groups
from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.holdings import partition as parts
from hyfdca.holdings.axis import is_same_partition, owner_groups, renumbered
from hyfdca.holdings.layout import layout_of
from hyfdca.protocol.codec import RemoteProtocolError, pack_reals
from tests.protocol.wires import four_clients, listen
from tests.support.holding_strategies import overlapping_holdings

SEALED, OPEN = (
    SimpleNamespace(profile=profile, path=None) for profile in ("sealed", "open")
)


@given(
    overlapping_holdings(20, 4, max_clients=4),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 8),
)
def test_buckets_of_honest_servers_are_taken(holdings, sub_groups, min_size, most):
    """They are accepted however rows are shared, and however small groups are."""
    layout = layout_of(parts.from_holdings(20, 4, holdings))
    settings = Bundle(sub_groups=sub_groups, min_group_size=min_size)
    groups = owner_groups(layout.samples)
    for problem, fine in (
        (SEALED, sealed_groups(layout, sub_groups)),
        (OPEN, open_groups(layout, sub_groups, min_size)),
    ):
        asked = asked_by_bundle(settings, problem)
        buckets = buckets_of(layout, fine, most)
        for client, items in enumerate(layout.samples.items):
            own = renumbered(groups[items]) if len(items) else groups[items]
            asked.check_buckets(own, buckets.local(layout.samples, client))


@pytest.mark.parametrize(
    ("problem", "buckets"),
    [
        (SEALED, [0, 0, 0, 1, 2, 2]),
        (SEALED, [0, 1, 2, 3, 4, 5]),
        (OPEN, [0, 0, 1, 1, 2, 2]),
        (OPEN, [0, 0, 0, 1, 2, 2]),
    ],
)
def test_finer_buckets_are_refused(problem, buckets):
    """Three parts of a group where two are allowed; parts of one row instead of two."""
    asked = asked_by_bundle(Bundle(sub_groups=2, min_group_size=2), problem)
    groups = np.array([0, 0, 0, 0, 1, 1] if problem is SEALED else [0] * 6)
    with pytest.raises(RemoteProtocolError, match="more finely"):
        asked.check_buckets(groups, np.array(buckets))


def test_planes_are_numbered_by_collection_and_bucket():
    """The first numbers are those of the planes without a slope."""
    numbers = PlaneNumbers(n_buckets=2).with_collection(2, 3).with_collection(8, 1)
    assert numbers.buckets_of(np.arange(2, 10)).tolist() == [0, 0, 0, 1, 1, 1, 0, 1]
    assert numbers.with_collection(8, 1) == numbers  # asked again
    assert numbers.with_collection(10, 5).n_planes == (3, 1, 5)
    for first, n_planes in [(2, 3), (8, 2), (9, 1), (11, 1), (0, 1)]:
        with pytest.raises(RemoteProtocolError):
            numbers.with_collection(first, n_planes)


def test_other_numbers_of_planes_are_refused_and_change_nothing():
    """A server cannot have slopes counted to another bucket, to mix them freely."""
    run = four_clients("sealed", max_rounds=3)
    heard, _ = listen(run)
    run.finish()
    said = [said for said in heard if said.phase == "gram"][-1]
    half, request = run.clients[said.client], said.request
    first = request.first + len(request.slopes) * request.n_planes
    before = half.state().slopes
    for changed in (
        {"first": first + 1},
        {"first": first, "slopes": request.slopes * 2},
        {"first": first, "n_planes": 1},
    ):
        with pytest.raises(RemoteProtocolError):
            half.handlers["gram"](replace(request, **changed))
    assert half.state().slopes == before


def test_a_point_beyond_the_planes_is_refused_and_changes_nothing():
    """Weights of a bucket's planes that add up to more than 1 are not a mixture."""
    run = four_clients("sealed", max_rounds=3)
    heard, _ = listen(run)
    run.finish()
    said = [said for said in heard if said.phase == "trial"][-1]
    half = run.clients[said.client]
    weights, before = np.frombuffer(said.request.plane_weights), half.weights
    for wrong in (weights + 1.0, -weights, weights * (1 + 1e-6) + 1e-3):
        request = replace(said.request, plane_weights=pack_reals(wrong))
        with pytest.raises(RemoteProtocolError, match="not a mixture"):
            half.handlers["trial"](replace(request, move=run.server._move))
    assert half.weights is before


def test_partitions_are_compared_up_to_their_numbers():
    """Numbers do not matter, only what is together."""
    first = np.array([0, 0, 1, 2])
    assert is_same_partition(first, np.array([7, 7, 1, 0]))
    assert not is_same_partition(first, np.array([7, 7, 7, 0]))
    assert not is_same_partition(first, np.array([0, 1, 2, 3]))
