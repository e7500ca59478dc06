"""Sizes of the messages of simulated rounds, by formula.

Bytes are those that ``runtime.driver.Traffic`` counts in a training by messages without
encryption, exactly. A message is

- an envelope: the header, and all fields but vectors and positions. It is measured here
  on a message without them;
- vectors of numbers, 8 bytes each, and positions or counts of holders, 4 bytes each;
- in front of each of these its length: 2 bytes, 3 from 2^8 bytes on, 5 from 2^16 on.

It is exact under two conditions. No number outgrows its grid: a run that diverges asks
for coarser grids, with more messages. And the bounds from which grids are chosen lie
between 2^-60 and 2^60, so that msgpack writes the exponent of a grid as one byte. All
is compiled: some rounds take only 0.1 ms.
"""

from __future__ import annotations

from hyfdca.arrays import IntArray
from hyfdca.maths.compiling import jit
from hyfdca.protocol.client_session import TOKEN_BYTES, frame
from hyfdca.protocol.messages import GridSpec, Message, Part, Sealed
from hyfdca.runtime.driver import Traffic

_NUMBER, _INDEX = 8, 4  # bytes of a number that is not encrypted, and of a position
_NONE = 1  # byte of a value that is left out
_LENGTH = 2  # bytes of the length of a vector, if that is short
_PAIR = 2  # bytes of a vector besides its numbers: it is a pair with its grid
GRID = GridSpec(0, 1)

_HALF_TRIPS, _DOWN, _UP = range(3)  # of a cost

compiled = jit(nogil=True, error_model="numpy")


# Sizes, of numbers and of arrays


@compiled
def binary_size(n_bytes):  # type: ignore[no-untyped-def]
    """Return the size of bytes in msgpack, with their length in front."""
    return n_bytes + _LENGTH + (n_bytes >= 2**8) + 2 * (n_bytes >= 2**16)


@compiled
def integer_size(number):  # type: ignore[no-untyped-def]
    """Return the size of a whole number of at most 32 bits in msgpack."""
    return 1 + (number >= 2**7) + (number >= 2**8) + 2 * (number >= 2**16)


@compiled
def sum_size(n_numbers):  # type: ignore[no-untyped-def]
    """Return what a sum over holders adds to a message that has none."""
    return _PAIR + binary_size(_NUMBER * n_numbers)


@compiled
def indices_size(n_indices):  # type: ignore[no-untyped-def]
    """Return what positions or counts add to a message that has none."""
    return binary_size(_INDEX * n_indices) - _NONE


def envelope_size(message: Message) -> int:
    """Return the size of a message without vectors and positions."""
    return len(frame(bytes(TOKEN_BYTES), 0, message))


def traffic_of(cost: IntArray) -> Traffic:
    """Return a cost as the driver counts it."""
    return Traffic(
        round_trips=float(cost[_HALF_TRIPS]) / 2,
        bytes_up=int(cost[_UP]),
        bytes_down=int(cost[_DOWN]),
    )


# Envelopes are arguments of compiled functions: these are cached with the constants
# they were compiled with, even if a message has changed since.
PART = envelope_size(Part(Sealed(0, memoryview(b"")))) - _LENGTH


@compiled
def part_size(envelope, n_numbers):  # type: ignore[no-untyped-def]
    """Return the size of a reply, which is a vector."""
    return envelope + binary_size(_NUMBER * n_numbers)


@compiled
def add_exchange(cost, half_trips, down, up):  # type: ignore[no-untyped-def]
    """Add an exchange with some clients, if there are any."""
    if down:
        cost[_HALF_TRIPS] += half_trips
        cost[_DOWN] += down
        cost[_UP] += up
