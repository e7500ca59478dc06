"""The contract of the table of schemes: sums are exact, nothing overflows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError, grid_for
from hyfdca.crypto.schemes.registry import SCHEMES
from hyfdca.federation.messages import Arrangements
from hyfdca.federation.sealing import client_sealing as sealing_module
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.protocol.messages import GridSpec, TooLarge
from tests.crypto.scheme_cases import (
    EVERYWHERE,
    FAST,
    FEW,
    PACKED,
    REAL,
    SUBJECTS,
    added,
    on_the_wire,
    shape_of,
    subject_named,
    tables,
)
from tests.support.holding_strategies import subsets


def test_every_scheme_of_the_table_is_tested():
    """Nothing can be added to the table and left out here."""
    assert {scheme for scheme, _ in SUBJECTS.values()} == set(SCHEMES)


# Sums


@FAST
@FEW
@given(data=st.data())
def test_a_sum_opens_to_the_sum(name, data):
    """Opening the sum of sealed tables gives their sum exactly, up to 2**sum_bits."""
    subject = subject_named(name)
    bits = subject.encryption.sum_bits
    arrangement, (first, second) = data.draw(tables(bits))
    payload = added(subject, arrangement, first, second)
    opened = subject.sealer.open(payload, first.shape[1], arrangement)
    assert opened.dtype == np.int64
    np.testing.assert_array_equal(opened, first + second)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_a_sum_of_real_size_opens_to_the_sum(name):
    """It also holds for keys of the size that studies use."""
    subject = subject_named(name)
    half = 2 ** (subject.encryption.sum_bits - 1)
    first = np.array([[half, -half], [1, -1], [0, half]])
    arrangement = Arrangement(np.array([0, 1, 0]))
    payload = added(subject, arrangement, first, first)
    opened = subject.sealer.open(payload, 2, arrangement)
    np.testing.assert_array_equal(opened, 2 * first)


@FAST
@pytest.mark.parametrize("sign", [-1, 1])
def test_extremes_side_by_side(name, sign):
    """Sums of exactly 2**sum_bits next to their opposites stay what they are."""
    subject = subject_named(name)
    half = sign * 2 ** (subject.encryption.sum_bits - 1)
    table = np.tile(np.array([[half, -half, 0]]), (5, 1))
    arrangement = Arrangement(np.array([0, 0, 1, 1, 1]))
    opened = subject.sealer.open(
        added(subject, arrangement, table, table), 3, arrangement
    )
    np.testing.assert_array_equal(opened, 2 * table)


@FAST
def test_as_many_summands_as_a_scheme_takes(name):
    """A sum of extremes of one ciphertext is exact at its capacity.

    Noise of one ciphertext adds up in a line: of different ones it grows less.
    """
    subject = subject_named(name)
    adder = subject.adder
    n_summands = min(adder.capacity, 10_000)
    assert n_summands >= {"bfv": 10_000, "bfv-compact": 1_000}.get(name, 16)
    largest = 2**subject.encryption.sum_bits // n_summands
    random = np.random.Generator(np.random.PCG64(0))
    table = random.integers(-largest, largest, (50, 1), endpoint=True)
    table[:4, 0] = [largest, -largest, 0, 1]
    arrangement = Arrangement.together(50)
    shape = shape_of(subject, arrangement, 1)
    vector = adder.load(on_the_wire(subject.sealer.seal(table, arrangement)), shape)
    total = adder.zeros(shape)
    n_summands = n_summands if "single" not in name else 200
    n_summands = n_summands if name != "stream" else 64  # lists of contributors
    for _ in range(n_summands):
        adder.add(total, EVERYWHERE, vector)
    opened = subject.sealer.open(on_the_wire(adder.dump(total)), 1, arrangement)
    np.testing.assert_array_equal(opened, n_summands * table)


@FAST
def test_a_sum_of_nothing_is_zero(name):
    """What nobody has added to opens to zeros."""
    subject = subject_named(name)
    arrangement = Arrangement(np.array([0, 2, 2]))
    shape = shape_of(subject, arrangement, 2)
    payload = on_the_wire(subject.adder.dump(subject.adder.zeros(shape)))
    opened = subject.sealer.open(payload, 2, arrangement)
    np.testing.assert_array_equal(opened, np.zeros((3, 2)))


@FAST
@FEW
@given(data=st.data())
def test_some_items_alone(name, data):
    """Some items can be sealed, put and opened by themselves; others stay."""
    subject = subject_named(name)
    adder, bits = subject.adder, subject.encryption.sum_bits
    arrangement, (before, after) = data.draw(tables(bits))
    width = before.shape[1]
    items = np.array(data.draw(subsets(arrangement.n_items)), np.int64)
    expected = before.copy()
    expected[items] = after[items]
    shape = shape_of(subject, arrangement, width)
    total = adder.zeros(shape)
    payload = subject.sealer.seal(before, arrangement)
    adder.add(total, EVERYWHERE, adder.load(on_the_wire(payload), shape))
    payload = subject.sealer.seal(after[items], arrangement, items, expected)
    units = items
    if adder.n_slots is not None:
        units = arrangement.blocks(width, adder.n_slots).covering(items)
    some = adder.load(
        on_the_wire(payload), shape_of(subject, arrangement, width, items)
    )
    adder.put(total, units, some)
    everything = on_the_wire(adder.dump(total))
    opened = subject.sealer.open(everything, width, arrangement)
    np.testing.assert_array_equal(opened, expected)
    part = on_the_wire(adder.dump(adder.take(total, units)))
    opened = subject.sealer.open(part, width, arrangement, items)
    np.testing.assert_array_equal(opened, after[items])


@FAST
@FEW
@given(data=st.data())
def test_units_are_added_put_and_taken_by_themselves(name, data):
    """Any sequence of it gives what it gives on whole numbers."""
    subject = subject_named(name)
    adder, bits = subject.adder, subject.encryption.sum_bits
    arrangement, vectors = data.draw(tables(bits, n_tables=4))
    width = vectors[0].shape[1]
    shape = shape_of(subject, arrangement, width)
    unit_of = np.repeat(np.arange(arrangement.n_items)[:, None], width, axis=1)
    if adder.n_slots is not None:
        first = arrangement.blocks(width, adder.n_slots).first
        unit_of = (first[:, None] + np.arange(width)) // adder.n_slots
    total, expected = adder.zeros(shape), np.zeros_like(vectors[0])
    for vector in vectors:
        loaded = adder.load(
            on_the_wire(subject.sealer.seal(vector, arrangement)), shape
        )
        where = np.array(data.draw(subsets(shape[0])), np.int64)
        is_there = np.isin(unit_of, where)
        if data.draw(st.booleans()):
            adder.add(total, where, adder.take(loaded, where))
            expected += np.where(is_there, vector, 0)
        else:
            adder.put(total, where, adder.take(loaded, where))
            expected = np.where(is_there, vector, expected)
    opened = subject.sealer.open(on_the_wire(adder.dump(total)), width, arrangement)
    np.testing.assert_array_equal(opened, expected)


@FAST
def test_adding_leaves_what_is_added(name):
    """Neither adding nor taking changes the incoming vector."""
    subject = subject_named(name)
    adder, arrangement = subject.adder, Arrangement(np.array([0, 0, 1]))
    table = np.arange(6).reshape(3, 2)
    shape = shape_of(subject, arrangement, 2)
    payload = on_the_wire(subject.sealer.seal(table, arrangement))
    vector, total = adder.load(payload, shape), adder.zeros(shape)
    for _ in range(2):
        adder.add(total, EVERYWHERE, vector)
    other = adder.zeros(shape)
    adder.add(other, EVERYWHERE, vector)
    opened = subject.sealer.open(on_the_wire(adder.dump(other)), 2, arrangement)
    np.testing.assert_array_equal(opened, table)


# Overflow


@FAST
@pytest.mark.usefixtures("small_paillier")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.1, -1.1])
@pytest.mark.parametrize("rounding", ["nearest", "to zero", "up"])
def test_what_is_no_number_of_the_grid_is_never_sealed(
    name, value, rounding, monkeypatch
):
    """It asks for a coarser grid before anything is cast or sealed."""
    subject = subject_named(name)
    grid = grid_for(1.0, 2, subject.encryption.sum_bits)
    spec = GridSpec(grid.fraction_bits, grid.limit_bits)
    scheme, _ = SUBJECTS[name]
    sealing = Sealing("sealed", subject.sealers, (2, 2), 1)
    sealing.arrange(Arrangements(scheme, scheme))

    def refuse(*_):
        raise AssertionError("it was sealed")

    monkeypatch.setattr(sealing_module, "_seal", refuse)
    values = np.array([[0.5], [2 * value if abs(value) < 2 else value]])
    assert isinstance(sealing.sample_part("margins", values, spec, rounding), TooLarge)
    assert isinstance(sealing.feature_part("weights", values, spec), TooLarge)
    assert isinstance(sealing.total_part("totals", values, spec, rounding), TooLarge)
    with pytest.raises(GridOverflowError):
        sealing.on_grid(values, spec)


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_number_beyond_a_slot_is_refused(name, sign):
    """It never wraps into another number."""
    subject = subject_named(name)
    too_large = sign * 2 ** (subject.encryption.sum_bits + 2)
    with pytest.raises(ValueError, match=r"beyond|exceeds"):
        subject.sealer.seal(np.array([[too_large]]), Arrangement.together(1))


@pytest.mark.parametrize("name", ["paillier", "paillier-single"])
def test_a_sum_beyond_a_slot_is_refused(name):
    """Where the scheme can tell, a sum that outgrew the grid does not open."""
    subject = subject_named(name)
    table = np.full((2, 1), 2**subject.encryption.sum_bits)
    arrangement = Arrangement.together(2)
    with pytest.raises(ValueError, match="exceeds"):
        subject.sealer.open(added(subject, arrangement, table, table), 1, arrangement)
