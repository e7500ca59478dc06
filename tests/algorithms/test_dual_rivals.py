"""CoCoA, FedDCD and D3CA: what they reach, and where they coincide."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.algorithms.feddcd import ConsensusDuals
from hyfdca.federation.local.work import local_rows_key
from hyfdca.holdings.participation import random_fraction
from hyfdca.maths.draws import repeated_rows
from tests.algorithms.rivals import L2, dense, excess, objective, optimum, rival
from tests.support.small_runs import measure, run_round, set_up

pytestmark = pytest.mark.slow

# CoCoA


@pytest.mark.parametrize("loss", ["hinge", "logistic", "half_squared"])
@pytest.mark.parametrize("combine", ["add", "average"])
def test_cocoa_reaches_the_pooled_optimum_on_split_rows(combine, loss):
    """Three clients: within 1e-6 of P* after 300 rounds, and certified."""
    run = rival("cocoa", "3x1", loss, combine=combine, max_rounds=300)
    assert excess(run, loss) < 1e-6
    assert run.measurement.gap < 2e-6


def test_adding_is_faster_than_averaging():
    """What CoCoA+ is for: many clients, few rounds."""
    gaps = [
        excess(rival("cocoa", "12x1", combine=combine, max_rounds=20))
        for combine in ("add", "average")
    ]
    assert gaps[0] < gaps[1] / 3


def test_cocoa_of_one_client_is_sdca():
    """K = 1: coordinate ascent on the pooled problem with the same draws."""
    run = set_up(rival("cocoa", "1x1", "hinge"))
    X, y = dense("hinge")
    duals, scale = np.zeros(len(y)), 1 / (L2 * len(y))
    for number in (1, 2, 3):
        run_round(run)
        for i in repeated_rows(local_rows_key(0, number), 0, len(y), len(y)):
            margin = y[i, 0] * (X[i] @ (X.T @ duals)) * scale
            ahead = y[i, 0] * duals[i] + (1 - margin) / (scale * X[i] @ X[i])
            duals[i] = y[i, 0] * np.clip(ahead, 0, 1)
    assert run.clients[0].bound_duals(np.zeros_like(y))[:, 0] == pytest.approx(
        duals, abs=1e-9
    )


@pytest.mark.sampled(5)
@pytest.mark.parametrize("combine", ["add", "average"])
@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge", "huber"])
def test_cocoa_reaches_the_pooled_optimum_on_split_columns(loss, combine):
    """Four clients: within 1e-9 of P* after 400 rounds, for smooth losses."""
    run = rival("cocoa", "1x4", loss, combine=combine, max_rounds=400)
    assert excess(run, loss) < 1e-9


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_cocoa_with_some_clients_absent(loss):
    """The shares of absent clients stay; half of four clients reach P* too."""
    some = random_fraction(4, 0.5, seed=1)
    run = rival("cocoa", "4x1", loss, participation=some, max_rounds=600)
    assert excess(run, loss) < 1e-5


# FedDCD


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "half_squared"])
def test_feddcd_reaches_the_pooled_optimum(loss, accelerated):
    """Smooth losses: within 1e-9 of P* after 100 rounds (accelerated: 300)."""
    rounds = 300 if accelerated else 100
    run = rival("feddcd", "3x1", loss, accelerated=accelerated, max_rounds=rounds)
    assert excess(run, loss) < 1e-9
    assert run.measurement.gap < 1e-6


def test_feddcd_takes_a_loss_with_a_kink():
    """Hinge: no linear rate, but the certificate closes."""
    run = rival("feddcd", "3x1", "hinge", max_rounds=400)
    assert excess(run, "hinge") < 1e-3
    assert run.measurement.gap < 5e-3


@pytest.mark.parametrize("accelerated", [False, True])
def test_feddcd_with_some_clients_absent(accelerated):
    """Two of three clients per round reach the optimum; duals still add up to 0."""
    some = random_fraction(3, 0.67, seed=1)
    given = {"participation": some, "max_rounds": 300, "accelerated": accelerated}
    run = rival("feddcd", "3x1", **given)
    assert excess(run) < 1e-6
    if not accelerated:
        total = sum(client._consensus.y for client in run.clients)
        assert np.abs(total).max() < 1e-11


def test_feddcd_of_one_client_solves_the_problem():
    """K = 1: the local problem is the problem."""
    assert excess(rival("feddcd", "1x1", local_epochs=400, max_rounds=1)) < 1e-10


def test_missed_rounds_are_caught_up():
    """Mixing for several rounds at once is mixing round by round."""
    one = many = ConsensusDuals(np.ones((2, 1)), np.full((2, 1), 3.0))
    a, b = 0.3, 0.1
    for _ in range(4):
        y = (1 - a) * one.y + a * one.z
        one = ConsensusDuals(y, (a**2 * one.z + b * y) / (a**2 + b))
    many = many.mixed(a, b, 4)
    assert many.y == pytest.approx(one.y)
    assert many.z == pytest.approx(one.z)


# D3CA


@pytest.mark.parametrize("conjugate", ["1/Q", "whole"])
@pytest.mark.parametrize("average", ["1/PQ", "1/Q"])
def test_d3ca_plateaus_where_rows_are_split(conjugate, average):
    """It settles above P*, and its certificate knows."""
    given = {"conjugate": conjugate, "average": average, "l2": 0.05}
    run = set_up(rival("d3ca", "2x3", "hinge", **given))
    problem, best = objective("hinge"), optimum("hinge").primal
    above = []
    for number in range(1, 301):
        run_round(run)
        if number % 100 == 0:
            measured = measure(run)
            above.append(problem.primal(run.release()) - best)
            assert measured.gap >= above[-1]
    assert min(above) > 1e-3
    assert above[2] > above[1] / 2  # it has stopped falling


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_d3ca_without_split_rows_is_not_biased(loss):
    """Q = 1: margins are whole, and it reaches P*."""
    run = rival("d3ca", "2x1", loss, average="1/PQ", max_rounds=400)
    assert excess(run, loss) < 1e-6


def test_d3ca_of_one_client_is_cocoa_of_one_client():
    """P = Q = 1: both are coordinate ascent with the same draws."""
    one = rival("d3ca", "1x1", "hinge", max_rounds=5).finish()
    other = rival("cocoa", "1x1", "hinge", max_rounds=5).finish()
    assert one == pytest.approx(other, abs=1e-9)
