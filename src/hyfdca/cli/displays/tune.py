"""Terminal output about tuning: progress meanwhile, a table at the end."""

from __future__ import annotations

import math

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hyfdca.cli.displays.run import BarDisplay, is_worth_a_line
from hyfdca.reproduction.paper import HYPERPARAMETERS, Method
from hyfdca.reproduction.tune import SettingTuned
from hyfdca.reproduction.tuning import Trial, Tuned


class TuningDisplay(BarDisplay):
    """Shows how many trials have ended: a live bar on a terminal, otherwise lines."""

    def __init__(self, console: Console, n_trials: int | None) -> None:
        progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:.0f} trials, {task.fields[best]}"),
            TimeElapsedColumn(),
            console=console,
            expand=True,
            transient=True,
        )
        super().__init__(console, progress)
        self._n_trials = n_trials
        self._task = self._progress.add_task("", total=n_trials, best="")
        self._method: Method = "hyfdca"
        self._best = math.inf

    def begin(self, method: Method) -> None:
        """Show which method is tuned."""
        self._method, self._best = method, math.inf
        self._progress.reset(
            self._task, total=self._n_trials, description=method, best="none yet"
        )
        if not self._console.is_terminal:
            self._say("loading the data, then the first trial")

    def trial(self, trial: Trial, number: int) -> None:
        """Show a trial that has ended."""
        if trial.criteria is not None:
            self._best = min(self._best, trial.criteria.final_loss)
        text = f"lowest loss {self._best:.4f}"
        if self._console.is_terminal:
            self._progress.update(self._task, completed=number, best=text)
        elif is_worth_a_line(range(number, number + 1)):
            self._say(f"{number} trial{'s' * (number > 1)}, {text}")

    def _say(self, what: str) -> None:
        self._console.print(f"{self._method}: {what}", highlight=False)


def show_tuned(console: Console, outcome: SettingTuned) -> None:
    """Print what was chosen for each method, beside the paper's choice."""
    setting = outcome.setting
    table = Table(
        title=f"{setting.data_set}, {setting.label}: {outcome.n_rounds:,} rounds",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
    )
    table.add_column("method", style="bold")
    for name in ("trials", "diverged", "final\nloss", "best\naccuracy"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("chosen", overflow="fold")
    table.add_column("the paper's", overflow="fold")
    published = HYPERPARAMETERS.get(setting, {})
    for method, own in outcome.methods.items():
        theirs = published.get(method)
        published_choice = "-" if theirs is None else _shown(theirs.as_settings())
        table.add_row(method, *_numbers(own), published_choice)
    console.print(table)


def _numbers(own: Tuned) -> list[str]:
    n_diverged = sum(trial.criteria is None for trial in own.trials)
    counts = [str(len(own.trials)), str(n_diverged)]
    if own.best is None or own.best.criteria is None:
        return [*counts, "-", "-", "all diverged"]
    criteria = own.best.criteria
    return [
        *counts,
        f"{criteria.final_loss:.4f}",
        f"{criteria.best_accuracy:.3f}",
        _shown(own.best.job.chosen.as_settings()),
    ]


def _shown(settings: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in settings.items())
