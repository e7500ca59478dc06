"""Searches a span of vectors for sparse ones, by linear programming."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from hyfdca.arrays import BoolArray, FloatArray
from hyfdca.maths.seeds import stream

_MOST_PROGRAMMES = 200  # per span
_PATIENCE = 30  # programmes in a row that find nothing new
_SECONDS = 1.0  # per programme
_ZERO = 1e-5  # largest entry that counts as zero, relative to the largest of all


class SparseSearch:
    """Finds sparse vectors and keeps those that chance does not explain."""

    def __init__(self) -> None:
        self.found: dict[bytes, FloatArray] = {}  # by where they are not zero
        self.n_programmes = 0

    def within(self, basis: FloatArray) -> None:
        """Search the span of an orthonormal basis, (n_rows, n_dimensions)."""
        # A row gives the lightest vector through it, so rows in the fewest vectors
        # come first, in random order.
        n_covering = stream(0, "sparse vectors").random(len(basis)) / 2
        n_covering += sum(_covered(vector) for vector in self.found.values())
        n_covering[~basis.any(axis=1)] = np.inf
        n_left, patience = _MOST_PROGRAMMES, _PATIENCE
        while n_left and patience and np.isfinite(n_covering).any():
            row = int(n_covering.argmin())
            n_covering[row] = np.inf
            n_left, patience = n_left - 1, patience - 1
            new = self._new(basis, row)
            if new is not None:
                n_covering += _covered(new)
                patience = _PATIENCE

    def _new(self, basis: FloatArray, row: int) -> FloatArray | None:
        """Return the sparse vector through a row, if it is a new one."""
        self.n_programmes += 1
        lightest = _lightest(basis, row)
        vector = None if lightest is None else _sparse(lightest, basis.shape[1])
        if vector is None or (place := (vector != 0).tobytes()) in self.found:
            return None
        self.found[place] = vector
        return vector


def _covered(vector: FloatArray) -> BoolArray:
    """Return where a vector is 1, if it has no other values than 0 and 1."""
    # Others are often mixtures, which explain no row.
    return np.asarray((vector == 1.0) & np.all((vector == 0.0) | (vector == 1.0)))


def _lightest(basis: FloatArray, row: int) -> FloatArray | None:
    """Return the vector of a span that is 1 in a row and has the least ℓ1 norm."""
    # The dual programme, maximise t subject to Q'u = t q_row and |u| <= 1, has one
    # constraint per dimension; their multipliers are the coefficients of the vector.
    n_rows, n_dimensions = basis.shape
    solved = linprog(
        np.append(np.zeros(n_rows), -1.0),
        A_eq=np.column_stack([basis.T, -basis[row]]),
        b_eq=np.zeros(n_dimensions),
        bounds=[*[(-1.0, 1.0)] * n_rows, (None, None)],
        options={"time_limit": _SECONDS},
    )
    if solved.status != 0:
        return None
    vector = basis @ solved.eqlin.marginals
    return np.asarray(vector / vector[row]) if vector[row] else None


def _sparse(vector: FloatArray, n_dimensions: int) -> FloatArray | None:
    """Return a vector with small entries set to 0, and equal ones to 1.

    Every span has vectors with ``n_dimensions`` - 1 zeros. Returns None if there are
    not far more coincidences than that: zeros, or zeros and equal entries.
    """
    vector = vector / np.abs(vector).max()
    vector[np.abs(vector) <= _ZERO] = 0.0
    others = vector[vector != 0]
    n_zeros = len(vector) - len(others)
    if n_zeros and np.ptp(others) <= _ZERO:
        vector[vector != 0] = 1.0
        return vector if len(vector) > 2 * n_dimensions else None
    is_sparse = n_zeros > max(2 * n_dimensions, len(vector) / 2)
    return vector if is_sparse else None
