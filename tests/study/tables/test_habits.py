"""Habits of hospitals and banks: the model that is meant, or one sentence."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hyfdca.data.csv_form import CsvForm
from hyfdca.data.kinds import read_column
from hyfdca.data.labels import encode_numbers
from hyfdca.data.readers import read_table
from hyfdca.data.tables import Columns, TableError
from hyfdca.maths.seeds import stream
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from tests.support.command_line import run_command
from tests.support.consortia import assert_one_sentence

N_ROWS = 60


def hospital() -> pd.DataFrame:
    """Return the pooled table of two organisations that share 20 of 60 rows."""
    random = stream(4, "habits")
    table = pd.DataFrame(
        {
            "patient_id": [f"P{row:04d}" for row in range(N_ROWS)],
            "age": random.integers(20, 90, N_ROWS),
            "lab": np.round(random.gamma(2.0, 400.0, N_ROWS), 1) + 1000.0,
            "smoker": random.random(N_ROWS) < 0.4,
        }
    )
    score = (table["age"] - 55) / 15 + random.normal(size=N_ROWS)
    return table.assign(outcome=np.where(score > 0, 1, 0))


def parts() -> tuple[pd.DataFrame, pd.DataFrame]:
    table = hospital()
    return table.iloc[:40].copy(), table.iloc[20:].reset_index(drop=True)


def as_excel(table: pd.DataFrame) -> bytes:
    """Return what Excel saves in Europe, with blank rows and columns at the end."""
    text = table.to_csv(index=False, sep=";", decimal=",")
    lines = [f"{line};;" for line in [*text.splitlines(), ";;;;", ";;;;"]]
    return "\r\n".join(["\ufeffsep=;", *lines, ""]).encode()


def as_csv(table: pd.DataFrame, **changes) -> bytes:
    return table.assign(**changes).to_csv(index=False).encode()


def as_parquet(table: pd.DataFrame, **changes) -> bytes:
    file = io.BytesIO()
    table.assign(**changes).to_parquet(file, index=False)
    return file.getvalue()


def drafted(hyfdca, folder, north: bytes, south: bytes, ending="csv"):
    """Draft and check a study; return the exit code and the errors of the last."""
    paths = [folder / f"north.{ending}", folder / "south.csv"]
    for path, content in zip(paths, (north, south), strict=True):
        path.write_bytes(content)
    study = folder / "study.toml"
    code, _, errors = hyfdca("study", "new", *paths, "--out", study)
    if code:
        return code, errors
    quick = '[study]\nencryption = "none"\ntol = 1e-2'
    study.write_text(study.read_text().replace("[study]", quick))
    code, _, errors = hyfdca("check", study)
    return code, errors


def refused(hyfdca, folder, *tables: bytes) -> str:
    """Draft, check and train; return the sentence that ends it with exit code 2."""
    code, errors = drafted(hyfdca, folder, *tables)
    if not code:
        out = folder / "out"
        code, _, errors = hyfdca("train", folder / "study.toml", "--out", out)
    assert code == 2
    assert_one_sentence(errors)
    return errors


def weights_of(folder):
    """Train the study in a folder; return its weights by feature."""
    run = prepare(load(folder / "study.toml"), folder)
    return train(run, lambda *_: None).model().weights


HABITS = {
    "excel": (as_excel, "csv"),
    "IDs with blanks": (
        lambda t: as_csv(t, patient_id=" " + t["patient_id"] + "\u00a0 "),
        "csv",
    ),
    "yes and no": (
        lambda t: as_csv(t, smoker=np.where(t["smoker"], "Yes", "no")),
        "csv",
    ),
    "ja and nein": (
        lambda t: as_csv(t, smoker=np.where(t["smoker"], "ja", "Nein")),
        "csv",
    ),
    "1 and 0": (lambda t: as_csv(t, smoker=t["smoker"].astype(int)), "csv"),
    "a warehouse": (
        lambda t: as_parquet(
            t,
            patient_id=t["patient_id"].str.encode("utf-8"),
            age=t["age"].astype("Int64"),
            lab=[Decimal(str(value)) for value in t["lab"]],
            smoker=t["smoker"].astype("boolean"),
        ),
        "parquet",
    ),
    "categories of pandas": (
        lambda t: as_parquet(t, smoker=pd.Categorical(np.where(t["smoker"], "Y", "N"))),
        "parquet",
    ),
    "telephone numbers": (
        lambda t: as_csv(t, phone=[f"+49 30 {row:05d}" for row in range(len(t))]),
        "csv",
    ),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The weights of plain files, from a draft that nobody edits."""
    folder = tmp_path_factory.mktemp("plain")
    assert drafted(run_command, folder, *map(as_csv, parts())) == (0, "")
    return weights_of(folder)


