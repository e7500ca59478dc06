"""The default estimators, over losses, partitions and participation: all converge.

Every run must end by its own certificate, without a warning, and the certificate must
be right: the loss of the released weights on the pooled data is near the optimum that
other solvers find.
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

from hyfdca import HyFDCAClassifier, HyFDCARegressor
from hyfdca.holdings import partition as parts
from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.maths.objective import Objective
from hyfdca.training.central import central_optimum

pytestmark = pytest.mark.slow

L2 = 1e-3  # the default


def overlapping(n_samples, n_features):
    """Return holdings that share rows and columns, with cells held twice."""
    rows = np.arange(n_samples)
    columns = np.arange(n_features)
    half = n_features // 2
    return parts.from_holdings(
        n_samples,
        n_features,
        [
            (rows[: 2 * n_samples // 3], columns[: half + 2]),
            (rows[n_samples // 3 :], columns[half - 1 :]),
            (rows[::2], columns[half:]),
            (rows, columns[::3]),
            # What nobody has yet, so that all cells are held by somebody.
            (rows, columns),
        ],
    )


PARTITIONS = {
    "1x1": lambda *_: (1, 1),
    "3x3": lambda *_: (3, 3),
    "5x2": lambda *_: (5, 2),
    "overlapping": overlapping,
}


@pytest.fixture(scope="module")
def tables():
    """Return a table and labels for each task."""
    cancer, diabetes = (
        load(return_X_y=True) for load in (load_breast_cancer, load_diabetes)
    )
    targets = (diabetes[1] - diabetes[1].mean()) / diabetes[1].std()
    return {
        "classification": (StandardScaler().fit_transform(cancer[0]), cancer[1]),
        "regression": (StandardScaler().fit_transform(diabetes[0]), targets),
    }


@pytest.fixture(scope="module")
def optimum_of(tables):
    """Return a function that finds the pooled problem and its optimum, by loss.

    With a penalised intercept it is found by dual ascent, otherwise by the bundle
    method on rows in one place.
    """

    @cache
    def find(name, is_penalised):
        loss = make_loss(name)
        X, y = tables[loss.task]
        labels = np.where(y, 1.0, -1.0) if loss.task == "classification" else y
        columns = [X, np.ones((len(X), 1))] if is_penalised else [X]
        pooled = sp.csr_array(np.hstack(columns))
        is_free = not is_penalised
        objective = Objective(pooled, labels[:, None], loss, L2, free_intercept=is_free)
        return objective, central_optimum(objective, 1e-6)

    return find


@pytest.mark.sampled(31)
@pytest.mark.parametrize("penalised", [None, True])
@pytest.mark.parametrize("participation", [1.0, 0.5])
@pytest.mark.parametrize("shape", PARTITIONS)
@pytest.mark.parametrize("loss", LOSSES)
def test_defaults_converge(loss, shape, participation, penalised, tables, optimum_of):
    """The certified relative gap is 1e-3 at most, and so is the true one."""
    task = make_loss(loss).task
    X, y = tables[task]
    estimator = HyFDCAClassifier if task == "classification" else HyFDCARegressor
    model = estimator(
        loss=loss,
        grid=PARTITIONS[shape](*X.shape),
        participation=participation,
        penalise_intercept=penalised,
        random_state=0,
    )
    table = X if shape in ("1x1", "3x3") else sp.csr_array(X)  # dense and sparse
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(table, y)
    objective, optimum = optimum_of(loss, bool(penalised))
    weights = np.append(np.ravel(model.coef_), model.intercept_)[:, None]
    primal = objective.primal(weights)
    assert model.certificate_.relative_gap <= 1e-3
    assert primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert optimum.dual * (1 - 1e-12) <= primal <= optimum.primal * (1 + 1e-3)
    assert model.certificate_.dual <= optimum.primal


@pytest.mark.parametrize(
    ("loss", "make"),
    [
        ("hinge", lambda c: LinearSVC(C=c, loss="hinge", tol=1e-6, max_iter=100_000)),
        ("squared_hinge", lambda c: LinearSVC(C=c, tol=1e-6, max_iter=100_000)),
        ("logistic", lambda c: LogisticRegression(C=c, tol=1e-8, max_iter=10_000)),
        ("half_squared", lambda c: Ridge(alpha=1 / c)),
        (
            "epsilon_insensitive",
            lambda c: LinearSVR(C=c, epsilon=0.1, tol=1e-6, max_iter=100_000),
        ),
    ],
)
def test_scikit_learns_solvers_find_the_same_optimum(loss, make, tables, optimum_of):
    """The default estimators are within 0.1 % of scikit-learn on the pooled data."""
    task = make_loss(loss).task
    X, y = tables[task]
    ours = HyFDCAClassifier if task == "classification" else HyFDCARegressor
    model = ours(loss=loss, penalise_intercept=True, random_state=0).fit(X, y)
    objective, _ = optimum_of(loss, True)
    theirs = make(1.0 / (L2 * len(y))).set_params(fit_intercept=False)
    theirs.fit(objective.X.toarray(), y)
    weights = np.append(np.ravel(model.coef_), model.intercept_)[:, None]
    best = objective.primal(np.ravel(theirs.coef_)[:, None])
    assert objective.primal(weights) <= best * (1 + 1e-3)
    assert model.certificate_.dual <= best
