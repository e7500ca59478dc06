"""L-BFGS for smooth losses, on the exchanges of the bundle method.

All points and gradients are combinations of slopes, so the server works on their
coefficients: with w = 1/(λN) Σ β_s σ_s and σ_t the slope where w itself touches the
loss, the gradient of P is λ/(λN) (Σ β_s σ_s - σ_t), and inner products come from the
Gram matrix. In the sealed profile the server sees neither points nor gradients.

The certificate is that of the newest plane, α = -l'(z): P - D = ||∇P||² / (2λ).

A free intercept is a further coefficient, the first, whose length is measured in units
of the loss's smoothness. The newest plane alone is then no good bound, because Σ α_i is
not zero: the certificate is that of the best mixture of planes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from hyfdca.algorithms.bundle.buckets import Buckets, buckets_of
from hyfdca.algorithms.bundle.collecting import PlaneCollection
from hyfdca.algorithms.bundle.consistency import NewPlanes
from hyfdca.algorithms.bundle.server import (
    BundleServer,
    BundleServerState,
    TrialPoint,
)
from hyfdca.algorithms.bundle.settings import BundleSettings
from hyfdca.arrays import FloatArray
from hyfdca.federation.server import Federation

PAIRS = 20  # of changes of point and gradient that a direction is made of
_AT_BEST, _AT_TRIAL = (0.0,), (1.0,)  # where a plane touches the loss
_SHORTER = 2.0**-6  # after a direction along which nothing was gained


@dataclass
class Path:
    """One output's points and gradients so far, as coefficients of slopes."""

    points: list[FloatArray] = field(default_factory=list)
    gradients: list[FloatArray] = field(default_factory=list)
    reach: float = 1.0

    def note(self, point: FloatArray, gradient: FloatArray) -> None:
        """Remember a point and its gradient, and as many before as pairs need."""
        self.points = [*self.points[-PAIRS:], point]
        self.gradients = [*self.gradients[-PAIRS:], gradient]

    def direction(self, gram: FloatArray) -> FloatArray:
        """Return the two-loop recursion's direction (Nocedal and Wright, 7.4)."""
        size = len(gram)
        points = [np.pad(p, (0, size - len(p))) for p in self.points]
        gradients = [np.pad(g, (0, size - len(g))) for g in self.gradients]
        pairs = []
        for j in range(len(points) - 1):
            moved, turned = points[j + 1] - points[j], gradients[j + 1] - gradients[j]
            curvature = float(moved @ gram @ turned)
            if curvature > 0:
                pairs.append((moved, turned, curvature))
        direction = -gradients[-1]
        shares = []
        for moved, turned, curvature in reversed(pairs):
            share = float(moved @ gram @ direction) / curvature
            direction = direction - share * turned
            shares.append(share)
        if pairs:
            _, turned, curvature = pairs[-1]
            direction = direction * (curvature / float(turned @ gram @ turned))
        for (moved, turned, curvature), share in zip(
            pairs, reversed(shares), strict=True
        ):
            back = float(turned @ gram @ direction) / curvature
            direction = direction + (share - back) * moved
        return direction * self.reach


@dataclass(frozen=True, repr=False)
class LbfgsServerState:
    """What a checkpoint keeps of the server's half."""

    bundle: BundleServerState
    paths: list[Path]
    points: FloatArray
    directions: FloatArray
    is_seeking: bool


