"""Bounds on the optimum: P of the best point from above, planes from below, by output.

With a free intercept, the planes first bound the optimum among the intercepts within
reach. They also bound how far from zero an optimal intercept can be.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hyfdca.algorithms.bundle.buckets import Buckets
from hyfdca.algorithms.bundle.planes import CuttingModel
from hyfdca.arrays import BoolArray, FloatArray
from hyfdca.federation.server import Federation
from hyfdca.protocol.server_session import BadReplyError

# The programme is solved to this share of the gap. Stopped early, an interior point is
# more central, which saves rounds. But candidates need to know the present duals well,
# a large programme is faster where few planes have weight, and where duals have no
# bound a point that is far off leaves planes too steep to compute with.
_INNER, _SHARP_INNER = 0.1, 0.01
_MANY_BUCKETS = 100
_GAIN, _SHARPEST = 0.9, 1e-8
# A free intercept: its first reach, the room it always has within the reach, and the
# gap from which on the reach is all that an optimal one can be.
_FIRST_REACH, _ROOM, _CLOSE = 4.0, 4.0, 0.5
# The gap within the reach from which on only a missing limit is in the way.
_SETTLED = 0.01

_NO_PRODUCTS = (
    "the products of slopes that they send are not those of any vectors: weights would "
    "have a negative length"
)


@dataclass(frozen=True, repr=False)
class BoundingState:
    """What a checkpoint keeps of the bounds."""

    primals: FloatArray
    bounds: FloatArray
    near_bounds: FloatArray
    intercepts: FloatArray
    limits: FloatArray
    last_gap: float
    sharpness: float


class Bounding(ABC):
    """P of the best point so far and the bounds that planes give, by output."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.is_wide = federation.layout.is_wide
        self._is_bounded = math.isfinite(federation.problem.loss.lipschitz)
        # Start at w = 0, which has not been measured yet.
        n_outputs = federation.problem.n_outputs
        self.primals = np.full(n_outputs, np.inf)
        self.bounds = np.zeros(n_outputs)
        # With a free intercept: bounds among those within reach, and how far from zero
        # an optimal one can be.
        self.near_bounds = np.zeros(n_outputs)
        self.intercepts = np.zeros(n_outputs)
        self.limits = np.full(n_outputs, np.inf)
        self._last_gap, self._sharpness = math.inf, 1.0

    @property
    @abstractmethod
    def buckets(self) -> Buckets:
        """Who is in which bucket."""

    @property
    @abstractmethod
    def model(self) -> CuttingModel:
        """The planes so far."""

    @property
    def l2_strength(self) -> float:
        """The strength λ of the penalty."""
        return self.federation.problem.l2_strength

    @property
    def reach(self) -> FloatArray:
        """How far from zero the planes' bounds let a free intercept be, by output."""
        return self.model.reach

    def bounding_state(self) -> BoundingState:
        """Return what a checkpoint keeps."""
        return BoundingState(
            self.primals,
            self.bounds,
            self.near_bounds,
            self.intercepts,
            self.limits,
            self._last_gap,
            self._sharpness,
        )

    def restore_bounding(self, state: BoundingState) -> None:
        """Take a state."""
        self.primals, self.bounds = state.primals, state.bounds
        self.near_bounds, self.limits = state.near_bounds, state.limits
        self.intercepts = state.intercepts
        self._last_gap, self._sharpness = state.last_gap, state.sharpness

    def tolerances(self) -> FloatArray:
        """Return how exactly to solve for each output, given what there is to gain."""
        gaps = self.primals - np.maximum(self.bounds, self.near_bounds)
        is_small = self.buckets.n_buckets <= _MANY_BUCKETS and not self.is_wide
        inner = _INNER if is_small and self._is_bounded else _SHARP_INNER
        # P is off by the root of what D is: where a round gained little, solve better.
        gap = float(gaps.sum())
        gains = gap < _GAIN * self._last_gap
        sharper = self._sharpness * (2.0 if gains else 0.1)
        self._sharpness = min(max(sharper, _SHARPEST), 1.0)
        self._last_gap = gap
        return np.asarray(inner * self._sharpness * np.maximum(gaps, 0.1 * gaps.mean()))

    def seek_limits(self) -> BoolArray:
        """Move the intercept of the next point where only that can bound the optimum.

        Where everything is symmetric, as in small tables with as many rows of either
        class, all planes may have the balance 0. They say nothing of intercepts beyond
        the reach then, however many there are. A plane from either end of it does.

        Returns where the intercept is at an end now, by output.
        """
        if not self.federation.problem.free_intercept:
            return np.zeros(len(self.primals), bool)
        model = self.model
        is_settled = self.primals - self.near_bounds < _SETTLED * self.primals
        is_sought: BoolArray = is_settled & np.isinf(self.limits)
        if is_sought.any():  # sorting planes by their balances takes time
            end = np.where(model.is_limited_below(), model.reach, -model.reach)
            model.intercepts = np.where(is_sought, end, model.intercepts)
        return is_sought

    def weights(self) -> FloatArray | None:
        """Return w of the plane weights, where the server may see it."""
        if self.model.slopes is None:
            return None
        sloped = self.model.weights[self.buckets.n_buckets :]
        return self.model.slopes.combine(sloped) / self.federation.problem.l2_scale

    def squared_norms(self, weights: FloatArray | None) -> FloatArray:
        """Return λ ||w||² of each output, from the Gram matrix if necessary.

        Raises
        ------
        BadReplyError
            If the entries of that matrix are not products of any vectors.
        """
        if weights is None:
            found = self.model.squared_norms()
            if not np.all(found >= 0.0):
                raise BadReplyError(
                    "gram", self.federation.everyone, _NO_PRODUCTS, is_final=True
                )
            return found
        squares: FloatArray = (weights**2).sum(axis=0)
        return self.l2_strength * squares

    @cached_property
    def _n_roundings(self) -> float:
        """The number of parts in each feature's slope, as a length over features."""
        contributors = self.buckets.contributors(self.federation.layout)
        return float(np.linalg.norm(contributors))

    def note_bound(self, weights: FloatArray | None) -> FloatArray:
        """Raise the lower bounds to those of the plane weights, if these are higher.

        Takes w of the plane weights, if it is known; returns λ ||w||² of each output.
        """
        error, squares = self._norm_error(), self.squared_norms(weights)
        found = self.model.bound(squares, error)
        if self.federation.problem.free_intercept:
            self.near_bounds = np.maximum(self.near_bounds, found)
            self.raise_bounds()
        else:
            self.bounds = np.maximum(self.bounds, found)
        return squares

    def _norm_error(self) -> float:
        """Return how much longer √λ w may be because slopes are rounded.

        Each part of a slope was rounded to its grid; weights of a bucket add up to 1.
        """
        problem = self.federation.problem
        error = self._n_roundings * self.model.coarsest_step / 2
        return error / (math.sqrt(self.l2_strength) * problem.n_samples)

    def set_reach(self) -> None:
        """Choose the reach of a free intercept: narrow at first, then up to its limits.

        A bound for a narrow reach says nothing of intercepts beyond it. Limits that
        are known hold for good, because P only falls.
        """
        if not self.federation.problem.free_intercept:
            return
        model = self.model
        found = model.intercept_limits(self.primals, self._norm_error())
        self.limits = np.minimum(self.limits, found)
        gaps = self.primals - np.maximum(self.bounds, self.near_bounds)
        is_close = np.isfinite(self.limits) & (gaps < _CLOSE * self.primals)
        near = np.maximum(self.first_reach(), _ROOM * np.abs(self.intercepts))
        reach = np.where(is_close, self.limits, np.minimum(near, self.limits))
        self.near_bounds = np.where(reach > model.reach, 0.0, self.near_bounds)
        model.reach = reach

    def raise_bounds(self) -> None:
        """Raise the bounds to what those within reach imply for all intercepts.

        P is convex. From here to an optimum that is r times as far away as the end of
        the reach, it falls at most r times as much as it does to that end. Only a free
        intercept has a reach.
        """
        reach, own = self.reach, np.abs(self.intercepts)
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.where(own < reach, (self.limits + own) / (reach - own), np.inf)
            gaps = (self.primals - self.near_bounds) * np.maximum(times, 1.0)
        far = np.where(np.isfinite(gaps), self.primals - gaps, 0.0)
        found = np.where(reach >= self.limits, self.near_bounds, far)
        self.bounds = np.maximum(self.bounds, found)

    def first_reach(self) -> float:
        """Return how far from zero a free intercept may be at first.

        Margins are in units of 1, or of the labels; a wide reach makes first points
        wild.
        """
        return _FIRST_REACH * (1.0 + self.federation.bounds.loss_at_zero)
