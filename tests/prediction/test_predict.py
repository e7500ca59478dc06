"""Prediction: which columns are read, what is written, scored and shown."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.parquet
import pytest

from hyfdca.errors import StudyError
from hyfdca.model.file import as_bytes
from hyfdca.model.model import read_model
from hyfdca.prediction.complete_rows import PredictionFiles, predict_file
from tests.model.models import (
    FEATURES,
    all_by_hand,
    document,
    make_file,
    make_table,
    random_cells,
)
from tests.prediction.predictions import frame_of, model_at, predicted


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
    assert sparse.score().accuracy is None
    for other in (numbered, sparse):
        np.testing.assert_array_equal(other.margins, named.margins)
        assert other.ids == named.ids


def test_offsets(tmp_path):
    """The model's offset_column is added to margins; without it, users read so."""
    values, data = random_cells(3), tmp_path / "full.csv"
    model = model_at(tmp_path, "three")
    frame_of(values, base=[1.5, -2.0, 0.25]).to_csv(data, index=False)
    plain, _ = predicted(model, data)
    assert plain.note == ""
    model = model_at(tmp_path, "three", offset_column="base")
    found, table = predicted(model, data)
    expected = plain.margins + np.array([[1.5], [-2.0], [0.25]])
    np.testing.assert_array_equal(found.margins, expected)
    assert table["margin_blue"].tolist() == expected[:, 2].tolist()
    assert found.note == ""
    frame_of(values).to_csv(data, index=False)
    without, _ = predicted(model, data)
    np.testing.assert_array_equal(without.margins, plain.margins)
    assert "no offset_column 'base': offsets are taken as 0" in without.note
    frame_of(values, base=[1.5, None, 0.25]).to_csv(data, index=False)
    with pytest.raises(StudyError, match=r"has 1 row with nothing in the off"):
        predicted(model, data)


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
    """R² needs labels that differ; even the largest label gives one sentence."""
    values, data = random_cells(2), tmp_path / "full.csv"
    model = model_at(tmp_path, "regression", "huber")
    frame_of(values, y=[2, 2]).to_csv(data, index=False)
    score = predicted(model, data)[0].score()
    assert score.r2 is None
    assert score.absolute_error > 0
    frame_of(values, y=["1e308", "-1e308"]).to_csv(data, index=False)
    assert predicted(model, data)[0].score().r2 is None
    frame_of(values, y=["much", "1"]).to_csv(data, index=False)
    with pytest.raises(StudyError, match="1 row has a label that is not a number"):
        predicted(model, data)


def test_one_row(tmp_path, hyfdca):
    """One row is predicted; the terminal shows it too."""
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
    """Without --out the file is predictions.csv in the current folder."""
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
    """The first ten classes are counted singly, the others together."""
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


def test_odd_names(tmp_path):
    """Names are composed and trimmed before comparison, whatever their characters."""
    frame = frame_of(random_cells())
    expected = read_model(model_at(tmp_path)).margins(make_table(random_cells()))
    frame = frame.rename(columns={"Größe": " Gro\u0308ße ", "id": " id"})
    frame.to_csv(tmp_path / "a.csv", index=False)
    predictions, _ = predicted(tmp_path / "model.json", tmp_path / "a.csv")
    np.testing.assert_array_equal(predictions.margins, expected)
