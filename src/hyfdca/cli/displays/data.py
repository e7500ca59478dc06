"""Terminal output about data sets: progress meanwhile, a table at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from hyfdca.cli.displays.escaping import escape
from hyfdca.cli.displays.run import BarDisplay
from hyfdca.data.sources import Entry
from hyfdca.training.progress_line import readable_size

_CHECKS = {"sha256": "checksum", "shape": "shape"}


class DataDisplay(BarDisplay):
    """Shows what is checked or downloaded: a bar on a terminal, otherwise lines."""

    def __init__(self, console: Console) -> None:
        progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[size]}"),
            console=console,
            transient=True,
        )
        super().__init__(console, progress)
        self._task = self._progress.add_task("", total=None, size="")
        self._file = ""

    def check(self, title: str) -> None:
        """Show which set is looked for; checking a large one takes a while."""
        self._progress.reset(self._task, description=f"checking {title}", size="")

    def __call__(self, file: str, n_bytes: int, n_all: int | None) -> None:
        """Show how much of a file has arrived."""
        if not self._console.is_terminal and file != self._file:
            self._console.print(f"fetching {file}", soft_wrap=True, highlight=False)
        self._file = file
        self._progress.update(
            self._task,
            description=f"fetching {file}",
            completed=n_bytes,
            total=n_all or n_bytes,
            size=readable_size(n_bytes),
        )


def show_data(
    console: Console,
    entries: Sequence[Entry],
    looked_in: Sequence[Path],
    fetch_folder: Path,
) -> None:
    """Print where the sets are, and what to do about those that are not."""
    console.print(_table(entries))
    for entry in entries:
        if entry.problem is not None:
            _say(console, entry.problem)
    if any(entry.status == "missing" for entry in entries):
        _say(console, f"Looked in {', '.join(map(str, looked_in))}.")
        _say(
            console,
            f"hyfdca data --fetch downloads what is missing to {fetch_folder}.",
        )


def _table(entries: Sequence[Entry]) -> Table:
    table = Table(
        title="The paper's data sets",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
    )
    table.add_column("set", style="bold", no_wrap=True)
    table.add_column("samples", justify="right", no_wrap=True)
    table.add_column("features", justify="right", no_wrap=True)
    table.add_column("checked by", no_wrap=True)
    table.add_column("folder", overflow="fold")
    for entry in entries:
        n_samples, n_features = entry.data.shape
        table.add_row(
            entry.data.title,
            f"{n_samples:,}",
            f"{n_features:,}",
            _CHECKS[entry.checked_by] if entry.checked_by else "-",
            escape(_folder(entry)),
        )
    return table


def _folder(entry: Entry) -> str:
    """Return the folder of the files, without their names: a terminal is narrow."""
    if entry.path is None or entry.problem is not None:
        return entry.status
    return str(entry.path if entry.path.is_dir() else entry.path.parent)


def _say(console: Console, line: str) -> None:
    console.print(line, soft_wrap=True, markup=False, highlight=False)
