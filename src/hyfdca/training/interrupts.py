"""Ctrl-C during a training: the first ends it cleanly, the second at once."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hyfdca.training.runner import Runner

_DEFAULT = signal.default_int_handler  # raises KeyboardInterrupt
_HINT = "\nEnding after this round; press Ctrl-C again to abort at once.\n"


@contextmanager
def interruptible(runner: Runner) -> Iterator[None]:
    """Let the first Ctrl-C in this context end the training after its round.

    The training then has a certified model, and its stop reason is "interrupted". A
    second Ctrl-C raises ``KeyboardInterrupt``, and so does one before the start has
    been measured. Only the main thread receives signals. A handler that the
    surrounding program has installed stays in place.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not _DEFAULT:
        yield
        return

    def end_in_order(*_: object) -> None:
        signal.signal(signal.SIGINT, _DEFAULT)
        if runner.measurement is None:
            raise KeyboardInterrupt
        runner.interruption.is_asked = True
        with contextlib.suppress(RuntimeError):  # in the middle of another write
            sys.stderr.write(_HINT)

    signal.signal(signal.SIGINT, end_in_order)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _DEFAULT)
