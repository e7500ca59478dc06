"""Processes that run parts of a study side by side."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self, TypeVar

from hyfdca.runtime.parents import end_with

K = TypeVar("K")
T = TypeVar("T")


class Workers(AbstractContextManager["Workers"]):
    """A number of fresh processes, or this one if the number is 1.

    They serve a study from beginning to end, so that each loads a table once. They end
    with this process even if it is killed. Within the context, SIGTERM ends them at
    once, and then this process cleanly, with the exit code of that signal.
    """

    def __init__(self, n_processes: int) -> None:
        self.n_processes = n_processes
        self._others = set(multiprocessing.active_children())
        self._pool = None if n_processes == 1 else _pool(n_processes)
        self._has_handler = False

    def __enter__(self) -> Self:
        is_main = threading.current_thread() is threading.main_thread()
        # A handler that the surrounding program has installed stays in place.
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _exit)
            self._has_handler = True
        return self

    def submit(self, function: Callable[..., T], *given: Any) -> Future[T]:
        """Call a function in a free process, or here and now."""
        if self._pool is not None:
            return self._pool.submit(function, *given)
        done: Future[T] = Future()
        done.set_result(function(*given))
        return done

    def side_by_side(
        self, function: Callable[..., T], calls: Mapping[K, tuple[Any, ...]]
    ) -> Iterator[tuple[K, T]]:
        """Return the results of calls by their keys, in the order in which they end."""
        if self._pool is None:
            yield from ((key, function(*own)) for key, own in calls.items())
            return
        running = {self.submit(function, *own): key for key, own in calls.items()}
        for ended in as_completed(running):
            yield running[ended], ended.result()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for what is running; start nothing else."""
        try:
            if isinstance(error, _Terminated):
                self._terminate()
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=error is not None)
        finally:
            if self._has_handler:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _terminate(self) -> None:
        """End the processes, whatever they are doing."""
        for process in set(multiprocessing.active_children()) - self._others:
            process.terminate()


class _Terminated(SystemExit):
    """SIGTERM, as an exception that ends everything cleanly."""


def _exit(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is ending already
    raise _Terminated(128 + signal.SIGTERM)


def _pool(n_processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        n_processes,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=end_with,
        initargs=(os.getpid(),),
    )
