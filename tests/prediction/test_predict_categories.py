"""Predictions of rows with text, dates and booleans."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from hyfdca import HyFDCAClassifier
from hyfdca.cli.displays.predict import predict_here
from hyfdca.errors import StudyError
from hyfdca.model.model import read_model
from hyfdca.prediction.complete_rows import PredictionFiles
from hyfdca.study.local.training import train_file
from tests.prediction.predictions import predicted
from tests.prediction.split_files import predicted_split
from tests.support.mixed_tables import MixedStudy, mixed_frame, pooled_features

pytestmark = pytest.mark.usefixtures("no_figure")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Return the folder of a trained study, and its outcome."""
    folder = tmp_path_factory.mktemp("study")
    path = MixedStudy(
        settings={"tol": "1e-3", "fit_intercept": "true", "missing": '"mean"'}
    ).write(folder)
    return folder, train_file(path, folder / "out", lambda *_: None)


def predict(study, frame, ending="csv", tmp_path=None):
    folder, _ = study
    data = (tmp_path or folder) / f"rows.{ending}"
    write = frame.to_csv if ending == "csv" else frame.to_parquet
    write(data, index=False)
    return predicted(folder / "out" / "model.json", data)[0]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_margins_of_the_pooled_table(study, ending):
    """They are those of scikit-learn's features, by the names of these."""
    _, outcome = study
    frame = mixed_frame()
    references = {
        name: entry.reference
        for name, entry in outcome.run.consortium.levels.entries.items()
    }
    X, names = pooled_features(frame, references)
    order = [names.index(name) for name in outcome.run.consortium.features]
    expected = X[:, order] @ outcome.weights[:-1] + outcome.weights[-1]
    predictions = predict(study, frame, ending)
    np.testing.assert_allclose(predictions.margins, expected, atol=1e-9)
    is_rare = frame["ward"].isin(["chapel", "attic"])
    assert predictions.n_unknown == is_rare.sum() > 0


def test_the_same_row_among_others(study, tmp_path):
    """A margin does not depend on the levels of other rows, bit for bit."""
    frame = mixed_frame()
    every = predict(study, frame, tmp_path=tmp_path).margins
    few = predict(study, frame.iloc[5:8], tmp_path=tmp_path).margins
    np.testing.assert_array_equal(few, every[5:8])


def test_unknown_levels(study):
    """They are "other" where there is one, else the reference, and are counted."""
    rows = mixed_frame().iloc[[0, 0, 0, 0]].assign(id=["a", "b", "c", "d"])
    rows["ward"] = ["attic", "helipad", "ICU", "ICU"]
    rows["code"] = ["7", "7", "99", None]
    folder, outcome = study
    reference = outcome.run.consortium.levels.entries["code"].reference
    model = read_model(folder / "out" / "model.json")
    predictions = predict(study, rows)
    margins = predictions.margins[:, 0]
    assert margins[0] == margins[1]
    assert margins[2] == margins[3]
    assert predictions.n_unknown == 4
    known = predict(study, rows.assign(code=reference)).margins[:, 0]
    assert known[2] == margins[2]
    weight = model.weights[model.features.index("ward=other"), 0]
    assert known[0] - known[2] == pytest.approx(weight)


def test_unknown_levels_are_shown(study):
    """The summary says how many rows have one."""
    folder, _ = study
    rows = mixed_frame().iloc[:3].assign(ward="helipad")
    rows.to_csv(folder / "few.csv", index=False)
    console = Console(file=io.StringIO(), width=100)
    files = PredictionFiles(
        folder / "out" / "model.json", folder / "few.csv", folder / "few-out.csv"
    )
    predict_here(console, files)
    shown = console.file.getvalue()
    assert re.search(r"a level that the model does not name +│ +3 │", shown)
    assert re.search(r"  in ward, such as +│ +'helipad' │", shown)


def test_the_most_frequent_unknown_level_is_shown(study):
    """It is shown by column; levels that the model names, even rare ones, are known."""
    rows = mixed_frame().iloc[[0, 0, 0, 0]].assign(id=list("abcd"))
    rows["ward"] = ["ICU", "ICU", "roof", "ICU"]
    rows["code"] = ["98", "99", "99", "7"]
    assert predict(study, rows).unknown_levels == {"ward": "roof", "code": "99"}
    assert predict(study, rows.iloc[3:]).unknown_levels == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda f: {"admitted": f["admitted"].dt.strftime("%d.%m.%Y")},
            r"column .admitted. of rows.csv has \d+ cells that look like dates, but "
            r"not all cells are dates as in 2024-12-31; write all of them like that\.",
        ),
        (
            lambda _: {"smoker": "J"},
            r"column .smoker. of rows.csv has \d+ cells that are neither a number nor "
            "a word for yes or no, such as ja and nein; write them as in the tables",
        ),
    ],
)
def test_dates_and_yes_or_no_in_other_forms(study, change, said):
    """The sentence is that of training, without keys of a study file."""
    frame = mixed_frame()
    with pytest.raises(StudyError, match=said):
        predict(study, frame.assign(**change(frame)))


