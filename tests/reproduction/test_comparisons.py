"""Counting wins, on results made by hand."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from hyfdca.reproduction.comparisons import (
    CLOCKS,
    RIVALS,
    Comparison,
    Count,
    Final,
    compare_finals,
    counts_by_clock,
)
from hyfdca.reproduction.paper import (
    DIAGONAL,
    METHODS,
    NOT_WON,
    SETTINGS,
    WON,
    WON_IN_ALL,
)

SETTING = DIAGONAL[0]


def finals(settings=DIAGONAL):
    """Return results with which HyFDCA wins everywhere."""
    keys = product(settings, METHODS, CLOCKS)
    better, worse = Final(1.0, 0.9), Final(2.0, 0.8)
    return {key: better if key[1] == "hyfdca" else worse for key in keys}


def comparison(ours, theirs, measure="loss"):
    return Comparison(SETTING, "fedavg", "rounds", measure, ours, theirs)


def test_there_are_72_comparisons_and_216_of_all_settings():
    """Settings times two rivals, two clocks and two measures, each once."""
    for settings, n_all in ((DIAGONAL, 72), (SETTINGS, 216)):
        rows = compare_finals(finals(settings), settings)
        assert len(set(rows)) == len(rows) == n_all
        assert Count.of(rows) == Count(n_all, n_all, 0)
        half = Count(n_all // 2, n_all // 2, 0)
        assert counts_by_clock(rows) == {"rounds": half, "seconds": half}
    assert RIVALS == ("fedavg", "hyfem")


def test_the_paper_s_counts_follow_from_what_it_did_not_win():
    """Three better accuracies of rivals leave 36 of 36, 33 of 36 and 69 of 72."""
    results = finals()
    for setting, rival, clock, measure in NOT_WON:
        assert measure == "accuracy"
        results[setting, rival, clock] = Final(2.0, 0.95)
    rows = compare_finals(results)
    lost = [(r.setting, r.rival, r.clock, r.measure) for r in rows if not r.is_won]
    assert set(lost) == set(NOT_WON)
    count = Count.of(rows)
    assert (count.n_won, count.n_made) == WON_IN_ALL
    by_clock = counts_by_clock(rows)
    assert {c: (by_clock[c].n_won, by_clock[c].n_made) for c in CLOCKS} == WON


@pytest.mark.parametrize(
    ("measure", "ours", "theirs", "is_won"),
    [
        ("loss", 1.0, 2.0, True),
        ("loss", 2.0, 1.0, False),
        ("loss", 1.0, 1.0, False),
        ("accuracy", 0.9, 0.8, True),
        ("accuracy", 0.8, 0.9, False),
        ("accuracy", 0.8, 0.8, False),
        ("loss", None, 1.0, None),
        ("loss", 1.0, None, None),
        ("loss", 1.0, math.nan, True),
        ("loss", 1.0, math.inf, True),
        ("loss", math.nan, 1.0, False),
        ("loss", math.nan, math.inf, False),
        ("loss", math.inf, math.nan, False),
        ("accuracy", 0.1, math.nan, True),
        ("accuracy", math.nan, 0.1, False),
        ("accuracy", math.nan, math.nan, False),
    ],
)
def test_who_wins(measure, ours, theirs, is_won):
    """A lower loss or a higher accuracy, strictly; divergence is worst."""
    assert comparison(ours, theirs, measure).is_won is is_won


def test_runs_that_were_not_made_are_missing():
    """Left out or None, they are in no comparison that counts."""
    results = finals()
    results[SETTING, "fedavg", "rounds"] = None
    del results[SETTING, "hyfdca", "seconds"]
    rows = compare_finals(results)
    # Two comparisons with FedAvg by rounds, four of HyFDCA itself by seconds.
    assert Count.of(rows) == Count(66, 66, 6)
    assert counts_by_clock(rows) == {
        "rounds": Count(34, 34, 2),
        "seconds": Count(32, 32, 4),
    }
    assert Count.of(compare_finals({})) == Count(0, 0, 72)


def test_each_comparison_has_the_values_of_its_own_runs():
    """Every run has a loss and an accuracy of its own."""
    keys = list(product(DIAGONAL, METHODS, CLOCKS))
    results = {key: Final(float(n), 1000.0 + n) for n, key in enumerate(keys)}
    for row in compare_finals(results):
        ours = results[row.setting, "hyfdca", row.clock]
        theirs = results[row.setting, row.rival, row.clock]
        assert row.ours == getattr(ours, row.measure)
        assert row.theirs == getattr(theirs, row.measure)


def test_final_values_are_means_over_the_last_window():
    """The last average of the smoothed curve, or the mean of a shorter curve."""
    losses, accuracies = np.array([9.0, 4.0, 1.0]), np.array([0.5, 0.7, 0.8])
    assert Final.of(losses, accuracies, 1) == Final(1.0, 0.8)
    assert Final.of(losses, accuracies, 2) == Final(2.5, 0.75)
    final = Final.of(losses, accuracies, 5)
    assert final.loss == pytest.approx(14 / 3)
    assert final.accuracy == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="at least one"):
        Final.of(losses, accuracies, 0)


def test_a_run_that_diverged_in_the_end_has_no_final_loss():
    """One loss in the last window is enough; earlier ones do not matter."""
    losses, accuracies = np.array([np.nan, 1.0, np.inf]), np.full(3, 0.5)
    assert Final.of(losses, accuracies, 2).loss == math.inf
    assert math.isnan(Final.of(losses, accuracies, 3).loss)
