"""Key files: owner only, never overwritten, complete or absent."""

import os
import re
import stat

import pytest

from hyfdca.crypto.keys.identity import Identity
from hyfdca.errors import StudyError
from hyfdca.kits.key_files import read_identity, read_public, write_identity

OWNER = Identity.generate()

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")


@pytest.fixture
def folder(tmp_path):
    """Return a folder with keys."""
    write_identity(OWNER, tmp_path / "keys")
    return tmp_path / "keys"


def refusal(function, *arguments):
    """Return the refusal, which is one plain sentence without any secret."""
    with pytest.raises(StudyError) as caught:
        function(*arguments)
    reason = str(caught.value)
    assert re.fullmatch(r"[A-Z].*[a-z0-9]\.", reason)
    assert not re.search(r"[.!?] ", reason)
    assert OWNER.to_bytes()[20:40].decode() not in reason
    return reason


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_can_be_read(folder):
    """Both halves are read back, and nothing else is in the folder."""
    assert read_identity(folder).to_bytes() == OWNER.to_bytes()
    assert read_public(folder) == OWNER.public
    assert {path.name for path in folder.iterdir()} == {"secret.key", "public.key"}
    assert (folder / "public.key").read_text() == f"{OWNER.public.text}\n"


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_only_the_owner_can_read_the_secret(tmp_path, mask):
    """Permissions do not depend on the user's umask."""
    before = os.umask(mask)
    try:
        write_identity(OWNER, tmp_path / "keys")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "keys" / "secret.key") == 0o600
    assert mode_of(tmp_path / "keys") == 0o700


def test_the_secret_was_never_readable_by_others(tmp_path, monkeypatch):
    """It is created with its permissions, not given them afterwards."""
    made = []
    real = os.open

    def listening(path, flags, mode=0o777, **more):
        made.append((os.fspath(path), flags, mode))
        return real(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", listening)
    write_identity(OWNER, tmp_path)
    (_, flags, mode) = next(entry for entry in made if "secret.key" in entry[0])
    assert mode == 0o600
    assert flags & os.O_EXCL
    assert flags & os.O_CREAT


@pytest.mark.parametrize("name", ["secret.key", "public.key"])
def test_keys_are_never_written_over(tmp_path, name):
    """A file of either name, even a dangling link, stays unchanged."""
    other = tmp_path / name
    other.write_text("mine")
    assert f"There is already a {name}" in refusal(write_identity, OWNER, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert other.read_text() == "mine"
    other.unlink()
    other.symlink_to(tmp_path / "nowhere")
    assert f"There is already a {name}" in refusal(write_identity, OWNER, tmp_path)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", ["secret.key", "public.key"])
def test_the_quicker_process_wins(tmp_path, monkeypatch, name):
    """Keys that appear while others are being written stay; the others do not."""
    real = os.link

    def late(draft, path):
        if path.name == name:
            path.write_text("quicker")
        real(draft, path)

    monkeypatch.setattr(os, "link", late)
    assert f"There is already a {name}" in refusal(write_identity, OWNER, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "quicker"


@pytest.mark.parametrize("call", ["fsync", "link"])
@pytest.mark.parametrize("n_before", [0, 1])
def test_a_failing_disk_leaves_nothing(tmp_path, monkeypatch, call, n_before):
    """Neither half of the keys, nor half of one, is left behind."""
    real, calls = getattr(os, call), []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) > n_before:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(os, call, failing)
    reason = refusal(write_identity, OWNER, tmp_path)
    assert "(No space left on device); give another folder" in reason
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    """Keys need a folder."""
    (tmp_path / "file").write_text("")
    assert "which is a file" in refusal(write_identity, OWNER, tmp_path / "file")
    assert "Not a directory" in refusal(write_identity, OWNER, tmp_path / "file" / "k")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610, 0o601, 0o666])
def test_a_secret_that_others_can_get_at_is_refused(folder, mode):
    """The message says how to close the file; then it is read."""
    path = folder / "secret.key"
    path.chmod(mode)
    assert f"chmod 600 {path}" in refusal(read_identity, folder)
    path.chmod(0o600)
    assert read_identity(folder).public == OWNER.public


# By name: the keys are new in each process, and so no part of a test's name.
GARBLED = {
    "empty": b"",
    "empty line": b"\n",
    "no text": b"\xff\xfe",
    "cut short": OWNER.to_bytes()[:-1],
    "another line": OWNER.to_bytes() + b"\n\n",
    "twice": OWNER.to_bytes() * 2,
    "public": OWNER.public.text.encode(),
    "large": bytes(100_000),
}


@pytest.mark.parametrize("case", GARBLED)
def test_a_garbled_secret_is_refused(folder, case):
    """The message names the file and says what to do."""
    (folder / "secret.key").write_bytes(GARBLED[case])
    assert "secret.key is garbled; restore it" in refusal(read_identity, folder)


def test_missing_keys_are_refused(tmp_path, folder):
    """The message says where keys come from."""
    assert "hyfdca keys new" in refusal(read_identity, tmp_path / "nowhere")
    (folder / "secret.key").unlink()
    assert "secret.key (No such file" in refusal(read_identity, folder)
    (folder / "public.key").unlink()
    assert "public.key (No such file" in refusal(read_public, folder)


def test_the_secret_alone_is_enough(folder):
    """The public half follows from it."""
    (folder / "public.key").unlink()
    assert read_identity(folder).public == OWNER.public


def test_halves_that_do_not_belong_together_are_refused(folder):
    """Another's public key beside the secret one is not shown as ours."""
    other = Identity.generate().public.text
    (folder / "public.key").write_text(f"{other}\n")
    assert "does not match secret.key" in refusal(read_identity, folder)
    (folder / "public.key").write_text(other[:-1])
    assert "public.key is garbled" in refusal(read_identity, folder)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path):
    """What cannot be read is one sentence."""
    (tmp_path / "secret.key").mkdir()
    assert "Is a directory" in refusal(read_identity, tmp_path)
