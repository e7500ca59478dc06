"""Prediction: ``hyfdca predict`` against trained runs, scikit-learn and by hand."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.parquet
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from hyfdca.losses import make_loss
from hyfdca.model import read_model
from hyfdca.model_file import as_bytes
from hyfdca.objective import Objective
from hyfdca.outcome import train_file
from hyfdca.prediction import PredictionFiles, predict_file
from hyfdca.study_error import StudyError
from tests.consortia import (
    N_ROWS,
    NAMES,
    Files,
    Organisation,
    assert_one_sentence,
    make_files,
    pooled_table,
    scores,
)
from tests.models import (
    FEATURES,
    all_by_hand,
    document,
    make_file,
    make_table,
    random_cells,
)

IDS = [f"P{row:03d}" for row in range(N_ROWS)]


def vertical_files(labels=None, **settings) -> Files:
    """Return two organisations that hold all rows, and together all columns."""
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


def model_at(folder, *arguments, **changes):
    """Write a model made by hand; return its path."""
    path = folder / "model.json"
    path.write_bytes(as_bytes(make_file(*arguments, **changes)))
    return path


def frame_of(values, **columns) -> pd.DataFrame:
    frame = pd.DataFrame(values, columns=list(FEATURES))
    return frame.assign(id=[f"r{row}" for row in range(len(values))], **columns)


def predicted(model, data, out=None, **columns):
    """Return what is predicted, and the written table."""
    out = out or data.with_name("predictions.parquet")
    predictions = predict_file(PredictionFiles(model, data, out, **columns))
    return predictions, pyarrow.parquet.read_table(out).to_pandas()


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
    own = outcome.run.margins(outcome.weights)
    np.testing.assert_allclose(predictions.margins, own, rtol=1e-11, atol=1e-11)
    assert table["id"].tolist() == IDS
    score = predictions.score()
    assert score.accuracy == outcome.run.accuracy(outcome.weights)
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
    files = vertical_files(labels, loss=f'"{loss}"', tol="1e-6")
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


# What is written


@pytest.mark.parametrize(
    ("kind", "loss", "columns"),
    [
        ("two", "logistic", ["id", "margin", "prediction", "probability_yes"]),
        ("two", "hinge", ["id", "margin", "prediction"]),
        ("regression", "pinball", ["id", "margin", "prediction"]),
        (
            "three",
            "logistic",
            [
                *("id", "margin_1", "margin_2", "margin_blue", "prediction"),
                *("probability_1", "probability_2", "probability_blue"),
            ],
        ),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_written_columns(tmp_path, kind, loss, columns, ending):
    """CSV and Parquet have the margins bit for bit, and what follows from them."""
    model = model_at(tmp_path, kind, loss)
    values, data = random_cells(9, n_missing=4), tmp_path / "full.csv"
    frame_of(values).to_csv(data, index=False)
    out = tmp_path / "deep" / f"out.{ending.upper()}"
    predictions = predict_file(PredictionFiles(model, data, out))
    read = {"csv": pyarrow.csv.read_csv, "parquet": pyarrow.parquet.read_table}[ending]
    table = read(out).to_pandas()
    assert table.columns.tolist() == columns
    assert table["id"].tolist() == [f"r{row}" for row in range(9)]
    margins = table[[name for name in columns if name.startswith("margin")]]
    np.testing.assert_array_equal(margins, predictions.margins)
    expected = all_by_hand(document(make_file(kind, loss)), make_table(values))
    np.testing.assert_allclose(margins, expected, rtol=1e-12, atol=1e-12)
    if kind != "regression":
        assert (
            table["prediction"].astype(str).tolist() == predictions.predicted.tolist()
        )
    if loss == "logistic":
        shares = table.filter(like="probability").to_numpy()
        own = predictions.model.probabilities_from(predictions.margins)
        np.testing.assert_array_equal(shares, own[:, -shares.shape[1] :])
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_tables_with_numbered_columns(tmp_path):
    """CSV, NPZ and LIBSVM tables of the same cells get the same margins.

    A LIBSVM file whose last features are all zero ends before them.
    """
    names = ["f0", "f1", "f2", "f3"]
    file = make_file("two", "hinge", id_column=None, label_column=None)
    text = as_bytes(file).decode()
    for old, new in zip(FEATURES, names, strict=True):
        text = text.replace(f"{old!r}"[1:-1].replace('"', '\\"'), new)
    model = tmp_path / "model.json"
    model.write_text(text)
    X = np.round(random_cells(6), 3)
    X[:, 2:] = 0.0
    labels = ["yes"] * 6
    pd.DataFrame(X, columns=names).assign(key=range(6), why=labels).to_csv(
        tmp_path / "a.csv", index=False
    )
    np.savez(tmp_path / "a.npz", X=np.column_stack([X, X]))
    rows = [
        " ".join(f"{j + 1}:{x!r}" for j, x in enumerate(r) if x) for r in X.tolist()
    ]
    (tmp_path / "a.libsvm").write_text("".join(f"7 {row}\n" for row in rows))
    named, _ = predicted(model, tmp_path / "a.csv", id_column="key", label_column="why")
    assert named.score().accuracy == np.mean(named.margins > 0)
    numbered, _ = predicted(model, tmp_path / "a.npz")
    assert numbered.score() is None
    sparse, _ = predicted(model, tmp_path / "a.libsvm")
    assert sparse.score().n_unknown == 6
    assert sparse.score().accuracy == 0.0
    for other in (numbered, sparse):
        np.testing.assert_array_equal(other.margins, named.margins)
        assert other.ids == named.ids


def test_scores(tmp_path):
    """Labels are compared as text; all but a positive label are the first class."""
    values, data = random_cells(4), tmp_path / "full.csv"
    model = model_at(tmp_path, "two")
    frame_of(values).to_csv(data, index=False)
    own = predicted(model, data)[0].predicted.tolist()
    other = {"yes": "no", "no": "yes"}[own[1]]
    labels = [own[0], other, "maybe", ""]
    frame_of(values, y=labels).to_csv(data, index=False)
    score = predicted(model, data)[0].score()
    assert (score.n_labelled, score.n_unknown) == (3, 1)
    assert score.accuracy == 1 / 3
    model = model_at(tmp_path, "two", positive_label="yes")
    score = predicted(model, data)[0].score()
    assert score.n_unknown == 0
    assert score.accuracy == (1 + (own[2] == "no")) / 3
    model = model_at(tmp_path, "two", classes=("0", "1"))
    frame_of(values, y=["1.0", "00", "01", "1e0"]).to_csv(data, index=False)
    assert predicted(model, data)[0].score().n_unknown == 0


def test_scores_of_numbers(tmp_path):
    """R² needs labels that differ, and no label is too large for a sentence."""
    values, data = random_cells(2), tmp_path / "full.csv"
    model = model_at(tmp_path, "regression", "huber")
    frame_of(values, y=[2, 2]).to_csv(data, index=False)
    score = predicted(model, data)[0].score()
    assert score.r2 is None
    assert score.absolute_error > 0
    frame_of(values, y=["1e308", "-1e308"]).to_csv(data, index=False)
    assert predicted(model, data)[0].score().r2 is None
    frame_of(values, y=["much", "1"]).to_csv(data, index=False)
    with pytest.raises(StudyError, match="1 rows have a label that is no number"):
        predicted(model, data)


def test_one_row(tmp_path, hyfdca):
    """One row is predicted, in the table that the terminal shows too."""
    data = tmp_path / "one.csv"
    frame_of(random_cells(1), y="no").to_csv(data, index=False)
    model = model_at(tmp_path, study="[/x] 50 %")
    out = tmp_path / "[bold].csv"
    code, output, errors = hyfdca(
        "predict", "--model", model, "--data", data, "--out", out
    )
    assert (code, errors) == (0, "")
    assert "[/x] 50 %" in output
    assert re.search(r"rows predicted +│ +1 │", output)
    assert re.search(r"accuracy +│ +(0|100).0% │", output)
    assert output.endswith(f"Written to {out}\n")
    assert len(out.read_text().splitlines()) == 2


def test_the_default_file(tmp_path, monkeypatch, hyfdca):
    """Without --out it is predictions.csv in the folder where the command runs."""
    monkeypatch.chdir(tmp_path)
    frame_of(random_cells()).to_parquet("full.parquet")
    model_at(tmp_path, "regression", "absolute")
    code, output, _ = hyfdca(
        "predict", "--model", "model.json", "--data", "full.parquet"
    )
    assert code == 0
    assert "R²" not in output
    assert len(pd.read_csv("predictions.csv")) == 7


def test_many_classes_are_summed_up(tmp_path, hyfdca):
    """Of many classes the first ten are counted, the others together."""
    classes = tuple(f"c{number:02d}" for number in range(15))
    model = model_at(
        tmp_path,
        classes=classes,
        weights=dict.fromkeys(FEATURES, (0.0,) * 15),
        intercept=tuple(float(number) for number in range(15)),
    )
    frame_of(random_cells()).to_csv(tmp_path / "a.csv", index=False)
    out = tmp_path / "out.csv"
    code, output, _ = hyfdca(
        "predict", "--model", model, "--data", tmp_path / "a.csv", "--out", out
    )
    assert code == 0
    assert "as c09" in output
    assert "as c10" not in output
    assert re.search(r"as others +│ +7 │", output)


# What is refused


def without(*names):
    return lambda frame: frame.drop(columns=list(names))


def spoil(row, name, value):
    def change(frame):
        frame = frame.astype({name: object})
        frame.loc[row, name] = value
        return frame

    return change


BAD = {
    "no feature": (without("age", "Größe"), [], "no column 'age', 'Größe', .*; add"),
    "no ID": (without("id"), [], "no column 'id', .*; name the column .* --id-column"),
    "other ID": (without(), ["--id-column", "key"], "no column 'key', .*--id-column"),
    "other label": (without("y"), ["--label-column", "z"], "'z', .* --label-column"),
    "text": (spoil(0, "age", "old"), [], "column 'age' of full.csv has 1 cells that"),
    "missing": (spoil(2, "age", np.nan), [], "In full.csv 1 cells are missing, .*fill"),
    "infinite": (spoil(2, "age", np.inf), [], "1 infinite numbers"),
    "ID twice": (spoil(1, "id", "r0"), [], "1 rows of full.csv repeat the ID"),
    "no ID in a row": (spoil(1, "id", None), [], "1 rows of full.csv have no ID"),
    "no rows": (lambda frame: frame[:0], [], "full.csv has no rows"),
    "ending": (without(), ["--out", "a.txt"], "a.txt; give --out a name that ends in"),
    "over the data": (without(), ["--out", "./full.csv"], "would destroy what is read"),
    "a folder": (without(), ["--out", "taken.csv"], "has a folder taken.csv"),
    "in a file": (without(), ["--out", "full.csv/a.csv"], "Cannot write to full.csv"),
    "no model": (without(), ["--model", "none.json"], "no model file none.json"),
    "no data": (without(), ["--data", "none.csv"], "there is no file none.csv"),
    "format": (without(), ["--data", "model.json"], "cannot read model.json; use a"),
    "no argument": (without(), ["--data"], "requires an argument"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case, tmp_path, monkeypatch, hyfdca):
    """Bad input is one sentence, exit code 2, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    change, arguments, message = BAD[case]
    model_at(tmp_path, missing="refuse")
    (tmp_path / "taken.csv").mkdir()
    change(frame_of(random_cells(), y="no")).to_csv("full.csv", index=False)
    before = {p: p.is_file() and p.read_bytes() for p in tmp_path.iterdir()}
    code, output, errors = hyfdca(
        "predict", "--model", "model.json", "--data", "full.csv", *arguments
    )
    assert (code, output) == (2, "")
    assert re.search(message, errors), errors
    assert_one_sentence(errors)
    assert {p: p.is_file() and p.read_bytes() for p in tmp_path.iterdir()} == before


def test_tables_whose_id_column_nobody_names(tmp_path):
    """A model of tables without names asks for the ID column of one with names."""
    model = model_at(tmp_path, id_column=None)
    frame_of(random_cells()).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(
        StudyError, match=r"which column of a\.csv has the IDs; name it"
    ):
        predicted(model, tmp_path / "a.csv")


def test_odd_names(tmp_path):
    """Names are compared composed and trimmed, whatever signs they have."""
    frame = frame_of(random_cells())
    expected = read_model(model_at(tmp_path)).margins(make_table(random_cells()))
    frame = frame.rename(columns={"Größe": " Gro\u0308ße ", "id": " id"})
    frame.to_csv(tmp_path / "a.csv", index=False)
    predictions, _ = predicted(tmp_path / "model.json", tmp_path / "a.csv")
    np.testing.assert_array_equal(predictions.margins, expected)
