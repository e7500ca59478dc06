"""Tables, models and options that ``hyfdca predict`` refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hyfdca.errors import StudyError
from tests.model.models import random_cells
from tests.prediction.predictions import frame_of, model_at, predicted
from tests.support.consortia import assert_one_sentence


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
    "other capitals": (
        lambda frame: frame.rename(columns={"age": "Age"}),
        [],
        "needs .did you mean 'Age'..; add it, or correct its name",
    ),
    "no ID": (
        without("id"),
        [],
        "no column 'id', .*; name the ID column .* --id-column",
    ),
    "no ID and no feature": (
        without("id", "age"),
        [],
        "no column 'id', 'age', .*; add them, or correct their names in the table",
    ),
    "other ID": (without(), ["--id-column", "key"], "no column 'key', .*--id-column"),
    "other label": (without("y"), ["--label-column", "z"], "'z', .* --label-column"),
    "text": (spoil(0, "age", "old"), [], "column 'age' of full.csv has 1 cell that"),
    "missing": (
        spoil(2, "age", np.nan),
        [],
        "In full.csv 1 cell is missing, the first in column 'age', .*fill",
    ),
    "infinite": (spoil(2, "age", np.inf), [], "1 number that is infinite"),
    "ID twice": (
        spoil(1, "id", "r0"),
        [],
        "full.csv has 1 row with the ID of another row",
    ),
    "no ID in a row": (spoil(1, "id", None), [], "full.csv has 1 row without an ID"),
    "no rows": (lambda frame: frame[:0], [], "full.csv has no rows"),
    "ending": (without(), ["--out", "a.txt"], "a.txt; give --out a name that ends in"),
    "over the data": (without(), ["--out", "./full.csv"], "would overwrite an input"),
    "a folder": (without(), ["--out", "taken.csv"], "taken.csv is a folder"),
    "in a file": (without(), ["--out", "full.csv/a.csv"], "Cannot write to full.csv"),
    "no model": (without(), ["--model", "none.json"], "the model file none.json"),
    "no data": (without(), ["--data", "none.csv"], "the file none.csv does not exist"),
    "format": (without(), ["--data", "model.json"], "cannot read model.json; use a"),
    "no argument": (without(), ["--data"], "requires an argument"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case, tmp_path, monkeypatch, hyfdca):
    """Invalid input prints one sentence, exits with code 2 and writes nothing."""
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
    """A model from tables without names needs the ID column of one with names."""
    model = model_at(tmp_path, id_column=None)
    frame_of(random_cells()).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(
        StudyError, match=r"does not name the ID column of a\.csv; name it"
    ):
        predicted(model, tmp_path / "a.csv")
