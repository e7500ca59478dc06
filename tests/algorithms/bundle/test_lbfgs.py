"""L-BFGS on slopes against closed forms, scikit-learn and its own gradient."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge

from hyfdca.holdings.participation import cyclic
from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.maths.objective import reference_optimum
from hyfdca.maths.seeds import stream
from tests.support.small_runs import (
    PROFILES,
    classification,
    make_training,
    measure,
    partition_of,
    pooled,
    run_round,
    searched_primals,
    set_up,
    table_for,
)

SMOOTH = [name for name in LOSSES if math.isfinite(make_loss(name).smoothness)]


def lbfgs_run(X, y, partition="2x2", **given):
    """Return a run of L-BFGS on a small table."""
    own = partition_of(partition, *X.shape)
    return make_training(X, y, own, algorithm="lbfgs", **given)


def _table(seed, n_samples=60, n_features=8):
    """Return rows of features of different sizes, and noisy targets."""
    random = stream(seed, "table")
    X = random.normal(size=(n_samples, n_features)) * np.linspace(0.3, 3.0, n_features)
    y = X @ random.normal(size=(n_features, 1)) + random.normal(size=(n_samples, 1))
    return X, y


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("partition", ["1x1", "3x3", "overlapping"])
def test_ridge_regression_is_solved_closely(partition, profile, seed):
    """The weights are those of the normal equations, and of scikit-learn."""
    X, y = _table(seed)
    run = lbfgs_run(
        sp.csr_array(X),
        y,
        partition,
        loss="half_squared",
        l2=0.1,
        profile=profile,
        tolerance=1e-8,
    )
    weights = run.finish()
    assert run.stop_reason == "tolerance"
    expected = np.linalg.solve(X.T @ X + 0.1 * len(y) * np.eye(8), X.T @ y)
    # P - P* is at least λ/2 ||w - w*||².
    distance = math.sqrt(2e-8 * run.measurement.primal / 0.1)
    assert np.linalg.norm(weights - expected) <= distance
    ridge = Ridge(alpha=0.1 * len(y), fit_intercept=False, solver="cholesky").fit(X, y)
    assert ridge.coef_.ravel() == pytest.approx(expected.ravel(), rel=1e-6)


@pytest.mark.parametrize("profile", PROFILES)
def test_logistic_regression_is_that_of_scikit_learn(profile, seed):
    """Both have the same optimum where C = 1 / (λN)."""
    X, y = classification(60, 8, seed, noise=0.5)
    run = lbfgs_run(X, y, loss="logistic", profile=profile, l2=0.01, tolerance=1e-9)
    weights = run.finish()
    model = LogisticRegression(C=1 / (0.01 * 60), fit_intercept=False, tol=1e-10)
    model.fit(X.toarray(), y.ravel())
    assert run.stop_reason == "tolerance"
    assert weights.ravel() == pytest.approx(model.coef_.ravel(), abs=1e-3)
    objective = pooled(X, y, "logistic", 0.01)
    theirs = objective.primal(model.coef_.T)
    assert objective.primal(weights) == pytest.approx(theirs, rel=1e-8)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loss", SMOOTH)
def test_every_smooth_loss_is_solved(loss, profile, seed):
    """The gap reached brackets the reference optimum."""
    X, y = table_for(loss, seed=seed)
    run = lbfgs_run(
        X, y, "overlapping", loss=loss, profile=profile, l2=0.01, tolerance=1e-6
    )
    weights = run.finish()
    objective = pooled(X, y, loss, 0.01)
    optimum = reference_optimum(objective, 1e-10)
    assert run.stop_reason == "tolerance"
    assert run.measurement.primal == pytest.approx(objective.primal(weights), rel=1e-9)
    assert run.measurement.dual <= optimum.primal
    assert run.measurement.primal >= optimum.dual


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loss", ["logistic", "half_squared", "squared_hinge", "huber"])
def test_the_gap_is_the_gradient_of_the_point_before(loss, profile, seed):
    """For the plane that touches at w, P(w) - D is ||∇P(w)||² / (2λ)."""
    X, y = table_for(loss, seed=seed)
    l2 = 0.05
    run = set_up(lbfgs_run(X, y, loss=loss, profile=profile, l2=l2))
    objective = pooled(X, y, loss, l2)
    weights, highest = np.zeros((8, 1)), 0.0
    for _ in range(6):
        run_round(run)
        slopes = objective.loss.derivative(objective.margins(weights), y)
        gradient = l2 * weights + X.T @ slopes / len(y)
        bound = objective.primal(weights) - (gradient**2).sum() / (2 * l2)
        highest = max(highest, bound)
        assert measure(run).dual == pytest.approx(highest, rel=1e-9, abs=1e-11)
        weights = run.release()


@pytest.mark.parametrize("loss", sorted(set(LOSSES) - set(SMOOTH)))
def test_losses_with_a_kink_are_refused(loss):
    """The sentence names the loss and what to use instead."""
    X, y = table_for(loss)
    message = f"needs a smooth loss, which '{loss}' is not; use algorithm='bundle'"
    with pytest.raises(ValueError, match=message):
        lbfgs_run(X, y, loss=loss)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_profiles_agree(loss, seed):
    """The server's coefficients give the same points whether it sees slopes or not."""
    X, y = table_for(loss, seed=seed)
    runs = [
        lbfgs_run(X, y, loss=loss, profile=profile, max_rounds=8)
        for profile in PROFILES
    ]
    first, second = (run.finish() for run in runs)
    # Gram entries are rounded in one of them, and steps are chosen from few.
    assert first == pytest.approx(second, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("profile", PROFILES)
def test_certificates_only_improve(profile, seed):
    """P never rises except by rounding, and D never falls."""
    X, y = table_for("logistic", seed=seed)
    run = lbfgs_run(X, y, loss="logistic", profile=profile, l2=1e-3, max_rounds=25)
    run.finish()
    primals = np.array([record["primal"] for record in run.history])
    duals = np.array([record["dual"] for record in run.history])
    assert np.all(np.diff(primals) <= 1e-9 * primals[:-1])
    assert np.all(np.diff(duals) >= 0.0)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_bound_stays_below_the_optimum_when_nothing_is_left_to_gain(profile, seed):
    """After far more rounds than are needed D is still no higher than P*."""
    X, y = _table(seed)
    run = lbfgs_run(
        sp.csr_array(X),
        y,
        loss="half_squared",
        l2=0.1,
        profile=profile,
        max_rounds=60,
    )
    run.finish()
    best = np.linalg.solve(X.T @ X + 0.1 * len(y) * np.eye(8), X.T @ y)
    optimum = pooled(X, y, "half_squared", 0.1).primal(best)
    assert run.measurement.dual <= optimum * (1 + 1e-14)
    assert optimum <= run.measurement.primal * (1 + 1e-14)
    assert run.measurement.relative_gap <= 1e-9


@pytest.mark.parametrize("profile", PROFILES)
def test_a_direction_that_is_far_too_long_is_shortened(profile, seed):
    """Curvature a million times λ: the first steps that are tried gain nothing."""
    X, y = _table(seed)
    run = lbfgs_run(
        sp.csr_array(1e3 * X),
        y,
        loss="half_squared",
        l2=0.1,
        profile=profile,
        max_rounds=10,
    )
    run.finish()
    primals = [record["primal"] for record in run.history]
    assert primals[1] == pytest.approx(primals[0], rel=1e-3)
    assert primals[-1] < 0.9 * primals[0]


@pytest.mark.parametrize("profile", PROFILES)
def test_outputs_have_paths_of_their_own(profile, seed):
    """Three targets in one run reach the optimum of each."""
    X, y = _table(seed)
    y = np.hstack([y, y[::-1], 0.1 * y**2])
    run = lbfgs_run(
        sp.csr_array(X), y, loss="half_squared", l2=0.1, profile=profile, tolerance=1e-9
    )
    weights = run.finish()
    expected = np.linalg.solve(X.T @ X + 0.1 * len(y) * np.eye(8), X.T @ y)
    distance = math.sqrt(2e-9 * run.measurement.primal / 0.1)
    assert run.stop_reason == "tolerance"
    assert np.linalg.norm(weights - expected) <= distance


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("labelled", [None, [True, False, False, True]])
def test_absent_clients_are_waited_for(labelled, profile, seed):
    """P is the same as with everybody, bit for bit, after more rounds."""
    X, y = table_for("logistic", seed=seed)
    runs = [
        lbfgs_run(
            X,
            y,
            loss="logistic",
            profile=profile,
            labelled=labelled,
            participation=participation,
            tolerance=1e-6,
            max_rounds=500,
        )
        for participation in (None, cyclic([[0, 1], [2], [3, 0]]))
    ]
    for run in runs:
        run.finish()
    complete, waiting = (searched_primals(run) for run in runs)
    assert [run.stop_reason for run in runs] == ["tolerance"] * 2
    assert len(runs[1].history) > len(runs[0].history)
    # A bound is known before the search: waiting may end one search earlier.
    assert waiting in (complete, complete[:-1])
