"""Rows to predict that are unlike those of the training: other units, other levels."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca import HyFDCAClassifier
from hyfdca.errors import StudyError
from hyfdca.model.file import CategoryEntry
from tests.model.models import make_file, random_cells
from tests.prediction.predictions import frame_of, model_at, predicted

LEVELS = ("cardiology", "ICU", "")


def category_model(folder, **changes):
    """Write a model with a category, whose level "" is a blank cell."""
    file, entry = make_file(), CategoryEntry(LEVELS, "hall", has_other=True)
    names = ("ward=cardiology", "ward=ICU", "ward=missing", "ward=other")
    own = list(file.weights.values())
    scaling = {
        "offsets": dict.fromkeys(names, 0.0),
        "scales": dict.fromkeys(names, 1.0),
        "fillings": dict.fromkeys(names, 0.0),
    }
    return model_at(
        folder,
        weights=dict(zip(names, own, strict=True)),
        scaling=type(file.scaling)(scale="standard", missing="mean", **scaling),
        categories={"ward": entry},
        **changes,
    )


def wards(folder, *levels):
    data = folder / "rows.csv"
    frame = frame_of(random_cells(len(levels)), ward=list(levels))
    frame[["id", "ward"]].to_csv(data, index=False)
    return data


def test_other_capitals(tmp_path):
    """They are refused as in training, where the study does not tell them apart."""
    data = wards(tmp_path, "CARDIOLOGY", "ICU")
    message = "'ward' has the level 'CARDIOLOGY', .* has as 'cardiology'; write it"
    with pytest.raises(StudyError, match=message):
        predicted(category_model(tmp_path), data)
    allowing = category_model(tmp_path, similar_levels="allow")
    assert predicted(allowing, data)[0].n_unknown == 1


def test_unknown_levels(tmp_path, hyfdca):
    """The command warns on standard error if most rows have one."""
    model, out = category_model(tmp_path), tmp_path / "out.csv"
    command = ("predict", "--model", model, "--out", out, "--data")
    data = wards(tmp_path, "Kardiologie", "Intensiv", "ICU")
    code, _, errors = hyfdca(*command, data)
    assert code == 0
    assert "does not know the level of 67% of the rows for 'ward', counted as" in errors
    assert hyfdca(*command, wards(tmp_path, "Kardiologie", "ICU"))[2] == ""


def test_blank_levels(tmp_path):
    """A note says what they count as, and what rows that nobody held did."""
    data = wards(tmp_path, "ICU", None)
    note = predicted(category_model(tmp_path), data)[0].note
    assert note.startswith("1 blank cell of 'ward' counted as its level 'missing'; ")
    assert note.endswith("rows count as 'hall'.")


def test_other_units(tmp_path, hyfdca):
    """A column that is far from the training rows is named; its neighbours are not."""
    path, data = model_at(tmp_path), tmp_path / "rows.csv"
    file, cells = make_file(), random_cells(20)
    cells[:, 0] = file.scaling.offsets["age"] + 5.1 * file.scaling.scales["age"]
    cells[:, 2] = 1e3
    cells[3, 2] = np.nan
    frame_of(cells).to_csv(data, index=False)
    command = ("predict", "--model", path, "--out", tmp_path / "out.csv", "--data")
    code, output, _ = hyfdca(*command, data)
    assert code == 0
    names = "'age', 'a, \"b\"' is more than 5 deviations away"
    assert f"Far from the training rows: the mean of {names}" in output
    with pytest.warns(UserWarning, match="Far from the training rows"):
        HyFDCAClassifier.from_model(path).predict(cells)
    cells[:, 0] -= 0.2 * file.scaling.scales["age"]
    cells[:, 2] = 0.0
    frame_of(cells).to_csv(data, index=False)
    assert "Far from" not in hyfdca(*command, data)[1]
    HyFDCAClassifier.from_model(path).predict(cells)
