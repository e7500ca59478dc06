"""How many cases a test runs: a sample of them, or all with ``make thorough``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

_PROFILE = os.environ.get("HYFDCA_TEST_PROFILE")
IS_QUICK = _PROFILE == "quick"  # make check
IS_THOROUGH = _PROFILE == "thorough"


def sampled(cases: Iterable[T], every: int, start: int = 0) -> list[T]:
    """Return all cases, or one in ``every`` where the code is one path for all."""
    listed = list(cases)
    return listed if IS_THOROUGH else listed[start % every :: every]


def examples(most: int) -> int:
    """Return how many examples a test tries: all, or about a fifth, at least four."""
    return most if IS_THOROUGH else max(most // 5, min(most, 4))
