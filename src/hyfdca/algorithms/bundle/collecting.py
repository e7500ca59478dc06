"""The server's half of collecting planes: their slopes, offsets and Gram entries.

| phase        | down                                    | up                          |
|--------------|-----------------------------------------|-----------------------------|
| planes       | the last step; where new planes touch   | slopes by bucket, offsets   |
| forward      | duals, sealed, to those without labels  | slopes by bucket            |
| gram         | new slopes (sealed profile only)        | totals of σ·σ', sealed      |
| open planes  | grand totals, to one client             | offsets and σ·σ', open      |

In the open profile the server reads slopes and offsets itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.bundle.buckets import Buckets
from hyfdca.algorithms.bundle.consistency import TRIAL_PLACE, NewPlanes
from hyfdca.algorithms.bundle.planes import CuttingModel, GramUpdate
from hyfdca.algorithms.bundle.slopes import by_plane
from hyfdca.arrays import FloatArray
from hyfdca.errors import StudyError
from hyfdca.federation.grids import MARGIN_HEADROOM, GridState, VectorGrid
from hyfdca.federation.messages import MOST_TOTALS
from hyfdca.federation.server import Federation
from hyfdca.federation.sums import RunningSum, VectorLayout
from hyfdca.federation.totals import Total
from hyfdca.protocol.codec import pack_indices, pack_reals
from hyfdca.protocol.messages import (
    Parts,
    Sealed,
    SealedTotals,
    TotalsSpec,
)
from hyfdca.protocol.server_session import BadReplyError, Conversation

_ROOM = 4.0  # times the longest of the last planes


@dataclass(frozen=True, repr=False)
class PlaneGridsState:
    """What a checkpoint keeps of the bundle's own grids."""

    offsets: GridState
    gram: GridState


class PlaneGrids:
    """The grids of offsets and of Gram entries."""

    def __init__(self, federation: Federation) -> None:
        make, bounds = federation.grid_maker, federation.bounds
        largest = MARGIN_HEADROOM * bounds.loss_at_zero
        # σ·σ'/(λN²) of the first planes, whose duals are the slopes at 0
        squares = bounds.slope_at_zero**2 * bounds.row_norm
        first = squares / federation.problem.l2_strength
        self.offsets = make.grid("offsets", largest, make.n_clients)
        self.gram = make.grid("gram", first, make.n_clients)

    def state(self) -> PlaneGridsState:
        """Return what a checkpoint keeps."""
        return PlaneGridsState(self.offsets.state(), self.gram.state())

    def restore(self, state: PlaneGridsState) -> None:
        """Take a state."""
        self.offsets.restore(state.offsets)
        self.gram.restore(state.gram)


