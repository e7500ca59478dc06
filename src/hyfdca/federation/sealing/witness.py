"""A client that vouches for the opener of totals (``vouching.py``).

Combinations of one vector's pads with several seeds would give its numbers away. Every
sealed vector has its own nonce, so a witness remembers how it combined the pads of
each, and refuses to do it otherwise. The same may be asked again, after a failure.
Nothing of this is stored: a witness that restarts begins with what comes then.

A request of few bytes can name any number of pads. So a witness computes no more of
them than it has sealed totals itself, apart from a few.
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
from hyfdca.federation.sealing.checksums import CheckedSealer
from hyfdca.federation.sealing.client_sealing import TAGS, Sealing
from hyfdca.federation.sealing.kinds import VectorKind
from hyfdca.federation.sealing.unopened import UnopenedError
from hyfdca.federation.sealing.vector_keys import sender_name
from hyfdca.federation.sealing.vouching import N_TAGS, SEED_BYTES, combinations
from hyfdca.protocol.codec import RemoteProtocolError, pack_numbers, unpack_indices
from hyfdca.protocol.messages import Sums

_MOST_VECTORS = 4096
# A witness without labels seals none of the offsets, but their Gram entries, which are
# at least as many.
_MOST_PER_SEALED = 2
_NOTHING = np.empty((1, 0), np.int64)


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
    """Adds up what is known about the pads of totals."""

    def __init__(self, sealing: Sealing, rank: int) -> None:
        self._sealing, self._rank = sealing, rank
        self._known = KnownVectors()

    def vouch(self, request: m.OpenRequest, n_free: int) -> m.Vouched:
        """Return the combinations of the pads of all totals.

        Parameters
        ----------
        n_free : int
            How many pads it computes without having sealed any totals.
        """
        counts = {len(request.tags), len(request.nonces), len(request.rows)}
        if counts != {len(request.shapes)} or request.totals:
            raise RemoteProtocolError("totals and their tags do not match")
        if len(request.seed) != SEED_BYTES or request.opener == self._rank:
            raise RemoteProtocolError("a witness vouches only for another client")
        n_pads = sum(n_rows * width for n_rows, width in request.shapes)
        if n_pads > n_free + _MOST_PER_SEALED * self._sealing.most_sealed:
            raise RemoteProtocolError("a witness has sealed fewer totals than these")
        ways = _ways(request)
        self._known.check(ways)
        each = zip(request.nonces, request.rows, request.shapes, strict=True)
        self._sealing.note_opening()
        try:
            found = [
                self._tags(tags) + self._of_opener(request, *own)
                for tags, own in zip(request.tags, each, strict=True)
            ]
        except ValueError as error:
            raise UnopenedError from error
        self._known.note(ways)
        return m.Vouched(pack_numbers(np.concatenate([_NOTHING, *found], axis=1)[0]))

    def _tags(self, sums: Sums) -> IntArray:
        """Return the sum of the other senders' tags, (1, N_TAGS)."""
        sealer, one = self._sealing.sealer(TAGS), Arrangement.together(1)
        opened = [sealer.open(vector.payload, N_TAGS, one) for vector in sums]
        return sum(opened, np.zeros((1, N_TAGS), np.int64))

    def _of_opener(
        self,
        request: m.OpenRequest,
        nonce: bytes,
        rows: memoryview | None,
        shape: tuple[int, int],
    ) -> IntArray:
        """Return the combinations of the pads of the opener's own part."""
        if not nonce:
            return np.zeros((1, N_TAGS), np.int64)
        kind = VectorKind("totals", "totals")
        sealer = self._sealing.sealer(kind, request.opener, self._rank)
        if not isinstance(sealer, CheckedSealer):
            raise ValueError("nothing is sealed")
        n_rows, width = shape
        places = Arrangement.together(1)
        if rows is not None:
            places = Arrangement(unpack_indices(rows, n_rows))
        pads = sealer.pads(nonce, width, places)
        return combinations(pads, places.groups, request.seed)


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
