"""Atomic file writes: a file is complete or absent, even after a crash."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from hyfdca.errors import StudyError

OWNER_ONLY, FOR_ALL = 0o600, 0o666  # minus the bits that the umask removes


def write_whole(
    path: Path, content: bytes, mode: int = FOR_ALL, *, is_durable: bool = False
) -> None:
    """Write a file atomically, replacing any existing one.

    Parameters
    ----------
    is_durable : bool
        Whether the file must survive a crash of the machine.

    Raises
    ------
    OSError
        The existing file, if any, is unchanged, unless only syncing the folder failed.
    """
    draft = write_draft(path, content, mode, is_durable=is_durable)
    try:
        draft.replace(path)
    except OSError:
        forget(draft)
        raise
    if is_durable:
        sync_folder(path.parent)


def write_new(path: Path, content: bytes, mode: int = FOR_ALL) -> None:
    """Write a new file and flush it to disk; never overwrite.

    Raises
    ------
    OSError
        Nothing has been written; ``FileExistsError`` if the path already exists.
    """
    draft = write_draft(path, content, mode, is_durable=True)
    try:
        # Linking, unlike renaming, fails if the target exists.
        os.link(draft, path)
    finally:
        forget(draft)


def write_draft(
    path: Path, content: bytes, mode: int = FOR_ALL, *, is_durable: bool = False
) -> Path:
    """Write the content to a draft beside the target; return the draft's path.

    Raises
    ------
    OSError
        Nothing has been written.
    """
    # A random name: no other process, not even one of ours, writes to it.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
    except OSError:
        forget(draft)
        raise
    return draft


def forget(draft: Path) -> None:
    """Remove a draft if possible; ignore errors."""
    with contextlib.suppress(OSError):
        draft.unlink()


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk, and with it the new names of its files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path, complaint: str) -> Iterator[None]:
    """Lock a file; the system releases the lock even if we are killed.

    Raises
    ------
    StudyError
        With this complaint, if another process holds the lock.
    """
    import fcntl  # noqa: PLC0415  # unavailable on Windows, where all else works

    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StudyError(complaint) from None
        yield


_OWNER_FOLDER = 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def open_regular(path: Path) -> BinaryIO:
    """Open a file that a user names; anything else, such as a pipe, might never end.

    Raises
    ------
    OSError
    """
    return path.open("rb") if os.name != "posix" else open(path, "rb", opener=_opened)


def _opened(path: str, flags: int) -> int:
    """Open a regular file; the open file is checked, not its path."""
    # Without it, opening a pipe waits for somebody who writes.
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
            said = os.strerror(number) if stat.S_ISDIR(mode) else "Not a regular file"
            raise OSError(number, said, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_limited(
    path: Path, most: int, remedy: str, *, is_secret: bool = False
) -> bytes:
    """Return a file's bytes; refuse a file of more than ``most`` bytes.

    A secret file must be inaccessible to others. The open file is checked, not its
    path.

    Raises
    ------
    StudyError
    """
    try:
        with open_regular(path) as file:
            known = os.fstat(file.fileno())
            # Python reserves as much memory as it is asked to read.
            content = file.read(min(known.st_size, most) + 1)
            if known.st_size < len(content) <= most:  # it has grown
                content += file.read(most + 1 - len(content))
    except OSError as error:
        raise StudyError(f"Cannot read {path} ({error.strerror}); {remedy}.") from None
    if len(content) > most:
        raise StudyError(f"The file {path} is larger than {most} bytes; {remedy}.")
    if is_secret and os.name == "posix" and known.st_mode & _OTHERS:
        raise StudyError(
            f"Users other than the owner can access the secret key {path}; make new "
            f"keys if somebody may have read it, else run chmod 600 {path}."
        )
    return content


def read_secret(path: Path, most: int, remedy: str) -> bytes:
    """Return a secret file's bytes; refuse if others can access it.

    Raises
    ------
    StudyError
    """
    return read_limited(path, most, remedy, is_secret=True)


def write_secret(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read at any time."""
    write_new(path, content, OWNER_ONLY)


def refuse_existing(path: Path, what: str) -> None:
    """Raise ``StudyError`` if the path exists, even as a dangling link."""
    if os.path.lexists(path):
        raise StudyError(
            f"The path {path} already exists, and {what} is never overwritten; choose "
            "another with --out."
        )


@contextlib.contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """Yield a temporary folder beside the target; remove it afterwards.

    An ``OSError`` while writing becomes a ``StudyError``.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f".{target.name}.", dir=target.parent
        ) as draft:
            yield Path(draft)
    except OSError as error:
        raise StudyError(
            f"Cannot write to {target} ({error.strerror}); choose another with --out."
        ) from None


def move_new(draft: Path, target: Path) -> None:
    """Move a finished folder to its final name, which must not exist yet."""
    for_owner_only(draft)
    draft.rename(target)


def for_owner_only(folder: Path) -> None:
    """Remove other users' access to a folder and everything in it."""
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(_OWNER_FOLDER)
        else:
            path.chmod(path.stat().st_mode & ~_OTHERS)
