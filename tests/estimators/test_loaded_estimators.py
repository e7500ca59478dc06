"""Estimators of model files predict what ``hyfdca predict`` writes."""

from __future__ import annotations

import warnings
from copy import deepcopy

import msgspec
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from hyfdca import HyFDCAClassifier, HyFDCARegressor
from hyfdca.model.file import as_bytes
from hyfdca.model.model import Model
from hyfdca.prediction.complete_rows import PredictionFiles, predict_file
from tests.model.models import FEATURES, make_file, make_model, random_cells
from tests.support.consortia import assert_one_sentence


def loaded(folder, *arguments, **changes):
    """Return the estimator of a hand-made model."""
    file = make_file(*arguments, **changes)
    path = folder / "model.json"
    path.write_bytes(as_bytes(file))
    kind = HyFDCAClassifier if file.classes else HyFDCARegressor
    return kind.from_model(path)


@pytest.mark.parametrize("scale", ["none", "standard", "maxabs"])
@pytest.mark.parametrize(
    ("kind", "loss"),
    [("two", "logistic"), ("three", "logistic"), ("regression", "huber")],
)
def test_predictions_are_those_of_the_command(tmp_path, kind, loss, scale):
    """Margins, classes and probabilities are the same, bit for bit."""
    estimator = loaded(tmp_path, kind, loss, scale)
    values = random_cells(20, n_missing=6)
    frame = pd.DataFrame(values, columns=list(FEATURES))
    frame.assign(id=range(20)).to_csv(tmp_path / "a.csv", index=False)
    out = tmp_path / "out.csv"
    command = predict_file(
        PredictionFiles(tmp_path / "model.json", tmp_path / "a.csv", out)
    )
    more = frame[frame.columns[::-1]].assign(note="text")
    for X in (values, frame, more, values.tolist()):
        np.testing.assert_array_equal(estimator.predict(X), command.predicted)
        if kind != "regression":
            margins = estimator.decision_function(X).reshape(20, -1)
            np.testing.assert_array_equal(margins, command.margins)
            shares = command.model.probabilities_from(command.margins)
            np.testing.assert_array_equal(estimator.predict_proba(X), shares)
    for form in (sp.csr_array, sp.csr_matrix, sp.coo_array):
        sparse = estimator.predict(form(np.nan_to_num(values)))
        dense = estimator.predict(np.nan_to_num(values))
        np.testing.assert_array_equal(sparse, dense)


@pytest.mark.parametrize(
    ("kind", "loss"), [("two", "hinge"), ("three", "hinge"), ("regression", "absolute")]
)
def test_fitted_attributes(tmp_path, kind, loss):
    """They are the ones that fitting sets, with the same shapes."""
    estimator = loaded(tmp_path, kind, loss, l2=0.3)
    check_is_fitted(estimator)
    X = random_cells(12)
    y = np.arange(12) % max(len(estimator.model_.classes), 2)
    with warnings.catch_warnings(action="ignore"):
        fitted = clone(estimator).fit(pd.DataFrame(X, columns=list(FEATURES)), y)
    assert vars(estimator).keys() == vars(fitted).keys()
    assert fitted.model_ is None
    for name in ("coef_", "intercept_", "classes_", "feature_names_in_"):
        if hasattr(fitted, name):
            assert np.shape(getattr(estimator, name)) == np.shape(getattr(fitted, name))
    assert estimator.n_features_in_ == fitted.n_features_in_ == 4
    assert estimator.feature_names_in_.tolist() == list(FEATURES)
    assert estimator.certificate_.relative_gap == 0.5
    assert (estimator.n_iter_, estimator.algorithm_) == (3, "bundle")
    assert (estimator.stop_reason_, estimator.history_) == ("tolerance", [])
    assert estimator.get_params()["l2"] == 0.3


@pytest.mark.parametrize("offset", [1.0, 1e9])
@pytest.mark.parametrize("scale", ["none", "standard", "maxabs"])
def test_coefficients_have_the_scaling_folded_in(tmp_path, scale, offset):
    """X @ coef_.T + intercept_ is the margin, to 1e-12 of the sizes of its terms."""
    file = make_file("three", scale=scale)
    offsets = {name: offset * x for name, x in file.scaling.offsets.items()}
    scaling = msgspec.structs.replace(file.scaling, offsets=offsets)
    estimator = loaded(tmp_path, "three", scale=scale, scaling=scaling)
    X = random_cells(20) + list(offsets.values())
    folded = X @ estimator.coef_.T + estimator.intercept_
    sizes = (np.abs(X) + np.abs(list(offsets.values()))) @ np.abs(estimator.coef_.T)
    difference = np.abs(folded - estimator.decision_function(X))
    assert np.all(difference <= 1e-12 * (sizes + np.abs(estimator.model_.intercept)))


