"""The settings of one training: the problem, and when to stop."""

from __future__ import annotations

from dataclasses import dataclass, field

from hyfdca.algorithms.registry import Choice, choose_algorithm
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.federation.algorithm import Algorithm
from hyfdca.federation.path import Path
from hyfdca.federation.problem import Problem
from hyfdca.federation.server import Federation
from hyfdca.maths.losses import Loss
from hyfdca.protocol.messages import Profile
from hyfdca.training.stopping import (
    CertifiedGap,
    PrimalStall,
    RoundLimit,
    StopRule,
    TimeLimit,
)


@dataclass(frozen=True)
class TrainingSettings:
    """Documented at the estimators; ``algorithm`` is None where it is left open."""

    loss: Loss
    l2_strength: float  # on a path the largest
    algorithm: Algorithm | None = None
    profile: Profile = "sealed"
    max_rounds: int = 1000
    tolerance: float = 1e-3
    measure_every: int = 1
    max_seconds: float | None = None
    stall_rounds: int | None = None
    encryption: Encryption = field(default_factory=Encryption)
    seed: int = 0
    free_intercept: bool = False
    has_offsets: bool = False
    path: Path | None = None

    def problem(self, n_samples: int, n_outputs: int) -> Problem:
        """Return the problem that both halves of an algorithm know."""
        return Problem(
            self.loss,
            self.l2_strength,
            n_samples,
            n_outputs,
            self.profile,
            self.free_intercept,
            self.has_offsets,
            self.path,
        )

    def choose(self, federation: Federation) -> Choice:
        """Return the algorithm for this federation, and why it was chosen."""
        return choose_algorithm(self.algorithm, federation, self.tolerance)

    def stop_rules(self) -> list[StopRule]:
        """Return the reasons to stop, the most welcome first."""
        rules: list[StopRule] = [
            CertifiedGap(self.tolerance),
            RoundLimit(self.max_rounds),
        ]
        if self.stall_rounds is not None:
            rules.append(PrimalStall(self.stall_rounds))
        if self.max_seconds is not None:
            rules.append(TimeLimit(self.max_seconds))
        return rules
