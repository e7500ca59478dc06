"""Formats numbers for people."""

from __future__ import annotations

import math

ABSENT = "–"

_LARGE, _SMALL = 1e6, 1e-4
_NEAR, _NOTHING = 0.1, 1e-9  # of an odds ratio to 1


def plain(value: float | None, digits: int = 4) -> str:
    """Return a number with some significant digits, without powers where possible."""
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return "beyond all bounds"
    size = abs(value)
    if size and not _SMALL <= size < _LARGE:
        return f"{value:.{digits - 1}e}"
    places = 0 if not size else max(digits - 1 - math.floor(math.log10(size)), 0)
    return f"{value:,.{places}f}"


def ratio(value: float | None) -> str:
    """Return an odds ratio; one beyond all bounds is null in a card.

    Near 1, digits show how far it is from there.
    """
    if value is None:
        return "beyond 1e300"
    distance = abs(value - 1.0)
    if not _NOTHING < distance < _NEAR:
        return plain(value, 3)
    return f"{value:.{1 - math.floor(math.log10(distance))}f}"


def share(value: float | None, digits: int = 1) -> str:
    """Return a share in per cent."""
    return ABSENT if value is None else f"{100 * value:.{digits}f} %"


def count(value: float | None) -> str:
    """Return a count with separators."""
    return ABSENT if value is None else f"{value:,.0f}"


def between(low: float | None, high: float | None, digits: int = 4) -> str:
    """Return an interval."""
    if low is None or high is None:
        return ABSENT
    return f"{low:.{digits}f} to {high:.{digits}f}"


def seconds(value: float | None) -> str:
    """Return a time in a suitable unit."""
    if value is None:
        return ABSENT
    if value < 1:
        return f"{1000 * value:.0f} ms"
    if value < 100:
        return f"{value:.1f} s"
    hours, rest = divmod(round(value), 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
