"""HyFDCA: hybrid federated dual coordinate ascent. Start reading here.

T. Overman, G. Blum, D. Klabjan, "A Primal-Dual Algorithm for Hybrid Federated
Learning", AAAI 2024, with the errata of ``docs/errata.md``. It solves

    min_w  P(w) = λ/2 ||w||² + 1/N Σ_i l_i(x_i·w)

through its dual. Each client improves the duals of some of its samples from their
global margins; changes are averaged over the holders of a sample.

| phase   | down                               | up                       | Algorithm |
|---------|------------------------------------|--------------------------|-----------|
| shares  | duals that returning clients miss  | Σ_i α_i x_{k,i}          | 1, 4      |
| margins | weights of the client's features   | x_{k,i}·w_k, sealed      | 2         |
| step    | margins of drawn samples, sealed   | changes of duals, sealed | 1, 3, 5   |
| shares  | duals that changed, sealed         | Σ_i α_i x_{k,i}          | 1, 4      |
| weights | weights of the client's features   | -                        | 4         |

A round takes 4.5 round trips under partial participation, 3 under complete
participation and 2 where moreover every sample has one holder (no margins exchange).

With everybody present in every round the default step is an exact line search: then the
rounds are those of ``LineSearchServer.round`` in ``line_search.py``, with exchanges of
its own, and not those of this table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hyfdca.algorithms.hyfdca import messages as m
from hyfdca.algorithms.hyfdca.asked import check_divisors, check_factors, check_step
from hyfdca.algorithms.hyfdca.draws import Draw, Draws, check_drawn, drawn_share
from hyfdca.algorithms.hyfdca.dual_client import DualClient, DualClientState
from hyfdca.algorithms.hyfdca.dual_server import DualServer, DualServerState
from hyfdca.algorithms.hyfdca.line_search import LineSearchClient, LineSearchServer
from hyfdca.algorithms.hyfdca.safe_step import (
    SAFETY,
    InteractionProbe,
    estimate_interaction,
    safe_factors,
)
from hyfdca.algorithms.hyfdca.settings import HyfdcaSettings
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.algorithm import ClientHalf, ServerHalf
from hyfdca.federation.client import Party
from hyfdca.federation.sealing.client_sealing import Rows
from hyfdca.federation.server import Federation, Point
from hyfdca.maths.objective import Measurement
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import pack_indices, pack_reals, unpack_counts, unpack_reals
from hyfdca.protocol.messages import GridSpec, Message, Part, TooLarge
from hyfdca.protocol.phases import Phases
from hyfdca.protocol.server_session import Conversation


@dataclass(frozen=True, repr=False)
class HyfdcaServerState:
    """What a checkpoint keeps of the server's half."""

    dual: DualServerState
    round_number: int
    previous: set[int]


