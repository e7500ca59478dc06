"""The optimum of the pooled training rows, which relative losses refer to."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.holdings.participation import complete
from hyfdca.maths.objective import reference_optimum, relative_gap
from hyfdca.study.local import LocalRun, pooled_objective
from hyfdca.training.in_process import train_in_process

# Far below the tolerance of any study. Coordinate ascent needs few epochs to get there,
# or too many: then the bundle method is faster.
_GAP, _EPOCHS, _ROUNDS = 1e-9, 1000, 500


@dataclass(frozen=True)
class PooledOptimum:
    """Bounds on the optimum of the pooled training rows.

    Parameters
    ----------
    primal, dual : float
        The optimum is between them.
    method : str
        What found them.
    """

    primal: float
    dual: float
    method: str

    @property
    def relative_gap(self) -> float:
        """(P - D) / P."""
        return relative_gap(self.primal, self.dual)

    def relative_loss(self, primal: float) -> float:
        """Return (P(w) - P*) / P*, with the lower bound as P*.

        So it is never negative, and too large by ``relative_gap`` at most. NaN where
        the optimum is zero.
        """
        return (primal - self.dual) / self.dual if self.dual > 0.0 else math.nan


def pooled_optimum(run: LocalRun) -> PooledOptimum:
    """Solve the problem of all training rows in one place."""
    found = reference_optimum(pooled_objective(run), _GAP, _EPOCHS)
    first = PooledOptimum(found.primal, found.dual, "dual coordinate ascent")
    if first.relative_gap <= _GAP:
        return first
    return min(first, _by_bundle(run), key=lambda optimum: optimum.relative_gap)


def _by_bundle(run: LocalRun) -> PooledOptimum:
    """Solve with the bundle method, unencrypted and with everybody present."""
    settings = replace(
        run.training.settings,
        algorithm=Bundle(),
        profile="open",
        max_rounds=_ROUNDS,
        tolerance=_GAP,
        measure_every=1,
        max_seconds=None,
        stall_rounds=None,
        encryption=Encryption(),
    )
    layout = run.training.federation.layout
    everyone = complete(layout.n_clients)
    runner = train_in_process(settings, layout, run.blocks, everyone).runner
    runner.finish()
    measured = runner.measurement
    assert measured is not None  # noqa: S101  # a run that ended has been measured
    assert measured.dual is not None  # noqa: S101  # a bundle bounds the optimum
    return PooledOptimum(measured.primal, measured.dual, "bundle method")
