"""Sums of padded numbers, as the server keeps them, and their form on the wire.

A sum carries the list of the vectors that are in it: for runs of rows with the same
contributors, their places in a table of nonces. Where rows of one owner group do not
stand side by side there are about as many runs as rows, so lengths and places each take
as few bytes as possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hyfdca.arrays import IntArray
from hyfdca.crypto.schemes.base import raw_bytes
from hyfdca.maths.compiling import jit

IDENTITY_BYTES = 16
NONCE_BYTES = 24
_CAPACITY = 16  # pads that opening a sum subtracts, at most, before it is sealed again
_LONG_TABLE = 64  # number of nonces above which unused ones are dropped

WordArray = NDArray[np.uint64]
IdArray = NDArray[np.uint32]


@dataclass
class Padded:
    """A sealed vector: words, and the vectors that each row adds up.

    ``ids[i]`` are places in the table ``nonces``, from 1; 0 stands for none. Where all
    rows have the same, they are one row in memory.
    """

    words: WordArray
    ids: IdArray
    nonces: NDArray[np.uint8]

    @property
    def is_uniform(self) -> bool:
        """Whether all rows add up the same vectors."""
        return self.ids.strides[0] == 0 or len(self.ids) <= 1

    def make_room(self, n_columns: int) -> None:
        """Make room for ``n_columns`` ids in each row separately."""
        missing = max(n_columns - self.ids.shape[1], 0)
        if missing or self.is_uniform:
            room = np.zeros((len(self.ids), missing), np.uint32)
            self.ids = np.hstack([self.ids, room])

    def take_nonces(self, nonces: NDArray[np.uint8]) -> np.uint32:
        """Append to the table; return the offset of the new ids."""
        if len(self.nonces) + len(nonces) > _LONG_TABLE + 2 * len(self.ids):
            self._forget()
        first = np.uint32(len(self.nonces))
        self.nonces = np.concatenate([self.nonces, nonces])
        return first

    def _forget(self) -> None:
        """Drop nonces that no longer occur in the sum."""
        used, self.ids = _renumbered(self.ids)
        self.nonces = self.nonces[used - 1]


class StreamAdder:
    """The server's half: adds words, and records the contributors."""

    n_slots = None
    capacity = _CAPACITY

    unit_bytes = 8

    def load(self, payload: memoryview, shape: tuple[int, int]) -> Padded:
        """Return a client's vector."""
        size = shape[0] * shape[1] * 8
        if len(payload) != NONCE_BYTES + size:
            raise ValueError(
                f"expected {shape[0] * shape[1]} numbers of 8 bytes and a nonce, "
                f"got {len(payload)} bytes"
            )
        content = np.frombuffer(payload, np.uint8)
        words = content[NONCE_BYTES:].view(np.uint64).reshape(shape)
        ids = np.broadcast_to(np.uint32(1), (shape[0], 1))
        return Padded(words, ids, content[:NONCE_BYTES].reshape(1, NONCE_BYTES).copy())

    def zeros(self, shape: tuple[int, int]) -> Padded:
        """Return zeros, without contributors."""
        ids = np.broadcast_to(np.empty(0, np.uint32), (shape[0], 0))
        nonces = np.empty((0, NONCE_BYTES), np.uint8)
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
        lengths, local = _narrow(lengths), _narrow(local)
        widths = np.array([lengths.itemsize, local.itemsize], np.uint8)
        nonces = vector.nonces[used - 1]
        parts = (sizes, widths, nonces, lengths, local, vector.words)
        return memoryview(b"".join([raw_bytes(part) for part in parts]))


def _narrow(numbers: IdArray) -> NDArray[Any]:
    """Return whole numbers in as few bytes each as the largest needs."""
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))


def _is_whole(where: Any) -> bool:
    return isinstance(where, slice) and where == slice(None)


