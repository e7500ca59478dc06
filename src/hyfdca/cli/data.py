"""The command ``hyfdca data``: its arguments and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyfdca.errors import StudyError

if TYPE_CHECKING:
    from hyfdca.cli.displays.data import DataDisplay
    from hyfdca.data.sources import Entry

_INCOMPLETE = 1


def data(
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Folder to look in first, and to download to; by default the one in "
            "HYFDCA_DATA.",
        ),
    ] = None,
    is_fetching: Annotated[
        bool,
        typer.Option(
            "--fetch",
            help="Download missing sets from their public addresses.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the paper's data sets with their places, shapes and condition.

    Looks in --folder or HYFDCA_DATA, in the folder of earlier downloads and in
    scikit-learn's cache. Exit code 0 if all sets are there and sound, 1 if not.
    """
    from rich.console import Console

    from hyfdca.cli.displays.data import DataDisplay, show_data
    from hyfdca.data.fetching import fetch_folder
    from hyfdca.data.sources import looked_in

    if folder is not None and not is_fetching and not folder.is_dir():
        raise StudyError(f"The folder {folder} does not exist; correct --folder.")
    with DataDisplay(Console(stderr=True)) as display:
        entries = _entries(folder, is_fetching, display)
    if as_json:
        content = {
            "looked_in": [str(place) for place in looked_in(folder)],
            "fetch_folder": str(fetch_folder(folder)),
            "sets": [entry.as_json() for entry in entries],
        }
        typer.echo(json.dumps(content, indent=2))
    else:
        show_data(Console(), entries, looked_in(folder), fetch_folder(folder))
    is_complete = all(entry.status == "found" for entry in entries)
    raise typer.Exit(0 if is_complete else _INCOMPLETE)


def _entries(
    folder: Path | None, is_fetching: bool, display: DataDisplay
) -> list[Entry]:
    """Look for all sets; download the missing ones, even if another one fails."""
    from hyfdca.data.fetching import fetch
    from hyfdca.data.public_sets import SETS
    from hyfdca.data.sources import look_up

    entries, failures = [], []
    for name in SETS:
        display.check(SETS[name].title)
        entry = look_up(name, folder)
        if is_fetching and entry.status == "missing":
            try:
                entry = fetch(name, folder, display)
            except StudyError as error:
                failures.append(error)
        entries.append(entry)
    if failures:
        raise failures[0]
    return entries
