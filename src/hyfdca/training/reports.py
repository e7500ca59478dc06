"""What a round did and cost, as it is reported and recorded."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from hyfdca.maths.objective import Measurement
from hyfdca.runtime.driver import Traffic


@dataclass(frozen=True)
class RoundReport:
    """What a round did and cost; measuring is counted separately and not timed."""

    round_number: int
    participants: tuple[int, ...]
    seconds: float
    traffic: Traffic
    measuring: Traffic
    measurement: Measurement | None
    validation: dict[str, float] | None = None  # the loss of rows set aside

    def as_record(self) -> dict[str, Any]:
        """Return the report as one flat record of a history."""
        return {
            "round": self.round_number,
            **objectives(self.measurement),
            "seconds": self.seconds,
            **asdict(self.traffic),
            **cost_of_measuring(self.measuring),
            "participants": self.participants,
            **(self.validation or {}),
        }


def objectives(measured: Measurement | None) -> dict[str, float]:
    """Return P, D and their gaps for a record; NaN if not measured."""
    bound = None if measured is None else measured.dual
    return {
        "primal": math.nan if measured is None else measured.primal,
        "dual": math.nan if bound is None else bound,
        "gap": math.nan if measured is None else measured.gap,
        "relative_gap": math.nan if measured is None else measured.relative_gap,
    }


def cost_of_measuring(traffic: Traffic) -> dict[str, float]:
    """Return the traffic of measuring for a record."""
    return {f"measuring_{name}": cost for name, cost in asdict(traffic).items()}
