"""The dual bundle method: certified training in tens of rounds (docs/acceleration.md).

A round collects cutting planes at the last points, solves for the point that is best
by all planes so far, and goes towards it as far as P falls (Franc and Sonnenburg's
line search). The planes bound the optimum from below, the search measures P: the
certificate is free. No dual travels but to holders without labels.

| phase       | down                                | up                           |
|-------------|-------------------------------------|------------------------------|
| buckets     | the bucket of each sample held      | -                            |
| planes, ... | the last step                       | new planes (collecting.py)   |
| trial       | weights, or weights of planes       | partial margins, sealed      |
| search      | margins of the samples held, sealed | P along the way, sealed      |
| open search | grand totals, to one client         | P along the way, open        |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.bundle.buckets import (
    Buckets,
    buckets_of,
    open_groups,
    sealed_groups,
)
from hyfdca.algorithms.bundle.collecting import (
    PlaneCollection,
    PlaneGrids,
    PlaneGridsState,
)
from hyfdca.algorithms.bundle.planes import CuttingModel, ModelState, Slopes
from hyfdca.algorithms.bundle.settings import (
    PLACES,
    TRIAL_STEPS,
    WIDE_CANDIDATES,
    WIDE_PLACES,
    BundleSettings,
)
from hyfdca.arrays import FloatArray
from hyfdca.federation.server import Federation, FederationState
from hyfdca.maths.objective import Measurement
from hyfdca.protocol.codec import pack_indices, pack_reals
from hyfdca.protocol.messages import Sums, TotalsPart
from hyfdca.protocol.sessions import PAUSE, Conversation

# The programme is solved to this share of the gap. Stopped early, an interior point is
# more central, which saves rounds. But candidates need to know the present duals well,
# a large programme is faster where few planes have weight, and where duals have no
# bound a point that is far off leaves planes too steep to compute with.
_INNER, _SHARP_INNER = 0.1, 0.01
_MANY_BUCKETS = 100
_GAIN, _SHARPEST = 0.9, 1e-8
_FACTOR_PLANES = 16  # planes per bucket from which on slopes beat their Gram matrix
# A free intercept: its first reach, the room it always has within the reach, and the
# gap from which on the reach is all that an optimal one can be.
_FIRST_REACH, _ROOM, _CLOSE = 4.0, 4.0, 0.5
_MEMORY = 400_000_000  # numbers: of all slopes kept, 3.2 GB


@dataclass(frozen=True)
class BundleServerState:
    """What a checkpoint keeps of the server's half."""

    federation: FederationState
    grids: PlaneGridsState
    round_number: int
    model: ModelState
    primals: FloatArray
    bounds: FloatArray
    near_bounds: FloatArray
    intercepts: FloatArray
    limits: FloatArray
    move: b.Move
    n_measured: int
    last_gap: float
    sharpness: float


