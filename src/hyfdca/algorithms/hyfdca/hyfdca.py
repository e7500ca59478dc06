"""HyFDCA: hybrid federated dual coordinate ascent. Start reading here.

T. Overman, G. Blum, D. Klabjan, "A Primal-Dual Algorithm for Hybrid Federated
Learning", AAAI 2024, with the errata of ``docs/errata.md``. It solves

    min_w  P(w) = λ/2 ||w||² + 1/N Σ_i l_i(x_i·w)

through its dual. Each client improves the duals of some of its samples from their
global margins; changes are averaged over the holders of a sample.

| phase   | down                             | up                       | Algorithm |
|---------|----------------------------------|--------------------------|-----------|
| shares  | duals that changed, sealed       | Σ_i α_i x_{k,i}          | 4         |
| margins | weights of the client's features | x_{k,i}·w_k, sealed      | 2         |
| step    | margins of drawn samples, sealed | changes of duals, sealed | 3, 5      |
| weights | weights of the client's features | -                        | 4         |

A round takes 4.5 round trips under partial participation, 3 under complete
participation and 2 where moreover every sample has one holder (no margins exchange).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from hyfdca.algorithms.hyfdca.draws import Draw, Draws, HyfdcaSettings
from hyfdca.algorithms.hyfdca.dual_client import DualHolder
from hyfdca.algorithms.hyfdca.safe_step import (
    SAFETY,
    InteractionProbe,
    estimate_interaction,
    safe_factors,
)
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.federation.client import Rows
from hyfdca.federation.evaluation import DualServer
from hyfdca.federation.problem import Problem
from hyfdca.holdings.block import Block
from hyfdca.protocol import messages as m
from hyfdca.protocol.client_session import Phase
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_indices,
    pack_reals,
    unpack_counts,
    unpack_reals,
)
from hyfdca.protocol.server_session import Conversation


@dataclass
class HyfdcaServer(DualServer):
    """The server's half: Algorithm 1."""

    kept: ClassVar[tuple[str, ...]] = ("round_number", "_previous")

    settings: HyfdcaSettings
    is_complete: bool  # whether every client takes part in every round
    round_number: int = 0
    _previous: set[int] = field(default_factory=set)

    @cached_property
    def draws(self) -> Draws:
        """Who updates which samples in which round."""
        return Draws(self.settings, self.coordinator.layout, self.is_complete)

    def set_up(self) -> Conversation[None]:
        """Sum what rounds need; for the safe step, see how samples interact."""
        settings = self.settings
        is_sharp = settings.step != "paper" and settings.variant == "practical"
        probes = is_sharp and self.is_complete and settings.min_rows == 1
        yield from self.coordinator.set_up(probes)
        if probes:
            interaction = yield from estimate_interaction(
                self.coordinator, settings.seed
            )
            yield from self.send_factors(SAFETY * interaction)

    def send_factors(self, interaction: float) -> Conversation[None]:
        """Tell clients the factors of E4 (ii) for this Λ."""
        layout, session = self.coordinator.layout, self.coordinator.session
        factors = safe_factors(layout, self.draws.local_steps, interaction)
        items = enumerate(layout.samples.items)
        notices = {k: m.FactorsNotice(pack_reals(factors[held])) for k, held in items}
        yield from session.tell("factors", notices)

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Run one pass of Algorithm 1's outer loop with these clients."""
        self.round_number += 1
        returning = [c for c in participants if c not in self._previous]
        draw = self.draws.of_round(self.round_number, participants)
        if not self.is_complete:
            yield from self.primal_aggregation(returning)
            yield from self.secure_inner_product(participants, draw)
        yield from self.local_dual_method(participants, draw)
        yield from self.primal_aggregation(participants)
        if self.is_complete:
            upcoming = self.draws.of_round(self.round_number + 1, participants)
            yield from self.secure_inner_product(participants, upcoming)
        elif self.settings.second_inner_product:
            yield from self.secure_inner_product(participants, draw)
        else:
            yield from self.coordinator.send_weights(participants)
        yield from self.coordinator.reseal_duals(participants)
        self._previous = set(participants)
        # Only where all is sent anew: a share kept up to date gathers rounding.
        is_hybrid = not self.coordinator.layout.is_horizontal
        self.coordinator.is_exact = is_hybrid and not draw.is_shared

    def primal_aggregation(self, clients: Sequence[int]) -> Conversation[None]:
        """Algorithm 4, after sending the duals that changed (Algorithm 1)."""
        behind = [c for c in clients if self.coordinator.has_news(c)]
        yield from self.coordinator.refresh_shares(behind)

    def secure_inner_product(
        self, clients: Sequence[int], draw: Draw
    ) -> Conversation[None]:
        """Algorithm 2, of all samples or of those some client is about to update."""
        if self.coordinator.layout.is_horizontal:
            return
        if self._refreshes_all:
            yield from self.coordinator.refresh_margins(clients)
        else:
            touched = [c for c in clients if c in draw.touched]
            yield from self.coordinator.refresh_margins(
                touched, draw.touched.__getitem__
            )

    @property
    def _refreshes_all(self) -> bool:
        if self.settings.refresh == "auto":
            return not self.is_complete
        return self.settings.refresh == "all"

    def local_dual_method(
        self, participants: Sequence[int], draw: Draw
    ) -> Conversation[None]:
        """Send margins to those who drew samples, add their changes to the duals."""
        parts = yield from self.coordinator.gather(
            "step",
            draw.drawn,
            ["duals"],
            lambda client: self._step_request(client, participants, draw),
            m.Part,
        )
        self.coordinator.add_dual_changes(parts, draw.drawn)
        self.coordinator.announce(draw.touched)

    def _step_request(
        self, client: int, participants: Sequence[int], draw: Draw
    ) -> m.StepRequest:
        coordinator, drawn = self.coordinator, draw.drawn[client]
        is_horizontal = coordinator.layout.is_horizontal
        divisors = self._divisors(client, participants, drawn)
        is_decreasing = self.settings.aggregation == "decreasing"
        return m.StepRequest(
            drawn=pack_indices(drawn),
            margins=None if is_horizontal else coordinator.margins.take(client, drawn),
            weights=coordinator.weights_for(client) if is_horizontal else None,
            divisors=pack_indices(divisors),
            is_alone=not draw.is_shared,
            factor=self._curvature_factor(draw),
            aggregation_step=1.0 / self.round_number if is_decreasing else 1.0,
            cap=self._cap(client) if self.settings.variant == "theory" else None,
            grid=coordinator.spec("duals"),
        )

    def _curvature_factor(self, draw: Draw) -> float:
        """Return what multiplies ||x_i||²/(λN) this round."""
        if self.settings.variant == "theory":
            return float(self.coordinator.problem.n_samples)  # Algorithm 3: ||x_i||²/λ
        is_prompt = self.settings.min_rows == 1
        if self.settings.step != "paper" and not (self.is_complete and is_prompt):
            # E4 (i) counts the samples changed at once. Where holders may be absent, or
            # hold shares back, what changed is not in the weights yet: as if all
            # changed at once.
            is_counted = self.coordinator.layout.is_horizontal and is_prompt
            n_samples = self.coordinator.problem.n_samples
            return float(draw.n_distinct if is_counted else n_samples)
        return 1.0  # as printed, or each client has its factors of E4 (ii)

    def _cap(self, client: int) -> float:
        """Return c_k, which bounds how far Algorithm 3 may go."""
        items = self.coordinator.layout.samples.items
        if self.settings.cap == "one":
            return 1.0
        if self.settings.cap == "printed":
            return len(items[client]) / self.coordinator.problem.n_samples
        return len(items[client]) / max(len(held) for held in items)

    def _divisors(
        self, client: int, participants: Sequence[int], drawn: IntArray | None
    ) -> IntArray | None:
        """Count the participants that may have drawn each sample; None: all holders.

        The safe step divides by all: where holders are absent their shares lack what
        changes now, and those who come later would go the same way again.
        """
        is_safe = self.settings.step != "paper" and self.settings.variant == "practical"
        if self.is_complete or is_safe or self.settings.divide_by == "all":
            return None
        layout = self.coordinator.layout
        items = layout.samples.items[client]
        items = items if drawn is None else items[drawn]
        which, holders, _ = layout.samples.holders_of(items)
        draws = np.zeros(layout.n_clients, dtype=bool)
        draws[list(participants)] = True
        draws &= layout.labelled
        return np.bincount(which[draws[holders]], minlength=len(items))