@pytest.mark.parametrize("index", [None, "id"])
def test_frames(study, index):
    """An estimator predicts frames with text columns as the command does."""
    folder, outcome = study
    estimator = HyFDCAClassifier.from_model(folder / "out" / "model.json")
    frame = mixed_frame()
    expected = predict(study, frame).margins[:, 0]
    frame = frame if index is None else frame.set_index(index)
    found = estimator.decision_function(frame)
    np.testing.assert_array_equal(found, expected)
    assert set(estimator.feature_names_in_) == set(frame) - {"id", "y"}
    assert estimator.coef_.shape == (1, len(outcome.run.consortium.features))
    with pytest.raises(ValueError, match="pass X as a data frame with the columns"):
        estimator.predict(np.zeros((2, 6)))
    with pytest.raises(ValueError, match="no column, or several"):
        estimator.predict(frame.drop(columns="ward"))


REFUSED = {
    "no dates": (
        lambda f: f.assign(admitted=5),
        "'admitted' has no dates, but the mod",
    ),
    "dates": (lambda f: f.assign(age=f["admitted"]), "'age' has dates, but the model"),
    "text": (lambda f: f.assign(age="old"), "column 'age' of rows.csv has 120 cells"),
    "no column": (lambda f: f.drop(columns="ward"), "has no column 'ward', which the"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(study, tmp_path, case):
    """One sentence names the file and the column."""
    change, message = REFUSED[case]
    with pytest.raises(StudyError) as raised:
        predict(study, change(mixed_frame()), tmp_path=tmp_path)
    assert message in str(raised.value)
    assert "rows.csv" in str(raised.value)


def trained_with(folder, **settings):
    path = MixedStudy(settings={"tol": "1e-2", **settings}).write(folder)
    return train_file(path, folder / "out", lambda *_: None)


def test_hidden_names_cannot_predict(tmp_path):
    """A sentence names the setting; coefficients are there all the same."""
    outcome = trained_with(tmp_path, release_level_names="false")
    with pytest.raises(StudyError, match="train with release_level_names = true"):
        predict((tmp_path, outcome), mixed_frame())
    estimator = HyFDCAClassifier.from_model(tmp_path / "out" / "model.json")
    assert estimator.coef_.shape == (1, len(outcome.weights))
    with pytest.raises(ValueError, match="does not name the levels of 'code', 'ward'"):
        estimator.predict(mixed_frame())


def test_blank_categories_are_refused_as_in_training(tmp_path):
    """A model of a study without blank cells takes none, of any kind."""
    outcome = trained_with(tmp_path)
    frame = mixed_frame()
    frame.loc[3, "ward"] = None
    with pytest.raises(StudyError, match="1 cell is missing"):
        predict((tmp_path, outcome), frame)


def test_rows_split_over_organisations(study):
    """Their margins are those of complete rows, up to the grid."""
    folder, _ = study
    path, model = folder / "study.toml", read_model(folder / "out" / "model.json")
    text = path.read_text().replace(
        'name = "city"', 'name = "city"\nmay_predict = true'
    )
    path.write_text(text)
    made = predicted_split(path, model, asker=1)
    assert made.n_left_out == made.n_filled == 0
    frame = mixed_frame().set_index("id").loc[list(made.predictions.ids)]
    complete = predict(study, frame.reset_index()).margins
    np.testing.assert_allclose(made.predictions.margins, complete, atol=1e-12)
    assert made.predictions.n_unknown == frame["ward"].isin(["chapel", "attic"]).sum()


@pytest.mark.parametrize("zone", ["", "Z", "+02:00", "-0800"])
def test_dates_as_text_in_frames(study, zone):
    """With a zone or without, they are the days that the clocks of the zone show."""
    folder, _ = study
    estimator = HyFDCAClassifier.from_model(folder / "out" / "model.json")
    frame = mixed_frame()
    written = frame["admitted"].dt.strftime("%Y-%m-%dT%H:%M:%S") + zone
    frame = frame.assign(admitted=written if zone else frame["admitted"].astype(str))
    expected = predict(study, frame).margins[:, 0]
    np.testing.assert_array_equal(estimator.decision_function(frame), expected)


def test_pandas_categories_are_levels_by_name(study):
    """The order of a frame's categories does not matter."""
    folder, _ = study
    estimator = HyFDCAClassifier.from_model(folder / "out" / "model.json")
    frame = mixed_frame()
    expected = estimator.decision_function(frame)
    wards = sorted(set(frame["ward"]), reverse=True)
    frame["ward"] = pd.Categorical(frame["ward"], [*wards, "helipad"])
    np.testing.assert_array_equal(estimator.decision_function(frame), expected)
