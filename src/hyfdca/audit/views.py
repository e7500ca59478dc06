"""Views on disk: everything that one party of a run saw, record by record.

A file is a line that identifies the format, then frames: a length, a digest, msgpack.
The first frame is the header, the last the number of records. The file is written under
another name and renamed once it is complete, so no reader sees half of it.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from hyfdca.errors import StudyError, reading
from hyfdca.files import open_regular

_MAGIC = b"hyfdca view 1\n"
_FRAME = struct.Struct("<Q16s")  # length, digest
_SERVER = "server.view"
_CLIENT = "client-{}.view"

Direction = Literal["down", "up", "opened", "sealed", "keys"]
Size = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
T = TypeVar("T")


class ViewError(StudyError):
    """A view that cannot be written or read; the message is one plain sentence."""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whose view it is, and of which run.

    Parameters
    ----------
    party : int or None
        The rank of a client; None for the server.
    run : str
        A random name, the same in all views of one run.
    study, study_hash : str
        Path of the study file, relative to the view's folder, and its SHA-256.
    """

    party: int | None
    name: str
    run: str
    study: str
    study_hash: str
    profile: Literal["open", "sealed"]
    encryption: str


class Record(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """One observation: a message, numbers a client opened or sealed, or its keys."""

    phase: str
    client: Size
    direction: Direction
    payload: bytes
    kind: str = ""  # kind of numbers: by sample, by feature or totals
    shape: tuple[Size, Size] = (0, 0)

    def numbers(self) -> NDArray[np.float64]:
        """Return the numbers that a client opened or sealed."""
        if len(self.payload) != 8 * self.shape[0] * self.shape[1]:
            raise ViewError(
                "A view has numbers that do not match their shape; record it again."
            )
        return np.frombuffer(self.payload, "<f8").reshape(self.shape)


class _End(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    n_records: Size


def view_path(folder: Path, party: int | None) -> Path:
    """Return the path of a party's view; None means the server."""
    return folder / (_SERVER if party is None else _CLIENT.format(party))


def client_views(folder: Path) -> list[Path]:
    """Return the paths of the clients' views in a folder, by name."""
    return sorted(folder.glob(_CLIENT.format("*")))


def remove_other_views(folder: Path, parties: Collection[int | None]) -> None:
    """Remove clients' views of an earlier run, except those of these parties."""
    kept = {view_path(folder, party) for party in parties}
    for path in client_views(folder):
        if path not in kept:
            path.unlink()


class ViewWriter:
    """Writes a view; readers can open it only after ``close``."""

    def __init__(self, path: Path, header: Header) -> None:
        self._path, self._partial = path, path.with_name(f".{path.name}.part")
        self._n_records = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._partial.unlink(missing_ok=True)
            # Readable by its owner only, like a key: it may contain secrets.
            self._file = os.fdopen(_owner_only(self._partial), "wb")
            self._file.write(_MAGIC)
        except OSError as error:
            raise _unwritable(path, error) from None
        self._write(header)

    def write(self, record: Record) -> None:
        """Append a record."""
        self._write(record)
        self._n_records += 1

    def close(self) -> None:
        """Finish the view and give it its final name."""
        self._write(_End(self._n_records))
        try:
            self._file.close()
            self._partial.replace(self._path)
        except OSError as error:
            raise _unwritable(self._path, error) from None

    def discard(self) -> None:
        """Remove the partial file; an older view stays unchanged."""
        with contextlib.suppress(OSError):
            self._file.close()
            self._partial.unlink(missing_ok=True)

    def _write(self, content: msgspec.Struct) -> None:
        body = msgspec.msgpack.encode(content)
        try:
            self._file.write(_FRAME.pack(len(body), xxhash.xxh3_128_digest(body)))
            self._file.write(body)
        except OSError as error:
            raise _unwritable(self._path, error) from None


def read_view(path: Path) -> tuple[Header, Iterator[Record]]:
    """Return the header and the records of a view, which are read one by one.

    Raises
    ------
    ViewError
        If the view is missing or incomplete; also while records are read.
    """
    frames = _frames(path)
    header = _decoded(next(frames, b""), Header, path)
    return header, _records(frames, path)


def _records(frames: Iterator[bytes], path: Path) -> Iterator[Record]:
    last, n_records = b"", -1
    for frame in frames:
        if n_records >= 0:
            yield _decoded(last, Record, path)
        last, n_records = frame, n_records + 1
    if n_records < 0 or _decoded(last, _End, path).n_records != n_records:
        raise _damaged(path)


def _frames(path: Path) -> Iterator[bytes]:
    """Return the contents of the frames, each checked by its digest."""
    try:
        with open_regular(path) as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ViewError(f"{path} is not a view of a run; record it again.")
            left = os.fstat(file.fileno()).st_size
            while start := file.read(_FRAME.size):
                if len(start) < _FRAME.size:
                    raise _damaged(path)
                size, digest = _FRAME.unpack(start)
                # No buffer is larger than the file.
                body = file.read(size) if size <= left else b""
                if len(body) != size or xxhash.xxh3_128_digest(body) != digest:
                    raise _damaged(path)
                yield body
    except OSError:
        raise ViewError(
            f"Cannot read the view {path}; train with --record first."
        ) from None


def _decoded(body: bytes, kind: type[T], path: Path) -> T:
    with reading(_damaged(path)):
        decoded: Any = msgspec.msgpack.decode(body, type=kind)
    content: T = decoded
    return content


def _owner_only(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


def _damaged(path: Path) -> ViewError:
    return ViewError(f"The view {path} is damaged or cut short; record it again.")


def _unwritable(path: Path, error: OSError) -> ViewError:
    return ViewError(
        f"Cannot write the view {path} ({error.strerror}); use another folder."
    )
