"""The folder of an unfinished run in one process, from which it can be resumed.

The parties save the same contents as between machines, each in its own folder, and
those of the organisations are sealed. Everything stays in memory until ``write``, so
short trainings leave no trace and cost nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal, Self

from hyfdca.crypto.keys.identity import Identity
from hyfdca.errors import StudyError, reading
from hyfdca.files import locked
from hyfdca.runtime.store import (
    Archive,
    DelayedStore,
    FolderStore,
    SealedStore,
    Store,
    StoreError,
)
from hyfdca.study.plan import Plan
from hyfdca.study.tuning import FIRST_RUN, RunChoice

How = Literal["first", "resume", "restart"]

_IDENTITY, _STUDY, _RUN = "identity", "study", "run"
_SERVER, _MEMBER = "server", "member-"


class SavedRun:
    """What the parties of a study save.

    Leaving the context lets other processes use the folder again.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder, self._plan = folder, plan
        self._lock_file = folder / "hyfdca.lock"
        self._held = ExitStack()
        self._is_locked = False
        self._forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._release()

    def _forget(self) -> None:
        """Take new stores, through which the content of the disk can be read."""
        ranks = range(len(self._plan.names))
        self._server = self._store(_SERVER)
        self._members = [self._store(f"{_MEMBER}{rank}") for rank in ranks]

    def _store(self, name: str) -> DelayedStore:
        return DelayedStore(FolderStore(self._folder / name))

    @property
    def archive(self) -> Archive:
        """What the server saves."""
        return Archive(self._server)

    # From an earlier run

    def open(self, how: How) -> None:
        """Prepare to begin or to resume; an earlier run is never discarded unasked.

        Raises
        ------
        StudyError
        """
        has_run = self._lock_file.exists() and bool(self.archive.rounds)
        if how == "resume" and not has_run:
            raise StudyError(
                f"There is no unfinished run in {self._folder}; leave out --resume to "
                "train from the first round, which replaces the results of an earlier "
                "run."
            )
        if not has_run or how == "restart":
            self.discard()
            self.archive.write(_STUDY, self._plan.study_hash)
            self.archive.write(_RUN, self._plan.run.to_bytes())
            return
        if not self._is_of_this_study():
            raise StudyError(
                f"The run in {self._folder} is of another study, or its study file has "
                "changed; restore the file, discard the run with --restart or choose "
                "another folder with --out."
            )
        if how == "first":
            raise StudyError(
                f"A run of this study is in {self._folder}, saved up to round "
                f"{self.archive.rounds[-1]}; continue it with --resume, or discard it "
                "with --restart."
            )
        self._lock()

    def _is_of_this_study(self) -> bool:
        try:
            return self.archive.read(_STUDY) == self._plan.study_hash
        except StoreError:
            return False

    def identities(self) -> list[Identity]:
        """Return the organisations' keys: those of the earlier run, or new ones.

        Raises
        ------
        StoreError
            If those of the earlier run are lost or damaged.
        """
        if not self.archive.rounds:
            for store in self._members:
                store.write(_IDENTITY, Identity.generate().to_bytes())
        try:
            kept = [store.read(_IDENTITY) or b"" for store in self._members]
            return [Identity.from_bytes(content) for content in kept]
        except ValueError:
            raise StoreError(f"A key in {self._folder} is damaged or lost.") from None

    def stores(self, identities: Sequence[Identity]) -> list[Store]:
        """Return the organisations' stores, each sealed for itself alone."""
        return [
            SealedStore(store, identity.to_bytes(), b"hyfdca member in one process")
            for store, identity in zip(self._members, identities, strict=True)
        ]

    # On disk

    def write(self) -> None:
        """Write what the parties have saved; the server's part commits it.

        Raises
        ------
        StoreError
        StudyError
            If another process uses the folder.
        """
        self._lock()
        for store in (*self._members, self._server):
            store.flush()

    def discard(self) -> None:
        """Remove the run from the disk, if it was written; begin with empty stores."""
        if self._lock_file.exists():
            self._lock()
            with _plain_errors(self._folder):
                for path in (self._folder / _SERVER, *self._folder.glob(f"{_MEMBER}*")):
                    if path.is_dir():
                        shutil.rmtree(path)
                self._lock_file.unlink()
            self._release()
            with suppress(OSError):  # other files may be there
                self._folder.rmdir()
        self._forget()

    def _lock(self) -> None:
        """Keep other processes out until the context ends."""
        if self._is_locked:
            return
        complaint = f"Another hyfdca train is using {self._folder}; end it first."
        with _plain_errors(self._folder):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._held.enter_context(locked(self._lock_file, complaint))
        self._is_locked = True

    def _release(self) -> None:
        self._held.close()
        self._is_locked = False


def saved_choice(folder: Path) -> RunChoice:
    """Return what was chosen for the run in a folder; by default the file's own choice.

    Raises
    ------
    StoreError
    """
    archive = Archive(FolderStore(folder / _SERVER))
    with reading(archive.damage(_RUN)):
        kept = archive.read(_RUN)
        return FIRST_RUN if kept is None else RunChoice.from_bytes(kept)


@contextmanager
def _plain_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"Cannot write to {folder} ({error.strerror}); choose another folder with "
            "--out."
        ) from None
