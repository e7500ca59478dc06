"""A vector opens as what it was sealed as, to those who share it, and else to noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.registry import Adders, Encryption, public_parameters
from hyfdca.federation.messages import Arrangements
from hyfdca.federation.owner_groups import OwnerGroups
from hyfdca.federation.sealing.client_sealing import Sealing, open_sum
from hyfdca.federation.sealing.kinds import Axis as Axes
from hyfdca.federation.sealing.kinds import VectorKind
from hyfdca.federation.sums import RunningSum, layout_for, whole_layout
from hyfdca.federation.totals import sum_of
from hyfdca.holdings.axis import Axis
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import GridSpec, Sealed, Sums, TotalsSpec
from tests.support.holding_strategies import subsets
from tests.support.sealed_runs import ENCRYPTIONS, keys_of
from tests.support.set_keys import sealers_of
from tests.support.thoroughness import IS_THOROUGH

GRID = GridSpec(20, 50)
N_ITEMS = 12
MANY = settings(max_examples=200 if IS_THOROUGH else 12)  # keys of BFV take time


def clients_of(encryption: Encryption, axis: Axis) -> list[Sealing]:
    """Return clients that hold these items by sample and by feature, arranged."""
    groups = OwnerGroups(axis, bytes(32), "items")
    keys, n_clients = keys_of(encryption), len(axis.items)
    clients = []
    for rank, items in enumerate(axis.items):
        sealers = sealers_of(encryption, keys, rank, n_clients)
        sealing = Sealing("sealed", sealers, (len(items), len(items)), 1)
        packed, owners = groups.packed(rank), groups.owners(rank)
        scheme = encryption.scheme
        sealing.arrange(Arrangements(scheme, scheme, packed, packed, owners, owners))
        clients.append(sealing)
    return clients


def summed(
    encryption: Encryption, axis: Axis, parts: list[Sealed], width: int = 0
) -> RunningSum:
    """Return the sum of the clients' parts, as the server adds them.

    With a width it is one of vectors of which rows are handed on alone.
    """
    adder = Adders(encryption, public_parameters(keys_of(encryption))).named(
        encryption.scheme
    )
    numbers = OwnerGroups(axis, bytes(32), "items").numbers
    layout = layout_for if width else whole_layout
    total = RunningSum(layout(axis, numbers, width or 1, adder))
    for client, part in enumerate(parts):
        total.add(client, part, None)
    return total


@pytest.mark.parametrize("name", ["stream", "bfv-compact"])
@MANY
@given(holdings=st.lists(subsets(N_ITEMS), min_size=1, max_size=4))
def test_only_holders_open_and_only_as_what_it_is(name, holdings):
    """Sums open to their holders; another kind or axis, or another set, gives noise."""
    encryption = ENCRYPTIONS[name]
    axis = Axis(N_ITEMS, tuple(np.array(items, np.int64) for items in holdings))
    clients = clients_of(encryption, axis)
    value = np.arange(1.0, N_ITEMS + 1)[:, None]
    parts = [
        own.sealed_values("margins", value[items], GRID)
        for own, items in zip(clients, axis.items, strict=True)
    ]
    total = summed(encryption, axis, parts)
    for rank, (own, items) in enumerate(zip(clients, axis.items, strict=True)):
        if not len(items):
            continue
        sums = total.take(rank, None)
        expected = value[items] * axis.counts[items, None]
        np.testing.assert_array_equal(own.opened_samples("margins", sums), expected)
        assert is_noise(unchecked(own, "samples", "duals", sums), expected)
        assert is_noise(unchecked(own, "features", "weights", sums), expected)


@pytest.mark.parametrize("name", ["stream", "bfv-compact"])
@MANY
@given(holdings=st.lists(subsets(N_ITEMS), min_size=2, max_size=4))
def test_a_client_opens_nothing_of_groups_it_is_not_in(name, holdings):
    """It has the bytes of another client's part, and all secrets it was ever given."""
    encryption = ENCRYPTIONS[name]
    axis = Axis(N_ITEMS, tuple(np.array(items, np.int64) for items in holdings))
    groups = OwnerGroups(axis, bytes(32), "items")
    victim, thief = clients_of(encryption, axis)[:2]
    items = axis.items[0]
    part = victim.sealed_values("margins", np.ones((len(items), 1)), GRID)
    shared = np.isin(items, axis.items[1])
    if shared.all():
        return
    # The server says that all of these are groups of the thief, with some of its sets.
    numbers = groups.numbers[items]
    held = np.unique(groups.numbers[axis.items[1]]).tolist()
    own = dict(zip(held, groups.owners(1), strict=True))
    owners = [own.get(group, (1,)) for group in np.unique(numbers).tolist()]
    opener = Sealing("sealed", thief._by_kind.sealers, (len(items), 0), 1)
    scheme = encryption.scheme
    packed = memoryview(numbers.astype(np.uint32).tobytes())
    opener.arrange(Arrangements(scheme, scheme, packed, None, tuple(owners)))
    alone = Axis(len(items), (np.arange(len(items)),))
    adder = Adders(encryption, public_parameters(keys_of(encryption))).named(scheme)
    total = RunningSum(whole_layout(alone, numbers, 1, adder))
    total.add(0, part, None)
    opened = unchecked(opener, "samples", "margins", total.take(0, None))
    np.testing.assert_array_equal(opened[shared], 1.0)
    assert is_noise(opened[~shared], 1.0)


