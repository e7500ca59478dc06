"""The machine's cores, and how our programs use its memory."""

from __future__ import annotations

import contextlib
import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # for glibc's mallopt
_KEPT = 1 << 30  # bytes


def n_cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def keep_memory() -> None:
    """Reuse freed memory instead of returning it to the system.

    Every exchange allocates and frees messages and vectors of some megabytes. By
    default glibc lets the system clear each of them again, which took half of the
    server's time. For programs, not for libraries: it affects the whole process.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        glibc = ctypes.CDLL("libc.so.6")
        glibc.mallopt(_MMAP_THRESHOLD, _KEPT)
        glibc.mallopt(_TRIM_THRESHOLD, _KEPT)
