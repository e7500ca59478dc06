"""Beginning where the last fit ended."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import StandardScaler

from hyfdca import HyFDCAClassifier, HyFDCARegressor


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("penalise", [None, True])
def test_the_first_round_is_as_good_as_the_last_model(cancer, penalise):
    """P of the first round is at most that of the coefficients it began with."""
    X, y = cancer
    settings = {"l2": 0.01, "penalise_intercept": penalise, "random_state": 0}
    model = HyFDCAClassifier("logistic", **settings, warm_start=True).fit(X, y)
    before, cold = model.certificate_.primal, model.n_iter_
    model.fit(X, y)
    assert model.history_[0]["primal"] <= before * (1 + 1e-9)
    assert model.n_iter_ < cold


def test_regressions_begin_in_the_units_of_their_target():
    """A target that is scaled otherwise begins at the same model all the same."""
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    settings = {"loss": "huber", "algorithm": "bundle", "tol": 1e-5, "random_state": 0}
    model = HyFDCARegressor(**settings, warm_start=True).fit(X, 1e5 * y)
    rows, targets = np.vstack([X, X[:20]]), 1e5 * np.append(y, y[:20] + 30.0)
    model.fit(rows, targets)
    first, last = (model.history_[place]["primal"] for place in (0, -1))
    cold = HyFDCARegressor(**settings).fit(rows, targets)
    assert last <= first < 1.02 * last
    assert cold.history_[0]["primal"] > 1.05 * last
    assert model.coef_ == pytest.approx(cold.coef_, rel=0.05, abs=1e5)


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "lbfgs"},
        {"profile": "sealed"},
        {"algorithm": "hyfdca", "tol": 0.1},
    ],
)
def test_others_begin_at_zero(cancer, settings):
    """Where it cannot be done, the second fit is the first one again."""
    X, y = cancer
    own = {"l2": 0.1, "random_state": 0, **settings}
    model = HyFDCAClassifier("logistic", **own, warm_start=True).fit(X, y)
    first = model.coef_
    assert np.array_equal(model.fit(X, y).coef_, first)


def test_other_features_begin_at_zero(cancer):
    """Training cannot begin at coefficients of other features."""
    X, y = cancer
    model = HyFDCAClassifier(l2=0.1, random_state=0, warm_start=True).fit(X, y)
    cold = HyFDCAClassifier(l2=0.1, random_state=0).fit(X[:, :5], y)
    assert np.array_equal(model.fit(X[:, :5], y).coef_, cold.coef_)


def test_partial_participation_begins_there_too(cancer):
    """The point of the asynchronous method begins at the last coefficients."""
    X, y = cancer
    settings = {"l2": 0.05, "participation": 0.6, "random_state": 0}
    cold = HyFDCAClassifier("logistic", **settings).fit(X, y)
    warm = HyFDCAClassifier("logistic", **settings, warm_start=True)
    warm.fit(X, y).fit(X, y)
    assert warm.stop_reason_ == "tolerance"
    assert warm.n_iter_ <= cold.n_iter_
