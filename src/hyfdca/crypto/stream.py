"""Pads from AES in counter mode, added modulo 2^64: every number by itself.

Castelluccia, Mykletun and Tsudik 2005, "Efficient aggregation of encrypted data in
wireless sensor networks". A sealed number is m + pad; sums of sealed numbers carry the
sum of their pads, which whoever has the key subtracts: the list of the vectors that
were added travels with the sum. A pad is AES(key of the sealer; number of the vector,
group and rank of the item, column). Each sealer has a random identity of 16 bytes, of
which its key is derived, and numbers its vectors: no pad is ever used twice, whoever
starts again gets another identity, and nothing of this is ever stored.

Unlike packed schemes it tells the opener who contributed.
"""

from __future__ import annotations

import itertools
import os
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numba import njit
from numpy.typing import NDArray

from hyfdca.crypto.arrangement import Arrangement
from hyfdca.crypto.base import raw_bytes
from hyfdca.crypto.fixedpoint import IntArray

_IDENTITY, _NUMBER = 16, 8
_NONCE = _IDENTITY + _NUMBER
_AES_BLOCK = 16
_RANK_BITS = 32  # of a number's place; the group is above
_LONG_TABLE = 64  # nonces from which on it is worth looking for those not in use

WordArray = NDArray[np.uint64]
IdArray = NDArray[np.uint32]


class StreamSealer:
    """A client's half.

    Parameters
    ----------
    key : bytes
        That the clients of the study share.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
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
        written = np.empty(_NONCE + numbers.nbytes, np.uint8)
        written[:_NONCE] = np.frombuffer(nonce, np.uint8)
        padded = written[_NONCE:].view(np.uint64)
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
        words, contributions = _parse_sum(payload, n_items, width)
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
        """Return the cipher of a sealer, whose key is derived of its identity."""
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


# Sums


@dataclass
class Padded:
    """A sealed vector: words, and of which vectors each row is the sum.

    ``ids[i]`` are places in the table ``nonces``, from 1; 0 stands for none. Where all
    rows have the same, they are one row in memory.
    """

    words: WordArray
    ids: IdArray
    nonces: NDArray[np.uint8]

    @property
    def is_uniform(self) -> bool:
        """Whether all rows are of the same vectors."""
        return self.ids.strides[0] == 0 or len(self.ids) <= 1

    def make_room(self, n_columns: int) -> None:
        """Have room for so many ids a row, each row its own."""
        missing = max(n_columns - self.ids.shape[1], 0)
        if missing or self.is_uniform:
            room = np.zeros((len(self.ids), missing), np.uint32)
            self.ids = np.hstack([self.ids, room])

    def take_nonces(self, nonces: NDArray[np.uint8]) -> np.uint32:
        """Append to the table; return by how much the ids of these are higher."""
        if len(self.nonces) + len(nonces) > _LONG_TABLE + 2 * len(self.ids):
            self._forget()
        first = np.uint32(len(self.nonces))
        self.nonces = np.concatenate([self.nonces, nonces])
        return first

    def _forget(self) -> None:
        """Drop nonces of which nothing is left in the sum."""
        used, self.ids = _renumbered(self.ids)
        self.nonces = self.nonces[used - 1]


class StreamAdder:
    """The server's half: adds words, and notes whose they are."""

    n_slots = None
    capacity = 16  # so many pads are subtracted when a sum is opened

    unit_bytes = 8

    def load(self, payload: memoryview, shape: tuple[int, int]) -> Padded:
        """Return a client's vector."""
        size = shape[0] * shape[1] * 8
        if len(payload) != _NONCE + size:
            raise ValueError(
                f"expected {shape[0] * shape[1]} numbers of 8 bytes and a nonce, "
                f"got {len(payload)} bytes"
            )
        content = np.frombuffer(payload, np.uint8)
        words = content[_NONCE:].view(np.uint64).reshape(shape)
        ids = np.broadcast_to(np.uint32(1), (shape[0], 1))
        return Padded(words, ids, content[:_NONCE].reshape(1, _NONCE).copy())

    def zeros(self, shape: tuple[int, int]) -> Padded:
        """Return zeros, of nobody."""
        ids = np.broadcast_to(np.empty(0, np.uint32), (shape[0], 0))
        nonces = np.empty((0, _NONCE), np.uint8)
        return Padded(np.zeros(shape, np.uint64), ids, nonces)

    def add(self, total: Padded, where: Any, vector: Padded) -> None:
        """Add in place."""
        first = total.take_nonces(vector.nonces)
        if _is_whole(where) and total.is_uniform and vector.is_uniform:
            total.words += vector.words
            ours, theirs = total.ids[:1], vector.ids[:1]
            row = np.concatenate([ours[ours > 0], theirs[theirs > 0] + first])
            total.ids = np.broadcast_to(row, (len(total.words), len(row)))
            return
        places = np.arange(len(total.words))[where]
        total.make_room(_n_used(total.ids, places) + vector.ids.shape[1])
        _add_words(total.words, total.ids, places, vector.words, vector.ids, first)

    def put(self, total: Padded, where: Any, vector: Padded) -> None:
        """Replace in place."""
        total.make_room(1)
        total.words[where], total.ids[where] = 0, 0
        self.add(total, where, vector)

    def take(self, total: Padded, where: Any) -> Padded:
        """Return a part of a vector."""
        return Padded(total.words[where], total.ids[where], total.nonces)

    def dump(self, vector: Padded) -> memoryview:
        """Return a sum with the list of what was added.

        Neighbours with the same contributors are listed once.
        """
        lengths, rows = _runs(vector.ids)
        used, local = _renumbered(rows)
        sizes = np.array([len(used), *rows.shape], np.uint32)
        parts = (sizes, vector.nonces[used - 1], lengths, local, vector.words)
        return memoryview(b"".join([raw_bytes(part) for part in parts]))


