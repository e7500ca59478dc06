"""Fitted estimators become model files, and back, without a bit lost."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError

from hyfdca import HyFDCAClassifier, HyFDCARegressor
from hyfdca.estimators import exported
from hyfdca.model.model import ModelError
from hyfdca.prediction.complete_rows import PredictionFiles, predict_file
from tests.support.consortia import assert_one_sentence

SETS = {
    "two classes": (load_breast_cancer, HyFDCAClassifier),
    "three classes": (load_iris, HyFDCAClassifier),
    "numbers": (load_diabetes, HyFDCARegressor),
}


def fitted(name, as_frame=False, **settings):
    """Return an estimator fitted to a small table, and the table."""
    load, kind = SETS[name]
    X, y = load(return_X_y=True, as_frame=as_frame)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    loss = {} if kind is HyFDCARegressor else {"loss": "logistic"}
    return kind(l2=0.1, random_state=0, **loss, **settings).fit(X, y), X


@pytest.mark.parametrize("as_frame", [False, True], ids=["array", "frame"])
@pytest.mark.parametrize("name", SETS)
def test_a_model_comes_back_from_its_file(name, as_frame, tmp_path):
    """Margins and probabilities are equal bit for bit, predictions as text."""
    estimator, X = fitted(name, as_frame)
    path = tmp_path / "model.json"
    estimator.to_model().save(path)
    again = type(estimator).from_model(path)
    if name == "numbers":
        assert np.array_equal(again.predict(X), estimator.predict(X))
    else:
        margins = estimator.decision_function(X)
        assert np.array_equal(again.decision_function(X), margins)
        assert np.array_equal(again.predict_proba(X), estimator.predict_proba(X))
        as_text = [str(label) for label in estimator.predict(X)]
        assert again.predict(X).tolist() == as_text
    expected = list(X.columns) if as_frame else [f"f{k}" for k in range(X.shape[1])]
    assert again.feature_names_in_.tolist() == expected
    assert again.certificate_ == estimator.certificate_
    for attribute in ("n_iter_", "stop_reason_", "algorithm_", "algorithm_reason_"):
        assert getattr(again, attribute) == getattr(estimator, attribute)
    assert again.to_model() is again.model_


def test_margins_are_those_of_the_coefficients():
    """They equal X @ coef_.T + intercept_ up to the order of the sum."""
    for name in SETS:
        estimator, X = fitted(name)
        margins = estimator._margins(X)
        expected = X @ estimator.coef_.T + estimator.intercept_
        np.testing.assert_allclose(margins, expected.reshape(margins.shape), 1e-12)


def test_a_row_has_one_margin_whatever_is_beside_it(monkeypatch):
    """Alone, in pieces, sparse or dense, a row has the same bits."""
    estimator, X = fitted("two classes")
    margins = estimator.decision_function(X)
    assert np.array_equal(estimator.decision_function(sp.csr_array(X)), margins)
    alone = [estimator.decision_function(X[row : row + 1])[0] for row in range(20)]
    assert alone == margins[:20].tolist()
    monkeypatch.setattr(exported, "_CELLS_AT_ONCE", 100)
    assert np.array_equal(estimator.decision_function(X), margins)
    doubled = sp.csr_array(
        (np.tile(X[0] / 2, 2), np.tile(np.arange(30), 2), [0, 60]), shape=(1, 30)
    )
    assert estimator.decision_function(doubled)[0] == margins[0]
    assert doubled.nnz == 60


def test_the_command_predicts_from_it(tmp_path):
    """``hyfdca predict`` reads the file and the names of its features."""
    estimator, X = fitted("two classes", as_frame=True)
    estimator.to_model().save(tmp_path / "model.json")
    X.assign(id=range(len(X))).to_csv(tmp_path / "a.csv", index=False)
    files = PredictionFiles(
        tmp_path / "model.json",
        tmp_path / "a.csv",
        tmp_path / "out.csv",
        id_column="id",
    )
    margins = predict_file(files).margins
    assert np.array_equal(margins[:, 0], estimator.decision_function(X))


def test_without_an_intercept_there_is_none():
    """Its entry in the file is zero."""
    estimator, _ = fitted("two classes", fit_intercept=False)
    model = estimator.to_model()
    assert model.file.intercept == (0.0,)
    assert not model.file.training.fit_intercept


@pytest.mark.parametrize(
    ("settings", "is_penalised"),
    [({}, False), ({"penalise_intercept": True}, True), ({"step": "safe"}, True)],
)
def test_a_model_says_whether_its_intercept_had_a_penalty(
    settings, is_penalised, tmp_path
):
    """An estimator of the file has the same problem."""
    with warnings.catch_warnings(action="ignore"):
        estimator, _ = fitted("two classes", max_rounds=20, **settings)
    estimator.to_model().save(tmp_path / "model.json")
    again = HyFDCAClassifier.from_model(tmp_path / "model.json")
    assert again.get_params()["penalise_intercept"] is is_penalised


def test_what_is_not_fitted_has_no_model():
    """Scikit-learn's own error says so."""
    with pytest.raises(NotFittedError):
        HyFDCAClassifier().to_model()


def test_names_that_are_the_same_as_text_are_refused():
    """Names of features and of classes each get a sentence."""
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "a ": [1.0, 0.0, 1.0, 0.0]})
    estimator = HyFDCAClassifier(l2=1.0).fit(X, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="Several features are named 'a'") as caught:
        estimator.to_model()
    assert_one_sentence(f"{caught.value}\n")
    estimator = HyFDCAClassifier(l2=1.0).fit(X.to_numpy(), ["a", "a ", "a", "a "])
    with pytest.raises(ValueError, match="one of them twice"):
        estimator.to_model()


def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path):
    """It names the path and the reason."""
    estimator, _ = fitted("two classes")
    with pytest.raises(ModelError, match="No such file or directory") as caught:
        estimator.to_model().save(tmp_path / "none" / "model.json")
    assert_one_sentence(f"{caught.value}\n")
