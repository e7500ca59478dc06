"""The span of vectors on grids: how much of it is data and how much is rounding."""

from __future__ import annotations

import numpy as np

from hyfdca.arrays import FloatArray

_MANTISSA = 53  # bits of a float64


def span_of(vectors: FloatArray, n_parts: int) -> FloatArray:
    """Return an orthonormal basis of the columns' span, without rounding errors.

    Parameters
    ----------
    vectors : array (n_rows, n_vectors)
        Each is a sum of parts that were rounded to a grid before they were added.
    n_parts : int
        How many parts there are; each is off by at most one step of the grid.
    """
    left, sizes, _ = np.linalg.svd(vectors, full_matrices=False)
    # Rounding moves a singular value by at most the norm of all errors (Weyl), and
    # so does the decomposition itself.
    steps = np.linalg.norm([grid_step(column) for column in vectors.T])
    rounding = n_parts * steps * np.sqrt(len(vectors))
    largest = sizes.max(initial=0.0)
    rounding += np.finfo(np.float64).eps * max(vectors.shape) * largest
    return np.asarray(left[:, sizes > rounding])


def grid_step(values: FloatArray) -> float:
    """Return the largest power of two that divides all values; 0 if all are zero."""
    mantissas, exponents = np.frexp(values[values != 0])
    whole = np.ldexp(mantissas, _MANTISSA).astype(np.int64)
    lowest_bits = np.ldexp((whole & -whole).astype(np.float64), exponents - _MANTISSA)
    return float(lowest_bits.min(initial=np.inf)) if len(whole) else 0.0
