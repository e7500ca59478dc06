"""Terminal output about a study between machines: calm, and always up to date."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path

from rich.console import Console, ConsoleRenderable
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from hyfdca.cli.displays.run import Display, is_worth_a_line, share_done
from hyfdca.flare.status import Status, read_status
from hyfdca.training.progress_line import readable_size

_LOOK_EVERY = 0.5  # seconds
_SMALLEST = 1e-12  # replaces a gap or a tolerance of zero
_FEWEST_GAPS = 3  # needed for a trend
_BAR_WIDTH = 30


class StudyDisplay(Display):
    """Shows the status that the job process writes, and sentences as they arrive.

    On a terminal it is a live table, otherwise occasional lines.
    """

    def __init__(self, console: Console, state: Path) -> None:
        self._console, self._state = console, state
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._spinner = Spinner("dots", style="bold")
        self._doing = "no rounds yet"
        self._seen: Status | None = None
        self._status: Status | None = None  # None while something else is shown
        self._printed, self._last_round, self._first_gap = ("", 0), 0, 0.0
        self._started = time.monotonic()
        self._live = Live(
            console=console,
            refresh_per_second=8,  # of the spinner; the table changes less often
            transient=True,
            get_renderable=self._shown,
        )

    def start(self) -> None:
        """Watch for a new status; one that exists already is of an earlier run."""
        self._seen = read_status(self._state)
        if self._console.is_terminal:
            self._live.start()
        self._thread.start()

    def stop(self) -> None:
        """Check once more, then restore the terminal."""
        self._is_over.set()
        self._thread.join()
        self._look()
        if self._console.is_terminal:
            self._live.stop()

    def tell(self, sentence: str) -> None:
        """Print a sentence above the live display."""
        # Lines in a file stay whole; on a terminal they wrap between words.
        self._console.print(Text(sentence), soft_wrap=not self._console.is_terminal)

    def doing(self, what: str) -> None:
        """Show a long step before or after the rounds."""
        self._status = None
        self._doing = what
        if self._live.is_started:
            self._live.refresh()

    def _shown(self) -> ConsoleRenderable:
        elapsed = time.monotonic() - self._started
        if self._status is None:
            self._spinner.update(text=f"{self._doing} ({_duration(elapsed)})")
            return self._spinner
        return status_table(self._status, self._first_gap, elapsed)

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_EVERY):
            self._look()

    def _look(self) -> None:
        status = read_status(self._state)
        if status is None or status == self._seen:
            return
        self._seen = status
        self._tell_new(status)
        if status.round or status.present:
            self._status = status
            self._first_gap = max(self._first_gap, status.gap or 0.0)
        if not self._console.is_terminal:
            self._say(status)

    def _tell_new(self, status: Status) -> None:
        """Print sentences not printed yet; each job process counts from one."""
        writer, number = self._printed
        n_new = status.n_sentences - (number if writer == status.writer else 0)
        for sentence in status.sentences[-n_new:] if n_new > 0 else ():
            self.tell(sentence)
        self._printed = status.writer, status.n_sentences

    def _say(self, status: Status) -> None:
        """Print a line if a round since the last check deserves one."""
        passed = range(self._last_round + 1, status.round + 1)
        self._last_round = status.round
        if is_worth_a_line(passed):
            gap = "-" if status.gap is None else f"{status.gap:.1e}{_when(status)}"
            self.tell(f"round {status.round}: certified gap {gap}")


def status_table(status: Status, first_gap: float, elapsed: float) -> Table:
    """Return a status as a table.

    Parameters
    ----------
    first_gap : float
        Where the bar starts; it is full when the gap has reached the tolerance.
    elapsed : float
        Seconds since the display started.
    """
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    table.add_row("round", f"{status.round:,} of at most {status.max_rounds:,}")
    table.add_row("certified gap", _gap(status, first_gap))
    table.add_row("present", Text(", ".join(status.present) or "nobody yet"))
    if status.missing:
        table.add_row("missing", Text(", ".join(status.missing)), style="yellow")
    up, down = readable_size(status.bytes_up), readable_size(status.bytes_down)
    table.add_row("sent", f"{up} to the server, {down} to organisations")
    table.add_row("time", f"{_duration(elapsed)}{_left(status)}")
    return table


def seconds_left(status: Status) -> float | None:
    """Return the time left if the gap continues to fall as it did recently.

    It falls by about the same factor per second. Returns None if it does not fall.
    """
    if len(status.gaps) < _FEWEST_GAPS:
        return None
    logs = [(s, math.log(max(gap, _SMALLEST))) for s, gap in status.gaps]
    n = len(logs)
    mean_s, mean_log = (sum(column) / n for column in zip(*logs, strict=True))
    spread = sum((s - mean_s) ** 2 for s, _ in logs)
    along = sum((s - mean_s) * (value - mean_log) for s, value in logs)
    slope = along / spread if spread > 0 else 0.0
    if slope >= 0:
        return None
    to_fall = math.log(max(status.tolerance, _SMALLEST)) - logs[-1][1]
    return max(to_fall / slope, 0.0)


def _gap(status: Status, first_gap: float) -> Table | str:
    if status.gap is None:
        return "not measured yet"
    done = share_done(status.gap, first_gap, status.tolerance)
    row = Table.grid(padding=(0, 2))
    row.add_row(
        f"{status.gap:.1e}{_when(status)} → {status.tolerance:.0e}",
        ProgressBar(total=1.0, completed=done, width=_BAR_WIDTH),
    )
    return row


def _when(status: Status) -> str:
    """Return when the gap was measured, if not in the last round."""
    is_old = status.measured < status.round
    return f" (of round {status.measured})" if is_old else ""


def _left(status: Status) -> str:
    if status.gap is not None and status.gap <= status.tolerance:
        return ", tolerance reached; all parties receive the model"
    left = seconds_left(status)
    return "" if left is None else f", about {_duration(left)} left at this rate"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
