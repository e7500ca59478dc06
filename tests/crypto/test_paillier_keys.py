"""Paillier's keys and blindings: only good ones are taken, and each blinding once."""

from __future__ import annotations

import copy
import math
import os
import pickle  # noqa: TID251  # to show that it is refused

import gmpy2
import pytest
from gmpy2 import mpz

from hyfdca.crypto.schemes.paillier_blinding import BlindingPool
from hyfdca.crypto.schemes.paillier_keys import PublicKey, SecretKey

KEY = SecretKey.generate(512, for_tests=True)
P, Q = KEY.p, KEY.q


def test_generated_keys():
    """Primes differ, fill their halves, and the modulus fills its length."""
    for _ in range(10):
        key = SecretKey.generate(512, for_tests=True)
        assert key.p != key.q
        assert key.p.bit_length() == key.q.bit_length() == 256
        assert key.public.modulus == key.p * key.q
        assert key.public.bits == 512
        assert gmpy2.is_prime(key.p)
        assert gmpy2.is_prime(key.q)
        assert gmpy2.gcd(key.p * key.q, (key.p - 1) * (key.q - 1)) == 1


@pytest.mark.parametrize("bits", [2048, 3072])
def test_keys_of_real_size(bits):
    """Real keys have their length and survive their bytes."""
    key = SecretKey.generate(bits)
    assert key.public.bits == bits
    assert SecretKey.from_bytes(key.to_bytes()) == key
    assert PublicKey.from_bytes(key.public.to_bytes()) == key.public
    assert len(key.to_bytes()) == len(key.public.to_bytes()) == bits // 8


def test_small_keys_are_for_tests():
    """512 bits are refused unless requested by name."""
    makers = [
        lambda: SecretKey.generate(512),
        lambda: SecretKey(P, Q),
        lambda: SecretKey.from_bytes(KEY.to_bytes()),
        lambda: PublicKey(P * Q),
        lambda: PublicKey.from_bytes(KEY.public.to_bytes()),
    ]
    for make in makers:
        with pytest.raises(ValueError, match="has 2048 or 3072 bits, not 512"):
            make()


@pytest.mark.parametrize("bits", [0, 256, 1024, 2049, 4096])
def test_other_lengths(bits):
    """Keys of other lengths do not exist, not even in tests."""
    with pytest.raises(ValueError, match=f"not {bits}"):
        SecretKey.generate(bits, for_tests=True)


def _prime_like(start, bits):
    prime = gmpy2.next_prime(start)
    assert prime.bit_length() == bits
    return prime


BAD_PRIMES = {
    "equal": (P, P, "equal or too close"),
    "close": (P, gmpy2.next_prime(P), "equal or too close"),
    "composite": (P, Q - 1, "not one"),
    "a square of a prime": (P, gmpy2.next_prime(mpz(15) << 124) ** 2, "not one"),
    "long q": (P, _prime_like(mpz(1) << 256, 257), "equal length"),
    "short q": (P, _prime_like(mpz(1) << 254, 255), "equal length"),
    "a short product": (
        _prime_like(mpz(1) << 255, 256),
        _prime_like((mpz(1) << 255) + (mpz(1) << 253), 256),
        "fill a modulus",
    ),
    "zero": (mpz(0), Q, "bits, not 0"),
    "negative": (P, -Q, "not one"),
}


@pytest.mark.parametrize("case", BAD_PRIMES)
def test_bad_secret_keys(case):
    """Numbers that are not two good primes make no key."""
    p, q, message = BAD_PRIMES[case]
    with pytest.raises(ValueError, match=message):
        SecretKey(p, q, for_tests=True)


@pytest.mark.parametrize(
    ("modulus", "message"),
    [
        (P * Q - 1, "small factors"),
        (gmpy2.next_prime(mpz(15) << 508), "product of two primes"),
        (P**2, "product of two primes"),
        (P, "bits, not 256"),
        (mpz(0), "bits, not 0"),
        (-(P * Q), "no sign"),
    ],
)
def test_bad_moduli(modulus, message):
    """A modulus that can be no product of two primes is refused."""
    with pytest.raises(ValueError, match=message):
        PublicKey(modulus, for_tests=True)


@pytest.mark.parametrize("reader", [SecretKey.from_bytes, PublicKey.from_bytes])
def test_bytes_that_are_no_key(reader):
    """Truncated, long or empty bytes are refused by their length, others by content."""
    for payload in (b"", b"\x01", KEY.to_bytes()[:-1], KEY.to_bytes() + b"\0"):
        with pytest.raises(ValueError, match="bits"):
            reader(payload, for_tests=True)
    for byte in (b"\0", b"\xff"):
        with pytest.raises(ValueError, match=r"bits|small|not one|equal"):
            reader(64 * byte, for_tests=True)


def test_keys_show_only_a_fingerprint():
    """Equal keys have equal fingerprints, and nothing else is shown."""
    again = SecretKey.from_bytes(KEY.to_bytes(), for_tests=True)
    assert repr(again) == repr(KEY)
    assert KEY.public.fingerprint in repr(KEY)
    assert len(repr(KEY)) < 80
    other = SecretKey.generate(512, for_tests=True)
    assert other.public.fingerprint != KEY.public.fingerprint


def test_blindings_are_nth_powers():
    """Blindings open as zero, and are different."""
    pool = BlindingPool(KEY)
    n, order = int(P * Q), math.lcm(int(P) - 1, int(Q) - 1)
    taken = pool.take(30)
    assert all(pow(int(blinding), order, n * n) == 1 for blinding in taken)
    assert all(0 < blinding < n * n for blinding in taken)
    assert len(set(taken)) == 30


def test_every_nth_power_is_drawn():
    """Over a modulus one can count, blindings are all the n-th powers there are."""

    class Small:
        p, q = mpz(7), mpz(5)

    pool = BlindingPool(Small)
    every = {pow(r, 35, 35**2) for r in range(1, 35) if math.gcd(r, 35) == 1}
    assert len(every) == 24
    assert set(pool.take(1000)) == every


def test_a_pool_gives_each_entry_once():
    """Filling makes entries ahead; taking removes them and makes what is missing."""
    pool = BlindingPool(KEY)
    pool.fill(4)
    pool.fill(3)
    assert len(pool) == 4
    first = pool.take(3)
    assert len(pool) == 1
    second = pool.take(3)
    assert len(pool) == 0
    assert len({*first, *second}) == 6


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda f: f.__name__
)
def test_a_pool_cannot_be_copied(copied):
    """A copy would use its entries twice."""
    with pytest.raises(TypeError, match="used once"):
        copied(BlindingPool(KEY))


def test_a_forked_process_does_not_use_the_entries_again(monkeypatch):
    """In another process the pool starts empty."""
    pool = BlindingPool(KEY)
    pool.fill(3)
    inherited = set(pool._ready)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert len(pool) == 0
    assert not inherited & set(pool.take(3))
    pool.fill(2)
    assert len(pool) == 2
