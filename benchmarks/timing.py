"""A stopwatch for benchmarks: the shortest of a few repetitions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def shortest(work: Callable[[], T], repetitions: int = 3) -> tuple[float, T]:
    """Return the shortest time of some repetitions, and the last result."""
    best = float("inf")
    for _ in range(repetitions):
        started = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - started)
    return best, result
