"""When a training stops: each rule on histories made for it, and rules in a run."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hyfdca.algorithms import Bundle, D3ca, FedAvg, Hyfdca, HyFem, Lbfgs
from hyfdca.maths.objective import Measurement
from hyfdca.training.settings import TrainingSettings
from hyfdca.training.stopping import (
    CertifiedGap,
    PrimalStall,
    Progress,
    RoundLimit,
    TimeLimit,
    advice_for,
    reason_to_stop,
)
from tests.contract.cases import Case


def progress_of(*primals: float, seconds: float = 0.0) -> Progress:
    """Return the progress of rounds that measured these losses."""
    history = [{"round": n + 1, "primal": p} for n, p in enumerate(primals)]
    return Progress(history, Measurement(1.0, 0.9), seconds=seconds)


@pytest.mark.parametrize(
    ("tolerance", "is_met"), [(0.099, False), (0.1, True), (0.2, True)]
)
def test_a_gap_is_small_enough_at_the_tolerance(tolerance, is_met):
    """(P - D) / P of 1.0 and 0.9 is 0.1, up to rounding."""
    progress = Progress(measurement=Measurement(1.0, 0.9 + 1e-15))
    assert CertifiedGap(tolerance).is_met(progress) == is_met


def test_without_a_bound_no_gap_is_small_enough():
    """A method that is not certified never reaches a tolerance, however large."""
    assert not CertifiedGap(1e100).is_met(Progress(measurement=Measurement(1.0, None)))
    assert not CertifiedGap(1e100).is_met(Progress())


def test_rounds_and_seconds_are_limits():
    """Both are met at the limit, not before."""
    assert not RoundLimit(3).is_met(progress_of(1.0, 1.0))
    assert RoundLimit(3).is_met(progress_of(1.0, 1.0, 1.0))
    assert not TimeLimit(2.0).is_met(progress_of(1.0, seconds=1.9))
    assert TimeLimit(2.0).is_met(progress_of(1.0, seconds=2.0))


@pytest.mark.parametrize(
    ("primals", "is_met"),
    [
        ((1.0, 0.9, 0.8, 0.7), False),
        ((1.0, 0.9, 0.9, 0.9), False),
        ((1.0, 0.9, 0.9, 0.9, 0.9), True),
        ((1.0, 0.9, 0.9 - 1e-8, 0.9 - 2e-8, 0.9 - 3e-8), True),  # less than a millionth
        ((1.0, 0.9, 0.95, 0.92, 0.91), True),  # it has to fall below the lowest
        ((1.0, 0.9, 0.95, 0.92, 0.89), False),
        ((1.0, math.nan, math.nan, 0.5), False),
        ((1.0, math.nan, math.nan, math.nan), False),
        ((1.0, math.nan, math.nan, 1.0), True),
        ((math.nan, 1.0, math.nan, math.nan, 1.0), True),
        ((math.nan, math.nan, math.nan), False),
        ((), False),
    ],
)
def test_a_loss_stalls_when_its_lowest_is_old(primals, is_met):
    """Only a measurement can show that there was no progress since an earlier one."""
    assert PrimalStall(3).is_met(progress_of(*primals)) == is_met


class Counted(list):
    """A history that counts how many of its records are looked at."""

    n_looked = 0

    def __getitem__(self, place):
        Counted.n_looked += 1
        return super().__getitem__(place)


def test_a_stall_costs_the_same_in_every_round():
    """A rule that is asked in each round looks at new records alone."""
    progress, rule = Progress(Counted()), PrimalStall(2000)
    for number in range(1, 1001):
        progress.history.append({"round": number, "primal": 1.0})
        assert not rule.is_met(progress)
    assert Counted.n_looked < 5 * 1000


def test_a_stall_is_the_same_after_a_return_to_an_earlier_round():
    """A checkpoint replaces the records, and the last one may be measured later."""
    progress, rule = progress_of(1.0, 0.5, 0.5, 0.5), PrimalStall(2)
    assert rule.is_met(progress)
    progress.history[:] = progress_of(1.0, 0.9, math.nan).history
    assert not rule.is_met(progress)
    progress.history[-1]["primal"] = 0.9
    for number, primal in enumerate((0.8, 0.8, 0.8), start=4):
        assert not rule.is_met(progress)
        progress.history.append({"round": number, "primal": primal})
    assert rule.is_met(progress)
    assert rule.is_met(progress)  # asked twice


def test_the_first_rule_that_is_met_gives_the_reason():
    """A certified gap is a better reason than a limit reached in the same round."""
    settings = TrainingSettings(
        loss=None, l2_strength=1.0, tolerance=0.2, max_rounds=1, stall_rounds=1
    )
    rules = settings.stop_rules()
    assert reason_to_stop(rules, progress_of(1.0)) == "tolerance"
    assert reason_to_stop(rules[1:], progress_of(1.0)) == "round limit"
    assert reason_to_stop(rules, Progress()) is None


@pytest.mark.parametrize(
    ("primals", "is_diverging"),
    [
        ((2.0,) * 12, True),
        ((0.5,) * 7 + (2.0,) * 5, True),
        ((0.5, 1.5) * 6, False),  # P of a dual ascent swings; the last one is high
        ((2.0,) * 11 + (0.9,), False),
        ((math.nan, math.nan, 2.0) * 6, True),  # not measured every round
        ((0.5, math.nan, math.nan) * 5 + (1.5, math.nan, 1.5), False),
        ((2.0,) * 9, False),  # too early to say
    ],
)
def test_a_training_that_stays_above_its_start_diverges(primals, is_diverging):
    """One round above it is not enough."""
    progress = progress_of(*primals)
    progress.start = 1.0
    progress.measurement = Measurement(primals[-1], 0.0)
    assert progress.is_diverging == is_diverging


def test_every_reason_but_the_tolerance_has_advice():
    """A user who did not get the gap is told what to do."""
    for reason in ("round limit", "time limit", "stalled"):
        assert advice_for(reason, Bundle)
    assert "step" in advice_for("diverged", Hyfdca)
    assert "rate" in advice_for("diverged", FedAvg)
    for biased in (FedAvg, HyFem, D3ca):
        assert "biased" in advice_for("round limit", biased)
    assert "local_fraction" in advice_for("diverged", D3ca)
    assert "penalise_intercept = true" in advice_for("round limit", Lbfgs)
    assert "penalise_intercept" not in advice_for("diverged", Lbfgs)
    assert "penalise_intercept" not in advice_for("round limit", Bundle)


@pytest.mark.parametrize("algorithm", ["bundle", "hyfdca"])
def test_a_run_stops_at_its_gap(algorithm):
    """The last record is the first whose gap is small enough."""
    run = Case(algorithm).run(tolerance=0.05, max_rounds=500)
    run.finish()
    gaps = [record["relative_gap"] for record in run.history]
    assert run.stop_reason == "tolerance"
    assert gaps[-1] <= 0.05 < min(gaps[:-1])


def test_the_round_in_which_time_is_up_is_measured():
    """The model is that of the last round, however rarely rounds are measured."""
    case = Case("bundle")
    run = case.run(measure_every=50)
    run.runner.settings = replace(run.settings, max_seconds=1e-9)
    run.runner._rules = run.runner.settings.stop_rules()
    run.finish()
    assert run.stop_reason == "time limit"
    assert [record["round"] for record in run.history] == [1]
    assert run.history[-1]["primal"] == run.measurement.primal
