"""The contract of the table of schemes: fresh seals, no wrong bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.crypto.schemes import paillier_keys
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.paillier_keys import MODULUS_BITS, TEST_BITS, SecretKey
from hyfdca.crypto.schemes.registry import (
    public_parameters,
)
from tests.crypto.scheme_cases import (
    FAST,
    FEW,
    PACKED,
    SEALED,
    SUBJECTS,
    added,
    fresh,
    on_the_wire,
    shape_of,
    subject_named,
)
from tests.support.set_keys import sealer_of


@SEALED
def test_equal_tables_seal_differently(name):
    """Nobody can tell from the bytes that a table was sent again."""
    subject, again = subject_named(name), fresh(name)
    table, arrangement = np.zeros((6, 1), np.int64), Arrangement(np.arange(6) // 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paillier_keys, "MODULUS_BITS", (TEST_BITS, *MODULUS_BITS))
        scheme = SUBJECTS[name][0]
        other = sealer_of(subject.encryption, subject.keys, scheme, subject.seed)
        sealers = [subject.sealer, other, again.sealer]
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
    """Neither sealers nor their parts show a byte of a key."""
    subject = subject_named(name)
    inside = [getattr(subject.sealer, n, None) for n in ("_cipher", "_keys", "_sealer")]
    cipher = inside[0]
    inside += [getattr(cipher, n, None) for n in ("_blocks", "pool", "_roots")]
    shown = [
        text
        for thing in (subject.sealers, subject.sealer, subject.adder, *inside)
        if thing is not None and not isinstance(thing, bytes)
        for text in (repr(thing), str(thing), f"{thing}")
    ]
    secrets = []
    for key in filter(None, (*subject.keys.values(), subject.seed)):
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
    for name in SUBJECTS:
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


# What is not a ciphertext


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
    """For any bit, the only error is ``ValueError``."""
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
    """It is refused even if its blocks happen to have as many bytes."""
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
    with pytest.raises(ValueError, match="not a ciphertext"):
        ours.sealer.open(payload, 1, Arrangement.together(n_ours))


@pytest.mark.parametrize("name", PACKED)
def test_a_part_without_a_block_is_refused(name):
    """Only sums may lack blocks."""
    subject = subject_named(name)
    with pytest.raises(ValueError, match="missing"):
        subject.adder.load(memoryview(b"\x40"), (1, 1))
