"""Files that are seen whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

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
