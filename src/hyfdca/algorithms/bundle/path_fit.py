"""One fit of a path, as the server knows it: its bounds and where it goes next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyfdca.algorithms.bundle.bounding import Bounding, BoundingState
from hyfdca.algorithms.bundle.buckets import Buckets
from hyfdca.algorithms.bundle.planes import CuttingModel
from hyfdca.algorithms.bundle.server import TrialPoint
from hyfdca.arrays import BoolArray, FloatArray, IntArray
from hyfdca.federation.server import Federation
from hyfdca.maths.objective import relative_gap

# All fits add to the same planes, and each needs few of them.
_MANY_PLANES = 150


@dataclass(frozen=True, repr=False)
class FitState:
    """What a checkpoint keeps of a fit."""

    bounding: BoundingState
    validations: FloatArray
    rounds: int
    numbers: IntArray
    weights: FloatArray
    reach: FloatArray


class Fit(Bounding):
    """The rows of some buckets at some λ.

    Parameters
    ----------
    kept : array of bool
        The buckets that it has, among all.
    """

    def __init__(
        self, federation: Federation, buckets: Buckets, kept: BoolArray, l2: float
    ) -> None:
        super().__init__(federation)
        self._buckets, self.kept, self._l2 = buckets, kept, l2
        n_outputs = federation.problem.n_outputs
        self.validations = np.full(n_outputs, np.nan)  # losses of the rows left out
        self.rounds = 0  # with a point of its own
        self._model: CuttingModel | None = None
        self._numbers = np.empty(0, np.int64)  # planes of the last solution
        self._weights = np.empty((0, n_outputs))
        self._reach: FloatArray | None = None

    def state(self) -> FitState:
        """Return what a checkpoint keeps."""
        reach = np.empty(0) if self._reach is None else self._reach
        return FitState(
            self.bounding_state(),
            self.validations,
            self.rounds,
            self._numbers,
            self._weights,
            reach,
        )

    def restore(self, state: FitState) -> None:
        """Take a state."""
        self.restore_bounding(state.bounding)
        self.validations, self.rounds = state.validations, state.rounds
        self._numbers, self._weights = state.numbers, state.weights
        self._reach = state.reach if len(state.reach) else None

    @property
    def buckets(self) -> Buckets:
        """Who is in which bucket, of all."""
        return self._buckets

    @property
    def model(self) -> CuttingModel:
        """The planes that it had at its last solution."""
        assert self._model is not None  # noqa: S101  # solved before it is asked for
        return self._model

    @property
    def l2_strength(self) -> float:
        """The strength λ of its penalty."""
        return self._l2

    @property
    def reach(self) -> FloatArray:
        """How far from zero its bounds let a free intercept be, by output."""
        assert self._reach is not None  # noqa: S101  # solved before it is asked for
        return self._reach

    @property
    def relative_gap(self) -> float:
        """(P - D) / P over all outputs."""
        return relative_gap(float(self.primals.sum()), float(self.bounds.sum()))

    def solve(self, planes: CuttingModel) -> TrialPoint:
        """Find the best point by all planes of its rows, and the bound they give.

        Parameters
        ----------
        planes : CuttingModel
            Those of its own buckets, at any λ.
        """
        problem, n_samples = self.federation.problem, self.federation.problem.n_samples
        model = planes.at_scale(self._l2 * n_samples**2)
        model.weights, model.most_planes = self._warm(model), _MANY_PLANES
        # Solving changes these in place, and all fits come from the same planes.
        model.intercepts = model.intercepts.copy()
        model.reach = model.reach.copy() if self._reach is None else self._reach
        self._model = model
        self.set_reach()
        self._reach = model.reach
        model.solve(self.tolerances())
        sloped = model.weights[model.n_buckets :]
        weights = None
        if model.slopes is not None:
            weights = model.slopes.combine(sloped) / (self._l2 * n_samples)
        squares = self.note_bound(weights)
        self.seek_limits()
        self._numbers, self._weights = model.numbers, model.weights
        longer = problem.l2_strength / self._l2
        return TrialPoint(weights, sloped, model.intercepts, longer * squares)

    def go(self, primals: FloatArray, intercepts: FloatArray) -> None:
        """Go where P is lowest on the way to its own point."""
        self.primals = np.full_like(self.primals, np.inf)
        self.look(primals, intercepts)

    def look(
        self,
        primals: FloatArray,
        intercepts: FloatArray,
        left_out: FloatArray | None = None,
    ) -> None:
        """Take the best of the measured points, if it is better.

        Parameters
        ----------
        primals, intercepts, left_out : array (steps, points, outputs)
            P, the intercepts and the losses of the rows left out, if there are any.
        """
        n_outputs = primals.shape[-1]
        flat = primals.reshape(-1, n_outputs)
        lowest, outputs = flat.argmin(axis=0), np.arange(n_outputs)
        is_better = flat[lowest, outputs] < self.primals
        there = intercepts.reshape(-1, n_outputs)[lowest, outputs]
        self.primals = np.where(is_better, flat[lowest, outputs], self.primals)
        self.intercepts = np.where(is_better, there, self.intercepts)
        if left_out is not None:
            found = left_out.reshape(-1, n_outputs)[lowest, outputs]
            self.validations = np.where(is_better, found, self.validations)
        if self._reach is not None and self.federation.problem.free_intercept:
            self.raise_bounds()

    def _warm(self, model: CuttingModel) -> FloatArray:
        """Return the last weights of the planes that still exist."""
        weights = np.zeros_like(model.weights)
        weights[: model.n_buckets] = 1.0
        places = np.searchsorted(self._numbers, model.numbers)
        is_known = np.zeros(len(places), bool)
        inside = places < len(self._numbers)
        is_known[inside] = self._numbers[places[inside]] == model.numbers[inside]
        weights[is_known] = self._weights[places[is_known]]
        return weights
