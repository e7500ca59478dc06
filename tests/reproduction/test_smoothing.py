"""Moving averages and relative axes, by hand and by the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.reproduction.smoothing import (
    equal_seconds_window,
    moving_average,
    relative_rounds,
    relative_seconds,
    window_of_points,
)

VALUES = np.array([1.0, 2.0, 6.0, 3.0, 8.0])


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (1, [1, 2, 6, 3, 8]),
        (2, [1.5, 4, 4.5, 5.5]),
        (3, [9 / 3, 11 / 3, 17 / 3]),
        (4, [12 / 4, 19 / 4]),
        (5, [20 / 5]),
    ],
)
def test_averages_by_hand(window, expected):
    """There are n - ω + 1 averages."""
    averages = moving_average(VALUES, window)
    assert averages == pytest.approx(expected, rel=1e-15)
    assert len(averages) == len(relative_rounds(5, window))


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=40), st.data())
def test_averages_are_the_means_of_windows(values, data):
    """Whole numbers add up exactly, so there is no other rounding."""
    window = data.draw(st.integers(1, len(values)))
    expected = [
        sum(values[start : start + window]) / window
        for start in range(len(values) - window + 1)
    ]
    assert moving_average(np.array(values, float), window).tolist() == expected


def test_a_value_matters_only_in_its_own_windows():
    """Values that are not finite, or huge, do not affect later windows."""
    values = np.array([1.0, 1e16, 1.0, 3.0, math.inf, 1.0, math.nan, 1.0, 3.0])
    averages = moving_average(values, 2)
    assert averages[2] == averages[7] == 2.0
    assert averages[3] == averages[4] == math.inf
    assert np.isnan(averages[5:7]).all()


@pytest.mark.parametrize("window", [0, -1, 6])
def test_windows_that_do_not_fit_are_refused(window):
    """A window has at least one value, and at most all."""
    with pytest.raises(ValueError, match="window"):
        moving_average(VALUES, window)
    with pytest.raises(ValueError, match="window"):
        relative_rounds(5, window)


@pytest.mark.parametrize(
    ("n_rounds", "window"),
    [
        (44, 1),  # 0.44
        (149, 1),  # 1.49, rounded to 1, is not smoothed
        (150, 2),  # 1.5
        (250, 2),  # 2.5, to the even number
        (260, 3),
        (11_605_640, 116_056),
    ],
)
def test_windows_of_equal_time(n_rounds, window):
    """One percent of the rounds, rounded; below 2 the curve stays as it is."""
    assert equal_seconds_window(n_rounds) == window


@pytest.mark.parametrize(
    ("window", "every", "n_points"),
    [(150, 10, 15), (50, 1, 50), (50, 20, 2), (9, 50, 1)],
)
def test_windows_of_curves_measured_rarely(window, every, n_points):
    """A window has as many points as it has measured rounds, but at least one."""
    assert window_of_points(window, every) == n_points


def test_relative_rounds_go_from_zero_to_one():
    """The number t of an average over t_max - ω, with t from 0 to t_max - ω."""
    assert relative_rounds(5, 2) == pytest.approx([0, 1 / 3, 2 / 3, 1], rel=1e-15)
    assert relative_rounds(3, 1).tolist() == [0.0, 0.5, 1.0]
    assert relative_rounds(4, 4).tolist() == [1.0]  # one average, of the whole run


def test_relative_seconds_are_those_of_the_end_of_a_window():
    """Relative to the longest of three runs; only that one reaches 1."""
    seconds, totals = np.array([1.0, 2.0, 4.0, 8.0]), (8.0, 16.0, 3.0)
    expected = [2 / 16, 4 / 16, 8 / 16]
    assert relative_seconds(seconds, 2, totals).tolist() == expected
    assert relative_seconds(2 * seconds, 1, totals)[-1] == 1.0