class HyfdcaServer:
    """The server's half: Algorithm 1."""

    is_between_steps = True  # a round is a whole step

    def __init__(self, federation: Federation, settings: HyfdcaSettings) -> None:
        self._federation, self._settings = federation, settings
        self.dual = DualServer(federation)
        self.draws = Draws(
            settings, federation.layout, federation.is_complete, federation.seed
        )
        self.round_number = 0
        self._previous: set[int] = set()  # who took part in the last round

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Run iteration t of Algorithm 1; ``participants`` is K^t.

        Clients answer the server's requests; ``self.dual`` keeps the encrypted sums.
        """
        self.round_number += 1
        draw = self.draws.of_round(self.round_number, participants)
        if not self._federation.is_complete:
            # If everybody is always present, the previous round ended with these two
            # steps, and the first round starts from zeros.
            returning = [c for c in participants if c not in self._previous]
            yield from self.primal_aggregation(returning)
            yield from self.secure_inner_product(participants, draw)
        yield from self.gather_dual_changes(participants, draw)  # α += changes
        yield from self.primal_aggregation(participants)  # α to w
        yield from self.closing_inner_product(participants, draw)  # w to x_i·w
        # Not in the paper: sums of many changes are resealed before noise builds up.
        yield from self.dual.reseal_duals(participants)
        self._previous = set(participants)
        self.dual.is_exact = self._is_exact(draw)

    def primal_aggregation(self, clients: Sequence[int]) -> Conversation[None]:
        """Algorithm 4; it first sends enc(α_0), the duals that changed."""
        behind = [c for c in clients if self.dual.has_news(c)]
        yield from self.dual.refresh_shares(behind)

    def secure_inner_product(
        self, clients: Sequence[int], draw: Draw
    ) -> Conversation[None]:
        """Algorithm 2, of all samples or of those some client is about to update."""
        if self._federation.layout.is_horizontal:
            return
        if self._settings.refreshes_all(self._federation.is_complete):
            yield from self.dual.refresh_margins(clients)
        else:
            touched = [c for c in clients if c in draw.touched]
            yield from self.dual.refresh_margins(touched, draw.touched.__getitem__)

    def gather_dual_changes(
        self, participants: Sequence[int], draw: Draw
    ) -> Conversation[None]:
        """Let clients run LocalDualMethod on their draws; α_0 += Σ_b Δα_b/|B_n|.

        Clients divide by |B_n|, so the server only adds encrypted numbers.
        """
        parts = yield from self._federation.gather(
            "step",
            draw.drawn,
            [self._federation.grids.duals],
            lambda client: self._step_request(client, participants, draw),
            Part,
        )
        self.dual.add_dual_changes(parts, draw.drawn)
        self.dual.announce(draw.touched)

    def closing_inner_product(
        self, participants: Sequence[int], draw: Draw
    ) -> Conversation[None]:
        """The last line of Algorithm 1, where the next round needs it.

        Where clients may be absent, the next round begins with it too. Then this one is
        left out by default, as in the paper's experiments, and only weights are sent.
        """
        if self._federation.is_complete:
            upcoming = self.draws.of_round(self.round_number + 1, participants)
            yield from self.secure_inner_product(participants, upcoming)
        elif self._settings.second_inner_product:
            yield from self.secure_inner_product(participants, draw)
        else:
            yield from self.dual.send_weights(participants)

    def _is_exact(self, draw: Draw) -> bool:
        """Return whether this round sent all shares and margins again.

        Updated ones accumulate rounding errors, so P is not measured with them.
        """
        return not self._federation.layout.is_horizontal and not draw.is_shared

    def _step_request(
        self, client: int, participants: Sequence[int], draw: Draw
    ) -> m.StepRequest:
        dual, drawn = self.dual, draw.drawn[client]
        is_horizontal = self._federation.layout.is_horizontal
        divisors = self._divisors(client, participants, drawn)
        is_decreasing = self._settings.aggregation == "decreasing"
        return m.StepRequest(
            drawn=pack_indices(drawn),
            margins=None if is_horizontal else dual.margins.take(client, drawn),
            weights=dual.weights_for(client) if is_horizontal else None,
            divisors=pack_indices(divisors),
            is_alone=not draw.is_shared,
            factor=self._curvature_factor(draw),
            aggregation_step=1.0 / self.round_number if is_decreasing else 1.0,
            cap=self._cap(client) if self._settings.variant == "theory" else None,
            grid=self._federation.grids.duals.spec,
        )

    def _curvature_factor(self, draw: Draw) -> float:
        """Return what multiplies ||x_i||²/(λN) this round."""
        if self._settings.variant == "theory":
            return float(self._federation.problem.n_samples)  # Algorithm 3: ||x_i||²/λ
        is_prompt = self._settings.min_rows == 1
        if self._settings.step != "paper" and not (
            self._federation.is_complete and is_prompt
        ):
            # E4 (i) counts the samples changed at once. Where holders may be absent, or
            # hold shares back, what changed is not in the weights yet: as if all
            # changed at once.
            is_counted = self._federation.layout.is_horizontal and is_prompt
            n_samples = self._federation.problem.n_samples
            return float(draw.n_distinct if is_counted else n_samples)
        return 1.0  # as printed, or each client has its factors of E4 (ii)

    def _cap(self, client: int) -> float:
        """Return c_k, which bounds how far Algorithm 3 may go."""
        items = self._federation.layout.samples.items
        if self._settings.cap == "one":
            return 1.0
        if self._settings.cap == "printed":
            return len(items[client]) / self._federation.problem.n_samples
        return len(items[client]) / max(len(held) for held in items)

    def _divisors(
        self, client: int, participants: Sequence[int], drawn: IntArray | None
    ) -> IntArray | None:
        """Count the participants that may have drawn each sample; None: all holders.

        The safe step divides by all: where holders are absent their shares lack what
        changes now, and those who come later would go the same way again.
        """
        if self._settings.divides_by_all(self._federation.is_complete):
            return None
        layout = self._federation.layout
        items = layout.samples.items[client]
        items = items if drawn is None else items[drawn]
        which, holders, _ = layout.samples.holders_of(items)
        draws = np.zeros(layout.n_clients, dtype=bool)
        draws[list(participants)] = True
        draws &= layout.labelled
        return np.bincount(which[draws[holders]], minlength=len(items))

    def set_up(self) -> Conversation[None]:
        """Sum what rounds need; for the safe step, probe how samples interact."""
        settings = self._settings
        is_prompt = self._federation.is_complete and settings.min_rows == 1
        probes = settings.is_safe and is_prompt
        yield from self._federation.set_up(probes)
        if probes:
            interaction = yield from estimate_interaction(self._federation)
            yield from self.send_factors(SAFETY * interaction)

    def send_factors(self, interaction: float) -> Conversation[None]:
        """Send clients the factors of E4 (ii) for this Λ."""
        layout = self._federation.layout
        factors = safe_factors(layout, self.draws.local_steps, interaction)
        items = enumerate(layout.samples.items)
        notices = {k: m.FactorsNotice(pack_reals(factors[held])) for k, held in items}
        yield from self._federation.session.tell("factors", notices)

    def measure(self) -> Conversation[Measurement]:
        """Measure P and D."""
        return self.dual.measure()

    def released_point(self) -> Point:
        """Return where the weights last measured are."""
        return self.dual.released_point()

    def release(self) -> Conversation[FloatArray]:
        """Return the weights last measured."""
        return self.dual.release()

    def state(self) -> HyfdcaServerState:
        """Return what a checkpoint keeps."""
        return HyfdcaServerState(self.dual.state(), self.round_number, self._previous)

    def restore(self, state: HyfdcaServerState) -> None:
        """Take a state."""
        self.dual.restore(state.dual)
        self.round_number, self._previous = state.round_number, set(state.previous)


@dataclass(frozen=True, repr=False)
class HyfdcaClientState:
    """What a checkpoint keeps of a client's half."""

    dual: DualClientState


