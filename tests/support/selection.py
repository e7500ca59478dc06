"""Which cases of tests are run: by ``make check`` the fewest, by ``thorough`` all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from zlib import crc32

import pytest

from tests.support.thoroughness import IS_QUICK, IS_THOROUGH

_MANY, _QUICK_SHARE = 4, 4  # with as many cases, make check runs a quarter


def selected(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], ...]:
    """Return the tests to run and those to leave out.

    ``sampled(n)`` keeps one in n cases. Where n has no divisor in common with the
    lengths of a test's axes, the cases that remain have every value of every axis.
    """
    if IS_THOROUGH:
        return list(items), []
    kept, left_out = _sampled(items)
    if IS_QUICK:
        kept, more = _quick(kept)
        left_out += more
    return kept, left_out


def _sampled(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], ...]:
    met: Counter[str] = Counter()
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("sampled")
        every = mark.args[0] if mark else 1
        function = _function(item)
        is_left_out = met[function] % every or item.get_closest_marker("thorough")
        (left_out if is_left_out else kept).append(item)
        met[function] += 1
    return kept, left_out


def _quick(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], ...]:
    """Keep the first case of each test and, if it has many, a quarter of the others.

    By a hash of their names, so that no axis of a test can keep in step with it.
    """
    n_cases = Counter(map(_function, items))
    met: set[str] = set()
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        function = _function(item)
        is_one_of_many = function in met and n_cases[function] >= _MANY
        is_left_out = is_one_of_many and crc32(item.nodeid.encode()) % _QUICK_SHARE
        (left_out if is_left_out else kept).append(item)
        met.add(function)
    return kept, left_out


def _function(item: pytest.Item) -> str:
    """Return the name of a test without that of its case."""
    return item.nodeid.partition("[")[0]
