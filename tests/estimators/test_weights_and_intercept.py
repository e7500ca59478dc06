"""Weights of samples, an intercept without penalty, and targets of any size."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog, minimize
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, QuantileRegressor, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import compute_class_weight
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)

from hyfdca import HyFDCAClassifier, HyFDCARegressor
from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.maths.objective import Objective

CLASSIFYING = [name for name in LOSSES if make_loss(name).task == "classification"]
REGRESSING = [name for name in LOSSES if make_loss(name).task == "regression"]


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def imbalanced():
    """Return breast cancer rows with few benign ones, far from the origin."""
    X, y = load_breast_cancer(return_X_y=True)
    kept = np.flatnonzero((y == 0) | (np.arange(len(y)) % 5 == 0))
    return StandardScaler().fit_transform(X)[kept] + 3.0, y[kept]


def primal_of(model, X, labels, weights=None):
    """Return P of a fitted model, computed in one place."""
    objective = Objective(
        sp.csr_array(X),
        labels.reshape(-1, 1),
        make_loss(model.loss, model.loss_parameter),
        model.l2,
        None if weights is None else (weights / weights.mean()).reshape(-1, 1),
        free_intercept=True,
    )
    own = np.append(np.ravel(model.coef_), model.intercept_)
    return objective.primal(own.reshape(-1, 1))


@pytest.mark.parametrize(
    ("class_weight", "sample_weight", "words"),
    [
        (None, [1.0, 2.0, 0.0, 0.0], "only the class 'ill'"),
        ({"ill": 0.0, "well": 1.0}, None, "only the class 'well'"),
        ({"ill": 0.0, "well": 1.0}, [1.0, 1.0, 0.0, 0.0], "none"),
    ],
)
def test_one_class_with_weights_is_refused(class_weight, sample_weight, words):
    """Rows of weight 0 are as if they were not there."""
    model = HyFDCAClassifier(class_weight=class_weight)
    X, y = np.eye(4), ["ill", "ill", "well", "well"]
    with pytest.raises(ValueError, match=f"two classes .* above 0, but y has {words};"):
        model.fit(X, y, sample_weight)


@pytest.mark.parametrize("seed", [0, 39])
def test_a_class_of_three_may_have_no_weight(seed):
    """The others are trained."""
    X, y = np.eye(6), ["a", "a", "b", "b", "c", "c"]
    model = HyFDCAClassifier(class_weight={"c": 0.0}, random_state=seed)
    assert set(model.fit(X, y).predict(X[:4])) == {"a", "b"}


@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize("size", [2, 4, 20])
def test_symmetric_classes_are_certified(size, profile):
    """No point on the way has an intercept other than 0, nor any plane a balance."""
    X, y = np.eye(size), np.arange(size) % 2
    signs = np.where(y, 1.0, -1.0)
    model = HyFDCAClassifier(l2=0.1, profile=profile, tol=1e-6, random_state=0)
    assert model.fit(X, y).stop_reason_ == "tolerance"
    assert model.coef_[0] == pytest.approx(min(1.0, 10.0 / size) * signs, abs=1e-2)
    assert model.intercept_ == pytest.approx(0.0, abs=1e-2)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_symmetric_classes_are_certified_by_lbfgs(loss, profile):
    """Its gradients alone never bound the intercept."""
    X, y = np.eye(4), np.arange(4) % 2
    signs = np.where(y, 1.0, -1.0)
    model = HyFDCAClassifier(loss, l2=0.1, algorithm="lbfgs", profile=profile, tol=1e-6)
    assert model.fit(X, y).stop_reason_ == "tolerance"
    size = float(np.abs(model.coef_).mean())
    assert model.coef_[0] == pytest.approx(size * signs, abs=1e-3)
    slope = 1 / (1 + np.exp(size)) if loss == "logistic" else 2 * (1 - size)
    assert 4 * 0.1 * size == pytest.approx(slope, abs=1e-3)  # the optimum's equation


# An intercept without penalty


@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize("algorithm", ["bundle", "lbfgs", "pooled"])
def test_intercept_is_that_of_logistic_regression(imbalanced, algorithm, profile):
    """The logistic optimum is LogisticRegression's, whose intercept has no penalty."""
    X, y = imbalanced
    pooled = LogisticRegression(C=1.0 / (0.01 * len(y)), tol=1e-12, max_iter=10**5)
    pooled.fit(X, y)
    model = HyFDCAClassifier(
        loss="logistic",
        l2=0.01,
        algorithm=algorithm,
        profile=profile,
        tol=1e-9,
        random_state=0,
    ).fit(X, y)
    assert model.stop_reason_ == "tolerance"
    assert model.coef_ == pytest.approx(pooled.coef_, abs=1e-4)
    assert model.intercept_ == pytest.approx(pooled.intercept_, abs=1e-3)
    labels = np.where(y, 1.0, -1.0)
    best = HyFDCAClassifier(loss="logistic", l2=0.01)
    best.coef_, best.intercept_ = pooled.coef_, pooled.intercept_
    # scikit-learn's P is above the optimum, D below it.
    assert model.certificate_.dual <= primal_of(best, X, labels) + 1e-12
    assert model.certificate_.primal >= primal_of(model, X, labels) - 1e-12


