"""Pseudonyms under one party's key, of IDs that others do not show to it.

An oblivious pseudorandom function, 2HashDH (Jarecki, Kiayias and Krawczyk 2014, RFC
9497), in the subgroup of prime order of edwards25519. The pseudonym of an ID is a hash
of the ID and of the point k·H(ID):

| who                | computes                | shows         |
|--------------------|-------------------------|---------------|
| who has the ID     | b·H(ID) for a random b  | that point    |
| who has the key k  | k·b·H(ID)               | that point    |
| who has the ID     | b⁻¹·k·b·H(ID) = k·H(ID) | nothing       |

Whether the same k was used everywhere shows where its result is known: r·G, for the
base point G and a random r, becomes r·(k·G), and k·G may be public.

A point times an unknown random factor says nothing about the ID (decisional
Diffie-Hellman), and without k no ID can be tried. H maps a hash of 64 bytes to two
points and adds them, as RFC 9380 does, because one map does not reach all points. Both
hashes also have a key that all clients share, so that the server, which does not have
it, cannot take the place of a client.

All arithmetic is libsodium's. Its multiplication refuses points that are not written in
the one valid way, not on the curve, or outside the subgroup. So no secret factor is
ever applied to such a point.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from nacl.bindings import (
    crypto_core_ed25519_add,
    crypto_core_ed25519_from_uniform,
    crypto_core_ed25519_scalar_invert,
    crypto_core_ed25519_scalar_reduce,
    crypto_scalarmult_ed25519_base_noclamp,
    crypto_scalarmult_ed25519_noclamp,
)
from nacl.exceptions import CryptoError

from hyfdca.arrays import TokenArray
from hyfdca.crypto.keys.pseudonyms import PSEUDONYM_BYTES

POINT_BYTES = 32
_UNIFORM_BYTES = 64  # enough for a random scalar, or for the two halves of a point
_WORD = np.dtype("<u8")
_POINT = b"hyfdca id point"  # what is hashed, kept apart by ``person``
_PSEUDONYM = b"hyfdca blind id"


class InvalidPointError(ValueError):
    """Bytes that are not points of the subgroup."""


@dataclass(frozen=True, repr=False)
class SecretFactor:
    """A secret number that points are multiplied by; without a repr."""

    scalar: bytes

    @classmethod
    def generate(cls) -> SecretFactor:
        """Return a new factor, from the system's source of randomness."""
        uniform = secrets.token_bytes(_UNIFORM_BYTES)
        return cls(crypto_core_ed25519_scalar_reduce(uniform))

    def public(self) -> bytes:
        """Return the point that this factor makes of the base point.

        It says nothing about the factor, and cannot be distinguished from a blinded ID.
        """
        return crypto_scalarmult_ed25519_base_noclamp(self.scalar)

    def inverse(self) -> SecretFactor:
        """Return the factor that undoes this one."""
        return SecretFactor(crypto_core_ed25519_scalar_invert(self.scalar))

    def times(self, points: Iterable[bytes]) -> list[bytes]:
        """Return the points multiplied by this factor.

        Raises
        ------
        InvalidPointError
        """
        scalar = self.scalar
        try:
            return [crypto_scalarmult_ed25519_noclamp(scalar, own) for own in points]
        except CryptoError:
            raise InvalidPointError("a point is invalid") from None


def id_points(ids: Sequence[str], key: bytes) -> list[bytes]:
    """Return H of each ID; IDs are as the readers of tables return them."""
    return [_point(_hashed(_encoded(own), _UNIFORM_BYTES, _POINT, key)) for own in ids]


def point_pseudonyms(
    ids: Sequence[str], points: Sequence[bytes], key: bytes
) -> TokenArray:
    """Return the pseudonyms of IDs, (n, 2), from the points k·H(ID).

    The ID is hashed too, so that a pseudonym stands for one ID, even if the party with
    the key computes other points.
    """
    digests = [
        _hashed(point + _encoded(own), PSEUDONYM_BYTES, _PSEUDONYM, key)
        for own, point in zip(ids, points, strict=True)
    ]
    return np.frombuffer(b"".join(digests), dtype=_WORD).reshape(-1, 2)


def unpack_points(payload: memoryview) -> list[bytes]:
    """Return the points that were joined to one byte string.

    Raises
    ------
    InvalidPointError
        If they do not have the length of points. ``SecretFactor.times`` checks more.
    """
    if len(payload) % POINT_BYTES:
        raise InvalidPointError("a point is truncated")
    starts = range(0, len(payload), POINT_BYTES)
    return [bytes(payload[start : start + POINT_BYTES]) for start in starts]


def _point(uniform: bytes) -> bytes:
    """Return the point for 64 uniform bytes."""
    first, second = uniform[:POINT_BYTES], uniform[POINT_BYTES:]
    return crypto_core_ed25519_add(
        crypto_core_ed25519_from_uniform(first),
        crypto_core_ed25519_from_uniform(second),
    )


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _hashed(content: bytes, size: int, person: bytes, key: bytes) -> bytes:
    return blake2b(content, digest_size=size, key=key, person=person).digest()
