"""The machine's cores, memory and limits, and how our programs use them."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # for glibc's mallopt
_KEPT = 1 << 30  # bytes


def n_cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not available on every system
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def write_no_core_files() -> None:
    """Prevent core files of this process and of those it starts.

    A core file would have keys and rows in it.
    """
    with contextlib.suppress(ImportError):  # not available on every system
        import resource  # noqa: PLC0415

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def allow_many_files() -> None:
    """Raise the number of files this process may have open as far as is allowed.

    Every connection is one, also of strangers who only connect: at the usual limit of
    1,024 they would keep everybody else out.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def keep_memory() -> None:
    """Reuse freed memory instead of returning it to the system.

    Every exchange allocates and frees messages and vectors of some megabytes. By
    default glibc lets the system clear each of them again, which took half of the
    server's time. For programs, not for libraries: it affects the whole process.
    """
    _set_malloc({_MMAP_THRESHOLD: _KEPT, _TRIM_THRESHOLD: _KEPT})


def collect_often() -> None:
    """Collect garbage after fewer new objects; call this after start-up.

    A full collection waits until a quarter of all objects are new. The libraries alone
    are some hundred thousand objects, so messages that refer to themselves would stay
    for hundreds of rounds. What exists now is no longer counted.
    """
    gc.collect()
    gc.freeze()


def share_memory() -> None:
    """Let all threads reuse memory that others have freed.

    By default glibc gives them up to eight arenas per core, and each arena keeps what
    its threads have freed. Call this before threads are started.
    """
    _set_malloc({_ARENA_MAX: 1})


def _set_malloc(settings: dict[int, int]) -> None:
    with contextlib.suppress(OSError, AttributeError):  # another C library
        glibc = ctypes.CDLL("libc.so.6")
        for name, value in settings.items():
            glibc.mallopt(name, value)
