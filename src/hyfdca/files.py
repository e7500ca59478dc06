"""Files that are seen whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hyfdca.errors import StudyError

OWNER_ONLY, FOR_ALL = 0o600, 0o666  # what the umask allows of it


def write_whole(
    path: Path, content: bytes, mode: int = FOR_ALL, *, is_durable: bool = False
) -> None:
    """Write a file in the place of another, if there is one.

    Parameters
    ----------
    is_durable : bool
        Whether it must be there after a crash of the machine too.

    Raises
    ------
    OSError
        Then everything is as it was.
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
    """Write a file that survives crashes, never over another.

    Raises
    ------
    OSError
        Then nothing was written; ``FileExistsError`` if there is something already.
    """
    draft = write_draft(path, content, mode, is_durable=True)
    try:
        # Linking, unlike renaming, fails where there is a file already.
        os.link(draft, path)
    finally:
        forget(draft)


def write_draft(
    path: Path, content: bytes, mode: int = FOR_ALL, *, is_durable: bool = False
) -> Path:
    """Write what is to become a file, beside it; return where.

    Raises
    ------
    OSError
        Then nothing was written.
    """
    # Nobody else, not even a second process of ours, writes to this name.
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
    """Remove a draft, if it is there and can be."""
    with contextlib.suppress(OSError):
        draft.unlink()


def sync_folder(folder: Path) -> None:
    """Have a folder itself written, and with it a file's new name."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_OWNER_FOLDER = 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_limited(
    path: Path, most: int, remedy: str, *, is_secret: bool = False
) -> bytes:
    """Return a file's bytes, if they are no more than so many.

    A secret file must be closed to others; what is checked is what is read.

    Raises
    ------
    StudyError
    """
    try:
        with path.open("rb") as file:
            mode, content = os.fstat(file.fileno()).st_mode, file.read(most + 1)
    except OSError as error:
        raise StudyError(f"Cannot read {path} ({error.strerror}); {remedy}.") from None
    if len(content) > most:
        raise StudyError(f"The file {path} is larger than {most} bytes; {remedy}.")
    if is_secret and os.name == "posix" and mode & _OTHERS:
        raise StudyError(
            f"Others than its owner can get at the secret key {path}; make new keys if "
            f"they may have, else run chmod 600 {path}."
        )
    return content


def read_secret(path: Path, most: int, remedy: str) -> bytes:
    """Return a secret file's bytes, if nobody but its owner can get at it.

    Raises
    ------
    StudyError
    """
    return read_limited(path, most, remedy, is_secret=True)


def write_secret(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read, from the first byte on."""
    write_new(path, content, OWNER_ONLY)


def refuse_existing(path: Path, what: str) -> None:
    """Raise ``StudyError`` if there is something already; a link to nowhere is."""
    if os.path.lexists(path):
        raise StudyError(
            f"There is a {path} already, and {what} is never written over; give "
            "another with --out."
        )


@contextlib.contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """Give a folder beside the target to write to; it is gone afterwards.

    Whatever cannot be written there is a ``StudyError``.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f".{target.name}.", dir=target.parent
        ) as draft:
            yield Path(draft)
    except OSError as error:
        raise StudyError(
            f"Cannot write to {target} ({error.strerror}); give another with --out."
        ) from None


def move_new(draft: Path, target: Path) -> None:
    """Give a finished folder its name, at which there is nothing yet."""
    for_owner_only(draft)
    draft.rename(target)


def for_owner_only(folder: Path) -> None:
    """Close a folder to all others, with all in it."""
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(_OWNER_FOLDER)
        else:
            path.chmod(path.stat().st_mode & ~_OTHERS)
