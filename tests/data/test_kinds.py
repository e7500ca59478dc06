"""Kinds of columns, in CSV and in Parquet."""

from __future__ import annotations

import datetime
import math
import zoneinfo
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from hyfdca.data.kinds import level_text
from hyfdca.data.readers import read_table
from hyfdca.data.tables import Columns, TableError

COLUMNS = Columns(id="id", has_label=False, text_is_category=True)


def table_of(folder, ending, columns=COLUMNS, **cells):
    """Write columns to a file and read it."""
    path = folder / f"a.{ending}"
    n_rows = len(next(iter(cells.values())))
    frame = pd.DataFrame({"id": [f"r{row}" for row in range(n_rows)], **cells})
    if ending == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    return read_table(path, columns)


def levels_of(table, name):
    """Return a column's levels, row by row; None for a blank cell."""
    codes = table.cells.toarray()[:, table.features.index(name)]
    names = (None, *table.levels[name])
    return [names[0 if np.isnan(code) else int(code)] for code in codes]


BOTH = pytest.mark.parametrize("ending", ["csv", "parquet"])


@BOTH
def test_text_is_a_category(tmp_path, ending):
    """Levels are trimmed and normalised as IDs are; blank cells stay blank."""
    texts = ["ICU ", "e\u0301te\u0301", None, "ICU", "\u00e9t\u00e9", " "]
    table = table_of(tmp_path, ending, ward=texts, age=[1.0] * 6)
    assert table.kinds == ("category", "number")
    assert levels_of(table, "ward") == ["ICU", "été", None, "ICU", "été", None]
    assert table.n_missing == 2
    assert table.is_dense


@BOTH
def test_named_categories(tmp_path, ending):
    """The study may name any column; 2.0 is 2, while leading zeros stay."""
    columns = replace(COLUMNS, categorical=("code", "size", "elsewhere"))
    table = table_of(
        tmp_path, ending, columns, code=["007", "7", None], size=[1.5, 2.0, 2.0]
    )
    assert table.kinds == ("category", "category")
    assert levels_of(table, "code") == ["007", "7", None]
    assert levels_of(table, "size") == ["1.5", "2", "2"]


@BOTH
def test_dates_are_days(tmp_path, ending):
    """Since the study's date, with their time as a fraction."""
    columns = replace(COLUMNS, date_origin=datetime.date(2020, 1, 1))
    days = pd.to_datetime(["2020-01-02", "2019-12-30", None])
    times = pd.to_datetime(["2020-01-01 12:00", "2020-01-02 06:00", None])
    table = table_of(tmp_path, ending, columns, day=days, time=times)
    assert table.kinds == ("date", "date")
    cells = table.cells.toarray()
    np.testing.assert_array_equal(cells[:2], [[1.0, 0.5], [-2.0, 1.25]])
    assert np.isnan(cells[2]).all()


@BOTH
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_zones_do_not_move_dates(tmp_path, ending, zone):
    """In summer and winter, days are those of the same dates without a zone."""
    times = ["2024-01-01", "2024-07-01", "2024-07-01 18:30:15.25", None]
    plain = pd.Series(pd.to_datetime(times, format="ISO8601"))
    table = table_of(tmp_path, ending, plain=plain, zoned=plain.dt.tz_localize(zone))
    assert table.kinds == ("date", "date")
    cells = table.cells.toarray()
    np.testing.assert_array_equal(cells[:, 0], cells[:, 1])
    assert cells[0, 0] == 8766
    assert np.isnan(cells[3]).all()


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
        pa.timestamp("us", "America/New_York"),
        pa.date32(),
        pa.date64(),
    ],
)
def test_every_type_of_date(tmp_path, kind):
    """All count the same days; one with a zone counts them as they are there."""
    day = datetime.datetime(2026, 3, 1)
    if zone := getattr(kind, "tz", None):
        value = day.replace(tzinfo=zoneinfo.ZoneInfo(zone))
    else:
        value = day if pa.types.is_timestamp(kind) else day.date()
    column = pa.array([value], kind)
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"id": ["a"], "day": column}), path)
    expected = (day.date() - datetime.date(2000, 1, 1)).days
    assert read_table(path, COLUMNS).cells.toarray().tolist() == [[expected]]


def test_a_zone_that_nobody_knows(tmp_path):
    """The sentence names it; the file is not damaged."""
    times = pa.array([datetime.datetime(2026, 3, 1)], pa.timestamp("us", "Mars/North"))
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"id": ["a"], "day": times}), path)
    with pytest.raises(TableError, match=r"column 'day' .* zone 'Mars/North', which"):
        read_table(path, COLUMNS)


@BOTH
def test_booleans(tmp_path, ending):
    """True and false are 1 and 0."""
    table = table_of(tmp_path, ending, smoker=[True, False, True])
    assert table.kinds == ("boolean",)
    assert table.cells.toarray()[:, 0].tolist() == [1.0, 0.0, 1.0]


@BOTH
def test_blank_columns(tmp_path, ending):
    """A column without a value is of any kind."""
    table = table_of(tmp_path, ending, nothing=[None, None], age=[1, 2])
    assert table.kinds == ("blank", "number")
    columns = replace(COLUMNS, categorical=("nothing",))
    table = table_of(tmp_path, ending, columns, nothing=[None, None], age=[1, 2])
    assert table.levels == {"nothing": ()}


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.float64(), pa.int64(), pa.bool_(), pa.string(), pa.date32()),
        *(pa.timestamp("us"), pa.decimal128(5, 2), pa.null()),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_blank_columns_of_every_type(tmp_path, kind):
    """A type without a value does not fix a kind, so others may have any."""
    path = tmp_path / "a.parquet"
    columns = {"id": ["a", "b"], "nothing": pa.array([None, None], kind)}
    pa.parquet.write_table(pa.table(columns), path)
    table = read_table(path, COLUMNS)
    assert table.kinds == ("blank",)
    assert table.levels == {}
    assert np.isnan(table.cells.toarray()).all()


