"""Whole vectors have check rows: what is added to them on the way is noticed."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.federation.sealing import vector_checks
from hyfdca.federation.sealing.kinds import FeatureKind, SampleKind, VectorKind
from hyfdca.federation.sealing.unopened import UnopenedError
from hyfdca.federation.sealing.vector_checks import CheckedVectors, Checks
from hyfdca.holdings.axis import Axis
from hyfdca.maths.seeds import stream
from hyfdca.protocol.messages import GridSpec, Sealed
from tests.federation.sealing.test_kinds import clients_of, summed
from tests.support.holding_strategies import subsets
from tests.support.sealed_runs import ENCRYPTIONS
from tests.support.thoroughness import IS_THOROUGH

pytestmark = pytest.mark.usefixtures("small_paillier")

N_ITEMS = 12
GRID = GridSpec(20, 30)
MANY = settings(max_examples=200 if IS_THOROUGH else 12)
SCHEMES = ["stream", "bfv", "bfv-compact", "paillier"]
PRIMES = (2**31 - 1, 2**30 + 3)  # anybody could try these
WHOLE = [
    *(VectorKind("samples", name) for name in get_args(SampleKind)),
    *(VectorKind("features", name) for name in get_args(FeatureKind)),
]


def drawn_sums(name, holdings, kind="margins"):
    """Return clients, their items, and the sum of vectors of random numbers."""
    encryption = ENCRYPTIONS[name]
    axis = Axis(N_ITEMS, tuple(np.array(items, np.int64) for items in holdings))
    clients = clients_of(encryption, axis)
    random = stream(len(holdings), "values")
    values = [random.normal(size=(len(items), 1)) for items in axis.items]
    parts = [
        own.sealed_values(kind, value, GRID)
        for own, value in zip(clients, values, strict=True)
    ]
    return clients, axis, values, parts


def forged(own, kind, change):
    """Return a vector with any numbers in it, check rows too, as if sealed."""
    sealer, arrangement = own.sealer(VectorKind("samples", kind)), own._samples
    payload = sealer._sealer.seal(change[:, None], arrangement.with_checks)
    return Sealed(GRID.fraction_bits, payload)


@pytest.mark.parametrize("name", SCHEMES)
@MANY
@given(
    holdings=st.lists(subsets(N_ITEMS), min_size=1, max_size=4),
    number=st.sampled_from([1, -1, 2**20, 2**41, *PRIMES, PRIMES[0] * 2**10]),
    data=st.data(),
)
def test_honest_sums_open_and_others_do_not(name, holdings, number, data):
    """Whatever is added to one number or check row, whoever holds it notices."""
    clients, axis, values, parts = drawn_sums(name, holdings)
    encryption = ENCRYPTIONS[name]
    total = summed(encryption, axis, parts)
    exact = np.zeros((N_ITEMS, 1))
    for items, own in zip(axis.items, values, strict=True):
        exact[items] += np.rint(own * 2.0**20) / 2.0**20
    for rank, (own, items) in enumerate(zip(clients, axis.items, strict=True)):
        opened = own.opened_samples("margins", total.take(rank, None))
        np.testing.assert_array_equal(opened, exact[items])
    rank = data.draw(st.sampled_from(range(len(clients))))
    victim = clients[rank]
    n_rows = victim._samples.with_checks.n_items
    if not n_rows:
        return
    change = np.zeros(n_rows, np.int64)
    change[data.draw(st.integers(0, n_rows - 1))] = number
    total.add(rank, forged(victim, "margins", change), None)
    with pytest.raises(UnopenedError):
        victim.opened_samples("margins", total.take(rank, None))


@MANY
@given(
    holdings=st.lists(subsets(N_ITEMS), min_size=1, max_size=3),
    number=st.integers(1, 2**64 - 1),
    data=st.data(),
)
def test_every_changed_word_is_noticed(holdings, number, data):
    """The server adds any number to any word of a sum that it has."""
    clients, axis, _, parts = drawn_sums("stream", holdings)
    total = summed(ENCRYPTIONS["stream"], axis, parts)
    rank = data.draw(st.sampled_from(range(len(clients))))
    [vector] = total.take(rank, None)
    n_words = clients[rank]._samples.with_checks.n_items
    if not n_words:
        return
    content = bytearray(vector.payload)
    words = np.frombuffer(content, np.uint8)[-8 * n_words :].view("<u8")
    place = data.draw(st.integers(0, n_words - 1))
    words[place] = (int(words[place]) + number) % 2**64
    changed = [Sealed(vector.fraction_bits, memoryview(content))]
    with pytest.raises(UnopenedError):
        clients[rank].opened_samples("margins", changed)


@pytest.mark.parametrize("kind", [kind for kind in WHOLE if kind.is_checked])
def test_every_kind_but_parts_has_check_rows(kind):
    """Each with factors and a prime of its own."""
    [own], *_ = drawn_sums("stream", [range(N_ITEMS)])
    sealer, other = own.sealer(kind), own.sealer(VectorKind("features", "weights"))
    assert isinstance(sealer, CheckedVectors)
    if kind == ("features", "weights"):
        return
    weights = [each._checks.weights(own._samples, None) for each in (sealer, other)]
    assert weights[0].primes[0] != weights[1].primes[0]
    assert np.any(weights[0].factors != weights[1].factors)


def test_kinds_of_which_rows_are_replaced_have_none():
    """These are the vectors of methods that draw samples; labels have others."""
    names = {kind.name for kind in WHOLE if not kind.is_checked}
    drawn = {"drawn margins", "drawn duals", "dual changes"}
    assert names == drawn | {"labels", "sample weights"}
    checked = {kind.name for kind in WHOLE if kind.has_checked_rows}
    assert checked == {"labels", "sample weights"}


@pytest.mark.parametrize("name", SCHEMES)
@MANY
@given(
    holdings=st.lists(subsets(N_ITEMS), min_size=1, max_size=3),
    number=st.sampled_from([1, -1, 2**41, *PRIMES]),
    data=st.data(),
)
def test_rows_that_are_handed_on_alone_have_checks(name, holdings, number, data):
    """Any rows open, and no number of theirs can be changed."""
    encryption = ENCRYPTIONS[name]
    axis = Axis(N_ITEMS, tuple(np.array(items, np.int64) for items in holdings))
    clients, kind = clients_of(encryption, axis), VectorKind("samples", "labels")
    rank = data.draw(st.sampled_from(range(len(clients))))
    own, n_held = clients[rank], len(axis.items[rank])
    rows = np.array(sorted(data.draw(st.sets(st.sampled_from(range(N_ITEMS))))))
    rows = rows[rows < n_held].astype(np.int64)
    if not len(rows):
        return
    values = np.arange(3.0 * len(rows)).reshape(-1, 3)
    part = own.sample_part("labels", values, GRID, rows=rows)
    total = summed(encryption, axis, [], width=4)
    total.add(rank, part.vector, rows)
    found = own.opened_samples("labels", total.take(rank, rows), rows, 3)
    np.testing.assert_array_equal(found, values)
    change = np.zeros((len(rows), 4), np.int64)
    place = data.draw(st.integers(0, change.size - 1))
    change.reshape(-1)[place] = number
    forgery = own.sealer(kind)._sealer.seal(change, own._samples, rows)
    total.add(rank, Sealed(GRID.fraction_bits, forgery), rows)
    with pytest.raises(UnopenedError):
        own.opened_samples("labels", total.take(rank, rows), rows, 3)


@pytest.mark.parametrize("kind", ["margins", "labels"])
def test_a_sum_is_on_the_grid_it_was_sealed_on(kind):
    """The server cannot multiply all numbers by a power of two."""
    axis = Axis(N_ITEMS, (np.arange(N_ITEMS), np.arange(3, 9)))
    encryption = ENCRYPTIONS["stream"]
    own, other = clients_of(encryption, axis)
    rows = np.arange(6)
    part = other.sample_part(kind, np.ones((6, 1)), GRID, rows=rows)
    total = summed(encryption, axis, [], width=2 * (kind == "labels"))
    total.add(1, part.vector, rows)
    held = np.arange(3, 9)
    [vector] = total.take(0, held)
    np.testing.assert_array_equal(own.opened_samples(kind, [vector], held), 1.0)
    for bits in (GRID.fraction_bits - 3, GRID.fraction_bits + 1):
        with pytest.raises(UnopenedError):
            own.opened_samples(kind, [Sealed(bits, vector.payload)], held)


def test_a_part_of_an_owner_group_has_no_check_row():
    """Whole groups do, in any number."""
    axis = Axis(6, (np.arange(6), np.arange(3)))
    encryption = ENCRYPTIONS["stream"]
    clients = clients_of(encryption, axis)
    value = np.arange(6.0)[:, None]
    parts = [
        own.sealed_values("margins", value[items], GRID)
        for own, items in zip(clients, axis.items, strict=True)
    ]
    total = summed(encryption, axis, parts)
    alone = np.arange(3, 6)
    found = clients[0].opened_samples("margins", total.take(0, alone), alone)
    np.testing.assert_array_equal(found, value[alone])
    with pytest.raises(UnopenedError):
        clients[0].opened_samples("margins", total.take(0, alone[:2]), alone[:2])


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("n_items", [0, 1, 63, 64, 65, 1000])
def test_combinations_are_exact(n_items, width):
    """They are those of whole numbers of any size, of either sign."""
    random = stream(n_items, "numbers")
    groups = np.sort(random.integers(0, 3, n_items))
    random.shuffle(groups)
    arrangement = Arrangement(groups)
    checks = Checks(lambda group: bytes([group]) * 32)
    weights, bits = checks.weights(arrangement, None), 30
    least, most = -(2**63), 2**63 - 1
    numbers = random.integers(least, most, (n_items, width), endpoint=True)
    if n_items:
        numbers[0, 0], numbers[-1, -1] = least, most
    expected = [
        [
            sum(
                int(number) * int(factor)
                for number, factor in zip(
                    numbers[groups == group, column], factors, strict=True
                )
            )
            * unit
            % prime
            for column in range(width)
        ]
        for group, prime, unit, factors in zip(
            arrangement.distinct,
            weights.primes.tolist(),
            weights.moduli(bits)[2].tolist(),
            (weights.factors[groups == group] for group in arrangement.distinct),
            strict=True,
        )
    ]
    found = vector_checks._combined(numbers, weights, bits)
    assert found.shape == (len(arrangement.distinct), width)
    assert found.tolist() == expected


def test_primes_are_primes():
    """Against division by all smaller odd numbers."""
    for key in range(20):
        prime = vector_checks._GroupSecrets(bytes([key]) * 32).prime
        assert 2**30 < prime < 2**31
        assert np.all(prime % np.arange(3, 2**15.5, 2).astype(np.int64))
