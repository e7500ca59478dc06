"""Whether compiled functions can be kept between runs.

Numba keeps them beside the package, in the user's home or in ``NUMBA_CACHE_DIR``, and
raises where none of them can be written to. Each process then compiles for itself.
"""

from __future__ import annotations

from numba import njit


def _can_keep() -> bool:
    try:
        njit(cache=True)(_can_keep)  # looks for a place, compiles nothing
    except RuntimeError:
        return False
    return True


CACHE = _can_keep()
