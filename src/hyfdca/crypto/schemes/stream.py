"""Pads from AES in counter mode, added modulo 2^64: every number by itself.

Castelluccia, Mykletun and Tsudik 2005, "Efficient aggregation of encrypted data in
wireless sensor networks". A sealed number is m + pad; sums of sealed numbers carry the
sum of their pads, which the holders of the key subtract: the list of the vectors that
were added travels with the sum. A pad is AES(key of the sealer in a group; number of
the vector, group and rank of the item, column). Each sealer has an identity of 16
bytes, most of them random, from which its keys are derived, and numbers its vectors: no
pad is ever used twice, a new sealer has another identity, and nothing of this is ever
stored.

Unlike packed schemes it tells the opener who contributed.
"""

from __future__ import annotations

import itertools
import os
import secrets
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import (
    Cipher,
    CipherContext,
    algorithms,
    modes,
)
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from hyfdca.arrays import ByteArray, IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement, Sorting
from hyfdca.crypto.schemes.base import VectorKeys, raw_bytes
from hyfdca.crypto.schemes.stream_sums import NONCE_BYTES, WordArray, parse_sum

_IDENTITY, _NUMBER = 16, 8
_AES_BLOCK = 16
_RANK_BITS = 32  # of a number's place; the group is above


class StreamSealer:
    """A client's half.

    Parameters
    ----------
    keys : VectorKeys
        The keys that the client shares with those who open its vectors.
    n_clients : int, optional
        How many clients the study has; sums of more are refused.
    name : bytes
        The prefix of the sealer's identity.
    """

    is_packed = False

    def __init__(
        self, keys: VectorKeys, n_clients: int | None = None, name: bytes = b""
    ) -> None:
        self._keys, self._n_clients, self._name = keys, n_clients, name
        self._begin()
        self._ciphers: dict[tuple[int, bytes], algorithms.AES] = {}

    def _begin(self) -> None:
        self._identity = self._name + secrets.token_bytes(_IDENTITY - len(self._name))
        self._numbers = itertools.count()  # threads may share these
        self._process = os.getpid()

    def __repr__(self) -> str:
        return "StreamSealer(secret keys)"

    def __reduce__(self) -> Any:
        """Refuse copies: two sealers with one identity would use pads twice."""
        raise TypeError("a sealer cannot be copied; make another one from its key")

    def _next_nonce(self) -> bytes:
        if self._process != os.getpid():  # a fork is a copy too
            self._begin()
        return self._identity + next(self._numbers).to_bytes(_NUMBER, "little")

    def seal(
        self,
        numbers: IntArray,
        arrangement: Arrangement,
        items: IntArray | None = None,
        rest: IntArray | None = None,
        more: IntArray | None = None,
    ) -> memoryview:
        """Return a fresh nonce and the padded numbers."""
        nonce = self._next_nonce()
        pads = self._pads(nonce, arrangement, numbers.shape[1], items)
        n_more = 0 if more is None else more.nbytes
        written = np.empty(NONCE_BYTES + numbers.nbytes + n_more, np.uint8)
        written[:NONCE_BYTES] = np.frombuffer(nonce, np.uint8)
        padded = written[NONCE_BYTES:].view(np.uint64)
        padded[: numbers.size] = _flat(numbers)
        if more is not None:
            padded[numbers.size :] = _flat(more)
        padded += pads
        return written.data

    def open(
        self,
        payload: memoryview,
        width: int,
        arrangement: Arrangement,
        items: IntArray | None = None,
    ) -> IntArray:
        """Subtract the pads of all that was added."""
        n_items = arrangement.n_items if items is None else len(items)
        words, contributions = parse_sum(payload, n_items, width, self._n_clients)
        for nonce, rows in contributions:
            some = _some(items, rows)
            pads = self._pads(nonce, arrangement, width, some)
            words[rows] -= pads.reshape(-1, width)
        return words.view(np.int64)

    def pads(self, nonce: bytes, width: int, arrangement: Arrangement) -> WordArray:
        """Return the pads of a whole vector, (items, width)."""
        return self._pads(nonce, arrangement, width, None).reshape(-1, width)

    def _pads(
        self, nonce: bytes, arrangement: Arrangement, width: int, items: IntArray | None
    ) -> WordArray:
        """Return the pads of a vector of some items."""
        identity, count = nonce[:_IDENTITY], nonce[_IDENTITY:]
        number = int.from_bytes(count, "little")
        places = _places(arrangement, width, items)
        if not len(places):
            return np.empty(0, np.uint64)
        first = int(arrangement.distinct[0])
        if isinstance(places, range):
            return _run_of_pads(self._cipher(first, identity), number, places)
        blocks = _blocks(number, places)
        if self._keys.by_group and len(arrangement.distinct) > 1:
            encrypted = self._by_group(identity, blocks, arrangement.by_group(items))
        else:
            encrypted = _encrypted(self._cipher(first, identity), blocks)
        return _halves(encrypted, places)

    def _by_group(
        self, identity: bytes, blocks: ByteArray, sorting: Sorting
    ) -> ByteArray:
        """Return blocks encrypted, those of each group by its own key."""
        rows = blocks.view(np.uint64).reshape(len(sorting.order), -1)
        plain = raw_bytes(np.take(rows, sorting.order, axis=0))
        parts, start = [], 0
        for group, n_items in zip(sorting.groups, sorting.sizes, strict=True):
            end = start + n_items * rows.shape[1] * rows.itemsize
            encryptor = _encryptor(self._cipher(group, identity))
            parts.append(encryptor.update(plain[start:end]))
            start = end
        encrypted = np.empty_like(rows)
        sealed = np.frombuffer(b"".join(parts), np.uint64)
        encrypted[sorting.order] = sealed.reshape(rows.shape)
        return encrypted.view(np.uint8)

    def _cipher(self, group: int, identity: bytes) -> algorithms.AES:
        """Return the cipher of a sealer, whose key is derived from its identity."""
        key = (group if self._keys.by_group else 0, identity)
        if key not in self._ciphers:
            derived = HKDFExpand(hashes.SHA256(), 32, b"pads of " + identity)
            own = derived.derive(self._keys.of(*key))
            self._ciphers[key] = algorithms.AES(own)
        return self._ciphers[key]


