"""What a terminal shows of a study between machines: calm, and always up to date."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hyfdca.display import readable_size
from hyfdca.flare.status import Status, forget_status, read_status

_LOOK_EVERY = 0.5  # seconds
_SMALLEST = 1e-12  # stands for a gap or a tolerance of zero
_LEADING = (1, 2, 5)  # a file gets a line at rounds 1, 2, 5, 10, 20, 50, ...


class StudyDisplay:
    """Shows the status that the job process writes, and sentences as they come.

    A live table on a terminal, else a line now and then.
    """

    def __init__(self, console: Console, state: Path) -> None:
        self._console, self._state = console, state
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._n_told, self._last_round = 0, 0

    def __enter__(self) -> Self:
        forget_status(self._state)
        if self._console.is_terminal:
            self._live.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._look()
        if self._console.is_terminal:
            self._live.stop()

    def tell(self, sentence: str) -> None:
        """Say something, above what is live."""
        self._console.print(Text(sentence), soft_wrap=True)

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_EVERY):
            self._look()

    def _look(self) -> None:
        status = read_status(self._state)
        if status is None:
            return
        for sentence in status.sentences[self._n_told :]:
            self.tell(sentence)
        self._n_told = len(status.sentences)
        if self._console.is_terminal:
            self._live.update(status_table(status), refresh=True)
        else:
            self._say(status)

    def _say(self, status: Status) -> None:
        """Print a line for rounds worth one, if there was one since the last look."""
        passed = range(self._last_round + 1, status.round + 1)
        self._last_round = status.round
        if any(n / 10 ** int(math.log10(n)) in _LEADING for n in passed):
            gap = "-" if status.gap is None else f"{status.gap:.1e}"
            self.tell(f"round {status.round}: certified gap {gap}")


def status_table(status: Status) -> Table:
    """Return a status for people."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    table.add_row("round", f"{status.round:,} of at most {status.max_rounds:,}")
    if status.gap is not None:
        table.add_row("certified gap", f"{status.gap:.1e} → {status.tolerance:.0e}")
    table.add_row("there", escape(", ".join(status.present)) or "-")
    if status.missing:
        table.add_row("missing", escape(", ".join(status.missing)), style="yellow")
    up, down = readable_size(status.bytes_up), readable_size(status.bytes_down)
    table.add_row("sent", f"{up} up, {down} down")
    table.add_row("time", f"{_duration(status.seconds)}{_left(status)}")
    return table


def seconds_left(status: Status) -> float | None:
    """Return the time left if the gap goes on falling as it did lately.

    It falls by about the same factor a second; none where it does not fall.
    """
    if len(status.gaps) < 3:
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


def _left(status: Status) -> str:
    left = seconds_left(status)
    return "" if left is None else f", about {_duration(left)} left by the trend"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
