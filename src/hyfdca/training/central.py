"""Solves a problem in one place, to a certified gap: a yardstick for federations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.arrays import FloatArray
from hyfdca.holdings.block import split_blocks, with_offsets
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import complete
from hyfdca.holdings.partition import horizontal
from hyfdca.maths.objective import Objective, reference_optimum, relative_gap
from hyfdca.training.in_process import train_in_process
from hyfdca.training.settings import TrainingSettings

# Either one needs few steps, or it needs many and the other is faster.
_EPOCHS, _ROUNDS = 2000, 500
_BUCKETS = 125


@dataclass(frozen=True, repr=False)
class CentralOptimum:
    """A model of all rows, and bounds on their optimum.

    Parameters
    ----------
    weights : array (n_features, n_outputs)
    primal, dual : float
        Bounds between which the optimum lies.
    method : str
        The method that found them.
    """

    weights: FloatArray
    primal: float
    dual: float
    method: str

    @property
    def relative_gap(self) -> float:
        """(P - D) / P."""
        return relative_gap(self.primal, self.dual)

    def relative_loss(self, primal: float) -> float:
        """Return (P(w) - P*) / P*, with the lower bound as P*.

        So it is never negative, and at most ``relative_gap`` too large. NaN if the
        optimum is zero.
        """
        return (primal - self.dual) / self.dual if self.dual > 0.0 else math.nan


Solver = Callable[[Objective, float], CentralOptimum]


def by_ascent(problem: Objective, gap: float) -> CentralOptimum:
    """Solve by dual coordinate ascent, which suits few or sparse rows."""
    found = reference_optimum(problem, gap, _EPOCHS)
    return CentralOptimum(
        found.weights, found.primal, found.dual, "dual coordinate ascent"
    )


def by_bundle(problem: Objective, gap: float) -> CentralOptimum:
    """Solve by the bundle method, with one client that has everything.

    It suits few features: the client's rows are in many buckets.
    """
    partition = horizontal(*problem.X.shape, 1)
    layout = layout_of(partition)
    settings = TrainingSettings(
        problem.loss,
        problem.l2_strength,
        Bundle(sub_groups=_BUCKETS, max_buckets=_BUCKETS),
        profile="open",
        max_rounds=_ROUNDS,
        tolerance=gap,
        free_intercept=problem.free_intercept,
        has_offsets=problem.offsets is not None,
    )
    blocks = split_blocks(
        problem.X,
        problem.labels,
        partition,
        layout,
        sample_weights=problem.sample_weights,
    )
    if problem.offsets is not None:
        blocks = with_offsets(blocks, layout, problem.offsets)
    runner = train_in_process(settings, layout, blocks, complete(1)).runner
    weights = runner.finish()
    measured = runner.measurement
    assert measured is not None  # noqa: S101  # a run that ended has been measured
    assert measured.dual is not None  # noqa: S101  # a bundle bounds the optimum
    return CentralOptimum(weights, measured.primal, measured.dual, "bundle method")


def central_optimum(
    problem: Objective, gap: float, solvers: Iterable[Solver] | None = None
) -> CentralOptimum:
    """Solve a problem with the first solver that reaches the relative gap.

    If none does, the one with the smallest gap counts; its P and D are still bounds.
    """
    tried = []
    for solve in _solvers(problem) if solvers is None else solvers:
        tried.append(solve(problem, gap))
        if tried[-1].relative_gap <= gap:
            break
    return min(tried, key=lambda found: found.relative_gap)


def _solvers(problem: Objective) -> tuple[Solver, ...]:
    """Return the solvers to try; ascent does not support intercepts and offsets."""
    if problem.free_intercept or problem.offsets is not None:
        return (by_bundle,)
    return (by_ascent, by_bundle)