def test_text_of_numbers_is_numbers(tmp_path):
    """Some programs write numbers and forget their type."""
    table = table_of(tmp_path, "parquet", age=["1.5", " 2", None])
    assert table.kinds == ()
    np.testing.assert_array_equal(table.cells.toarray()[:, 0], [1.5, 2.0, np.nan])


@BOTH
def test_long_whole_numbers(tmp_path, ending):
    """They are rounded to floats, in every kind of file."""
    table = table_of(tmp_path, ending, long=[2**62 + 1, -(2**53) - 1, None])
    expected = [float(2**62), -float(2**53), math.nan]
    np.testing.assert_array_equal(table.cells.toarray()[:, 0], expected)


def test_pandas_categories(tmp_path):
    """They are categories by type, even of texts that are numbers."""
    own = pd.Categorical(["2", "1", None], ["2", "1", "0"])
    table = table_of(tmp_path, "parquet", code=own)
    assert table.kinds == ("category",)
    assert levels_of(table, "code") == ["2", "1", None]
    plain = replace(COLUMNS, text_is_category=False)
    table = table_of(tmp_path, "parquet", plain, code=own)
    assert table.kinds == ()


REFUSED = {
    "mixed": (["ICU", "3"], COLUMNS, "has 1 cell that is not a number; .*categorical"),
    "text": (["ICU"], Columns(id="id", has_label=False), "has 1 cell that is not"),
    "free text": (
        [f"patient {number}" for number in range(10_001)],
        COLUMNS,
        "has 10,001 different texts, more than a category may have .10,000.; .*ignore",
    ),
    "long text": (
        ["patient " * 200],
        COLUMNS,
        "has 1 text that is longer than a level's name may be .1,000.; .*ignore",
    ),
    "times": ([datetime.time(1, 30)], COLUMNS, "has 1 cell that is not a number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(tmp_path, case):
    """One sentence names the column and the settings, and quotes no cell."""
    cells, columns, message = REFUSED[case]
    with pytest.raises(
        TableError, match=f"column 'ward' of a.parquet {message}"
    ) as raised:
        table_of(tmp_path, "parquet", columns, ward=cells)
    assert "ICU" not in str(raised.value)
    assert "patient" not in str(raised.value)


def test_numbered_columns_cannot_be_categories(tmp_path):
    """A file without names of columns has numbers only."""
    path = tmp_path / "a.npz"
    np.savez(path, X=np.eye(2), ids=np.array(["a", "b"]))
    columns = Columns(has_label=False, categorical=("f1",))
    with pytest.raises(
        TableError, match=r"categorical names 'f1', but columns of a\.npz"
    ):
        read_table(path, columns)


def test_names_of_levels():
    """Equal values have one name; whatever is blank has none."""
    midnight = datetime.datetime(2020, 1, 2)
    assert level_text(7) == level_text(7.0) == level_text(" 7 ") == "7"
    assert level_text("007") == "007"
    assert level_text(midnight) == level_text(midnight.date()) == "2020-01-02"
    assert level_text(None) == level_text(float("nan")) == level_text("  ") == ""


def test_long_codes_keep_their_digits(tmp_path):
    """Codes of more digits than a float has are levels of their own."""
    codes = [12345678901234567, 12345678901234568, -(10**17) - 1]
    table = table_of(
        tmp_path, "parquet", replace(COLUMNS, categorical=("code",)), code=codes
    )
    assert levels_of(table, "code") == [str(code) for code in codes]


@BOTH
def test_underscores_are_no_part_of_numbers(tmp_path, ending):
    """A code such as 1_10 is text, though Python reads 110."""
    table = table_of(tmp_path, ending, code=["1_10", "11_0", "1_10"])
    assert table.kinds == ("category",)
    assert levels_of(table, "code") == ["1_10", "11_0", "1_10"]
    with pytest.raises(TableError, match="has 1 cell that is not a number"):
        table_of(tmp_path, ending, code=["1_10", "110", "7"])


def test_levels_are_part_of_the_digest(tmp_path):
    """Tables whose cells have the same codes but other levels differ; no repr shows."""
    one, other = (
        table_of(tmp_path, "csv", ward=wards) for wards in (["a", "b"], ["a", "c"])
    )
    np.testing.assert_array_equal(one.cells.toarray(), other.cells.toarray())
    assert one.digest != other.digest
    assert "'a'" not in repr(one)


@BOTH
@pytest.mark.parametrize("role", ["weight", "offset"])
def test_weights_and_offsets_are_numbers(tmp_path, ending, role):
    """They are never categories or dates, whatever the study names as categories."""
    columns = replace(
        COLUMNS, label="y", has_label=True, categorical=("w",), **{role: "w"}
    )
    cells = {"age": [1.0, 2.0], "y": ["ill", "well"]}
    table = table_of(tmp_path, ending, columns, w=[0.5, 2.0], **cells)
    assert table.levels == {}
    assert getattr(table, f"{role}s").tolist() == [0.5, 2.0]
    for bad in (["low", "high"], pd.to_datetime(["2021-03-04", "2021-03-05"])):
        with pytest.raises(TableError, match="has 2 cells that are not numbers"):
            table_of(tmp_path, ending, columns, w=bad, **cells)
