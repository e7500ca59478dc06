"""Files that are seen whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hyfdca.files import OWNER_ONLY, write_draft, write_new, write_whole

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_file_takes_the_place_of_another(tmp_path: Path, is_durable: bool) -> None:
    """With the requested permissions, whatever the old file's were."""
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o644)
    write_whole(path, b"new", OWNER_ONLY, is_durable=is_durable)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_is_never_written_over_another(tmp_path: Path) -> None:
    """Nor over a dangling link."""
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
    """No partial file, and no draft."""
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
