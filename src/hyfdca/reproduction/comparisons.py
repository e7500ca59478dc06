"""Counts the comparisons in which HyFDCA is ahead of its rivals, as the paper does.

A comparison is one setting, one rival, one clock (equal rounds, or equal seconds) and
one measure (the final loss is lower, or the final accuracy is higher). The paper's 72
are those of the nine settings that it shows.

Final means the last value of the smoothed curve, which is what its figures show: the
mean over the last window of the moving average.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from hyfdca.arrays import FloatArray
from hyfdca.reproduction.paper import (
    DIAGONAL,
    METHODS,
    Clock,
    Measure,
    Method,
    Setting,
)
from hyfdca.reproduction.smoothing import moving_average

OURS: Method = "hyfdca"
RIVALS = tuple(method for method in METHODS if method != OURS)
CLOCKS: tuple[Clock, ...] = get_args(Clock)
MEASURES: tuple[Measure, ...] = get_args(Measure)


@dataclass(frozen=True)
class Final:
    """The final values of a run; NaN, or an infinite loss, if it diverged.

    Parameters
    ----------
    loss : float
        Relative to the optimum or not: that does not change which of two is lower.
    """

    loss: float
    accuracy: float

    @classmethod
    def of(cls, losses: FloatArray, accuracies: FloatArray, window: int) -> Final:
        """Return the means of the last measured values, of all if there are fewer."""
        if window < 1:
            raise ValueError(f"a window has at least one value, not {window}")
        return cls(_last_mean(losses, window), _last_mean(accuracies, window))


RunKey = tuple[Setting, Method, Clock]


@dataclass(frozen=True)
class Comparison:
    """HyFDCA and a rival, by one measure; None for a missing run."""

    setting: Setting
    rival: Method
    clock: Clock
    measure: Measure
    ours: float | None
    theirs: float | None

    @property
    def is_won(self) -> bool | None:
        """Whether HyFDCA is strictly better; None if one of the two was not run.

        NaN, of a run that diverged, is worse than any number, and equal to an infinite
        loss.
        """
        if self.ours is None or self.theirs is None:
            return None
        if self.measure == "loss":
            return _or_worst(self.ours, math.inf) < _or_worst(self.theirs, math.inf)
        return _or_worst(self.ours, -math.inf) > _or_worst(self.theirs, -math.inf)


@dataclass(frozen=True)
class Count:
    """How many comparisons were won, and how many made; ties are not won.

    Parameters
    ----------
    n_missing : int
        Comparisons that could not be made; they are not in ``n_made``.
    """

    n_won: int
    n_made: int
    n_missing: int

    @classmethod
    def of(cls, comparisons: Iterable[Comparison]) -> Count:
        """Count comparisons."""
        outcomes = [comparison.is_won for comparison in comparisons]
        n_missing = outcomes.count(None)
        return cls(outcomes.count(True), len(outcomes) - n_missing, n_missing)


def compare_finals(
    finals: Mapping[RunKey, Final | None], settings: Sequence[Setting] = DIAGONAL
) -> list[Comparison]:
    """Return all comparisons of some settings: eight per setting.

    Parameters
    ----------
    finals : mapping
        The final values of runs; None, or missing, for runs that were not made.
    settings : sequence of Setting
        By default the paper's own nine; ``paper.SETTINGS`` are all 27.
    """
    return [
        Comparison(
            setting,
            rival,
            clock,
            measure,
            _value(finals.get((setting, OURS, clock)), measure),
            _value(finals.get((setting, rival, clock)), measure),
        )
        for setting in settings
        for rival in RIVALS
        for clock in CLOCKS
        for measure in MEASURES
    ]


def counts_by_clock(comparisons: Iterable[Comparison]) -> dict[Clock, Count]:
    """Return the counts at equal rounds and at equal seconds."""
    listed = list(comparisons)
    return {c: Count.of(row for row in listed if row.clock == c) for c in CLOCKS}


def _last_mean(values: FloatArray, window: int) -> float:
    last = values[-window:]
    return float(moving_average(last, len(last))[0])


def _value(final: Final | None, measure: Measure) -> float | None:
    if final is None:
        return None
    return final.loss if measure == "loss" else final.accuracy


def _or_worst(value: float, worst: float) -> float:
    return worst if math.isnan(value) else value
