"""A process of its own for a benchmark that measures memory."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from typing import Any


def run_apart(work: Callable[..., None], *given: Any) -> None:
    """Run a function in a fresh process; end if it fails."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=work, args=given)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


def peak() -> float:
    """Return this process's largest resident size so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
