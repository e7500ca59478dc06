"""Files of split rows are read as those that the study trained on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hyfdca.errors import StudyError
from hyfdca.maths.seeds import stream
from hyfdca.model.file import as_bytes
from hyfdca.model.model import read_model
from hyfdca.prediction.split_rows import table_to_predict
from hyfdca.study.file import Client, Study, StudyFile
from hyfdca.study.local.training import train_file
from tests.model.models import make_file, make_model
from tests.prediction.split_files import predicted_split

pytestmark = pytest.mark.usefixtures("no_figure")

_CITIES = ("Łódź", "Kraków", "Wrocław")
_STUDY = """\
[study]
name = "cities"
id_column = "id"
label_column = "y"
encryption = "stream"
tol = 1e-2
labels_visible_to_holders = true
{study}
[[clients]]
name = "north"
data = "north.csv"
may_predict = true

[[clients]]
name = "south"
data = "south.csv"
label = false
{client}
"""


@dataclass(frozen=True)
class Form:
    """How both files are written, and the lines of the study file that say so."""

    encoding: str = "utf-8"
    sep: str = ","
    decimal: str = "."
    study: str = ""
    client: str = ""


def frame_of_cities() -> pd.DataFrame:
    """Return rows with a category and numbers that have fractions."""
    random = stream(3, "cities")
    return pd.DataFrame(
        {
            "id": [f"r{row}" for row in range(60)],
            "y": random.integers(0, 2, 60),
            "city": np.array(_CITIES)[random.integers(0, 3, 60)],
            "dose": random.integers(1, 1000, 60) + 0.125,
        }
    )


def write(folder: Path, form: Form) -> Path:
    """Write the files of a study; north has the cities, south the doses."""
    frame, written = frame_of_cities(), {"sep": form.sep, "decimal": form.decimal}
    for name, columns in (("north", ["id", "y", "city"]), ("south", ["id", "dose"])):
        path = folder / f"{name}.csv"
        frame[columns].to_csv(path, index=False, encoding=form.encoding, **written)
    path = folder / "study.toml"
    path.write_text(_STUDY.format(study=form.study, client=form.client))
    return path


FORMS = {
    "encoding": Form(encoding="cp1250", study='encoding = "cp1250"'),
    "delimiter": Form(sep="^", study='delimiter = "^"'),
    # 17,125 may as well have a separator of thousands.
    "decimal": Form(sep="|", decimal=",", study='delimiter = "|"\ndecimal = ","'),
    "own decimal": Form(
        sep="^", decimal=",", study='delimiter = "^"', client='decimal = ","'
    ),
}


@pytest.mark.parametrize("case", FORMS)
def test_csv_files_are_read_as_the_study_says(tmp_path, case):
    """However they are written, predictions are those of plain files, bit for bit."""
    path = write(tmp_path, Form())
    train_file(path, tmp_path / "out", lambda *_: None)
    model = read_model(tmp_path / "out" / "model.json")
    plain = predicted_split(path, model, asker=0)
    written = predicted_split(write(tmp_path, FORMS[case]), model, asker=0)
    assert written.n_left_out == 0
    assert written.predictions.n_unknown == plain.predictions.n_unknown == 0
    np.testing.assert_array_equal(
        written.predictions.margins, plain.predictions.margins
    )


def test_rows_without_ids_are_matched_by_order_if_the_study_says_so(tmp_path):
    """Otherwise their numbers would match rows of other cases."""
    content = as_bytes(make_file(n_features=1)).replace(b'"age"', b'"f0"')
    (tmp_path / "model.json").write_bytes(content)
    model, path = read_model(tmp_path / "model.json"), tmp_path / "rows.npz"
    np.savez(path, X=np.eye(4, 1))

    def read(rows):
        file = StudyFile(Study(name="split", rows=rows), [Client(name="north")])
        return table_to_predict(file, file.clients[0], path, model)

    assert read("by order").ids == ("0", "1", "2", "3")
    with pytest.raises(StudyError, match=r"rows\.npz has no IDs to match its rows by"):
        read("by ID")


def test_no_advice_to_change_the_study_file(tmp_path):
    """It is the same at all parties, so nobody could follow it."""
    file = StudyFile(Study(name="split", id_column="id"), [Client(name="north")])
    path = tmp_path / "rows.csv"
    path.write_text("id,age\nr0,1\nr0,2\n")
    with pytest.raises(StudyError, match=r"keep one row per ID\.$"):
        table_to_predict(file, file.clients[0], path, make_model())


@pytest.mark.parametrize("missing", ["refuse", "mean"])
@pytest.mark.parametrize("name", ["Age", "a ge"])
def test_another_spelling_of_a_column_is_refused(tmp_path, name, missing):
    """It would be absent without a word, and filled if the model fills cells."""
    file = StudyFile(Study(name="split", id_column="id"), [Client(name="north")])
    path, model = tmp_path / "rows.csv", make_model(missing=missing)
    path.write_text(f"id,{name},Größe,other\nr0,1,2,3\n")
    with pytest.raises(StudyError, match=f"has a column '{name}', but the model's is"):
        table_to_predict(file, file.clients[0], path, model)
    path.write_text(f"id,age,{name}\nr0,1,2\n")  # both were told apart in training
    assert table_to_predict(file, file.clients[0], path, model).features == ("age",)


@pytest.mark.parametrize("name", ["age", "Age"])
def test_columns_to_ignore_are_ignored_as_in_training(tmp_path, name):
    """The organisation does not hold them, whatever others have."""
    settings = Study(name="split", id_column="id")
    file = StudyFile(settings, [Client(name="north", ignore=[name])])
    path = tmp_path / "rows.csv"
    path.write_text(f"id,{name},Größe\nr0,1,2\n")
    table = table_to_predict(file, file.clients[0], path, make_model())
    assert table.features == ("Größe",)
