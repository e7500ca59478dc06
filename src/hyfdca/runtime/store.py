"""Durable storage of a party: files are complete or absent."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Protocol

import xxhash
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hyfdca.errors import StudyError
from hyfdca.files import OWNER_ONLY, write_whole

_NONCE_BYTES = 12
_PIECE = 2**30  # bytes sealed at a time; AES-GCM accepts less than 2^31


class StoreError(StudyError):
    """Something cannot be stored, or is damaged; the message is one sentence."""


class Store(Protocol):
    """Contents by name."""

    def write(self, name: str, content: bytes) -> None:
        """Store a content; once this returns, it survives a crash."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return a content or None; raise ``StoreError`` if it is damaged."""
        ...

    def names(self) -> list[str]:
        """Return the names of all contents, sorted."""
        ...

    def remove(self, name: str) -> None:
        """Remove a content, if it exists."""
        ...

    def place(self, name: str) -> str:
        """Return where a content is, for messages: its path if it is a file."""
        ...


class MemoryStore:
    """Stores contents in memory, for the life of the process."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def write(self, name: str, content: bytes) -> None:
        """Store a content."""
        self._contents[name] = bytes(content)

    def read(self, name: str) -> bytes | None:
        """Return a content, or None if there is none."""
        return self._contents.get(name)

    def names(self) -> list[str]:
        """Return the names of all contents, sorted."""
        return sorted(self._contents)

    def remove(self, name: str) -> None:
        """Remove a content, if it exists."""
        self._contents.pop(name, None)

    def place(self, name: str) -> str:
        """Return its name: it is nowhere else."""
        return name


class FolderStore:
    """Stores contents as files in a folder that only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically: it is complete or absent, even after a crash."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in self._folder.glob(f".{name}.*"):
                left.unlink()  # left behind by a process that was killed
            write_whole(self._folder / name, content, OWNER_ONLY, is_durable=True)
        except OSError as error:
            raise self._failure(error) from None

    def _failure(self, error: OSError) -> StoreError:
        return StoreError(
            f"Cannot write to {self._folder} ({error.strerror}); free some space or "
            "use another folder."
        )

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if there is none."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                f"Cannot read {self._folder / name} ({error.strerror}); "
                "check the file and its permissions."
            ) from None

    def names(self) -> list[str]:
        """Return the names of all complete files, sorted."""
        if not self._folder.is_dir():
            return []
        entries = [path.name for path in self._folder.iterdir() if path.is_file()]
        return sorted(name for name in entries if not name.startswith("."))

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        path = self._folder / name
        try:
            # A read-only file system refuses to remove even what is not there.
            if path.exists():
                path.unlink(missing_ok=True)
        except OSError as error:
            raise self._failure(error) from None

    def place(self, name: str) -> str:
        """Return the path of a file."""
        return str(self._folder / name)


