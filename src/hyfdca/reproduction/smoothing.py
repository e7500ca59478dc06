"""What the paper's figures show: moving averages, on relative axes.

A run of n values and a window of ω gives n - ω + 1 averages, each of ω consecutive
values; nothing is padded at the ends. This is the reading under which the paper's
t_R = t / (t_max - ω) goes from 0 to 1: t counts averages from 0, and t_max is n. A
curve that is not smoothed has a window of 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.reproduction.paper import EQUAL_SECONDS_WINDOW


def moving_average(values: FloatArray, window: int) -> FloatArray:
    """Return the means of all ``window`` consecutive values, (n - window + 1,).

    The work does not grow with the window: the runs of equal time have windows of
    100,000 rounds. A value that is not finite spoils only the windows it is in.
    """
    n_values = len(values)
    _check_window(n_values, window)
    n_blocks = -(-n_values // window)
    padded = np.zeros(n_blocks * window)
    padded[:n_values] = values
    blocks = padded.reshape(n_blocks, window)
    # A window is the end of one block and the beginning of the next. Adding both
    # loses no digits, unlike the difference of two sums from the start.
    with np.errstate(over="ignore", invalid="ignore"):  # of a divergent run
        ends = np.cumsum(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
        beginnings = np.cumsum(blocks, axis=1).ravel()
        n_windows = n_values - window + 1
        fills_a_block = np.arange(n_windows) % window == 0
        rest = np.where(fills_a_block, 0.0, beginnings[window - 1 : n_values])
        return np.asarray((ends[:n_windows] + rest) / window)


def equal_seconds_window(n_rounds: int) -> int:
    """Return the window of a run that ended by time: 1 % of its rounds, rounded.

    A window below 2 leaves the curve unchanged, like a window of 1. Halves are
    rounded to the even number, as Python does.
    """
    window = round(n_rounds * EQUAL_SECONDS_WINDOW)
    return window if window >= 2 else 1


def window_of_points(window: int, measured_every: int) -> int:
    """Return how many measured values a window of that many rounds has, at least 1."""
    return max(1, round(window / measured_every))


def relative_rounds(n_values: int, window: int) -> FloatArray:
    """Return t_R of each average: from 0 for the first to 1 for the last.

    A single average is at 1, the end of its run.
    """
    _check_window(n_values, window)
    last = n_values - window
    return np.arange(last + 1) / last if last else np.ones(1)


def relative_seconds(
    seconds: FloatArray, window: int, totals: Sequence[float]
) -> FloatArray:
    """Return T_R of each average: its time, relative to the longest run's total.

    The paper does not say at which time it shows an average. Here it is the end of the
    window, when all its values are known.

    Parameters
    ----------
    seconds : array (n_values,)
        Total time up to each value.
    totals : sequence of float
        The total times of all methods in the same setting.
    """
    _check_window(len(seconds), window)
    return seconds[window - 1 :] / max(totals)


def _check_window(n_values: int, window: int) -> None:
    if not 1 <= window <= n_values:
        raise ValueError(
            f"a window must be from 1 to the {n_values} values there are, not {window}"
        )