class LbfgsServer(BundleServer):
    """The server's half; clients cannot tell it from the bundle method."""

    def __init__(self, federation: Federation, settings: BundleSettings) -> None:
        super().__init__(federation, settings)
        problem = federation.problem
        self._n_first = int(problem.free_intercept)
        self._paths = [Path() for _ in range(problem.n_outputs)]
        # β of the best point, after its intercept if that is free
        self._points = np.zeros((self._n_first + 1, problem.n_outputs))
        self._directions = np.zeros_like(self._points)
        self._is_seeking, self._searches = False, True

    def state(self) -> LbfgsServerState:  # type: ignore[override]
        """Return what a checkpoint keeps."""
        return LbfgsServerState(
            self.bundle_state(),
            self._paths,
            self._points,
            self._directions,
            self._is_seeking,
        )

    def restore(self, state: LbfgsServerState) -> None:  # type: ignore[override]
        """Take a state."""
        self.restore_bundle(state.bundle)
        self._paths = list(state.paths)
        self._points, self._directions = state.points, state.directions
        self._touch(state.is_seeking)

    def start_at(self, weights: FloatArray) -> None:
        """Begin at zero all the same: points are combinations of slopes."""

    @cached_property
    def buckets(self) -> Buckets:
        """All samples are in one bucket: there is one gradient."""
        layout = self.federation.layout
        return buckets_of(layout, np.zeros(layout.samples.n_items, np.int64))

    def keeps_gram(self) -> bool:
        """Return true: directions are made of inner products."""
        return True

    @cached_property
    def planes(self) -> PlaneCollection:
        """One plane at the best point is its gradient."""
        return PlaneCollection(
            self.federation, self.grids, self.buckets, self.model, _AT_BEST
        )

    def _touch(self, is_seeking: bool) -> None:
        """Let the next plane touch the loss at a trial point that seeks limits."""
        self._is_seeking = is_seeking
        self.planes.places = _AT_TRIAL if is_seeking else _AT_BEST

    def _compare_planes(self, new: NewPlanes) -> None:
        """Trial points are no mixtures of planes: there is nothing to compare."""

    def choose_point(self) -> TrialPoint:
        """Take the bound of the planes; find a direction from the newest's gradient.

        A plane that sought limits of the intercept is no gradient at the best point;
        after it the point stays, so that the next plane is.
        """
        model, n_first = self.model, self._n_first
        newest = np.zeros_like(model.weights)
        newest[-1] = 1.0
        if n_first:
            self.set_reach()
            model.solve(self.tolerances())
        else:
            model.weights = newest
        self.note_bound(self.weights())
        self._points = np.pad(self._points, ((0, 1), (0, 0)))
        self._directions = np.zeros_like(self._points)
        sought = self.seek_limits()
        if np.any(sought):
            near = self._points[:n_first].sum(axis=0)
            self._directions[0] = np.where(sought, model.intercepts - near, 0.0)
        elif not self._is_seeking:
            self._find_directions(newest)
        self._searches = not (np.any(sought) or self._is_seeking)
        self._touch(bool(np.any(sought)))
        trial = self._points + self._directions
        model.weights = trial[n_first:]
        model.intercepts = trial[:n_first].sum(axis=0)
        weights = self.weights()
        return self._trial_point(weights, self.squared_norms(weights))

    def _find_directions(self, newest: FloatArray) -> None:
        """Find a direction for each output from its gradient, the newest plane."""
        # In units of λ: then the first direction is the plane's own best point.
        gradients, n_first = self._points.copy(), self._n_first
        gradients[n_first:] -= newest
        gradients[:n_first] = -self.model.balances[-1] / self._stiffness
        for output, path in enumerate(self._paths):
            path.note(self._points[:, output], gradients[:, output])
            self._directions[:, output] = path.direction(self._lengths(output))

    @property
    def _stiffness(self) -> float:
        """How fast the slope in the intercept changes at most."""
        return self.federation.problem.loss.smoothness

    def _lengths(self, output: int) -> FloatArray:
        """Return the inner products of all vectors that points combine."""
        gram = self.model.gram[:, :, output]
        if not self._n_first:
            return gram
        return np.asarray(block_diag(np.array([[self._stiffness]]), gram))

    def apply_step(self, steps: FloatArray) -> None:
        """Take the step; where it gained nothing, forget and try a shorter one."""
        self._points = self._points + steps * self._directions
        searched = zip(self._paths, steps.tolist(), strict=True)
        for path, step in searched if self._searches else ():
            path.reach = 1.0 if step else path.reach * _SHORTER
            if not step:
                path.points, path.gradients = [], []
        self.record_step(steps)
