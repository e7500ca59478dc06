"""Downloads the paper's data sets, completely or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import HTTPError
from urllib.request import urlopen

from hyfdca.data.found import Check, Found
from hyfdca.data.public_sets import SETS
from hyfdca.data.sources import Entry, named_folder, user_folder
from hyfdca.errors import StudyError

_CHUNK = 1 << 18
_PATIENCE = 60.0  # seconds without a byte

# Called with a file's name, its bytes so far, and its size if known.
Watch = Callable[[str, int, int | None], None]


def _unwatched(name: str, n_bytes: int, n_all: int | None) -> None:
    pass


def fetch_folder(folder: Path | str | None = None) -> Path:
    """Return the folder for downloads: the one named, or else the user's."""
    return named_folder(folder) or user_folder()


def fetch(
    name: str, folder: Path | str | None = None, watch: Watch = _unwatched
) -> Entry:
    """Download a data set from its public address, check it and keep it.

    Parameters
    ----------
    name : {"mnist", "news20", "covtype"}
    folder : path, optional
        Where to put it, in a folder of the set's name; see ``fetch_folder``.
    watch : function
        Called after every piece.

    Raises
    ------
    StudyError
        Nothing has been written.
    """
    target = fetch_folder(folder) / name
    try:
        with _draft(target) as draft:
            checked_by = _download(name, draft, target, watch)
            target.mkdir(exist_ok=True)
            for file in SETS[name].download.files:
                (draft / file).replace(target / file)
    except OSError as error:
        raise StudyError(
            f"Cannot write to {target} ({error.strerror}); choose another folder with "
            "--folder."
        ) from None
    return Entry(name, Found(SETS[name], SETS[name].download, target).path, checked_by)


@contextlib.contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """Make a folder next to the target; remove it and all folders made for it."""
    made = [folder for folder in target.parents if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as draft:
            yield Path(draft)
    finally:
        for folder in made:
            with contextlib.suppress(OSError):  # the set has arrived there
                folder.rmdir()


def _download(name: str, draft: Path, target: Path, watch: Watch) -> Check:
    data, form = SETS[name], SETS[name].download
    by_hand = f"copy {', '.join(form.files)} to {target} by hand"
    for file in form.files:
        pieces = _pieces(f"{form.site}/{file}", by_hand, watch)
        with (draft / file).open("wb") as whole, contextlib.closing(pieces):
            for piece in pieces:
                whole.write(piece)
    try:
        return Found(data, form, draft).check()
    except StudyError:
        raise StudyError(
            f"What came from {form.site} is not {data.title}; try again later, or "
            f"{by_hand}."
        ) from None


def _pieces(address: str, by_hand: str, watch: Watch) -> Generator[bytes, None, None]:
    name, n_bytes = address.rpartition("/")[2], 0
    try:
        # The addresses are constants of this package.
        with urlopen(address, timeout=_PATIENCE) as reply:  # noqa: S310
            n_all = reply.headers.get("Content-Length")
            while piece := reply.read(_CHUNK):
                n_bytes += len(piece)
                watch(name, n_bytes, int(n_all) if n_all else None)
                yield piece
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it is also the server's reply
        # Its reason is the system's own error, without urllib's wrapping.
        reason = " ".join(str(getattr(error, "reason", error)).split()).rstrip(".")
        raise StudyError(
            f"Cannot fetch {address} ({reason}); check the network, or {by_hand}."
        ) from None
