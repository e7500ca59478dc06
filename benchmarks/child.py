"""A separate process for a benchmark that measures memory."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
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
    """Return this process's largest resident size so far, in GB.

    Only on Linux: other systems include the process that started this.
    """
    return _memory("VmHWM")


def resident() -> float:
    """Return this process's resident size now, in GB."""
    return _memory("VmRSS")


def _memory(kind: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    [line] = [line for line in lines if line.startswith(kind)]
    return int(line.split()[1]) * 1024 / 1e9
