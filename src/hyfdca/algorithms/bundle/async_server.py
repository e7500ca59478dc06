"""The bundle method under partial participation: asynchronous by bucket.

A plane of one bucket is valid by itself. So each bucket is given a point, its holders'
margins there are collected as they come by, then their slopes; nobody waits for other
buckets. Whoever never comes back freezes only its buckets, whose planes stay valid.

The point w moves towards the model's best point by little, the more buckets brought
new planes the further. New planes touch the loss at the bucket's new margins and
beyond, in the direction it has moved in: that costs bytes, but no visit.

| phase        | down                                         | up                    |
|--------------|----------------------------------------------|-----------------------|
| visit        | points; for which buckets                    | their margins, sealed |
| visit planes | margins of these buckets, sealed             | slopes, offsets       |
| adopt visit  | duals, sealed, to those without labels       | slopes                |

P is measured, and with it the certificate, as in ``bundle.py``: along the way from
the best point so far to w, by exchanges that each wait for everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.bundle.bucket_states import Bucket, Owed, Spaces
from hyfdca.algorithms.bundle.collecting import by_plane, lent_duals
from hyfdca.algorithms.bundle.server import BundleServer
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.sums import read_sum
from hyfdca.holdings.axis import Axis
from hyfdca.protocol import messages as m
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices, pack_reals
from hyfdca.protocol.server_session import Conversation

# Where new planes touch: from the last margins (0) to the new ones (1) and beyond.
VISIT_PLACES = (1.0, 2.0, 4.0, 8.0)

_GRID = "visit margins"  # measuring has margins of its own, at the same time
_INNER = 0.01  # of the gap, to which the programme is solved
_LEAST = 1e-4  # of P, where the guess of the gap is smaller
_SHARE_OF_WAY = 0.2  # to the model's best point, when all buckets brought planes


class AsyncBundleServer(BundleServer):
    """The server's half, open profile."""

    kept: ClassVar[tuple[str, ...]] = ("point", "_losses", "states")

    def __post_init__(self) -> None:
        """Start at w = 0 with nothing asked."""
        super().__post_init__()
        shape = (
            self.coordinator.layout.features.n_items,
            self.coordinator.problem.n_outputs,
        )
        self.point = np.zeros(shape)
        self._losses: dict[int, FloatArray] = {}  # by bucket, at its last point

    @cached_property
    def states(self) -> list[Bucket]:
        """Return every bucket, owing the planes at w = 0."""
        layout, buckets = self.coordinator.layout, self.buckets
        states = []
        for bucket in range(buckets.n_buckets):
            samples = np.flatnonzero(buckets.of_sample == bucket)
            holders = [
                c for c in self.coordinator.everyone if bucket in buckets.of_client[c]
            ]
            labelled = frozenset(c for c in holders if layout.labelled[c])
            is_lent = len(labelled) < len(holders)
            spaces = self._spaces(samples, holders, is_lent)
            state = Bucket(holders, labelled, spaces)
            state.finish(self.coordinator.spec("duals"))
            states.append(state)
        return states

    def _spaces(self, samples: IntArray, holders: list[int], is_lent: bool) -> Spaces:
        """Return the spaces of a bucket's vectors."""
        vaults, items = self.coordinator.vaults, self.coordinator.layout.samples.items
        held = (np.isin(samples, items[client]) for client in holders)
        axis = Axis(len(samples), tuple(map(np.flatnonzero, held)))
        n_outputs = self.coordinator.problem.n_outputs
        width = len(VISIT_PLACES) * n_outputs
        return Spaces(
            vaults.of_some_samples(samples, axis, n_outputs),
            vaults.by_feature(width),
            vaults.of_some_samples(samples, axis, width) if is_lent else None,
        )

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Collect what those present can give; move the point; go on certifying."""
        self.round_number += 1
        self._give_points()
        with self.coordinator.session.among(participants):
            n_new = yield from self._collect_slopes(participants)
            yield from self._collect_margins(participants)
            n_new += yield from self._collect_slopes(participants)
            if n_new:
                self._move_point(min(n_new / len(self.states), 1.0))
            yield from self._go_on()

    def step(self) -> Conversation[None]:
        """Measure P along the way to the point, and go where it is lowest."""
        self.moved_by((yield from self.search(self.point)))

    # The point

    def tolerances(self) -> FloatArray:
        """Return how well to solve: P is guessed, since measuring it takes long."""
        penalties = self._squared_norms(self.point) / 2
        guesses = penalties + sum(self._losses.values(), np.zeros_like(penalties))
        is_known = len(self._losses) == len(self.states)
        primals = np.minimum(guesses, self.primals) if is_known else self.primals
        return _INNER * np.maximum(primals - self.bounds, _LEAST * primals)

    def _move_point(self, share: float) -> None:
        """Solve with the new planes, and go part of the way to the model's point."""
        self.model.solve(self.tolerances(), share)
        self.note_bound()
        target = self._weights()
        assert target is not None  # noqa: S101  # the open profile shows it
        self.point = self.point + _SHARE_OF_WAY * share * (target - self.point)
        self.model.forget()

    def _give_points(self) -> None:
        """Give the present point to buckets that wait for one."""
        for state in self.states:
            if state.point is None and state.last_point is not self.point:
                state.start(self.point)

    # Margins

    def _collect_margins(self, present: Iterable[int]) -> Conversation[None]:
        """Have those present give margins at their buckets' points."""
        coordinator = self.coordinator
        wanted = self._wanted(
            present, lambda s, c: s.point is not None and c not in s.given
        )
        points = [s.point for s in self.states if s.point is not None]
        squares = [self._squared_norms(point).max() for point in points]
        coordinator.fit_margins(_GRID, np.array([*squares, 0.0]))
        replies = yield from coordinator.gather(
            "visit",
            wanted,
            [_GRID],
            lambda client: self._visit_request(client, wanted[client]),
            m.Parts,
        )
        for client, reply in replies.items():
            self._check_length(client, reply.vectors, wanted[client])
            for bucket, part in zip(wanted[client], reply.vectors, strict=True):
                state = self.states[bucket]
                state.margins.add(state.holders.index(client), part, None)
                state.given.add(client)
        for state in self.states:
            is_complete = len(state.given) == len(state.holders)
            # Slopes that are still owed come first.
            if state.point is not None and is_complete and state.owed is None:
                state.finish(coordinator.spec("duals"))

    def _visit_request(self, client: int, buckets: list[int]) -> b.VisitRequest:
        coordinator = self.coordinator
        own = coordinator.layout.features.items[client]
        points = [self.states[bucket].point for bucket in buckets]
        distinct = {id(point): point for point in points if point is not None}
        order = {key: place for place, key in enumerate(distinct)}
        return b.VisitRequest(
            pack_reals(np.stack([point[own] for point in distinct.values()])),
            self._places(client, buckets),
            pack_indices(np.array([order[id(point)] for point in points])),
            coordinator.spec(_GRID),
        )

    # Slopes

    def _collect_slopes(self, present: Iterable[int]) -> Conversation[int]:
        """Have those present give the slopes they owe; return how many are complete."""
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
        of = self.coordinator.layout.labelled
        return self._wanted(
            [client for client in present if of[client] == labelled],
            lambda state, client: state.can_owe(client),
        )

    def _collect_from_labelled(
        self, wanted: dict[int, list[int]]
    ) -> Conversation[None]:
        coordinator = self.coordinator
        replies = yield from coordinator.gather(
            "visit planes",
            wanted,
            ["shares", "offsets", "duals"],
            lambda client: self._planes_request(client, wanted[client]),
            b.Planes,
        )
        for client, reply in replies.items():
            buckets = wanted[client]
            self._check_length(client, reply.slopes, buckets)
            shape = (len(buckets), len(VISIT_PLACES) * coordinator.problem.n_outputs)
            conjugates = read_sum([reply.offsets], shape)
            for place, bucket in enumerate(buckets):
                state = self._on_one_grid(bucket)
                assert state.owed is not None  # noqa: S101  # it was asked for
                self._take_slope(state.owed, client, reply.slopes[place])
                state.owed.conjugates += conjugates[place]
                if state.owed.lent is not None:
                    duals = lent_duals(client, reply, len(buckets))[place]
                    state.owed.lent.add(state.holders.index(client), duals, None)

    def _on_one_grid(self, bucket: int) -> Bucket:
        """Start a bucket's slopes again if its duals were rounded on another grid."""
        state, grid = self.states[bucket], self.coordinator.spec("duals")
        owed = state.owed
        if owed is not None and owed.lent is not None and owed.duals_grid != grid:
            state.number -= 1  # the same visit, of which clients have the margins
            state.owe(owed.point, owed.margins, grid)
        return state

    def _collect_from_others(self, wanted: dict[int, list[int]]) -> Conversation[None]:
        """Lend duals to those without labels; take their slopes."""
        coordinator = self.coordinator
        replies = yield from coordinator.gather(
            "adopt visit",
            wanted,
            ["shares"],
            lambda client: b.AdoptVisitRequest(
                self._places(client, wanted[client]),
                [self._lent(client, bucket) for bucket in wanted[client]],
                len(VISIT_PLACES),
                coordinator.spec("shares"),
            ),
            m.Parts,
        )
        for client, reply in replies.items():
            self._check_length(client, reply.vectors, wanted[client])
            for bucket, part in zip(wanted[client], reply.vectors, strict=True):
                owed = self.states[bucket].owed
                assert owed is not None  # noqa: S101  # it was asked for
                self._take_slope(owed, client, part)

    def _take_slope(self, owed: Owed, client: int, part: m.Sealed) -> None:
        owed.slopes.add(client, part, None)
        owed.given.add(client)
        self.model.note_step(part.fraction_bits)

    def _lent(self, client: int, bucket: int) -> m.Sums:
        state = self.states[bucket]
        assert state.owed is not None  # noqa: S101  # it is about to be asked for
        assert state.owed.lent is not None  # noqa: S101  # somebody has no labels
        return state.owed.lent.take(state.holders.index(client), None)

    def _planes_request(self, client: int, buckets: list[int]) -> b.VisitPlanesRequest:
        coordinator = self.coordinator
        numbers, margins = [], []
        for bucket in buckets:
            state = self.states[bucket]
            assert state.owed is not None  # noqa: S101  # it is about to be asked for
            numbers.append(state.owed.number)
            collected = state.owed.margins
            place = state.holders.index(client)
            margins.append(collected.take(place, None))
        return b.VisitPlanesRequest(
            self._places(client, buckets),
            numbers,
            margins,
            list(VISIT_PLACES),
            coordinator.spec("shares"),
            coordinator.spec("offsets"),
            coordinator.spec("duals"),
            not all(coordinator.layout.labelled),
        )

    def _add_planes(self, bucket: int, owed: Owed) -> None:
        """Put a bucket's complete planes into the model."""
        model, coordinator = self.model, self.coordinator
        n_outputs, n_planes = coordinator.problem.n_outputs, len(VISIT_PLACES)
        shape = (coordinator.layout.features.n_items, n_planes * n_outputs)
        slopes = by_plane(read_sum(owed.slopes.take_all(), shape), n_outputs)
        offsets = -owed.conjugates.reshape(n_planes, n_outputs)
        # The first plane touches the bucket's loss at its point.
        along = 0.0 if owed.point is None else (slopes[0] * owed.point).sum(axis=0)
        self._losses[bucket] = offsets[0] - along / coordinator.problem.n_samples
        model.add(np.full(n_planes, bucket), offsets, model.remember(slopes))

    # Who is asked what

    def _wanted(
        self, present: Iterable[int], wants: Callable[[Bucket, int], bool]
    ) -> dict[int, list[int]]:
        """Return the buckets for which something is wanted of each client."""
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
    def _check_length(client: int, parts: list[m.Sealed], buckets: list[int]) -> None:
        if len(parts) != len(buckets):
            raise RemoteProtocolError(f"client {client} answers for other buckets")
