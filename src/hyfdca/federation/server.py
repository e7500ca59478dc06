"""The server's side of a training: set-up, asking on a grid, sealed totals, release.

| exchange       | down                        | up                        |
|----------------|-----------------------------|---------------------------|
| arrange        | schemes, owner groups       | -                         |
| bounds         | -                           | public bounds, open       |
| norms, prepare | sums of ||x_i||², counts    | parts of ||x_i||², sealed |
| open           | grand totals, to one client | totals, open              |
| release        | -                           | weights, open             |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
from msgspec.structs import astuple

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.registry import Adders
from hyfdca.federation import messages as m
from hyfdca.federation.blame import blamed, neighbours
from hyfdca.federation.evaluation.release import agreed_weights, unpacked_weights
from hyfdca.federation.grids import (
    DivergenceError,
    GridMaker,
    Grids,
    GridsState,
    PublicBounds,
    VectorGrid,
    check_bounds,
)
from hyfdca.federation.latest_sum import LatestSum
from hyfdca.federation.problem import Problem
from hyfdca.federation.sums import OTHER_GRID, CachedSum, RunningSum
from hyfdca.federation.totals import (
    Openers,
    Total,
    opened_totals,
    openers_among,
    requests_to_open,
    senders_of,
    summed,
)
from hyfdca.federation.vectors import SealedVectors
from hyfdca.holdings.layout import Layout
from hyfdca.protocol.codec import pack_indices
from hyfdca.protocol.messages import (
    Message,
    Part,
    SealedTotals,
    Sums,
    TooLarge,
    TotalsPart,
    TotalsSpec,
)
from hyfdca.protocol.server_session import (
    BadReplyError,
    ClientsFailedError,
    Conversation,
    ServerSession,
    SessionState,
    reply_of,
)

_SLACK = 1e-9  # covers the rounding of norms

Reply = TypeVar("Reply", bound=Message)


@dataclass(frozen=True)
class Point:
    """The weights that a training would release now.

    Parameters
    ----------
    request : Message
        The request for the weights of each client's own features.
    intercepts : array (n_outputs,) or None
        The free intercepts, which the server has.
    """

    request: Message
    intercepts: FloatArray | None = None


@dataclass(frozen=True, repr=False)
class FederationState:
    """What a checkpoint keeps of the server's side."""

    session: SessionState
    grids: GridsState


