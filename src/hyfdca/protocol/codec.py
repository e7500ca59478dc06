"""Bytes of messages: a header with a digest, msgpack, arrays as little-endian bytes.

What comes off the wire is hostile until it has passed through here: a wrong type, a
wrong size, an index outside the table raises ``RemoteProtocolError``.
"""

from __future__ import annotations

import math
import struct
from typing import Any, TypeVar, overload

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from hyfdca.protocol.messages import Message

_HEADER = struct.Struct("<8sQ")  # study token, number of the request
TOKEN_BYTES = 8
_DIGEST_BYTES = 16
_START = _HEADER.size + _DIGEST_BYTES  # of the body

_INDEX = np.dtype("<u4")
_REAL = np.dtype("<f8")
_TOKEN = np.dtype("<u8")

_encoder = msgspec.msgpack.Encoder()
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}

T = TypeVar("T")


class ProtocolError(Exception):
    """Something was said that the protocol does not allow."""


class LocalProtocolError(ProtocolError):
    """Our side was about to break the protocol: a bug here."""


class RemoteProtocolError(ProtocolError):
    """The other side broke the protocol."""


class DamagedError(RemoteProtocolError):
    """A message did not arrive as it was sent."""


def frame(token: bytes, number: int, message: Message) -> bytearray:
    """Return the bytes of a message of a study."""
    buffer = bytearray(_START)
    _HEADER.pack_into(buffer, 0, token, number)
    _encoder.encode_into(message, buffer, _START)
    buffer[_HEADER.size : _START] = _digest(buffer)
    return buffer


def unframe(payload: bytes | bytearray, token: bytes) -> tuple[int, memoryview]:
    """Return the number and the body of a framed message of this study."""
    if len(payload) < _START:
        raise DamagedError("the message is shorter than its header")
    sent_token, number = _HEADER.unpack_from(payload)
    if payload[_HEADER.size : _START] != _digest(payload):
        raise DamagedError("the message was damaged on its way")
    if sent_token != token:
        raise RemoteProtocolError("the message belongs to another study")
    return number, memoryview(payload)[_START:]


def _digest(payload: bytes | bytearray) -> bytes:
    """Return what detects accidents; the channel keeps enemies out."""
    view = memoryview(payload)
    digest = xxhash.xxh3_128(view[: _HEADER.size])
    digest.update(view[_START:])
    return digest.digest()


def decode(body: memoryview, kind: type[T]) -> T:
    """Return the message of that kind, or raise ``RemoteProtocolError``."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    try:
        message: T = decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"the message does not decode: {error}") from None
    return message


def read_reply(
    payload: bytes | bytearray, token: bytes, number: int, kind: type[T]
) -> T:
    """Return the reply to a request, or raise ``RemoteProtocolError``."""
    answered, body = unframe(payload, token)
    if answered != number:
        raise RemoteProtocolError(f"it answers request {answered}, not {number}")
    return decode(body, kind)


@overload
def pack_indices(indices: NDArray[Any]) -> memoryview: ...


@overload
def pack_indices(indices: NDArray[Any] | None) -> memoryview | None: ...


def pack_indices(indices: NDArray[Any] | None) -> memoryview | None:
    """Return positions or counts as bytes; none stays none."""
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


def pack_tokens(tokens: NDArray[np.uint64]) -> memoryview:
    """Return pseudonyms or tokens as bytes."""
    return memoryview(tokens.astype(_TOKEN, copy=False).tobytes())


def unpack_tokens(payload: memoryview, size: int | None = None) -> NDArray[np.uint64]:
    """Return tokens, ``size`` of them if that is known."""
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
    order = unpack_places(payload, size, size)
    if np.any(np.bincount(order, minlength=size) != 1):
        raise RemoteProtocolError("an order names a place twice")
    return order


def _array(payload: memoryview, dtype: np.dtype[Any]) -> NDArray[Any]:
    if len(payload) % dtype.itemsize:
        raise RemoteProtocolError(f"{len(payload)} bytes are no whole number of items")
    return np.frombuffer(payload, dtype=dtype)


def _sized(values: NDArray[Any], size: int) -> NDArray[Any]:
    if len(values) != size:
        raise RemoteProtocolError(f"expected {size} items, got {len(values)}")
    return values
