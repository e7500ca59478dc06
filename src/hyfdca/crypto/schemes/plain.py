"""No secrecy, the same grid: whole numbers in the clear, to compare against."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.base import UNLIMITED
from hyfdca.maths.compiling import jit

_WIRE = np.dtype("<i8")


class PlainSealer:
    """Writes whole numbers as they are."""

    is_packed = False

    def seal(
        self,
        numbers: IntArray,
        arrangement: Arrangement,
        items: IntArray | None = None,
        rest: IntArray | None = None,
        more: IntArray | None = None,
    ) -> memoryview:
        """Return the numbers as little-endian bytes."""
        if more is not None:
            numbers = np.concatenate([numbers, more])
        return _bytes(numbers)

    def open(
        self,
        payload: memoryview,
        width: int,
        arrangement: Arrangement,
        items: IntArray | None = None,
    ) -> IntArray:
        """Return the numbers, or raise if they do not fill that shape."""
        n_items = len(arrangement.groups if items is None else items)
        return _numbers(payload, (n_items, width))


class PlainAdder:
    """Adds whole numbers; a sum stays inside int64 because the grid bounds it."""

    n_slots = None
    capacity = UNLIMITED

    unit_bytes = _WIRE.itemsize

    def load(self, payload: memoryview, shape: tuple[int, int]) -> IntArray:
        """Return the numbers, read-only."""
        return _numbers(payload, shape)

    def zeros(self, shape: tuple[int, int]) -> IntArray:
        """Return zeros."""
        return np.zeros(shape, np.int64)

    def add(self, total: IntArray, where: Any, vector: IntArray) -> None:
        """Add in place."""
        if isinstance(where, slice):
            total[where] += vector
        else:
            # With unsigned places, numba need not check for negative ones.
            _add_at(total, where.view(np.uint64), vector)

    def put(self, total: IntArray, where: Any, vector: IntArray) -> None:
        """Replace in place."""
        total[where] = vector

    def take(self, total: IntArray, where: Any) -> IntArray:
        """Return a part of a vector."""
        part: IntArray = (
            total[where] if isinstance(where, slice) else np.take(total, where, axis=0)
        )
        return part

    def dump(self, vector: IntArray) -> memoryview:
        """Return the numbers as little-endian bytes."""
        return _bytes(vector)


@jit(nogil=True)
def _add_at(total, where, vector):  # type: ignore[no-untyped-def]
    """Add rows at distinct places, five times as fast as indexed assignment."""
    for j in range(where.size):
        for c in range(total.shape[1]):
            total[where[j], c] += vector[j, c]


def _bytes(numbers: IntArray) -> memoryview:
    """Return whole numbers as they travel, without copying them where possible."""
    return np.ascontiguousarray(numbers, _WIRE).reshape(-1).view(np.uint8).data


def _numbers(payload: memoryview, shape: tuple[int, int]) -> IntArray:
    count = shape[0] * shape[1]
    if len(payload) != count * _WIRE.itemsize:
        raise ValueError(
            f"expected {count} numbers of {_WIRE.itemsize} bytes, "
            f"got {len(payload)} bytes"
        )
    return np.frombuffer(payload, dtype=_WIRE).reshape(shape)