def _renumbered(ids: IdArray) -> tuple[IntArray, IdArray]:
    """Return the ids in use, and each id as its place among them, from 1."""
    used = np.unique(ids)
    used = used[used > 0]
    places = np.where(ids > 0, np.searchsorted(used, ids) + 1, 0)
    return used.astype(np.int64), places.astype(np.uint32)


@jit(nogil=True)
def _n_used(ids, places):  # type: ignore[no-untyped-def]
    most = 0
    for p in places:
        n = 0
        while n < ids.shape[1] and ids[p, n] > 0:
            n += 1
        most = max(most, n)
    return most


@jit(nogil=True)
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


@jit(nogil=True)
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


def parse_sum(
    payload: memoryview, n_items: int, width: int, n_clients: int | None = None
) -> tuple[WordArray, list[Contribution]]:
    """Return the words of a sum, as a copy, and what was added where.

    Parameters
    ----------
    n_clients : int, optional
        How many clients the study has; more cannot have contributed.
    """
    reader = _SumReader(payload)
    n_nonces, n_runs, depth = reader.take(np.uint32, 3).tolist()
    of_lengths, of_ids = map(_type_of_width, reader.take(np.uint8, 2).tolist())
    table_of_nonces = reader.take(np.uint8, n_nonces * NONCE_BYTES)
    if n_clients is not None:
        _check_contributors(table_of_nonces, depth, n_clients)
    nonces = table_of_nonces.tobytes()
    lengths = reader.take(of_lengths, n_runs).astype(np.int64)
    rows = reader.take(of_ids, n_runs * depth).astype(np.uint32).reshape(n_runs, depth)
    words = reader.take(np.uint64, n_items * width).copy().reshape(n_items, width)
    reader.end()
    is_whole = lengths.sum() == n_items and lengths.min(initial=1) > 0
    if not is_whole or rows.max(initial=0) > n_nonces:
        raise ValueError("the contributors do not fit the sum")
    _check_empty_rows(words, lengths, rows)
    table = [nonces[i * NONCE_BYTES : (i + 1) * NONCE_BYTES] for i in range(n_nonces)]
    return words, _contributions(table, lengths, rows)


def _type_of_width(n_bytes: int) -> np.dtype[Any]:
    """Return the whole numbers of that many bytes."""
    if n_bytes not in (1, 2, 4):
        raise ValueError("the contributors do not fit the sum")
    return np.dtype(f"<u{n_bytes}")


def _check_empty_rows(words: WordArray, lengths: IntArray, rows: IdArray) -> None:
    """Refuse numbers that no client sealed: the server would have chosen them."""
    is_empty = ~rows.any(axis=1)
    if is_empty.any() and words[np.repeat(is_empty, lengths)].any():
        raise ValueError("numbers have no contributor")


def _check_contributors(nonces: NDArray[np.uint8], depth: int, n_clients: int) -> None:
    """Refuse a sum whose pads would take long to compute: no study has such a sum.

    A client has another identity after a restart. A sum is sealed again once a row has
    as many summands as its capacity, to which each client may have added once more.
    """
    identities = nonces.reshape(-1, NONCE_BYTES)[:, :IDENTITY_BYTES].tobytes()
    places = range(0, len(identities), IDENTITY_BYTES)
    distinct = {identities[place : place + IDENTITY_BYTES] for place in places}
    if depth > _CAPACITY + n_clients or len(distinct) > (1 + _CAPACITY) * n_clients:
        raise ValueError("a sum names more contributors than the study has clients")


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


class _SumReader:
    """Takes arrays off a payload, never beyond its end."""

    def __init__(self, payload: memoryview) -> None:
        self._content = np.frombuffer(payload, np.uint8)
        self._place = 0

    def take(self, dtype: DTypeLike, count: int) -> NDArray[Any]:
        size = count * np.dtype(dtype).itemsize
        part = self._content[self._place : self._place + size]
        if len(part) != size:
            raise ValueError("a sum is shorter than it says")
        self._place += size
        return part.view(dtype) if size else np.empty(0, dtype)

    def end(self) -> None:
        if self._place != len(self._content):
            raise ValueError("a sum is longer than it says")