@dataclass
class PlaneCollection:
    """Lets every holder form the same new duals, and collects the planes they give.

    Parameters
    ----------
    places : tuple of float
        Where planes touch, between the best point (0) and the trial point (1).
    candidates : tuple of Candidate
        Steps from the present duals that give planes too.
    n_points : int
        Best points, each with its trial point.
    """

    federation: Federation
    grids: PlaneGrids
    buckets: Buckets
    model: CuttingModel
    places: tuple[float, ...]
    candidates: tuple[b.Candidate, ...] = ()
    n_points: int = 1
    _layouts: dict[int, tuple[VectorLayout, VectorLayout]] = field(
        default_factory=dict, init=False
    )

    @property
    def n_planes(self) -> int:
        """Planes per bucket and collection."""
        return self.n_points * (len(self.places) + len(self.candidates))

    @property
    def _width(self) -> int:
        """Numbers of new planes per bucket and feature."""
        return self.n_planes * self.federation.problem.n_outputs

    def _layouts_of(self, width: int) -> tuple[VectorLayout, VectorLayout]:
        """Return how offsets by bucket and slopes by feature are stored."""
        if width not in self._layouts:
            vectors, buckets = self.federation.vectors, self.buckets
            of_offsets = offsets_width(self.federation, width)
            self._layouts[width] = (
                vectors.by_bucket(buckets.of_client, buckets.n_buckets, of_offsets),
                vectors.layouts["features", width],
            )
        return self._layouts[width]

    def collect(self, move: b.Move) -> Conversation[NewPlanes | None]:
        """Have every holder form the same new duals; learn what planes they give.

        Returns the planes, if some of them touch the loss at the trial point.
        """
        federation, width = self.federation, self._width
        buckets = np.repeat(np.arange(self.buckets.n_buckets), self.n_planes)
        shape = (self.buckets.n_buckets, offsets_width(federation, width))
        slopes, offsets, parts, shown = yield from self._slopes_and_offsets(move)
        if federation.problem.profile == "open":
            totals = offsets.read()
            update = self._read_slopes(slopes)
        else:
            total = federation.sum_by_bucket(
                parts, offsets.take_all(), shape, self.buckets.of_client
            )
            totals, update = yield from self._gather_gram(slopes, total)
        halves = np.split(totals, range(width, shape[1], width), axis=1)
        conjugates, *balances = (
            half.reshape(len(buckets), federation.problem.n_outputs) for half in halves
        )
        self.note_rounding()
        # Of the coarsest slopes: grids never get finer
        self.model.note_step(federation.grids.shares.fraction_bits)
        self.model.add(buckets, -conjugates, update, *balances)
        is_open = federation.problem.profile == "open"
        return self._touching(shown if is_open else {})

    def _touching(self, shown: dict[int, list[Sealed]]) -> NewPlanes | None:
        """Return the last planes, if some of them touch the loss at the trial point."""
        if TRIAL_PLACE not in self.places:
            return None
        place, n_planes = self.places.index(TRIAL_PLACE), self.n_planes
        first = len(self.model.numbers) - self.buckets.n_buckets * n_planes
        touching = first + np.arange(self.buckets.n_buckets) * n_planes + place
        return NewPlanes(n_planes, place, touching, shown)

    def note_rounding(self) -> None:
        """Note how far off new balances may be: each client rounds up on the grid."""
        n_clients = self.federation.grid_maker.n_clients
        self.model.note_balances(n_clients * self.grids.offsets.step)

    def _slopes_and_offsets(
        self, move: b.Move
    ) -> Conversation[
        tuple[
            list[RunningSum],
            RunningSum,
            dict[int, SealedTotals],
            dict[int, list[Sealed]],
        ]
    ]:
        """Return sums of slopes and of offsets; the parts of offsets, and of slopes."""
        federation, grids = self.federation, self.federation.grids
        forwards = bool(federation.unlabelled)
        mixture = self._mixtures()
        of_round = self.n_planes * self.buckets.n_buckets
        number = (self.model.next_number - self.buckets.n_buckets) // of_round
        replies = yield from federation.gather(
            "planes",
            federation.labelled,
            [grids.shares, self.grids.offsets, grids.duals],
            lambda client, spec=None: b.PlanesRequest(
                number,
                move,
                list(self.places),
                list(self.candidates),
                mixture(client),
                grids.shares.spec,
                spec or unopened(self.grids.offsets),
                grids.duals.spec,
                forwards,
            ),
            b.Planes,
            None if federation.problem.profile == "open" else self.grids.offsets,
        )
        of_offsets, by_feature = self._layouts_of(self._width)
        parts = {client: reply.offsets for client, reply in replies.items()}
        slopes_of = {c: reply.slopes for c, reply in replies.items()}
        by_bucket = self._by_bucket(slopes_of)
        slopes = [RunningSum(by_feature) for _ in by_bucket]
        for total, own in zip(slopes, by_bucket, strict=True):
            total.add_all(own)
        offsets = RunningSum(of_offsets)
        offsets.add_all(parts)
        if forwards:
            slopes_of |= yield from self._forward(replies, slopes)
        return slopes, offsets, parts, slopes_of

    def _mixtures(self) -> Callable[[int], b.Mixture | None]:
        """Return what tells a client the present duals, if candidates need them."""
        if not self.candidates:
            return lambda _: None
        shape = (
            self.buckets.n_buckets,
            self.n_planes,
            self.federation.problem.n_outputs,
        )
        size = shape[0] * shape[1]
        places = self.model.sloped - self.buckets.n_buckets
        deliveries = np.unique(places // size)
        weights = np.zeros((len(deliveries), size, shape[2]))
        row = np.searchsorted(deliveries, places // size)
        weights[row, places % size] = self.model.weights[self.buckets.n_buckets :]
        by_bucket = weights.reshape(len(deliveries), *shape)
        return lambda client: b.Mixture(
            deliveries.tolist(),
            pack_reals(by_bucket[:, self.buckets.of_client[client]]),
        )

    def _by_bucket(self, parts: dict[int, list[Sealed]]) -> list[dict[int, Sealed]]:
        """Return each client's slopes, which are of its buckets, by bucket."""
        by_bucket: list[dict[int, Sealed]] = [{} for _ in range(self.buckets.n_buckets)]
        for client, own in parts.items():
            buckets = self.buckets.of_client[client].tolist()
            if len(own) != len(buckets):
                raise BadReplyError("", client, "it has slopes of other buckets")
            for bucket, part in zip(buckets, own, strict=True):
                by_bucket[bucket][client] = part
        return by_bucket

    def _forward(
        self, replies: dict[int, b.Planes], slopes: list[RunningSum]
    ) -> Conversation[dict[int, list[Sealed]]]:
        """Pass the designated holders' duals on to the holders without labels.

        Adds their slopes to the sums, and returns them.
        """
        federation, grid = self.federation, self.federation.grids.shares
        width = self._width
        forwarded = federation.running_sample_sum(width)
        forwarded.add_all({c: forwarded_duals(c, r, 1)[0] for c, r in replies.items()})
        parts = yield from federation.gather(
            "forward planes",
            federation.unlabelled,
            [grid],
            lambda client: b.ForwardedPlanes(
                forwarded.take(client, None), self.n_planes, grid.spec
            ),
            Parts,
        )
        slopes_of = {c: part.vectors for c, part in parts.items()}
        by_bucket = self._by_bucket(slopes_of)
        for total, own in zip(slopes, by_bucket, strict=True):
            total.add_all(own)
        return slopes_of

    def _read_slopes(self, slopes: list[RunningSum]) -> GramUpdate | None:
        """Keep what the open profile shows; return the Gram entries if required."""
        n_outputs = self.federation.problem.n_outputs
        new = [by_plane(own.read(), n_outputs) for own in slopes]
        return self.model.remember(np.concatenate(new))

    def _gather_gram(
        self, slopes: list[RunningSum], offsets: Total
    ) -> Conversation[tuple[FloatArray, GramUpdate]]:
        """Show holders the slopes on their features; return what they add up to.

        Entries come in units of the older plane's length, on a grid for the length of
        the new ones: planes of very different lengths are usual.
        """
        federation, model, grid = self.federation, self.model, self.grids.gram
        n_clients = federation.grid_maker.n_clients
        n_planes, n_outputs = self.n_planes, federation.problem.n_outputs
        n_new = self.buckets.n_buckets * n_planes
        longest = _ROOM * model.longest_new
        if longest:
            grid.use(federation.grid_maker.finest(longest, n_clients))
        lengths = np.append(model.lengths, np.full(n_new, longest or 1.0))
        products = (n_new * len(lengths), n_outputs)
        if math.prod(products) + math.prod(offsets.rows) > MOST_TOTALS:
            fewer = "fewer folds, fewer l2 or " if federation.problem.path else ""
            raise StudyError(
                "Training takes too many cutting planes to multiply all of them; use "
                f"{fewer}a smaller max_buckets."
            )
        kept, units = pack_indices(model.sloped), pack_reals(lengths)
        shown = [slope.take_each(federation.everyone) for slope in slopes]
        total = yield from federation.gather_total(
            "gram",
            grid,
            lambda client, spec: b.GramRequest(
                kept,
                model.next_number,
                [of_clients[client] for of_clients in shown],
                n_planes,
                units,
                spec,
            ),
            products,
        )
        conjugates, scaled = yield from federation.open_totals(
            [offsets, total], "open planes"
        )
        gram = scaled.reshape(n_new, -1, n_outputs) * lengths[:, None]
        error = n_clients * grid.step / 2
        return conjugates, GramUpdate(gram, error, longest or 1.0)


def unopened(grid: VectorGrid) -> TotalsSpec:
    """Return the grid of totals that the server reads itself, in the open profile."""
    return TotalsSpec(grid.fraction_bits, grid.grid.limit_bits, opener=0)


def offsets_width(federation: Federation, width: int) -> int:
    """Return how many numbers offsets have per bucket: balances may follow them."""
    return 2 * width if federation.problem.free_intercept else width


def forwarded_duals(client: int, reply: b.Planes, n_vectors: int) -> list[Sealed]:
    """Return the duals of a reply, which must be there."""
    if reply.duals is None or len(reply.duals) != n_vectors:
        raise BadReplyError("", client, "it withheld its duals")
    return reply.duals
