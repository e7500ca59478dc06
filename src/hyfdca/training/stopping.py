"""When a training stops, and what to do if it stopped too early."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hyfdca.federation.algorithm import Algorithm
from hyfdca.maths.objective import Measurement
from hyfdca.model.file import StopReason
from hyfdca.runtime.driver import Traffic

_EARLY = 10  # rounds
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
    """Return what to do about a run that did not reach its tolerance."""
    if reason == "diverged":
        return algorithm.advice
    is_late = reason in ("round limit", "time limit")
    return _ADVICE[reason] + (algorithm.late_advice if is_late else "")


@dataclass
class Progress:
    """How far a training has got; what a checkpoint keeps of it."""

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

        In the first rounds that is normal for algorithms that ascend the dual.
        """
        if self.measurement is None or self.n_rounds < _EARLY:
            return False
        return self.measurement.primal > self.start


class StopRule(Protocol):
    """A reason to stop."""

    @property
    def reason(self) -> StopReason:
        """What the run says it stopped for."""
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
        """Return whether there were as many."""
        return progress.n_rounds >= self.max_rounds


@dataclass(frozen=True)
class TimeLimit:
    """Stop after this many seconds of rounds and measuring."""

    max_seconds: float
    reason: StopReason = "time limit"

    def is_met(self, progress: Progress) -> bool:
        """Return whether they are over."""
        return progress.seconds >= self.max_seconds


@dataclass(frozen=True)
class PrimalStall:
    """Stop when the loss has not fallen by a share of itself for some rounds."""

    rounds: int
    share: float = 1e-6
    reason: StopReason = "stalled"

    def is_met(self, progress: Progress) -> bool:
        """Return whether the lowest loss measured is older than that."""
        measured = [
            (record["round"], record["primal"])
            for record in progress.history
            if not math.isnan(record["primal"])
        ]
        lowest, since = math.inf, 0
        for number, primal in measured:
            if primal < lowest - self.share * abs(lowest) or math.isinf(lowest):
                lowest, since = primal, number
        return bool(measured) and measured[-1][0] - since >= self.rounds


@dataclass
class Interruption:
    """Stop because the user asked for it."""

    is_asked: bool = False
    reason: StopReason = "interrupted"

    def is_met(self, progress: Progress) -> bool:
        """Return whether the user has asked."""
        return self.is_asked


def reason_to_stop(rules: Sequence[StopRule], progress: Progress) -> StopReason | None:
    """Return the reason of the first rule that is met, or none."""
    return next((rule.reason for rule in rules if rule.is_met(progress)), None)