class Federation:
    """The basis of an algorithm's server half: all it knows and may do.

    Parameters
    ----------
    problem : Problem
        The problem to solve.
    layout : Layout
        Who holds which samples and features.
    is_complete : bool
        Whether every client takes part in every round.
    seed : int
        The seed of everything that the algorithm draws.
    """

    grids: Grids
    bounds: PublicBounds
    _claimed: dict[int, m.Bounds]

    def __init__(
        self,
        problem: Problem,
        layout: Layout,
        adders: Adders,
        session: ServerSession,
        *,
        is_complete: bool = True,
        seed: int = 0,
    ) -> None:
        self.problem, self.layout, self.session = problem, layout, session
        self.is_complete, self.seed = is_complete, seed
        self.everyone = list(range(layout.n_clients))
        self.labelled = [c for c in self.everyone if layout.labelled[c]]
        self.unlabelled = [c for c in self.everyone if not layout.labelled[c]]
        self._adders = adders
        self._openers: Openers | None = None
        # An algorithm that changes few samples per round sets this before making sums.
        self.drawn_share = 1.0

    @cached_property
    def vectors(self) -> SealedVectors:
        """The schemes and layouts of all kinds of vectors."""
        return SealedVectors(self.problem, self.layout, self._adders, self.drawn_share)

    @cached_property
    def grid_maker(self) -> GridMaker:
        """The maker of grids for sums over this federation's holders."""
        return GridMaker(self.layout, self.vectors.sum_bits)

    def state(self) -> FederationState:
        """Return what a checkpoint keeps."""
        return FederationState(self.session.state(), self.grids.state())

    def restore(self, state: FederationState) -> None:
        """Take a state."""
        self.session.restore(state.session)
        self.grids.restore(state.grids)
        self._openers = None

    # Sums over holders

    def sample_sum(self, width: int | None = None) -> CachedSum:
        """Return an empty sum by sample."""
        width = width or self.problem.n_outputs
        return CachedSum(self.vectors.layouts["samples", width])

    def drawn_sum(self) -> CachedSum:
        """Return an empty sum by sample of which some rows may be replaced."""
        return CachedSum(self.vectors.layouts["drawn samples", self.problem.n_outputs])

    def feature_sum(self, width: int | None = None) -> CachedSum:
        """Return an empty sum by feature, readable as the profile says."""
        width = width or self.problem.n_outputs
        return CachedSum(self.vectors.layouts["features", width])

    def latest_feature_sum(self) -> LatestSum:
        """Return an empty sum by feature over the last participants."""
        return LatestSum(self.vectors.layouts["features", self.problem.n_outputs])

    def latest_sample_sum(self) -> LatestSum:
        """Return an empty sum by sample over the last participants."""
        return LatestSum(self.vectors.layouts["samples", self.problem.n_outputs])

    def running_sample_sum(self, width: int | None = None) -> RunningSum:
        """Return an empty sum by sample that only grows."""
        width = width or self.problem.n_outputs
        return RunningSum(self.vectors.layouts["samples", width])

    def running_drawn_sum(self) -> RunningSum:
        """Return an empty sum by sample to some rows of which parts are added."""
        width = self.problem.n_outputs
        return RunningSum(self.vectors.layouts["drawn samples", width])

    # Set-up

    def set_up(self, probes: bool = False) -> Conversation[None]:
        """Choose schemes and grids, sum ||x_i||² over holders, send the counts.

        Norms go to clients with labels, and to all if margins are to be probed.
        """
        notices = {client: self.vectors.notice(client) for client in self.everyone}
        yield from self.session.tell("arrange", notices)
        bounds = yield from self.session.ask(
            "bounds", dict.fromkeys(self.everyone, Message()), m.Bounds
        )
        for client, claimed in bounds.items():
            with reply_of(client):
                check_bounds(claimed)
        self._claimed = bounds
        self.bounds = PublicBounds.of(bounds.values(), self.problem.n_samples)
        self.grids = self.grid_maker.grids(self.problem, self.bounds)
        grid = self.grids.norms
        norms = yield from self.gather_sum(
            "norms", [grid], lambda _: m.GridRequest(grid.spec), self.sample_sum(1)
        )
        yield from self.session.tell(
            "prepare", {c: self._prepare(c, norms, probes) for c in self.everyone}
        )

    def start_error(self, error: DivergenceError) -> BadReplyError:
        """Return the error for a start that no grid has room for.

        Numbers at w = 0 fit the grids that correct bounds give. So either the numbers
        that did not fit are wrong, or the widest bounds, which make grids coarse, are.
        """
        widest = max(self._claimed, key=lambda c: max(astuple(self._claimed[c])))
        reason = "its numbers or the bounds on them are wrong, because no grid fits"
        return BadReplyError("", sorted({*error.clients, widest}), reason)

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

    def fit_margins(self, grid: VectorGrid, squared_norms: FloatArray) -> None:
        """Choose the finest grid for margins of weights with that λ ||w||²."""
        longest = float(np.sqrt(squared_norms.max() / self.problem.l2_strength))
        longest_row = math.sqrt(self.bounds.largest_part)
        bound = longest_row * longest * (1 + _SLACK)
        grid.use(self.grid_maker.finest(bound, self.grid_maker.sample_holders))

    # Totals

    def _totals_specs(
        self, grid: VectorGrid, clients: Iterable[int]
    ) -> dict[int, tuple[TotalsSpec]]:
        """Return a grid for each client's totals, and who will open them."""
        openers = self._next_openers()
        spec = (grid.fraction_bits, grid.grid.limit_bits)
        known = (*spec, openers.opener, openers.witness)
        specs = dict.fromkeys(clients, (TotalsSpec(*known, openers.seed),))
        return {**specs, openers.opener: (TotalsSpec(*known),)}

    def _next_openers(self) -> Openers:
        """Return who opens totals: those present when they were first asked for.

        They stay the same until totals are opened, because parts are sealed to them.
        """
        if self._openers is None:
            here = list(self.session.present or self.everyone)
            self._openers = openers_among(here, self._adders, self.session.number)
        return self._openers

    def sum_of(
        self, parts: Mapping[int, SealedTotals], shape: tuple[int, int]
    ) -> Total:
        """Add up totals, by client, that each has in full."""
        return summed(parts, shape, self._next_openers(), self._adders)

    def sum_by_bucket(
        self,
        parts: Mapping[int, SealedTotals],
        sums: Sums,
        shape: tuple[int, int],
        buckets: Sequence[IntArray],
    ) -> Total:
        """Return the sum of totals by bucket; each client has some of the buckets."""
        openers = self._next_openers()
        total = summed(parts, shape, openers, self._adders, sums)
        return replace(total, rows=shape, own_rows=buckets[openers.opener])

    def open_totals(
        self, totals: Sequence[Total], phase: str = "open"
    ) -> Conversation[list[FloatArray]]:
        """Let totals be opened by the client that they are sealed to, and checked.

        It does not wait for an absent witness.
        """
        openers, session = self._next_openers(), self.session
        self._openers = None  # others may be sealed to somebody else
        requests = requests_to_open(totals, openers, session.present)
        try:
            replies = yield from session.ask(phase, requests, Message)
        except ClientsFailedError as error:
            raise blamed(error, lambda _: senders_of(totals)) from None
        return opened_totals(replies, totals, openers, self._adders.encryption)

    # Asking on a grid

    def gather(
        self,
        phase: str,
        clients: Iterable[int],
        grids: Sequence[VectorGrid],
        request: Callable[..., Message],
        kind: type[Reply],
        totals: VectorGrid | None = None,
    ) -> Conversation[dict[int, Reply]]:
        """Ask for parts of sums, again on coarser grids while some part does not fit.

        Parameters
        ----------
        grids : sequence of VectorGrid
            Those that the requests and so the replies use, in the replies' order.
        request : callable
            A function of a client, and of the grid of its totals if any are requested.
        totals : VectorGrid, optional
            The grid of the totals that somebody will open.
        """
        asked = list(clients)
        while True:
            # While this waits for absent clients, others may get coarser grids.
            wanted = [grid.fraction_bits for grid in grids]
            specs = {} if totals is None else self._totals_specs(totals, asked)
            requests = {c: request(c, *specs.get(c, ())) for c in asked}
            try:
                replies = yield from self.session.ask(phase, requests, Message)
            except ClientsFailedError as error:
                raise blamed(error, partial(neighbours, self.layout)) from None
            fitting = {c: r for c, r in replies.items() if isinstance(r, kind)}
            if len(fitting) == len(replies):
                _check_grids(fitting, wanted)
                return fitting
            for client, answer in replies.items():
                if client not in fitting and not isinstance(answer, TooLarge):
                    raise BadReplyError(
                        phase, client, f"it is a {type(answer).__name__}"
                    )
            try:
                for grid in dict.fromkeys(grids):  # each once
                    grid.coarsen()
            except DivergenceError as error:
                error.clients = tuple(c for c in replies if c not in fitting)
                raise

    def gather_total(
        self,
        phase: str,
        grid: VectorGrid,
        request: Callable[[int, TotalsSpec], Message],
        shape: tuple[int, int],
        clients: Sequence[int] | None = None,
    ) -> Conversation[Total]:
        """Ask all clients (or some) for totals of a shape; return their sum."""
        asked = self.everyone if clients is None else clients
        parts = yield from self.gather(phase, asked, [grid], request, TotalsPart, grid)
        sealed = {client: part.vector for client, part in parts.items()}
        return summed(sealed, shape, self._next_openers(), self._adders)

    def gather_sum(
        self,
        phase: str,
        grids: Sequence[VectorGrid],
        request: Callable[[int], Message],
        total: CachedSum,
    ) -> Conversation[CachedSum]:
        """Ask all clients for parts of a sum; return the sum."""
        parts = yield from self.gather(phase, self.everyone, grids, request, Part)
        total.update({client: part.vector for client, part in parts.items()})
        return total

    # The end

    def release(self, point: Point) -> Conversation[FloatArray]:
        """Ask each client for its weights; return (n_features, n_outputs).

        All holders of a feature release its weight, and must agree. A free intercept
        comes last.
        """
        replies = yield from self.session.ask(
            "release", dict.fromkeys(self.everyone, point.request), m.Released
        )
        features = self.layout.features
        weights = agreed_weights(
            features, unpacked_weights(features, replies, self.problem.n_outputs)
        )
        if point.intercepts is None:
            return weights
        return np.vstack([weights, point.intercepts])


def _check_grids(replies: Mapping[int, Message], wanted: Sequence[int]) -> None:
    """Refuse a reply whose vectors are not on the grids asked for, in order."""
    for client, reply in replies.items():
        for vector, fraction_bits in zip(astuple(reply), wanted, strict=False):
            several = vector if isinstance(vector, list) else [vector]
            for part in several:
                if part is not None and part.fraction_bits != fraction_bits:
                    raise BadReplyError("", client, OTHER_GRID)
