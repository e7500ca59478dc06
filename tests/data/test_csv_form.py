"""CSV files as programs write them: the same table, whatever their form."""

from __future__ import annotations

import gzip
import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from hyfdca.data.csv_form import CsvForm, is_encoding
from hyfdca.data.glance import glance_at
from hyfdca.data.readers import read_table
from hyfdca.data.tables import Columns, TableError

FRAME = pd.DataFrame(
    {
        "patient": ["007", "8", "9a"],
        "température": [36.6, 40.25, -1.5],
        "Größe": [1.0, 170.0, 3.75],
        "outcome": ["ill", "well", "ill"],
    }
)


def read(path, **changes):
    return read_table(path, Columns(id="patient", label="outcome", **changes))


def written(folder, delimiter, decimal, encoding, name="table.csv"):
    path = folder / name
    text = FRAME.to_csv(index=False, sep=delimiter, decimal=decimal)
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    return path


@pytest.mark.parametrize(
    ("delimiter", "decimal", "encoding"),
    [
        form
        for form in itertools.product(
            [",", ";", "\t", "|"],
            [".", ","],
            ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"],
        )
        if form[:2] != (",", ",")
    ],
)
def test_a_form_is_found_and_said(delimiter, decimal, encoding, tmp_path):
    """Cells, names, IDs and labels are the same; what is unusual is said."""
    table = read(written(tmp_path, delimiter, decimal, encoding))
    assert table.ids == ("007", "8", "9a")
    assert table.features == ("température", "Größe")
    assert np.array_equal(table.cells.toarray(), FRAME.iloc[:, 1:3].to_numpy())
    assert table.labels == ("ill", "well", "ill")
    said = " ".join(table.notes)
    assert ("between cells" in said) == (delimiter != ",")
    assert ("decimal commas" in said) == (decimal == ",")
    assert ("in the encoding" in said) == (not encoding.startswith("utf-8"))


def test_a_form_that_is_given_is_not_said(tmp_path):
    """The study file already states it."""
    path = written(tmp_path, ";", ",", "cp1252")
    table = read(path, csv=CsvForm("cp1252", ";", ","))
    assert table.notes == ()
    assert table.cells.toarray()[0].tolist() == [36.6, 1.0]


def test_compressed_files_too(tmp_path):
    """The form is that of the content."""
    table = read(written(tmp_path, "\t", ",", "cp1252", "table.csv.gz"))
    assert table.cells.toarray()[1].tolist() == [40.25, 170.0]


@pytest.mark.parametrize("name", ["table.tsv", "table.TXT", "table.tsv.gz"])
def test_other_endings_of_text(tmp_path, name):
    """Programs that write tabs often call the file so; study new looks at it too."""
    path = written(tmp_path, "\t", ".", "utf-8", name)
    assert read(path).cells.toarray()[1].tolist() == [40.25, 170.0]
    assert list(glance_at(path).columns) == list(FRAME.columns)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (CsvForm(encoding="ascii"), "is not in the encoding ascii"),
        (CsvForm(delimiter=";"), "has no column 'patient', 'outcome'"),
    ],
)
def test_a_wrong_form_is_refused(given, words, tmp_path):
    """One sentence names the file and quotes no cell."""
    path = written(tmp_path, ",", ".", "utf-8")
    with pytest.raises(TableError, match=words) as caught:
        read(path, csv=given)
    assert "007" not in str(caught.value)


@pytest.mark.parametrize("line", ["sep=\t", '"sep=\t"', "SEP=\t ", "sep= "])
def test_a_first_line_may_name_a_blank(line, tmp_path):
    """Blanks around such a line are not the delimiter that it names."""
    path, sign = tmp_path / "table.csv", line.strip('"SEPsep=')[:1]
    rows = [sign.join(cells) for cells in (["patient", "outcome", "x"], "1a2")]
    path.write_text("\n".join([line, *rows]))
    assert read(path).labels == ("a",)


@pytest.mark.parametrize("sign", ["§", "é", '"', "\x01"])
def test_a_delimiter_that_cannot_be_read(sign, tmp_path):
    """Its own line names it, so the sentence does too."""
    path = tmp_path / "table.csv"
    path.write_text(f"sep={sign}\npatient{sign}outcome\n1{sign}ill\n", "utf-8")
    with pytest.raises(TableError, match=r"first line of table\.csv names") as caught:
        read(path)
    assert repr(sign) in str(caught.value)


def test_a_wrong_encoding_is_noticed_in_any_line(tmp_path):
    """It is noticed even beyond the first lines."""
    path = tmp_path / "table.csv"
    lines = [f"{number},1.5,ill" for number in range(200_000)]
    path.write_bytes(
        "\n".join(["patient,x,outcome", *lines, "é,2.5,ill"]).encode("utf-8")
    )
    assert read(path).ids[-1] == "é"
    with pytest.raises(TableError, match="is not in the encoding ascii"):
        read(path, csv=CsvForm(encoding="ascii"))


def test_lines_of_different_lengths(tmp_path):
    """The sentence says how the file was read, and which settings there are."""
    path = tmp_path / "table.csv"
    path.write_text("patient,x,outcome\n1,2,ill\n2,3\n")
    with pytest.raises(
        TableError, match=r"commas between cells.*set delimiter .*, decimal .* or enc"
    ):
        read(path)


