"""When a training stops, and what to do if it stopped too early."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

from hyfdca.federation.algorithm import Algorithm
from hyfdca.maths.objective import Measurement
from hyfdca.model.file import StopReason
from hyfdca.runtime.driver import Traffic

_EARLY = 10  # rounds
_LATEST = 5  # measured rounds; P of a dual ascent may swing from one to the next
_ADVICE: dict[str | None, str] = {
    "round limit": "raise max_rounds, scale the features or use a larger l2",
    "time limit": "raise max_seconds, scale the features or use a larger l2",
    "stalled": (
        "the loss has stopped falling, so this algorithm may be biased on this "
        "partition; use algorithm='bundle', or raise stall_rounds"
    ),
    "interrupted": "train to the end for a smaller gap",
}


def advice_for(reason: str | None, algorithm: Algorithm | type[Algorithm]) -> str:
    """Return advice about a run that did not reach its tolerance."""
    if reason == "diverged":
        return algorithm.advice
    is_late = reason in ("round limit", "time limit")
    return _ADVICE[reason] + (algorithm.late_advice if is_late else "")


@dataclass
class Progress:
    """The progress of a training, as a checkpoint keeps it."""

    history: list[dict[str, Any]] = field(default_factory=list)
    measurement: Measurement | None = None  # the last one
    start: float = math.nan  # P of the model that is zero
    set_up_traffic: Traffic = field(default_factory=Traffic)
    seconds: float = 0.0  # spent on rounds and on measuring

    @property
    def n_rounds(self) -> int:
        """Rounds so far."""
        return len(self.history)

    @property
    def is_diverging(self) -> bool:
        """Whether the model is worse than one of zeros, after more than a few rounds.

        In the first rounds that is normal for algorithms that ascend the dual, and in
        single rounds later on: all of the latest ones must be worse.
        """
        if self.measurement is None or self.n_rounds < _EARLY:
            return False
        measured = (
            record["primal"]
            for record in reversed(self.history)
            if not math.isnan(record["primal"])
        )
        latest = (self.measurement.primal, *islice(measured, _LATEST))
        return bool(min(latest) > self.start)


class StopRule(Protocol):
    """A reason to stop."""

    @property
    def reason(self) -> StopReason:
        """The reason as recorded by the run."""
        ...

    def is_met(self, progress: Progress) -> bool:
        """Return whether to stop before the next round."""
        ...


@dataclass(frozen=True)
class CertifiedGap:
    """Stop when the certified relative gap is small enough."""

    tolerance: float
    reason: StopReason = "tolerance"

    def is_met(self, progress: Progress) -> bool:
        """Return whether the last measurement proves it."""
        measurement = progress.measurement
        return measurement is not None and measurement.relative_gap <= self.tolerance


@dataclass(frozen=True)
class RoundLimit:
    """Stop after this many rounds."""

    max_rounds: int
    reason: StopReason = "round limit"

    def is_met(self, progress: Progress) -> bool:
        """Return whether there were this many."""
        return progress.n_rounds >= self.max_rounds


@dataclass(frozen=True)
class TimeLimit:
    """Stop after this many seconds of rounds and measuring."""

    max_seconds: float
    reason: StopReason = "time limit"

    def is_met(self, progress: Progress) -> bool:
        """Return whether the time is up."""
        return progress.seconds >= self.max_seconds


@dataclass(frozen=True)
class _Lowest:
    """The lowest loss of some rounds, its round, and the last that was measured."""

    primal: float = math.inf
    round: int = 0
    last_measured: int = 0

    def after(self, record: Mapping[str, Any], share: float) -> _Lowest:
        """Return the record with one more round."""
        number, primal = record["round"], record["primal"]
        if math.isnan(primal):
            return self
        enough = self.primal - share * abs(self.primal)
        if primal < enough or math.isinf(self.primal):
            return _Lowest(primal, number, number)
        return replace(self, last_measured=number)


@dataclass
class PrimalStall:
    """Stop when the loss has not fallen by a share of itself for some rounds."""

    rounds: int
    share: float = 1e-6
    reason: StopReason = "stalled"
    # For all rounds but the last, which may still be measured; then the last of them.
    _before: _Lowest = field(default=_Lowest(), repr=False, compare=False)
    _n_before: int = field(default=0, repr=False, compare=False)
    _until: dict[str, Any] | None = field(default=None, repr=False, compare=False)

    def is_met(self, progress: Progress) -> bool:
        """Return whether the lowest loss measured is older than that."""
        if not progress.history:
            return False
        self._catch_up(progress.history)
        lowest = self._before.after(progress.history[-1], self.share)
        return lowest.last_measured - lowest.round >= self.rounds

    def _catch_up(self, history: Sequence[dict[str, Any]]) -> None:
        """Read the new rounds, or all if a checkpoint has replaced the old ones."""
        n, last = self._n_before, len(history) - 1
        if n > last or (n and history[n - 1] is not self._until):
            self._before, self._n_before = _Lowest(), 0
        for record in islice(history, self._n_before, last):
            self._before = self._before.after(record, self.share)
            self._n_before, self._until = self._n_before + 1, record


@dataclass
class Interruption:
    """Stop because the user asked for it."""

    is_asked: bool = False
    reason: StopReason = "interrupted"

    def is_met(self, progress: Progress) -> bool:
        """Return whether the user has asked."""
        return self.is_asked


def reason_to_stop(rules: Sequence[StopRule], progress: Progress) -> StopReason | None:
    """Return the reason of the first rule that is met, or None."""
    return next((rule.reason for rule in rules if rule.is_met(progress)), None)
