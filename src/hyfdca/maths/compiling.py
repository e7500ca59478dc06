"""Compiled functions that are cached between runs, and shared by processes.

Numba keeps them next to the package, in the user's home or in ``NUMBA_CACHE_DIR``, and
raises if it can write to none of these. Each process then compiles for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import xxhash
from numba import njit
from numba.core.caching import IndexDataCacheFile


def _can_keep() -> bool:
    try:
        njit(cache=True)(_can_keep)  # only looks for a place; compiles nothing
    except RuntimeError:
        return False
    return True


CACHE = _can_keep()


def jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's ``njit`` with these options, cached where that is possible."""

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = njit(cache=CACHE, **options)(function)
        if CACHE:
            cache = dispatcher._cache
            cache._cache_file = _FilesByKey(  # type: ignore[no-untyped-call]
                cache._cache_path,
                cache._impl.filename_base,
                cache._cache_file._source_stamp,
            )
        return dispatcher

    return decorate


class _FilesByKey(IndexDataCacheFile):
    """Compiled code in files that are named after what they were compiled for.

    Numba numbers them. Two processes that compile the same function for different types
    at the same time then take the same number, and the index leads one of them to the
    other's code: every later call ends with a TypeError. Unique names cannot
    clash; at worst an entry of the index is lost, and its code is compiled once more.
    """

    def save(self, key: Any, data: Any) -> None:
        """Write code; the index follows, so that it never names a missing file."""
        digest = xxhash.xxh3_64_hexdigest(repr(key).encode())
        name = self._index_name.removesuffix(".nbi") + f".{digest}.nbc"
        self._save_data(name, data)  # type: ignore[no-untyped-call]
        index = {**self._load_index(), key: name}
        self._save_index(index)  # type: ignore[no-untyped-call]

    def load(self, key: Any) -> Any:
        """Return code, or None if none can be read."""
        try:
            return super().load(key)  # type: ignore[no-untyped-call]
        except Exception:  # a damaged file may raise anything: compile again
            return None

    def _load_index(self) -> dict[Any, str]:
        try:
            index: dict[Any, str] = super()._load_index()  # type: ignore[no-untyped-call]
        except Exception:  # as above; the next entry writes a new index
            return {}
        return index
