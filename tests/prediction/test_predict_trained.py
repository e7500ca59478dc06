"""Predictions are those of the run that trained the model, and of pooling."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective
from hyfdca.study.local.training import train_file
from tests.prediction.predictions import predicted
from tests.support.consortia import (
    N_ROWS,
    NAMES,
    Files,
    Organisation,
    make_files,
    pooled_table,
    scores,
)

pytestmark = pytest.mark.usefixtures("no_figure")

IDS = [f"P{row:03d}" for row in range(N_ROWS)]


def vertical_files(labels=None, **settings) -> Files:
    """Return two organisations that each hold all rows, and together all columns."""
    files = make_files(labels, encryption='"none"', **settings)
    labels = files.organisations["north"].labels
    files.organisations = {
        "left": Organisation(list(range(N_ROWS)), NAMES[:3], labels),
        "right": Organisation(list(range(N_ROWS)), NAMES[3:], labels),
    }
    return files


def pooled_frame(labels, X=None) -> pd.DataFrame:
    """Return all organisations' columns in one table, in another order."""
    X = pooled_table() if X is None else X
    frame = pd.DataFrame(X[:, ::-1], columns=NAMES[::-1])
    frame.insert(2, "note", "not a number")
    frame.insert(4, "id", IDS)
    return frame.assign(y=labels)


# Against the run that trained the model


CODES = np.digitize(scores(), [-1.0, 1.0])
LABELS = {
    "text": (["ill" if s > 0 else "well" for s in scores()], "logistic"),
    "bool": ([bool(s > 0) for s in scores()], "hinge"),
    "whole": ([int(s > 0) for s in scores()], "squared_hinge"),
    "with zeros": (["01" if s > 0 else "00" for s in scores()], "smoothed_hinge"),
    "unicode": (["été" if s > 0 else "e\u0301" for s in scores()], "logistic"),
    "several": ([("low", "mid", "high")[code] for code in CODES], "logistic"),
    "numbers": (scores().tolist(), "half_squared"),
}
SETTINGS = {
    "plain": {"scale": '"maxabs"'},
    "standard": {"scale": '"standard"', "intercept_scaling": "2.0"},
    "not scaled": {"scale": '"none"', "max_rounds": "3"},
    "no intercept": {"scale": '"standard"', "fit_intercept": "false"},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", LABELS)
def test_predictions_are_those_of_the_run(tmp_path, kind, settings):
    """On the pooled table, margins and accuracy are those of the trained run.

    A run numbers rows as the first organisation has them.
    """
    labels, loss = LABELS[kind]
    files = vertical_files(labels, loss=f'"{loss}"', tol="0.05", **SETTINGS[settings])
    outcome = train_file(files.write(tmp_path), tmp_path / "out", lambda *_: None)
    data = tmp_path / "full.csv"
    pooled_frame(labels).to_csv(data, index=False)
    predictions, table = predicted(tmp_path / "out" / "model.json", data)
    target = outcome.run.target
    own = outcome.run.margins(outcome.weights) * target.scale + target.centre
    np.testing.assert_allclose(predictions.margins, own, rtol=1e-11, atol=1e-10)
    assert table["id"].tolist() == IDS
    score = predictions.score()
    assert score.accuracy == outcome.run.scores(outcome.weights).accuracy
    assert score.n_labelled == N_ROWS
    assert score.n_unknown == 0
    if kind == "numbers":
        expected = table["prediction"]
        assert score.r2 == pytest.approx(r2_score(labels, expected))
        error = mean_absolute_error(labels, expected)
        assert score.absolute_error == pytest.approx(error)


def test_missing_cells_are_filled_as_in_training(tmp_path):
    """A table with the gaps that training had gets the margins that training had."""
    labels = LABELS["text"][0]
    files = vertical_files(labels, missing='"mean"', scale='"maxabs"', tol="0.05")
    files.organisations["left"].table["x0"][5:8] = [""] * 3
    outcome = train_file(files.write(tmp_path), tmp_path / "out", lambda *_: None)
    X = pooled_table()
    X[5:8, 0] = np.nan
    pooled_frame(labels, X).to_csv(tmp_path / "full.csv", index=False)
    predictions, _ = predicted(tmp_path / "out" / "model.json", tmp_path / "full.csv")
    own = outcome.run.margins(outcome.weights)
    np.testing.assert_allclose(predictions.margins, own, rtol=1e-11, atol=1e-11)


# Against scikit-learn


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_predictions_are_those_of_pooling(tmp_path, loss):
    """Margins differ from scikit-learn's by what both certified gaps allow.

    P is λ-strongly convex: weights are within √(2 gap / λ) of the optimum's.
    """
    l2, labels = 0.05, ["well" if s > 0 else "ill" for s in scores()]
    given = {"loss": f'"{loss}"', "tol": "1e-6", "penalise_intercept": "true"}
    files = vertical_files(labels, **given)
    outcome = train_file(files.write(tmp_path), tmp_path / "out", lambda *_: None)
    pooled_frame(labels).to_csv(tmp_path / "full.csv", index=False)
    predictions, _ = predicted(tmp_path / "out" / "model.json", tmp_path / "full.csv")

    X = StandardScaler().fit_transform(pooled_table())
    X = np.column_stack([X, np.ones(N_ROWS)])
    C = 1.0 / (l2 * N_ROWS)
    pooled = (
        LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-9, max_iter=10**6)
        if loss == "hinge"
        else LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10**5)
    ).fit(X, labels)
    y = np.where(np.array(labels) == "well", 1.0, -1.0)[:, None]
    primal = Objective(X, y, make_loss(loss), l2).primal(pooled.coef_.T)
    gaps = (outcome.certificate.gap, max(primal - outcome.certificate.dual, 0.0))
    distance = sum(np.sqrt(2 * gap / l2) for gap in gaps)
    difference = predictions.margins[:, 0] - pooled.decision_function(X)
    assert np.all(np.abs(difference) <= distance * np.linalg.norm(X, axis=1) + 1e-9)
    assert distance < 0.1
    is_clear = np.abs(pooled.decision_function(X)) > np.abs(difference)
    np.testing.assert_array_equal(
        predictions.predicted[is_clear], pooled.predict(X)[is_clear]
    )
    if loss == "logistic":
        shares = predictions.model.probabilities_from(predictions.margins)
        np.testing.assert_allclose(shares, pooled.predict_proba(X), atol=distance)
