"""CSV files to predict that are written in an unusual way, and advice about them."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.data.csv_form import CsvForm
from tests.model.models import random_cells
from tests.prediction.predictions import frame_of, model_at, predicted
from tests.support.consortia import assert_one_sentence

FRAME = frame_of(random_cells(5)).drop(columns="x.y [0]").assign(**{"x.y [0]": 17.125})


def written(folder, sep, decimal, encoding):
    path = folder / "rows.csv"
    FRAME.to_csv(path, index=False, sep=sep, decimal=decimal, encoding=encoding)
    return path


def test_options_say_how_a_file_is_written(tmp_path, hyfdca):
    """Predictions are then those of a plain file, bit for bit."""
    model = model_at(tmp_path)
    plain, _ = predicted(model, written(tmp_path, ",", ".", "utf-8"))
    path = written(tmp_path, "^", ",", "cp437")
    form = ["--delimiter", "^", "--decimal", ",", "--encoding", "cp437"]
    out = tmp_path / "made.csv"
    code, _, errors = hyfdca(
        "predict", "--model", model, "--data", path, "--out", out, *form
    )
    assert (code, errors) == (0, "")
    found, _ = predicted(model, path, csv=CsvForm("cp437", "^", ","))
    np.testing.assert_array_equal(found.margins, plain.margins)
    margins = [float(line.split(",")[1]) for line in out.read_text().splitlines()[1:]]
    np.testing.assert_array_equal(margins, plain.margins[:, 0])


def test_a_tab_can_be_typed(tmp_path, hyfdca):
    """Shells make a tab of few texts."""
    model, path = model_at(tmp_path), written(tmp_path, "\t", ".", "utf-8")
    given = ("predict", "--model", model, "--data", path, "--delimiter", "\\t")
    code, _, errors = hyfdca(*given, "--out", tmp_path / "made.csv")
    assert (code, errors) == (0, "")


FILES = {
    "lines of different lengths": ("id,age\nr0,1\nr1\n", [], "with --delimiter, --dec"),
    "another encoding": ("id,age\né,1\n", ["--encoding", "ascii"], "own with --enc"),
    "an ID twice": ("id,age\nr0,1\nr0,2\n", [], "another column with --id-column"),
    "no ID": ("id,age\n,1\nr0,2\n", [], "another column with --id-column"),
    "infinite": ("id,age\nr0,1\nr1,inf\n", [], "column 'age'; correct them."),
    "no encoding": ("id,age\nr0,1\n", ["--encoding", "klingon"], "'klingon' is unkno"),
    "no delimiter": ("id,age\nr0,1\n", ["--delimiter", "¦"], "correct --delimiter"),
    "no decimal": ("id,age\nr0,1\n", ["--decimal", "'"], "as a point or a comma"),
}


@pytest.mark.parametrize("case", FILES)
def test_advice_can_be_followed(case, tmp_path, hyfdca):
    """It names options, and no key of a study file."""
    content, options, words = FILES[case]
    model, path = model_at(tmp_path, n_features=1), tmp_path / "rows.csv"
    path.write_text(content, encoding="utf-8")
    code, _, errors = hyfdca("predict", "--model", model, "--data", path, *options)
    assert code == 2
    assert_one_sentence(errors)
    assert words in errors
    for key in ("study file", "id_column", "ignore"):
        assert key not in errors
