"""The contract of the table of schemes: exact sums, fresh seals, no wrong bytes."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hyfdca.algorithms.sealing import Sealing
from hyfdca.crypto import paillier_keys
from hyfdca.crypto.arrangement import Arrangement
from hyfdca.crypto.base import Adder, Sealer
from hyfdca.crypto.fixedpoint import GridOverflowError, grid_for
from hyfdca.crypto.paillier_keys import MODULUS_BITS, TEST_BITS, SecretKey
from hyfdca.crypto.schemes import (
    SCHEMES,
    Adders,
    Encryption,
    Sealers,
    Use,
    new_keys,
    public_parameters,
)
from hyfdca.protocol import messages as m
from tests.holdings import subsets

EVERYWHERE = slice(None)


class Subject(NamedTuple):
    """Both halves of a scheme, and its keys."""

    name: str
    encryption: Encryption
    keys: dict[str, bytes]
    sealers: Sealers
    sealer: Sealer
    adder: Adder


_SUBJECTS = {
    "none": ("none", Encryption()),
    "stream": ("stream", Encryption("stream")),
    "bfv": ("bfv", Encryption("bfv")),
    "bfv-compact": ("bfv", Encryption("bfv", "compact")),
    "paillier": ("paillier", Encryption("paillier")),
    "paillier-compact": ("paillier", Encryption("paillier", "compact")),
    "paillier-single": ("paillier-single", Encryption("paillier-single")),
}
_REAL = {
    f"{name}-{bits}": (name, Encryption(name, paillier_bits=bits))
    for name in ("paillier", "paillier-single")
    for bits in MODULUS_BITS
}


def fresh(name: str) -> Subject:
    """Return a scheme with new keys, small ones for Paillier in fast tests."""
    scheme, encryption = {**_SUBJECTS, **_REAL}[name]
    with pytest.MonkeyPatch.context() as patch:
        keys = new_keys(encryption) if name in _REAL or "paillier" not in name else None
        if keys is None:
            patch.setattr(paillier_keys, "MODULUS_BITS", (TEST_BITS,))
            key = SecretKey.generate(TEST_BITS, for_tests=True)
            keys = {"paillier": key.to_bytes()}
        sealers = Sealers(encryption, keys)
        adders = Adders(encryption, public_parameters(keys))
        return Subject(
            name, encryption, keys, sealers, sealers.named(scheme), adders.named(scheme)
        )


subject_named = cache(fresh)

FAST = pytest.mark.parametrize("name", _SUBJECTS)
SEALED = pytest.mark.parametrize("name", [name for name in _SUBJECTS if name != "none"])
PACKED = ["bfv", "bfv-compact", "paillier", "paillier-compact", "paillier-single"]
FEW = settings(max_examples=20)


def test_every_scheme_of_the_table_is_tested():
    """Nothing can be added to the table and left out here."""
    assert {scheme for scheme, _ in _SUBJECTS.values()} == set(SCHEMES)


def shape_of(subject, arrangement, width, items=None):
    """Return the units and their width that a server expects."""
    if subject.adder.n_slots is None:
        return (arrangement.n_items if items is None else len(items), width)
    blocks = arrangement.blocks(width, subject.adder.n_slots)
    return (len(blocks.covering(items)), 1)


def added(subject, arrangement, *tables):
    """Return the bytes of the sum of sealed tables."""
    adder, width = subject.adder, tables[0].shape[1]
    shape = shape_of(subject, arrangement, width)
    total = adder.zeros(shape)
    for table in tables:
        payload = subject.sealer.seal(table, arrangement)
        adder.add(total, EVERYWHERE, adder.load(on_the_wire(payload), shape))
    return on_the_wire(adder.dump(total))


def on_the_wire(payload):
    """Return bytes as they come out of a message: read-only and anywhere."""
    return memoryview(b"?" + bytes(payload))[1:]


@st.composite
def tables(draw, bits, n_tables=2, max_items=9):
    """Draw an arrangement and tables whose sums stay at or below 2**bits."""
    n_items, width = draw(st.integers(0, max_items)), draw(st.integers(1, 3))
    groups = draw(arrays(np.int64, n_items, elements=st.integers(0, 3)))
    largest = 2**bits // n_tables
    numbers = st.integers(-largest, largest) | st.sampled_from([-largest, largest, -1])
    shape = (n_items, width)
    drawn = [draw(arrays(np.int64, shape, elements=numbers)) for _ in range(n_tables)]
    return Arrangement(groups), drawn


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
@pytest.mark.parametrize("name", _REAL)
def test_a_sum_of_real_size_opens_to_the_sum(name):
    """The same with keys as studies have them."""
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
    """At its capacity, of the very same ciphertext, a sum of extremes is exact.

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
    """Neither adding nor taking changes the vector that came in."""
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
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.1, -1.1])
@pytest.mark.parametrize("rounding", ["nearest", "to zero", "up"])
def test_what_is_no_number_of_the_grid_is_never_sealed(name, value, rounding):
    """It asks for a coarser grid before anything is cast or sealed."""
    subject = subject_named(name)
    grid = grid_for(1.0, 2, subject.encryption.sum_bits)
    spec = m.GridSpec(grid.fraction_bits, grid.limit_bits)
    scheme, _ = _SUBJECTS[name]
    sealing = Sealing("sealed", subject.sealers, (2, 2), 1)
    notice = m.Arrangements(scheme, scheme, scheme, None, None)
    sealing.phases["arrange"].handle(notice)

    def refuse(*_):
        raise AssertionError("it was sealed")

    sealing._picked = dict.fromkeys(sealing._picked, refuse)
    values = np.array([[0.5], [2 * value if abs(value) < 2 else value]])
    assert isinstance(sealing.sample_part(values, spec, rounding), m.TooLarge)
    assert isinstance(sealing.feature_part(values, spec), m.TooLarge)
    assert isinstance(sealing.total_part(values, spec, rounding), m.TooLarge)
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


