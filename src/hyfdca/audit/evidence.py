"""Evidence for attacks from the server's view: equations and differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.bundle.slopes import Slopes, by_plane
from hyfdca.algorithms.hyfdca.messages import SharesRequest
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.audit.facts import Facts, forced, reals_of, rows_of
from hyfdca.audit.reading import Heard
from hyfdca.protocol import messages as m

_MOST = 1000  # equations per client; the first ones, while numbers still change


class MarginEquation(NamedTuple):
    """Margins of some rows of a client at known weights: z = X w."""

    weights: FloatArray
    rows: IntArray
    margins: FloatArray


class ShareEquation(NamedTuple):
    """A client's share at known duals: s = X' α."""

    duals: FloatArray
    share: FloatArray


class Difference(NamedTuple):
    """The difference of two shares of a client, and the rows whose dual changed.

    ``period`` gives the number of steps before each of the two shares. Differences of
    the same period come from the same changes of duals.
    """

    client: int
    rows: IntArray
    change: FloatArray
    period: tuple[int, int]


Plane = tuple[int, int]  # number of the delivery, column


@dataclass
class Evidence:
    """Evidence collected in one pass over a server's messages, in order."""

    facts: Facts
    margins: dict[int, list[MarginEquation]] = field(
        default_factory=lambda: defaultdict(list)
    )
    shares: dict[int, list[ShareEquation]] = field(
        default_factory=lambda: defaultdict(list)
    )
    differences: list[Difference] = field(default_factory=list)
    slopes: dict[tuple[int, int], dict[Plane, FloatArray]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    # Σ α_i of the planes, where the server sees it: a bias cell for each sample
    balances: dict[tuple[int, int], dict[Plane, float]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def __post_init__(self) -> None:
        """Start where all duals and weights are zero."""
        everyone = range(self.facts.layout.n_clients)
        width = self.facts.n_outputs
        self._weights = [np.zeros((self.facts.n_features(c), width)) for c in everyone]
        self._duals = [np.zeros((self.facts.n_samples(c), width)) for c in everyone]
        self._share = [np.zeros((self.facts.n_features(c), width)) for c in everyone]
        self._slopes_sent = [Slopes(self.facts.n_features(c), width) for c in everyone]
        self._buckets: dict[int, IntArray] = {}  # each client's buckets, by place
        self._rows: dict[int, IntArray] = {}  # the place of each row's bucket
        self._l2_scales = [
            np.array([self.facts.l2_scale]) for _ in everyone
        ]  # by point
        self._held_back = [np.empty(0, np.int64) for _ in everyone]
        self._n_steps = 0
        self._since = [0 for _ in everyone]  # steps before the last share
        self._asked: dict[tuple[str, int], Any] = {}
        self._phases: dict[str, Callable[[int, Any, Any], None]] = {
            "shares": self._take_share,
            "measure shares": self._take_share_aside,
            "margins": self._take_margins,
            "measure margins": self._take_margins,
            "weights": self._take_weights,
            "step": self._take_step,
            "direction": self._take_image,
            "forward direction": self._take_image,
            "buckets": self._take_buckets,
            "fits": self._take_fits,
            "planes": self._take_planes,
            "visit planes": self._take_planes,
            "gram": self._take_gram,
            "trial": self._take_trial,
            "visit": self._take_visit,
        }

    def collect(self, messages: Iterable[Heard]) -> Evidence:
        """Collect everything useful; return self."""
        last = ""
        for said in messages:
            if said.phase in ("step", "direction") and last != said.phase:
                self._n_steps += 1
            last = said.phase
            take = self._phases.get(said.phase)
            if take is None:
                continue
            if said.direction == "down":
                self._asked[said.phase, said.client] = said.message
                take(said.client, said.message, None)
            elif not isinstance(said.message, m.TooLarge):
                take(said.client, self._asked[said.phase, said.client], said.message)
        return self

    # HyFDCA

    def _read(self, kind: str, client: int, vectors: list[m.Sealed]) -> Any:
        """Read a vector over all samples or features that a client holds."""
        facts = self.facts
        size = facts.n_samples if kind == "samples" else facts.n_features
        return forced(vectors, (size(client), facts.n_outputs))

    def _now(self, client: int, request: SharesRequest) -> tuple[IntArray, FloatArray]:
        """Return the rows that a client is sent, and all its duals afterwards."""
        rows = rows_of(request.positions, self.facts.n_samples(client))
        sent = forced(request.duals, (len(rows), self.facts.n_outputs))
        duals = self._duals[client].copy()
        if sent is not None:
            duals[rows] = sent
        return rows, duals

    def _take_share(self, client: int, request: Any, reply: Any) -> None:
        self._note_share(client, request, reply, is_kept=True)

    def _take_share_aside(self, client: int, request: Any, reply: Any) -> None:
        self._note_share(client, request, reply, is_kept=False)

    def _note_share(self, client: int, request: Any, reply: Any, is_kept: bool) -> None:
        """Record a share; later differences ignore one that was only measured."""
        if reply is None:
            return
        rows, duals = self._now(client, request)
        share = self._read("features", client, [reply.vector])
        if share is None:
            return
        if len(self.shares[client]) < _MOST:
            self.shares[client].append(ShareEquation(duals, share))
        # A client that shows its old share again withholds the changes for later.
        rows = np.union1d(self._held_back[client], rows).astype(np.int64)
        change = share - self._share[client]
        if change.any():
            period = (self._since[client], self._n_steps)
            self.differences.append(Difference(client, rows, change, period))
        if is_kept:
            self._held_back[client] = rows[:0] if change.any() else rows
            self._duals[client], self._share[client] = duals, share
            self._since[client] = self._n_steps

    def _set_weights(self, client: int, sums: list[m.Sealed] | None) -> None:
        weights = None if sums is None else self._read("features", client, sums)
        if weights is not None:
            self._weights[client] = weights / self.facts.l2_scale

    def _take_weights(self, client: int, request: Any, _: Any) -> None:
        self._set_weights(client, request.weights)

    def _take_step(self, client: int, request: Any, reply: Any) -> None:
        if reply is None:
            self._set_weights(client, request.weights)

    def _take_image(self, client: int, request: Any, reply: Any) -> None:
        """Record the image of a line search: the share's change at a full step."""
        if reply is None:
            return
        image = self._read("features", client, [reply.vector])
        if image is not None:
            rows = rows_of(request.drawn, self.facts.n_samples(client))
            period = (self._n_steps, self._n_steps)
            self.differences.append(Difference(client, rows, image, period))

    def _take_margins(self, client: int, request: Any, reply: Any) -> None:
        if reply is None:
            self._set_weights(client, request.weights)
            return
        rows = rows_of(request.positions, self.facts.n_samples(client))
        self._note_margins(client, self._weights[client], rows, reply.vector)

    def _note_margins(
        self, client: int, weights: FloatArray, rows: IntArray, vector: m.Sealed
    ) -> None:
        margins = forced([vector], (len(rows), self.facts.n_outputs))
        if margins is not None and len(self.margins[client]) < _MOST:
            self.margins[client].append(MarginEquation(weights, rows, margins))

    # Bundle

    def _take_buckets(self, client: int, notice: Any, _: Any) -> None:
        self._buckets[client] = rows_of(notice.numbers, 0)
        self._rows[client] = rows_of(notice.buckets, 0)
        if (path := self.facts.path) is not None:  # clients divide them into folds
            folds = np.arange(path.n_folds)
            whole = self._buckets[client][:, None] * path.n_folds
            self._buckets[client] = (whole + folds).ravel()

    def _take_fits(self, client: int, notice: b.FitsNotice, _: Any) -> None:
        """Note λ of the points of a path."""
        path = self.facts.path
        if path is None:
            return
        if notice.largest_l2 is not None:
            path = path.scaled(notice.largest_l2)
            self.facts = replace(self.facts, path=path)
        l2s = [path.l2_of(fit, notice.shares) for fit in notice.fits]
        n_samples = self.facts.layout.samples.n_items
        self._l2_scales[client] = np.array(l2s) * n_samples

    def _take_planes(self, client: int, request: Any, reply: Any) -> None:
        """Record each client's own part of the slopes of new planes."""
        if reply is None:
            return
        places = range(len(reply.slopes))
        if isinstance(request, b.VisitPlanesRequest):
            places = rows_of(request.buckets, 0).tolist()
        width = len(request.places) * self.facts.n_outputs
        if isinstance(request, b.PlanesRequest):
            width += len(request.candidates) * self.facts.n_outputs
        width *= self._n_points(client)
        balances = self._balances(reply, (len(places), width))
        for which, (place, slope) in enumerate(zip(places, reply.slopes, strict=True)):
            columns = forced([slope], (self.facts.n_features(client), width))
            bucket = int(self._buckets[client][place])
            number = (
                request.numbers[which]
                if isinstance(request, b.VisitPlanesRequest)
                else request.number
            )
            if columns is not None:
                for column, values in enumerate(columns.T):
                    self.slopes[client, bucket][number, column] = values
                    if balances is not None:
                        own = float(balances[which, column])
                        self.balances[client, bucket][number, column] = own

    def _balances(self, reply: Any, shape: tuple[int, int]) -> FloatArray | None:
        """Read Σ α_i of new planes, which follow their offsets if there are any."""
        if not self.facts.free_intercept:
            return None
        both = forced([reply.offsets], (shape[0], 2 * shape[1]))
        n_samples = self.facts.layout.samples.n_items
        return None if both is None else both[:, shape[1] :] * n_samples

    def changed(
        self, client: int, bucket: int, one: Plane, other: Plane
    ) -> float | None:
        """Return by how much bias two planes differ, as far as that is visible."""
        balances = self.balances.get((client, bucket), {})
        if one in balances and other in balances:
            return balances[one] - balances[other]
        place, bias = self.facts.bias_place(client), self.facts.bias
        if place is None or bias is None:
            return None
        planes = self.slopes[client, bucket]
        return float((planes[one] - planes[other])[place]) / bias

    def _take_gram(self, client: int, request: Any, reply: Any) -> None:
        """Store sums of slopes as the client does, to compute the weights later."""
        sent, width = self._slopes_sent[client], request.n_planes * self.facts.n_outputs
        if reply is not None or request.first in sent.numbers:
            return
        shape = (self.facts.n_features(client), width)
        new = [forced(sums, shape) for sums in request.slopes]
        sent.keep(rows_of(request.kept, 0))
        known = [np.zeros(shape) if one is None else one for one in new]
        n_outputs = self.facts.n_outputs
        sent.append(
            request.first, np.concatenate([by_plane(one, n_outputs) for one in known])
        )

    def _take_trial(self, client: int, request: Any, reply: Any) -> None:
        if reply is None:
            return
        rows, n_points = np.arange(self.facts.n_samples(client)), self._n_points(client)
        shape = (len(rows), n_points * self.facts.n_outputs)
        margins = forced([reply.vector], shape)
        points = self._points(client, request, shape[1])
        if margins is not None and len(self.margins[client]) < _MOST:
            parts = zip(points, np.split(margins, n_points, axis=1), strict=True)
            self.margins[client] += [MarginEquation(w, rows, z) for w, z in parts]

    def _n_points(self, client: int) -> int:
        """Return how many points a client was given: one, except on a path."""
        return len(self._l2_scales[client])

    def _points(self, client: int, request: Any, width: int) -> list[FloatArray]:
        """Return the weights of trial points, as the client computes them."""
        n_points = self._n_points(client)
        if request.weights is not None:
            shape = (self.facts.n_features(client), width)
            return np.split(reals_of(request.weights, shape), n_points, axis=1)
        sent = self._slopes_sent[client]
        given = reals_of(request.plane_weights, (len(sent.numbers), width))
        return [
            sent.combine(np.ascontiguousarray(own)) / scale
            for own, scale in zip(
                np.split(given, n_points, axis=1), self._l2_scales[client], strict=True
            )
        ]

    def _take_visit(self, client: int, request: Any, reply: Any) -> None:
        if reply is None:
            return
        shape = (-1, self.facts.n_features(client), self.facts.n_outputs)
        points = reals_of(request.points, shape)
        places, points_of = rows_of(request.buckets, 0), rows_of(request.point_of, 0)
        for place, point, vector in zip(places, points_of, reply.vectors, strict=True):
            rows = np.flatnonzero(self._rows[client] == place)
            self._note_margins(client, points[point], rows, vector)
