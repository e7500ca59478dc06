"""One small problem, on which every algorithm of the registry is run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.crypto.schemes.registry import Encryption
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

    def run(self, encryption: Encryption | None = None, **given: object) -> Run:
        """Return a run with the algorithm's default settings."""
        X, y = table()
        partition = partition_of(SHAPES[self.shape], N_SAMPLES, N_FEATURES)
        n_clients = partition.n_clients
        is_complete = self.presence == "complete"
        encryption = encryption or Encryption()
        settings = {
            "labelled": _labelled(self.shape, n_clients),
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
            algorithm=ALGORITHMS[self.algorithm](),
            encryption=encryption,
            keys=keys_of(encryption),
            participation=(
                complete(n_clients)
                if is_complete
                else random_fraction(n_clients, 0.5, seed=3)
            ),
            **settings,
        )


def _labelled(shape: str, n_clients: int) -> list[bool]:
    """Return who has labels: all, or all but the last where others have its rows."""
    return [shape == "horizontal" or k < n_clients - 1 for k in range(n_clients)]


def table() -> tuple:
    """Return the rows and labels of all cases."""
    return classification(N_SAMPLES, N_FEATURES, noise=0.5)


def objective() -> Objective:
    """Return the problem on all the data in one place, with the bias."""
    X, y = table()
    rows = np.hstack([X.toarray(), np.ones((N_SAMPLES, 1))])
    return pooled(rows, y, LOSS, L2)


CASES = [
    Case(name, shape, presence)
    for name in ALGORITHMS
    for shape in SHAPES
    for presence in PRESENCE
]
FEW = [
    Case(name, "grid", presence, profile)
    for name in ALGORITHMS
    for presence in PRESENCE
    for profile in ("open", "sealed")
]