def test_intercept_of_the_hinge_loss_is_that_of_svc(imbalanced):
    """The hinge optimum is SVC's with a linear kernel, whose intercept is free."""
    X, y = imbalanced
    pooled = SVC(kernel="linear", C=1.0 / (0.01 * len(y)), tol=1e-8).fit(X, y)
    model = HyFDCAClassifier(l2=0.01, tol=1e-8, random_state=0).fit(X, y)
    labels = np.where(y, 1.0, -1.0)
    best = HyFDCAClassifier(l2=0.01)
    best.coef_, best.intercept_ = pooled.coef_, pooled.intercept_
    expected = primal_of(best, X, labels)  # SVC stops at some 1e-5 of the optimum
    assert expected * (1 - 1e-5) < primal_of(model, X, labels) <= expected
    assert model.certificate_.dual <= expected + 1e-12
    assert model.coef_ == pytest.approx(pooled.coef_, abs=1e-3)


@pytest.mark.parametrize("participation", [1.0, 0.6])
def test_intercept_far_from_zero_is_found(participation):
    """The reach of the intercept grows as far as the data needs it."""
    random = np.random.Generator(np.random.PCG64(1))
    X = random.standard_normal((90, 4)) + 500.0
    y = (X - 500.0) @ [1.0, -2.0, 0.5, 0.0] > 0.2
    model = HyFDCAClassifier(
        loss="logistic", l2=0.01, participation=participation, tol=1e-5, random_state=0
    ).fit(X, y)
    pooled = LogisticRegression(C=1.0 / 0.9, tol=1e-10, max_iter=10**6)
    pooled.fit(X - 500.0, y)
    assert model.stop_reason_ == "tolerance"
    assert model.coef_ == pytest.approx(pooled.coef_, abs=0.02)
    assert abs(model.intercept_[0]) > 100.0


@pytest.mark.slow
def test_algorithms_that_need_the_penalty_keep_it(imbalanced):
    """The paper's method has a penalised intercept, and refuses to go without."""
    X, y = imbalanced
    own = {"algorithm": "hyfdca", "l2": 0.1, "tol": 0.05, "random_state": 0}
    default = HyFDCAClassifier(**own).fit(X, y)
    explicit = HyFDCAClassifier(**own, penalise_intercept=True).fit(X, y)
    assert np.array_equal(default.coef_, explicit.coef_)
    with pytest.raises(ValueError, match="needs a penalised intercept"):
        HyFDCAClassifier(**own, penalise_intercept=False).fit(X, y)


@pytest.mark.parametrize("encryption", ["stream", "bfv"])
def test_encrypted_equals_unencrypted(imbalanced, encryption):
    """With a free intercept and weights, sealing changes no bit."""
    X, y = imbalanced
    weights = np.linspace(0.0, 2.0, len(y))
    models = [
        HyFDCAClassifier(
            encryption=own, profile="sealed", l2=0.1, tol=0.9, random_state=0
        ).fit(X, y, weights)
        for own in ("none", encryption)
    ]
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert np.array_equal(models[0].intercept_, models[1].intercept_)
    assert models[0].certificate_ == models[1].certificate_


# Targets of any size


@pytest.mark.parametrize("unit", [1.0, 1e5, 1e-6])
def test_ridge_in_original_units(diabetes, unit):
    """Coefficients and intercept are Ridge's, whatever the unit of the target."""
    X, y = diabetes[0], diabetes[1] * unit
    pooled = Ridge(alpha=1e-3 * len(y)).fit(X, y)
    model = HyFDCARegressor(tol=1e-9, random_state=0).fit(X, y)
    assert model.intercept_ == pytest.approx(pooled.intercept_, rel=1e-6)
    assert model.coef_ == pytest.approx(pooled.coef_, abs=0.01 * unit)
    assert model.score(X, y) == pytest.approx(pooled.score(X, y), abs=1e-7)


