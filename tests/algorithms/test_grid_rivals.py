"""Block-splitting ADMM, DSCOVR, DiSCO and the pooled optimum: they all reach P*."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from hyfdca.algorithms import block_admm
from hyfdca.maths.linear import conjugate_gradients
from tests.algorithms.rivals import L2, dense, excess, objective, optimum, rival
from tests.support.small_runs import run_round, set_up

pytestmark = pytest.mark.slow

# Block-splitting ADMM


@pytest.mark.parametrize("shape", ["2x2", "3x3", "1x3", "3x1", "overlapping"])
def test_block_admm_reaches_the_pooled_optimum(shape):
    """Logistic loss: within 1e-10 of P* after 300 rounds, with a certificate."""
    run = rival("block_admm", shape, max_rounds=300)
    assert excess(run) < 1e-10
    assert run.measurement.gap < 1e-9


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
def test_block_admm_takes_losses_with_kinks(loss):
    """Its prox gives duals, so the certificate closes: 1e-4 after 500 rounds."""
    run = rival("block_admm", "2x2", loss, max_rounds=500)
    assert excess(run, loss) < 1e-4
    assert run.measurement.gap < 1e-4


def test_block_admm_on_one_block_is_graph_form_admm():
    """P = Q = 1: ADMM with the projection on y = Xx, written out on plain arrays."""
    run = set_up(rival("block_admm", "1x1", "half_squared", rho=2.0))
    X, t = dense("half_squared")
    rho, n = 2.0 / len(t), len(t)
    zeros_x, zeros_y = np.zeros((X.shape[1], 1)), np.zeros((n, 1))
    x, u_x, u_own = zeros_x, zeros_x, zeros_x
    y, own_y, u_y = zeros_y, zeros_y, zeros_y
    for _ in range(4):
        run_round(run)
        y_half = (t / n + rho * (y - u_y)) / (1 / n + rho)
        x_half = rho * (x - u_x) / (L2 + rho)
        c, d = x - u_own, own_y + u_y
        own_x = np.linalg.solve(np.eye(X.shape[1]) + X.T @ X, c + X.T @ d)
        x = (x_half + own_x) / 2
        e = (y_half - X @ own_x) / 2
        y, own_y = y_half - e, X @ own_x + e
        u_x, u_own, u_y = u_x + x_half - x, u_own + own_x - x, u_y + e
    [client] = run.clients
    assert client.weights_of(run.server.weights_for(0)) == pytest.approx(x, abs=1e-9)


def test_large_blocks_are_projected_by_conjugate_gradients(monkeypatch):
    """Factored or not, tall or wide: the same projection."""
    given = {"max_rounds": 10, "rho": 0.5}
    for shape in ("1x1", "12x1"):  # tall blocks, wide blocks
        factored = rival("block_admm", shape, **given).finish()
        with monkeypatch.context() as patch:
            patch.setattr(block_admm, "_DENSE", 0)
            by_products = rival("block_admm", shape, **given).finish()
        assert by_products == pytest.approx(factored, abs=1e-10)


def test_conjugate_gradients_solve_every_column():
    """Columns are systems of their own; one that is zero stays zero."""
    random = np.random.Generator(np.random.PCG64(0))
    half = random.standard_normal((8, 8))
    matrix = half @ half.T + np.eye(8)
    right = random.standard_normal((8, 3)) * [1.0, 0.0, 1e6]
    found = conjugate_gradients(lambda x: matrix @ x, right, 50)
    assert found == pytest.approx(np.linalg.solve(matrix, right), rel=1e-9)


# DSCOVR


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge"])
@pytest.mark.parametrize("shape", ["2x2", "3x2", "3x1", "1x3"])
def test_dscovr_reaches_the_pooled_optimum(shape, loss):
    """With its own constants: within 1e-6 of P* after 1000 rounds."""
    run = rival("dscovr", shape, loss, max_rounds=1_000)
    assert excess(run, loss) < 1e-6


def test_dscovr_takes_longer_steps_than_are_proven():
    """A smaller Γ: shorter stages, and fewer rounds to the optimum here."""
    proven = rival("dscovr", "2x2", max_rounds=60)
    bold = rival("dscovr", "2x2", max_rounds=60, conditioning=0.4)
    assert excess(bold) < excess(proven)


def test_dscovr_asks_one_diagonal_per_round():
    """One trip per round; a stage costs one and a half more."""
    run = set_up(rival("dscovr", "3x3"))
    trips = [run_round(run).round_trips for _ in range(run.server._steps.stage_rounds)]
    assert trips == [2.5] + [1.0] * (len(trips) - 1)


# DiSCO


@pytest.mark.parametrize("loss", ["logistic", "half_squared", "huber"])
@pytest.mark.parametrize("shape", ["2x2", "1x3", "3x1", "overlapping"])
def test_disco_reaches_the_pooled_optimum(shape, loss):
    """Within 1e-10 of P* after 8 damped Newton steps."""
    run = rival("disco", shape, loss, max_rounds=8)
    assert excess(run, loss) < 1e-10


def test_disco_takes_damped_newton_steps():
    """Solved exactly, a step is that of Newton, divided by 1 + √(v·Hv)."""
    run = set_up(rival("disco", "2x2", cg_steps=50, cg_tolerance=1e-10))
    X, y = dense()
    weights = np.zeros((X.shape[1], 1))
    for _ in range(3):
        run_round(run)
        sigma = 1 / (1 + np.exp(y * (X @ weights)))
        gradient = L2 * weights - X.T @ (y * sigma) / len(y)
        bend = X.T * (sigma * (1 - sigma)).T / len(y)
        hessian = L2 * np.eye(X.shape[1]) + bend @ X
        step = np.linalg.solve(hessian, gradient)
        weights = weights - step / (1 + np.sqrt(step.T @ hessian @ step))
    for held, client in zip(run.layout.features.items, run.clients, strict=True):
        assert client.weights == pytest.approx(weights[held], abs=1e-8)


# The pooled optimum


@pytest.mark.parametrize("loss", ["hinge", "logistic", "absolute"])
def test_pooled_is_the_optimum_in_one_round(loss):
    """One round, certified to 1e-9, and another solver agrees."""
    run = rival("pooled", "2x2", loss, max_rounds=1)
    weights = run.finish()
    assert run.measurement.relative_gap < 1e-9
    problem = objective(loss)
    above = problem.primal(weights) - optimum(loss).primal
    assert abs(above) < 2e-9
    if loss == "logistic":
        found = minimize(
            lambda w: problem.primal(w[:, None]), weights[:, 0] * 0, method="BFGS"
        )
        assert found.fun == pytest.approx(problem.primal(weights), abs=1e-8)
