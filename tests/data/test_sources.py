"""The paper's data sets: where they are found, how they are checked and loaded."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from hyfdca.data import sources
from hyfdca.data.public_sets import SETS
from hyfdca.data.sources import find_data, locate, look_up, looked_in
from hyfdca.errors import StudyError
from tests.support import data_sets
from tests.support.consortia import assert_one_sentence
from tests.support.data_sets import (
    DIGITS,
    KINDS,
    NEWS20,
    covtype_text,
    write_covertype_cache,
    write_openml_cache,
    write_sets,
)

pytestmark = pytest.mark.usefixtures("small_sets")

COVTYPE = "covtype/covtype.libsvm.binary.scale.bz2"


def assert_equal(one, other):
    """Check that two data sets are the same bit for bit."""
    np.testing.assert_array_equal(one.X.toarray(), other.X.toarray())
    np.testing.assert_array_equal(one.y, other.y)


def test_mnist(tmp_path):
    """One call gives both parts with the bias; digits of choice are the label 1."""
    data = find_data("mnist", write_sets(tmp_path / "data"))
    assert data.X.shape == (10, 785)
    assert data.X[:, [784]].toarray().tolist() == [[10.0]] * 10
    assert data.y.tolist() == [1.0 - 2.0 * (digit % 2) for digit in DIGITS]
    threes = find_data("mnist", tmp_path / "data", [3])
    assert np.flatnonzero(threes.y == 1.0).tolist() == [3]


def test_text_sets(tmp_path):
    """The two sets of LIBSVM text have their own label 1."""
    folder = write_sets(tmp_path / "data")
    assert find_data("news20", folder).y.tolist() == [1.0, -1.0] * 5
    covtype = find_data("covtype", folder)
    assert covtype.y.tolist() == [1.0 if kind == 2 else -1.0 for kind in KINDS]
    assert covtype.X[1, 0] == 1.0


@pytest.mark.parametrize("name", SETS)
def test_the_rebuilt_edition(name, tmp_path):
    """Known bytes are checked as such, in the set's own folder or directly."""
    folder = write_sets(tmp_path / "data")
    assert look_up(name, folder).checked_by == "sha256"
    direct = look_up(name, folder / name)
    assert direct.checked_by == "sha256"
    assert direct.path == look_up(name, folder).path


def test_another_edition(tmp_path):
    """LIBSVM's own files have other bytes: shape and labels are checked."""
    folder = tmp_path / "data"
    for name, text, file in (
        ("news20", NEWS20, "news20.binary.bz2"),
        ("covtype", covtype_text(), "covtype.libsvm.binary.scale.bz2"),
    ):
        rebuilt = find_data(name, write_sets(tmp_path / f"rebuilt {name}", name))
        (folder / name).mkdir(parents=True)
        (folder / name / file).write_bytes(bz2.compress(text, 1) + bz2.compress(b""))
        entry = look_up(name, folder)
        assert (entry.checked_by, entry.path) == ("shape", folder / name / file)
        assert_equal(find_data(name, folder), rebuilt)


def test_what_fetch_covtype_left(tmp_path):
    """scikit-learn's raw covtype becomes the scaled one with two classes."""
    home = Path(os.environ["SCIKIT_LEARN_DATA"])
    write_covertype_cache(home)
    entry = look_up("covtype")
    assert (entry.checked_by, entry.path) == ("shape", home / "covertype")
    rebuilt = find_data("covtype", write_sets(tmp_path / "data"))
    assert_equal(find_data("covtype"), rebuilt)


@pytest.mark.parametrize("file", ["52667/mnist_784.arff.gz", "52667.gz"])
def test_what_fetch_openml_left(file, tmp_path):
    """OpenML's MNIST is the same as that of the original files."""
    write_openml_cache(Path(os.environ["SCIKIT_LEARN_DATA"]), file)
    assert look_up("mnist").checked_by == "shape"
    original = find_data("mnist", write_sets(tmp_path / "data"))
    assert_equal(find_data("mnist"), original)


def test_order(tmp_path, monkeypatch):
    """Folders count in their order: named, of the variable, developers', own, cache."""
    write_covertype_cache(Path(os.environ["SCIKIT_LEARN_DATA"]))
    expected = [Path(os.environ["SCIKIT_LEARN_DATA"]) / "covertype"]
    assert look_up("covtype").path == expected[-1]

    write_sets(sources.user_folder())
    assert look_up("covtype").path == sources.user_folder() / COVTYPE

    clone = tmp_path / "project"
    shared = write_sets(tmp_path / "shared" / "data")
    monkeypatch.setattr(sources, "_PROJECT", clone)
    assert look_up("covtype").path == sources.user_folder() / COVTYPE  # not a clone
    clone.mkdir()
    (clone / "pyproject.toml").touch()
    assert look_up("covtype").path == shared / COVTYPE

    write_sets(tmp_path / "variable")
    monkeypatch.setenv("HYFDCA_DATA", str(tmp_path / "variable"))
    assert look_up("covtype").path == tmp_path / "variable" / COVTYPE

    named = write_sets(tmp_path / "named")
    assert look_up("covtype", named).path == named / COVTYPE
    assert tmp_path / "variable" not in looked_in(named)
    (tmp_path / "empty").mkdir()
    assert look_up("covtype", tmp_path / "empty").path == shared / COVTYPE


def test_home(tmp_path, monkeypatch):
    """The variable may begin with ~; an empty one counts as unset."""
    monkeypatch.setenv("HOME", str(tmp_path))
    write_sets(tmp_path / "sets")
    monkeypatch.setenv("HYFDCA_DATA", "~/sets")
    assert look_up("mnist").path == tmp_path / "sets" / "mnist"
    monkeypatch.setenv("HYFDCA_DATA", "")
    assert look_up("mnist").status == "missing"


