"""Files that are seen whole or not at all."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hyfdca.audit.views import ViewError, read_view
from hyfdca.cli.exit_codes import BAD_INPUT
from hyfdca.errors import StudyError
from hyfdca.files import (
    OWNER_ONLY,
    open_regular,
    read_limited,
    write_draft,
    write_new,
    write_whole,
)
from hyfdca.kits.key_files import read_identity
from hyfdca.study.file import load

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_file_takes_the_place_of_another(tmp_path: Path, is_durable: bool) -> None:
    """It gets the requested permissions, regardless of the old file's."""
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o644)
    write_whole(path, b"new", OWNER_ONLY, is_durable=is_durable)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_is_never_written_over_another(tmp_path: Path) -> None:
    """Nor is it written over a dangling link."""
    path, link = tmp_path / "file", tmp_path / "link"
    write_new(path, b"first")
    link.symlink_to(tmp_path / "nowhere")
    for taken in (path, link):
        with pytest.raises(FileExistsError):
            write_new(taken, b"second")
    assert path.read_bytes() == b"first"
    assert {p.name for p in tmp_path.iterdir()} == {"file", "link"}


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failing_disk_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """It leaves neither a partial file nor a draft."""
    path = tmp_path / "file"
    path.write_text("old")

    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new", is_durable=True)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_drafts_of_a_file_do_not_meet(tmp_path: Path) -> None:
    """Two processes may write the same file at the same time."""
    drafts = {write_draft(tmp_path / "file", content) for content in (b"a", b"b")}
    assert {draft.read_bytes() for draft in drafts} == {b"a", b"b"}
    assert all(draft.name.startswith(".") for draft in drafts)


@pytest.fixture
def patience() -> Iterator[None]:
    """End a test that waits, which would otherwise never fail."""

    def give_up(*_: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def read_key(path: Path) -> object:
    """Read a folder of keys whose secret one is this file."""
    (path.parent / "secret.key").symlink_to(path)
    return read_identity(path.parent)


READERS: dict[str, Callable[[Path], object]] = {
    "limited": lambda path: read_limited(path, 10, "give another"),
    "study": load,
    "key": read_key,
    "view": read_view,
}


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("what", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_regular_files_are_read(tmp_path: Path, what: str, kind: str) -> None:
    """Opening a pipe would wait for a writer, and a device need not end."""
    path = tmp_path / "path"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises((StudyError, ViewError), match="Cannot read"):
        READERS[what](path)


@pytest.mark.parametrize("size", [0, 1, 10])
def test_reading_takes_the_memory_of_the_file_alone(tmp_path: Path, size: int) -> None:
    """Not that of the largest file allowed."""
    path = tmp_path / "small"
    path.write_bytes(bytes(size))
    assert read_limited(path, 2**60, "give another") == bytes(size)
    assert read_limited(path, size, "give another") == bytes(size)
    if size:
        with pytest.raises(StudyError, match=f"larger than {size - 1} bytes"):
            read_limited(path, size - 1, "give another")


def test_a_link_to_a_regular_file_is_read(tmp_path: Path) -> None:
    """With the same permissions and errors as any open."""
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"content"
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "nothing")


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize(
    "command",
    [
        ("study", "fingerprint", "PIPE"),
        ("check", "PIPE", "--client", "north", "--data", "x.csv"),
        ("train", "PIPE"),
        ("kit", "install", "PIPE", "--keys", "keys", "--out", "kit"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_commands_do_not_wait_for_a_pipe(
    tmp_path: Path,
    hyfdca: Callable[..., tuple[int, str, str]],
    command: tuple[str, ...],
) -> None:
    """One sentence instead."""
    os.mkfifo(pipe := tmp_path / "pipe")
    words = [pipe if word == "PIPE" else word for word in command]
    code, _, errors = hyfdca(*words)
    assert code == BAD_INPUT
    assert "Cannot read" in errors
