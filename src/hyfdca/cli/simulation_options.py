"""What ``hyfdca tune`` and ``hyfdca reproduce`` have in common on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from hyfdca.errors import StudyError

Name = TypeVar("Name", bound=str)

OutFolder = Annotated[
    Path, typer.Option("--out", help="Folder to write to, and to continue from.")
]
DataFolder = Annotated[
    Path | None,
    typer.Option("--data", help="Folder to look for the data in first."),
]
Processes = Annotated[
    int | None, typer.Option(min=1, help="Runs at a time; by default all cores.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed.")]


def some_of(text: str, known: Iterable[Name], option: str) -> list[Name]:
    """Return the names that a text lists, in the order of those that are known.

    Raises
    ------
    StudyError
        If a name is unknown or repeated.
    """
    names, every = [name.strip() for name in text.split(",")], list(known)
    wanted = [name for name in every if name in names]
    if len(wanted) != len(names):
        raise StudyError(f"{option} takes some of {', '.join(every)}, each once.")
    return wanted
