"""Compiled sums of check rows: numbers of 64 bits times factors, modulo primes."""

from __future__ import annotations

import numpy as np

from hyfdca.maths.compiling import jit

_RUN = 64  # products of 26 and 32 bits that 64 bits have room for
BIAS = 2**63  # makes numbers positive


@jit(nogil=True)
def combine_one(words, factors, moduli, found):  # type: ignore[no-untyped-def]
    """Combine a column of one group.

    Words are halved, so that products have room; sums of 64 products are cut again.
    """
    bias, low, half = np.uint64(BIAS), np.uint64(2**32 - 1), np.uint64(32)
    column = words.reshape(-1)
    lowest, middle, highest = np.uint64(0), np.uint64(0), np.uint64(0)
    for first in range(0, column.size, _RUN):
        run, own = column[first : first + _RUN], factors[first : first + _RUN]
        below, above = np.uint64(0), np.uint64(0)
        for i in range(run.size):
            word, factor = run[i] ^ bias, np.uint64(own[i])
            below += (word & low) * factor
            above += (word >> half) * factor
        lowest += below & low
        middle += (below >> half) + (above & low)
        highest += above >> half
    found[0, 0] = _reduced(lowest, middle, highest, moduli[:, 0])


@jit(nogil=True)
def combine_groups(words, order, starts, factors, moduli, found):  # type: ignore[no-untyped-def]
    """Combine a column of several groups, one group after the other."""
    bias, low, half = np.uint64(BIAS), np.uint64(2**32 - 1), np.uint64(32)
    column = words.reshape(-1)
    for g in range(moduli.shape[1]):
        own = order[starts[g] : starts[g + 1]]
        lowest, middle, highest = np.uint64(0), np.uint64(0), np.uint64(0)
        for first in range(0, own.size, _RUN):
            run = own[first : first + _RUN]
            below, above = np.uint64(0), np.uint64(0)
            for item in run:
                word, factor = column[item] ^ bias, np.uint64(factors[item])
                below += (word & low) * factor
                above += (word >> half) * factor
            lowest += below & low
            middle += (below >> half) + (above & low)
            highest += above >> half
        found[g, 0] = _reduced(lowest, middle, highest, moduli[:, g])


@jit(nogil=True)
def combine(words, order, starts, factors, moduli, found):  # type: ignore[no-untyped-def]
    """Combine several columns of any groups."""
    bias, low, half = np.uint64(BIAS), np.uint64(2**32 - 1), np.uint64(32)
    width = words.shape[1]
    below, above = np.zeros(width, np.uint64), np.zeros(width, np.uint64)
    sums = np.zeros((3, width), np.uint64)
    for g in range(moduli.shape[1]):
        sums[:] = 0
        own = order[starts[g] : starts[g + 1]]
        for first in range(0, own.size, _RUN):
            for item in own[first : first + _RUN]:
                row, factor = words[item], np.uint64(factors[item])
                for c in range(width):
                    word = row[c] ^ bias
                    below[c] += (word & low) * factor
                    above[c] += (word >> half) * factor
            _cut(below, above, sums)
        for c in range(width):
            found[g, c] = _reduced(sums[0, c], sums[1, c], sums[2, c], moduli[:, g])


@jit(nogil=True)
def _cut(below, above, sums):  # type: ignore[no-untyped-def]
    """Move sums of products to three sums, each 32 bits above the one before."""
    low, half = np.uint64(2**32 - 1), np.uint64(32)
    for c in range(below.size):
        sums[0, c] += below[c] & low
        sums[1, c] += (below[c] >> half) + (above[c] & low)
        sums[2, c] += above[c] >> half
        below[c], above[c] = np.uint64(0), np.uint64(0)


@jit(nogil=True)
def _reduced(lowest, middle, highest, moduli):  # type: ignore[no-untyped-def]
    """Return what three sums stand for, without the bias, modulo a prime; times u."""
    modulus, bias, unit = moduli[0], moduli[1], moduli[2]
    prime, base = np.uint64(modulus), np.uint64(2**32) % np.uint64(modulus)
    found = highest % prime * base % prime + middle % prime
    found = (found % prime * base + lowest % prime) % prime
    return (np.int64(found) + modulus - bias) % modulus * unit % modulus
