"""Oblivious pseudonyms: the same for the same ID, and none without the key."""

from __future__ import annotations

import hashlib

import nacl.bindings as sodium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyfdca.crypto.keys.oblivious import (
    InvalidPointError,
    SecretFactor,
    id_points,
    point_pseudonyms,
    unpack_points,
)
from tests.support.thoroughness import examples

KEY = bytes(range(32))
IDS = st.lists(st.text(), unique=True, min_size=1, max_size=4)

# Points of order 1, 2, 4 and 8, as libsodium's list of small orders has them.
SMALL_ORDERS = [
    bytes([1, *bytes(31)]),
    bytes([0xEC, *[0xFF] * 30, 0x7F]),
    bytes(32),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
]
INVALID = {
    "not on the curve": bytes([2, *bytes(31)]),
    "not the one way to write it": bytes([0xEE, *[0xFF] * 30, 0x7F]),
    **{f"of order {2**i}": point for i, point in enumerate(SMALL_ORDERS)},
}


def factors(number):
    return [SecretFactor.generate() for _ in range(number)]


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(IDS)
def test_blinding_changes_no_pseudonym(ids):
    """The owner of an ID gets the pseudonym that the owner of the key computes."""
    key_of_asker, blinding = SecretFactor.generate(), SecretFactor.generate()
    direct = key_of_asker.times(id_points(ids, KEY))
    shown = blinding.times(id_points(ids, KEY))
    unblinded = blinding.inverse().times(key_of_asker.times(shown))
    assert unblinded == direct
    assert not {*shown} & {*direct}
    pseudonyms = point_pseudonyms(ids, unblinded, KEY)
    assert pseudonyms.shape == (len(ids), 2)
    assert len({*map(tuple, pseudonyms.tolist())}) == len(ids)


def test_what_is_computed():
    """Points and pseudonyms are those that the protocol's description gives."""
    uniform = hashlib.blake2b(b"r1", key=KEY, person=b"hyfdca id point")
    halves = uniform.digest()[:32], uniform.digest()[32:]
    point = sodium.crypto_core_ed25519_add(
        *map(sodium.crypto_core_ed25519_from_uniform, halves)
    )
    assert id_points(["r1"], KEY) == [point]
    digest = hashlib.blake2b(
        point + b"r1", digest_size=16, key=KEY, person=b"hyfdca blind id"
    )
    expected = np.frombuffer(digest.digest(), "<u8")
    assert np.array_equal(point_pseudonyms(["r1"], [point], KEY)[0], expected)


def test_other_keys_give_other_points():
    """A server, which does not have the clients' key, cannot compute a point."""
    assert id_points(["r1"], KEY) != id_points(["r1"], bytes(32))


def test_what_a_key_makes_of_public_points():
    """It is what their own factors make of the key's public point, so it is known."""
    key_of_asker, checks = SecretFactor.generate(), factors(5)
    points = [check.public() for check in checks]
    assert len({*points}) == 5
    assert all(map(sodium.crypto_core_ed25519_is_valid_point, points))
    known = [check.times([key_of_asker.public()])[0] for check in checks]
    assert key_of_asker.times(points) == known
    assert SecretFactor.generate().times(points) != known


@pytest.mark.parametrize("point", INVALID.values(), ids=INVALID)
def test_invalid_points_are_refused(point):
    """No secret factor is applied to bytes that are not a point of the subgroup."""
    with pytest.raises(InvalidPointError, match="a point is invalid"):
        SecretFactor.generate().times([SecretFactor.generate().public(), point])


@pytest.mark.parametrize("small", SMALL_ORDERS[1:], ids=["2", "4", "8"])
def test_points_outside_the_subgroup_are_refused(small):
    """A point of the subgroup plus one of small order would show bits of a factor."""
    point = SecretFactor.generate().public()
    mixed = sodium.crypto_core_ed25519_add(point, small)
    with pytest.raises(InvalidPointError, match="a point is invalid"):
        SecretFactor.generate().times([mixed])


def test_truncated_points():
    """Bytes that are not a whole number of points are refused."""
    points = [factor.public() for factor in factors(2)]
    assert unpack_points(memoryview(b"".join(points))) == points
    with pytest.raises(InvalidPointError, match="truncated"):
        unpack_points(memoryview(b"".join(points)[:-1]))


def test_a_factor_shows_nothing_of_itself():
    """A factor that reaches a message or a log by mistake does not show its number."""
    factor = SecretFactor.generate()
    assert factor.scalar.hex() not in repr(factor)
    assert str(factor.scalar) not in repr(factor)
