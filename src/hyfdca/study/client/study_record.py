"""Something that a client keeps of one study; another study has its own."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from hyfdca.errors import reading
from hyfdca.runtime.store import Archive

T = TypeVar("T")


class StudyRecord(Generic[T]):
    """A record in a client's archive that counts for one study file alone.

    Parameters
    ----------
    study : bytes
        The hash of the study file; what was kept of another one is not there.
    kind : type
        Of the record.
    """

    def __init__(
        self,
        archive: Archive,
        name: str,
        study: bytes,
        kind: type[T],
    ) -> None:
        self._archive, self._name, self._study = archive, name, study
        self._kind = kind

    def read(self) -> T | None:
        """Return the record; None if there is none of this study."""
        kept = self._archive.read(self._name)
        if kept is None:
            return None
        with reading(self._archive.damage(self._name)):
            study, record = msgspec.msgpack.decode(kept, type=tuple[bytes, msgspec.Raw])
            if study != self._study:
                return None
            return msgspec.msgpack.decode(record, type=self._kind)

    def write(self, record: T) -> None:
        """Keep a record, in place of what was kept before."""
        content = msgspec.msgpack.encode((self._study, record))
        self._archive.write(self._name, content)