def test_thousands_are_no_decimals(tmp_path):
    """Where commas are between cells, a quoted one is not guessed about."""
    path = tmp_path / "table.csv"
    path.write_text('patient,x,outcome\n1,"1,234",ill\n2,"2,000",well\n')
    with pytest.raises(TableError, match=r"column 'x' of table\.csv has 2 cells that"):
        read(path)


def test_names_of_encodings():
    """Codecs of bytes are not encodings."""
    assert [is_encoding(name) for name in ("UTF8", "cp1252", "hex", "klingon")] == [
        *(True, True),
        *(False, False),
    ]


# Columns that pandas adds, and names that are hardly two


def shuffled():
    return FRAME.sample(frac=1.0, random_state=1)


@pytest.mark.parametrize(
    ("name", "write", "column"),
    [
        ("a.parquet", lambda path: shuffled().to_parquet(path), "__index_level_0__"),
        ("c.csv", lambda path: shuffled().to_csv(path), ""),
        (
            "d.csv",
            lambda path: shuffled().rename_axis("Unnamed: 0").to_csv(path),
            "Unnamed: 0",
        ),
    ],
)
def test_an_index_of_pandas_is_left_out_and_said(name, write, column, tmp_path):
    """A row number is not a feature."""
    write(tmp_path / name)
    table = read(tmp_path / name)
    assert table.features == ("température", "Größe")
    assert table.notes == (
        f"Column {column!r} of {name} is left out: pandas wrote its index there.",
    )


@pytest.mark.parametrize("said", [b"{", b"[1]", b'{"index_columns": 3}'])
def test_what_pandas_should_have_said_may_be_nonsense(said, tmp_path):
    """In that case, the names of columns decide."""
    table = pa.Table.from_pandas(shuffled()).replace_schema_metadata({"pandas": said})
    pyarrow.parquet.write_table(table, tmp_path / "table.parquet")
    assert read(tmp_path / "table.parquet").features == ("température", "Größe")


def test_an_index_with_a_name_is_a_column(tmp_path):
    """It may be the ID, or a feature, which need not be named."""
    path = tmp_path / "table.parquet"
    FRAME.set_index("patient").to_parquet(path)
    assert read(path).ids == ("007", "8", "9a")
    FRAME.set_index("Größe").to_parquet(path)
    table = read(path, features=("Größe",))
    assert table.cells.toarray().ravel().tolist() == [1.0, 170.0, 3.75]
    assert table.notes == ()
    assert set(read(path).features) == {"température", "Größe"}


@pytest.mark.parametrize("other", ["fconc1", "FCONC1", "fConc 1", "f Conc1"])
def test_names_that_are_hardly_two(other, tmp_path):
    """Almost equal names are refused, unless one of them is left out."""
    path = tmp_path / "table.csv"
    path.write_text(f"patient,fConc1,{other},outcome\n1,2,3,ill\n")
    with pytest.raises(TableError, match=f"'fConc1' and '{other}' of table.csv differ"):
        read(path)
    assert read(path, ignored=(other,)).features == ("fConc1",)


def test_a_column_without_a_name(tmp_path):
    """Only the first column can be an index."""
    path = tmp_path / "table.csv"
    path.write_text("patient,x,,outcome\n1,2,3,ill\n")
    with pytest.raises(TableError, match=r"a column of table\.csv has no name"):
        read(path)
    assert read(path, ignored=("",)).features == ("x",)


@pytest.mark.parametrize(("cells", "n_cells"), [("c,4", "2 cells"), ("c,4,5,6", "4")])
def test_a_row_with_other_cells_is_named(cells, n_cells, tmp_path):
    """Its place and number of cells are, none of its cells is."""
    path = tmp_path / "table.csv"
    path.write_text(f"patient,x,outcome\n\na,1,ill\nb,2,well\n{cells}\nd,3,ill\n")
    with pytest.raises(TableError, match=f"row 4, .* has {n_cells}.* of 3; ") as error:
        read(path)
    assert "c,4" not in str(error.value)


def test_ignored_columns_must_be_there(tmp_path):
    """A mistake in a name would make a feature of the column that was meant."""
    path = tmp_path / "table.csv"
    path.write_text("patient,x,cost,outcome\n1,2,3,ill\n")
    with pytest.raises(TableError, match=r"no column 'csot', which ignore names; "):
        read(path, ignored=("csot",))
    with pytest.raises(TableError, match=r"which ignore names \(did you mean 'cost'"):
        read(path, ignored=("costs",))
    assert read(path, ignored=("cost",)).features == ("x",)
    everywhere = read(path, ignored_if_present=("cost", "ward", "costs"))
    assert everywhere.features == ("x",)
    assert not everywhere.notes
    mistaken = read(path, ignored_if_present=("ward", "costs"))
    assert mistaken.features == ("x", "cost")
    assert mistaken.notes == (
        "The column 'cost' of table.csv is a feature; ignore in [study] names 'costs'.",
    )


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_an_index_of_pandas_may_be_ignored(name, tmp_path):
    """It is ignored by its name in the file, or by the name that pandas shows."""
    path = tmp_path / "table.csv"
    path.write_text(",patient,x,outcome\n0,1,2,ill\n")
    assert read(path, ignored=(name,)).features == ("x",)


def test_booleans_are_numbers(tmp_path):
    """True and false are 1 and 0."""
    path = tmp_path / "table.parquet"
    FRAME.assign(smoker=[True, False, True]).to_parquet(path)
    assert read(path).cells.toarray()[:, 2].tolist() == [1.0, 0.0, 1.0]