@pytest.mark.parametrize("habit", HABITS)
def test_habits_that_change_nothing(hyfdca, tmp_path, plain, habit):
    """The model is that of plain files, bit for bit, from a draft that nobody edits."""
    write, ending = HABITS[habit]
    north, south = parts()
    tables = write(north), as_csv(south)
    assert drafted(hyfdca, tmp_path, *tables, ending) == (0, "")
    assert weights_of(tmp_path) == plain


def test_words_for_blank_cells(hyfdca, tmp_path):
    """Among numbers "-" and "unknown" are blank, and those others have are filled."""
    north, south = parts()
    weights = {}
    for name, words in (("words", ["-", "?", "unknown"]), ("blank", [None] * 3)):
        (tmp_path / name).mkdir()
        lab = north["lab"].astype(object)
        lab[[3, 25, 30]] = words
        tables = (as_csv(north, lab=lab), as_csv(south))
        assert drafted(hyfdca, tmp_path / name, *tables) == (0, "")
        weights[name] = weights_of(tmp_path / name)
    assert weights["words"] == weights["blank"]
    study = tmp_path / "words" / "study.toml"
    assert "# 2 of them have a value in another table" in study.read_text()
    _, output, _ = hyfdca("check", study)
    assert "3 cells of column 'lab' of north.csv taken as blank" in output


def written(form) -> pd.Series:
    """Return the laboratory's numbers of the north in some form."""
    return parts()[0]["lab"].map(form)


REFUSED = {
    "thousands": (
        {"lab": written("{:,.1f}".format)},
        "'lab' of north.csv has 40 cells that look like numbers, but with commas; "
        r"write them as in 1234.5, set decimal = \",\" if",
    ),
    "percent": ({"lab": written("{}%".format)}, "but with percent signs; write"),
    "currency": ({"lab": written("€ {}".format)}, "with signs of a currency; write"),
    "apostrophes": (
        {"lab": written(lambda v: f"{int(v):,}".replace(",", "'"))},
        'but with apostrophes; .* ignore = ."lab".',
    ),
    "below a limit": (
        {"lab": written(lambda v: v if v > 1400 else "<1400")},
        "'lab' of north.csv has .* but with signs of a comparison",
    ),
    "some text": (
        {"lab": written(lambda v: v if v > 1400 else "low")},
        "'lab' of north.csv has .* not numbers; .*categorical = .*ignore = ",
    ),
    "dates": (
        {"seen": [f"{1 + row % 28}.12.2024" for row in range(40)]},
        "'seen' of north.csv has 40 cells that look like dates, but not all .*ignore",
    ),
    "names of months": (
        {"seen": [f"{1 + row % 28}-Dec-2024" for row in range(40)]},
        "'seen' of north.csv has 40 cells that look like dates, but not all .*ignore",
    ),
    "labels for nothing": (
        {"outcome": ["-", "unknown", *parts()[0]["outcome"][2:]]},
        "'north' has 2 rows with a label such as .* set max_classes if they are",
    ),
    "visits": (
        {"patient_id": ["P0000", *parts()[0]["patient_id"][:39]]},
        "No column of north.csv .*'patient_id' repeats in 1 row",
    ),
    "other labels": (
        {"outcome": np.where(parts()[0]["outcome"], "yes", "no")},
        "different labels .label_column 'outcome'. for rows that they share",
    ),
}


