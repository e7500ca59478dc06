"""Certificates with an intercept that may be far from zero: never optimistic."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from hyfdca.algorithms import Bundle, Lbfgs
from hyfdca.holdings.participation import random_fraction
from hyfdca.holdings.partition import horizontal
from hyfdca.maths.seeds import stream
from tests.support.small_runs import make_training

L2 = 1e-2


def shifted(shift, seed, n_rows=80):
    """Return rows whose features are far from zero, so that the intercept is too."""
    random = stream(seed, "shifted")
    z = random.normal(size=(n_rows, 2))
    labels = np.where(z[:, 0] + 0.5 * random.normal(size=n_rows) > 0.3, 1.0, -1.0)
    return z, sp.csr_array(z + shift), labels[:, None]


def optimum(z, labels):
    """Return the least P; a shift of features changes the intercept alone."""

    def primal(w):
        margins = z @ w[:2] + w[2]
        losses = np.logaddexp(0.0, -labels[:, 0] * margins)
        return 0.5 * L2 * w[:2] @ w[:2] + losses.mean()

    return minimize(primal, np.zeros(3), options={"gtol": 1e-9}).fun


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shift", [0.0, 30.0, 2015.0, 1e5])
@pytest.mark.parametrize(
    ("algorithm", "profile", "presence"),
    [
        (Bundle(), "open", 1.0),
        (Bundle(sub_groups=3, min_group_size=5), "open", 1.0),
        (Bundle(), "sealed", 1.0),
        (Bundle(), "open", 0.5),
        (Lbfgs(), "sealed", 1.0),
    ],
    ids=["open", "sub-groups", "sealed", "partial", "lbfgs"],
)
def test_never_optimistic_far_from_zero(algorithm, profile, presence, shift, seed):
    """D is below the optimum of all intercepts after every round, however far it is."""
    z, X, labels = shifted(shift, seed)
    best = optimum(z, labels)
    run = make_training(
        X,
        labels,
        horizontal(*X.shape, 3),
        loss="logistic",
        l2=L2,
        algorithm=algorithm,
        profile=profile,
        participation=random_fraction(3, presence, 0),
        tolerance=1e-2,
        max_rounds=60,
        free_intercept=True,
    )
    for report in run.rounds():
        assert report.measurement.dual <= best * (1 + 1e-6)
        assert report.measurement.primal >= best * (1 - 1e-9)
    if presence == 1.0 and shift <= 30.0:
        assert run.runner.stop_reason == "tolerance"


def test_limits_enclose_the_optimal_intercept(seed):
    """How far an intercept can be is never less than the optimal one."""
    _, X, labels = shifted(50.0, seed)
    run = make_training(
        X,
        labels,
        horizontal(*X.shape, 2),
        loss="logistic",
        l2=L2,
        algorithm=Bundle(),
        profile="sealed",
        tolerance=1e-7,
        free_intercept=True,
    )
    limits = [float(run.server.limits[0]) for _ in run.rounds()]
    intercept = abs(float(run.server.intercepts[0]))
    assert intercept > 10.0
    assert all(intercept <= limit for limit in limits)
    assert limits[-1] < np.inf