class BundleServer:
    """The server's half."""

    def __init__(self, federation: Federation, settings: BundleSettings) -> None:
        self.federation, self.settings = federation, settings
        self.round_number = 0
        self.is_wide = federation.layout.is_wide
        self._is_bounded = math.isfinite(federation.problem.loss.lipschitz)
        # Start at w = 0, which nobody has measured yet.
        n_outputs = federation.problem.n_outputs
        self.primals = np.full(n_outputs, np.inf)
        self.bounds = np.zeros(n_outputs)
        # With a free intercept: bounds among those within reach, and how far from zero
        # an optimal one can be.
        self.near_bounds = np.zeros(n_outputs)
        self.intercepts = np.zeros(n_outputs)
        self.limits = np.full(n_outputs, np.inf)
        self._move = b.Move(0, [0.0] * n_outputs)
        self._steps: Conversation[None] | None = None
        self._n_measured = 0
        self._last_gap, self._sharpness = math.inf, 1.0
        self._start: FloatArray | None = None

    def start_at(self, weights: FloatArray) -> None:
        """Try these weights first, a free intercept last.

        In the sealed profile points are weights of planes, so it begins at zero.
        """
        if self.federation.problem.profile == "open":
            self._start = weights

    @property
    def is_between_steps(self) -> bool:
        """Whether no step is suspended, waiting for absent clients."""
        return self._steps is None

    def bundle_state(self) -> BundleServerState:
        """Return what a checkpoint keeps of every method on these exchanges."""
        return BundleServerState(
            self.federation.state(),
            self.grids.state(),
            self.round_number,
            self.model.state(),
            self.primals,
            self.bounds,
            self.near_bounds,
            self.intercepts,
            self.limits,
            self._move,
            self._n_measured,
            self._last_gap,
            self._sharpness,
        )

    def restore_bundle(self, state: BundleServerState) -> None:
        """Take a state; a step that was begun in another one is dropped."""
        self.federation.restore(state.federation)
        self.grids.restore(state.grids)
        self.model.restore(state.model)
        self.round_number, self._steps = state.round_number, None
        self.primals, self.bounds = state.primals, state.bounds
        self.near_bounds, self.limits = state.near_bounds, state.limits
        self.intercepts = state.intercepts
        self._move, self._n_measured = state.move, state.n_measured
        self._last_gap, self._sharpness = state.last_gap, state.sharpness

    def state(self) -> BundleServerState:
        """Return what a checkpoint keeps."""
        return self.bundle_state()

    def restore(self, state: BundleServerState) -> None:
        """Take a state."""
        self.restore_bundle(state)

    @cached_property
    def grids(self) -> PlaneGrids:
        """The grids of planes, known after the first part of set-up."""
        return PlaneGrids(self.federation)

    @cached_property
    def buckets(self) -> Buckets:
        """Who is in which bucket."""
        layout, settings = self.federation.layout, self.settings
        if self.federation.problem.profile == "sealed":
            groups = sealed_groups(layout, settings.min_contributors)
        else:
            groups = open_groups(layout, settings.sub_groups, settings.min_group_size)
        most = self._affordable(_FACTOR_PLANES, settings.max_buckets)
        return buckets_of(layout, groups, most)

    @cached_property
    def model(self) -> CuttingModel:
        """The planes so far."""
        problem, n_buckets = self.federation.problem, self.buckets.n_buckets
        n_features = self.federation.layout.features.n_items
        is_open = problem.profile == "open"
        return CuttingModel(
            n_buckets,
            problem.n_outputs,
            problem.l2_scale * problem.n_samples,
            Slopes(n_features, problem.n_outputs) if is_open else None,
            keeps_gram=self.keeps_gram(),
            max_planes=self._affordable(n_buckets, 128),
            first_reach=self._first_reach() if problem.free_intercept else None,
        )

    def _first_reach(self) -> float:
        """Return how far from zero a free intercept may be at first.

        Margins are in units of 1, or of the labels; a wide reach makes first points
        wild.
        """
        return _FIRST_REACH * (1.0 + self.federation.bounds.loss_at_zero)

    def keeps_gram(self) -> bool:
        """Return whether the Gram matrix is needed, or smaller than the slopes."""
        n_features = self.federation.layout.features.n_items
        is_wider = n_features > _FACTOR_PLANES * self.buckets.n_buckets
        return self.federation.problem.profile == "sealed" or is_wider

    def _affordable(self, n_others: int, most: int) -> int:
        """Return how many planes, or buckets, fit in memory, up to ``most``."""
        n_features = self.federation.layout.features.n_items
        size = n_others * n_features * self.federation.problem.n_outputs
        return min(max(_MEMORY // max(size, 1), _FACTOR_PLANES), most)

    @cached_property
    def planes(self) -> PlaneCollection:
        """Collects new planes."""
        places, candidates = (
            (WIDE_PLACES, WIDE_CANDIDATES) if self.is_wide else (PLACES, ())
        )
        return PlaneCollection(
            self.federation, self.grids, self.buckets, self.model, places, candidates
        )

    def set_up(self) -> Conversation[None]:
        """Choose grids and buckets, and measure P at w = 0."""
        federation = self.federation
        yield from federation.set_up()
        samples = federation.layout.samples
        notices = {
            client: b.BucketsNotice(
                pack_indices(self.buckets.of_client[client]),
                pack_indices(self.buckets.local(samples, client)),
            )
            for client in federation.everyone
        }
        yield from federation.session.tell("buckets", notices)
        nowhere: dict[int, Sums] = {c: [] for c in federation.everyone}
        self.primals = (yield from self._primals_along(nowhere, np.zeros(1)))[0]

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Run part of a step, or all of it if every client is present.

        Each exchange of a step waits until every client was present once.
        """
        self.round_number += 1
        with self.federation.session.among(participants):
            yield from self.continue_step()

    def continue_step(self) -> Conversation[None]:
        """Continue a step as far as the clients present allow."""
        self._steps = self._steps or self.step()
        try:
            ask = next(self._steps)
            while ask is not PAUSE:
                ask = self._steps.send((yield ask))
        except StopIteration:
            self._steps = None

    def step(self) -> Conversation[None]:
        """Add planes, solve for a new point, go towards it."""
        yield from self.planes.collect(self._move)
        self.apply_step((yield from self.search(self.choose_point())))

    def search(self, weights: FloatArray | None) -> Conversation[FloatArray]:
        """Measure P on the way to a point; return the steps where it is lowest."""
        margins = yield from self._try_point(weights)
        primals = yield from self._primals_along(margins, TRIAL_STEPS)
        self.primals = primals.min(axis=0)
        best: FloatArray = TRIAL_STEPS[primals.argmin(axis=0)]
        return best

    def choose_point(self) -> FloatArray | None:
        """Find the plane weights of the trial point, and the bound they give.

        Returns the point's weights, where the server may see them.
        """
        self.set_reach()
        self.model.solve(self.tolerances())
        weights = self.weights()
        self.note_bound(weights)
        if self._start is None:
            return weights
        start, self._start = self._start, None
        n_features = self.federation.layout.features.n_items
        if self.federation.problem.free_intercept:
            self.model.intercepts = start[-1]
        return start[:n_features]

    def apply_step(self, steps: FloatArray) -> None:
        """Go that far to the trial point, as clients will with the next request."""
        self.record_step(steps)
        self.model.forget()

    def record_step(self, steps: FloatArray) -> None:
        """Note the step, which goes to clients with the next request."""
        self._n_measured += 1
        self.intercepts = self.intercepts + steps * (
            self.trial_intercepts - self.intercepts
        )
        self._raise_bounds()
        self._move = b.Move(self._n_measured, steps.tolist())

    def measure(self) -> Conversation[Measurement]:
        """Return what the rounds measured; nothing is exchanged."""
        yield from ()
        return Measurement(float(self.primals.sum()), float(self.bounds.sum()))

    def release(self) -> Conversation[FloatArray]:
        """Return the weights of the best point; last its intercept, if it is free."""
        weights = yield from self.federation.release(b.MovedRelease(self._move))
        if not self.federation.problem.free_intercept:
            return weights
        return np.vstack([weights, self.intercepts])

    @property
    def trial_intercepts(self) -> FloatArray:
        """The intercepts of the trial point."""
        return self.model.intercepts

    # A new point

    def tolerances(self) -> FloatArray:
        """Return how well to solve for each output, by what there is to gain."""
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

    def _try_point(self, weights: FloatArray | None) -> Conversation[dict[int, Sums]]:
        """Send the trial point; return the sums of margins there.

        Without weights, it goes out as the weights of planes.
        """
        federation, model = self.federation, self.model
        grid = federation.grids.margins
        federation.fit_margins(grid, self._squared_norms(weights))
        features = federation.layout.features
        sloped = pack_reals(model.weights[self.buckets.n_buckets :])

        is_free = federation.problem.free_intercept
        intercepts = tuple(self.trial_intercepts.tolist()) if is_free else ()

        def request(client: int) -> b.TrialRequest:
            if weights is None:
                return b.TrialRequest(self._move, None, sloped, grid.spec, intercepts)
            own = pack_reals(weights[features.items[client]])
            return b.TrialRequest(self._move, own, None, grid.spec, intercepts)

        margins = yield from federation.gather_sum(
            "trial", [grid], request, federation.sample_sum()
        )
        labelled = federation.layout.labelled
        return {
            client: margins.take(client) if labelled[client] else []
            for client in federation.everyone
        }

    def weights(self) -> FloatArray | None:
        """Return w of the plane weights, where the server may see it."""
        if self.model.slopes is None:
            return None
        sloped = self.model.weights[self.buckets.n_buckets :]
        return self.model.slopes.combine(sloped) / self.federation.problem.l2_scale

    def _squared_norms(self, weights: FloatArray | None) -> FloatArray:
        """Return λ ||w||² of each output, from the Gram matrix if need be."""
        if weights is None:
            return self.model.squared_norms()
        squares: FloatArray = (weights**2).sum(axis=0)
        return self.federation.problem.l2_strength * squares

    @cached_property
    def _n_roundings(self) -> float:
        """How many parts add up to a slope of each feature, as a length over them."""
        contributors = self.buckets.contributors(self.federation.layout)
        return float(np.linalg.norm(contributors))

    def note_bound(self, weights: FloatArray | None) -> None:
        """Raise the lower bounds to those of the plane weights, if these are higher."""
        found = self.model.bound(self._squared_norms(weights), self._norm_error())
        if not self.federation.problem.free_intercept:
            self.bounds = np.maximum(self.bounds, found)
            return
        self.near_bounds = np.maximum(self.near_bounds, found)
        self._raise_bounds()

    def _norm_error(self) -> float:
        """Return how much longer √λ w may be for the rounding of slopes.

        Each part of a slope was rounded to its grid; weights of a bucket add up to 1.
        """
        problem = self.federation.problem
        error = self._n_roundings * self.model.coarsest_step / 2
        return error / (math.sqrt(problem.l2_strength) * problem.n_samples)

    # A free intercept

    def set_reach(self) -> None:
        """Choose how far a free intercept may go: near at first, then to its limits.

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
        near = np.maximum(self._first_reach(), _ROOM * np.abs(self.intercepts))
        reach = np.where(is_close, self.limits, np.minimum(near, self.limits))
        self.near_bounds = np.where(reach > model.reach, 0.0, self.near_bounds)
        model.reach = reach

    def _raise_bounds(self) -> None:
        """Raise the bounds to what those within reach say of all intercepts.

        P is convex. From here to an optimum that is r times as far away as the end of
        the reach, it falls at most r times as much as it does to that end.
        """
        if not self.federation.problem.free_intercept:
            return
        reach, own = self.model.reach, np.abs(self.intercepts)
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.where(own < reach, (self.limits + own) / (reach - own), np.inf)
            gaps = (self.primals - self.near_bounds) * np.maximum(times, 1.0)
        far = np.where(np.isfinite(gaps), self.primals - gaps, 0.0)
        found = np.where(reach >= self.limits, self.near_bounds, far)
        self.bounds = np.maximum(self.bounds, found)

    def _primals_along(
        self, margins: dict[int, Sums], steps: FloatArray
    ) -> Conversation[FloatArray]:
        """Return P at some steps from the best point to the trial point, rounded up."""
        federation, grid = self.federation, self.federation.grids.totals
        parts = yield from federation.gather(
            "search",
            federation.everyone,
            [grid],
            lambda client: b.SearchRequest(
                margins[client], steps.tolist(), federation.totals_spec(grid, client)
            ),
            TotalsPart,
        )
        shape = (len(steps), federation.problem.n_outputs)
        sealed = {client: part.vector for client, part in parts.items()}
        total = federation.sum_of(sealed, shape)
        [primals] = yield from federation.open_totals([total], "open search")
        return primals
