"""The scikit-learn interface: conventions, optima, certificates."""

from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_iris,
    make_classification,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import (
    check_classifiers_one_label_sample_weights,
    parametrize_with_checks,
)
from threadpoolctl import threadpool_info, threadpool_limits

from hyfdca import HyFDCAClassifier, HyFDCARegressor
from hyfdca.holdings import partition as parts
from hyfdca.holdings.participation import random_fraction
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective
from tests.support.thoroughness import IS_THOROUGH

# They compare to 1e-7, and the default tolerance is 1e-3: trained that far, they hold
# (test_weights_and_intercept.py).
_ONLY_AT_A_SMALL_TOLERANCE = {
    f"check_sample_weight_equivalence_on_{kind}_data": "needs a smaller tol"
    for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [HyFDCAClassifier(), HyFDCARegressor()],
    expected_failed_checks=lambda _: _ONLY_AT_A_SMALL_TOLERANCE,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_passes_scikit_learns_checks(estimator, check):
    """Every check of scikit-learn's check_estimator passes with default arguments.

    scikit-learn itself skips check_array_api_input, which needs SCIPY_ARRAY_API set
    before SciPy is imported; the estimators make no claim about array APIs.
    """
    if check.func is check_classifiers_one_label_sample_weights and not IS_THOROUGH:
        # Its least loss is zero, which no relative gap certifies: all rounds are run.
        estimator.set_params(max_rounds=100)
    check(estimator)


def biased(X):
    """Return X with the constant column that stands for a penalised intercept."""
    return np.hstack([X, np.ones((len(X), 1))])


def test_hinge_agrees_with_linear_svc(cancer):
    """The hinge optimum is LinearSVC's on the pooled data, bias penalised."""
    X, y = cancer
    C = 1.0 / (0.01 * len(y))
    svc = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-8, max_iter=10**6)
    expected = svc.fit(biased(X), y).coef_.T
    learnt = HyFDCAClassifier(l2=0.01, penalise_intercept=True, random_state=0)
    learnt.fit(X, y)
    assert_same_primal(learnt, X, np.where(y, 1.0, -1.0), expected, l2=0.01)
    assert np.mean(learnt.predict(X) == svc.predict(biased(X))) > 0.99


def test_logistic_agrees_with_logistic_regression(cancer):
    """The logistic optimum and its probabilities are LogisticRegression's."""
    X, y = cancer
    pooled = LogisticRegression(
        C=1.0 / (1e-3 * len(y)), fit_intercept=False, tol=1e-10, max_iter=10**5
    ).fit(biased(X), y)
    learnt = HyFDCAClassifier(
        loss="logistic", tol=1e-6, penalise_intercept=True, random_state=0
    ).fit(X, y)
    assert_same_primal(learnt, X, np.where(y, 1.0, -1.0), pooled.coef_.T)
    difference = learnt.predict_proba(X) - pooled.predict_proba(biased(X))
    assert np.abs(difference).max() < 0.01


def test_squared_agrees_with_ridge():
    """The half squared optimum is Ridge's."""
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    pooled = Ridge(alpha=0.1 * len(y), fit_intercept=False).fit(biased(X), y)
    learnt = HyFDCARegressor(l2=0.1, penalise_intercept=True, random_state=0).fit(X, y)
    assert learnt.stop_reason_ == "tolerance"
    expected = pooled.coef_.reshape(-1, 1)
    assert_same_primal(learnt, X, y, expected, l2=0.1)
    assert np.abs(learnt.predict(X) - pooled.predict(biased(X))).max() < 0.05


def assert_same_primal(learnt, X, labels, expected, l2=1e-3):
    """Check P of the model against P of the reference, within the certificate."""
    objective = Objective(
        sp.csr_array(biased(X)), labels.reshape(-1, 1), make_loss(learnt.loss), l2
    )
    weights = np.append(np.ravel(learnt.coef_), learnt.intercept_).reshape(-1, 1)
    best = objective.primal(expected)
    assert learnt.certificate_.relative_gap <= learnt.tol
    assert learnt.certificate_.dual <= best * (1 + 1e-9)
    assert objective.primal(weights) <= best * (1 + learnt.tol + 1e-9)
    assert learnt.certificate_.primal == pytest.approx(objective.primal(weights))