def _is_whole(where: Any) -> bool:
    return isinstance(where, slice) and where == slice(None)


def _renumbered(ids: IdArray) -> tuple[IntArray, IdArray]:
    """Return the ids in use, and each id as its place among them, from 1."""
    used = np.unique(ids)
    used = used[used > 0]
    places = np.where(ids > 0, np.searchsorted(used, ids) + 1, 0)
    return used.astype(np.int64), places.astype(np.uint32)


@njit(cache=True, nogil=True)
def _n_used(ids, places):  # type: ignore[no-untyped-def]
    most = 0
    for p in places:
        n = 0
        while n < ids.shape[1] and ids[p, n] > 0:
            n += 1
        most = max(most, n)
    return most


@njit(cache=True, nogil=True)
def _add_words(words, ids, places, more, more_ids, first):  # type: ignore[no-untyped-def]
    """Add rows to rows of ``words``, and their ids after those in ``ids``."""
    for j in range(places.size):
        p = places[j]
        for c in range(words.shape[1]):
            words[p, c] += more[j, c]
        n = 0
        while n < ids.shape[1] and ids[p, n] > 0:
            n += 1
        for c in range(more_ids.shape[1]):
            if more_ids[j, c] > 0:
                ids[p, n] = more_ids[j, c] + first
                n += 1


@njit(cache=True, nogil=True)
def _starts_of_runs(ids, is_start):  # type: ignore[no-untyped-def]
    for i in range(1, ids.shape[0]):
        for c in range(ids.shape[1]):
            if ids[i, c] != ids[i - 1, c]:
                is_start[i] = True


def _runs(ids: IdArray) -> tuple[IdArray, IdArray]:
    """Return the lengths of runs of equal rows, and one row of each."""
    if ids.strides[0] == 0:
        return np.array([len(ids)][: len(ids)], np.uint32), ids[:1]
    is_start = np.zeros(len(ids), np.bool_)
    is_start[:1] = True
    _starts_of_runs(ids, is_start)
    starts = np.flatnonzero(is_start)
    lengths = np.diff(np.append(starts, len(ids)))
    return lengths.astype(np.uint32), ids[starts]


Contribution = tuple[bytes, Any]  # a nonce and the rows it is in


def _parse_sum(
    payload: memoryview, n_items: int, width: int
) -> tuple[WordArray, list[Contribution]]:
    """Return the words of a sum, as a copy, and what was added where."""
    reader = _Reader(payload)
    n_nonces, n_runs, depth = reader.take(np.uint32, 3).tolist()
    nonces = reader.take(np.uint8, n_nonces * _NONCE).tobytes()
    lengths = reader.take(np.uint32, n_runs).astype(np.int64)
    rows = reader.take(np.uint32, n_runs * depth).reshape(n_runs, depth)
    words = reader.take(np.uint64, n_items * width).copy().reshape(n_items, width)
    reader.end()
    if lengths.sum() != n_items or rows.max(initial=0) > n_nonces:
        raise ValueError("the contributors do not fit the sum")
    table = [nonces[i * _NONCE : (i + 1) * _NONCE] for i in range(n_nonces)]
    return words, _contributions(table, lengths, rows)


def _contributions(
    table: list[bytes], lengths: IntArray, rows: IdArray
) -> list[Contribution]:
    """Return the rows of each nonce, as a slice where that is one run."""
    if len(lengths) == 1:
        return [(table[i - 1], slice(None)) for i in rows[0].tolist() if i > 0]
    run, column = np.nonzero(rows)
    ids = rows[run, column]
    order = np.argsort(ids, kind="stable")
    run, ids = run[order], ids[order]
    sizes = lengths[run]
    starts = np.cumsum(lengths)[run] - sizes - (np.cumsum(sizes) - sizes)
    members = np.repeat(starts, sizes) + np.arange(sizes.sum())
    found, first = np.unique(np.repeat(ids, sizes), return_index=True)
    apart = np.split(members, first)[1:]
    return [(table[i - 1], own) for i, own in zip(found.tolist(), apart, strict=True)]


class _Reader:
    """Takes arrays off a payload, never beyond its end."""

    def __init__(self, payload: memoryview) -> None:
        self._content = np.frombuffer(payload, np.uint8)
        self._place = 0

    def take(self, dtype: type[np.generic], count: int) -> NDArray[Any]:
        size = count * np.dtype(dtype).itemsize
        part = self._content[self._place : self._place + size]
        if len(part) != size:
            raise ValueError("a sum is shorter than it says")
        self._place += size
        return part.view(dtype) if size else np.empty(0, dtype)

    def end(self) -> None:
        if self._place != len(self._content):
            raise ValueError("a sum is longer than it says")