@pytest.mark.parametrize("habit", REFUSED)
def test_habits_that_are_refused(hyfdca, tmp_path, habit):
    """One sentence names file, column, what was found and the settings that help."""
    changes, sentence = REFUSED[habit]
    north, south = parts()
    errors = refused(hyfdca, tmp_path, as_csv(north, **changes), as_csv(south))
    assert re.search(sentence, errors), errors


def test_labels_that_nobody_else_has(hyfdca, tmp_path):
    """0 and 1 here and no and yes there are not four classes, unless the study says."""
    table = hospital()
    south = table.iloc[30:]
    words = np.where(south["outcome"], "yes", "no")
    tables = as_csv(table.iloc[:30]), as_csv(south, outcome=words)
    errors = refused(hyfdca, tmp_path, *tables)
    assert "'north', such as '0' and '1', and those of 'south', such as 'no'" in errors
    study = tmp_path / "study.toml"
    study.write_text(study.read_text().replace("[study]", "[study]\nmax_classes = 4"))
    assert len(prepare(load(study), tmp_path).consortium.classes) == 4


def test_levels_that_nobody_else_has(hyfdca, tmp_path):
    """M and F here, male and female there: allowed, as wards may differ, but said."""
    apart = hospital().iloc[:20], hospital().iloc[40:]
    words = (["M", "F"], ["male", "female"])
    tables = [
        as_csv(own, sex=np.array(levels)[own["age"] % 2])
        for own, levels in zip(apart, words, strict=True)
    ]
    assert drafted(hyfdca, tmp_path, *tables) == (0, "")
    outcome = train(prepare(load(tmp_path / "study.toml"), tmp_path), lambda *_: None)
    [note] = [note for note in outcome.summary().notes if "in common" in note]
    assert note.startswith("north and south have no level of 'sex' in common; if")


def test_units_in_names(hyfdca, tmp_path):
    """A column whose unit is in its name is not two columns without a word."""
    north, south = parts()
    tables = (
        as_csv(north.rename(columns={"lab": "lab [mg/dl]"})),
        as_csv(south.rename(columns={"lab": "lab (mmol/l)"})),
    )
    errors = refused(hyfdca, tmp_path, *tables)
    assert "name 'lab [mg/dl]' and 'lab (mmol/l)' alike if they are the same" in errors
    drawn = (tmp_path / "study.toml").read_text()
    assert "If they are the same, name them alike." in drawn


@pytest.mark.parametrize(
    ("north", "sentence"),
    [
        (b"", "The file north.csv is empty; give"),
        (b"patient_id,age,lab,smoker,outcome\n", "The file north.csv has no rows; add"),
        (b"patient_id,age,age\nP0001,1,2\n", "The file north.csv has 1 column name"),
        (b"# exported\npatient_id,age\nP0001,1\n", "The file north.csv is not a CSV"),
    ],
)
def test_files_that_cannot_be_drafted(hyfdca, tmp_path, north, sentence):
    """The sentence has the file's name as it is."""
    errors = refused(hyfdca, tmp_path, north, as_csv(parts()[1]))
    assert errors.replace("Error: ", "").startswith(sentence), errors


def test_codes_and_dates_are_pointed_out(hyfdca, tmp_path):
    """Whole numbers that are named like codes, or look like dates, get a comment."""
    tables = [
        as_csv(
            own, marital_code=own["age"] % 4 + 1, seen=20240100 + own["age"] % 28 + 1
        )
        for own in parts()
    ]
    drafted(hyfdca, tmp_path, *tables)
    text = (tmp_path / "study.toml").read_text()
    assert "# If 'marital_code' is a code and no quantity, write:" in text
    assert '# categorical = ["marital_code"]' in text
    assert "# 'seen' of north.csv is read as numbers. If these are dates" in text


