"""Texts that readers of CSV take as blank cells: alike in CSV and in Parquet."""

from __future__ import annotations

import numpy as np
import pyarrow.csv
import pytest

from hyfdca.data.glance import glance_at
from hyfdca.data.readers import read_table
from hyfdca.data.tables import Columns, TableError
from hyfdca.data.words import NULL_TEXTS
from tests.data.test_kinds import BOTH, COLUMNS, levels_of, table_of

COUNTRIES = ["NA", "DE", None, "NA", "null", "FR", ""]


def test_the_texts_are_those_that_readers_know():
    """Otherwise the two kinds of files would differ."""
    assert {*pyarrow.csv.ConvertOptions().null_values} - {""} == NULL_TEXTS


@BOTH
@pytest.mark.parametrize("named", [(), ("country",)])
def test_in_a_category_they_are_levels(tmp_path, ending, named):
    """A note counts them; cells without a text are blank all the same."""
    columns = Columns("id", has_label=False, text_is_category=True, categorical=named)
    table = table_of(tmp_path, ending, columns, country=COUNTRIES)
    assert levels_of(table, "country") == ["NA", "DE", None, "NA", "null", "FR", None]
    assert table.notes == (
        f"3 cells of column 'country' of a.{ending} taken as a level: 'NA', 'null'; "
        "make such cells blank if they mean missing values.",
    )


@BOTH
@pytest.mark.parametrize("others", [["1.5", "2.25"], ["ja", "nein"]])
def test_elsewhere_they_are_blank(tmp_path, ending, others):
    """Among numbers, and among yes and no."""
    table = table_of(tmp_path, ending, x=[*others, *sorted(NULL_TEXTS)])
    cells = table.cells.toarray()[:, 0]
    assert np.isnan(cells).tolist() == [False] * 2 + [True] * len(NULL_TEXTS)


@pytest.mark.parametrize("line", [",,NA,", "NA,NA,NA,NA", ",,,"])
def test_rows_of_nothing_else_are_left_out(tmp_path, line):
    """They are empty, as rows that spreadsheets append."""
    path = tmp_path / "a.csv"
    path.write_text(f"id,y,place,x\n1,ill,NA,1.5\n2,well,DE,\n{line}\n{line}\n")
    table = read_table(path, Columns("id", "y", categorical=("place",)))
    assert table.ids == ("1", "2")
    assert levels_of(table, "place") == ["NA", "DE"]
    assert table.notes[0] == "Of a.csv, 2 rows without any cell are left out."


@BOTH
def test_labels_are_never_called_so(tmp_path, ending):
    """Such rows have no label."""
    columns = Columns("id", "y", text_is_category=True)
    table = table_of(tmp_path, ending, columns, y=["ill", "NA", "N/A"], x=[1, 2, 3])
    assert table.labels == ("ill", "", "")
    assert glance_at(tmp_path / f"a.{ending}").label_values("y") == {"ill"}


@BOTH
@pytest.mark.parametrize("text", ["1,234", "31.12.2024"])
def test_many_of_them_hide_no_mistake(tmp_path, ending, text):
    """Most cells are such words; the others are numbers or dates all the same."""
    with pytest.raises(TableError, match="2 cells that look like"):
        table_of(tmp_path, ending, x=[text, text, *["NA"] * 7])


@BOTH
def test_codes_with_gaps_are_codes(tmp_path, ending):
    """Zeros are kept, and a draft says that they are codes."""
    table_of(
        tmp_path,
        ending,
        code=["01067", "NA", "80331"],
        columns=Columns(
            "id", has_label=False, text_is_category=True, categorical=("code",)
        ),
    )
    assert glance_at(tmp_path / f"a.{ending}").n_codes("code") == 1
    with pytest.raises(TableError, match="1 cell with leading zeros"):
        read_table(tmp_path / f"a.{ending}", COLUMNS)