def _flat(numbers: IntArray) -> WordArray:
    return np.ascontiguousarray(numbers).reshape(-1).view(np.uint64)


def _places(
    arrangement: Arrangement, width: int, items: IntArray | None
) -> range | WordArray:
    """Return a number for each place, on which all holders agree."""
    if items is None and len(arrangement.sizes) == 1:
        first = int(arrangement.groups[0]) << _RANK_BITS
        return range(first, first + arrangement.n_items * width)
    if int(arrangement.sizes.max(initial=0)) * width >> _RANK_BITS:
        raise ValueError("a group has more numbers than there are pads for it")
    groups, ranks = arrangement.groups, arrangement.ranks
    if items is not None:
        groups, ranks = groups[items], ranks[items]
    places: IntArray = (groups << _RANK_BITS) + ranks * width
    return (places[:, None] + np.arange(width)).reshape(-1).view(np.uint64)


def _some(items: IntArray | None, rows: slice | IntArray) -> IntArray | None:
    """Return which items some rows of a vector are; None stands for all."""
    if isinstance(rows, slice):
        return items
    return rows if items is None else items[rows]


def _run_of_pads(algorithm: algorithms.AES, number: int, places: range) -> WordArray:
    """Return the pads of consecutive places: two from each block of the cipher."""
    first = places.start // 2
    counter = number.to_bytes(8, "big") + first.to_bytes(8, "big")
    encryptor = Cipher(algorithm, modes.CTR(counter)).encryptor()
    n_blocks = (places.stop + 1) // 2 - first
    pads = np.frombuffer(encryptor.update(bytes(_AES_BLOCK * n_blocks)), np.uint64)
    return pads[places.start - 2 * first :][: len(places)]


def _blocks(number: int, places: WordArray) -> ByteArray:
    """Return the cipher's inputs for the pads of any places, 16 bytes each."""
    blocks = np.empty((len(places), 2), ">u8")
    blocks[:, 0] = number
    blocks[:, 1] = places >> np.uint64(1)
    return blocks.view(np.uint8)


def _encrypted(algorithm: algorithms.AES, blocks: ByteArray) -> ByteArray:
    return np.frombuffer(_encryptor(algorithm).update(raw_bytes(blocks)), np.uint8)


def _encryptor(algorithm: algorithms.AES) -> CipherContext:
    # Single blocks of distinct counters: counter mode at any places.
    return Cipher(algorithm, modes.ECB()).encryptor()  # noqa: S305


def _halves(encrypted: ByteArray, places: WordArray) -> WordArray:
    """Return the pad of each place, a half of its block."""
    halves = encrypted.reshape(-1).view(np.uint64)
    chosen = 2 * np.arange(len(places)) + (places & np.uint64(1)).astype(np.int64)
    return halves[chosen]
