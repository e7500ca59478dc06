"""The bundle method under partial participation: asynchronous by bucket.

A plane of one bucket is valid by itself. So each bucket is given a point, its holders'
margins there are collected as they appear, then their slopes; no bucket waits for
another. A client that never returns freezes only its buckets, whose planes stay valid.

The point w moves a small way towards the model's best point, further if more buckets
brought new planes. New planes touch the loss at the bucket's new margins and
beyond, in the direction it has moved in: that costs bytes, but no visit.

| phase        | down                                         | up                    |
|--------------|----------------------------------------------|-----------------------|
| visit        | points; for which buckets                    | their margins, sealed |
| visit planes | margins of these buckets, sealed             | slopes, offsets       |
| forward visit| duals, sealed, to those without labels       | slopes                |

P is measured, and with it the certificate, as in ``bundle.py``: along the way from
the best point so far to w, by exchanges that each wait for everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.bundle.bucket_states import (
    Bucket,
    BucketLayouts,
    BucketState,
    Owed,
)
from hyfdca.algorithms.bundle.collecting import (
    forwarded_duals,
    offsets_width,
    unopened,
)
from hyfdca.algorithms.bundle.server import BundleServer, BundleServerState
from hyfdca.algorithms.bundle.settings import VISIT_PLACES, BundleSettings
from hyfdca.algorithms.bundle.slopes import by_plane
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.grids import GridState, VectorGrid
from hyfdca.federation.sealing.client_sealing import read_sum
from hyfdca.federation.server import Federation
from hyfdca.holdings.axis import Axis
from hyfdca.protocol.codec import pack_indices, pack_reals
from hyfdca.protocol.messages import Parts, Sealed, Sums
from hyfdca.protocol.server_session import BadReplyError, Conversation, reply_of

_INNER = 0.01  # of the gap, to which the programme is solved
_LEAST = 1e-4  # of P, where the guess of the gap is smaller
_SHARE_OF_WAY = 0.2  # to the model's best point, when all buckets brought planes


@dataclass(frozen=True, repr=False)
class AsyncBundleServerState:
    """What a checkpoint keeps of the server's half."""

    bundle: BundleServerState
    point: FloatArray
    margins_grid: GridState
    losses: dict[int, FloatArray]
    buckets: list[BucketState]


