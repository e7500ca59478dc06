"""Values of one cell at two clients, rounded so that close ones become equal.

Tokens only show whether numbers are equal, so values are rounded before they are
compared. Close values may be on both sides of an edge of the grid. Therefore there are
two grids, the second shifted by half a step, and the owner of a cell chooses the one in
which its value is not near an edge: in the middle half of a step. Its choice is the
*hint*, one bit per cell. The other holders round by the same grid.

The grids are logarithmic: a step is 4.5 tolerances wide, of the value itself. Values
that differ by at most the tolerance are always equal when rounded (a quarter of a step
is more than that), values that differ by more than four times it never are.
"""

from __future__ import annotations

import numpy as np

from hyfdca.arrays import BoolArray, FloatArray

_STEP = 4.5  # tolerances
_ABOVE_ALL = 1000.0  # added to logarithms of floats it makes them positive
_FINEST = 1e-12  # finer steps would have numbers that are not exact


def choose_grids(values: FloatArray, tolerance: float) -> BoolArray:
    """Return for which values the shifted grid is better; no value is zero."""
    within = _places(values, tolerance) % 1.0
    return (within < 0.25) | (within >= 0.75)


def round_values(
    values: FloatArray, is_shifted: BoolArray, tolerance: float
) -> FloatArray:
    """Return the step of each value on its grid as a number; no value is zero.

    Steps of the two grids, and of values of different sign, have different numbers.
    Missing values stay missing.
    """
    steps = np.floor(_places(values, tolerance) + 0.5 * is_shifted)
    return np.copysign(2.0 * steps + is_shifted, values)


def _places(values: FloatArray, tolerance: float) -> FloatArray:
    """Return the positions of values on the first grid, in steps."""
    step = _STEP * max(tolerance, _FINEST)
    return np.asarray((np.log(np.abs(values)) + _ABOVE_ALL) / step)
