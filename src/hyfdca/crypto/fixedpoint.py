"""Fixed point: reals as whole numbers on a power-of-two grid, so that sums are exact.

Laws (tested): decoding the sum of encoded vectors is the sum of the decoded ones;
nothing wraps, a value beyond the limit raises ``GridOverflowError``; ``np.trunc`` never
moves a number away from zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SUM_BITS = 58  # a sum stays below 2^58: inside int64 and inside a 60-bit plaintext
EXACT_BITS = 52  # whole numbers up to 2^52 are exact as floats, and so are their sums
COARSER_BITS = 8  # one step of a grid that turned out too fine


class GridOverflowError(ValueError):
    """A value does not fit the grid; ask for a coarser one."""


@dataclass(frozen=True)
class Grid:
    """Multiples of 2**-fraction_bits, each contribution up to 2**limit_bits of them."""

    fraction_bits: int
    limit_bits: int

    def encode(
        self,
        values: FloatArray,
        rounding: Callable[[FloatArray], FloatArray] = np.rint,
    ) -> IntArray:
        """Return the values as whole numbers of grid steps.

        Raises
        ------
        GridOverflowError
            If a value is beyond the limit, infinite or not a number.
        """
        scaled = rounding(values * math.ldexp(1.0, self.fraction_bits))
        limit = math.ldexp(1.0, self.limit_bits)
        # Written so that NaN fails too.
        if scaled.size and not (scaled.max() <= limit and scaled.min() >= -limit):
            raise GridOverflowError(
                f"a value exceeds 2**{self.limit_bits - self.fraction_bits}"
            )
        return scaled.astype(np.int64)

    def coarser(self) -> Grid:
        """Return the grid to try when a value did not fit this one."""
        return replace(self, fraction_bits=self.fraction_bits - COARSER_BITS)


def decode(numbers: IntArray, fraction_bits: int) -> FloatArray:
    """Return the reals that whole numbers of steps of 2**-fraction_bits stand for."""
    return numbers.astype(np.float64) * math.ldexp(1.0, -fraction_bits)


def grid_for(bound: float, n_summands: int, bits: int = SUM_BITS) -> Grid:
    """Return the finest grid on which ``n_summands`` values up to ``bound`` add up."""
    limit_bits = bits - (max(n_summands, 1) - 1).bit_length()
    magnitude = math.frexp(bound)[1] if bound > 0 else 0
    return Grid(limit_bits - magnitude, limit_bits)
