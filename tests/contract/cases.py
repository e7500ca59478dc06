"""One small problem, on which every algorithm of the registry is run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.federation.algorithm import Needs
from hyfdca.holdings.participation import complete, random_fraction
from hyfdca.maths.objective import Objective
from tests.support.sealed_runs import keys_of
from tests.support.small_runs import (
    Run,
    classification,
    make_training,
    partition_of,
    pooled,
)

LOSS, L2 = "logistic", 0.05  # smooth, so that every algorithm takes it
SHAPES = {"horizontal": "3x1", "vertical": "1x3", "grid": "2x2"}
PRESENCE = ["complete", "half"]
N_SAMPLES, N_FEATURES = 48, 6
N_ROUNDS = 8


@dataclass(frozen=True)
class Case:
    """An algorithm, by its name, on one split of the table."""

    algorithm: str
    shape: str = "grid"
    presence: str = "complete"
    profile: str = "sealed"

    def __str__(self) -> str:
        """Return the case for test names."""
        return f"{self.algorithm}-{self.shape}-{self.presence}-{self.profile}"

    @property
    def needs(self) -> Needs:
        """What the algorithm asks of a federation."""
        return ALGORITHMS[self.algorithm]().needs

    @property
    def needs_smooth_loss(self) -> bool:
        """Whether the algorithm takes no loss with a kink on this split."""
        is_primal = self.algorithm == "cocoa" and self.shape == "vertical"
        return self.needs.smooth_loss or is_primal

    @property
    def applies(self) -> bool:
        """Whether the algorithm takes this split and presence."""
        taken = {
            "rows": ["horizontal"],
            "columns": ["vertical"],
            "rows or columns": ["horizontal", "vertical"],
        }
        return self.shape in taken.get(self.needs.split, SHAPES) and (
            self.presence == "complete" or self.needs.presence != "everyone"
        )

    def _labelled(self, n_clients: int) -> list[bool]:
        """Return who has labels: all, or all but the last, where that may be."""
        is_all = self.shape == "horizontal" or self.needs.labels == "all"
        return [is_all or k < n_clients - 1 for k in range(n_clients)]

    def run(self, encryption: Encryption | None = None, **given: object) -> Run:
        """Return a run with the algorithm's default settings."""
        X, y = table()
        partition = partition_of(SHAPES[self.shape], N_SAMPLES, N_FEATURES)
        n_clients = partition.n_clients
        is_complete = self.presence == "complete"
        encryption = encryption or Encryption()
        settings = {
            "algorithm": ALGORITHMS[self.algorithm](),
            "labelled": self._labelled(n_clients),
            "participation": (
                complete(n_clients)
                if is_complete
                else random_fraction(n_clients, 0.5, seed=3)
            ),
            "max_rounds": N_ROUNDS,
            "loss": LOSS,
            "l2": L2,
            "bias": 1.0,
            "profile": self.profile,
            **given,
        }
        return make_training(
            X,
            y,
            partition,
            encryption=encryption,
            keys=keys_of(encryption),
            **settings,
        )


def table() -> tuple:
    """Return the rows and labels of all cases."""
    return classification(N_SAMPLES, N_FEATURES, noise=0.5)


def objective() -> Objective:
    """Return the problem on all the data in one place, with the bias."""
    X, y = table()
    rows = np.hstack([X.toarray(), np.ones((N_SAMPLES, 1))])
    return pooled(rows, y, LOSS, L2)


_EVERY = [
    Case(name, shape, presence)
    for name in ALGORITHMS
    for shape in SHAPES
    for presence in PRESENCE
]
CASES = [case for case in _EVERY if case.applies]
REFUSED = [case for case in _EVERY if not case.applies]


def _hardest(name: str, presence: str, profile: str) -> Case | None:
    """Return the case with the most general split that the algorithm takes."""
    cases = (Case(name, shape, presence, profile) for shape in reversed(SHAPES))
    return next((case for case in cases if case.applies), None)


FEW = [
    case
    for name in ALGORITHMS
    for presence in PRESENCE
    for profile in ("open", "sealed")
    if (case := _hardest(name, presence, profile))
]
