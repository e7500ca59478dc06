"""Estimators whose clients are given by a rule, a frame or several frames."""

import pickle  # noqa: TID251  # as scikit-learn keeps estimators
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from hyfdca import HyFDCAClassifier, HyFDCARegressor
from hyfdca.holdings.frames import partition_of_frame, pool_frames
from hyfdca.holdings.partition import from_holdings
from hyfdca.holdings.rules import by_column, by_function
from tests.estimators.findings import found

L2 = 0.01
SITES = np.array(["north", "city", "coast"])


@pytest.fixture(scope="module")
def table():
    """Return a frame of scaled features with a column of sites, and classes."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = (X - X.mean()) / X.std()
    X.insert(3, "site", SITES[np.arange(len(X)) % 3])
    return X, y


@pytest.fixture(scope="module")
def rule(table):
    """Return a rule by which a laboratory holds the last columns of all sites."""
    names = table[0].columns.drop("site")
    features = dict.fromkeys(SITES, names[:20]) | {"lab": names[20:]}
    return by_column("site", features, rows={"lab": SITES})


def by_first_column(X):
    """Return two clients: those with a large first value, and the others."""
    first = np.asarray(X)[:, 0].astype(float)
    return [(first > 0, range(30)), (first <= 0, range(30))]


def classifier(**settings):
    """Return a classifier of the problem that scikit-learn's solves too."""
    return HyFDCAClassifier(
        "logistic", l2=L2, fit_intercept=False, tol=1e-6, random_state=0, **settings
    )


def pooled(n_rows):
    """Return scikit-learn's classifier, which has all rows in one place."""
    return LogisticRegression(C=1 / (L2 * n_rows), fit_intercept=False, tol=1e-10)


def test_the_model_is_that_of_all_rows(rule, table):
    """Four clients find what scikit-learn finds in the pooled table."""
    X, y = table
    features = X.drop(columns="site")
    model = classifier(grid=rule).fit(X, y)
    expected = pooled(len(X)).fit(features, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=2e-3)
    assert model.feature_names_in_.tolist() == features.columns.tolist()
    assert model.n_features_in_ == 30
    margins = model.decision_function(X)
    assert np.array_equal(margins, model.decision_function(features))
    assert np.array_equal(margins, model.decision_function(X[[*features, "site"]]))


def test_it_is_the_run_of_the_partition_that_it_stands_for(rule, table):
    """A rule changes how clients are found, and nothing else."""
    X, y = table
    ruled = classifier(grid=rule).fit(X, y)
    features = X.drop(columns="site")
    fixed = classifier(grid=rule.partition(X)).fit(features, y)
    assert found(ruled) == found(fixed)


