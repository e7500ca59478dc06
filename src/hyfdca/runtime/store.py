"""Where a party keeps what it must not lose: whole files, or none."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Protocol

import xxhash
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hyfdca.files import OWNER_ONLY, write_whole

_NONCE_BYTES = 12
_PIECE = 2**30  # bytes sealed at a time; AES-GCM takes less than 2^31


class StoreError(Exception):
    """Something cannot be kept, or was damaged; one plain sentence."""


class Store(Protocol):
    """Contents by name."""

    def write(self, name: str, content: bytes) -> None:
        """Keep a content; when this returns it survives a crash."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return a content, none if there is none; raises ``StoreError`` if damaged."""
        ...

    def names(self) -> list[str]:
        """Return the names of all contents, sorted."""
        ...

    def remove(self, name: str) -> None:
        """Forget a content, if it is there."""
        ...


class MemoryStore:
    """Keeps contents as long as the process lives."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def write(self, name: str, content: bytes) -> None:
        """Keep a content."""
        self._contents[name] = bytes(content)

    def read(self, name: str) -> bytes | None:
        """Return a content, none if there is none."""
        return self._contents.get(name)

    def names(self) -> list[str]:
        """Return the names of all contents, sorted."""
        return sorted(self._contents)

    def remove(self, name: str) -> None:
        """Forget a content, if it is there."""
        self._contents.pop(name, None)


class FolderStore:
    """Keeps contents as files of a folder that only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, content: bytes) -> None:
        """Write a file so that it is never seen, or found after a crash, by halves."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in self._folder.glob(f".{name}.*"):
                left.unlink()  # by a process that was killed
            write_whole(self._folder / name, content, OWNER_ONLY, is_durable=True)
        except OSError as error:
            raise StoreError(
                f"Cannot write to {self._folder} ({error.strerror}); make room there "
                "or use another folder."
            ) from None

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, none if there is none."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                f"Cannot read {self._folder / name} ({error.strerror})."
            ) from None

    def names(self) -> list[str]:
        """Return the names of all files that are whole, sorted."""
        if not self._folder.is_dir():
            return []
        entries = [path.name for path in self._folder.iterdir() if path.is_file()]
        return sorted(name for name in entries if not name.startswith("."))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self._folder / name).unlink(missing_ok=True)


class SealedStore:
    """Seals contents before another store keeps them.

    Parameters
    ----------
    secret : bytes
        Of which the key is made; nobody else has it.
    context : bytes
        What the contents belong to: others do not open them, nor do these open others.
    """

    def __init__(self, store: Store, secret: bytes, context: bytes) -> None:
        key = HKDF(SHA256(), 32, None, b"hyfdca checkpoints").derive(secret)
        self._store, self._cipher, self._context = store, AESGCM(key), context

    def write(self, name: str, content: bytes) -> None:
        """Keep a content, sealed."""
        pieces = [content[i : i + _PIECE] for i in range(0, len(content) or 1, _PIECE)]
        sealed = []
        for place, piece in enumerate(pieces):
            nonce = secrets.token_bytes(_NONCE_BYTES)
            bound = self._bound(name, place, len(pieces))
            sealed.append(nonce + self._cipher.encrypt(nonce, piece, bound))
        self._store.write(name, b"".join(sealed))

    def read(self, name: str) -> bytes | None:
        """Return a content, opened."""
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
                f"What was kept as {name} is damaged, or of another study or another "
                "organisation's key."
            ) from None
        return b"".join(opened)

    def names(self) -> list[str]:
        """Return the names of all contents, sorted."""
        return self._store.names()

    def remove(self, name: str) -> None:
        """Forget a content, if it is there."""
        self._store.remove(name)

    def _bound(self, name: str, place: int, n_pieces: int) -> bytes:
        return b"%s %s %d/%d" % (self._context, name.encode(), place, n_pieces)


_ROUND = "round-"
_DIGEST_BYTES = 16
_N_KEPT = 2  # rounds: the last one may not have been kept by everybody


class Archive:
    """Files by their meaning, each with a digest: a damaged one is not believed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, name: str, content: bytes) -> None:
        """Keep something that is there once."""
        self._store.write(name, xxhash.xxh3_128_digest(content) + content)

    def read(self, name: str) -> bytes | None:
        """Return something that is there once, none if it is not.

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
            raise StoreError(f"What was kept as {name} is damaged.")
        return content

    @property
    def rounds(self) -> list[int]:
        """The numbers of the rounds that are kept, ascending."""
        names = [name for name in self._store.names() if name.startswith(_ROUND)]
        return sorted(int(name.removeprefix(_ROUND)) for name in names)

    def write_round(self, number: int, content: bytes) -> None:
        """Keep the state after a round, and of those before only the last."""
        self.write(f"{_ROUND}{number}", content)
        for old in self.rounds[:-_N_KEPT]:
            self._store.remove(f"{_ROUND}{old}")

    def read_round(self, number: int) -> bytes | None:
        """Return the state after a round, none if it was not kept."""
        return self.read(f"{_ROUND}{number}")

    def forget_after(self, number: int) -> None:
        """Forget the rounds after one."""
        for later in self.rounds:
            if later > number:
                self._store.remove(f"{_ROUND}{later}")

    def forget(self, name: str) -> None:
        """Forget something that is there once."""
        self._store.remove(name)
