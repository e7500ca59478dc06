"""Processes that run parts of a study side by side."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

from hyfdca.runtime.parents import end_with


def worker_pool(n_processes: int) -> ProcessPoolExecutor:
    """Return fresh processes, which end with this one even if it is killed."""
    return ProcessPoolExecutor(
        n_processes,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=end_with,
        initargs=(os.getpid(),),
    )
