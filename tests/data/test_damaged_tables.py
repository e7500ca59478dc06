"""Files of every format with bytes that were changed, lost or added."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyfdca.data import readers
from hyfdca.data.readers import read_table
from hyfdca.data.tables import Columns, TableError
from hyfdca.maths.seeds import stream
from tests.support.spoiling import spoilt
from tests.support.thoroughness import examples

N_ROWS = 12
X = stream(2, "damaged").normal(size=(N_ROWS, 3)).round(3)
IDS = [f"{row:04d}" for row in range(N_ROWS)]
LABELS = ["müde" if row % 2 else "wach" for row in range(N_ROWS)]


def write_csv(path):
    rows = (
        f"{own},{a},{b},{c},{y}"
        for own, (a, b, c), y in zip(IDS, X, LABELS, strict=True)
    )
    path.write_text("\n".join(["id,a,b,c,y", *rows]), "utf-8")


def write_libsvm(path):
    lines = (f"{i % 2} 1:{a} 2:{b} 3:{c}" for i, (a, b, c) in enumerate(X))
    path.write_text("\n".join(lines))


def write_npz(path):
    np.savez(path, X=X, y=np.array(LABELS), ids=np.array(IDS))


def write_sparse_npz(path):
    parts = {
        "data": [1.0, 2.0],
        "indices": [0, 2],
        "indptr": [0, 1, 2],
        "shape": (2, 3),
    }
    np.savez(path, **parts, y=[0, 1], ids=["a", "b"])


def write_parquet(path):
    columns = {"id": IDS, **dict(zip("abc", X.T, strict=True)), "y": LABELS}
    pq.write_table(pa.table(columns), path)


WRITERS = {
    "a.csv": write_csv,
    "a.libsvm": write_libsvm,
    "a.npz": write_npz,
    "sparse.npz": write_sparse_npz,
    "a.parquet": write_parquet,
}
CHANGES = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 20), st.binary(max_size=8)),
    min_size=1,
    max_size=3,
)


def complaint(path):
    """Return why a table is refused; "" if it is read."""
    try:
        read_table(path, Columns("id", "y"))
    except TableError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make a folder with a sound file of each format."""
    made = tmp_path_factory.mktemp("tables")
    for name, write in WRITERS.items():
        write(made / name)
    return made


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_files(folder, name):
    """Bytes are replaced somewhere: the table is read, or refused in one line."""
    sound = (folder / name).read_bytes()
    damaged = folder / f"damaged {name}"

    @settings(max_examples=examples(300))
    @given(CHANGES)
    def check(changes):
        content = bytearray(sound)
        for share, n_lost, added in changes:
            place = int(share * len(content))
            content[place : place + n_lost] = added
        damaged.write_bytes(content)
        assert "\n" not in complaint(damaged)

    assert read_table(folder / name, Columns("id", "y")).features
    check()


def test_compressed_files_that_end_early(folder, tmp_path):
    """They are damaged; permissions have nothing to do with it."""
    whole = gzip.compress((folder / "a.csv").read_bytes() * 50)
    (tmp_path / "a.csv.gz").write_bytes(whole[: len(whole) // 2])
    assert "is damaged" in complaint(tmp_path / "a.csv.gz")


def test_a_folder_is_no_table(tmp_path):
    """Its sentence does not say that it does not exist."""
    (tmp_path / "a.csv").mkdir()
    assert "a.csv is a folder; give the path of a file" in complaint(tmp_path / "a.csv")


@pytest.mark.parametrize("name", WRITERS)
def test_spoilt_files(folder, name):
    """Bits, lengths and pieces are changed: nothing but the project's own error."""
    damaged, n_refused = folder / f"spoilt {name}", 0
    for content in spoilt((folder / name).read_bytes(), 300, name):
        damaged.write_bytes(content)
        said = complaint(damaged)
        assert "\n" not in said
        n_refused += bool(said)
    assert n_refused > 20


def test_what_a_reader_did_not_expect_is_damage(folder, monkeypatch):
    """For any error of a library, the sentence has the path and says what to do."""

    def fail(*_):
        raise NotImplementedError

    monkeypatch.setitem(readers._READERS, ".csv", fail)
    said = complaint(folder / "a.csv")
    assert said.startswith(f"the table {folder / 'a.csv'} is damaged")
    assert said.endswith("; save it again")


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.libsvm", b"1 99999999999:1\n"), ("a.libsvm", b"1 1:1e999999\n")],
)
def test_numbers_that_are_too_large(tmp_path, name, content):
    """Numbers beyond what a machine counts to are refused like other damage."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError):
        read_table(tmp_path / name, Columns())


def test_an_archive_packed_in_an_unknown_way(tmp_path):
    """An NPZ file with another compression is refused, not a traceback."""
    path = tmp_path / "a.npz"
    write_npz(path)
    content = path.read_bytes()
    # The method of compression, in the headers of the members and in the directory.
    spoilt = content.replace(
        b"PK\x01\x02\x2d\x03\x2d\0\0\0\0\0", b"PK\x01\x02\x2d\x03\x2d\0\0\0\x5f\0"
    )
    assert spoilt != content
    path.write_bytes(spoilt)
    with pytest.raises(TableError, match="not an NPZ file"):
        read_table(path, Columns())
