"""What this machine has, and how its memory is best used by a program of ours."""

from __future__ import annotations

import contextlib
import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
_KEPT = 1 << 30  # bytes


def n_cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def keep_memory() -> None:
    """Have memory that was freed used again, not given back to the system.

    Messages and vectors of some megabytes come and go with every exchange; glibc would
    have the system clear each of them anew, which took half of the server's time. For
    programs, not for libraries: it holds for the whole process.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        glibc = ctypes.CDLL("libc.so.6")
        glibc.mallopt(_MMAP_THRESHOLD, _KEPT)
        glibc.mallopt(_TRIM_THRESHOLD, _KEPT)
