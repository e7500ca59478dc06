"""Terminal output about comparisons: progress meanwhile, a table at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hyfdca.cli.displays.escaping import escape
from hyfdca.cli.displays.run import BarDisplay, is_worth_a_line, share_done
from hyfdca.comparison.compare import StudyComparison
from hyfdca.comparison.contenders import Contender
from hyfdca.comparison.runs import Curve
from hyfdca.errors import counted
from hyfdca.training.progress_line import readable_size
from hyfdca.training.reports import RoundReport

_SCORE = "score"
_METRICS = {"accuracy": "accuracy", "R2": "R²"}
_TITLES = (
    *("rounds", "relative\nloss", "certified\ngap", _SCORE),
    *("sent", "round\ntrips", "simulated\ntime"),
)


class ComparisonDisplay(BarDisplay):
    """Shows which algorithm trains: a live bar on a terminal, otherwise some lines.

    The bar is logarithmic: it is full when the gap has fallen to the tolerance.
    """

    def __init__(self, console: Console) -> None:
        progress = Progress(
            TextColumn("{task.description}", markup=False),
            TextColumn("[bold]round {task.fields[round]:>5}"),
            BarColumn(bar_width=None),
            TextColumn("certified gap {task.fields[gap]}"),
            TimeElapsedColumn(),
            console=console,
            expand=True,
            transient=True,
        )
        super().__init__(console, progress)
        self._task = self._progress.add_task("", total=1.0, round=0, gap="-")
        self._who = ""
        self._first = self._lowest = math.inf

    def note(self, sentence: str) -> None:
        """Show a sentence that stays."""
        self._say(sentence)

    def prepare(self, what: str) -> None:
        """Show a step before the first training."""
        self._show(what)

    def begin(self, contender: Contender, number: int, n_all: int) -> None:
        """Show which algorithm trains now."""
        self._who = f"{contender.label} ({number} of {n_all})"
        self._first = self._lowest = math.inf
        self._show(self._who)

    def round(self, report: RoundReport, tolerance: float) -> None:
        """Show one round."""
        if report.measurement is None:
            return
        number, gap = report.round_number, report.measurement.relative_gap
        if not self._console.is_terminal:
            if is_worth_a_line(range(number, number + 1)) or gap <= tolerance:
                self._say(f"{self._who}, round {number}: certified gap {gap:.1e}")
            return
        if math.isfinite(gap) and math.isinf(self._first):
            self._first = gap
        self._lowest = min(self._lowest, gap)  # a gap may rise again, a bar must not
        done = 0.0
        if math.isfinite(self._lowest):
            done = share_done(self._lowest, self._first, tolerance)
        text = f"{gap:.1e} → {tolerance:.0e}"
        self._progress.update(self._task, completed=done, round=number, gap=text)

    def end(self, curve: Curve) -> None:
        """Say that an algorithm did not train; the table at the end says why."""
        if curve.reason is not None:
            self._say(f"{self._who} {curve.stop_reason}")

    def _show(self, what: str) -> None:
        if self._console.is_terminal:
            self._progress.reset(self._task, description=what, round=0, gap="-")
        else:
            self._say(what)

    def _say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)


def show_comparison(console: Console, comparison: StudyComparison) -> None:
    """Print what each algorithm reached, and why others did not train."""
    console.print(_results(comparison))
    if any(curve.reason is not None for curve in comparison.curves):
        console.print()
        console.print(_reasons(comparison.curves))


def _results(comparison: StudyComparison) -> Table:
    # Nine columns have to fit a terminal of 80 letters.
    table = Table(
        title=escape(comparison.file.study.name),
        title_justify="left",
        caption=_caption(comparison),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,
    )
    table.add_column("algorithm", style="bold", overflow="fold")
    for title in _TITLES:
        if title != _SCORE or comparison.metric is not None:
            table.add_column(title, justify="right", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    for curve in comparison.curves:
        if curve.points:
            table.add_row(escape(curve.contender.label), *_numbers(curve))
    return table


def _reasons(curves: Sequence[Curve]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
    table.add_column("algorithm", style="bold", overflow="fold")
    table.add_column("why it did not train, or not to the end")
    together: dict[str, list[str]] = {}  # names by reason, which may name them too
    for curve in curves:
        if curve.reason is not None:
            name = curve.contender.algorithm.name
            reason = curve.reason.removeprefix(f"algorithm={name!r} ")
            together.setdefault(reason, []).append(curve.contender.label)
    for reason, names in together.items():
        table.add_row(escape(", ".join(names)), escape(reason))
    return table


def _numbers(curve: Curve) -> list[str]:
    """Return the cells of a row in the order of the titles."""
    point = curve.points[-1]
    spent, score = point.spent, point.validation
    return [
        f"{curve.n_rounds:,}",
        f"{point.relative_loss:.1e}",
        f"{point.measurement.relative_gap:.1e}",
        *([] if score is None else [f"{score:.3f}"]),
        readable_size(spent.bytes_up + spent.bytes_down),
        f"{spent.round_trips:,.0f}",
        f"{spent.simulated_seconds:,.1f} s",
        curve.stop_reason,
    ]


def _caption(comparison: StudyComparison) -> str:
    optimum = comparison.optimum
    said = (
        "Relative loss: above the optimum of the pooled training rows, found by "
        f"{optimum.method} with a relative gap of {optimum.relative_gap:.0e}. It is a "
        "share of the optimum, the certified gap one of the present loss, so the gap "
        "may be the smaller number."
    )
    if comparison.metric is None:
        return said
    metric, rows = _METRICS[comparison.metric], counted(comparison.n_held_out, "row")
    return f"{said} Score: {metric} on {rows} set aside."
