"""Readers of tables, and the sets of the paper as small files of the same form."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp

from hyfdca.data.datasets import Labelled, read_libsvm, read_mnist, two_classes
from hyfdca.data.labels import encode_numbers
from hyfdca.data.readers import read_table
from hyfdca.data.tables import Columns, TableError, label_text, normalised
from tests.support.data_sets import DIGITS, write_mnist

NAMED = Columns(id="id", label="y")


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_csv(tmp_path):
    """A CSV table keeps its IDs as text, its zeros, and its gaps as missing."""
    path = write(tmp_path, "a.csv", "id,u,v,y\n007,0,1.5,1\n7, 2 ,,1.0\n")
    table = read_table(path, NAMED)
    assert table.ids == ("007", "7")
    assert table.features == ("u", "v")
    assert table.labels == ("1", "1")
    assert table.cells.nnz == 4
    np.testing.assert_array_equal(table.cells.toarray(), [[0.0, 1.5], [2.0, np.nan]])
    assert table.n_missing == 1


def test_names_are_trimmed_before_ids_are_read(tmp_path):
    """An ID column with a blank in its name still keeps leading zeros."""
    path = write(tmp_path, "a.csv", "id ,u,y\n007,1,a\n")
    assert read_table(path, NAMED).ids == ("007",)


def test_features_can_be_chosen(tmp_path):
    """Features keep the order listed; a label that is not read is None."""
    path = write(tmp_path, "a.csv", "id,u,v,y\na,1,2,1\n")
    table = read_table(path, Columns("id", "y", ("v", "u"), has_label=False))
    assert table.features == ("v", "u")
    assert table.cells.toarray().tolist() == [[2.0, 1.0]]
    assert table.labels is None
    everything = read_table(path, Columns("id", "y", has_label=False))
    assert everything.features == ("u", "v")


def test_parquet(tmp_path):
    """Parquet gives the same table whatever the number types."""
    columns = {
        "id": [7, 8],
        "u": pa.array([1, None], pa.int32()),
        "v": pa.array(["1.5", " 2 "]).dictionary_encode(),
        "y": [True, False],
    }
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table(columns), path)
    table = read_table(path, NAMED)
    assert table.ids == ("7", "8")
    assert table.labels == ("True", "False")
    np.testing.assert_array_equal(table.cells.toarray(), [[1.0, 1.5], [np.nan, 2.0]])


def test_libsvm(tmp_path):
    """LIBSVM rows and columns are numbered from 0, and stay sparse."""
    path = write(tmp_path, "a.libsvm", "+1 1:2 3:4\n-1 2:5\n")
    table = read_table(path, Columns())
    assert table.ids == ("0", "1")
    assert table.features == ("f0", "f1", "f2")
    assert table.labels == ("1", "-1")
    assert table.cells.nnz == 3
    chosen = read_table(path, Columns(features=("f2", "f0")))
    assert chosen.cells.toarray().tolist() == [[4.0, 2.0], [0.0, 0.0]]


def test_ignored_columns_of_libsvm(tmp_path):
    """They must be there, unless they are named for all tables."""
    path = write(tmp_path, "a.libsvm", "+1 1:2 3:4\n-1 2:5\n")
    assert read_table(path, Columns(ignored=("f1",))).features == ("f0", "f2")
    everywhere = Columns(ignored_if_present=("f1", "f9", "cost"))
    assert read_table(path, everywhere).features == ("f0", "f2")
    for name in ("f9", "cost"):
        with pytest.raises(TableError, match=f"no column '{name}', which ignore names"):
            read_table(path, Columns(ignored=(name,)))


def test_npz_of_arrays(tmp_path):
    """An NPZ file has X, y and IDs; a dense X stores its zeros."""
    path = tmp_path / "a.npz"
    np.savez(path, X=np.array([[0.0, 1.0], [2.0, 0.0]]), y=[0, 1], ids=["a", "b"])
    table = read_table(path, Columns())
    assert (table.ids, table.labels, table.cells.nnz) == (("a", "b"), ("0", "1"), 4)


def test_npz_of_bytes(tmp_path):
    """IDs and labels may be bytes, as C has text; what is not UTF-8 is refused."""
    path = tmp_path / "a.npz"
    ids, labels = np.array([b"007", "\u00e9".encode()]), np.array([b"1.0", b"ill"])
    np.savez(path, X=np.eye(2), y=labels, ids=ids)
    table = read_table(path, Columns())
    assert table.ids == ("007", "\u00e9")
    assert table.labels == ("1", "ill")
    for name, bad in (("ids", [b"a", b"\xff"]), ("y", np.zeros(2, "i4,i4"))):
        arrays = {"X": np.eye(2), "y": labels, "ids": ids, name: np.array(bad)}
        np.savez(path, **arrays)
        with pytest.raises(TableError, match=f"array {name} of a.npz is neither"):
            read_table(path, Columns())


def test_npz_of_a_sparse_matrix(tmp_path):
    """A file saved by scipy is read unchanged, sparse and without labels."""
    path = tmp_path / "a.npz"
    sp.save_npz(path, sp.csr_array(np.eye(2)))
    table = read_table(path, Columns(has_label=False))
    assert (table.cells.nnz, table.labels) == (2, None)


BAD_FILES = {
    "no table": ("a.csv", "id,u,y\na,1\n", "not a CSV table"),
    "no rows": ("a.csv", "id,u,y\n", "no rows"),
    "names twice": ("a.csv", "id,u,u,y\na,1,2,1\n", "'u'; rename"),
    "no such column": ("a.csv", "id,u\na,1\n", "no column 'y'"),
    "no features": ("a.csv", "id,y\na,1\n", "no feature columns"),
    "text": ("a.csv", "id,u,y\na,secret,1\nb,2,1\n", "'u' of a.csv has 1 cell "),
    "times": ("a.csv", "id,u,y\na,12:30:00,1\nb,,1\n", "has 1 cell "),
    "infinite": ("a.csv", "id,u,y\na,inf,1\n", "1 number that is infinite.*'u'"),
    "no ID": ("a.csv", "id,u,y\n,1,1\n", "a.csv has 1 row without an ID"),
    "ID twice": ("a.csv", "id,u,y\na,1,1\na ,2,1\n", "a.csv has 1 row with the"),
    "libsvm": ("a.libsvm", "1 0:secret\n", "not a LIBSVM file"),
    "npz": ("a.npz", "secret", "not an NPZ file"),
    "parquet": ("a.parquet", "secret", "not a Parquet file"),
    "ending": ("a.xlsx", "secret", "ends in .csv"),
    "empty": ("a.csv", "", "is empty"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files(tmp_path, case):
    """A bad file yields one sentence that names the file and quotes no cell."""
    name, text, message = BAD_FILES[case]
    with pytest.raises(TableError, match=message) as caught:
        read_table(write(tmp_path, name, text), NAMED)
    assert name in str(caught.value)
    assert "secret" not in str(caught.value)


def csr_parts(**changes):
    """Return the arrays of a sparse NPZ file, with some of them spoiled."""
    parts = {"data": [1.0, 2.0], "indices": [0, 1], "indptr": [0, 1, 2]}
    return {**parts, "shape": [2, 2], "y": [1, 2], **changes}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.eye(2)}, "no labels"),
        ({"X": np.eye(2), "y": [1]}, "needs one label and ID per row"),
        ({"y": [1]}, "no table of numbers"),
        ({"X": [["a"]], "y": [1]}, "no table of numbers"),
        ({"X": np.ones(3), "y": [1]}, "no table of numbers"),
        ({"X": 1j * np.eye(2), "y": [1, 2]}, "no table of numbers"),
        (csr_parts(indices=[0, 7]), "no table of numbers"),
        (csr_parts(indices=[0, -1]), "no table of numbers"),
        (csr_parts(indptr=[0, 9, 2]), "no table of numbers"),
    ],
)
def test_bad_npz(tmp_path, arrays, message):
    """The error for an incomplete NPZ file says what to save."""
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(TableError, match=message):
        read_table(tmp_path / "a.npz", Columns())


def test_cells_stored_twice_are_added(tmp_path):
    """A sparse file may repeat a cell; its values add up, as in SciPy."""
    arrays = csr_parts(data=[1.0, 2.0], indices=[1, 1], indptr=[0, 2, 2])
    np.savez(tmp_path / "a.npz", **arrays)
    table = read_table(tmp_path / "a.npz", Columns())
    assert table.cells.toarray().tolist() == [[0.0, 3.0], [0.0, 0.0]]
    assert table.cells.nnz == 1


def test_other_bytes_in_an_npz(tmp_path):
    """A bare array or a broken archive is refused in one sentence."""
    np.save(tmp_path / "b.npy", np.eye(2))
    (tmp_path / "b.npy").rename(tmp_path / "b.npz")
    np.savez_compressed(tmp_path / "a.npz", X=np.eye(50), y=np.ones(50))
    broken = bytearray((tmp_path / "a.npz").read_bytes())
    broken[60:80] = bytes(20)
    (tmp_path / "a.npz").write_bytes(broken)
    for name in ("a.npz", "b.npz"):
        with pytest.raises(TableError, match="not an NPZ file"):
            read_table(tmp_path / name, Columns())


def test_a_feature_number_beyond_reason(tmp_path):
    """One huge index does not create billions of features."""
    path = write(tmp_path, "a.libsvm", "1 1:2 2000000000:1\n-1 1:1\n")
    with pytest.raises(TableError, match="without gaps"):
        read_table(path, Columns())


def test_tables_show_no_cells(tmp_path):
    """The repr of a table reveals no ID, label or cell."""
    path = write(tmp_path, "a.csv", "id,u,y\nsecret,1,hidden\n")
    shown = repr(read_table(path, NAMED))
    assert "secret" not in shown
    assert "hidden" not in shown


def test_features_named_twice(tmp_path):
    """A feature can be chosen only once."""
    path = write(tmp_path, "a.csv", "id,u,y\na,1,1\n")
    with pytest.raises(TableError, match="named twice"):
        read_table(path, Columns("id", "y", ("u", "u")))


def test_columns_that_the_study_does_not_name(tmp_path):
    """A table with named columns needs to know which are ID and label."""
    path = write(tmp_path, "a.csv", "id,u,y\na,1,1\n")
    with pytest.raises(TableError, match="no id_column"):
        read_table(path, Columns(label="y"))
    with pytest.raises(TableError, match="no label_column"):
        read_table(path, Columns(id="id"))


def test_labels_keep_all_digits():
    """Whole numbers have as many digits as were written; underscores make text."""
    for code in (12345678901234567, 123456789012345679):
        for written in (code, f"{code}", f" +{code}", f"{code}.0", f"0{code}"):
            assert label_text(written) == str(code)
    assert [label_text(v) for v in ("-0", "-0.0", "007", "1e2", "9" * 5000)] == [
        *("0", "0", "7", "100", "inf")
    ]
    assert label_text("1_10") == "1_10"
    assert encode_numbers(["1_10", "110"])[1] == 1


def test_text_of_ids_and_labels():
    """IDs keep zeros; labels become numbers if they can."""
    assert normalised(" e\u0301 ") == "\u00e9"
    assert normalised("007") != normalised(7)
    assert [label_text(v) for v in (1, 1.0, "1", True, 0.5, None, np.nan)] == [
        *["1"] * 3,
        "True",
        "0.5",
        "",
        "",
    ]


def test_mnist(tmp_path):
    """Both parts become one table, the training images first, pixels in [0, 1]."""
    write_mnist(tmp_path)
    X, labels = read_mnist(tmp_path)
    assert X.shape == (10, 784)
    assert labels.tolist() == DIGITS
    assert X.nnz == 10
    assert X[9, 9] == 1.0
    assert X[3, 3] == 0.2


def test_no_idx_file(tmp_path):
    """Anything but an idx file is refused."""
    for content in (b"something else", b"", b"\0\0\x08"):
        path = tmp_path / "train-images-idx3-ubyte.gz"
        path.write_bytes(gzip.compress(content))
        with pytest.raises(ValueError, match="not an idx file"):
            read_mnist(tmp_path)


def test_compressed_libsvm(tmp_path):
    """LIBSVM text is read from two compressed forms; an empty row stays a row."""
    text = b"+1 2:0.5\n-1\n"
    (tmp_path / "a.xz").write_bytes(lzma.compress(text))
    (tmp_path / "a.bz2").write_bytes(bz2.compress(text))
    for ending in ("xz", "bz2"):
        X, labels = read_libsvm(tmp_path / f"a.{ending}")
        assert X.toarray().tolist() == [[0.0, 0.5], [0.0, 0.0]]
        assert labels.tolist() == [1.0, -1.0]


def test_two_classes():
    """Labels become -1 and 1, a bias the last column, indices 32 bits wide."""
    table = Labelled(sp.csr_array(np.eye(3)), np.array([2, 5, 7]))
    plain = two_classes(table, {2, 7})
    assert plain.y.tolist() == [1.0, -1.0, 1.0]
    assert plain.X.shape == (3, 3)
    assert plain.X.indices.dtype == plain.X.indptr.dtype == np.int32
    biased = two_classes(table, [5], 10.0)
    assert biased.X.toarray()[:, 3].tolist() == [10.0] * 3