def test_text_in_views(tmp_path):
    """Text is text, whichever way Parquet keeps it."""
    texts = {"id": ["a", "b"], "ward": ["ICU", "hall"], "smoker": ["no", "-"]}
    table = pa.table(
        {name: pa.array(own, pa.string_view()) for name, own in texts.items()}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    columns = Columns(id="id", has_label=False, text_is_category=True)
    found = read_table(tmp_path / "a.parquet", columns)
    assert found.kinds == ("category", "boolean")
    assert found.ids == ("a", "b")


@pytest.mark.parametrize(
    ("cells", "meant"),
    [
        (["1,5", "-", "2,25"], [1.5, np.nan, 2.25]),
        (["12.345", "9.000", "1.000"], None),  # thousands: no decimal points here
        (["12,345", "9,125", "1,000"], [12.345, 9.125, 1.0]),
    ],
)
def test_points_where_commas_are_decimal(tmp_path, cells, meant):
    """In such a file a point separates thousands, also among texts and in labels."""
    path = tmp_path / "a.csv"
    rows = [f"P{row};0,5;{cell};{cell}" for row, cell in enumerate(cells)]
    path.write_text("\n".join(["id;age;lab;y", *rows]) + "\n")
    columns = Columns(id="id", label="y", text_is_category=True)
    if meant is None:
        with pytest.raises(TableError, match="with points; write them as in 1234,5"):
            read_table(path, columns)
        table = read_table(path, replace(columns, features=("age",)))
        assert np.isnan(encode_numbers(table.labels)[0]).all()
        return
    table = read_table(path, columns)
    np.testing.assert_array_equal(table.cells.toarray()[:, 1], meant)


def test_thousands_that_look_like_decimal_commas(tmp_path):
    """1,234 between semicolons may be two numbers: the study has to say which."""
    path = tmp_path / "a.csv"
    rows = [f"P{row};{cell}" for row, cell in enumerate(["1,234", "999", "12,000"])]
    path.write_text("\n".join(["id;income", *rows]) + "\n")
    columns = Columns(id="id", has_label=False, text_is_category=True)
    with pytest.raises(TableError, match=r"with commas; .*set decimal = "):
        read_table(path, columns)
    table = read_table(path, replace(columns, csv=CsvForm(decimal=",")))
    assert table.cells.data.tolist() == [1.234, 999.0, 12.0]


def test_ids_that_a_spreadsheet_shortened(tmp_path):
    """Long numbers that became alike are not only called repeated."""
    path = tmp_path / "a.csv"
    path.write_text("id,x\n1.23457E+11,1\n1.23457E+11,2\n")
    with pytest.raises(TableError, match=r"1 row with the ID of .*with all their dig"):
        read_table(path, Columns(id="id", has_label=False))


@pytest.mark.parametrize(("cell", "helps"), [("7%", "as in 1234.5"), ("high", "them")])
def test_no_settings_where_there_is_no_study(cell, helps):
    """Rows to predict are corrected; no key of a study file is named."""
    with pytest.raises(TableError, match=f"{helps}$"):
        read_column("a.csv", "x", pa.chunked_array([[cell, cell]]), Columns())


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["Y", "N", "Y"], "boolean"),
        (["N", "N", None], "category"),  # a letter alone may be a code
        (["yes", "-", "NO"], "boolean"),
        (["yes", "no", "perhaps"], "category"),
        (["-", "?", None], "blank"),
        (["20-30", "30-40", "20-30"], "category"),
        (["E11.9", "I10", "I10"], "category"),
    ],
)
def test_words_and_what_they_are(words, kind):
    """Words for yes and no are 1 and 0; other texts stay names of categories."""
    columns = Columns(text_is_category=True)
    found = read_column("a.csv", "x", pa.chunked_array([words]), columns)
    assert found.kind == kind
    if kind == "boolean":
        known = [word for word in words if word != "-"]
        expected = [float(word.casefold() in ("y", "yes")) for word in known]
        assert found.cells[~np.isnan(found.cells)].tolist() == expected
