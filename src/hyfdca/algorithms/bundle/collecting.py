"""The server's half of collecting planes: their slopes, offsets and Gram entries.

| phase        | down                                    | up                          |
|--------------|-----------------------------------------|-----------------------------|
| planes       | the last step; where new planes touch   | slopes by bucket, offsets   |
| adopt planes | duals, sealed, to those without labels  | slopes by bucket            |
| gram         | new slopes (sealed profile only)        | totals of σ·σ', sealed      |
| open planes  | grand totals, to one client             | offsets and σ·σ', open      |

In the open profile the server reads slopes and offsets itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.bundle.buckets import Buckets
from hyfdca.algorithms.bundle.planes import CuttingModel, Told
from hyfdca.arrays import FloatArray
from hyfdca.federation.server import Coordinator
from hyfdca.federation.sums import RunningSum, read_sum
from hyfdca.protocol import messages as m
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices, pack_reals
from hyfdca.protocol.server_session import Conversation

_ROOM = 4.0  # times the longest of the last planes


@dataclass
class PlaneCollection:
    """Has every holder form the same new duals and learns what planes they give.

    Parameters
    ----------
    places : tuple of float
        Where planes touch, between the best point (0) and the trial point (1).
    candidates : tuple of Candidate
        Steps from the present duals that give planes too.
    """

    coordinator: Coordinator
    buckets: Buckets
    model: CuttingModel
    places: tuple[float, ...]
    candidates: tuple[b.Candidate, ...] = ()

    @property
    def n_planes(self) -> int:
        """How many planes a bucket gets at a time."""
        return len(self.places) + len(self.candidates)

    def collect(self, move: b.Move) -> Conversation[None]:
        """Have every holder form the same new duals; learn what planes they give."""
        coordinator = self.coordinator
        slopes, offsets = yield from self._slopes_and_offsets(move)
        buckets = np.repeat(np.arange(self.buckets.n_buckets), self.n_planes)
        shape = (self.buckets.n_buckets, self.n_planes * coordinator.problem.n_outputs)
        if coordinator.problem.profile == "open":
            conjugates = read_sum(offsets, shape)
            told = self._read_slopes(slopes)
        else:
            conjugates, told = yield from self._told_gram(slopes, offsets, shape)
        n_outputs = coordinator.problem.n_outputs
        self.model.add(buckets, -conjugates.reshape(len(buckets), n_outputs), told)

    def _slopes_and_offsets(
        self, move: b.Move
    ) -> Conversation[tuple[list[RunningSum], m.Sums]]:
        coordinator, layout = self.coordinator, self.coordinator.layout
        problem = coordinator.problem
        is_lent = not all(layout.labelled)
        mixture = self._mixtures()
        of_round = self.n_planes * self.buckets.n_buckets
        number = (self.model.next_number - self.buckets.n_buckets) // of_round
        width = self.n_planes * problem.n_outputs
        replies = yield from coordinator.gather(
            "planes",
            [client for client in coordinator.everyone if layout.labelled[client]],
            ["shares", "offsets", "duals"],
            lambda client: b.PlanesRequest(
                number,
                move,
                list(self.places),
                list(self.candidates),
                mixture(client),
                coordinator.spec("shares"),
                coordinator.spec("offsets"),
                coordinator.spec("duals"),
                is_lent,
            ),
            b.Planes,
        )
        vaults, n_buckets = coordinator.vaults, self.buckets.n_buckets
        of_client = self.buckets.of_client
        offsets = RunningSum(vaults.by_bucket(of_client, n_buckets, width))
        by_feature = vaults.by_feature(width)
        slopes = [RunningSum(by_feature) for _ in range(n_buckets)]
        for client, reply in replies.items():
            offsets.add(client, reply.offsets, None)
            self._add_slopes(slopes, client, reply.slopes)
        if is_lent:
            yield from self._lend(replies, slopes)
        return slopes, offsets.take_all()

    def _mixtures(self) -> Callable[[int], b.Mixture | None]:
        """Return what tells a client the present duals, where candidates need them."""
        if not self.candidates:
            return lambda _: None
        shape = (
            self.buckets.n_buckets,
            self.n_planes,
            self.coordinator.problem.n_outputs,
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

    def _add_slopes(
        self, slopes: list[RunningSum], client: int, parts: list[m.Sealed]
    ) -> None:
        buckets = self.buckets.of_client[client].tolist()
        if len(parts) != len(buckets):
            raise RemoteProtocolError(f"client {client} has slopes of other buckets")
        for bucket, part in zip(buckets, parts, strict=True):
            slopes[bucket].add(client, part, None)
            self.model.note_step(part.fraction_bits)

    def _lend(
        self, replies: dict[int, b.Planes], slopes: list[RunningSum]
    ) -> Conversation[None]:
        """Pass the designated holders' duals on to the holders without labels."""
        coordinator, layout = self.coordinator, self.coordinator.layout
        width = self.n_planes * coordinator.problem.n_outputs
        lent = RunningSum(coordinator.vaults.by_sample(width))
        for client, reply in replies.items():
            lent.add(client, lent_duals(client, reply, 1)[0], None)
        adopted = yield from coordinator.gather(
            "adopt planes",
            [c for c in coordinator.everyone if not layout.labelled[c]],
            ["shares"],
            lambda client: b.AdoptPlanesRequest(
                lent.take(client, None), self.n_planes, coordinator.spec("shares")
            ),
            m.Parts,
        )
        for client, part in adopted.items():
            self._add_slopes(slopes, client, part.vectors)

    def _read_slopes(self, slopes: list[RunningSum]) -> Told | None:
        """Keep what the open profile shows; return the Gram entries if wanted."""
        n_outputs = self.coordinator.problem.n_outputs
        shape = (self.coordinator.layout.features.n_items, self.n_planes * n_outputs)
        new = [by_plane(read_sum(s.take_all(), shape), n_outputs) for s in slopes]
        return self.model.remember(np.concatenate(new))

    def _told_gram(
        self, slopes: list[RunningSum], offsets: m.Sums, shape: tuple[int, int]
    ) -> Conversation[tuple[FloatArray, Told]]:
        """Show holders the slopes on their features; return what they add up to.

        Entries come in units of the older plane's length, on a grid for the length of
        the new ones: planes of very different lengths are usual.
        """
        coordinator, model = self.coordinator, self.model
        n_clients = coordinator.layout.n_clients
        n_new = self.buckets.n_buckets * self.n_planes
        n_outputs = coordinator.problem.n_outputs
        longest = _ROOM * model.longest_new
        if longest:
            coordinator.grids["gram"] = coordinator.grid_for(longest, n_clients)
        lengths = np.append(model.lengths, np.full(n_new, longest or 1.0))
        kept, units = pack_indices(model.sloped), pack_reals(lengths)
        parts = yield from coordinator.gather(
            "gram",
            coordinator.everyone,
            ["gram"],
            lambda client: b.GramRequest(
                kept,
                model.next_number,
                [slope.take(client, None) for slope in slopes],
                self.n_planes,
                units,
                coordinator.spec("gram"),
            ),
            m.Part,
        )
        entries = (n_new * len(lengths), n_outputs)
        sealed = [part.vector for part in parts.values()]
        conjugates, scaled = yield from coordinator.open_totals(
            [offsets, coordinator.sum_of(sealed, entries)],
            [shape, entries],
            "open planes",
            apart=(0,),
        )
        gram = scaled.reshape(n_new, -1, n_outputs) * lengths[:, None]
        error = n_clients * coordinator.grid_step("gram") / 2
        return conjugates, Told(gram, error, longest or 1.0)


def lent_duals(client: int, reply: b.Planes, n_vectors: int) -> list[m.Sealed]:
    """Return the duals of a reply, which must be there."""
    if reply.duals is None or len(reply.duals) != n_vectors:
        raise RemoteProtocolError(f"client {client} kept its duals")
    return reply.duals


def by_plane(columns: FloatArray, n_outputs: int) -> FloatArray:
    """Return (items, planes * outputs) as (planes, items, outputs)."""
    n_items, width = columns.shape  # of which the first may be 0
    apart = columns.reshape(n_items, width // n_outputs, n_outputs)
    return np.ascontiguousarray(apart.transpose(1, 0, 2))
