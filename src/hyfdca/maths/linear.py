"""Solves linear systems that are known only by their products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hyfdca.arrays import FloatArray

_SOLVED = 1e-28  # squared residual, relative to that of zero, at which to stop


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray], right: FloatArray, n_steps: int
) -> FloatArray:
    """Return x near A x = right for a positive definite A, column by column.

    Every column is a separate system; they share the products.
    """
    x, residual, direction = np.zeros_like(right), right, right
    size = first = np.sum(residual**2, axis=0)
    for _ in range(n_steps):
        if np.all(size <= _SOLVED * first):
            break
        bent = product(direction)
        length = ratio(size, np.sum(direction * bent, axis=0))
        x = x + length * direction
        residual = residual - length * bent
        new = np.sum(residual**2, axis=0)
        direction = residual + ratio(new, size) * direction
        size = new
    return x


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return a quotient, 0 where a column is solved already."""
    return np.divide(
        numerator,
        denominator,
        out=np.zeros_like(numerator),
        where=denominator > 0,
    )
