"""Finds the paper's data sets on this machine.

A set is searched for in this order; the first place that has a file of it counts:

1. the folder that is named, or else that of the variable ``HYFDCA_DATA``,
2. ``../shared/data`` beside a clone of the project, for its developers,
3. the user's folder, into which ``hyfdca data --fetch`` downloads by default,
4. scikit-learn's cache.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hyfdca.data.datasets import Dataset
from hyfdca.data.found import Check, Found
from hyfdca.data.public_sets import SETS, Form, PublicSet
from hyfdca.data.sklearn_cache import sklearn_folder
from hyfdca.errors import StudyError

VARIABLE = "HYFDCA_DATA"
HOW_TO_GET = f"run hyfdca data --fetch, or set {VARIABLE} to a folder that has"
_PROJECT = Path(__file__).resolve().parents[3]  # of a clone


def find_data(
    name: str,
    folder: Path | str | None = None,
    positive: Collection[int] | None = None,
) -> Dataset:
    """Return a data set of the paper, from wherever it is on this machine.

    MNIST has all 70,000 rows, the 60,000 training images first, pixels in [0, 1], and
    the bias, 10, as its last column. Features of covtype.binary are in [0, 1].

    Parameters
    ----------
    name : {"mnist", "news20", "covtype"}
    folder : path, optional
        Where to look first.
    positive : collection of int, optional
        The labels that become 1; by default the even digits of MNIST, 1 of
        news20.binary and 2 of covtype.binary.

    Raises
    ------
    StudyError
        If the set is missing or damaged.
    """
    return require(name, folder).load(positive)


def require(name: str, folder: Path | str | None = None) -> Found:
    """Return where a set is, unchecked.

    Raises
    ------
    StudyError
        If it is missing; the sentence says how to get it.
    """
    found = locate(name, folder)
    if found is None:
        where = (
            f"neither in {folder} nor where hyfdca data looks"
            if folder
            else "not there"
        )
        title = SETS[name].title
        raise StudyError(f"The data set {title} is {where}; {HOW_TO_GET} it.")
    return found


def locate(name: str, folder: Path | str | None = None) -> Found | None:
    """Return the first place with a file of a set, unchecked; None without any.

    Raises
    ------
    StudyError
        If there is no set of that name.
    """
    if name not in SETS:
        known = ", ".join(SETS)
        raise StudyError(f"There is no data set {name!r}; choose one of {known}.")
    for place, form in _places(name, folder):
        # Unlike a path's own method, this is False in a folder that cannot be read.
        if any(os.path.isfile(place / file) for file in form.files):
            return Found(SETS[name], form, place)
    return None


def _places(name: str, folder: Path | str | None) -> Iterator[tuple[Path, Form]]:
    data = SETS[name]
    *folders, cache = looked_in(folder)
    for parent in folders:
        for place in (parent / name, parent):
            for form in data.forms:
                yield place, form
    for form in data.cached:
        yield cache, form


def looked_in(folder: Path | str | None = None) -> list[Path]:
    """Return the folders that are searched for sets; scikit-learn's is the last."""
    folders = [named_folder(folder), _developers_folder(), user_folder()]
    named = [each for each in folders if each is not None]
    return [*dict.fromkeys(named), sklearn_folder()]


def named_folder(folder: Path | str | None = None) -> Path | None:
    """Return the folder given, or else that of the variable, if any."""
    named = folder or os.environ.get(VARIABLE)
    return Path(os.path.expanduser(named)) if named else None


def user_folder() -> Path:
    """Return the folder of this user's downloads; it need not exist."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    return Path(os.path.expanduser(caches)) / "hyfdca" / "data"


def _developers_folder() -> Path | None:
    is_clone = (_PROJECT / "pyproject.toml").is_file()
    folder = _PROJECT.parent / "shared" / "data"
    return folder if is_clone and os.path.isdir(folder) else None


@dataclass(frozen=True)
class Entry:
    """What ``hyfdca data`` says about one data set.

    Parameters
    ----------
    path : path or None
        None if it is missing.
    checked_by : {"sha256", "shape"} or None
    problem : str or None
        What is wrong with its files, in one sentence.
    """

    name: str
    path: Path | None = None
    checked_by: Check | None = None
    problem: str | None = None

    @property
    def data(self) -> PublicSet:
        """The set itself."""
        return SETS[self.name]

    @property
    def status(self) -> Literal["found", "damaged", "missing"]:
        """Whether it can be used."""
        if self.path is None:
            return "missing"
        return "found" if self.problem is None else "damaged"

    def as_json(self) -> dict[str, Any]:
        """Return the entry for programs."""
        n_samples, n_features = self.data.shape
        return {
            "name": self.name,
            "title": self.data.title,
            "status": self.status,
            "path": None if self.path is None else str(self.path),
            "samples": n_samples,
            "features": n_features,
            "checked_by": self.checked_by,
            "problem": self.problem,
        }


def look_up(name: str, folder: Path | str | None = None) -> Entry:
    """Look for a set and check it; what is wrong with it is in the entry."""
    found = locate(name, folder)
    if found is None:
        return Entry(name)
    try:
        return Entry(name, found.path, found.check())
    except StudyError as error:
        return Entry(name, found.path, problem=str(error))
