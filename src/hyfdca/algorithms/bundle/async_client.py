"""A client's half of the asynchronous bundle method: its answers to visits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.bundle.asked import check_visit
from hyfdca.algorithms.bundle.plane_sums import PlaneSums
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError
from hyfdca.maths.loss_kernels import touching_duals
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    unpack_indices,
    unpack_places,
    unpack_reals,
)
from hyfdca.protocol.messages import Message, Parts, TooLarge

if TYPE_CHECKING:
    from hyfdca.algorithms.bundle.client import BundleClient


@dataclass(frozen=True, repr=False)
class VisitedState:
    """What a checkpoint keeps: margins, and the visits they belong to."""

    before: FloatArray
    now: FloatArray
    numbers: dict[int, int]


class VisitedBuckets:
    """State: margins of each bucket's samples at its last two points."""

    def __init__(self, client: BundleClient) -> None:
        self._client, self._party = client, client.party
        n_rows = 0 if client.party.block.labels is None else client.party.n_held
        self._before = client.party.at_start(n_rows)
        self._now = client.party.at_start(n_rows)
        self._numbers: dict[int, int] = {}  # of the visits these belong to
        self._rows: dict[int, IntArray] = {}

    @property
    def handlers(self) -> Handlers:
        """What the client does on a visit."""
        return {
            "visit": self._margins,
            "visit planes": self._planes,
            "forward visit": self._take_planes,
        }

    def state(self) -> VisitedState:
        """Return what a checkpoint keeps."""
        return VisitedState(self._before, self._now, self._numbers)

    def restore(self, state: VisitedState) -> None:
        """Take a state."""
        self._before, self._now = state.before, state.now
        self._numbers = dict(state.numbers)

    def _margins(self, request: b.VisitRequest) -> Message:
        """Return x_{k,i}·w of some buckets' samples, each at its bucket's point."""
        party = self._party
        buckets = self._buckets(request.buckets)
        size = party.n_features * party.problem.n_outputs
        # A client without features gets points of no length, at most one per bucket.
        n_points = len(request.points) // (8 * size) if size else len(buckets)
        points = unpack_reals(request.points, n_points * size)
        points = points.reshape(n_points, party.n_features, party.problem.n_outputs)
        which = unpack_places(request.point_of, len(buckets), n_points)
        try:
            parts = []
            for bucket, point in zip(buckets, which.tolist(), strict=True):
                rows = self._rows_of(bucket)
                products = party.products(rows, points[point])
                numbers = party.sealing.encoded(products, request.grid)
                parts.append(
                    party.sealing.sealed_apart("margins", numbers, request.grid, rows)
                )
            return Parts(parts)
        except GridOverflowError:
            return TooLarge()

    def _planes(self, request: b.VisitPlanesRequest) -> Message:
        """Take the summed margins of some buckets; return planes that touch there."""
        check_visit(request)
        party, labels = self._party, self._party.labels
        buckets = self._buckets(request.buckets)
        if not len(buckets) == len(request.numbers) == len(request.margins):
            raise RemoteProtocolError("buckets, visits and margins do not match")
        intercepts = self._intercepts(request.intercepts, len(buckets))
        # All are opened before any is noted: a refused request changes nothing.
        opened = []
        given = zip(buckets, request.margins, intercepts, strict=True)
        for bucket, summed, own in given:
            rows = self._rows_of(bucket)
            margins = party.sealing.opened_apart("margins", summed, rows)
            opened.append(party.with_offsets(margins, rows) + own)
        before = self._before, self._now, self._numbers
        self._before, self._now = self._before.copy(), self._now.copy()
        self._numbers = dict(self._numbers)
        try:
            for visit in zip(buckets, request.numbers, opened, strict=True):
                self._take_margins(*visit)
            return self._new_planes(buckets, request, labels)
        except Exception:
            self._before, self._now, self._numbers = before
            raise

    def _new_planes(
        self, buckets: list[int], request: b.VisitPlanesRequest, labels: FloatArray
    ) -> Message:
        """Return the planes of some buckets that touch at the margins now."""
        sums = PlaneSums(self._client, len(buckets), len(request.places))
        forwarded = []
        try:
            for place, bucket in enumerate(buckets):
                rows = self._rows_of(bucket)
                duals = self._new_duals(rows, request)
                sums.add(rows, _all_of(place, rows), duals, labels)
                if request.forwards:
                    forwarded.append(sums.forwarded(rows, duals, request.duals_grid))
            return b.Planes(
                sums.slopes(request.grid),
                sums.offsets(request.offsets_grid),
                forwarded if request.forwards else None,
            )
        except GridOverflowError:
            return TooLarge()

    def _intercepts(self, payload: memoryview | None, n_buckets: int) -> FloatArray:
        """Return the intercepts of buckets' points, zero where the study has none."""
        problem = self._party.problem
        shape = (n_buckets, problem.n_outputs)
        if problem.free_intercept != (payload is not None):
            raise RemoteProtocolError("points come with intercepts or without")
        if payload is None:
            return np.zeros(shape)
        return unpack_reals(payload, n_buckets * problem.n_outputs).reshape(shape)

    def _new_duals(self, rows: IntArray, request: b.VisitPlanesRequest) -> FloatArray:
        """Return the duals of planes that touch at the margins now and beyond."""
        party, labels = self._party, self._party.labels
        duals = touching_duals(
            party.problem.loss,
            self._before[rows],
            self._now[rows],
            labels[rows],
            np.array(request.places),
        )
        if request.forwards:
            return party.sealing.on_grid(duals, request.duals_grid)
        return duals

    def _take_margins(self, bucket: int, number: int, margins: FloatArray) -> None:
        """Note a bucket's new margins, once per visit."""
        rows = self._rows_of(bucket)
        if self._numbers.get(bucket) != number:
            self._before[rows] = self._now[rows]
            self._now[rows] = margins
            self._numbers[bucket] = number

    def _take_planes(self, request: b.ForwardedVisit) -> Message:
        """Take the duals of some buckets from the samples' designated holders."""
        sealing = self._party.sealing
        buckets = self._buckets(request.buckets)
        if len(buckets) != len(request.duals):
            raise RemoteProtocolError("buckets and duals do not match")
        sums = PlaneSums(self._client, len(buckets), request.n_planes)
        for place, bucket in enumerate(buckets):
            rows = self._rows_of(bucket)
            duals = sealing.opened_apart(
                "duals", request.duals[place], rows, sums.width
            )
            sums.add(rows, _all_of(place, rows), duals)
        try:
            return Parts(sums.slopes(request.grid))
        except GridOverflowError:
            return TooLarge()

    def _buckets(self, payload: memoryview) -> list[int]:
        buckets: list[int] = unpack_indices(payload, self._client.n_buckets).tolist()
        return buckets

    def _rows_of(self, bucket: int) -> IntArray:
        if bucket not in self._rows:
            self._rows[bucket] = np.flatnonzero(self._client.buckets == bucket)
        return self._rows[bucket]


def _all_of(bucket: int, rows: IntArray) -> NDArray[np.uint32]:
    return np.full(len(rows), bucket, np.uint32)
