"""What every server half does: set-up, asking on a grid, sealed totals.

| exchange       | down                        | up                        |
|----------------|-----------------------------|---------------------------|
| arrange        | schemes, owner groups       | -                         |
| bounds         | -                           | public bounds, open       |
| norms, prepare | sums of ||x_i||², counts    | parts of ||x_i||², sealed |
| open           | grand totals, to one client | totals, open              |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement, opaque_groups
from hyfdca.crypto.schemes.base import Adder
from hyfdca.crypto.schemes.fixedpoint import EXACT_BITS, Grid, grid_for
from hyfdca.crypto.schemes.plain import PlainAdder
from hyfdca.crypto.schemes.registry import Adders, Use
from hyfdca.federation.problem import Problem
from hyfdca.federation.sums import CachedSum, Space, space_of, sum_of
from hyfdca.holdings.axis import Axis, owner_groups
from hyfdca.holdings.layout import Layout
from hyfdca.protocol import messages as m
from hyfdca.protocol.checkpoint import Kept
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_indices,
    unpack_reals,
)
from hyfdca.protocol.server_session import Conversation, ServerSession

_MARGIN_HEADROOM = 64.0  # over the largest margin of any point that is not worse than 0
_DUAL_HEADROOM = 64.0  # over the steepest slope at 0, where duals are unbounded
_SLACK = 1e-9  # covers the rounding of norms
_COARSEST_BITS = 128  # a grid may get coarser by; beyond it, a run has diverged


Reply = TypeVar("Reply")


class DivergenceError(ArithmeticError):
    """Numbers outgrew every grid: the steps are too long for this problem."""


class Coordinator(Kept):
    """The server's sums and the exchanges that all algorithms share.

    Parameters
    ----------
    drawn_share : float
        Of its samples, that a client usually changes in a round.
    """

    kept: ClassVar[tuple[str, ...]] = ("session", "grids", "_finest")

    def __init__(
        self,
        problem: Problem,
        layout: Layout,
        adders: Adders,
        session: ServerSession,
        drawn_share: float = 1.0,
    ) -> None:
        self.problem, self.layout, self.session = problem, layout, session
        self.vaults = Vaults(problem, layout, adders, drawn_share)
        self.everyone = list(range(layout.n_clients))
        self.grids: dict[str, Grid] = {}
        self._finest: dict[str, int] = {}

    def sample_sum(self, width: int | None = None) -> CachedSum:
        """Return an empty sum by sample."""
        return CachedSum(self.vaults.by_sample(width or self.problem.n_outputs))

    def feature_sum(self, width: int | None = None) -> CachedSum:
        """Return an empty sum by feature, readable as the profile says."""
        return CachedSum(self.vaults.by_feature(width or self.problem.n_outputs))

    # Set-up

    def set_up(self, probes: bool = False) -> Conversation[None]:
        """Choose schemes and grids, sum ||x_i||² over holders, tell the counts.

        Norms go to those who have labels, and to all if margins are to be probed.
        """
        notices = {client: self.vaults.notice(client) for client in self.everyone}
        yield from self.session.tell("arrange", notices)
        bounds = yield from self.session.ask(
            "bounds", dict.fromkeys(self.everyone, m.Message()), m.Bounds
        )
        self._choose_grids(list(bounds.values()))
        norms = yield from self.gather_sum(
            "norms",
            ["norms"],
            lambda _: m.GridRequest(self.spec("norms")),
            self.sample_sum(1),
        )
        yield from self.session.tell(
            "prepare", {c: self._prepare(c, norms, probes) for c in self.everyone}
        )

    def _prepare(self, client: int, norms: CachedSum, probes: bool) -> m.Prepare:
        samples, features = self.layout.samples, self.layout.features
        held = samples.items[client]
        label_holders = self.layout.label_counts[held]
        return m.Prepare(
            norms.take(client) if probes or self.layout.labelled[client] else [],
            pack_indices(samples.counts[held]),
            pack_indices(label_holders),
            pack_indices(features.counts[features.items[client]]),
        )

    def _choose_grids(self, bounds: list[m.Bounds]) -> None:
        """Set the grids from public numbers so that no sum can overflow.

        Duals: their domain, or a multiple of the steepest slope at 0. Margins: where D
        is above D(0) = 0, λ/2||w||² is below P(0), so |x_i·w| <= ||x_i|| sqrt(2P(0)/λ);
        a run that leaves that region (the paper's step may) asks for coarser grids.
        """
        problem, layout = self.problem, self.layout
        holders = int(layout.samples.counts.max(initial=1))
        feature_holders = int(layout.features.counts.max(initial=1))
        row_norm = sum(b.row_norm for b in bounds)
        loss_at_zero = sum(b.loss_at_zero for b in bounds) / problem.n_samples
        # A change can be as large as the domain is wide.
        largest_dual = problem.loss.shape.high - problem.loss.shape.low
        slope = max(b.slope_at_zero for b in bounds)
        if math.isinf(largest_dual):
            largest_dual = _DUAL_HEADROOM * slope
        reach = math.sqrt(2 * loss_at_zero / problem.l2_strength * row_norm)
        column_sum = max(b.column_sum for b in bounds)
        n_clients = layout.n_clients
        self.grids = {
            "norms": self.grid_for(max(b.row_norm for b in bounds), holders),
            "duals": self.grid_for(largest_dual, holders, EXACT_BITS),
            "margins": self.grid_for(_MARGIN_HEADROOM * reach, holders),
            "shares": self.grid_for(largest_dual * column_sum, feature_holders),
            "totals": self.grid_for(_MARGIN_HEADROOM * loss_at_zero, n_clients),
            "offsets": self.grid_for(_MARGIN_HEADROOM * loss_at_zero, n_clients),
            # σ·σ'/(λN²) of the first planes, whose duals are the slopes at 0
            "gram": self.grid_for(slope**2 * row_norm / problem.l2_strength, n_clients),
        }
        self._longest_row = math.sqrt(max(b.row_norm for b in bounds))

    def grid_for(self, bound: float, n_summands: int, bits: int = 64) -> Grid:
        """Return the finest grid that the study's precision gives sums of numbers."""
        return grid_for(bound, n_summands, min(bits, self.vaults.sum_bits))

    # Totals

    def sum_of(self, parts: list[m.Sealed], shape: tuple[int, int]) -> m.Sums:
        """Add up totals that every sender has in full."""
        return sum_of(parts, math.prod(shape), self.vaults.totals_adder)

    def open_totals(
        self,
        totals: list[m.Sums],
        shapes: list[tuple[int, int]],
        phase: str = "open",
        apart: tuple[int, ...] = (),
    ) -> Conversation[list[FloatArray]]:
        """Have the lowest-ranked client that is present open sealed grand totals.

        ``apart`` are those among them whose rows were summed apart, by bucket.
        """
        opener = min(self.session.present or self.everyone)
        sizes = [math.prod(shape) for shape in shapes]
        request = m.OpenRequest(
            totals,
            [
                shape if place in apart else (1, size)
                for place, (shape, size) in enumerate(zip(shapes, sizes, strict=True))
            ],
        )
        replies = yield from self.session.ask(phase, {opener: request}, m.Opened)
        numbers = unpack_reals(replies[opener].values, sum(sizes))
        parts = np.split(numbers, np.cumsum(sizes)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    # Asking on a grid

    def gather(
        self,
        phase: str,
        clients: Iterable[int],
        grids: Sequence[str],
        request: Callable[[int], m.Message],
        kind: type[Reply],
    ) -> Conversation[dict[int, Reply]]:
        """Ask for parts of sums, again on coarser grids while some part does not fit.

        ``grids`` names those that the requests and so the replies use.
        """
        asked = list(clients)
        while True:
            requests = {client: request(client) for client in asked}
            # While this waits for absent clients, others may get coarser grids.
            wanted = [self.grids[grid].fraction_bits for grid in grids]
            either: Any = kind | m.TooLarge
            replies: dict[int, Any] = yield from self.session.ask(
                phase, requests, either
            )
            if not any(isinstance(reply, m.TooLarge) for reply in replies.values()):
                for client, reply in replies.items():
                    _check_grids(client, reply, wanted)
                return replies
            for grid in grids:
                self._coarsen(grid)

    def gather_sum(
        self,
        phase: str,
        grids: Sequence[str],
        request: Callable[[int], m.Message],
        total: CachedSum,
    ) -> Conversation[CachedSum]:
        """Ask everybody for parts of a sum and return it with them put in."""
        parts = yield from self.gather(phase, self.everyone, grids, request, m.Part)
        for client, part in parts.items():
            total.put(client, part.vector)
        return total

    def _coarsen(self, name: str) -> None:
        coarser = self.grids[name].coarser()
        finest = self._finest.setdefault(name, self.grids[name].fraction_bits)
        if finest - coarser.fraction_bits > _COARSEST_BITS:
            raise DivergenceError(f"The {name} outgrew every grid; take shorter steps.")
        self.grids[name] = coarser

    def fit_margins(self, grid: str, squared_norms: FloatArray) -> None:
        """Choose the finest grid for margins of weights with that λ ||w||²."""
        longest = float(np.sqrt(squared_norms.max() / self.problem.l2_strength))
        holders = int(self.layout.samples.counts.max(initial=1))
        bound = self._longest_row * longest * (1 + _SLACK)
        self.grids[grid] = self.grid_for(bound, holders)

    def grid_step(self, name: str) -> float:
        """Return the width of the present grid of a kind of vector."""
        return math.ldexp(1.0, -self.grids[name].fraction_bits)

    def spec(self, grid: str) -> m.GridSpec:
        """Return the present grid of a kind of vector as it travels."""
        return m.GridSpec(self.grids[grid].fraction_bits, self.grids[grid].limit_bits)


def _check_grids(client: int, reply: m.Message, wanted: Sequence[int]) -> None:
    """Refuse a reply whose vectors are not on the grids asked for, in order."""
    vectors = [getattr(reply, name) for name in reply.__struct_fields__]
    for vector, fraction_bits in zip(vectors, wanted, strict=False):
        several = vector if isinstance(vector, list) else [vector]
        if any(v is not None and v.fraction_bits != fraction_bits for v in several):
            raise RemoteProtocolError(f"client {client} answers on another grid")


_USUAL_TOTALS = 32  # numbers


class Pick(NamedTuple):
    """The scheme of a kind of vector; how full its blocks are, if it has any."""

    scheme: str
    fill: float | None

    @property
    def text(self) -> str:
        """The pick for people."""
        full = "" if self.fill is None else f", blocks {self.fill:.0%} full"
        return f"{self.scheme}{full}"


class Vaults:
    """The server's sealed vectors: spaces by sample, by feature and by bucket."""

    passing = ("_spaces",)

    def __init__(
        self, problem: Problem, layout: Layout, adders: Adders, drawn_share: float
    ) -> None:
        self._problem, self._layout, self._adders = problem, layout, adders
        self._drawn_share = drawn_share
        self._spaces: dict[tuple[str, int], Space] = {}
        self.sum_bits = adders.encryption.sum_bits

    @cached_property
    def sample_groups(self) -> IntArray:
        """The owner group of each sample, under a number that tells nothing."""
        return self._opaque(self._layout.samples, "samples")

    @cached_property
    def feature_groups(self) -> IntArray:
        """The owner group of each feature, under a number that tells nothing."""
        return self._opaque(self._layout.features, "features")

    def _opaque(self, axis: Axis, name: str) -> IntArray:
        return opaque_groups(owner_groups(axis), self._adders.group_secret, name)

    @cached_property
    def picks(self) -> dict[str, Pick]:
        """The scheme of each kind of vector, and how full its blocks are."""
        layout, width = self._layout, self._problem.n_outputs
        uses = {
            "samples": Use(
                Arrangement(self.sample_groups),
                width,
                self._drawn_share,
                int(layout.samples.counts.max(initial=1)),
            ),
            "features": Use(
                Arrangement(self.feature_groups),
                width,
                n_summands=int(layout.features.counts.max(initial=1)),
            ),
            "totals": Use(
                Arrangement.together(_USUAL_TOTALS), width, n_summands=layout.n_clients
            ),
        }
        return {kind: self._pick(kind, use) for kind, use in uses.items()}

    def _pick(self, kind: str, use: Use) -> Pick:
        if kind == "features" and self._problem.profile == "open":
            return Pick("none", None)
        name = self._adders.pick(use)
        adder = self._adders.named(name)
        if adder.n_slots is None:
            return Pick(name, None)
        n_slots = use.n_blocks(adder) * adder.n_slots
        return Pick(name, use.arrangement.n_items * use.width / max(n_slots, 1))

    def _adder(self, kind: str) -> Adder:
        scheme = self.picks[kind].scheme
        return PlainAdder() if scheme == "none" else self._adders.named(scheme)

    @property
    def sample_adder(self) -> Adder:
        """What adds vectors by sample."""
        return self._adder("samples")

    @property
    def totals_adder(self) -> Adder:
        """What adds totals."""
        return self._adder("totals")

    def notice(self, client: int) -> m.Arrangements:
        """Return what a client must know to seal its vectors."""
        layout = self._layout
        schemes = {kind: pick.scheme for kind, pick in self.picks.items()}
        held = {
            "samples": (self.sample_groups, layout.samples.items[client]),
            "features": (self.feature_groups, layout.features.items[client]),
        }
        groups = {
            kind: None if schemes[kind] == "none" else pack_indices(of[items])
            for kind, (of, items) in held.items()
        }
        return m.Arrangements(
            **schemes,
            sample_groups=groups["samples"],
            feature_groups=groups["features"],
        )

    # Spaces

    def by_sample(self, width: int) -> Space:
        """Return the space of vectors by sample."""
        return self._space("samples", width)

    def by_feature(self, width: int) -> Space:
        """Return the space of vectors by feature."""
        return self._space("features", width)

    def _space(self, kind: str, width: int) -> Space:
        if (kind, width) not in self._spaces:
            is_samples = kind == "samples"
            axis = self._layout.samples if is_samples else self._layout.features
            groups = self.sample_groups if is_samples else self.feature_groups
            space = space_of(axis, groups, width, self._adder(kind))
            self._spaces[kind, width] = space
        return self._spaces[kind, width]

    def of_some_samples(self, samples: IntArray, axis: Axis, width: int) -> Space:
        """Return the space of vectors by some samples, whose holders ``axis`` says."""
        groups = self.sample_groups[samples]
        return space_of(axis, groups, width, self.sample_adder)

    def by_bucket(self, of_client: tuple[IntArray, ...], n: int, width: int) -> Space:
        """Return the space of totals a bucket, of which clients have some."""
        is_open = self._problem.profile == "open"
        adder = PlainAdder() if is_open else self.totals_adder
        return space_of(Axis(n, of_client), np.arange(n), width, adder)
