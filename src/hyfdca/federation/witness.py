"""A client that vouches for the opener of totals (``vouching.py``).

Combinations of one vector's pads with several seeds would give its numbers away. Every
sealed vector has a nonce of its own, so a witness remembers how it combined the pads of
each, and refuses to do it otherwise. The same may be asked again, after a failure.
Nothing of this is stored: a witness that restarts begins with what comes then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.stream_sums import IDENTITY_BYTES, NONCE_BYTES
from hyfdca.federation import messages as m
from hyfdca.federation.sealing import Sealing
from hyfdca.federation.vector_keys import sender_name
from hyfdca.federation.vouching import SEED_BYTES
from hyfdca.protocol.codec import RemoteProtocolError, pack_numbers, unpack_indices

_MOST_VECTORS = 4096


class KnownVectors:
    """Remembers how the pads of each of the last vectors were combined."""

    def __init__(self) -> None:
        self._ways: dict[bytes, bytes] = {}  # by nonce
        self._oldest: dict[bytes, int] = {}  # by sealer: numbers that are forgotten

    def check(self, ways: Mapping[bytes, bytes]) -> None:
        """Refuse vectors whose pads were combined in another way."""
        for nonce, way in ways.items():
            sealer, number = _parsed(nonce)
            is_forgotten = number <= self._oldest.get(sealer, -1)
            if self._ways.get(nonce, way) != way or is_forgotten:
                raise RemoteProtocolError("a witness vouches once for each vector")

    def note(self, ways: Mapping[bytes, bytes]) -> None:
        """Remember vectors, and forget the oldest."""
        self._ways.update(ways)
        for nonce in list(self._ways)[:-_MOST_VECTORS]:
            sealer, number = _parsed(nonce)
            self._oldest[sealer] = max(number, self._oldest.get(sealer, -1))
            del self._ways[nonce]


def _parsed(nonce: bytes) -> tuple[bytes, int]:
    """Return a sealer, and the number of its vector."""
    if len(nonce) != NONCE_BYTES:
        raise RemoteProtocolError("a vector that a witness vouches for has a nonce")
    number = int.from_bytes(nonce[IDENTITY_BYTES:], "little")
    return nonce[:IDENTITY_BYTES], number


class Witness:
    """Adds up what is known of the pads of totals."""

    def __init__(self, sealing: Sealing, rank: int) -> None:
        self._sealing, self._rank = sealing, rank
        self._known = KnownVectors()

    def vouch(self, request: m.OpenRequest) -> m.Vouched:
        """Return the combinations of the pads of all totals."""
        counts = {len(request.tags), len(request.nonces), len(request.rows)}
        if counts != {len(request.shapes)} or request.totals:
            raise RemoteProtocolError("totals and their tags do not match")
        if len(request.seed) != SEED_BYTES or request.opener == self._rank:
            raise RemoteProtocolError("a witness vouches for somebody else")
        ways = _ways(request)
        self._known.check(ways)
        each = zip(
            request.tags, request.nonces, request.rows, request.shapes, strict=True
        )
        found = [
            self._sealing.vouched_for(request, tags, nonce, _place(rows, shape))
            for tags, nonce, rows, shape in each
        ]
        self._known.note(ways)
        return m.Vouched(pack_numbers(_joined(found)))


def _ways(request: m.OpenRequest) -> dict[bytes, bytes]:
    """Return how the pads of each of the opener's vectors are to be combined."""
    each = zip(request.nonces, request.shapes, request.rows, strict=True)
    ways = {
        nonce: hashlib.blake2b(
            msgspec.msgpack.encode([request.seed, shape, rows]), digest_size=16
        ).digest()
        for nonce, shape, rows in each
        if nonce
    }
    name = sender_name(request.opener)
    is_own = all(nonce.startswith(name) for nonce in ways)
    if not is_own or len(ways) < len(list(filter(None, request.nonces))):
        raise RemoteProtocolError("a witness vouches for the opener's vectors")
    return ways


def _place(rows: memoryview | None, shape: tuple[int, int]) -> tuple[int, Arrangement]:
    n_rows, width = shape
    if rows is None:
        return width, Arrangement.together(1)
    return width, Arrangement(unpack_indices(rows, n_rows))


def _joined(found: list[IntArray]) -> IntArray:
    return np.concatenate([*found, np.empty(0, np.int64)])
