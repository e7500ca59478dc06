"""Numbers that people write for a missing value, such as -999, among other numbers."""

from __future__ import annotations

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.errors import counted

_CODES = (
    *(-9.0, -99.0, -999.0, -9_999.0, -99_999.0, -999_999.0),
    *(999.0, 9_999.0, 99_999.0, 999_999.0, 9_999_999.0),
)
_FEWEST = 2  # cells with the same code
_FAR = 5.0  # times the range of all other numbers


def missing_codes(cells: FloatArray) -> dict[float, int]:
    """Return numbers that seem to mean missing values, and how many cells have them.

    A code is far from all other numbers, or the only negative number.
    """
    is_code = np.isin(cells, _CODES)
    others = cells[~is_code & np.isfinite(cells)]
    if not is_code.any() or not len(others):
        return {}
    low, high = float(others.min()), float(others.max())
    far = _FAR * (high - low)
    found, counts = np.unique(cells[is_code], return_counts=True)
    return {
        code: count
        for code, count in zip(found.tolist(), counts.tolist(), strict=True)
        if count >= _FEWEST
        and low < high
        and (code < low - far or code > high + far or code < 0.0 <= low)
    }


def missing_note(file: str, name: str, cells: FloatArray) -> str:
    """Return what the owner of a column should know about such numbers, or ""."""
    if not (found := missing_codes(cells)):
        return ""
    each = [f"{counted(count, 'cell')} of {code:g}" for code, count in found.items()]
    return (
        f"Column {name!r} of {file} has {' and '.join(each)}, unlike all other cells: "
        "if such numbers mean missing values, make these cells blank."
    )