def test_history_has_a_record_a_round(cancer):
    """After fit there is one complete record per round and the number of rounds."""
    X, y = cancer
    model = HyFDCAClassifier(l2=0.1, random_state=0).fit(X, y)
    assert model.n_iter_ == len(model.history_) > 0
    wanted = {"primal", "dual", "gap", "seconds", "bytes_up", "bytes_down"}
    wanted |= {"round_trips", "participants"}
    assert all(wanted <= set(record) for record in model.history_)
    last = model.history_[-1]
    assert (last["primal"], last["dual"]) == (
        model.certificate_.primal,
        model.certificate_.dual,
    )
    assert last["gap"] == model.certificate_.gap
    assert all(r["bytes_up"] > 0 and r["seconds"] > 0 for r in model.history_)


def test_rounds_that_are_not_measured_say_so(cancer):
    """With measure_every the rounds in between have no numbers; the last one does."""
    X, y = cancer
    model = HyFDCAClassifier(l2=0.1, measure_every=7, random_state=0).fit(X, y)
    measured = [np.isfinite(r["primal"]) for r in model.history_]
    assert measured == [r["round"] % 7 == 0 for r in model.history_]
    assert model.certificate_.relative_gap <= model.tol


def test_not_converging_warns_and_stays_visible(cancer):
    """Too few rounds warn with the gap reached, which the certificate shows too."""
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match="raise max_rounds"):
        model = HyFDCAClassifier(max_rounds=3, random_state=0).fit(X, y)
    assert model.stop_reason_ == "round limit"
    assert model.n_iter_ == 3
    assert model.certificate_.relative_gap > model.tol
    with pytest.warns(ConvergenceWarning):
        assert HyFDCAClassifier(max_iter=2, random_state=0).fit(X, y).n_iter_ == 2


def test_grid_is_clipped_and_takes_a_partition():
    """A grid larger than the data is clipped; a Partition says who holds what."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y < 2] - X.mean(axis=0), y[y < 2]
    clipped = HyFDCAClassifier(grid=(500, 9), l2=1.0, random_state=0).fit(X, y)
    assert len(clipped.history_[0]["participants"]) == 100 * 4
    halves = parts.from_holdings(
        100, 4, [(range(60), [0, 1, 2]), (range(40, 100), [1, 2, 3])]
    )
    own = HyFDCAClassifier(grid=halves, l2=1.0, random_state=0).fit(X, y)
    assert own.history_[0]["participants"] == (0, 1)
    assert own.stop_reason_ == clipped.stop_reason_ == "tolerance"
    assert own.uncovered_share_ == 80 / 400  # of the cells, the intercept apart
    assert clipped.uncovered_share_ == 0.0


def test_many_classes_are_learnt_in_one_run():
    """One-vs-rest in one run equals one run per class: margins share messages."""
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    together = HyFDCAClassifier(l2=0.05, tol=1e-4, random_state=0).fit(X, y)
    assert together.coef_.shape == (3, 4)
    assert together.decision_function(X).shape == (150, 3)
    for number, name in enumerate(together.classes_):
        alone = HyFDCAClassifier(l2=0.05, tol=1e-5, random_state=0).fit(X, y == name)
        objective = Objective(
            sp.csr_array(X),
            np.where(y == name, 1.0, -1.0)[:, None],
            make_loss("hinge"),
            0.05,
            free_intercept=True,
        )
        weights = np.append(together.coef_[number], together.intercept_[number])
        primal = objective.primal(weights[:, None])
        # The certificate is of the sum over classes.
        assert primal - alone.certificate_.dual <= together.certificate_.gap + 1e-9
    assert together.history_[0]["round_trips"] == alone.history_[0]["round_trips"]


def test_probabilities_of_many_classes_sum_to_one():
    """predict_proba is normalised over classes and absent without logistic loss."""
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = HyFDCAClassifier(loss="log_loss", l2=0.05, random_state=0).fit(X, y)
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert not hasattr(HyFDCAClassifier(), "predict_proba")


def test_class_weight_counts_like_repeated_samples(cancer):
    """class_weight={0: 3} gives the model of data with class 0 three times."""
    X, y = cancer
    weighted = HyFDCAClassifier(
        l2=0.1, class_weight={0: 3.0, 1: 1.0}, tol=1e-4, random_state=0
    ).fit(X, y)
    repeats = np.where(y == 0, 3, 1)
    # The mean is over samples, so the penalty weighs less by the same factor.
    l2 = 0.1 * len(y) / repeats.sum()
    repeated = HyFDCAClassifier(l2=l2, tol=1e-4, random_state=1)
    repeated.fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats))
    factor = repeats.sum() / len(y)
    assert weighted.certificate_.primal == pytest.approx(
        factor * repeated.certificate_.primal, rel=2e-4
    )
    assert np.mean(weighted.predict(X) == repeated.predict(np.asarray(X))) > 0.99


def test_sparse_and_dense_data_give_the_same_model(cancer):
    """CSR input is the same problem, to the last bit."""
    X, y = cancer
    dense, sparse = (
        HyFDCAClassifier(l2=0.1, random_state=0).fit(table, y)
        for table in (X, sp.csr_matrix(X))
    )
    assert np.array_equal(dense.coef_, sparse.coef_)


def test_intercept_is_penalised_less_with_a_larger_scaling():
    """intercept_scaling is the constant feature's value, as in LinearSVC."""
    random = np.random.Generator(np.random.PCG64(0))
    X, y = random.standard_normal((80, 3)), random.standard_normal(80) + 5.0
    small, large = (
        HyFDCARegressor(
            l2=0.1, penalise_intercept=True, intercept_scaling=s, random_state=0
        ).fit(X, y)
        for s in (1.0, 3.0)
    )
    without = HyFDCARegressor(l2=0.1, fit_intercept=False, random_state=0).fit(X, y)
    assert without.intercept_ == 0.0
    assert small.intercept_ < large.intercept_ < y.mean()
    exact = Ridge(alpha=0.1 * 80, fit_intercept=False)
    exact.fit(np.hstack([X, np.full((80, 1), 3.0)]), y)
    assert large.intercept_ == pytest.approx(3.0 * exact.coef_[-1], rel=0.01)


