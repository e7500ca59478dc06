"""An organisation's keys on disk: a secret file for its owner only, a public line."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hyfdca.crypto.keys.identity import Identity, PublicIdentity
from hyfdca.errors import StudyError
from hyfdca.files import OWNER_ONLY, open_regular, write_new

SECRET_FILE, PUBLIC_FILE = "secret.key", "public.key"

_MAX_BYTES = 1024  # a key file is one line
_READABLE_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def write_identity(identity: Identity, folder: Path) -> None:
    """Write both key files, or none; never overwrite.

    Raises
    ------
    StudyError
    """
    _refuse_to_overwrite(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_new(folder / SECRET_FILE, identity.to_bytes() + b"\n", OWNER_ONLY)
        try:
            line = f"{identity.public.text}\n".encode("ascii")
            write_new(folder / PUBLIC_FILE, line)
        except OSError:
            (folder / SECRET_FILE).unlink()
            raise
    except FileExistsError:
        # Another process was faster, or the folder is a file.
        _refuse_to_overwrite(folder)
        raise StudyError(
            f"Cannot write keys to {folder}, which is a file; give a folder."
        ) from None
    except OSError as error:
        raise StudyError(
            f"Cannot write keys to {folder} ({error.strerror}); give another folder."
        ) from None


def read_identity(folder: Path) -> Identity:
    """Return the keys of a folder.

    Raises
    ------
    StudyError
        If they are missing, garbled, or accessible to others.
    """
    path = folder / SECRET_FILE
    content = _read(path, is_secret=True)
    try:
        identity = Identity.from_bytes(content)
    except ValueError:
        raise StudyError(
            f"The file {path} is garbled; restore it from a backup, or make new keys "
            "in another folder and update the study file."
        ) from None
    public = folder / PUBLIC_FILE
    if public.exists() and read_public(folder) != identity.public:
        raise StudyError(
            f"The file {public} does not match {path.name} beside it; restore the "
            "right pair, or remove it."
        )
    return identity


def read_public(folder: Path) -> PublicIdentity:
    """Return the public key of a folder.

    Raises
    ------
    StudyError
    """
    path = folder / PUBLIC_FILE
    content = _read(path, is_secret=False)
    try:
        return PublicIdentity.parse(content.decode("ascii", errors="replace"))
    except ValueError:
        raise StudyError(
            f"The file {path} is garbled; remove it, and run hyfdca keys show."
        ) from None


def _refuse_to_overwrite(folder: Path) -> None:
    for name in (SECRET_FILE, PUBLIC_FILE):
        # A dangling link counts as existing.
        if os.path.lexists(folder / name):
            raise StudyError(
                f"There is already a {name} in {folder}, and keys are never "
                "overwritten; give another folder."
            )


def _read(path: Path, *, is_secret: bool) -> bytes:
    """Return the line of a key file; the open file is checked, not its path."""
    try:
        with open_regular(path) as file:
            mode = os.fstat(file.fileno()).st_mode
            if is_secret and os.name == "posix" and mode & _READABLE_BY_OTHERS:
                raise StudyError(
                    f"Users other than the owner can access the secret key {path}; "
                    "make new keys if somebody may have read it, else run "
                    f"chmod 600 {path}."
                )
            return file.read(_MAX_BYTES).removesuffix(b"\n")
    except OSError as error:
        raise StudyError(
            f"Cannot read the key file {path} ({error.strerror}); give the folder that "
            "hyfdca keys new wrote to."
        ) from None
