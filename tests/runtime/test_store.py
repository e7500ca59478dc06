"""Stored contents: whole or not at all, and readable by nobody else."""

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.runtime import store as module
from hyfdca.runtime.store import (
    Archive,
    DelayedStore,
    FolderStore,
    MemoryStore,
    SealedStore,
    StoreError,
)

SECRET, CONTEXT = bytes(range(32)), b"study of north"


@pytest.fixture(params=["memory", "folder", "sealed", "delayed"])
def store(request, tmp_path):
    """Return an empty store of each kind."""
    folder = FolderStore(tmp_path / "kept")
    return {
        "memory": MemoryStore(),
        "folder": folder,
        "sealed": SealedStore(folder, SECRET, CONTEXT),
        "delayed": DelayedStore(folder),
    }[request.param]


def test_what_is_written_is_read(store):
    """Contents are read back, including empty and overwritten ones."""
    assert store.read("round-1") is None
    assert store.names() == []
    store.write("round-1", b"")
    store.write("keys", b"first")
    store.write("keys", b"second")
    assert store.read("round-1") == b""
    assert store.read("keys") == b"second"
    assert store.names() == ["keys", "round-1"]
    store.remove("keys")
    store.remove("keys")
    assert store.names() == ["round-1"]


class _Recording(MemoryStore):
    """A store that notes what is done to it."""

    def __init__(self):
        """Begin with no notes."""
        super().__init__()
        self.done = []

    def write(self, name, content):
        """Store a content."""
        self.done.append(f"write {name}")
        super().write(name, content)

    def remove(self, name):
        """Remove a content."""
        self.done.append(f"remove {name}")
        super().remove(name)


def test_delayed_changes_are_made_in_order_at_the_flush():
    """Removals come last, so that there is always a whole round; then none is left."""
    inner = _Recording()
    inner.write("round-1", b"1")
    delayed = DelayedStore(inner)
    for name in ("keys", "round-2", "round-3"):
        delayed.write(name, name.encode())
    delayed.remove("round-1")
    delayed.remove("round-2")
    delayed.write("keys", b"later")
    assert inner.names() == ["round-1"]
    assert delayed.names() == ["keys", "round-3"]
    assert delayed.read("round-1") is None
    inner.done.clear()
    delayed.flush()
    delayed.flush()
    writes, removals = inner.done[:2], inner.done[2:]
    assert writes == ["write round-3", "write keys"]
    assert removals == ["remove round-1", "remove round-2"]
    assert delayed.names() == inner.names() == ["keys", "round-3"]
    assert inner.read("keys") == b"later"


@given(st.binary(max_size=200), st.integers(1, 50))
def test_sealed_contents_of_any_size_come_back(content, piece):
    """Contents are read back whatever the number of sealed pieces."""
    whole, module._PIECE = module._PIECE, piece
    try:
        sealed = SealedStore(MemoryStore(), SECRET, CONTEXT)
        sealed.write("round-3", content)
        assert sealed.read("round-3") == content
    finally:
        module._PIECE = whole


def test_sealed_contents_show_nothing_and_never_look_alike():
    """The same content twice is sealed differently."""
    inner = MemoryStore()
    sealed = SealedStore(inner, SECRET, CONTEXT)
    secret = b"duals of patients" * 10
    sealed.write("round-1", secret)
    first = inner.read("round-1")
    sealed.write("round-1", secret)
    assert secret[:8] not in first
    assert inner.read("round-1") != first


@pytest.mark.parametrize("damage", ["flip", "cut", "longer", "empty", "renamed"])
def test_damaged_contents_are_refused(damage):
    """Every byte matters, and so does the name it is stored under."""
    inner = MemoryStore()
    sealed = SealedStore(inner, SECRET, CONTEXT)
    sealed.write("round-1", b"state" * 20)
    content = inner.read("round-1")
    for place in range(len(content) if damage == "flip" else 1):
        flipped = bytearray(content)
        flipped[place] ^= 1
        damaged = {
            "flip": bytes(flipped),
            "cut": content[:-1],
            "longer": content + b"\0",
            "empty": b"",
            "renamed": content,
        }[damage]
        name = "round-2" if damage == "renamed" else "round-1"
        inner.write(name, damaged)
        with pytest.raises(StoreError, match="damaged, or belongs to another study"):
            sealed.read(name)


def test_pieces_cannot_be_left_out_or_swapped(monkeypatch):
    """Each piece is bound to its place and to the number of pieces."""
    monkeypatch.setattr(module, "_PIECE", 4)
    inner = MemoryStore()
    sealed = SealedStore(inner, SECRET, CONTEXT)
    sealed.write("keys", b"abcdefgh")
    content, size = inner.read("keys"), 12 + 4 + 16
    for wrong in (content[:size], content[size:] + content[:size]):
        inner.write("keys", wrong)
        with pytest.raises(StoreError):
            sealed.read("keys")


@pytest.mark.parametrize("other", [(bytes(32), CONTEXT), (SECRET, b"study of city")])
def test_others_cannot_open_what_is_sealed(other):
    """Contents open neither with another key nor for another purpose."""
    inner = MemoryStore()
    SealedStore(inner, SECRET, CONTEXT).write("keys", b"secret")
    with pytest.raises(StoreError):
        SealedStore(inner, *other).read("keys")


def test_files_are_their_owners_alone(tmp_path):
    """Nobody else can list or read them."""
    FolderStore(tmp_path / "kept").write("keys", b"secret")
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "kept" / "keys").stat().st_mode) == 0o600


@pytest.mark.parametrize("failing", ["fsync", "fdopen"])
def test_a_write_that_fails_leaves_what_was_there(failing, tmp_path, monkeypatch):
    """No half of the new content is left; the error says where and why."""
    store = FolderStore(tmp_path)
    store.write("keys", b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(StoreError, match="No space left on device"):
        store.write("keys", b"new")
    monkeypatch.undo()
    assert store.read("keys") == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["keys"]


def test_drafts_of_a_crash_are_not_contents(tmp_path):
    """A file left half-written by a killed process is invisible, and soon removed."""
    (tmp_path / ".round-1.0123").write_bytes(b"half")
    store = FolderStore(tmp_path)
    assert store.names() == []
    store.write("round-1", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["round-1"]


def test_an_archive_keeps_the_last_three_rounds():
    """Not every party may have saved the last, and another may be damaged."""
    archive = Archive(MemoryStore())
    assert archive.rounds == []
    for number in (0, 5, 9, 10, 11):
        archive.write_round(number, b"%d" % number)
    assert archive.rounds == [9, 10, 11]
    assert archive.read_round(10) == b"10"
    assert archive.read_round(5) is None
    archive.forget_after(10)
    assert archive.rounds == [9, 10]
    archive.write("keys", b"k")
    archive.forget_after(-1)
    assert archive.rounds == []
    assert archive.read("keys") == b"k"


def test_a_folder_that_cannot_be_written_to_is_refused_before_it_matters(tmp_path):
    """The check leaves nothing in a folder that can be written to."""
    Archive(FolderStore(tmp_path / "kept")).check_writable()
    assert list((tmp_path / "kept").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="Cannot write to"):
        Archive(FolderStore(tmp_path / "file")).check_writable()
