"""Terminal output about a run: progress while it trains, tables when it ends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hyfdca.cli.displays.coverage import column_lists, coverage_map, few_shared
from hyfdca.cli.displays.escaping import escape
from hyfdca.cli.evaluation_display import evaluation_lines
from hyfdca.study.local.run import Consortium, Run
from hyfdca.study.outcome import Summary
from hyfdca.training.progress_line import readable_size
from hyfdca.training.reports import RoundReport

_SMALLEST = 1e-12  # replaces a gap or a tolerance of zero
_LEADING = (1, 2, 5)  # a file gets a line at rounds 1, 2, 5, 10, 20, 50, ...


class Display:
    """Something on a terminal, from ``start`` to ``stop``."""

    def start(self) -> None:
        """Start the display."""

    def stop(self) -> None:
        """Restore the terminal."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class BarDisplay(Display):
    """A bar on a terminal, nothing elsewhere."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console, self._progress = console, progress

    def start(self) -> None:
        """Show the bar."""
        if self._console.is_terminal:
            self._progress.start()

    def stop(self) -> None:
        """Remove the bar."""
        if self._console.is_terminal:
            self._progress.stop()


class RoundsDisplay(Display):
    """Shows rounds as they happen: a live bar on a terminal, otherwise some lines.

    The bar is logarithmic: it is full when the gap has fallen to the tolerance.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("[bold]round {task.fields[round]:>5}"),
            BarColumn(bar_width=None),
            TextColumn("certified gap {task.fields[gap]}"),
            TimeElapsedColumn(),
            console=console,
            expand=True,
        )
        self._task = self._progress.add_task("", total=1.0, round=0, gap="-")
        self._first = self._lowest = math.inf

    def stop(self) -> None:
        """Stop the bar, if a first round has started it; it stays on screen."""
        if math.isfinite(self._first):
            self._progress.stop()

    def __call__(self, run: Run, report: RoundReport) -> None:
        """Show one round."""
        if report.measurement is None:
            return
        gap, tolerance = report.measurement.relative_gap, run.study.tol
        if not self._console.is_terminal:
            number = report.round_number
            if is_worth_a_line(range(number, number + 1)) or gap <= tolerance:
                self._console.print(f"round {number}: certified gap {gap:.1e}")
            return
        if math.isinf(self._first):
            self._first = gap
            self._progress.start()
        self._lowest = min(self._lowest, gap)  # a gap may rise again, a bar must not
        self._progress.update(
            self._task,
            completed=share_done(self._lowest, self._first, tolerance),
            round=report.round_number,
            gap=f"{gap:.1e} → {tolerance:.0e}",
        )


def share_done(gap: float, first_gap: float, tolerance: float) -> float:
    """Return how far a gap has fallen, on a logarithmic scale."""
    gap, first, goal = (max(g, _SMALLEST) for g in (gap, first_gap, tolerance))
    if first <= goal:
        return 1.0
    return min(max(math.log(first / gap) / math.log(first / goal), 0.0), 1.0)


def is_worth_a_line(rounds: range) -> bool:
    """Return whether one of these rounds deserves a line in a file."""
    return any(n / 10 ** int(math.log10(n)) in _LEADING for n in rounds)


def show(console: Console, summary: Summary) -> None:
    """Print what organisations can find out, the results, and who held what."""
    show_exposed(console, summary.exposed)
    console.print(
        results_table(summary.name, summary.result, summary.consortium.classes)
    )
    if summary.result.get("path"):
        console.print(path_table(summary.result))
    console.print(_holders(summary.consortium))
    coverage, names = summary.consortium.coverage, summary.consortium.names
    if coverage.is_held.size > 1:
        console.print(coverage_map(coverage, names))
    lines = column_lists(coverage, names, summary.consortium.columns.features)
    for line in [*few_shared(summary.consortium.columns.layout.samples, names), *lines]:
        console.print(line, markup=False)
    for note in summary.notes:
        console.print(note, soft_wrap=True, markup=False)


def show_exposed(console: Console, sentences: Sequence[str]) -> None:
    """Print what organisations can find out about each other's cells."""
    if sentences:
        console.print("What organisations can find out about each other", style="bold")
    for sentence in sentences:
        console.print(sentence, soft_wrap=True, markup=False, highlight=False)


