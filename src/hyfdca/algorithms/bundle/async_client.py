"""A client's half of the asynchronous bundle method: what it gives on a visit."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.bundle.plane_sums import PlaneSums
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError
from hyfdca.maths.loss_kernels import touching_duals
from hyfdca.protocol import messages as m
from hyfdca.protocol.checkpoint import Kept
from hyfdca.protocol.client_session import Phase
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    unpack_indices,
    unpack_places,
    unpack_reals,
)

if TYPE_CHECKING:
    from hyfdca.algorithms.bundle.client import BundleClient


class Visiting(Kept):
    """State: margins of each bucket's samples at its last two points."""

    kept: ClassVar[tuple[str, ...]] = ("_before", "_now", "_numbers")
    passing: ClassVar[tuple[str, ...]] = ("_rows",)

    def __init__(self, client: BundleClient) -> None:
        self._client = client
        shape = (client.n_held, client.problem.n_outputs)
        if client.block.labels is not None:
            self._before, self._now = np.zeros(shape), np.zeros(shape)
        self._numbers: dict[int, int] = {}  # of the visits these belong to
        self._rows: dict[int, IntArray] = {}
        self.phases = {
            "visit": Phase(b.VisitRequest, self._margins),
            "visit planes": Phase(b.VisitPlanesRequest, self._planes),
            "adopt visit": Phase(b.AdoptVisitRequest, self._adopt),
        }

    def _margins(self, request: b.VisitRequest) -> m.Message:
        """Return x_{k,i}·w of some buckets' samples, each at its bucket's point."""
        client = self._client
        buckets = self._buckets(request.buckets)
        size = client.n_features * client.problem.n_outputs
        # Who has no features is sent points of no length, at most one a bucket.
        n_points = len(request.points) // (8 * size) if size else len(buckets)
        points = unpack_reals(request.points, n_points * size)
        points = points.reshape(n_points, client.n_features, client.problem.n_outputs)
        which = unpack_places(request.point_of, len(buckets), n_points)
        try:
            parts = []
            for bucket, point in zip(buckets, which.tolist(), strict=True):
                rows = self._rows_of(bucket)
                products = client.products(rows, points[point])
                numbers = client.encoded(products, request.grid)
                parts.append(client.sealed_apart(numbers, request.grid, rows))
            return m.Parts(parts)
        except GridOverflowError:
            return m.TooLarge()

    def _planes(self, request: b.VisitPlanesRequest) -> m.Message:
        """Take the summed margins of some buckets; return planes that touch there."""
        client, labels = self._client, self._client.block.labels
        if labels is None:
            raise RemoteProtocolError("this client has no labels to make planes of")
        buckets = self._buckets(request.buckets)
        if not len(buckets) == len(request.numbers) == len(request.margins):
            raise RemoteProtocolError("buckets, visits and margins do not match")
        # All are opened before any is noted: a refused request changes nothing.
        opened = [
            client.opened_apart(sums, self._rows_of(bucket))
            for bucket, sums in zip(buckets, request.margins, strict=True)
        ]
        for visit in zip(buckets, request.numbers, opened, strict=True):
            self._take_margins(*visit)
        sums = PlaneSums(client, len(buckets), len(request.places))
        lent = []
        try:
            for place, bucket in enumerate(buckets):
                rows = self._rows_of(bucket)
                duals = self._new_duals(rows, request)
                sums.add(rows, _all_of(place, rows), duals, labels)
                if request.is_lent:
                    lent.append(sums.lent(rows, duals, request.duals_grid))
            return b.Planes(
                sums.slopes(request.grid),
                sums.offsets(request.offsets_grid),
                lent if request.is_lent else None,
            )
        except GridOverflowError:
            return m.TooLarge()

    def _new_duals(self, rows: IntArray, request: b.VisitPlanesRequest) -> FloatArray:
        """Return the duals of planes that touch at the margins now and beyond."""
        client, labels = self._client, self._client.block.labels
        assert labels is not None  # noqa: S101  # for the type checker
        duals = touching_duals(
            client.problem.loss,
            self._before[rows],
            self._now[rows],
            labels[rows],
            np.array(request.places),
        )
        return client.on_grid(duals, request.duals_grid) if request.is_lent else duals

    def _take_margins(self, bucket: int, number: int, margins: FloatArray) -> None:
        """Note a bucket's new margins, once a visit."""
        rows = self._rows_of(bucket)
        if self._numbers.get(bucket) != number:
            self._before[rows] = self._now[rows]
            self._now[rows] = margins
            self._numbers[bucket] = number

    def _adopt(self, request: b.AdoptVisitRequest) -> m.Message:
        """Take the duals of some buckets from the samples' designated holders."""
        client = self._client
        buckets = self._buckets(request.buckets)
        if len(buckets) != len(request.duals):
            raise RemoteProtocolError("buckets and duals do not match")
        sums = PlaneSums(client, len(buckets), request.n_planes)
        for place, bucket in enumerate(buckets):
            rows = self._rows_of(bucket)
            duals = client.opened_apart(request.duals[place], rows, sums.width)
            sums.add(rows, _all_of(place, rows), duals)
        try:
            return m.Parts(sums.slopes(request.grid))
        except GridOverflowError:
            return m.TooLarge()

    def _buckets(self, payload: memoryview) -> list[int]:
        buckets: list[int] = unpack_indices(payload, self._client.n_buckets).tolist()
        return buckets

    def _rows_of(self, bucket: int) -> IntArray:
        if bucket not in self._rows:
            self._rows[bucket] = np.flatnonzero(self._client.buckets == bucket)
        return self._rows[bucket]


def _all_of(bucket: int, rows: IntArray) -> NDArray[np.uint32]:
    return np.full(len(rows), bucket, np.uint32)
