"""Terminal output about the paper's study: progress, and the counts at the end."""

from __future__ import annotations

import time

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from hyfdca.cli.displays.run import BarDisplay
from hyfdca.reproduction.report.verdict import count_table
from hyfdca.reproduction.views import Study

_SECONDS_PER_LINE = 20.0  # where there is no terminal


class ReproductionDisplay(BarDisplay):
    """Shows how much of a part is done: a live bar on a terminal, otherwise lines."""

    def __init__(self, console: Console) -> None:
        progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[last]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            expand=True,
            transient=True,
        )
        super().__init__(console, progress)
        self._task = self._progress.add_task("", total=1, last="")
        self._what, self._n_all, self._n_done = "", 0, 0
        self._said = 0.0

    def begin(self, what: str, n_all: int, n_kept: int = 0) -> None:
        """Show which part begins."""
        self._what, self._n_all, self._n_done = what, n_all, 0
        kept = f"{n_kept} kept" if n_kept else ""
        self._progress.reset(self._task, total=n_all, description=what, last=kept)
        if not self._console.is_terminal:
            kept = f", {n_kept} kept" if n_kept else ""
            self._say(f"{n_all - n_kept} to do{kept}")

    def step(self, what: str) -> None:
        """Show a step that has ended."""
        self._n_done += 1
        if self._console.is_terminal:
            self._progress.update(self._task, completed=self._n_done, last=what)
        elif time.monotonic() - self._said > _SECONDS_PER_LINE:
            self._say(f"{self._n_done} of {self._n_all}, {what}")

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        self._console.print(f"{self._what}: {text}", highlight=False, soft_wrap=True)


def show_study(console: Console, study: Study) -> None:
    """Print how often HyFDCA is ahead."""
    counts = count_table(study)
    table = Table(
        title=counts.title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False
    )
    for number, name in enumerate(counts.columns):
        table.add_column(name, justify="left" if number < 3 else "right")
    for row in counts.rows:
        table.add_row(*row)
    console.print(table)
