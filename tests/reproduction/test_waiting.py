"""Waiting for absent clients, computed: the real driver has the same rounds."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.algorithms.bundle import bundle
from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.algorithms.bundle.server import BundleServer
from hyfdca.holdings.participation import (
    bernoulli,
    complete,
    random_fraction,
    schedule,
)
from hyfdca.reproduction.bundle_run import Limits, bundle_history
from hyfdca.reproduction.paper import Setting
from hyfdca.reproduction.problems import Choices, PaperProblem, Rows
from hyfdca.reproduction.waiting import bundle_curve, waiting_curve
from tests.reproduction.small_problem import problem
from tests.support.small_runs import classification, make_training

LIMITS = Limits(0.0, 12)
N_ROUNDS = 120


def wide_problem():
    """Return a problem with more features than samples, where the product waits."""
    X, y = classification(70, 60)
    return PaperProblem(
        "news20", 0.01, Choices(), Rows(X[:50], y[:50, 0]), Rows(X[50:], y[50:, 0])
    )


PRESENT = {
    "fraction 0.3": random_fraction(9, 0.3, 0),
    "fraction 0.9": random_fraction(9, 0.9, 1),
    "sometimes nobody": bernoulli(9, 0.15, 2),
    "everybody": complete(9),
}


@pytest.mark.parametrize("data", [problem(), wide_problem()], ids=["narrow", "wide"])
@pytest.mark.parametrize("present", PRESENT.values(), ids=PRESENT)
def test_rounds_are_those_of_the_driver(data, present, monkeypatch):
    """P of every physical round; D, bytes and trips at the end of every step."""
    monkeypatch.setattr(bundle, "AsyncBundleServer", BundleServer)
    found = waiting_curve(
        bundle_history(data, (3, 3), limits=LIMITS), present, N_ROUNDS
    )
    run = make_training(
        data.train.X,
        data.train.y[:, None],
        data.partition((3, 3)),
        algorithm=Bundle(),
        l2=data.l2,
        profile="open",
        participation=present,
        max_rounds=N_ROUNDS if len(found.rounds) < 13 else int(found.rounds[-1]),
    )
    ends = dict(zip(found.rounds.tolist(), range(len(found.rounds)), strict=True))
    step = n_bytes = trips = 0
    for report in run.rounds():
        step = ends.get(report.round_number, step)
        n_bytes += report.traffic.bytes_up + report.traffic.bytes_down
        trips += report.traffic.round_trips
        assert report.measurement.primal == found.losses[step]
        # The bound is known before the step ends.
        assert report.measurement.dual >= found.bounds[step]
        if report.round_number in ends:
            assert report.measurement.dual == found.bounds[step]
            weights = run.release()[:, 0]
            assert data.validation.accuracy(weights) == found.accuracies[step]
            assert (n_bytes, trips) == (found.n_bytes[step], found.round_trips[step])
    assert step == len(found.rounds) - 1 > 0


def test_steps_that_do_not_end_in_time_are_left_out():
    """It also holds if some client, or every client, never comes."""
    history = bundle_history(problem(), (3, 3), limits=LIMITS)
    present = random_fraction(9, 0.5, 0)
    whole = waiting_curve(history, present, 10_000)
    assert len(whole.rounds) == 13
    for n_rounds in (0, int(whole.rounds[4]) - 1, int(whole.rounds[4])):
        cut = waiting_curve(history, present, n_rounds)
        n_steps = int(np.sum(whole.rounds <= n_rounds))
        for name, values in vars(cut).items():
            assert values.tolist() == getattr(whole, name)[:n_steps].tolist()
    for never in ([range(8)], [[]]):
        assert waiting_curve(history, schedule(never), 50).rounds.tolist() == [0]


def test_costs_of_a_setting_grow_from_step_to_step(tmp_path):
    """Nothing has been spent at the start; fractions share the history."""
    curves = [
        bundle_curve(
            problem(), Setting("covtype", (3, 3), share), 500, tmp_path, limits=LIMITS
        )
        for share in (0.5, 0.9)
    ]
    assert len(list(tmp_path.iterdir())) == 1
    for found in curves:
        totals = ("rounds", "n_bytes", "round_trips", "sealed", "opened", "seconds")
        for total in (getattr(found, name) for name in totals):
            assert total[0] == 0
            assert np.all(np.diff(total) > 0)
        assert np.all(found.bounds <= found.losses.min())
    assert np.all(curves[0].rounds[1:] > curves[1].rounds[1:])
    assert np.array_equal(curves[0].n_bytes, curves[1].n_bytes)
