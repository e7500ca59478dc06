"""How a study ended, in one sentence that every party reads."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.model.file import ModelFile, StopReason
from hyfdca.training.stopping import advice_for


@dataclass(frozen=True)
class Ending:
    """Whether the model is as exact as requested, and if not, why not.

    Parameters
    ----------
    relative_gap : float
        The model's certified gap. If l2 was chosen, other fits may have larger ones.
    tolerance : float
        The requested tolerance.
    algorithm : str
        The algorithm's name.
    """

    stop_reason: StopReason
    n_rounds: int
    relative_gap: float
    tolerance: float
    algorithm: str

    @property
    def is_converged(self) -> bool:
        """Whether the gap reached the tolerance."""
        return self.stop_reason == "tolerance"

    @property
    def warning(self) -> str | None:
        """One sentence with advice if it did not, else None."""
        if self.is_converged:
            return None
        tolerance = f"above tol = {self.tolerance:g}"
        if self.relative_gap <= self.tolerance:
            tolerance = f"but fits that chose l2 are {tolerance}"
        return (
            f"Not converged: stopped ({self.stop_reason}) after {self.n_rounds} rounds "
            f"at a certified relative gap of {self.relative_gap:.2g}, {tolerance}; "
            f"{advice_for(self.stop_reason, ALGORITHMS[self.algorithm])}."
        )

    @property
    def sentence(self) -> str:
        """The warning, or a sentence about success."""
        return self.warning or (
            f"Converged after {self.n_rounds} rounds at a certified relative gap of "
            f"{self.relative_gap:.2g}."
        )


def ending_of(model: ModelFile, tolerance: float) -> Ending:
    """Return how the training of a model ended."""
    training, gap = model.training, model.certificate.relative_gap
    return Ending(
        training.stop_reason,
        training.rounds,
        math.inf if gap is None else gap,  # JSON has no infinity
        tolerance,
        training.algorithm,
    )
