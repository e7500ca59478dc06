"""Pads from AES in counter mode, added modulo 2^64: every number by itself.

Castelluccia, Mykletun and Tsudik 2005, "Efficient aggregation of encrypted data in
wireless sensor networks". A sealed number is m + pad; sums of sealed numbers carry the
sum of their pads, which the holders of the key subtract: the list of the vectors that
were added travels with the sum. A pad is AES(key of the sealer; number of the vector,
group and rank of the item, column). Each sealer has a random identity of 16 bytes, from
which its key is derived, and numbers its vectors: no pad is ever used twice, a new
sealer has another identity, and nothing of this is ever stored.

Unlike packed schemes it tells the opener who contributed.
"""

from __future__ import annotations

import itertools
import os
import secrets
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from hyfdca.arrays import IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.stream_sums import NONCE_BYTES, WordArray, parse_sum

_IDENTITY, _NUMBER = 16, 8
_AES_BLOCK = 16
_RANK_BITS = 32  # of a number's place; the group is above


class StreamSealer:
    """A client's half.

    Parameters
    ----------
    key : bytes
        That the clients of the study share.
    n_clients : int, optional
        How many clients the study has; sums of more are refused.
    """

    is_packed = False

    def __init__(self, key: bytes, n_clients: int | None = None) -> None:
        self._key, self._n_clients = key, n_clients
        self._begin()
        self._ciphers: dict[bytes, algorithms.AES] = {}

    def _begin(self) -> None:
        self._identity = secrets.token_bytes(_IDENTITY)
        self._numbers = itertools.count()  # which threads may share
        self._process = os.getpid()

    def __repr__(self) -> str:
        return "StreamSealer(a secret key)"

    def __reduce__(self) -> Any:
        """Refuse copies: two sealers with one identity would use pads twice."""
        raise TypeError("a sealer is not copied; make another one of its key")

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
    ) -> memoryview:
        """Return a fresh nonce and the padded numbers."""
        nonce = self._next_nonce()
        pads = self._pads(nonce, _places(arrangement, numbers.shape[1], items))
        written = np.empty(NONCE_BYTES + numbers.nbytes, np.uint8)
        written[:NONCE_BYTES] = np.frombuffer(nonce, np.uint8)
        padded = written[NONCE_BYTES:].view(np.uint64)
        padded[:] = np.ascontiguousarray(numbers).reshape(-1).view(np.uint64)
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
            pads = self._pads(nonce, _places(arrangement, width, some))
            words[rows] -= pads.reshape(-1, width)
        return words.view(np.int64)

    def _pads(self, nonce: bytes, places: range | WordArray) -> WordArray:
        """Return the pads of a vector at some places."""
        algorithm = self._cipher(nonce[:_IDENTITY])
        number = int.from_bytes(nonce[_IDENTITY:], "little")
        if isinstance(places, range):
            return _run_of_pads(algorithm, number, places)
        return _single_pads(algorithm, number, places)

    def _cipher(self, identity: bytes) -> algorithms.AES:
        """Return the cipher of a sealer, whose key is derived from its identity."""
        if identity not in self._ciphers:
            derived = HKDFExpand(hashes.SHA256(), 32, b"pads of " + identity)
            self._ciphers[identity] = algorithms.AES(derived.derive(self._key))
        return self._ciphers[identity]


def _places(
    arrangement: Arrangement, width: int, items: IntArray | None
) -> range | WordArray:
    """Return a number for the place of each number that all holders agree on."""
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
    """Return which items some rows of a vector are; none stands for all."""
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


def _single_pads(
    algorithm: algorithms.AES, number: int, places: WordArray
) -> WordArray:
    """Return the pads of any places, each a half of a block of the cipher."""
    blocks = np.empty((len(places), 2), ">u8")
    blocks[:, 0] = number
    blocks[:, 1] = places >> np.uint64(1)
    # Single blocks of distinct counters: counter mode at any places.
    encryptor = Cipher(algorithm, modes.ECB()).encryptor()  # noqa: S305
    halves = np.frombuffer(encryptor.update(blocks.tobytes()), np.uint64)
    chosen = 2 * np.arange(len(places)) + (places & np.uint64(1)).astype(np.int64)
    return halves[chosen]