class HyfdcaClient:
    """A client's half: Algorithms 3 and 5."""

    def __init__(self, party: Party, settings: HyfdcaSettings) -> None:
        self._party, self._settings = party, settings
        self.dual = DualClient(party, settings.min_rows)

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **self._party.handlers,
            **self.dual.handlers,
            **InteractionProbe(self._party).handlers,
            "factors": self._take_factors,
            "step": self.local_dual_method,
        }

    def state(self) -> HyfdcaClientState:
        """Return what a checkpoint keeps."""
        return HyfdcaClientState(self.dual.state())

    def restore(self, state: HyfdcaClientState) -> None:
        """Take a state."""
        self.dual.restore(state.dual)

    def _take_factors(self, notice: m.FactorsNotice) -> None:
        party = self._party
        factors = unpack_reals(notice.factors, party.n_held)
        check_factors(self._settings, party, factors)
        # Never of curvatures with factors: those of several notices would multiply.
        party.curvatures = party.plain_curvatures() * factors[:, None]

    def local_dual_method(self, request: m.StepRequest) -> Message:
        """Return the changes of the drawn duals, divided by who else may change them.

        Practical variant (Algorithm 5): the maximiser of the dual in one coordinate.
        Theory variant (Algorithm 3): the paper's s_{k,i} is the maximiser on the
        segment from α to α + c_k γ (u - α) with -u in ∂l_i (E1). The objective is
        concave, so that is the coordinate maximiser clipped to the segment.
        """
        party = self._party
        rows = party.sealing.unpack_rows(request.drawn)
        n_drawn = party.sealing.count(rows)
        check_drawn(self._settings, party, n_drawn)
        check_step(self._settings, party, request, n_drawn)
        loss, labels = party.problem.loss, party.labels[rows]
        divisors = self._divisors(rows, request)
        weights = self._weights_of(request)
        duals = self.dual.duals[rows]
        margins = self._margins_of(rows, request, weights)
        curvatures = party.curvatures[rows] * request.factor
        change = loss.dual_step(duals, margins, labels, curvatures)
        if request.cap is None:
            change *= request.aggregation_step
        else:
            towards = -loss.derivative(margins, labels) - duals
            reach = request.cap * request.aggregation_step * towards
            change = np.clip(change, np.minimum(reach, 0), np.maximum(reach, 0))
        change /= divisors
        if not self._has_room(rows, change, request.grid):
            return TooLarge()
        # Towards zero: a rounded dual never leaves the domain of its conjugate.
        sealing, grid = party.sealing, request.grid
        reply = sealing.sample_part("drawn duals", change, grid, "to zero", rows)
        if request.weights is not None:
            self.dual.keep_weights(weights, request.weights)
        return reply

    def _has_room(self, rows: Rows, change: FloatArray, grid: GridSpec) -> bool:
        """Return whether duals stay in the range of a sum if all holders change them.

        Those whose domain has ends always do.
        """
        if math.isfinite(self._party.problem.loss.lipschitz):
            return True
        holders = self._party.label_holders[rows, None]
        most = int(holders.max(initial=1) - 1).bit_length()
        room = math.ldexp(1.0, grid.limit_bits + most - grid.fraction_bits)
        sizes = np.abs(self.dual.duals[rows]) + holders * np.abs(change)
        return bool(np.all(sizes <= room))

    def _weights_of(self, request: m.StepRequest) -> FloatArray:
        if request.weights is None:
            return self.dual.weights
        return self.dual.opened_weights(request.weights)

    def _margins_of(
        self, rows: Rows, request: m.StepRequest, weights: FloatArray
    ) -> FloatArray:
        """Return x_i·w: summed over holders, or computed by a sample's only holder."""
        if request.margins is not None:
            return self._party.margins(request.margins, rows, kind="drawn margins")
        return self._party.with_offsets(self._party.products(rows, weights), rows)

    def _divisors(self, rows: Rows, request: m.StepRequest) -> IntArray:
        if request.is_alone:
            return np.ones((1, 1), np.int64)
        if request.divisors is None:
            return self._party.label_holders[rows, None]
        n_rows = self._party.sealing.count(rows)
        divisors = unpack_counts(request.divisors, n_rows)
        check_divisors(self._party, rows, divisors)
        return divisors[:, None]


@dataclass(frozen=True)
class Hyfdca(HyfdcaSettings):
    """The paper's method; its settings are documented at ``HyfdcaSettings``."""

    name: ClassVar[str] = "hyfdca"
    takes_offsets: ClassVar[bool] = True
    phases: ClassVar[Phases] = m.PHASES

    def server(self, federation: Federation) -> ServerHalf:
        """Return the server's half."""
        federation.drawn_share = drawn_share(self, federation.layout)
        if self.searches(federation.is_complete):
            return LineSearchServer(federation, self)
        return HyfdcaServer(federation, self)

    def client(self, party: Party) -> ClientHalf:
        """Return a client's half."""
        if self.searches(party.is_complete):
            return LineSearchClient(party, self)
        return HyfdcaClient(party, self)
