"""HyFEM: its joint minimiser, the two ends of μ, and the steps' variants."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.algorithms.rivals import (
    L2,
    block_gradient,
    column_groups,
    constant_rate,
    dense,
    excess,
    objective,
    optimum,
    rival,
    weights_at,
)
from tests.support.small_runs import run_round, set_up

pytestmark = pytest.mark.slow

FULL = {**constant_rate(1.0), "batch": "all", "local_steps": 20}


def joint_minimiser(run, mu):
    """Return w_0 of the minimiser of the sum of local losses and matching terms."""
    X, y = dense()
    held = list(zip(run.layout.samples.items, run.layout.features.items, strict=True))
    sizes = [X.shape[1], *(len(columns) for _, columns in held)]
    loss = run.settings.loss

    def value(everything):
        common, *local = np.split(everything, np.cumsum(sizes)[:-1])
        total, slopes = 0.0, [np.zeros_like(common)]
        for (rows, columns), own in zip(held, local, strict=True):
            part, labels = X[np.ix_(rows, columns)], y[rows, 0]
            apart, margins = own - common[columns], part @ own
            total += L2 / 2 * own @ own + loss.value(margins, labels).mean()
            total += mu / 2 * apart @ apart
            slope = part.T @ loss.derivative(margins, labels) / len(rows)
            slopes.append(L2 * own + slope + mu * apart)
            slopes[0][columns] -= mu * apart
        return total, np.concatenate(slopes)

    found = minimize(
        value,
        np.zeros(sum(sizes)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "ftol": 1e-16, "gtol": 1e-12},
    )
    return found.x[: sizes[0], None]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("matching", ["explicit", "proximal"])
@pytest.mark.parametrize("mu", [0.01, 0.5])
def test_the_limit_is_the_joint_minimiser(mu, matching):
    """Block coordinate descent reaches it, and it is not the optimum."""
    run = rival("hyfem", "2x2", mu=mu, matching=matching, max_rounds=400, **FULL)
    weights = run.finish()
    assert np.abs(weights - joint_minimiser(run, mu)).max() < 1e-6
    above = objective().primal(weights) - optimum().primal
    assert above > 1e-3
    assert run.measurement.gap >= above


def test_for_large_mu_the_limit_is_that_of_fedavg():
    """The distance to FedAvg's limit falls as 1/μ."""
    apart = []
    for mu in (2.0, 20.0):
        run = rival(
            "hyfem", "2x2", mu=mu, l2=1.0, matching="proximal", max_rounds=400, **FULL
        )
        weights = run.finish()
        gradient = block_gradient(weights, column_groups(run), l2=1.0)
        apart.append(float(np.abs(gradient).max()))
    assert apart[0] < 0.1
    assert apart[1] == pytest.approx(apart[0] / 10, rel=0.5)


def test_without_matching_it_is_the_mean_of_models_trained_alone():
    """μ = 0 leaves every client to itself."""
    run = rival("hyfem", "3x1", mu=0.0, max_rounds=60, **FULL)
    weights = run.finish()
    alone = [client.weights for client in run.clients]
    assert np.abs(alone[0] - alone[1]).max() > 1e-2
    assert weights == pytest.approx(np.mean(alone, axis=0), abs=1e-9)


def test_without_split_rows_and_one_client_it_is_the_optimum():
    """One client with everything has nothing to match."""
    assert excess(rival("hyfem", "1x1", mu=1.0, max_rounds=300, **FULL)) < 1e-10


def test_local_models_stay_or_start_again():
    """``restart`` begins each round at the global model, as the authors' code does."""
    given = {"mu": 0.0, "max_rounds": 5, **FULL}
    kept = rival("hyfem", "2x2", **given).finish()
    again = rival("hyfem", "2x2", restart=True, **given).finish()
    averaged = rival("fedavg", "2x2", max_rounds=5, **FULL).finish()
    assert np.array_equal(again, averaged)
    assert np.abs(kept - again).max() > 1e-4


def test_cached_means_count_absent_clients():
    """``average`` decides whether the last models of absent clients count."""
    for average in ("active", "cached"):
        run = set_up(rival("hyfem", "2x1", average=average, **FULL))
        run_round(run)
        run_round(run, [0])
        first, second = (client.weights for client in run.clients)
        mean, _ = weights_at(run)
        expected = first if average == "active" else (first + second) / 2
        assert mean == pytest.approx(expected, abs=1e-12)


def test_one_round_trip_per_round():
    """A round is weights down and weights up."""
    run = rival("hyfem", "2x2", max_rounds=3)
    run.finish()
    assert [record["round_trips"] for record in run.history] == [1.0] * 3