@pytest.mark.parametrize("loss", REGRESSING)
def test_every_loss_explains_a_target_in_large_units(diabetes, loss):
    """R² of a target times 1e5 is that of scikit-learn's regressions, within 1e-3."""
    X, y = diabetes[0], diabetes[1] * 1e5
    model = HyFDCARegressor(loss=loss, l2=1e-6, tol=1e-5, random_state=0).fit(X, y)
    assert model.score(X, y) == pytest.approx(_pooled_score(loss, X, y), abs=1e-3)


def _pooled_score(loss, X, y):
    """Return R² of the regression with that loss, almost without a penalty."""
    scaled = (y - y.mean()) / y.std()
    if loss in ("absolute", "pinball"):
        pooled = QuantileRegressor(quantile=0.5, alpha=0.0, solver="highs")
        return pooled.fit(X, scaled).score(X, scaled)
    if loss == "epsilon_insensitive":
        return _by_linear_programming(X, scaled, 0.1)
    if loss in ("half_squared", "squared"):
        return Ridge(alpha=1e-6 * len(y)).fit(X, scaled).score(X, scaled)
    return _by_gradients(make_loss(loss), np.hstack([X, np.ones((len(y), 1))]), scaled)


def _by_gradients(loss, design, y):
    """Return R² of the least mean of a smooth loss."""

    def mean(weights):
        margins = design @ weights
        slopes = loss.derivative(margins, y)
        return loss.value(margins, y).mean(), design.T @ slopes / len(y)

    start = np.zeros(design.shape[1])
    found = minimize(mean, start, jac=True, options={"gtol": 1e-8, "maxiter": 10**4}).x
    return 1.0 - np.sum((y - design @ found) ** 2) / np.sum((y - y.mean()) ** 2)


def _by_linear_programming(X, y, insensitivity):
    """Return R² of the least Σ max(0, |y - z| - ε), as a linear programme."""
    n, m = X.shape
    design = np.hstack([X, np.ones((n, 1)), -np.eye(n)])
    rows = np.vstack([design, design * np.append(-np.ones(m + 1), np.ones(n))])
    limits = np.concatenate([y + insensitivity, insensitivity - y])
    costs = np.append(np.zeros(m + 1), np.ones(n))
    bounds = [(None, None)] * (m + 1) + [(0, None)] * n
    found = linprog(costs, rows, limits, bounds=bounds).x
    left = y - X @ found[:m] - found[m]
    return 1.0 - np.sum(left**2) / np.sum((y - y.mean()) ** 2)


def test_scaling_of_the_target_can_be_turned_off(diabetes):
    """Then the parameter of a loss is in units of the target."""
    X, y = diabetes
    kappa = 1.35 * y.std()
    scaled = HyFDCARegressor(loss="huber", tol=1e-6, random_state=0).fit(X, y)
    raw = HyFDCARegressor(
        loss="huber", loss_parameter=kappa, scale_target=False, tol=1e-6, random_state=0
    ).fit(X, y)
    assert raw.coef_ == pytest.approx(scaled.coef_, abs=0.1)
    assert raw.certificate_.primal == pytest.approx(
        scaled.certificate_.primal * y.var(), rel=1e-3
    )


@pytest.mark.parametrize("value", [7e6, 0.1, -1 / 3, 0.0])
@pytest.mark.parametrize("algorithm", ["bundle", "lbfgs", "hyfdca"])
def test_constant_target(algorithm, value):
    """A target that does not vary is predicted as it is, certified."""
    X = np.random.Generator(np.random.PCG64(0)).standard_normal((60, 3))
    model = HyFDCARegressor(algorithm=algorithm, random_state=0)
    model.fit(X, np.full(60, value))
    assert model.predict(X) == pytest.approx(np.full(60, value), rel=1e-14)
    assert model.stop_reason_ == "tolerance"
    assert model.certificate_.gap == 0.0


# Weights of samples