def unchecked(own: Sealing, axis: Axes, kind: str, sums: Sums) -> FloatArray:
    """Open a sum without the checks of it and of its range: they refuse noise."""
    arrangement = own._samples if axis == "samples" else own._features
    sealer, checked = (
        own.sealer(VectorKind(axis, kind))._sealer,
        arrangement.with_checks,
    )
    opened = open_sum(sums, 1, sealer, checked, None, sum_bits=63)
    return opened[: arrangement.n_items]


def is_noise(opened, expected) -> bool:
    """Return whether no number is right; all are spread over the whole range."""
    return bool(np.all(opened != expected) and np.abs(opened).min() > 2.0**2)


# Totals


def totals_of(n_clients: int, opener: int, values: np.ndarray) -> tuple[list, list]:
    """Return clients, and their totals sealed to one of them."""
    encryption = Encryption("stream")
    every = tuple(np.arange(1) for _ in range(n_clients))
    clients = clients_of(encryption, Axis(1, every))
    spec = TotalsSpec(20, 50, opener)
    parts = [own.sealed_totals("totals", values, spec) for own in clients]
    return clients, parts


ADDERS = Adders(Encryption("stream"), {"stream": b""})


@pytest.mark.parametrize("opener", [0, 2])
def test_totals_open_to_the_one_they_are_sealed_to(opener):
    """The sum of all opens; nobody else opens it, nor any part."""
    values = np.array([1.5, -2.0, 7.0])
    clients, parts = totals_of(3, opener, values)
    total = sum_of(dict(enumerate(parts)), 3, ADDERS)
    for rank, own in enumerate(clients):
        if rank == opener:
            opened = own.opened_totals("totals", total, (1, 3))
            np.testing.assert_array_equal(opened, 3 * values[None])
            continue
        for stolen in (total, *(sum_of({0: part}, 3, ADDERS) for part in parts[:1])):
            with pytest.raises(RemoteProtocolError, match="does not open"):
                own.opened_totals("totals", stolen, (1, 3))


def test_what_is_no_sum_of_totals_is_refused():
    """Other kinds of totals, other widths and changed words do not open."""
    clients, parts = totals_of(2, 0, np.array([1.0, 2.0, 3.0]))
    total = sum_of(dict(enumerate(parts)), 3, ADDERS)
    with pytest.raises(RemoteProtocolError, match="nobody is named"):
        clients[0].opened_totals("weight totals", total, (1, 3))
    with pytest.raises(RemoteProtocolError, match="does not open"):
        clients[0].opened_totals("totals", total, (1, 2))
    [sealed] = total
    changed = bytearray(sealed.payload)
    changed[-9] ^= 1
    wrong = [Sealed(sealed.fraction_bits, memoryview(changed))]
    with pytest.raises(RemoteProtocolError, match="does not open"):
        clients[0].opened_totals("totals", wrong, (1, 3))


def test_grand_totals_have_one_opener_whatever_is_arranged():
    """Owners of totals are those of weights and targets, which several clients open."""
    clients, _ = totals_of(3, 0, np.ones(1))
    owners = (0, 1, 2)
    for own in clients:
        own.arrange(Arrangements("stream", "stream", totals_owners=owners))
    spec, values = TotalsSpec(20, 50, 0), np.array([3.0, 4.0])
    total = sum_of({2: clients[2].sealed_totals("totals", values, spec)}, 2, ADDERS)
    with pytest.raises(RemoteProtocolError, match="does not open"):
        clients[1].opened_totals("totals", total, (1, 2))
    part = clients[2].sealed_totals("weight totals", values, GRID)
    opened = clients[1].opened_totals(
        "weight totals", sum_of({2: part}, 2, ADDERS), (1, 2)
    )
    np.testing.assert_array_equal(opened, values[None])


def test_totals_by_bucket_have_checksums_of_their_own():
    """Each bucket is the sum of those who have it, and opens as such."""
    clients, _ = totals_of(3, 1, np.ones(1))
    spec, held = TotalsSpec(20, 50, 1), [[0, 1], [1, 2], [0, 2]]
    axis = Axis(3, tuple(np.array(own) for own in held))
    total = RunningSum(layout_for(axis, np.arange(3), *ADDERS.totals(2)))
    for rank, (own, buckets) in enumerate(zip(clients, held, strict=True)):
        values = np.array([[10.0 * b + rank, 0.5] for b in buckets])
        sealed = own.sealed_by_bucket(values, spec, Arrangement(np.array(buckets)))
        total.add(rank, sealed, None)
    opened = clients[1].opened_totals("totals", total.take_all(), (3, 2))
    np.testing.assert_array_equal(opened, [[2.0, 1.0], [21.0, 1.0], [43.0, 1.0]])
