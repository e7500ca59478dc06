"""A run of the study as a curve: the exchange of messages has the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.algorithms.fedavg import FedAvg
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.algorithms.hyfem import HyFem
from hyfdca.holdings.participation import random_fraction
from hyfdca.reproduction.paper import METHODS, Hyperparameters
from hyfdca.reproduction.simulation import ORDERS, make_run, simulate
from tests.reproduction.small_problem import SETTING, problem
from tests.support.small_runs import make_training

CHOSEN = {
    "hyfdca": Hyperparameters(0.3),
    "fedavg": Hyperparameters(0.5, 1.0, 2.0),
    "hyfem": Hyperparameters(0.5, 1.0, 2.0, 0.5),
}


def run_of(method, chosen=None, fraction=0.5, l2=0.01):
    data = problem(l2)
    blocks = data.blocks(SETTING.clients, ORDERS[method])
    return data, make_run(blocks, l2, method, chosen or CHOSEN[method], fraction, 0)


@pytest.mark.parametrize("method", METHODS)
def test_a_curve_is_that_of_a_training_by_messages(method):
    """Losses, accuracies and bytes, with the settings of the study."""
    found = simulate(*run_of(method), n_rounds=10, measure_every=4)
    assert found.rounds.tolist() == [0, 4, 8, 10]
    data = problem()
    algorithm = {
        "hyfdca": Hyfdca(step="paper", refresh="all", divide_by="all", iic=0.3),
        "fedavg": FedAvg(iic=0.5, rate=1.0, rate_offset=2.0),
        "hyfem": HyFem(iic=0.5, rate=1.0, rate_offset=2.0, mu=0.5),
    }[method]
    training = make_training(
        data.train.X,
        data.train.y[:, None],
        data.partition(SETTING.clients),
        algorithm=algorithm,
        l2=0.01,
        participation=random_fraction(9, 0.5, 0),
        seed=0,
        max_rounds=10,
        tolerance=0.0,
    )
    expected = {0: (1.0, data.validation.accuracy(np.zeros(12)), 0)}
    n_bytes = 0
    for report in training.rounds():
        weights = training.release()[:, 0]
        loss = data.objective.primal(weights[:, None])
        accuracy, traffic = data.validation.accuracy(weights), report.traffic
        n_bytes += traffic.bytes_up + traffic.bytes_down
        expected[report.round_number] = (loss, accuracy, n_bytes)
    losses, accuracies, totals = zip(*(expected[r] for r in found.rounds), strict=True)
    assert found.losses == pytest.approx(np.array(losses), rel=1e-10)
    assert found.accuracies.tolist() == list(accuracies)
    assert found.bytes.tolist() == list(totals)


@pytest.mark.parametrize("method", METHODS)
def test_costs_grow_from_round_to_round(method):
    """Nothing has been spent at the start; totals never fall."""
    found = simulate(*run_of(method), n_rounds=6, measure_every=1)
    for total in (found.seconds, found.sealed, found.bytes, found.busiest_sealed):
        assert total[0] == 0
        assert np.all(np.diff(total) > 0)
    for total in (found.opened, found.busiest_opened):  # nothing, if all is zero yet
        assert total[0] == 0
        assert np.all(np.diff(total) >= 0)
        assert total[-1] > total[1]
    assert np.all(found.busiest_sealed <= found.sealed)
    assert np.all(found.busiest_opened <= found.opened)


def test_a_run_that_diverges_ends_early_with_an_infinite_loss():
    """Its rest would be a waste of time."""
    chosen = Hyperparameters(0.5, 25.0, 1e-5, 1e4)
    found = simulate(*run_of("hyfem", chosen), n_rounds=1000, measure_every=5)
    assert found.rounds[-1] < 1000
    assert found.losses[-1] == np.inf
    assert found.curve.is_divergent


def test_what_is_measured_bounds_the_optimum():
    """P never falls below D of any measured round."""
    found = simulate(*run_of("hyfdca"), n_rounds=20, measure_every=1)
    assert found.losses.min() >= found.bounds.max()