def test_cross_validation(rule, table):
    """Every fold has its own rows of every client; the scores are the pooled ones."""
    X, y = table
    folds = KFold(4, shuffle=True, random_state=1)
    scores = cross_val_score(classifier(grid=rule), X, y, cv=folds)
    n_rows = len(X) * 3 // 4
    features = X.drop(columns="site")
    expected = cross_val_score(pooled(n_rows), features, y, cv=folds)
    np.testing.assert_allclose(scores, expected, atol=1 / (len(X) // 4))


@pytest.mark.parametrize("fold", ["city", "coast"])
def test_a_client_may_be_absent_from_a_fold(fold, rule, table):
    """Without its rows, the model is that of the other clients."""
    X, y = table
    is_left = (X["site"] != fold).to_numpy()
    model = classifier(grid=rule).fit(X[is_left], y[is_left])
    features = X[is_left].drop(columns="site")
    expected = pooled(len(features)).fit(features, y[is_left])
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=2e-3)


def test_grid_search(rule, table):
    """Rules are values to search over; who holds what changes no score."""
    X, y = table
    rules = [rule, by_column("site")]
    search = GridSearchCV(classifier(), {"grid": rules, "l2": [L2, 10.0]}, cv=3)
    search.fit(X, y)
    scores = search.cv_results_["mean_test_score"].reshape(2, 2)
    np.testing.assert_allclose(scores[0], scores[1], atol=0.005)
    assert search.best_params_["l2"] == L2
    assert search.best_params_["grid"] in rules
    assert search.predict(X).shape == y.shape


def test_conventions(rule, table):
    """Clones, parameters and pickles keep the rule; so does a fitted estimator."""
    X, y = table
    for given in (rule, by_column("site"), by_function(by_first_column)):
        estimator = classifier(grid=given)
        assert clone(estimator).grid == given
        assert estimator.get_params()["grid"] is given
        assert pickle.loads(pickle.dumps(estimator)).grid == given  # noqa: S301
        assert HyFDCAClassifier().set_params(grid=given).grid is given
    fitted = classifier(grid=rule).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    assert np.array_equal(again.decision_function(X), fitted.decision_function(X))
    repr(fitted)


def test_a_model_file_has_no_site(rule, table, tmp_path):
    """The column is not a feature of the exported model, which ignores it."""
    X, y = table
    fitted = classifier(grid=rule).fit(X, y)
    fitted.to_model().save(tmp_path / "model.json")
    loaded = HyFDCAClassifier.from_model(tmp_path / "model.json")
    assert "site" not in loaded.feature_names_in_
    assert np.array_equal(loaded.decision_function(X), fitted.decision_function(X))


def test_regression_by_a_function(table):
    """The regressor accepts rules too."""
    X = table[0].drop(columns="site").to_numpy()
    y = X @ np.arange(30.0)
    settings = {"l2": 0.1, "random_state": 0}
    ruled = HyFDCARegressor(grid=by_function(by_first_column), **settings).fit(X, y)
    plain = HyFDCARegressor(grid=(1, 1), **settings).fit(X, y)
    worst = plain.certificate_.primal + plain.certificate_.gap
    assert ruled.certificate_.dual <= worst
    assert ruled.certificate_.primal <= worst * (1 + 2e-3)


def test_frames_of_several_clients(table):
    """Pooled frames with their partition give the model of the whole table."""
    X, y = table
    whole = X.drop(columns="site").assign(y=y)
    names = whole.columns.drop("y")
    parts = {
        "north": whole.loc[:400, [*names[:12], "y"]],
        "city": whole.loc[300:, [*names[10:], "y"]],
        "coast": whole.loc[:350, names[12:]],
        "lake": whole.loc[401:, names[:10]],
    }
    pooled_X, pooled_y, partition = pool_frames(parts, label="y")
    model = classifier(grid=partition).fit(pooled_X, pooled_y)
    expected = pooled(len(whole)).fit(whole[pooled_X.columns], y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=2e-3)
    assert pooled_y.dtype == y.dtype


def test_holdings_by_name(table):
    """A partition by names trains as the same one by numbers."""
    X, y = table[0].drop(columns="site"), table[1]
    is_first, names = X.index < 200, X.columns
    halves = {"a": (is_first, None), "b": (~is_first, names[:15])}
    named = partition_of_frame(X, {**halves, "c": (None, names[15:])})
    numbered = [
        (range(200), range(30)),
        (range(200, 569), range(15)),
        (range(569), range(15, 30)),
    ]
    expected = classifier(grid=from_holdings(569, 30, numbered)).fit(X, y)
    assert found(classifier(grid=named).fit(X, y)) == found(expected)


@pytest.mark.parametrize("wrong", [3, "site", (1, 2, 3), None])
def test_a_grid_of_another_kind_is_refused(wrong, table):
    """The sentence lists the valid values."""
    X, y = table
    with (
        pytest.raises(ValueError, match="a Partition or a PartitionRule, got"),
        warnings.catch_warnings(action="ignore"),
    ):
        classifier(grid=wrong).fit(X.drop(columns="site"), y)
