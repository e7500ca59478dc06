"""Downloads of data sets: from a server on this machine, whole or not at all."""

from __future__ import annotations

import bz2
import io
from email.message import Message
from http.client import IncompleteRead
from pathlib import Path
from urllib.error import URLError

import pytest

from hyfdca.data import fetching, sources
from hyfdca.data.fetching import fetch, fetch_folder
from hyfdca.data.public_sets import SETS
from hyfdca.data.sources import find_data, look_up
from hyfdca.errors import StudyError
from tests.support.consortia import assert_one_sentence
from tests.support.data_sets import NEWS20, serve_from, serving, write_sets

ADDRESSES = [SETS[name].download.site for name in SETS]

pytestmark = pytest.mark.usefixtures("small_sets")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Serve all sets, news20 as LIBSVM does; return the folder that is served."""
    folder = write_sets(tmp_path / "site")
    path = folder / "news20" / "news20.binary.xz"
    path.unlink()
    path.with_suffix(".bz2").write_bytes(bz2.compress(NEWS20))
    with serving(folder) as address:
        serve_from(address, monkeypatch)
        yield folder


@pytest.fixture
def target(tmp_path):
    """Return a folder that does not exist, in a folder that does not either."""
    return tmp_path / "new" / "data"


def assert_refused(name: str, target: Path, message: str) -> None:
    """Check that a download fails with one sentence and leaves no trace."""
    with pytest.raises(StudyError, match=message) as caught:
        fetch(name, target)
    assert_one_sentence(f"{caught.value}\n")
    assert not target.parent.exists()


def test_public_addresses():
    """Data sets are downloaded over an encrypted connection."""
    assert all(address.startswith("https://") for address in ADDRESSES)


@pytest.mark.parametrize(
    ("name", "check"), [("mnist", "sha256"), ("news20", "shape"), ("covtype", "sha256")]
)
def test_fetch(name, check, site, target):
    """What is downloaded is checked, kept and found; nothing else is left."""
    entry = fetch(name, target)
    assert (entry.status, entry.checked_by) == ("found", check)
    assert look_up(name, target) == entry
    assert [path.name for path in target.iterdir()] == [name]
    names = {path.name for path in (target / name).iterdir()}
    assert names == set(SETS[name].download.files)
    assert find_data(name, target).X.shape[0] == 10


def test_folders(site, tmp_path, monkeypatch):
    """Without a folder sets go to that of the variable, or else to the user's own."""
    assert fetch_folder() == sources.user_folder()
    assert fetch("news20").path == sources.user_folder() / "news20/news20.binary.bz2"
    monkeypatch.setenv("HYFDCA_DATA", str(tmp_path / "variable"))
    assert fetch("mnist").path == tmp_path / "variable" / "mnist"


def test_progress(site, target, monkeypatch):
    """Every piece is reported with the size of its file."""
    monkeypatch.setattr(fetching, "_CHUNK", 100)
    seen = []
    fetch("mnist", target, lambda *report: seen.append(report))
    assert [*dict.fromkeys(name for name, _, _ in seen)] == [
        *SETS["mnist"].download.files
    ]
    for name, n_bytes, n_all in seen:
        assert n_all == (target / "mnist" / name).stat().st_size
        assert n_bytes == n_all or n_bytes % 100 == 0


def test_no_network(site, target, monkeypatch):
    """A server that is not there: the sentence names the address and the way out."""

    def refuse(*_, **__):
        raise URLError(OSError(-2, "Name or service not known"))

    monkeypatch.setattr(fetching, "urlopen", refuse)
    assert_refused(
        "news20",
        target,
        r"Cannot fetch http.*/news20/news20.binary.bz2 \(.*not known\); check the "
        "network, or copy news20.binary.bz2 to .*/new/data/news20 by hand",
    )


def test_nobody_listens(target, monkeypatch, tmp_path):
    """A connection that is refused is an error as any other."""
    with serving(tmp_path) as address:
        pass
    serve_from(address, monkeypatch)
    assert_refused("mnist", target, r"\(.*refused\)")


def test_one_file_missing(site, target):
    """If one of several files is unavailable, none is kept."""
    (site / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert_refused("mnist", target, r"t10k-labels-idx1-ubyte.gz \(File not found\)")


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>Sign in</html>", bz2.compress(b"1 1:1\n")],
    ids=["empty", "page", "other table"],
)
@pytest.mark.parametrize("name", ["mnist", "covtype"])
def test_something_else(name, content, site, target):
    """What is not the set is not kept."""
    for file in SETS[name].download.files:
        (site / name / file).write_bytes(content)
    assert_refused(name, target, f"is not {SETS[name].title}; try again later")


class Reply(io.BytesIO):
    """A reply that ends too early, without or with an error."""

    error: Exception | None = None

    def __init__(self, content):
        super().__init__(content)
        self.headers = Message()

    def read(self, size=-1):
        """Return some bytes, or raise where there are no more."""
        piece = super().read(size)
        if not piece and self.error is not None:
            raise self.error
        return piece


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (None, "is not news20.binary"),
        (TimeoutError("timed out"), r"\(timed out\)"),
        (IncompleteRead(b"abc"), r"\(IncompleteRead"),
        (ConnectionResetError(104, "Connection reset by peer"), "reset by peer"),
    ],
)
def test_half_a_file(error, message, site, target, monkeypatch):
    """A broken connection leaves nothing behind."""

    def urlopen(*_, **__):
        reply = Reply(bz2.compress(NEWS20)[:-30])
        reply.error = error
        return reply

    monkeypatch.setattr(fetching, "urlopen", urlopen)
    assert_refused("news20", target, message)


def test_interrupted(site, target):
    """A user's interruption leaves nothing, neither drafts nor folders."""

    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("news20", target, interrupt)
    assert not target.parent.exists()
    target.mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        fetch("news20", target, interrupt)
    assert not [*target.iterdir()]  # a folder that was there stays


def test_no_folder(site, tmp_path):
    """A folder that cannot be made is refused before anything is downloaded."""
    (tmp_path / "file").touch()
    with pytest.raises(StudyError, match=r"Cannot write to .*/file/mnist \(") as caught:
        fetch("mnist", tmp_path / "file")
    assert_one_sentence(f"{caught.value}\n")


def test_size_unknown(site, target, monkeypatch):
    """A server need not say how long a file is."""
    seen = []
    [name] = SETS["covtype"].download.files
    content = (site / "covtype" / name).read_bytes()
    monkeypatch.setattr(fetching, "urlopen", lambda *_, **__: Reply(content))
    fetch("covtype", target, lambda *report: seen.append(report))
    assert seen[-1][1:] == (len(content), None)