def test_looking_makes_nothing(tmp_path):
    """A look for sets makes no folder, not even scikit-learn's."""
    before = sorted(tmp_path.rglob("*"))
    assert [look_up(name).status for name in SETS] == ["missing"] * 3
    assert sorted(tmp_path.rglob("*")) == before


def test_not_there():
    """A set that is nowhere: the sentence says how to get it."""
    with pytest.raises(StudyError) as caught:
        find_data("news20")
    assert str(caught.value) == (
        "The data set news20.binary is not there; run hyfdca data --fetch, or set "
        "HYFDCA_DATA to a folder that has it."
    )
    with pytest.raises(StudyError, match="neither in elsewhere nor where hyfdca data"):
        find_data("news20", "elsewhere")


def test_no_such_set():
    """A name that is unknown: the sentence lists those known."""
    with pytest.raises(StudyError, match="choose one of mnist, news20, covtype"):
        find_data("cifar")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def text(content: bytes):
    return lambda path: path.write_bytes(bz2.compress(content))


SPOILT = {
    "truncated gzip": ("mnist", "train-images-idx3-ubyte.gz", cut, "checksum of train"),
    "missing file": ("mnist", "t10k-labels-idx1-ubyte.gz", Path.unlink, "is no t10k-l"),
    "other bytes": (
        "news20",
        "news20.binary.xz",
        lambda path: path.write_bytes(lzma.compress(NEWS20 + b"1 1:1\n")),
        "checksum of news20.binary.xz",
    ),
    "truncated bz2": ("covtype", COVTYPE[8:], cut, "cannot be read to its end"),
    "no bz2": ("covtype", COVTYPE[8:], lambda p: p.write_text("<html>"), "be read to"),
    "empty": ("covtype", COVTYPE[8:], lambda path: path.write_bytes(b""), "be read to"),
    "no LIBSVM": ("covtype", COVTYPE[8:], text(b"1 secret\n"), "be read to its end"),
    "huge index": ("covtype", COVTYPE[8:], text(b"1 %d:1\n" % 2**70), "be read to"),
    "shape": (
        "covtype",
        COVTYPE[8:],
        text(b"1 1:1\n2 3:1\n"),
        "it has 2 rows and 3 features instead of 10 rows and 54 features",
    ),
    "labels": (
        "covtype",
        COVTYPE[8:],
        text(covtype_text().replace(b"2 ", b"3 ")),
        "has other labels",
    ),
}


@pytest.mark.parametrize("case", SPOILT)
def test_spoilt(case, tmp_path):
    """Damaged files: one sentence that names them, both to list and to load."""
    name, file, spoil, message = SPOILT[case]
    folder = write_sets(tmp_path / "data")
    spoil(folder / name / file)
    with pytest.raises(StudyError, match=message) as caught:
        find_data(name, folder)
    assert_one_sentence(f"{caught.value}\n")
    assert str(folder / name) in str(caught.value)
    assert "secret" not in str(caught.value)
    entry = look_up(name, folder)
    assert (entry.status, entry.problem) == ("damaged", str(caught.value))
    assert entry.checked_by is None


def test_spoilt_caches():
    """Damaged files of scikit-learn's cache are refused in one sentence too."""
    home = Path(os.environ["SCIKIT_LEARN_DATA"])
    write_covertype_cache(home)
    write_openml_cache(home)
    samples = home / "covertype" / "samples_py3"
    arff = home / "openml/openml.org/data/v1/download/52667/mnist_784.arff.gz"
    for name, path, content in (
        ("covtype", samples, b"no pickle"),
        ("covtype", samples, b""),
        ("mnist", arff, gzip.compress(b"@RELATION mnist_784\n")),
        ("mnist", arff, gzip.compress(b"@DATA\n")),
        ("mnist", arff, gzip.compress(b"@DATA\n1,2,three\n")),
        ("mnist", arff, gzip.compress(b"@DATA\n" + b"0," * 783 + b"300,1\n")),
        ("mnist", arff, arff.read_bytes()[:-20]),
    ):
        path.write_bytes(content)
        with pytest.raises(StudyError, match="is damaged: it cannot be read") as caught:
            find_data(name)
        assert_one_sentence(f"{caught.value}\n")
    samples.unlink()
    with pytest.raises(StudyError, match="is no covertype/samples_py3"):
        find_data("covtype")


def test_other_kinds_of_forest(monkeypatch):
    """A cache with other classes than covtype's is refused."""
    monkeypatch.setattr(data_sets, "KINDS", [*KINDS[:-1], 8])
    write_covertype_cache(Path(os.environ["SCIKIT_LEARN_DATA"]))
    with pytest.raises(StudyError, match="is damaged"):
        find_data("covtype")


def test_no_permission(tmp_path, monkeypatch):
    """A file that may not be read is not called damaged."""

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    folder = write_sets(tmp_path / "data")
    monkeypatch.setattr(hashlib, "file_digest", refuse)
    with pytest.raises(StudyError, match=r"Cannot read MNIST.*Permission denied") as c:
        find_data("mnist", folder)
    assert_one_sentence(f"{c.value}\n")


def test_located_only(tmp_path):
    """A look for files alone does not read them."""
    folder = write_sets(tmp_path / "data")
    (folder / COVTYPE).write_text("<html>")
    assert locate("covtype", folder).path == folder / COVTYPE
    assert locate("covtype") is None
