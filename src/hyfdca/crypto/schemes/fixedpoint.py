"""Fixed point: reals as whole numbers on a power-of-two grid, so that sums are exact.

Laws (tested): decoding the sum of encoded vectors is the sum of the decoded ones;
nothing wraps, a value beyond the limit raises ``GridOverflowError``; rounding "to
zero" never moves a number away from zero, "up" never lowers one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.maths.compiling import jit

SUM_BITS = 58  # a sum stays below 2^58: inside int64 and inside a 60-bit plaintext
EXACT_BITS = 52  # whole numbers up to 2^52 are exact as floats, and so are their sums
FINEST_BITS = 800  # where a bound is tiny; 2**800 is still a float
COARSER_BITS = 8  # one step of a grid that turned out too fine


class GridOverflowError(ValueError):
    """A value does not fit the grid; ask for a coarser one."""


@jit(nogil=True)
def _to_nearest(values, scale, limit, out):  # type: ignore[no-untyped-def]
    fits = True
    for i in range(out.size):
        number = np.rint(values[i] * scale)
        fits &= abs(number) <= limit  # false for NaN too
        out[i] = np.int64(number)
    return fits


@jit(nogil=True)
def _to_zero(values, scale, limit, out):  # type: ignore[no-untyped-def]
    fits = True
    for i in range(out.size):
        number = values[i] * scale
        fits &= abs(number) <= limit
        out[i] = np.int64(number)  # as in C, towards zero
    return fits


@jit(nogil=True)
def _upwards(values, scale, limit, out):  # type: ignore[no-untyped-def]
    fits = True
    for i in range(out.size):
        number = np.ceil(values[i] * scale)
        fits &= abs(number) <= limit
        out[i] = np.int64(number)
    return fits


@jit(nogil=True)
def _to_reals(numbers, step, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = numbers[i] * step


Rounding = Literal["nearest", "to zero", "up"]

_ROUNDINGS: dict[Rounding, Any] = {
    "nearest": _to_nearest,
    "to zero": _to_zero,
    "up": _upwards,
}


@dataclass(frozen=True)
class Grid:
    """Multiples of 2**-fraction_bits; a contribution is up to 2**limit_bits of them."""

    fraction_bits: int
    limit_bits: int

    def encode(self, values: FloatArray, rounding: Rounding = "nearest") -> IntArray:
        """Return the values as whole numbers of grid steps.

        Raises
        ------
        GridOverflowError
            If a value is beyond the limit, infinite or not a number.
        """
        numbers = np.empty(values.shape, np.int64)
        fits = _ROUNDINGS[rounding](
            np.ascontiguousarray(values, dtype=np.float64).reshape(-1),
            math.ldexp(1.0, self.fraction_bits),
            math.ldexp(1.0, self.limit_bits),
            numbers.reshape(-1),
        )
        if not fits:
            raise GridOverflowError(
                f"a value exceeds 2**{self.limit_bits - self.fraction_bits}"
            )
        return numbers

    def coarser(self) -> Grid:
        """Return the grid to try when a value did not fit this one."""
        return replace(self, fraction_bits=self.fraction_bits - COARSER_BITS)


def decode(numbers: IntArray, fraction_bits: int) -> FloatArray:
    """Return the reals that whole numbers of steps of 2**-fraction_bits stand for."""
    reals = np.empty(numbers.shape)
    flat = np.ascontiguousarray(numbers).reshape(-1)
    _to_reals(flat, math.ldexp(1.0, -fraction_bits), reals.reshape(-1))
    return reals


def grid_for(bound: float, n_summands: int, bits: int = SUM_BITS) -> Grid:
    """Return the finest grid on which ``n_summands`` values up to ``bound`` add up."""
    if not math.isfinite(bound):
        raise ValueError(f"no grid has room for numbers up to {bound}")
    limit_bits = bits - (max(n_summands, 1) - 1).bit_length()
    if limit_bits < 1:
        raise ValueError(f"{n_summands} summands leave no bits for their values")
    magnitude = math.frexp(bound)[1] if bound > 0 else 0
    return Grid(min(limit_bits - magnitude, FINEST_BITS), limit_bits)


def power_above(value: float) -> float:
    """Return the power of two just above a number; 0 for 0."""
    return math.ldexp(1.0, math.frexp(value)[1]) if value > 0 else 0.0