def test_a_fitted_model_can_be_copied_with_its_participation(cancer):
    """Estimators with their own participation survive joblib."""
    X, y = cancer
    model = HyFDCAClassifier(
        participation=random_fraction(9, 0.9, seed=1), l2=1.0, max_rounds=2
    )
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    copy = deepcopy(model)
    assert np.array_equal(copy.predict(X), model.predict(X))
    assert copy.participation.of_round(3) == model.participation.of_round(3)


@pytest.mark.slow
def test_text_like_data_converges():
    """D converges long before P: the programme is then solved more accurately."""
    random = np.random.Generator(np.random.PCG64(0))
    X = sp.random_array((400, 3000), density=0.02, rng=random, format="csr")
    y = np.asarray(X @ random.standard_normal(3000)) > 0
    model = HyFDCAClassifier(random_state=0, max_rounds=100).fit(X, y)
    assert model.stop_reason_ == "tolerance"


@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_data_that_nobody_scaled_converges(profile):
    """Duals without bounds and features from 1e-3 to 1e3 give very steep planes."""
    X, y = load_breast_cancer(return_X_y=True)
    model = HyFDCAClassifier(
        "squared_hinge", profile=profile, random_state=0, max_rounds=100
    ).fit(X, y)
    assert model.stop_reason_ == "tolerance"


def test_wide_data_converges_when_clients_are_absent():
    """On wide data, clients wait for each other."""
    X, y = make_classification(50, 500, random_state=0)
    model = HyFDCAClassifier(participation=0.5, random_state=0).fit(X, y)
    assert model.stop_reason_ == "tolerance"


def test_a_subclass_may_have_keywords_of_its_own(cancer):
    """It may have them like any scikit-learn estimator."""

    class Named(HyFDCAClassifier):
        def __init__(self, name="own", l2=1e-2):
            super().__init__(l2=l2, tol=0.1)
            self.name = name

    model = clone(Named(name="other")).fit(*cancer)
    assert (model.name, model.l2) == ("other", 1e-2)
    assert model.get_params() == {"name": "other", "l2": 1e-2}


def test_fitting_leaves_the_threads_of_matrix_products_alone():
    """Concurrent clients use one thread each; the caller's number is restored."""
    random = np.random.Generator(np.random.PCG64(0))
    X = random.standard_normal((2600, 400))  # enough to work several at a time
    with threadpool_limits(2, "blas"):
        before = [pool["num_threads"] for pool in threadpool_info()]
        with pytest.warns(ConvergenceWarning):
            HyFDCARegressor(profile="sealed", grid=(4, 3), max_rounds=3).fit(X, X[:, 0])
        assert [pool["num_threads"] for pool in threadpool_info()] == before
