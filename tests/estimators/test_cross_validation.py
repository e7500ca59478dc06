"""Estimators that choose l2, against scikit-learn's own cross-validation."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, PredefinedSplit, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from hyfdca import (
    HyFDCAClassifier,
    HyFDCAClassifierCV,
    HyFDCARegressor,
    HyFDCARegressorCV,
)
from tests.estimators.test_estimator import _ONLY_AT_A_SMALL_TOLERANCE
from tests.support.thoroughness import sampled

L2S = [1e-2, 1e-3]


def checks():
    """Return scikit-learn's checks of both estimators, or a sample of them."""
    estimators = (HyFDCAClassifierCV(l2s=L2S), HyFDCARegressorCV(l2s=L2S))
    pairs = [pair for own in estimators for pair in estimator_checks_generator(own)]
    kept = [p for p in pairs if name_of(p) not in _ONLY_AT_A_SMALL_TOLERANCE]
    return sampled(kept, every=7)


def name_of(pair):
    """Return the name of a check."""
    return pair[1].func.__name__


@pytest.mark.sampled(2)  # test_estimator.py has all checks of what it fits with
@pytest.mark.parametrize("pair", checks(), ids=name_of)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_passes_scikit_learns_checks(pair):
    """Every check of scikit-learn's check_estimator passes."""
    estimator, check = pair
    check(estimator)


def diabetes():
    """Return standardised features and targets."""
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.slow
def test_a_regressor_chooses_as_ridge_does():
    """With the same folds, Ridge has the same losses and the same best λ."""
    X, y = diabetes()
    scaled = (y - y.mean()) / y.std()
    l2s, folds = np.geomspace(10.0, 1e-3, 5), KFold(4, shuffle=True, random_state=3)
    learnt = HyFDCARegressorCV(l2s=l2s, cv=folds, tol=1e-7, random_state=0).fit(X, y)
    expected = np.empty((5, 4))
    for place, l2 in enumerate(l2s):
        for fold, (train, test) in enumerate(folds.split(X)):
            ridge = Ridge(alpha=l2 * len(train)).fit(X[train], scaled[train])
            residuals = scaled[test] - ridge.predict(X[test])
            expected[place, fold] = (residuals**2).mean() / 2
    np.testing.assert_allclose(learnt.loss_path_, expected, rtol=2e-3)
    best = int(expected.mean(axis=1).argmin())
    assert learnt.l2_ == l2s[best]
    assert [row["is_best"] for row in learnt.path_].index(True) == best
    whole = Ridge(alpha=learnt.l2_ * len(y)).fit(X, y)
    np.testing.assert_allclose(learnt.coef_, whole.coef_, atol=0.05)


@pytest.mark.slow
def test_every_fold_equals_a_fit_of_its_own():
    """Classes one-vs-rest: losses are those of estimators fitted fold by fold."""
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    l2s, folds = [0.1, 0.01], StratifiedKFold(3)
    settings = {"loss": "logistic", "tol": 1e-6, "random_state": 0}
    learnt = HyFDCAClassifierCV(l2s=l2s, cv=3, **settings).fit(X, y)
    for place, l2 in enumerate(learnt.l2s_):
        for fold, (train, test) in enumerate(folds.split(X, y)):
            own = HyFDCAClassifier(l2=l2, **settings).fit(X[train], y[train])
            signs = np.where(y[test][:, None] == own.classes_, 1.0, -1.0)
            losses = np.logaddexp(0.0, -signs * own.decision_function(X[test]))
            expected = losses.mean(axis=0).sum()
            assert learnt.loss_path_[place, fold] == pytest.approx(expected, rel=5e-3)
    alone = HyFDCAClassifier(l2=learnt.l2_, **settings).fit(X, y)
    assert learnt.certificate_.dual <= alone.certificate_.primal
    assert alone.certificate_.dual <= learnt.certificate_.primal
    assert np.array_equal(learnt.predict(X), alone.predict(X))
    assert learnt.certificate_.relative_gap <= 1e-6


def test_the_model_is_exported_with_its_l2(tmp_path):
    """A model file has the λ chosen, and the plain estimator reads it."""
    X, y = diabetes()
    learnt = HyFDCARegressorCV(l2s=L2S, cv=3, random_state=0).fit(X, y)
    learnt.to_model().save(tmp_path / "model.json")
    read = HyFDCARegressor.from_model(tmp_path / "model.json")
    assert read.l2 == learnt.l2_
    np.testing.assert_array_equal(read.predict(X), learnt.predict(X))
    with pytest.raises(ValueError, match="HyFDCARegressor"):
        HyFDCARegressorCV.from_model(tmp_path / "model.json")


def test_a_run_that_is_cut_short_chooses_among_what_began():
    """Strengths that never began have no score and are not chosen."""
    X, y = load_breast_cancer(return_X_y=True)
    l2s = [10.0, 1e-2, 1e-3]
    learnt = HyFDCAClassifierCV(max_rounds=2, l2s=l2s, cv=3, random_state=0)
    with pytest.warns(ConvergenceWarning):
        learnt.fit(StandardScaler().fit_transform(X), y)
    began = np.isfinite(learnt.loss_path_).all(axis=1)
    assert began.tolist() == sorted(began, reverse=True)
    assert began[0]
    assert not began[-1]
    assert learnt.l2_ == learnt.l2s_[began][learnt.loss_path_[began].mean(1).argmin()]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"l2s": [1e-2, 1e-2]}, "different"),
        ({"l2s": []}, "different"),
        ({"l2s": [0.0]}, "positive"),
        ({"l2s": 3}, "list"),
        ({"l2s": "many"}, "auto"),
        ({"choice": "worst"}, "one_standard_error"),
        ({"cv": PredefinedSplit([0, -1] * 221)}, "exactly one"),
        ({"cv": [([0, 1], [2, 3])]}, "exactly one"),
    ],
)
def test_invalid_settings_are_one_sentence(settings, message):
    """The sentence says what was expected."""
    X, y = diabetes()
    with pytest.raises(ValueError, match=message):
        HyFDCARegressorCV(**settings).fit(X, y)
