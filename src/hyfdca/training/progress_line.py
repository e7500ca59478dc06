"""A progress line for long trainings, for programs and notebooks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from hyfdca.arrays import FloatArray
from hyfdca.maths.objective import Measurement
from hyfdca.training.interrupts import interruptible
from hyfdca.training.reports import RoundReport
from hyfdca.training.runner import Runner

_FIRST = 2.0  # seconds of training before the line appears
_ON_TERMINALS, _ELSEWHERE = 0.5, 10.0  # seconds between two updates


class ProgressLine:
    """Rewrites one line on a terminal; elsewhere writes a new line now and then.

    Parameters
    ----------
    clock : callable
        Returns seconds.
    """

    def __init__(
        self, stream: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._clock = stream, clock
        self._is_terminal = stream.isatty()
        self._due = clock() + _FIRST
        self._n_bytes = self._width = 0

    def show(self, report: RoundReport, measured: Measurement | None) -> None:
        """Count a round, and show it if an update is due.

        Parameters
        ----------
        measured : Measurement or None
            The last one, perhaps of an earlier round.
        """
        for traffic in (report.traffic, report.measuring):
            self._n_bytes += traffic.bytes_up + traffic.bytes_down
        if measured is None or self._clock() < self._due:
            return
        pause = _ON_TERMINALS if self._is_terminal else _ELSEWHERE
        self._due = self._clock() + pause
        self._write(
            f"round {report.round_number}: P {measured.primal:.6g}, certified gap "
            f"{measured.relative_gap:.1e}, {readable_size(self._n_bytes)} exchanged"
        )

    def _write(self, text: str) -> None:
        # Blanks cover the rest of a longer line.
        line = f"\r{text:<{self._width}}" if self._is_terminal else f"{text}\n"
        self._width = len(text)
        self._stream.write(line)
        self._stream.flush()

    def close(self) -> None:
        """Leave the last state of the line on a terminal."""
        if self._is_terminal and self._width:
            self._stream.write("\n")


def finish_watched(runner: Runner, verbose: bool) -> FloatArray:
    """Run the rounds that are left and return the weights.

    Ctrl-C ends the rounds cleanly, as in ``interruptible``.

    Parameters
    ----------
    verbose : bool
        Whether to show a line on standard error once training has taken two seconds.
    """
    with interruptible(runner), _shown(verbose) as show:
        for report in runner.rounds():
            show(report, runner.measurement)
        return runner.release()


@contextmanager
def _shown(
    verbose: bool,
) -> Iterator[Callable[[RoundReport, Measurement | None], None]]:
    if not verbose:
        yield lambda report, measured: None
        return
    line = ProgressLine(sys.stderr)
    try:
        yield line.show
    finally:
        line.close()


def readable_size(n_bytes: int) -> str:
    """Return a number of bytes in a suitable unit."""
    size = float(n_bytes)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