# Secrecy


@SEALED
def test_equal_tables_seal_differently(name):
    """Nobody can tell from the bytes that a table was sent again."""
    subject, again = subject_named(name), fresh(name)
    table, arrangement = np.zeros((6, 1), np.int64), Arrangement(np.arange(6) // 3)
    other = Sealers(subject.encryption, subject.keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paillier_keys, "MODULUS_BITS", (TEST_BITS, *MODULUS_BITS))
        sealers = [subject.sealer, other.named(_SUBJECTS[name][0]), again.sealer]
    sealed = [bytes(s.seal(table, arrangement)) for s in sealers for _ in range(2)]
    heads = {payload[-40:] for payload in sealed}
    assert len(set(sealed)) == len(heads) == 6
    assert {len(payload) for payload in sealed} == {len(sealed[0])}


@SEALED
def test_another_key_does_not_open(name):
    """It fails, or gives numbers that have nothing to do with those inside."""
    subject, stranger = subject_named(name), fresh(name)
    table = np.arange(12).reshape(12, 1)
    arrangement = Arrangement.together(12)
    payload = added(subject, arrangement, table, table)
    try:
        opened = stranger.sealer.open(payload, 1, arrangement)
    except ValueError:
        return
    assert np.abs(opened).min() > 2**20


@SEALED
def test_nothing_that_people_see_shows_a_secret(name):
    """Neither sealers nor what they are made of show a byte of a key."""
    subject = subject_named(name)
    inside = [getattr(subject.sealer, n, None) for n in ("_cipher", "_blocks", "_key")]
    cipher = inside[0]
    inside += [getattr(cipher, n, None) for n in ("_blocks", "pool", "_roots")]
    shown = [
        text
        for thing in (subject.sealers, subject.sealer, subject.adder, *inside)
        if thing is not None and not isinstance(thing, bytes)
        for text in (repr(thing), str(thing), f"{thing}")
    ]
    secrets = []
    for key in subject.keys.values():
        for start in range(0, len(key) - 8, 8):
            piece = key[start : start + 8]
            if len(set(piece)) > 4:  # BFV's are mostly zeros
                secrets += [piece.hex(), repr(piece)[2:-1]]
        if len(key) <= 1024:
            primes = (key, key[: len(key) // 2], key[len(key) // 2 :])
            secrets += [str(int.from_bytes(half, "little"))[:20] for half in primes]
    assert secrets
    for text in shown:
        assert not any(secret in text for secret in secrets)


def test_the_server_gets_no_secret():
    """What it needs to add are the modulus of Paillier, and otherwise nothing."""
    for name in _SUBJECTS:
        subject = subject_named(name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(paillier_keys, "MODULUS_BITS", (TEST_BITS, *MODULUS_BITS))
            public = public_parameters(subject.keys)
            expected = dict.fromkeys(subject.keys, b"")
            if "paillier" in subject.keys:
                key = SecretKey.from_bytes(subject.keys["paillier"])
                product = int(key.p) * int(key.q)
                expected["paillier"] = product.to_bytes(TEST_BITS // 8, "little")
        assert public == expected


# What is no ciphertext


def _readers(subject, arrangement, width):
    """Return the two who read bytes: the server a part, a client a sum."""
    shape = shape_of(subject, arrangement, width)
    part = bytes(subject.sealer.seal(np.ones((4, width), np.int64), arrangement))
    total = bytes(added(subject, arrangement, np.ones((4, width), np.int64)))
    return [
        (part, lambda payload: subject.adder.load(payload, shape)),
        (total, lambda payload: subject.sealer.open(payload, width, arrangement)),
    ]


@FAST
def test_a_payload_of_another_length_is_refused(name):
    """Cut, extended or empty, at either end."""
    for payload, read in _readers(subject_named(name), Arrangement.together(4), 2):
        read(memoryview(payload))
        spoilt = [payload[:n] for n in (0, 1, 8, len(payload) // 2, len(payload) - 1)]
        spoilt += [payload[1:], payload[8:], payload + b"\0", payload + bytes(8)]
        spoilt += [payload * 2, b"\0" + payload]
        for wrong in spoilt:
            with pytest.raises(ValueError):  # noqa: PT011  # each has its own words
                read(memoryview(wrong))


@FAST
@pytest.mark.parametrize("n_units", [(1, 0), (1, 2), (2, 1), (7, 8), (8, 7), (8, 17)])
def test_a_count_that_does_not_fit_is_refused(name, n_units):
    """A table of fewer or more units than the reader has is none of its."""
    subject = subject_named(name)
    n_slots = subject.adder.n_slots or 1
    theirs, ours = (Arrangement.together(n_slots * n) for n in n_units)
    table = np.ones((theirs.n_items, 1), np.int64)
    payload = on_the_wire(subject.sealer.seal(table, theirs))
    with pytest.raises(ValueError, match="expected"):
        subject.adder.load(payload, (n_units[1], 1))
    with pytest.raises(ValueError, match=r"expected|than it says"):
        subject.sealer.open(added(subject, theirs, table), 1, ours)
    nobody = subject.adder.zeros((n_units[0], 1))
    with pytest.raises(ValueError, match=r"expected|than it says"):
        subject.sealer.open(on_the_wire(subject.adder.dump(nobody)), 1, ours)


@FAST
@FEW
@given(data=st.data())
def test_a_flipped_bit_is_an_error_or_another_table(name, data):
    """Whatever bit it is, it never ends in anything but ``ValueError``."""
    arrangement = Arrangement(np.array([0, 1, 1, 0]))
    subject = subject_named(name)
    for payload, read in _readers(subject, arrangement, 1):
        place = data.draw(st.integers(0, min(len(payload), 80) - 1))
        place = data.draw(st.sampled_from([place, len(payload) - 1 - place]))
        flipped = bytearray(payload)
        flipped[place] ^= 1 << data.draw(st.integers(0, 7))
        try:
            found = read(memoryview(bytes(flipped)))
        except ValueError:
            continue
        if isinstance(found, np.ndarray):
            assert found.shape == (4, 1)
            assert found.dtype == np.int64


@pytest.mark.parametrize("names", [("bfv-compact", "bfv"), ("bfv", "bfv-compact")])
def test_a_ciphertext_of_other_parameters_is_refused(names):
    """Also where the bytes of blocks happen to be as many."""
    theirs, ours = map(subject_named, names)
    sizes = {"bfv-compact": 3, "bfv": 2}  # blocks of 196,608 bytes together
    n_theirs, n_ours = (4096 * sizes[name] for name in names)
    anything = np.arange(n_theirs)[:, None]
    payload = added(theirs, Arrangement.together(n_theirs), anything)
    n_blocks = sizes[names[1]]
    header = bytes([0xFF << (7 - n_blocks) & 0xFF])
    payload = memoryview(header + bytes(payload[1:]))
    with pytest.raises(ValueError, match=r"below its prime"):
        ours.adder.load(payload, (n_blocks, 1))
    with pytest.raises(ValueError, match="no ciphertext"):
        ours.sealer.open(payload, 1, Arrangement.together(n_ours))


@pytest.mark.parametrize("name", PACKED)
def test_a_part_without_a_block_is_refused(name):
    """Only sums may have blocks that are not there."""
    subject = subject_named(name)
    with pytest.raises(ValueError, match="missing"):
        subject.adder.load(memoryview(b"\x40"), (1, 1))


# Which scheme for what


@pytest.mark.parametrize(
    ("encryption", "names"),
    [
        (Encryption(), ("none",)),
        (Encryption("stream"), ("stream",)),
        (Encryption("bfv"), ("bfv", "stream")),
        (Encryption("bfv", small_vectors="same"), ("bfv",)),
        (Encryption("paillier"), ("paillier",)),
        (Encryption("paillier-single"), ("paillier-single",)),
    ],
    ids=lambda value: (
        value.scheme + value.small_vectors
        if value != () and hasattr(value, "scheme")
        else ""
    ),
)
def test_a_client_takes_the_schemes_of_its_study_alone(encryption, names):
    """Any other name is refused, none at all first of all."""
    keys = {"none": b"", "stream": bytes(32), "bfv": b"", "paillier": b""}
    sealers = Sealers(encryption, keys)
    assert encryption.names == names
    for name in {*SCHEMES, "", "NONE", "plain"} - set(names):
        with pytest.raises(ValueError, match="does not allow"):
            sealers.named(name)


@pytest.mark.parametrize(
    ("n_items", "share", "n_summands", "expected"),
    [
        (4096, 1.0, 3, "bfv"),
        (2000, 1.0, 3, "bfv"),
        (100, 1.0, 3, "stream"),
        (100_000, 1.0, 3, "bfv"),
        (100_000, 1e-3, 3, "stream"),
        (100_000, 1.0, 10_001, "stream"),
    ],
)
def test_blocks_are_used_where_they_fill(n_items, share, n_summands, expected):
    """Short vectors, few drawn samples and too long sums go number by number."""
    use = Use(Arrangement.together(n_items), 1, share, n_summands)
    public = {"bfv": b"", "stream": b""}
    assert Adders(Encryption("bfv"), public).pick(use) == expected
    same = Adders(Encryption("bfv", small_vectors="same"), public)
    if n_summands > 10_000:
        with pytest.raises(ValueError, match="adds up to 10,000 vectors"):
            same.pick(use)
    else:
        assert same.pick(use) == "bfv"


def test_tiny_owner_groups_go_number_by_number():
    """A block a group would be nearly empty."""
    use = Use(Arrangement(np.arange(4096) // 10), 1)
    adders = Adders(Encryption("bfv"), {"bfv": b"", "stream": b""})
    assert adders.pick(use) == "stream"
