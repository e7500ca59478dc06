"""Arrays as little-endian bytes, and checks of such bytes.

What comes off the wire is hostile until it has passed through here: a wrong type, a
wrong size, an index outside the table raises ``RemoteProtocolError``.
"""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

_INDEX = np.dtype("<u4")
_REAL = np.dtype("<f8")
_TOKEN = np.dtype("<u8")
_NUMBER = np.dtype("<i8")


class ProtocolError(Exception):
    """A violation of the protocol."""


class LocalProtocolError(ProtocolError):
    """Our side was about to break the protocol: a bug here."""


class RemoteProtocolError(ProtocolError):
    """The other side broke the protocol."""


class RefusedError(RemoteProtocolError):
    """The organisation cannot take part in this study; one plain sentence."""


class DamagedError(RemoteProtocolError):
    """A message was changed on its way."""


@overload
def pack_indices(indices: NDArray[Any]) -> memoryview: ...


@overload
def pack_indices(indices: NDArray[Any] | None) -> memoryview | None: ...


def pack_indices(indices: NDArray[Any] | None) -> memoryview | None:
    """Return positions or counts as bytes; None stays None."""
    return None if indices is None else memoryview(indices.astype(_INDEX).tobytes())


def unpack_indices(payload: memoryview, size: int) -> NDArray[np.int64]:
    """Return sorted positions below ``size``."""
    indices = _array(payload, _INDEX).astype(np.int64)
    if len(indices) and (indices[-1] >= size or np.any(np.diff(indices) <= 0)):
        raise RemoteProtocolError(f"positions must be sorted and below {size}")
    return indices


def unpack_places(payload: memoryview, size: int, n_places: int) -> NDArray[np.int64]:
    """Return ``size`` numbers below ``n_places``."""
    places = _sized(_array(payload, _INDEX), size).astype(np.int64)
    if len(places) and places.max() >= n_places:
        raise RemoteProtocolError(f"places must be below {n_places}")
    return places


def unpack_counts(payload: memoryview, size: int) -> NDArray[np.int64]:
    """Return ``size`` counts of at least 1."""
    counts = _sized(_array(payload, _INDEX), size).astype(np.int64)
    if len(counts) and counts.min() < 1:
        raise RemoteProtocolError("a count of holders is below 1")
    return counts


def pack_reals(values: NDArray[np.float64]) -> memoryview:
    """Return reals as bytes."""
    return memoryview(values.astype(_REAL, copy=False).tobytes())


def unpack_reals(payload: memoryview, size: int) -> NDArray[np.float64]:
    """Return ``size`` finite reals."""
    values = _sized(_array(payload, _REAL), size)
    if not np.all(np.isfinite(values)):
        raise RemoteProtocolError("a number is infinite or not a number")
    return values


def pack_numbers(numbers: NDArray[np.int64]) -> memoryview:
    """Return whole numbers as bytes."""
    return memoryview(numbers.astype(_NUMBER, copy=False).tobytes())


def unpack_numbers(payload: memoryview, size: int) -> NDArray[np.int64]:
    """Return ``size`` whole numbers."""
    return _sized(_array(payload, _NUMBER), size).astype(np.int64, copy=False)


def pack_tokens(tokens: NDArray[np.uint64]) -> memoryview:
    """Return pseudonyms or tokens as bytes."""
    return memoryview(tokens.astype(_TOKEN, copy=False).tobytes())


def unpack_tokens(payload: memoryview, size: int | None = None) -> NDArray[np.uint64]:
    """Return tokens, ``size`` of them if given."""
    tokens = _array(payload, _TOKEN)
    return tokens if size is None else _sized(tokens, size)


def pack_bits(flags: NDArray[np.bool_]) -> memoryview:
    """Return flags as bytes of eight each."""
    return memoryview(np.packbits(flags).tobytes())


def unpack_bits(payload: memoryview, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return flags of that shape."""
    size = math.prod(shape)
    packed = _sized(_array(payload, np.dtype(np.uint8)), -(-size // 8))
    return np.unpackbits(packed, count=size).astype(bool).reshape(shape)


def unpack_order(payload: memoryview, size: int) -> NDArray[np.int64]:
    """Return an order of ``size`` things: each place once."""
    order = unpack_choice(payload, size)
    return _sized(order, size)


def unpack_choice(payload: memoryview, size: int) -> NDArray[np.int64]:
    """Return some of ``size`` things in an order: each place at most once."""
    n_chosen = len(payload) // _INDEX.itemsize
    if n_chosen > size:
        raise RemoteProtocolError(f"{n_chosen} of {size} things cannot be chosen")
    chosen = unpack_places(payload, n_chosen, size)
    if np.any(np.bincount(chosen, minlength=size) > 1):
        raise RemoteProtocolError("an order names a place twice")
    return chosen


def _array(payload: memoryview, dtype: np.dtype[Any]) -> NDArray[Any]:
    if len(payload) % dtype.itemsize:
        raise RemoteProtocolError(f"{len(payload)} bytes do not divide into items")
    return np.frombuffer(payload, dtype=dtype)


def _sized(values: NDArray[Any], size: int) -> NDArray[Any]:
    if len(values) != size:
        raise RemoteProtocolError(f"expected {size} items, got {len(values)}")
    return values
