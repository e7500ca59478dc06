"""D3CA: doubly distributed dual coordinate ascent with each client's own margins.

A. Nathan, D. Klabjan, "Optimization for large-scale machine learning with distributed
features and observations", MLDM 2017. Row groups times column groups; HyFDCA is D3CA
with the margins summed over holders.

| phase        | down                                     | up                        |
|--------------|------------------------------------------|---------------------------|
| block steps  | duals, sealed; weights, by profile       | part of the mean duals,   |
|              |                                          | sealed                    |
| block shares | mean duals, sealed                       | Σ α_i x_{k,i}             |

A block's step on sample i, with P row groups and Q column groups, maximises

    -1/Q l_i*(-(α + d)) - d x_{k,i}·w_k - d² ||x_{k,i}||² / (2λN),

and the changes of a sample's Q holders are averaged, over P Q. A fixed point has
x_{k,i}·w_k in 1/Q ∂l_i* for every k, which the optimum does not: D3CA is biased where
a row's columns are at several clients. Both factors are from memory of the source, so
they are settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.federation.algorithm import Needs
from hyfdca.federation.client import Party
from hyfdca.federation.local.ascent import ascend
from hyfdca.federation.local.work import (
    BIASED,
    LocalWork,
    Positive,
    drawn_rows,
    local_steps,
)
from hyfdca.federation.messages import SET_UP, evaluation_phases, summing
from hyfdca.federation.primal import (
    PrimalClient,
    TwoSumServer,
    before_round,
)
from hyfdca.federation.server import Federation
from hyfdca.federation.sums import EVERYWHERE
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import pack_indices, unpack_counts
from hyfdca.protocol.messages import (
    Counter,
    Duals,
    Message,
    OnGrid,
    Part,
    Seen,
    Sums,
    Weights,
)
from hyfdca.protocol.phases import Phases
from hyfdca.protocol.server_session import Conversation


class BlockStepsRequest(Message, frozen=True):
    """Duals and weights down, the client's part of the mean duals up."""

    duals: Duals
    weights: Weights
    holders: Annotated[memoryview | None, Seen("holder counts")]  # uint32; None: all
    n_row_groups: Counter
    n_steps: Counter
    round_number: Counter
    grid: OnGrid


class BlockSharesRequest(Message, frozen=True):
    """Duals down, what they add up to on the client's block up."""

    duals: Duals
    grid: OnGrid


