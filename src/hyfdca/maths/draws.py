"""Rows that clients draw, as hashes: the same in a simulation of thousands of clients.

A separate generator for every client and round costs more than the steps it draws for.
Here the j-th number of a client is a hash of the round's key, the client's rank
and j (splitmix64), so one compiled loop can draw for everybody, and each client for
itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import IntArray
from hyfdca.maths.compiling import jit
from hyfdca.maths.seeds import stream

# Numba makes a float of a signed and an unsigned number, so all are unsigned.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONE, _S27, _S30, _S31, _S32 = (np.uint64(n) for n in (1, 27, 30, 31, 32))

_compiled = jit(nogil=True)


def round_key(seed: int, name: str, round_number: int) -> np.uint64:
    """Return the key of everything that is drawn under a name in one round."""
    random = stream(seed, name, round_number)
    return random.integers(2**64, dtype=np.uint64)


def distinct_rows(key: np.uint64, client: int, n_held: int, size: int) -> IntArray:
    """Return rows that a client draws without replacement, sorted."""
    out, taken = np.empty(size, np.int64), np.zeros(n_held, np.int32)
    draw_distinct(key, client, n_held, taken, 1, out)
    return np.sort(out)


def repeated_rows(
    key: np.uint64, client: int, n_held: int, size: int
) -> NDArray[np.uint32]:
    """Return rows that a client draws with replacement, in their order."""
    out = np.empty(size, np.uint32)
    draw_repeated(key, client, n_held, out)
    return out


@_compiled
def draw_distinct(key, client, n_held, taken, mark, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with different numbers below ``n_held``, by Floyd's method.

    ``taken`` is set to ``mark`` where a number was drawn; it has no ``mark`` before.
    """
    own = _client_key(key, client)
    first = n_held - out.size
    for j in range(first, n_held):
        number = _below(own, j, j + 1)
        if taken[number] == mark:
            number = j
        taken[number] = mark
        out[j - first] = number


@_compiled
def draw_repeated(key, client, n_held, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with numbers below ``n_held``, with replacement."""
    own = _client_key(key, client)
    for j in range(out.size):
        out[j] = _below(own, j, n_held)


@_compiled
def _client_key(key, client):  # type: ignore[no-untyped-def]
    return _mixed(key + (np.uint64(client) + _ONE) * _STEP)


@_compiled
def _below(key, j, n):  # type: ignore[no-untyped-def]
    """Return the j-th number of a key, below ``n``, which has at most 32 bits.

    The high half of a product instead of a remainder; numbers differ in probability by
    2^-32 at most.
    """
    bits = _mixed(key + (np.uint64(j) + _ONE) * _STEP) >> _S32
    return np.int64((bits * np.uint64(n)) >> _S32)


@_compiled
def _mixed(bits):  # type: ignore[no-untyped-def]
    bits = (bits ^ (bits >> _S30)) * _MIX_1
    bits = (bits ^ (bits >> _S27)) * _MIX_2
    return bits ^ (bits >> _S31)
