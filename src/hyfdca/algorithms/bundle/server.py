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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.bundle.bounding import Bounding, BoundingState
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
from hyfdca.algorithms.bundle.consistency import (
    TRIAL_PLACE,
    ConsistencyState,
    NewPlanes,
    PlaneConsistency,
)
from hyfdca.algorithms.bundle.planes import CuttingModel, ModelState
from hyfdca.algorithms.bundle.settings import (
    PLACES,
    TRIAL_STEPS,
    WIDE_CANDIDATES,
    WIDE_PLACES,
    BundleSettings,
)
from hyfdca.algorithms.bundle.slopes import Slopes
from hyfdca.arrays import FloatArray
from hyfdca.federation.server import Federation, FederationState, Point
from hyfdca.maths.objective import Measurement
from hyfdca.protocol.codec import pack_indices, pack_reals
from hyfdca.protocol.messages import Sums
from hyfdca.protocol.server_session import PAUSE, Conversation

_FACTOR_PLANES = 16  # planes per bucket from which on slopes beat their Gram matrix
_MEMORY = 400_000_000  # numbers: of all slopes kept, 3.2 GB


@dataclass(frozen=True, repr=False)
class BundleServerState:
    """What a checkpoint keeps of the server's half."""

    federation: FederationState
    grids: PlaneGridsState
    round_number: int
    model: ModelState
    bounding: BoundingState
    move: b.Move
    n_measured: int
    consistency: ConsistencyState


@dataclass(frozen=True)
class TrialPoint:
    """The next point; without weights, it is sent as the weights of planes.

    Its columns are the outputs, one point after the other where there are several.

    Parameters
    ----------
    plane_weights : array (sloped planes, columns)
    squared_norms : array (columns,)
        λ ||w||², with λ of the problem.
    """

    weights: FloatArray | None
    plane_weights: FloatArray
    intercepts: FloatArray
    squared_norms: FloatArray


