"""Columns of labels, weights and offsets, as files have them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from hyfdca.data.readers import read_table
from hyfdca.data.tables import Columns, TableError
from hyfdca.data.target_columns import is_known, is_labelled, is_left_out, known_labels

COLUMNS = Columns("id", "y", weight="w", offset="o")
TEXT = "id,u,y,w,o\na,1,ill,2.5,-1\nb,2,,,\nc,3,well,0,0.5\nd,4,ill,1,0\n"


@pytest.fixture
def path(tmp_path):
    """Return a table with a blank label and a weight of 0."""
    path = tmp_path / "a.csv"
    path.write_text(TEXT)
    return path


def test_what_is_read(path):
    """Weights and offsets are not features; they may be blank where the label is."""
    table = read_table(path, COLUMNS)
    assert table.features == ("u",)
    assert table.labels == ("ill", "", "well", "ill")
    np.testing.assert_array_equal(table.weights, [2.5, np.nan, 0.0, 1.0])
    np.testing.assert_array_equal(table.offsets, [-1.0, np.nan, 0.5, 0.0])
    assert is_labelled(table).tolist() == [True, False, True, True]
    assert is_left_out(table).tolist() == [False, False, True, False]
    assert is_known(table).tolist() == [True, False, False, True]
    assert known_labels(table) == ["ill", "ill"]


def test_a_table_without_labels(path):
    """Where labels are not read, weights and offsets are neither read nor features."""
    table = read_table(
        path, Columns("id", "y", has_label=False, weight="w", offset="o")
    )
    assert table.features == ("u",)
    assert table.labels is table.weights is table.offsets is None
    assert not is_labelled(table).any()


def test_some_rows(path):
    """A selection of rows keeps everything that belongs to them."""
    table = read_table(path, COLUMNS).of_rows(np.array([3, 0]))
    assert (table.ids, table.labels) == (("d", "a"), ("ill", "ill"))
    assert table.weights.tolist() == [1.0, 2.5]
    assert table.offsets.tolist() == [0.0, -1.0]
    assert table.cells.toarray().ravel().tolist() == [4.0, 1.0]
    bare = table.without_targets()
    assert bare.labels is bare.weights is bare.offsets is None


def test_the_digest_covers_them(path):
    """Another weight or offset makes another table, also one for the other."""
    digests = {read_table(path, COLUMNS).digest}
    for old, new in (("2.5,-1", "2.5,-2"), ("2.5,-1", "3,-1")):
        path.write_text(TEXT.replace(old, new))
        digests.add(read_table(path, COLUMNS).digest)
    path.write_text(TEXT.replace(",w,o", ",o,w"))
    with pytest.raises(TableError, match="a weight that is negative"):
        read_table(path, COLUMNS)
    assert len(digests) == 3


def test_whole_numbers_of_parquet(tmp_path):
    """Whole numbers and booleans are numbers too; a missing one is blank."""
    columns = {"id": ["a", "b"], "u": [1.0, 2.0], "y": [0, 1]}
    path = tmp_path / "a.parquet"
    table = pa.table({**columns, "w": pa.array([2, 3]), "o": pa.array([1, None])})
    pa.parquet.write_table(table, path)
    with pytest.raises(TableError, match=r"has 1 row with nothing in the off"):
        read_table(path, COLUMNS)
    chosen = Columns("id", "y", weight="w", ignored=("o",))
    assert read_table(path, chosen).weights.tolist() == [2.0, 3.0]
