"""The seven criteria, on curves short enough to compute by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hyfdca.reproduction.criteria import (
    Criteria,
    RunCurve,
    criteria_of,
    criteria_table,
)
from hyfdca.reproduction.gray import choose

LOSSES = (10.0, 5.0, 3.0, 2.0, 2.0, 1.0, 1.0)


def curve(losses=LOSSES, *, every=1, accuracies=None, seconds=None):
    """Return a curve of half a second per round, after a set-up of 7 seconds."""
    rounds = every * np.arange(len(losses))
    given = np.full(len(losses), 0.5) if accuracies is None else np.array(accuracies)
    total = 7.0 + 0.5 * rounds if seconds is None else np.array(seconds, float)
    return RunCurve(rounds, np.array(losses, float), given, total)


def test_criteria_by_hand():
    """Six rounds of HyFDCA, which has 4.5 round trips per round."""
    run = curve(accuracies=(0.5, 0.7, 0.9, 0.8, 0.8, 0.85, 0.8))
    criteria = criteria_of(run, 4.5)
    assert criteria.seconds_nearby == 0.5
    assert criteria.seconds_far == pytest.approx(0.5 + 1.15875, rel=1e-15)
    assert criteria.seconds_by_satellite == pytest.approx(0.5 + 3.6, rel=1e-15)
    assert criteria.final_loss == pytest.approx((3 + 2 + 2 + 1 + 1) / 5, rel=1e-15)
    assert criteria.best_accuracy == 0.9
    # Differences -5 -2 -1 0 -1 0 with the mean -1.5 are off by 3.5 .5 .5 1.5 .5 1.5,
    # whose squares add up to 12.25 + 3 * 0.25 + 2 * 2.25 = 17.5.
    assert criteria.volatility == pytest.approx(math.sqrt(17.5 / 6), rel=1e-15)
    # From 10 to 1; 90 % of it is at 1.9, and the first loss below is that of round 5.
    assert criteria.rounds_to_progress == 5


def test_only_the_accuracy_is_maximised():
    """There is a direction for each criterion, in order."""
    names = list(criteria_of(curve(), 1.0).__dict__)
    raised = [name for name, up in zip(names, Criteria.MAXIMISED, strict=True) if up]
    assert raised == ["best_accuracy"]


def test_a_curve_of_every_tenth_round():
    """Times are per round, progress is in rounds, losses are as measured."""
    rare, dense = criteria_of(curve(every=10), 1.0), criteria_of(curve(), 1.0)
    assert rare.seconds_nearby == dense.seconds_nearby == 0.5
    assert rare.seconds_far == dense.seconds_far == 0.5 + 0.2575
    assert (rare.rounds_to_progress, dense.rounds_to_progress) == (50, 5)
    assert rare.volatility == dense.volatility
    assert rare.final_loss == dense.final_loss


def test_the_time_of_a_round_is_a_mean_without_the_set_up():
    """Rounds of 1, 2 and 6 seconds after 100 seconds of set-up: 3 per round."""
    run = curve((3, 2, 1, 0), seconds=(100, 101, 103, 109))
    assert criteria_of(run, 1.0).seconds_nearby == 3.0


def test_exactly_nine_tenths_are_enough():
    """From 1 to 0, a loss of 0.1 counts."""
    assert criteria_of(curve((1.0, 0.5, 0.1, 0.0)), 1.0).rounds_to_progress == 2


def test_progress_counts_to_the_lowest_loss_not_to_the_last():
    """A run that comes down to 0 and ends at 0.5 has had its 90 % at 0."""
    run = curve((1.0, 0.2, 0.0, 0.5, 0.5))
    assert criteria_of(run, 1.0).rounds_to_progress == 2


def test_a_steady_descent_has_no_volatility():
    """Equal differences do not deviate."""
    assert criteria_of(curve((4, 3, 2, 1)), 1.0).volatility == 0.0


@pytest.mark.parametrize(
    "losses",
    [
        (1.0, 0.5, math.nan, 0.5, 0.4, 0.3, 0.3, 0.3),
        (1.0, math.inf, 0.5, 0.4, 0.3, 0.3, 0.3),
        (1.0, 0.5, 2.0, 3.0, 4.0, 5.0),
        (1.0, 5.0, 5.0, 5.0, 5.0, 0.5),  # the last five have a mean of 4.1
        (1.0, 1.0, 1.0),
        (1.0, 1e308, 1e308, 1e308, 1e308, 1e308),
    ],
    ids=["NaN", "infinite", "ends above", "ends above in the mean", "flat", "huge"],
)
def test_divergent_runs_have_no_criteria(losses):
    """A loss that is not finite, or an end that is not below the start."""
    run = curve(losses)
    assert run.is_divergent
    assert criteria_of(run, 1.0) is None


def test_a_run_may_rise_in_between():
    """Only the end counts: five losses of 0.5 after a peak."""
    assert not curve((1.0, 9.0, 0.5, 0.5, 0.5, 0.5, 0.5)).is_divergent


def test_the_best_run_is_chosen_and_divergent_ones_are_left_out():
    """A table keeps the places of runs; the slow copy of a run is dominated."""
    runs = [
        curve((1.0, math.nan, 0.0)),
        curve(seconds=np.arange(7.0)),
        curve(),
        curve((1.0, 2.0, 3.0)),
    ]
    table = criteria_table([criteria_of(run, 1.0) for run in runs])
    assert np.isnan(table).all(axis=1).tolist() == [True, False, False, True]
    chosen = choose(table, Criteria.MAXIMISED)
    assert (chosen.row, chosen.front.tolist()) == (2, [2])


def test_nothing_is_chosen_of_no_runs():
    """An empty table still has its columns."""
    assert criteria_table([]).shape == (0, 7)
    assert choose(criteria_table([None]), Criteria.MAXIMISED).row is None


def test_wrong_curves_are_refused():
    """Each round once, in order, with all its values."""
    two = np.zeros(2)
    with pytest.raises(ValueError, match="as many values"):
        RunCurve(np.arange(2), two, np.zeros(3), two)
    with pytest.raises(ValueError, match="ascending"):
        RunCurve(np.array([1, 1]), two, two, two)
    with pytest.raises(ValueError, match="at least two"):
        RunCurve(np.arange(1), *3 * [np.zeros(1)])