def test_conventions(tmp_path):
    """Clones are not fitted, settings can be set, copies predict, fitting forgets."""
    estimator, X = loaded(tmp_path), random_cells(10)
    with pytest.raises(NotFittedError):
        clone(estimator).predict(X)
    expected = estimator.decision_function(X)
    copied = deepcopy(estimator).set_params(l2=7.0)
    np.testing.assert_array_equal(copied.decision_function(X), expected)
    y = np.array(["a", "b"] * 5)
    with warnings.catch_warnings(action="ignore"):
        copied.fit(X[:, :2], y)
    assert copied.model_ is None
    assert copied.decision_function(X[:, :2]).shape == (10,)
    assert set(copied.predict(X[:, :2])) <= {"a", "b"}
    assert not hasattr(copied, "feature_names_in_")
    assert estimator.score(X, estimator.predict(X)) == 1.0


def test_probabilities_are_those_of_the_loss(tmp_path):
    """A model without probabilities has no predict_proba."""
    assert hasattr(loaded(tmp_path, loss="log_loss"), "predict_proba")
    assert not hasattr(loaded(tmp_path, loss="hinge"), "predict_proba")


def test_missing_cells(tmp_path):
    """The model decides whether they are filled or refused; tags tell scikit-learn."""
    X = random_cells(n_missing=2)
    filling, refusing = loaded(tmp_path), loaded(tmp_path, missing="refuse")
    assert filling.__sklearn_tags__().input_tags.allow_nan
    assert not refusing.__sklearn_tags__().input_tags.allow_nan
    assert len(filling.predict(X)) == 7
    with pytest.raises(ValueError, match=r"^2 cells are missing"):
        refusing.predict(X)
    with pytest.raises(ValueError, match="infinity"):
        filling.predict(np.full((1, 4), np.inf))


@pytest.mark.parametrize("kind", ["two", "regression"])
def test_the_other_estimator(tmp_path, kind):
    """A model of the other task is refused in one sentence."""
    loss = "absolute" if kind == "regression" else "hinge"
    loaded(tmp_path, kind, loss)
    other = HyFDCAClassifier if kind == "regression" else HyFDCARegressor
    with pytest.raises(ValueError, match=r"is for .*, not for") as caught:
        other.from_model(str(tmp_path / "model.json"))
    assert_one_sentence(f"{caught.value}\n")


def test_wrong_columns(tmp_path):
    """Too few columns, other names and no rows are refused."""
    estimator, X = loaded(tmp_path), random_cells()
    with pytest.raises(ValueError, match="X has 3 features, but the model has 4"):
        estimator.predict(X[:, :3])
    frame = pd.DataFrame(X, columns=list(FEATURES))
    with pytest.raises(
        ValueError, match="no column, or several, for the model's 'age'"
    ):
        estimator.predict(frame.rename(columns={"age": "Age"}))
    with pytest.raises(
        ValueError, match="no column, or several, for the model's 'age'"
    ):
        estimator.predict(frame.assign(**{" age": 1.0}))
    with pytest.raises(ValueError, match="0 sample"):
        estimator.predict(X[:0])
    numbered = pd.DataFrame(X)
    np.testing.assert_array_equal(estimator.predict(numbered), estimator.predict(X))


def test_classes_are_text(tmp_path):
    """Classes stay as in the model, even characters that arrays would truncate."""
    estimator = loaded(tmp_path, classes=("0", "1\0"))
    assert estimator.classes_.tolist() == ["0", "1\0"]
    assert set(estimator.predict(random_cells(30))) == {"0", "1\0"}


def test_models_show_no_numbers():
    """The text of a model is short."""
    assert len(repr(make_model())) < 200
    assert isinstance(make_model(), Model)


def test_offsets_are_not_added(tmp_path):
    """A model with offsets warns that predictions are without them."""
    with pytest.warns(UserWarning, match="hyfdca predict, which reads 'exposure'"):
        estimator = loaded(tmp_path, "regression", "huber", offset_column="exposure")
    values = random_cells(5)
    plain = loaded(tmp_path, "regression", "huber")
    np.testing.assert_array_equal(estimator.predict(values), plain.predict(values))
    assert estimator.uncovered_share_ is None
