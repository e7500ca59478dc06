"""The paper's seven criteria for choosing hyperparameters, from a run's curve.

A curve may be measured only in every m-th round. Then
- the mean time of a round is still that of all rounds, because times are totals;
- the last five losses are the last five measured, so they span more rounds;
- the highest accuracy and 90 % of the progress may have been reached up to m - 1 rounds
  before a measured round shows it;
- differences of losses, and so the volatility, are those of m rounds. They are not
  scaled: a trend would grow with m, noise would not.
Compare runs only if they are measured in the same rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import ClassVar

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.reproduction.paper import LATENCIES

_N_LAST = 5  # losses whose mean is the final loss
_LEFT = 0.1  # of the way from the first loss to the lowest, after 90 % progress


@dataclass(frozen=True)
class RunCurve:
    """The measurements of a run; all arrays have a value per measured round.

    Parameters
    ----------
    rounds : array
        Numbers of the measured rounds, ascending; the first is the start, usually 0.
    losses, accuracies : array
        The loss on the training rows, the accuracy on the validation rows.
    seconds : array
        Total time up to the round, without latency. The paper adds encryption to the
        time of its runs; here it counts if the caller has added it.
    """

    rounds: IntArray
    losses: FloatArray
    accuracies: FloatArray
    seconds: FloatArray

    def __post_init__(self) -> None:
        columns = (self.rounds, self.losses, self.accuracies, self.seconds)
        if len({column.shape for column in columns}) > 1 or self.rounds.ndim != 1:
            raise ValueError("a curve needs as many values of each kind as rounds")
        if len(self.rounds) < 2 or not np.all(np.diff(self.rounds) > 0):
            raise ValueError("a curve needs at least two rounds, in ascending order")

    @property
    def final_loss(self) -> float:
        """The mean of the last five losses, or of all if there are fewer."""
        with np.errstate(over="ignore"):  # of a divergent run
            return float(np.mean(self.losses[-_N_LAST:]))

    @property
    def is_divergent(self) -> bool:
        """Whether a loss is not finite, or the final loss is not below the first.

        The paper excludes divergent runs without saying what they are. A run that ends
        exactly where it started counts too: it has no progress to reach 90 % of.
        """
        if not np.isfinite(self.losses).all():
            return True
        return not self.final_loss < self.losses[0]


@dataclass(frozen=True)
class Criteria:
    """The paper's seven criteria, in its order.

    Parameters
    ----------
    seconds_nearby, seconds_far, seconds_by_satellite : float
        The mean time of a round at each of the paper's three latencies.
    final_loss : float
        The mean of the last five losses.
    best_accuracy : float
    volatility : float
        The standard deviation of the differences of consecutive losses.
    rounds_to_progress : float
        The first measured round with 90 % of the reduction from the first loss to the
        lowest.
    """

    seconds_nearby: float
    seconds_far: float
    seconds_by_satellite: float
    final_loss: float
    best_accuracy: float
    volatility: float
    rounds_to_progress: float

    MAXIMISED: ClassVar[tuple[bool, ...]] = (*4 * (False,), True, False, False)


def criteria_of(curve: RunCurve, round_trips: float) -> Criteria | None:
    """Return the criteria of a run, or None if it is divergent.

    Parameters
    ----------
    round_trips : float
        Round trips per round; see ``paper.ROUND_TRIPS``.
    """
    if curve.is_divergent:
        return None
    nearby, far, by_satellite = (
        _seconds_per_round(curve) + round_trips * latency for latency in LATENCIES
    )
    return Criteria(
        nearby,
        far,
        by_satellite,
        curve.final_loss,
        float(np.max(curve.accuracies)),
        float(np.std(np.diff(curve.losses))),
        _rounds_to_progress(curve),
    )


def criteria_table(runs: Sequence[Criteria | None]) -> FloatArray:
    """Return a row per run, for ``gray.choose``; NaN for divergent runs."""
    n_criteria = len(Criteria.MAXIMISED)
    left_out = (np.nan,) * n_criteria
    rows = [left_out if run is None else astuple(run) for run in runs]
    return np.array(rows, dtype=np.float64).reshape(-1, n_criteria)


def _seconds_per_round(curve: RunCurve) -> float:
    """Return the mean over the rounds after the start; its set-up does not count."""
    seconds = curve.seconds[-1] - curve.seconds[0]
    return float(seconds / (curve.rounds[-1] - curve.rounds[0]))


def _rounds_to_progress(curve: RunCurve) -> float:
    first, lowest = curve.losses[0], curve.losses.min()
    enough = lowest + _LEFT * (first - lowest)  # never below the lowest by rounding
    return float(curve.rounds[np.argmax(curve.losses <= enough)])
