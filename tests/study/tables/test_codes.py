"""Codes that look like numbers: leading zeros, and numbers for missing values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hyfdca.data.missing_codes import missing_codes
from hyfdca.data.readers import read_table
from hyfdca.data.tables import Columns, TableError
from hyfdca.maths.seeds import stream
from hyfdca.model.model import read_model
from hyfdca.study.file import load
from tests.support.consortia import assert_one_sentence

pytestmark = pytest.mark.usefixtures("no_figure")

N_ROWS = 120
ZIPS = ["01067", "04109", "10115", "20095"]


def hospital():
    """Return a table with postal codes, written as text."""
    random = stream(8, "codes")
    frame = pd.DataFrame(
        {
            "patient": [f"P{row:03d}" for row in range(N_ROWS)],
            "age": random.integers(20, 90, N_ROWS),
            "plz": random.choice(ZIPS, N_ROWS),
            "lab": np.round(random.uniform(0.3, 2.9, N_ROWS), 3),
        }
    )
    score = (frame["plz"] == "04109") + random.normal(size=N_ROWS)
    return frame.assign(outcome=np.where(score > 0, "ill", "well"))


def write(folder, **frames):
    """Write tables as CSV files, or Parquet if the name says so."""
    paths = []
    for name, frame in frames.items():
        is_parquet = name.endswith("_parquet")
        paths.append(folder / (f"{name}.parquet" if is_parquet else f"{name}.csv"))
        if is_parquet:
            frame.to_parquet(paths[-1], index=False)
        else:
            frame.to_csv(paths[-1], index=False)
    return paths


def drafted(hyfdca, folder, *paths):
    study = folder / "study.toml"
    code, _, errors = hyfdca("study", "new", *paths, "--out", study, "--force")
    assert (code, errors) == (0, "")
    return study


def trained(hyfdca, study):
    """Train quickly; return the model, and what was said."""
    quick = '[study]\nencryption = "none"\ntol = 1e-2'
    study.write_text(study.read_text().replace("[study]", quick))
    out = study.parent / "out"
    code, output, errors = hyfdca("train", study, "--out", out)
    assert (code, errors.startswith("round") or not errors) == (0, True), errors
    return read_model(out / "model.json"), output


def read(path, **settings):
    columns = {"id": "patient", "label": "outcome", "text_is_category": True}
    return read_table(path, Columns(**{**columns, **settings}))


@pytest.mark.parametrize("sep", [",", ";", "\t"])
@pytest.mark.parametrize("code", ["01067", " 007", "+05", "00"])
def test_leading_zeros_are_no_numbers(tmp_path, sep, code):
    """One such cell is enough; the sentence names what to set."""
    frame, path = hospital().assign(plz="12"), tmp_path / "a.csv"
    frame.loc[N_ROWS - 1, "plz"] = code
    frame.to_csv(path, index=False, sep=sep)
    with pytest.raises(TableError, match="1 cell with leading zeros") as error:
        read(path)
    assert 'set categorical = ["plz"]' in str(error.value)
    assert "write them without these zeros if they are numbers" in str(error.value)
    table = read(path, categorical=("plz",))
    assert table.levels["plz"] == tuple(sorted([code.strip(), "12"]))


@pytest.mark.parametrize("cell", ["0", "0.5", "-0.25", "10", "100.02", "0e5", ""])
def test_other_zeros_are_numbers(tmp_path, cell):
    """Numbers can have such zeros too."""
    path = tmp_path / "a.csv"
    hospital().assign(plz=["7", cell] * (N_ROWS // 2)).to_csv(path, index=False)
    assert read(path).kinds == ()


def test_leading_zeros_in_text_of_parquet(tmp_path):
    """They are treated as in a CSV file, even beside words for blanks."""
    [path] = write(tmp_path, a_parquet=hospital())
    with pytest.raises(TableError, match="leading zeros"):
        read(path)
    [path] = write(tmp_path, b=hospital().replace("20095", "-"))
    with pytest.raises(TableError, match="leading zeros"):
        read(path)


def test_without_settings_no_key_is_named(tmp_path):
    """A file to predict for has no study; its numbers are to be written well."""
    [path] = write(tmp_path, a=hospital())
    with pytest.raises(TableError) as error:
        read(path, text_is_category=False)
    assert "categorical" not in str(error.value)


def test_a_draft_makes_codes_categories(hyfdca, tmp_path):
    """Levels keep their zeros, in training and in prediction."""
    frame = hospital()
    parts = {"a": frame[:70], "b": frame[50:]}
    # No code of this organisation has a leading zero.
    parts["b"] = parts["b"][~parts["b"]["plz"].str.startswith("0")]
    paths = write(tmp_path, **parts)
    study = drafted(hyfdca, tmp_path, *paths)
    assert load(study).study.categorical == ["plz"]
    assert "cells with leading zeros, as codes have" in study.read_text()
    assert hyfdca("check", study)[0] == 0
    model, _ = trained(hyfdca, study)
    entry = model.inputs.categories["plz"]
    assert {*entry.levels, entry.reference} == set(ZIPS)
    same = frame[:4].assign(age=50, lab=1.0, plz=ZIPS)
    [path] = write(tmp_path, new=same)
    inputs = ("--model", tmp_path / "out" / "model.json", "--data", path)
    code, _, errors = hyfdca("predict", *inputs, "--out", tmp_path / "p.csv")
    assert (code, errors) == (0, "")
    scores = pd.read_csv(tmp_path / "p.csv").select_dtypes("number").iloc[:, -1]
    assert scores.nunique() == len(ZIPS)  # one by level


def test_a_study_without_the_key_is_refused(hyfdca, tmp_path):
    """Check and train say the same sentence, with the key that mends it."""
    study = drafted(hyfdca, tmp_path, *write(tmp_path, a=hospital()))
    study.write_text(study.read_text().replace("categorical =", "# categorical ="))
    for command in ("check", "train"):
        code, _, errors = hyfdca(command, study)
        assert code == 2
        assert_one_sentence(errors)
        assert 'set categorical = ["plz"] in the study file' in errors


def test_codes_that_are_numbers_elsewhere(hyfdca, tmp_path):
    """The draft and the training say that an organisation lost the zeros."""
    frame = hospital()
    numbers = frame[60:].assign(plz=frame["plz"][60:].astype(int))
    paths = write(tmp_path, a=frame[:60], b_parquet=numbers)
    study = drafted(hyfdca, tmp_path, *paths)
    assert "# In b_parquet.parquet, 'plz' is stored as numbers:" in study.read_text()
    _, output = trained(hyfdca, study)
    assert "differ only in leading zeros" in " ".join(output.split())


def test_codes_of_single_rows_are_no_features(hyfdca, tmp_path):
    """A second number of each case, with zeros, is left out."""
    frame = hospital().assign(case=[f"0{row:04d}" for row in range(N_ROWS)])
    frame["case"] = frame["case"].sample(frac=1, random_state=0).to_numpy()
    frame.loc[3, "case"] = frame.loc[4, "case"]  # no ID
    study = drafted(hyfdca, tmp_path, *write(tmp_path, a=frame))
    assert load(study).clients[0].ignore == ["case"]


def test_numbers_for_missing_values_are_pointed_out(hyfdca, tmp_path):
    """Draft, check and training name column and number, and say what to do."""
    frame = hospital()
    frame.loc[:9, "lab"] = -999.0
    study = drafted(hyfdca, tmp_path, *write(tmp_path, a=frame))
    said = (
        "Column 'lab' of a.csv has 10 cells of -999, unlike all other cells: if such "
        "numbers mean missing values, make these cells blank."
    )
    assert f"# {said}" in study.read_text()
    _, output, _ = hyfdca("check", study)
    assert f"Warning: {said}" in output
    _, output = trained(hyfdca, study)
    assert said in " ".join(output.split())


def test_numbers_for_missing_values_beside_words(tmp_path):
    """Both are reported."""
    frame = hospital().astype({"lab": str})
    frame.loc[:4, "lab"] = "-"
    frame.loc[5:9, "lab"] = "-9"
    [path] = write(tmp_path, a=frame[["patient", "lab", "outcome"]])
    [note] = read(path).notes
    assert "5 cells of column 'lab' of a.csv taken as blank: '-'." in note
    assert "5 cells of -9, unlike" in note


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ([0.3, 2.9, -999.0, -999.0], {-999.0: 2}),
        ([20.0, 80.0, 999.0, 999.0, 999.0], {999.0: 3}),
        ([0.0, 1.0, -9.0, -9.0], {-9.0: 2}),
        ([0.0, 5e4, -99.0, -99.0], {-99.0: 2}),
        ([1.0, 2.0, -99.0, -99.0, -999.0, -999.0], {-999.0: 2, -99.0: 2}),
        ([-5.0, 5.0, 9_999.0, 9_999.0], {9_999.0: 2}),
        ([0.3, 2.9, -999.0], {}),  # once
        ([-30.0, 30.0, -9.0, -9.0], {}),  # temperatures
        ([100.0, 2_000.0, 999.0, 999.0], {}),
        ([400.0, 900.0, 999.0, 999.0], {}),
        ([-999.0, -999.0, np.nan], {}),  # nothing else
        ([7.0, 7.0, 999.0, 999.0], {}),  # may be two values
        ([-2e3, 2e3, -999.0, -999.0, np.inf], {}),
    ],
)
def test_which_numbers_are_odd(cells, found):
    """Far from all others, or the only negative ones, and more than once."""
    assert missing_codes(np.array(cells)) == found


def test_no_false_alarms_on_ordinary_numbers():
    """Whole numbers of many scales and signs."""
    random = stream(9, "ordinary")
    for scale in (10.0, 100.0, 1e3, 1e4, 1e5):
        for centre in (0.0, 3.0 * scale):
            cells = np.round(random.normal(centre, scale, 2_000))
            assert missing_codes(cells) == {}


@pytest.mark.parametrize("column", ["plz", "outcome"])
def test_values_that_are_written_differently_in_all_rows(hyfdca, tmp_path, column):
    """Capitals in every shared row: the sentence says so, without any value."""
    frame = hospital().assign(plz=["east", "west"] * (N_ROWS // 2))
    other = frame[80:].assign(**{column: frame[column][80:].str.title()})
    study = drafted(hyfdca, tmp_path, *write(tmp_path, a=frame, b=other))
    _, output, _ = hyfdca("check", study)
    assert "2 tables were checked one by one, not compared" in output
    code, _, errors = hyfdca("train", study, "--out", tmp_path / "out")
    assert code == 2
    assert_one_sentence(errors)
    assert "as none of the 40 rows that they share agrees, write" in errors
    assert "cell_tolerance" not in errors
    assert "East" not in errors
    assert "Ill" not in errors
