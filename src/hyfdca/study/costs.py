"""What a study cost, stage by stage: seconds, bytes and round trips."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields

from hyfdca.runtime.driver import Traffic


@dataclass
class StageCost:
    """What one stage cost.

    Parameters
    ----------
    seconds : float or None
        None if it was replayed after a restart, which takes hardly any time.
    """

    traffic: Traffic = field(default_factory=Traffic)
    seconds: float | None = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add the time that this context takes."""
        started = time.perf_counter()
        yield
        self.seconds = (self.seconds or 0.0) + time.perf_counter() - started


StageCosts = dict[str, StageCost]


def forget_times(costs: StageCosts) -> None:
    """Mark the stages as replayed."""
    for cost in costs.values():
        cost.seconds = None


def total_traffic(parts: Iterable[Traffic]) -> Traffic:
    """Return the sum of several traffics."""
    total = Traffic()
    for part in parts:
        for own in fields(Traffic):
            sum_ = getattr(total, own.name) + getattr(part, own.name)
            setattr(total, own.name, sum_)
    return total
