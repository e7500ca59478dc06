"""Terminal output about benchmarks: progress meanwhile, a table at the end."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from hyfdca.bench.crypto import EXTRA, PAPER, Cost, CostComparison
from hyfdca.bench.subjects import LIBRARIES, SCHEMES
from hyfdca.cli.displays.run import BarDisplay


class MeasuringDisplay(BarDisplay):
    """Shows the current measurement: a bar on a terminal, otherwise lines."""

    def __init__(self, console: Console) -> None:
        # Drawn only on request: a drawing thread would be measured too.
        progress = Progress(
            TextColumn("measuring {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=console,
            auto_refresh=False,
            transient=True,
        )
        super().__init__(console, progress)
        self._task = self._progress.add_task("", total=len(SCHEMES) + len(LIBRARIES))
        self._n_shown = 0

    def __call__(self, name: str) -> None:
        """Show what is measured next."""
        if self._console.is_terminal:
            self._progress.update(
                self._task, description=name, completed=self._n_shown, refresh=True
            )
        else:
            self._console.print(f"measuring {name}", highlight=False)
        self._n_shown += 1


def comparison_table(comparison: CostComparison) -> Table:
    """Return a table with rows for the paper, each library and each scheme."""
    table = Table(title="Encryption, cost of one value", title_justify="left")
    table.add_column("scheme", style="bold", no_wrap=True)
    for name in ("encrypt", "decrypt", "add", "bytes", "times faster\nthan phe"):
        table.add_column(name, justify="right")
    times = [PAPER[key] for key in ("encrypt_ns", "decrypt_ns", "add_ns")]
    table.add_row("the paper's estimate", *map(readable, times), "", "")
    phe = comparison.libraries.get("phe")
    table.add_section()
    for name, cost in comparison.libraries.items():
        _add(table, name, cost, phe)
    table.add_section()
    for name, cost in comparison.schemes.items():
        _add(table, name, cost, phe)
    table.caption = "Times faster: encrypting and decrypting together."
    if any(name.endswith("-pooled") for name in comparison.schemes):
        table.caption += " Pooled: blinding is prepared in advance, not counted."
    return table


def missing_message(comparison: CostComparison) -> str:
    """Return what to install for a complete table, or an empty text."""
    if not comparison.missing:
        return ""
    names = " and ".join(comparison.missing)
    return f'Not measured because not installed: {names}; pip install "{EXTRA}".'


def _add(table: Table, name: str, cost: Cost | None, phe: Cost | None) -> None:
    if cost is None:
        table.add_row(name, "missing")
        return
    faster = "" if phe is None else _times(_both(phe) / _both(cost))
    times = map(readable, (cost.encrypt_ns, cost.decrypt_ns, cost.add_ns))
    table.add_row(name, *times, f"{cost.bytes:.1f}", faster)


def _both(cost: Cost) -> float:
    return cost.encrypt_ns + cost.decrypt_ns


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def readable(nanoseconds: float) -> str:
    """Return a time in a suitable unit."""
    for unit in ("ns", "µs", "ms"):
        if nanoseconds < 1000:
            return f"{nanoseconds:.3g} {unit}"
        nanoseconds /= 1000
    return f"{nanoseconds:.3g} s"