def results_table(
    name: str, result: dict[str, Any], classes: Sequence[str] = ()
) -> Table:
    """Return the numbers of ``result.json`` as a table."""
    table = Table(title=escape(name), title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    tested = evaluation_lines(result.get("evaluation"), classes)
    for what, value in (*tested, *_fit(result), *_left_out(result)):
        table.add_row(escape(what), value)
    table.add_row("loss P(w)", f"{result['primal']:.6g}")
    algorithm = f"{result['algorithm']} ({result['algorithm_reason']})"
    table.add_row("algorithm", escape(algorithm))
    table.add_row("rounds", f"{result['rounds']:,}")
    table.add_row("round trips", f"{result['round_trips']:,.0f}")
    table.add_row("sent to the server", readable_size(result["bytes_up"]))
    table.add_row("sent to organisations", readable_size(result["bytes_down"]))
    table.add_row("encryption", result["encryption"])
    picked = result["sealed_with"]
    if len(set(picked.values())) == 1:
        picked = {"all vectors": picked["samples"]}
    for kind, scheme in picked.items():
        table.add_row(f"  {kind} sealed with", scheme)
    table.add_row("seconds from the first round on", f"{result['seconds']:.2f}")
    notes = [f"[bold yellow]{escape(result['warning'])}"] if "warning" in result else []
    if note := _loose_note(result["encryption"], set(picked.values())):
        notes.append(f"[dim]{escape(note)}")
    table.caption = "[/]\n".join(notes) or None
    table.caption_style = ""
    return table


def _loose_note(encryption: str, used: set[str]) -> str:
    """Say why vectors are sealed with another scheme than the study's, if some are."""
    others = sorted(used - {encryption})
    if not others:
        return ""
    return (
        f"Short vectors are sealed with {' and '.join(others)}, which needs fewer "
        f'bytes for them; small_vectors = "same" uses {encryption} for all.'
    )


def path_table(result: dict[str, Any]) -> Table:
    """Return how l2 was chosen, one line per l2."""
    score = result["path_score"].replace("_", " ")
    title = f"Choosing l2 by the {score} of rows left out"
    largest = math.sqrt(max(max(row["relative_gap"]) for row in result["path"]))
    caption = (
        "Differences of the means below about the square root of the gap, here "
        f"{largest:.0e} of a mean, may come from it; lower tol to tell them apart."
    )
    table = Table(
        title=title, title_justify="left", caption=caption, caption_justify="left"
    )
    for what in ("l2", "mean", "standard error", "largest gap"):
        table.add_column(what, justify="right")
    table.add_column("")
    for row in result["path"]:
        words = [w for w in ("best", "chosen") if row[f"is_{w}"]]
        numbers = (row["mean"], row["standard_error"])
        table.add_row(
            f"{row['l2']:.3g}",
            *(_number(number) for number in numbers),
            f"{max(row['relative_gap']):.1e}",
            ", ".join(words),
            style="bold" if row["is_chosen"] else "",
        )
    return table


def _number(value: float | None) -> str:
    """Return a number, or a dash where there is none, as in a file."""
    return "-" if value is None or math.isnan(value) else f"{value:.4g}"


def _fit(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield how good the model is, as far as that is known."""
    if result["relative_loss"] is not None:
        yield "loss above the pooled optimum", f"{result['relative_loss']:.3%}"
    if result.get("path"):
        yield "l2 chosen", f"{result['l2']:.3g}"
    yield "certified relative gap", f"{result['relative_gap']:.2e}"
    if result["accuracy"] is not None:
        weighted = ", weighted" * bool(result["about"].get("has_weights"))
        yield f"accuracy on the training rows{weighted}", f"{result['accuracy']:.1%}"
    if result["r_squared"] is not None:
        yield "R² on the training rows", f"{result['r_squared']:.4f}"
    if result["mean_absolute_error"] is not None:
        error = f"{result['mean_absolute_error']:.4g}"
        yield "mean absolute error, training rows", error


def _left_out(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield how many rows were not trained on, and which cells nobody had."""
    if n_cells := result["uncovered_cells"]:
        share = f"{result['uncovered_share']:.1%}"
        yield "cells that nobody holds, filled", f"{n_cells:,} ({share})"
    if n_cells := result["filled_cells"]:
        yield "blank cells filled by other holders", f"{n_cells:,}"
    if n_rows := result["rows_without_label"]:
        yield "rows without a label, left out", f"{n_rows:,}"
    if n_rows := result["rows_of_weight_zero"]:
        yield "rows of weight 0, left out", f"{n_rows:,}"


def _holders(consortium: Consortium) -> Table:
    layout = consortium.columns.layout
    samples, columns = layout.samples, layout.features
    table = Table(title="Who held what", title_justify="left")
    table.add_column("organisation", style="bold")
    for what in ("rows", "shared rows", "columns", "shared columns"):
        table.add_column(what, justify="right")
    table.add_column("labels")
    names = map(escape, consortium.names)
    each = zip(names, samples.items, columns.items, consortium.labelled, strict=True)
    for name, rows, own, has_labels in each:
        table.add_row(
            name,
            f"{len(rows):,}",
            f"{(samples.counts[rows] > 1).sum():,}",
            f"{len(own):,}",
            f"{(columns.counts[own] > 1).sum():,}",
            "yes" if has_labels else "no",
        )
    table.add_section()
    total = (f"{samples.n_items:,}", "", f"{columns.n_items:,}", "", "")
    table.add_row("total", *total)
    return table