class D3caServer(TwoSumServer):
    """The server's half: mean duals by sample, shares by feature."""

    def __init__(self, federation: Federation, settings: D3ca) -> None:
        self._settings, self._duals = settings, federation.latest_sample_sum()
        super().__init__(federation, None, self._duals)

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Average the duals after local steps, then sum the shares of weights."""
        self.round_number += 1
        federation, settings = self.federation, self._settings
        layout, grids = federation.layout, federation.grids
        samples, n_row_groups = layout.samples, int(layout.features.counts.max())
        is_all = len(participants) == layout.n_clients
        counts = samples.counts if is_all else samples.counts_among(participants)
        parts = yield from federation.gather(
            "block steps",
            participants,
            [grids.duals],
            lambda client: BlockStepsRequest(
                self._duals.take(client),
                self.weights.take(client),
                None if is_all else pack_indices(counts[samples.items[client]]),
                n_row_groups,
                local_steps(settings, layout, client),
                self.round_number,
                grids.duals.spec,
            ),
            Part,
        )
        self._duals.update({c: part.vector for c, part in parts.items()})
        shares = yield from federation.gather(
            "block shares",
            participants,
            [grids.shares],
            lambda client: BlockSharesRequest(
                self._duals.take(client), grids.shares.spec
            ),
            Part,
        )
        self.weights.update({c: part.vector for c, part in shares.items()})


class D3caClient(PrimalClient):
    """A client's half; it needs no state between rounds."""

    def __init__(self, party: Party, settings: D3ca) -> None:
        super().__init__(party)
        self._settings = settings
        self._duals: FloatArray | None = None  # of the round, for its measurement

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **super().handlers,
            "block steps": self._block_steps,
            "block shares": self._block_shares,
        }

    def weights_of(self, sums: Sums) -> FloatArray:
        """Return what shares add up to, over λN."""
        return super().weights_of(sums) / self.party.problem.l2_scale

    def bound_duals(self, margins: FloatArray) -> FloatArray:
        """Return the mean duals, if all holders of a sample have the same ones."""
        if self._duals is None or not self.party.is_complete:
            return super().bound_duals(margins)
        return self._duals

    def _block_steps(self, request: BlockStepsRequest) -> Message:
        party, settings = self.party, self._settings
        settings.check_steps(request.n_steps, party)
        duals = self._opened(request.duals)
        n_holders = float(party.sample_holders.max(initial=1))
        # A conjugate over Q is the same as margins and curvature times Q.
        factor = n_holders if settings.conjugate == "1/Q" else 1.0
        norms = party.partial_norms
        if settings.beta is not None:
            norms = np.full_like(norms, settings.beta / max(request.round_number, 1))
        weights = factor * self.weights_of(request.weights)
        order = drawn_rows(party, request.round_number, request.n_steps)
        change = ascend(party, order, duals, weights, factor, norms) - duals
        active = party.sample_holders
        if request.holders is not None:
            active = unpack_counts(request.holders, party.n_held)
        groups = request.n_row_groups if settings.average == "1/PQ" else 1
        mean = (duals + change / max(groups, 1)) / active[:, None]
        # Towards zero: a rounded dual never leaves the domain of its conjugate.
        return party.sealing.sample_part("duals", mean, request.grid, "to zero")

    def _block_shares(self, request: BlockSharesRequest) -> Message:
        party = self.party
        self._duals = self._opened(request.duals)
        total = party.combine(EVERYWHERE, party.weighted(self._duals))
        return party.sealing.feature_part("weights", total, request.grid)

    def _opened(self, sums: Sums) -> FloatArray:
        duals = self.party.sealing.opened_samples("duals", sums)
        return self.party.problem.loss.into_domain(duals, self.party.labels)


@dataclass(frozen=True)
class D3ca(LocalWork):
    """D3CA; how many coordinate steps it takes is documented at ``LocalWork``.

    Parameters
    ----------
    conjugate : {"1/Q", "whole"}
        The factor of the conjugate in a block's problem.
    average : {"1/PQ", "1/Q"}
        The factor of the sum of a sample's changes.
    beta : float, optional
        Takes β/t instead of ||x_{k,i}||² in round t, which the source advises for a
        small λ.
    """

    name: ClassVar[str] = "d3ca"
    late_advice: ClassVar[str] = BIASED
    advice: ClassVar[str] = (
        "where a row's columns are at several clients it may settle above its start: "
        "use a smaller local_fraction, a larger l2 or algorithm='bundle'"
    )
    phases: ClassVar[Phases] = {
        **SET_UP,
        **evaluation_phases("block shares", within=("block steps",)),
        "block steps": summing(
            BlockStepsRequest, "duals", *before_round("block steps", "block shares")
        ),
        "block shares": summing(
            BlockSharesRequest, "shares", "block steps", "block shares"
        ),
    }

    conjugate: Literal["1/Q", "whole"] = "1/Q"
    average: Literal["1/PQ", "1/Q"] = "1/PQ"
    beta: Positive | None = None

    @property
    def needs(self) -> Needs:
        """Row groups times column groups, with labels everywhere."""
        return Needs(split="grid", labels="all")

    def server(self, federation: Federation) -> D3caServer:
        """Return the server's half."""
        return D3caServer(federation, self)

    def client(self, party: Party) -> D3caClient:
        """Return a client's half."""
        return D3caClient(party, self)
