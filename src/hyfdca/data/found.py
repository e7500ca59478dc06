"""Files of a data set on this machine: checks them and reads their content."""

from __future__ import annotations

import hashlib
import lzma
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from hyfdca.data.datasets import Dataset, Labelled, two_classes
from hyfdca.data.public_sets import Form, PublicSet
from hyfdca.errors import StudyError

Check = Literal["sha256", "shape"]

_REMEDY = "replace it, or delete it and run hyfdca data --fetch"
# Raised by readers of text, arrays and compressed files if these are damaged.
_DAMAGE = (
    EOFError,
    IndexError,
    OSError,
    OverflowError,
    ValueError,
    lzma.LZMAError,
    zlib.error,
)


@dataclass(frozen=True)
class Found:
    """Files of a data set, not checked yet: some may be missing or damaged."""

    data: PublicSet
    form: Form
    folder: Path

    @property
    def path(self) -> Path:
        """The set's file, or the folder of its files."""
        first, *others = (self.folder / name for name in self.form.files)
        return first.parent if others else first

    def check(self) -> Check:
        """Return how the files were checked: by their bytes, or by shape and labels.

        Raises
        ------
        StudyError
            If they are damaged.
        """
        if self._has_known_bytes():
            return "sha256"
        self._read()
        return "shape"

    def load(self, positive: Collection[int] | None = None) -> Dataset:
        """Check the files and return the set.

        Parameters
        ----------
        positive : collection of int, optional
            The labels that become 1, instead of the set's own choice.

        Raises
        ------
        StudyError
            If they are damaged.
        """
        self._has_known_bytes()  # or it is refused, if its checksum must be known
        chosen = self.data.positive if positive is None else positive
        return two_classes(self._read(), chosen, self.data.bias)

    def _has_known_bytes(self) -> bool:
        """Return whether all checksums are right; refuse wrong ones of a fixed form."""
        missing = [n for n in self.form.files if not (self.folder / n).is_file()]
        if missing:
            raise self._damaged(f"there is no {missing[0]}")
        wrong = [
            name
            for name, known in self.form.files.items()
            if known is None or self._sha256(name) != known
        ]
        if wrong and self.form.is_fixed:
            raise self._damaged(f"the checksum of {wrong[0]} is wrong")
        return not wrong

    def _sha256(self, name: str) -> str:
        with self._refusing_damage(), (self.folder / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _read(self) -> Labelled:
        with self._refusing_damage():
            table = self.form.read(self.folder)
        if table.X.shape != self.data.shape:
            raise self._damaged(
                f"it has {_counts(table.X.shape)} instead of {_counts(self.data.shape)}"
            )
        if not np.array_equal(np.unique(table.labels), self.data.labels):
            raise self._damaged("it has other labels")
        return table

    @contextmanager
    def _refusing_damage(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            # Readers of compressed files raise an OSError without a system's reason.
            if isinstance(error, OSError) and error.strerror:
                raise StudyError(
                    f"Cannot read {self.data.title} in {self.path} "
                    f"({error.strerror}); check its permissions."
                ) from None
            raise self._damaged("it cannot be read to its end") from None

    def _damaged(self, what: str) -> StudyError:
        return StudyError(
            f"{self.data.title} in {self.path} is damaged: {what}; {_REMEDY}."
        )


def _counts(shape: tuple[int, ...]) -> str:
    return f"{shape[0]:,} rows and {shape[1]:,} features"