@pytest.mark.parametrize("loss", CLASSIFYING)
def test_whole_weights_repeat_samples(imbalanced, loss):
    """P, D and the model of weighted rows are those of repeated rows; 0 is left out."""
    X, y = imbalanced[0][::3], imbalanced[1][::3]
    weights = np.arange(len(y)) % 4
    settings = {"loss": loss, "l2": 0.05, "tol": 1e-7, "random_state": 0}
    weighted = HyFDCAClassifier(**settings).fit(X, y, sample_weight=weights)
    repeated = HyFDCAClassifier(**settings).fit(X.repeat(weights, 0), y.repeat(weights))
    _assert_same(weighted, repeated)
    labels = np.where(y, 1.0, -1.0)
    own = primal_of(weighted, X, labels, weights.astype(float))
    assert weighted.certificate_.primal == pytest.approx(own, rel=1e-9)


@pytest.mark.parametrize("loss", REGRESSING)
def test_whole_weights_repeat_samples_of_a_regression(diabetes, loss):
    """The same for numbers, whose target is scaled by weighted sums."""
    X, y = diabetes[0][::4], diabetes[1][::4]
    weights = np.arange(len(y)) % 4
    settings = {"loss": loss, "l2": 0.05, "tol": 1e-7, "random_state": 0}
    weighted = HyFDCARegressor(**settings).fit(X, y, sample_weight=weights)
    repeated = HyFDCARegressor(**settings).fit(X.repeat(weights, 0), y.repeat(weights))
    _assert_same(weighted, repeated)


def _assert_same(one, other):
    """Check that the certificates of one and the same problem overlap."""
    assert one.stop_reason_ == other.stop_reason_ == "tolerance"
    assert one.certificate_.dual <= other.certificate_.primal * (1 + 1e-12)
    assert other.certificate_.dual <= one.certificate_.primal * (1 + 1e-12)
    size = np.abs(one.coef_).max()
    assert np.ravel(one.coef_) == pytest.approx(np.ravel(other.coef_), abs=0.01 * size)


def test_balanced_classes_count_weights(imbalanced):
    """class_weight="balanced" balances the weights, as scikit-learn does."""
    X, y = imbalanced
    weights = 0.5 + np.arange(len(y)) % 3
    balanced = HyFDCAClassifier(l2=0.1, class_weight="balanced", random_state=0)
    balanced.fit(X, y, sample_weight=weights)
    by_class = compute_class_weight(
        "balanced", classes=np.unique(y), y=y, sample_weight=weights
    )
    given = HyFDCAClassifier(
        l2=0.1, class_weight=dict(enumerate(by_class)), random_state=0
    ).fit(X, y, sample_weight=weights)
    assert balanced.coef_ == pytest.approx(given.coef_, rel=1e-9)


@pytest.mark.parametrize("algorithm", ["hyfdca", "bundle", "lbfgs"])
def test_algorithms_agree_on_weighted_samples(imbalanced, algorithm):
    """All methods solve the same weighted problem."""
    X, y = imbalanced
    weights = 0.5 + np.arange(len(y)) % 3
    settings = {"loss": "logistic", "l2": 0.1, "penalise_intercept": True}
    reference = HyFDCAClassifier(**settings, tol=1e-8, random_state=0)
    reference.fit(X, y, weights)
    model = HyFDCAClassifier(
        **settings, algorithm=algorithm, tol=1e-3, max_rounds=3000, random_state=1
    ).fit(X, y, weights)
    assert model.stop_reason_ == "tolerance"
    best = reference.certificate_
    assert model.certificate_.dual <= best.primal * (1 + 1e-9)
    assert best.dual <= model.certificate_.primal * (1 + 1e-9)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ([1.0, -1.0], "[Nn]egative"),
        ([0.0, 0.0], "at least one non-zero"),
        ([1.0, np.nan], "NaN"),
        ([1.0], "sample_weight.shape"),
        ([1.0, 1e101], "too large"),
    ],
)
def test_wrong_weights(weights, match):
    """Weights that are negative, all zero, missing or too few are refused."""
    with pytest.raises(ValueError, match=match):
        HyFDCAClassifier().fit([[0.0], [1.0]], [0, 1], sample_weight=weights)


@pytest.mark.slow
@pytest.mark.sampled(4)  # neighbouring tests repeat samples of other kinds
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "check",
    [
        check_sample_weight_equivalence_on_dense_data,
        check_sample_weight_equivalence_on_sparse_data,
    ],
)
@pytest.mark.parametrize("kind", [HyFDCAClassifier, HyFDCARegressor])
def test_scikit_learns_equivalence_of_weights(kind, check):
    """Trained to the last digits, weighted and repeated rows agree to 1e-7."""
    check(kind.__name__, kind(l2=0.1, tol=1e-15, max_rounds=80, grid=(1, 1)))