class DelayedStore:
    """Holds changes in memory until ``flush`` applies them to another store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changes: dict[str, bytes | None] = {}  # None: to be removed

    def write(self, name: str, content: bytes) -> None:
        """Hold a content back."""
        self._changes.pop(name, None)  # each change counts at its last position
        self._changes[name] = bytes(content)

    def read(self, name: str) -> bytes | None:
        """Return a content as last written, flushed or not."""
        if name in self._changes:
            return self._changes[name]
        return self._store.read(name)

    def names(self) -> list[str]:
        """Return the names of all contents, sorted."""
        names = set(self._store.names()) | self._changes.keys()
        return sorted(
            name for name in names if self._changes.get(name, b"") is not None
        )

    def remove(self, name: str) -> None:
        """Hold back the removal of a content."""
        self._changes.pop(name, None)
        self._changes[name] = None

    def place(self, name: str) -> str:
        """Return where a content is or will be."""
        return self._store.place(name)

    def flush(self) -> None:
        """Make all changes, in order; removals come last."""
        changes, self._changes = self._changes, {}
        for name, content in changes.items():
            if content is not None:
                self._store.write(name, content)
        for name, content in changes.items():
            if content is None:
                self._store.remove(name)


class SealedStore:
    """Seals contents before another store saves them.

    Parameters
    ----------
    secret : bytes
        A secret of this party, from which the key is derived.
    context : bytes
        The context of the contents; they open only in the context in which they were
        sealed.
    """

    def __init__(self, store: Store, secret: bytes, context: bytes) -> None:
        key = HKDF(SHA256(), 32, None, b"hyfdca checkpoints").derive(secret)
        self._store, self._cipher, self._context = store, AESGCM(key), context

    def write(self, name: str, content: bytes) -> None:
        """Seal and store a content."""
        pieces = [content[i : i + _PIECE] for i in range(0, len(content) or 1, _PIECE)]
        sealed = []
        for place, piece in enumerate(pieces):
            nonce = secrets.token_bytes(_NONCE_BYTES)
            bound = self._bound(name, place, len(pieces))
            sealed.append(nonce + self._cipher.encrypt(nonce, piece, bound))
        self._store.write(name, b"".join(sealed))

    def read(self, name: str) -> bytes | None:
        """Return a content, opened, or None if there is none."""
        sealed = self._store.read(name)
        if sealed is None:
            return None
        size = _NONCE_BYTES + _PIECE + 16
        pieces = [sealed[i : i + size] for i in range(0, len(sealed) or 1, size)]
        try:
            opened = [
                self._cipher.decrypt(
                    piece[:_NONCE_BYTES],
                    piece[_NONCE_BYTES:],
                    self._bound(name, place, len(pieces)),
                )
                for place, piece in enumerate(pieces)
            ]
        except (InvalidTag, ValueError):
            raise StoreError(
                f"The file {self.place(name)} is damaged, or belongs to another study "
                f"or another organisation's key; {_RESTART}."
            ) from None
        return b"".join(opened)

    def names(self) -> list[str]:
        """Return the names of all contents, sorted."""
        return self._store.names()

    def remove(self, name: str) -> None:
        """Remove a content, if it exists."""
        self._store.remove(name)

    def place(self, name: str) -> str:
        """Return where a content is."""
        return self._store.place(name)

    def _bound(self, name: str, place: int, n_pieces: int) -> bytes:
        return b"%s %s %d/%d" % (self._context, name.encode(), place, n_pieces)


_RESTART = "restore it from a backup, or begin again with --restart"

_ROUND = "round-"
_PROBE = "probe"
_ROUND_NAME = re.compile(rf"{_ROUND}(0|[1-9][0-9]*)")
_DIGEST_BYTES = 16
# Rounds: some party may lack the last one, and the one before may be damaged.
_N_KEPT = 3


class Archive:
    """Files by their meaning, each with a digest to detect damage."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check_writable(self) -> None:
        """Refuse a place that cannot be written to, before it matters.

        Raises
        ------
        StoreError
        """
        self.write(_PROBE, b"")
        self.forget(_PROBE)

    def write(self, name: str, content: bytes) -> None:
        """Store a single content, not one per round."""
        self._store.write(name, xxhash.xxh3_128_digest(content) + content)

    def read(self, name: str) -> bytes | None:
        """Return a single content, or None if there is none.

        Raises
        ------
        StoreError
            If it is damaged.
        """
        kept = self._store.read(name)
        if kept is None:
            return None
        content = kept[_DIGEST_BYTES:]
        if xxhash.xxh3_128_digest(content) != kept[:_DIGEST_BYTES]:
            raise self.damage(name)
        return content

    def damage(self, name: str) -> StoreError:
        """Return the complaint about a single content that is damaged."""
        return StoreError(f"The file {self._store.place(name)} is damaged; {_RESTART}.")

    def damage_of_round(self, number: int) -> StoreError:
        """Return the complaint about a round that is damaged."""
        return self.damage(f"{_ROUND}{number}")

    @property
    def rounds(self) -> list[int]:
        """The numbers of the stored rounds, ascending."""
        found = map(_ROUND_NAME.fullmatch, self._store.names())
        return sorted(int(name[1]) for name in found if name)

    @property
    def intact_rounds(self) -> list[int]:
        """The numbers of the stored rounds that are not damaged, ascending."""
        return [number for number in self.rounds if self.is_intact(number)]

    def is_intact(self, number: int) -> bool:
        """Return whether a round is stored and not damaged."""
        try:
            return self.read_round(number) is not None
        except StoreError:
            return False

    @property
    def strays(self) -> list[str]:
        """Sentences about files that look like rounds but are not."""
        return [
            f"The file {self._store.place(name)} is not part of the study's state, so "
            "it is ignored; remove it."
            for name in self._store.names()
            if name.startswith(_ROUND) and not _ROUND_NAME.fullmatch(name)
        ]

    def write_round(self, number: int, content: bytes) -> None:
        """Store the state after a round; keep only two earlier rounds."""
        self.write(f"{_ROUND}{number}", content)
        for old in self.rounds[:-_N_KEPT]:
            self._store.remove(f"{_ROUND}{old}")

    def read_round(self, number: int) -> bytes | None:
        """Return the state after a round, or None if it was not stored."""
        return self.read(f"{_ROUND}{number}")

    def forget_after(self, number: int) -> None:
        """Remove the rounds after ``number``."""
        for later in self.rounds:
            if later > number:
                self._store.remove(f"{_ROUND}{later}")

    def forget(self, name: str) -> None:
        """Remove a single content."""
        self._store.remove(name)
