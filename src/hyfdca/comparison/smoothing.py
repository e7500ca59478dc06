"""Curves that keep going up and down, drawn so that others stay visible."""

from __future__ import annotations

import numpy as np

from hyfdca.arrays import FloatArray

_MANY = 40  # points from which lines up and down merge into a block
_TURNS = 0.25  # share of its points at which a rough curve turns up or down
_FARTHEST = 0.025  # share of the points from a point to the last one in its mean


def smoothed(heights: FloatArray) -> FloatArray | None:
    """Return the means of nearby points; None for a curve that is smooth by itself.

    A mean has as many points before as after its own, so fewer near the ends, and the
    ends stay as they are. A curve that is not finite everywhere is left alone.
    """
    n_points = len(heights)
    if n_points < _MANY or not np.isfinite(heights).all():
        return None
    steps = np.sign(np.diff(heights))
    if np.count_nonzero(steps[1:] * steps[:-1] < 0) < _TURNS * n_points:
        return None
    places = np.arange(n_points)
    reach = np.minimum(places, places[::-1])
    reach = np.minimum(reach, max(2, int(_FARTHEST * n_points)))
    sums = np.concatenate([[0.0], np.cumsum(heights)])
    first, last = places - reach, places + reach
    # The outermost count half, so that up and down in turns cancel.
    inner = sums[last + 1] - sums[first] - 0.5 * (heights[first] + heights[last])
    return np.where(reach > 0, inner / np.maximum(2 * reach, 1), heights)


def smoothed_ratios(heights: FloatArray) -> FloatArray | None:
    """Return the same for numbers above 0, using their logarithms."""
    if not (heights > 0.0).all():
        return None
    logarithms = smoothed(np.log(heights))
    return None if logarithms is None else np.asarray(np.exp(logarithms))