class AsyncBundleServer(BundleServer):
    """The server's half, open profile; it starts at w = 0 with nothing asked."""

    def __init__(self, federation: Federation, settings: BundleSettings) -> None:
        super().__init__(federation, settings)
        problem = federation.problem
        self._n_features = federation.layout.features.n_items
        # The last row is the intercept, if that is free.
        n_rows = self._n_features + problem.free_intercept
        self.point = np.zeros((n_rows, problem.n_outputs))
        self._tried: FloatArray | None = None  # the point that is being measured
        self._losses: dict[int, FloatArray] = {}  # by bucket, at its last point

    def state(self) -> AsyncBundleServerState:  # type: ignore[override]
        """Return what a checkpoint keeps."""
        return AsyncBundleServerState(
            self.bundle_state(),
            self.point,
            self._margins_grid.state(),
            self._losses,
            [state.state() for state in self.states],
        )

    def restore(self, state: AsyncBundleServerState) -> None:  # type: ignore[override]
        """Take a state."""
        self.restore_bundle(state.bundle)
        self.point, self._losses = state.point, dict(state.losses)
        self._margins_grid.restore(state.margins_grid)
        for own, kept in zip(self.states, state.buckets, strict=True):
            own.restore(kept)

    @cached_property
    def _margins_grid(self) -> VectorGrid:
        """Measuring uses separate margins, on another grid, at the same time."""
        return VectorGrid("visit margins", self.federation.grids.margins.grid)

    @cached_property
    def states(self) -> list[Bucket]:
        """Return every bucket, owing the planes at w = 0."""
        layout, buckets = self.federation.layout, self.buckets
        states = []
        for bucket in range(buckets.n_buckets):
            samples = np.flatnonzero(buckets.of_sample == bucket)
            holders = [
                c for c in self.federation.everyone if bucket in buckets.of_client[c]
            ]
            labelled = frozenset(c for c in holders if layout.labelled[c])
            forwards = len(labelled) < len(holders)
            layouts = self._layouts(samples, holders, forwards)
            state = Bucket(holders, labelled, layouts)
            state.finish(self.federation.grids.duals.spec)
            states.append(state)
        return states

    def _layouts(
        self, samples: IntArray, holders: list[int], forwards: bool
    ) -> BucketLayouts:
        """Return the layouts of a bucket's vectors."""
        vectors, items = self.federation.vectors, self.federation.layout.samples.items
        held = (np.isin(samples, items[client]) for client in holders)
        axis = Axis(len(samples), tuple(map(np.flatnonzero, held)))
        n_outputs = self.federation.problem.n_outputs
        width = len(VISIT_PLACES) * n_outputs
        return BucketLayouts(
            vectors.of_some_samples(samples, axis, n_outputs),
            vectors.layouts["features", width],
            vectors.of_some_samples(samples, axis, width) if forwards else None,
            offsets_width(self.federation, width),
        )

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Collect what present clients can give; move the point; continue measuring."""
        self.round_number += 1
        self._give_points()
        session = self.federation.session
        session.present = frozenset(participants)
        try:
            n_new = yield from self._collect_slopes(participants)
            yield from self._collect_margins(participants)
            n_new += yield from self._collect_slopes(participants)
            if n_new:
                self._move_point(min(n_new / len(self.states), 1.0))
            yield from self.continue_step()
        finally:
            session.present = None

    def step(self) -> Conversation[None]:
        """Measure P along the way to the point, and move to where it is lowest."""
        self._tried = self.point  # which moves on while measuring waits for clients
        weights = self.point[: self._n_features]
        point = self._trial_point(weights, self.squared_norms(weights))
        self.record_step((yield from self.search(point)))
        self._tried = None

    def start_at(self, weights: FloatArray) -> None:
        """Begin at these weights, a free intercept last."""
        self.point = weights

    @property
    def trial_intercepts(self) -> FloatArray:
        """The intercepts of the point that is being measured."""
        return self._intercepts_of(self._tried)

    def _intercepts_of(self, point: FloatArray | None) -> FloatArray:
        """Return the intercepts of a point, zero where they are not free."""
        if point is None:
            return np.zeros(self.federation.problem.n_outputs)
        return np.asarray(point[self._n_features :].sum(axis=0))

    # The point

    def tolerances(self) -> FloatArray:
        """Return how exactly to solve; P is a guess, since measuring it takes long."""
        penalties = self.squared_norms(self.point[: self._n_features]) / 2
        guesses = penalties + sum(self._losses.values(), np.zeros_like(penalties))
        is_known = len(self._losses) == len(self.states)
        primals = np.minimum(guesses, self.primals) if is_known else self.primals
        bounds = np.maximum(self.bounds, self.near_bounds)
        return np.asarray(_INNER * np.maximum(primals - bounds, _LEAST * primals))

    def _move_point(self, share: float) -> None:
        """Solve with the new planes, and move part of the way to the model's point."""
        self.set_reach()
        self.model.solve(self.tolerances(), share)
        target = self.weights()
        assert target is not None  # noqa: S101  # the open profile shows it
        self.note_bound(target)
        if self.federation.problem.free_intercept:
            target = np.vstack([target, self.model.intercepts])
        self.point = self.point + _SHARE_OF_WAY * share * (target - self.point)
        self.model.forget()

    def _give_points(self) -> None:
        """Give the present point to buckets that wait for one."""
        for state in self.states:
            if state.point is None and state.last_point is not self.point:
                state.start(self.point)

    # Margins

    def _collect_margins(self, present: Iterable[int]) -> Conversation[None]:
        """Collect margins of present clients at their buckets' points."""
        federation, grid = self.federation, self._margins_grid
        wanted = self._wanted(
            present, lambda s, c: s.point is not None and c not in s.given
        )
        points = [s.point for s in self.states if s.point is not None]
        squares = [
            self.squared_norms(point[: self._n_features]).max() for point in points
        ]
        federation.fit_margins(grid, np.array([*squares, 0.0]))
        replies = yield from federation.gather(
            "visit",
            wanted,
            [grid],
            lambda client: self._visit_request(client, wanted[client]),
            Parts,
        )
        for client, reply in replies.items():
            self._check_length(client, reply.vectors, wanted[client])
            for bucket, part in zip(wanted[client], reply.vectors, strict=True):
                state = self.states[bucket]
                with reply_of(client):
                    state.margins.add(state.holders.index(client), part, None)
                state.given.add(client)
        for state in self.states:
            is_complete = len(state.given) == len(state.holders)
            # Slopes that are still owed come first.
            if state.point is not None and is_complete and state.owed is None:
                state.finish(federation.grids.duals.spec)

    def _visit_request(self, client: int, buckets: list[int]) -> b.VisitRequest:
        federation = self.federation
        own = federation.layout.features.items[client]
        points = [self.states[bucket].point for bucket in buckets]
        distinct = {id(point): point for point in points if point is not None}
        order = {key: place for place, key in enumerate(distinct)}
        return b.VisitRequest(
            pack_reals(np.stack([point[own] for point in distinct.values()])),
            self._places(client, buckets),
            pack_indices(np.array([order[id(point)] for point in points])),
            self._margins_grid.spec,
        )

    # Slopes

    def _collect_slopes(self, present: Iterable[int]) -> Conversation[int]:
        """Collect the slopes that present clients owe; return how many are complete."""
        yield from self._collect_from_labelled(self._owing(present, labelled=True))
        yield from self._collect_from_others(self._owing(present, labelled=False))
        complete = [
            (bucket, state.owed)
            for bucket, state in enumerate(self.states)
            if state.owed and len(state.owed.given) == len(state.holders)
        ]
        for bucket, owed in complete:
            self._add_planes(bucket, owed)
            self.states[bucket].owed = None
        return len(complete)

    def _owing(self, present: Iterable[int], labelled: bool) -> dict[int, list[int]]:
        """Return the buckets whose slopes each client, with labels or not, owes now."""
        of = self.federation.layout.labelled
        return self._wanted(
            [client for client in present if of[client] == labelled],
            lambda state, client: state.can_owe(client),
        )

    def _collect_from_labelled(
        self, wanted: dict[int, list[int]]
    ) -> Conversation[None]:
        federation, grids = self.federation, self.federation.grids
        replies = yield from federation.gather(
            "visit planes",
            wanted,
            [grids.shares, self.grids.offsets, grids.duals],
            lambda client: self._planes_request(client, wanted[client]),
            b.Planes,
        )
        for client, reply in replies.items():
            buckets = wanted[client]
            self._check_length(client, reply.slopes, buckets)
            width = len(VISIT_PLACES) * federation.problem.n_outputs
            shape = (len(buckets), offsets_width(federation, width))
            with reply_of(client):
                conjugates = read_sum([reply.offsets], shape)
            for number, bucket in enumerate(buckets):
                state = self._on_one_grid(bucket)
                assert state.owed is not None  # noqa: S101  # it was asked for
                self._take_slope(state.owed, client, reply.slopes[number])
                state.owed.conjugates += conjugates[number]
                if state.owed.forwarded is not None:
                    duals = forwarded_duals(client, reply, len(buckets))[number]
                    place = state.holders.index(client)
                    with reply_of(client):
                        state.owed.forwarded.add(place, duals, None)

    def _on_one_grid(self, bucket: int) -> Bucket:
        """Start a bucket's slopes again if its duals were rounded on another grid."""
        state, grid = self.states[bucket], self.federation.grids.duals.spec
        owed = state.owed
        is_rounded = bool(self.federation.unlabelled)  # as clients were asked to
        if owed is not None and is_rounded and owed.duals_grid != grid:
            state.number -= 1  # the same visit, of which clients have the margins
            state.owe(owed.point, owed.margins, grid)
        return state

    def _collect_from_others(self, wanted: dict[int, list[int]]) -> Conversation[None]:
        """Forward duals to those without labels; take their slopes."""
        federation, grid = self.federation, self.federation.grids.shares
        replies = yield from federation.gather(
            "forward visit",
            wanted,
            [grid],
            lambda client: b.ForwardedVisit(
                self._places(client, wanted[client]),
                [self._forwarded(client, bucket) for bucket in wanted[client]],
                len(VISIT_PLACES),
                grid.spec,
            ),
            Parts,
        )
        for client, reply in replies.items():
            self._check_length(client, reply.vectors, wanted[client])
            for bucket, part in zip(wanted[client], reply.vectors, strict=True):
                owed = self.states[bucket].owed
                assert owed is not None  # noqa: S101  # it was asked for
                self._take_slope(owed, client, part)

    def _take_slope(self, owed: Owed, client: int, part: Sealed) -> None:
        owed.slopes.add(client, part, None)
        owed.given.add(client)
        self.model.note_step(part.fraction_bits)

    def _forwarded(self, client: int, bucket: int) -> Sums:
        state = self.states[bucket]
        assert state.owed is not None  # noqa: S101  # it is about to be asked for
        assert state.owed.forwarded is not None  # noqa: S101  # somebody has no labels
        return state.owed.forwarded.take(state.holders.index(client), None)

    def _planes_request(self, client: int, buckets: list[int]) -> b.VisitPlanesRequest:
        federation = self.federation
        numbers, margins, intercepts = [], [], []
        for bucket in buckets:
            state = self.states[bucket]
            assert state.owed is not None  # noqa: S101  # it is about to be asked for
            numbers.append(state.owed.number)
            collected = state.owed.margins
            place = state.holders.index(client)
            margins.append(collected.take(place, None))
            intercepts.append(self._intercepts_of(state.owed.point))
        return b.VisitPlanesRequest(
            self._places(client, buckets),
            numbers,
            margins,
            list(VISIT_PLACES),
            federation.grids.shares.spec,
            unopened(self.grids.offsets),
            federation.grids.duals.spec,
            bool(federation.unlabelled),
            pack_reals(np.array(intercepts))
            if federation.problem.free_intercept
            else None,
        )

    def _add_planes(self, bucket: int, owed: Owed) -> None:
        """Put a bucket's complete planes into the model."""
        model, federation = self.model, self.federation
        n_outputs, n_planes = federation.problem.n_outputs, len(VISIT_PLACES)
        shape = (federation.layout.features.n_items, n_planes * n_outputs)
        slopes = by_plane(read_sum(owed.slopes.take_all(), shape), n_outputs)
        totals = owed.conjugates.reshape(-1, n_planes, n_outputs)
        offsets, balances = -totals[0], totals[1:]  # the latter if they are needed
        # The first plane touches the bucket's loss at its point.
        self._losses[bucket] = offsets[0]
        if owed.point is not None:
            point, intercepts = np.split(owed.point, [self._n_features])
            along = (slopes[0] * point).sum(axis=0) / federation.problem.n_samples
            self._losses[bucket] = offsets[0] - along
            for own in balances:
                self._losses[bucket] = self._losses[bucket] - own[0] * intercepts[0]
        self.planes.note_rounding()
        update = model.remember(slopes)
        model.add(np.full(n_planes, bucket), offsets, update, *balances)

    # Requests

    def _wanted(
        self, present: Iterable[int], wants: Callable[[Bucket, int], bool]
    ) -> dict[int, list[int]]:
        """Return the buckets about which each client is asked something."""
        wanted = {
            client: [
                bucket
                for bucket in self.buckets.of_client[client].tolist()
                if wants(self.states[bucket], client)
            ]
            for client in present
        }
        return {client: buckets for client, buckets in wanted.items() if buckets}

    def _places(self, client: int, buckets: list[int]) -> memoryview:
        """Return buckets as places in the client's own list of them."""
        own: IntArray = self.buckets.of_client[client]
        return pack_indices(np.searchsorted(own, buckets))

    @staticmethod
    def _check_length(client: int, parts: list[Sealed], buckets: list[int]) -> None:
        if len(parts) != len(buckets):
            raise BadReplyError("", client, "it replied for other buckets")
