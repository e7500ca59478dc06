"""Forgets finished messages of NVFlare in one thread instead of one per message.

NVFlare remembers every message that it has received for some minutes, in case the
sender repeats it, and starts a thread for each that waits that long. Rounds with a few
messages per second led to thousands of threads and hundreds of megabytes.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from typing import Any

from nvflare.fuel.f3.streaming.byte_receiver import RxTask


class Removal:
    """The time at which a finished message is forgotten; replaces NVFlare's timer."""

    def __init__(self, task: Any) -> None:
        self._task = task

    def cancel(self) -> None:
        """Do nothing: the message was removed earlier."""
        self._task = None

    def run(self) -> None:
        """Forget the message."""
        if self._task is not None:
            self._task._remove_task()


class Remover:
    """Forgets messages when they are due."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Removal]] = []
        self._numbers = itertools.count()  # breaks ties: removals cannot be compared
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, removal: Removal) -> None:
        """Schedule a message to be forgotten after some time."""
        with self._changed:
            due = time.monotonic() + seconds
            heapq.heappush(self._due, (due, next(self._numbers), removal))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
            self._changed.notify()

    def _work(self) -> None:
        while True:
            self._next().run()

    def _next(self) -> Removal:
        with self._changed:
            while not self._due or self._due[0][0] > time.monotonic():
                left = self._due[0][0] - time.monotonic() if self._due else None
                self._changed.wait(left)
            return heapq.heappop(self._due)[2]


_remover = Remover()


def forget_in_one_thread() -> None:
    """Make NVFlare's streams in this process forget messages this way."""
    RxTask._schedule_remove_task = _schedule_removal


def _schedule_removal(task: Any, ttl: float | None = None) -> None:
    with task.stop_lock:
        if task.cleanup_timer is None:
            task.cleanup_timer = removal = Removal(task)
            _remover.after(task.completed_task_ttl if ttl is None else ttl, removal)