class BundleServer(Bounding):
    """The server's half."""

    most_planes: ClassVar[int] = 128  # per bucket

    def __init__(self, federation: Federation, settings: BundleSettings) -> None:
        super().__init__(federation)
        self.settings = settings
        self.round_number = 0
        n_outputs = federation.problem.n_outputs
        self._move = b.Move(0, [0.0] * n_outputs)
        self._steps: Conversation[None] | None = None
        self._n_measured = 0
        self._start: FloatArray | None = None
        self.consistency = PlaneConsistency(federation)

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
            self.bounding_state(),
            self._move,
            self._n_measured,
            self.consistency.state(),
        )

    def restore_bundle(self, state: BundleServerState) -> None:
        """Take a state; a step that was begun in another one is dropped."""
        self.federation.restore(state.federation)
        self.grids.restore(state.grids)
        self.model.restore(state.model)
        self.round_number, self._steps = state.round_number, None
        self.restore_bounding(state.bounding)
        self._move, self._n_measured = state.move, state.n_measured
        self.consistency.restore(state.consistency)

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
        return self.buckets_up_to(self.settings.max_buckets)

    def buckets_up_to(self, max_buckets: int) -> Buckets:
        """Return at most ``max_buckets`` buckets, as the profile allows."""
        layout, settings = self.federation.layout, self.settings
        if self.federation.problem.profile == "sealed":
            groups = sealed_groups(layout, settings.min_contributors)
        else:
            groups = open_groups(layout, settings.sub_groups, settings.min_group_size)
        most = self._affordable(_FACTOR_PLANES, max_buckets)
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
            max_planes=self._affordable(n_buckets, self.most_planes),
            first_reach=self.first_reach() if problem.free_intercept else None,
        )

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
        yield from self.arrange()
        self.primals = (yield from self._primals_along({}, np.zeros(1)))[0]

    def arrange(self) -> Conversation[None]:
        """Choose grids and buckets."""
        federation = self.federation
        yield from federation.set_up()
        yield from federation.session.tell("buckets", self.notices())

    def notices(self) -> dict[int, b.BucketsNotice]:
        """Return what clients must know about the buckets."""
        return self.notices_of(self.buckets)

    def notices_of(self, buckets: Buckets) -> dict[int, b.BucketsNotice]:
        """Return the bucket of each sample held, by client."""
        samples = self.federation.layout.samples
        return {
            client: b.BucketsNotice(
                pack_indices(buckets.of_client[client]),
                pack_indices(buckets.local(samples, client)),
            )
            for client in self.federation.everyone
        }

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Run part of a step, or all of it if every client is present.

        Each exchange of a step waits until every client was present once.
        """
        self.round_number += 1
        session = self.federation.session
        session.present = frozenset(participants)
        try:
            yield from self.continue_step()
        finally:
            session.present = None

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
        new = yield from self.planes.collect(self._move)
        if new is not None:
            self._compare_planes(new)
        self.apply_step((yield from self.search(self.choose_point())))

    def _compare_planes(self, new: NewPlanes) -> None:
        """Compare new planes with the loss that was measured where they touch it."""
        n_each = self.buckets.n_buckets * self.federation.grid_maker.n_clients
        steepest = 1.0 + float(np.abs(self.model.intercepts).sum())
        offset_error = n_each * self.grids.offsets.step * steepest
        gap = float((self.primals - self.bounds).sum())
        norm_error = self._norm_error()
        self.consistency.compare(self.model, new, (offset_error, norm_error), gap)

    def _expect_planes(self, point: TrialPoint, primals: FloatArray) -> None:
        """Note P at a trial point, where the next planes will touch the loss."""
        squares, errors = point.squared_norms, np.zeros_like(point.squared_norms)
        if point.weights is None:
            errors = self.model.gram_errors(self.model.weights)
        self.consistency.expect(
            point.weights, point.intercepts, squares, errors, primals
        )

    def check_consistency(self, is_over: bool) -> None:
        """Refuse to continue if what clients sent contradicts itself.

        Parameters
        ----------
        is_over : bool
            Whether the run cannot continue in any case.

        Raises
        ------
        BadReplyError
        """
        self.consistency.check(is_over)

    def search(self, point: TrialPoint) -> Conversation[FloatArray]:
        """Measure P on the way to a point; return the steps where it is lowest."""
        margins = yield from self.try_point(point)
        primals = yield from self._primals_along(margins, TRIAL_STEPS)
        self._expect_planes(point, primals[TRIAL_STEPS == TRIAL_PLACE][0])
        self.primals = primals.min(axis=0)
        best: FloatArray = TRIAL_STEPS[primals.argmin(axis=0)]
        return best

    def choose_point(self) -> TrialPoint:
        """Find the plane weights of the trial point, and the bound they give."""
        self.set_reach()
        self.model.solve(self.tolerances())
        weights = self.weights()
        squares = self.note_bound(weights)
        self.seek_limits()
        if self._start is None:
            return self._trial_point(weights, squares)
        start, self._start = self._start, None
        if self.federation.problem.free_intercept:
            self.model.intercepts = start[-1]
        weights = start[: self.federation.layout.features.n_items]
        return self._trial_point(weights, self.squared_norms(weights))

    def apply_step(self, steps: FloatArray) -> None:
        """Move that far to the trial point, as clients will with the next request."""
        self.record_step(steps)
        self.model.forget()

    def record_step(self, steps: FloatArray) -> None:
        """Note the step, which goes to clients with the next request."""
        self._n_measured += 1
        self.intercepts = self.intercepts + steps * (
            self.trial_intercepts - self.intercepts
        )
        if self.federation.problem.free_intercept:
            self.raise_bounds()
        self._move = b.Move(self._n_measured, steps.tolist())

    def measure(self) -> Conversation[Measurement]:
        """Return what the rounds measured; nothing is exchanged."""
        yield from ()
        return Measurement(float(self.primals.sum()), float(self.bounds.sum()))

    def released_point(self) -> Point:
        """Return where the weights of the best point are."""
        is_free = self.federation.problem.free_intercept
        intercepts = self.intercepts if is_free else None
        return Point(b.MovedRelease(self._move), intercepts)

    def release(self) -> Conversation[FloatArray]:
        """Return the weights of the best point; last its intercept, if it is free."""
        return self.federation.release(self.released_point())

    @property
    def trial_intercepts(self) -> FloatArray:
        """The intercepts of the trial point."""
        return self.model.intercepts

    # A new point

    def _trial_point(
        self, weights: FloatArray | None, squared_norms: FloatArray
    ) -> TrialPoint:
        return TrialPoint(
            weights,
            self.model.weights[self.buckets.n_buckets :],
            self.trial_intercepts,
            squared_norms,
        )

    def try_point(self, point: TrialPoint) -> Conversation[dict[int, Sums]]:
        """Send the trial point; return the sums of margins there."""
        federation, (packed, sloped) = self.federation, self._packed(point)
        grid = federation.grids.margins
        federation.fit_margins(grid, point.squared_norms)
        is_free = federation.problem.free_intercept
        intercepts = tuple(point.intercepts.tolist()) if is_free else ()
        margins = yield from federation.gather_sum(
            "trial",
            [grid],
            lambda client: b.TrialRequest(
                self._move, packed.get(client), sloped, grid.spec, intercepts
            ),
            federation.sample_sum(len(point.intercepts)),
        )
        return margins.take_each(federation.labelled)

    def _packed(
        self, point: TrialPoint
    ) -> tuple[dict[int, memoryview], memoryview | None]:
        """Return the weights of each client's features, or those of the planes."""
        weights, features = point.weights, self.federation.layout.features
        if weights is None:
            return {}, pack_reals(point.plane_weights)
        everyone = self.federation.everyone
        return {c: pack_reals(weights[features.items[c]]) for c in everyone}, None

    def _primals_along(
        self, margins: dict[int, Sums], steps: FloatArray
    ) -> Conversation[FloatArray]:
        """Return P at some steps from the best point to the trial point, rounded up."""
        shape = (len(steps), self.federation.problem.n_outputs)
        return (yield from self.totals_along(margins, steps, shape))

    def totals_along(
        self, margins: dict[int, Sums], steps: FloatArray, shape: tuple[int, int]
    ) -> Conversation[FloatArray]:
        """Return what clients measure at some steps to the trial point.

        At w = 0 nobody needs margins; nor do clients without labels anywhere.
        """
        federation, grid = self.federation, self.federation.grids.totals
        total = yield from federation.gather_total(
            "search",
            grid,
            lambda client, spec: b.SearchRequest(
                margins.get(client, []), steps.tolist(), spec
            ),
            shape,
        )
        [found] = yield from federation.open_totals([total], "open search")
        return found
