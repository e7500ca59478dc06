"""Limits at which estimators stop training."""

import pytest
from sklearn.exceptions import ConvergenceWarning

from hyfdca import HyFDCAClassifier
from tests.estimators.findings import found


def test_a_time_limit_stops(cancer):
    """A round that exceeds the time limit is the last one."""
    with pytest.warns(ConvergenceWarning, match=r"\(time limit\).*raise max_seconds"):
        model = HyFDCAClassifier(max_seconds=1e-9, random_state=0).fit(*cancer)
    assert model.stop_reason_ == "time limit"
    assert model.n_iter_ == 1
    assert model.certificate_.primal == model.history_[0]["primal"]


def test_a_time_limit_that_is_not_reached_changes_nothing(cancer):
    """With enough time, training stops for another reason."""
    without, limited = (
        HyFDCAClassifier(max_seconds=seconds, l2=0.1, random_state=0).fit(*cancer)
        for seconds in (None, 1e6)
    )
    assert found(limited) == found(without)
    assert limited.stop_reason_ == "tolerance"


def test_a_loss_that_stalls_stops(cancer):
    """At the optimum the loss stops falling, and no gap is small enough for tol=0."""
    with pytest.warns(ConvergenceWarning, match=r"\(stalled\).*raise stall_rounds"):
        model = HyFDCAClassifier(tol=0.0, stall_rounds=5, random_state=0).fit(*cancer)
    assert model.stop_reason_ == "stalled"
    primals = [record["primal"] for record in model.history_]
    assert min(primals[-5:]) >= min(primals[:-5]) * (1 - 1e-6)
    assert min(primals[-6:-1]) < min(primals[:-6]) * (1 - 1e-6)  # not a round earlier
    assert model.certificate_.relative_gap < 1e-6


@pytest.mark.parametrize("stall_rounds", [3, 10])
def test_rounds_that_are_not_measured_do_not_stall(stall_rounds, cancer):
    """Where the loss falls from each measurement to the next, nothing has stalled."""
    without, watched = (
        HyFDCAClassifier(measure_every=7, stall_rounds=rounds, random_state=0)
        for rounds in (None, stall_rounds)
    )
    measured = [
        r["primal"] for r in without.fit(*cancer).history_ if r["round"] % 7 < 1
    ]
    assert measured == sorted(measured, reverse=True)
    assert watched.fit(*cancer).stop_reason_ == "tolerance"
    assert found(watched) == found(without)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_seconds": 0.0}, "max_seconds"),
        ({"max_seconds": float("nan")}, "max_seconds"),
        ({"max_seconds": "long"}, "max_seconds"),
        ({"stall_rounds": 0}, "stall_rounds must be a whole number from 1"),
        ({"stall_rounds": 2.5}, "stall_rounds must be a whole number from 1"),
    ],
)
def test_bad_limits_are_refused(settings, message, cancer):
    """An invalid limit is refused; the message names it."""
    with pytest.raises(ValueError, match=message):
        HyFDCAClassifier(**settings).fit(*cancer)
