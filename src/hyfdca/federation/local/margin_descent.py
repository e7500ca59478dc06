"""Gradient steps on the exact margins of a batch, as TDCD and FedBCD take them.

Margins are summed over holders once per round. During a client's local steps its own
part of them is fresh, and the others' part is fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeVar

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.client import Party
from hyfdca.federation.local.work import AtLeastOne, DecreasingRate
from hyfdca.federation.margins import SentMargins
from hyfdca.federation.primal import PrimalClient, PrimalClientState
from hyfdca.federation.sealing.client_sealing import Rows
from hyfdca.holdings.layout import Layout
from hyfdca.maths.seeds import stream
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.messages import Message, OnGrid, Positions, Seen, Sums


class BatchMarginsRequest(Message, frozen=True):
    """The weights down (None if the client has its own), parts of margins up."""

    weights: Annotated[Sums | None, Seen("weights")]
    positions: Positions
    grid: OnGrid


@dataclass(frozen=True)
class MarginDescent(DecreasingRate):
    """The settings of methods with gradient steps on a batch's exact margins.

    Parameters
    ----------
    rate, rate_offset : float
        Steps of round t have the rate A / (B + √t).
    local_steps : int
        Gradient steps per round.
    batch : int or "all"
        Samples per round, drawn without replacement; all clients get the same ones.
    """

    local_steps: AtLeastOne = 5
    batch: AtLeastOne | Literal["all"] = "all"


@dataclass(frozen=True)
class Batch:
    """The samples of a round, ``positions`` by client; None for all it holds.

    ``n_samples`` counts all of them, ``size`` those that some participant holds.
    """

    is_all: bool
    positions: Callable[[int], IntArray | None]
    n_samples: int
    size: int

    def n_rows(self, layout: Layout, client: int) -> int:
        """Return how many samples of the batch a client holds."""
        rows = self.positions(client)
        return len(layout.samples.items[client]) if rows is None else len(rows)

    def shown(self, is_complete: bool) -> Callable[[int], IntArray | None]:
        """Return the rows whose margins clients send first: all, if some are absent.

        Otherwise, margins of a client that is absent later would be as old as the last
        batch with these rows, or missing.
        """
        return self.positions if is_complete else lambda _: None


def draw_batch(
    settings: MarginDescent,
    layout: Layout,
    participants: Sequence[int],
    seed: int,
    round_number: int,
) -> Batch:
    """Return the batch of a round, the same for all clients."""
    samples, n_samples = layout.samples, layout.samples.n_items
    if settings.batch == "all" or settings.batch >= n_samples:
        held = samples.counts_among(participants)
        return Batch(True, lambda _: None, n_samples, int(np.count_nonzero(held)))
    random = stream(seed, "batch", round_number)
    drawn = np.sort(random.choice(n_samples, settings.batch, replace=False))
    positions, nothing = samples.positions_of(drawn), np.empty(0, np.int64)
    which, holders, _ = samples.holders_of(drawn)
    is_held = np.isin(holders, np.asarray(participants, np.int64))
    size = len(np.unique(which[is_held]))
    return Batch(False, lambda c: positions.get(c, nothing), len(drawn), size)


@dataclass(frozen=True)
class LocalSteps:
    """Local steps of a round: w ← w - rate (λ w + scale Σ_i v_i l'(z_i) x_i + pull).

    Parameters
    ----------
    scale : array or float
        The factor, by feature, of the sum over a client's rows of the batch.
    proximal : float
        Pulls the weights towards those at the start of the round.
    """

    n_steps: int
    rate: FloatArray | float
    scale: FloatArray | float
    proximal: float = 0.0

    def from_margins(
        self, party: Party, rows: Rows, margins: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """Return the weights after steps that refresh the client's own margins."""
        others, labels = margins - party.products(rows, weights), party.labels[rows]
        start, loss = weights, party.problem.loss
        for step in range(self.n_steps):
            if step > 0:
                margins = others + party.products(rows, weights)
            gradient = self._gradient(party, rows, loss.derivative(margins, labels))
            weights = self._stepped(party, weights, gradient, start)
        return weights

    def from_slopes(
        self, party: Party, rows: Rows, slopes: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """Return the weights after steps that keep the slopes fixed."""
        gradient, start = self._gradient(party, rows, slopes), weights
        for _ in range(self.n_steps):
            weights = self._stepped(party, weights, gradient, start)
        return weights

    def _gradient(self, party: Party, rows: Rows, slopes: FloatArray) -> FloatArray:
        return self.scale * party.combine(rows, party.weighted(slopes, rows))

    def _stepped(
        self,
        party: Party,
        weights: FloatArray,
        gradient: FloatArray,
        start: FloatArray,
    ) -> FloatArray:
        pull = self.proximal * (weights - start)
        decay = party.problem.l2_strength * weights
        return weights - self.rate * (decay + gradient + pull)


@dataclass(frozen=True, repr=False)
class MarginClientState:
    """What a checkpoint keeps of a client's side."""

    primal: PrimalClientState
    sent: IntArray | None


Settings = TypeVar("Settings", bound=MarginDescent)


class MarginClient(PrimalClient, Generic[Settings]):
    """A client's side: weights, and its part of the margins as last sent."""

    def __init__(self, party: Party, settings: Settings) -> None:
        super().__init__(party)
        self.settings, self.sent = settings, SentMargins(party)

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase; a method adds its steps."""
        return {**super().handlers, "batch margins": self._products}

    def _products(self, request: BatchMarginsRequest) -> Message:
        """Return x_{k,i}·w of the batch."""
        rows = self.party.sealing.unpack_rows(request.positions)
        if request.weights is not None:
            self.weights = self.weights_of(request.weights)
        products = self.party.products(rows, self.weights)
        return self.sent.part(products, rows, request.grid)

    def state(self) -> MarginClientState:  # type: ignore[override]
        """Return what a checkpoint keeps."""
        return MarginClientState(super().state(), self.sent.numbers)

    def restore(self, state: MarginClientState) -> None:  # type: ignore[override]
        """Take a state."""
        super().restore(state.primal)
        self.sent.numbers = state.sent