class HyfdcaClient(DualHolder):
    """A client's half: Algorithms 3 and 5."""

    def __init__(self, problem: Problem, block: Block, sealers: Sealers) -> None:
        super().__init__(problem, block, sealers)
        self.phases = {
            **self.phases,
            **InteractionProbe(self).phases,
            "factors": Phase(m.FactorsNotice, self._take_factors),
            "step": Phase(m.StepRequest, self.local_dual_method),
        }

    def _take_factors(self, notice: m.FactorsNotice) -> None:
        factors = unpack_reals(notice.factors, len(self.duals))
        self.curvatures = self.curvatures * factors[:, None]

    def local_dual_method(self, request: m.StepRequest) -> m.Message:
        """Return the changes of the drawn duals, divided by who else may change them.

        Practical variant (Algorithm 5): the maximiser of the dual in one coordinate.
        Theory variant (Algorithm 3): the paper's s_{k,i} is the maximiser on the
        segment from α to α + c_k γ (u - α) with -u in ∂l_i (E1). The objective is
        concave, so that is the coordinate maximiser clipped to the segment.
        """
        if self.block.labels is None:
            raise RemoteProtocolError("this client has no labels and draws no samples")
        rows = self.unpack_rows(request.drawn)
        loss, labels = self.problem.loss, self.block.labels[rows]
        divisors = self._divisors(rows, request)
        duals, margins = self.duals[rows], self._margins_of(rows, request)
        curvatures = self.curvatures[rows] * request.factor
        change = loss.dual_step(duals, margins, labels, curvatures)
        if request.cap is None:
            change *= request.aggregation_step
        else:
            towards = -loss.derivative(margins, labels) - duals
            reach = request.cap * request.aggregation_step * towards
            change = np.clip(change, np.minimum(reach, 0), np.maximum(reach, 0))
        change /= divisors
        if not self._has_room(rows, change, request.grid):
            return m.TooLarge()
        # Towards zero: a rounded dual never leaves the domain of its conjugate.
        return self.sample_part(change, request.grid, "to zero", rows)

    def _has_room(self, rows: Rows, change: FloatArray, grid: m.GridSpec) -> bool:
        """Return whether duals stay in the range of a sum if all change them so.

        Those whose domain has ends always do.
        """
        if math.isfinite(self.problem.loss.lipschitz):
            return True
        holders = self.label_holders[rows, None]
        most = int(holders.max(initial=1) - 1).bit_length()
        room = math.ldexp(1.0, grid.limit_bits + most - grid.fraction_bits)
        return bool(np.all(np.abs(self.duals[rows]) + holders * np.abs(change) <= room))

    def _margins_of(self, rows: Rows, request: m.StepRequest) -> FloatArray:
        """Return x_i·w: summed over holders, or computed by a sample's only holder."""
        if request.margins is not None:
            return self.opened_samples(request.margins, rows)
        if request.weights is not None:
            self._weights(m.WeightsNotice(request.weights))
        return self.products(rows, self.weights)

    def _divisors(self, rows: Rows, request: m.StepRequest) -> IntArray:
        if request.is_alone:
            return np.ones((1, 1), np.int64)
        if request.divisors is None:
            return self.label_holders[rows, None]
        return unpack_counts(request.divisors, self.count(rows))[:, None]
