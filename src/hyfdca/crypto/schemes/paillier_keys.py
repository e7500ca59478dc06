"""Keys of Paillier's scheme: making, checking and serialising them.

The server gets the modulus alone; the primes never leave the clients. A key that
came from elsewhere is checked before it is used, and shows only a fingerprint.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

import gmpy2
from gmpy2 import mpz

MODULUS_BITS = (2048, 3072)  # as strong as 112 and 128 bits
TEST_BITS = 512  # can be factored in hours: only for fast tests

_PRIME_ROUNDS = 40
_SMALL_PRIMES = gmpy2.primorial(2000)
_APART_BITS = 100  # FIPS 186-5: primes differ in their first hundred bits
_FINGERPRINT_BYTES = 8


@dataclass(frozen=True, repr=False)
class PublicKey:
    """All the server knows.

    Parameters
    ----------
    modulus : odd number of 2048 or 3072 bits
        The product of two primes that only clients know, the paper's n.
    for_tests : bool
        Also take 512 bits, which protect nothing.
    """

    modulus: mpz
    for_tests: bool = False

    def __post_init__(self) -> None:
        _check_length(self.bits, self.for_tests)
        if self.modulus < 0 or gmpy2.gcd(self.modulus, _SMALL_PRIMES) != 1:
            raise ValueError("a Paillier modulus has no small factors and no sign")
        if gmpy2.is_power(self.modulus) or gmpy2.is_prime(self.modulus):
            raise ValueError("a Paillier modulus is the product of two primes")

    @property
    def bits(self) -> int:
        """The length of the modulus."""
        return int(self.modulus.bit_length())

    @property
    def fingerprint(self) -> str:
        """The fingerprint by which people check that they have the same key."""
        digest = hashlib.blake2b(self.to_bytes(), digest_size=_FINGERPRINT_BYTES)
        return digest.hexdigest()

    def to_bytes(self) -> bytes:
        """Return the modulus, little-endian."""
        return _dump(self.modulus, self.bits // 8)

    @classmethod
    def from_bytes(cls, payload: bytes, *, for_tests: bool = False) -> PublicKey:
        """Return the key, or raise ``ValueError`` if it cannot be one."""
        _check_length(8 * len(payload), for_tests)
        return cls(_load(payload), for_tests)

    def __repr__(self) -> str:
        return f"PublicKey({self.bits} bits, fingerprint {self.fingerprint})"


@dataclass(frozen=True, repr=False)
class SecretKey:
    """What clients share and the server never sees: the primes p and q."""

    p: mpz
    q: mpz
    for_tests: bool = False

    def __post_init__(self) -> None:
        half_bits = int(self.p.bit_length())
        _check_length(2 * half_bits, self.for_tests)
        # Of primes of equal length, neither divides the other less one, so
        # gcd(n, (p - 1)(q - 1)) = 1, without which nothing could be opened.
        if self.q.bit_length() != half_bits:
            raise ValueError("the two primes of a key must be of equal length")
        if (self.p * self.q).bit_length() != 2 * half_bits:
            raise ValueError("the primes of a key must fill a modulus of twice theirs")
        if abs(self.p - self.q) >> (half_bits - _APART_BITS) == 0:
            raise ValueError("the two primes of a key are equal or too close")
        if not all(gmpy2.is_prime(prime, _PRIME_ROUNDS) for prime in (self.p, self.q)):
            raise ValueError("a number that should be a prime of the key is not one")

    @classmethod
    def generate(cls, bits: int = 3072, *, for_tests: bool = False) -> SecretKey:
        """Make a key from the system's randomness."""
        _check_length(bits, for_tests)
        return cls(_prime(bits // 2), _prime(bits // 2), for_tests)

    @property
    def public(self) -> PublicKey:
        """The half that the server may have."""
        return PublicKey(self.p * self.q, self.for_tests)

    def to_bytes(self) -> bytes:
        """Return both primes, little-endian; keep these bytes secret."""
        size = int(self.p.bit_length()) // 8
        return _dump(self.p, size) + _dump(self.q, size)

    @classmethod
    def from_bytes(cls, payload: bytes, *, for_tests: bool = False) -> SecretKey:
        """Return the key, or raise ``ValueError`` if it cannot be one."""
        _check_length(8 * len(payload), for_tests)
        middle = len(payload) // 2
        return cls(_load(payload[:middle]), _load(payload[middle:]), for_tests)

    def __repr__(self) -> str:
        return f"SecretKey(of {self.public!r})"


def _check_length(bits: int, for_tests: bool) -> None:
    allowed = (*MODULUS_BITS, TEST_BITS) if for_tests else MODULUS_BITS
    if bits not in allowed:
        lengths = " or ".join(map(str, allowed))
        raise ValueError(f"a Paillier key has {lengths} bits, not {bits}")


def _prime(bits: int) -> mpz:
    """Return a random prime whose two highest bits are set, so products are full."""
    top = mpz(3) << (bits - 2)
    while True:
        candidate = mpz(secrets.randbits(bits)) | top | 1
        if gmpy2.is_prime(candidate, _PRIME_ROUNDS):
            return candidate


def _dump(number: mpz, size: int) -> bytes:
    return bytes(number.to_bytes(size, "little"))


def _load(payload: bytes) -> mpz:
    return mpz.from_bytes(bytes(payload), "little")
