"""HyFDCA for all clients at once; ``algorithms/hyfdca`` explains its rounds.

Shares are linear in the duals, so the server's weights change by the duals that
participants newly received: a round costs what its drawn samples cost, plus the duals
that clients missed while they were away. Margins that absent clients sent follow from
the weights of the round in which they were last present. These are remembered, unless
there are so many features that rereading all rows is cheaper.
"""

from __future__ import annotations

import time

import numpy as np

from hyfdca.algorithms.hyfdca.draws import DRAW, local_steps
from hyfdca.algorithms.hyfdca.settings import HyfdcaSettings
from hyfdca.arrays import FloatArray
from hyfdca.holdings.participation import Participation
from hyfdca.maths.draws import round_key
from hyfdca.maths.losses import Loss
from hyfdca.maths.objective import Measurement
from hyfdca.training.bulk import ascent_kernels as kernels
from hyfdca.training.bulk.counts import N_COUNTS, RoundCounts
from hyfdca.training.bulk.dual_traffic import DualTraffic
from hyfdca.training.bulk.stacked import StackedBlocks

_MOST_RECALLED = 4096  # features; their weights are remembered for every round
_FIRST_ROUNDS = 1024


class BulkDualAscent:
    """A training by HyFDCA, all clients in one place.

    Parameters
    ----------
    blocks : StackedBlocks
        Blocks in the order of samples.
    loss : Loss
    l2 : float
        λ.
    settings : HyfdcaSettings
        With ``step="paper"`` or, if clients may be absent, ``step="safe"``.
    participation : Participation
    seed : int
    """

    def __init__(
        self,
        blocks: StackedBlocks,
        loss: Loss,
        l2: float,
        settings: HyfdcaSettings,
        participation: Participation,
        seed: int = 0,
    ) -> None:
        is_complete = participation.is_complete
        _check(blocks, settings, is_complete)
        self._blocks, self._loss, self._l2 = blocks, loss, l2
        self._settings, self._participation, self._seed = settings, participation, seed
        self._l2_scale = l2 * blocks.n_samples
        layout, clients = blocks.layout, range(blocks.n_clients)
        self._steps = np.array([local_steps(settings, layout, k) for k in clients])
        self._table = kernels.Table(
            *blocks.csr,
            blocks.row_samples,
            blocks.row_clients,
            blocks.sample_starts,
            blocks.client_starts,
            blocks.client_rows,
            blocks.labels,
            blocks.squared_norms / self._l2_scale,
        )
        refreshes_all = not is_complete and settings.refresh != "drawn"
        recalls = refreshes_all and blocks.n_features <= _MOST_RECALLED
        safe_factor = 0.0 if layout.is_horizontal else float(blocks.n_samples)
        self._rule = kernels.Rule(
            loss.constants,
            self._l2_scale,
            settings.divides_by_all(is_complete),
            refreshes_all and not recalls,
            recalls,
            safe_factor if settings.is_safe else 1.0,
        )
        n_rows = len(blocks.row_samples)
        self._state = kernels.State(
            duals=np.zeros(blocks.n_samples),
            weights=np.zeros(blocks.n_features),
            known=np.zeros(n_rows),
            margins=np.zeros(n_rows),
            missed_first=np.full(blocks.n_clients, kernels.LAST, np.int32),
            missed_next=np.full(n_rows, kernels.NOT_MISSED, np.int32),
            taken=np.zeros(n_rows, np.int32),
            touched=np.zeros(blocks.n_samples, np.int32),
            places=np.zeros(blocks.n_samples, np.int32),
            missed=np.zeros(blocks.n_clients, np.int64),
            last_present=np.zeros(blocks.n_clients, np.int64),
            counts=np.zeros((blocks.n_clients, N_COUNTS), np.int64),
            past_weights=np.zeros((_FIRST_ROUNDS if recalls else 0, blocks.n_features)),
        )
        # Seconds by client for the margins of all its samples, if nothing reads them.
        self._reading_seconds: FloatArray = np.zeros(blocks.n_clients)
        if recalls:
            sizes = np.diff(blocks.rows.indptr)
            n_values = np.bincount(blocks.row_clients, sizes, blocks.n_clients)
            self._reading_seconds += n_values * self._seconds_per_value()
        self._is_present = np.zeros(blocks.n_clients, np.bool_)
        self._traffic = DualTraffic(blocks, settings, self._steps, is_complete)
        self._upcoming: tuple[kernels.Present, kernels.Draw] | None = None
        self.round_number = 0

    def round(self) -> RoundCounts:
        """Run one pass of Algorithm 1's outer loop."""
        self.round_number += 1
        present, draw = self._upcoming or self._drawn(self.round_number)
        self._make_room()
        state, participants = self._state, present.participants
        kernels.ascent_round(self._table, self._rule, present, draw, state)
        if self._participation.is_complete:  # its margins already travel in this round
            self._upcoming = self._drawn(self.round_number + 1)
        _, upcoming = self._upcoming or (present, draw)
        traffic = self._traffic.round(
            participants, state.missed, draw.touched, upcoming.touched, state.counts
        )
        return RoundCounts(
            participants,
            state.counts[participants],
            traffic,
            float(self._reading_seconds[participants].max(initial=0.0)),
        )

    def _make_room(self) -> None:
        """Make room for the weights of this round, if they are remembered."""
        past = self._state.past_weights
        if self._rule.recalls and self.round_number >= len(past):
            longer = np.concatenate([past, np.zeros_like(past)])
            self._state = self._state._replace(past_weights=longer)

    def _seconds_per_value(self) -> float:
        """Return a client's CPU time for reading a stored value for a margin."""
        seconds = 0.0
        for _ in range(2):  # the first time it compiles
            started = time.thread_time()
            kernels.read_all(self._table, self._state.weights)
            seconds = time.thread_time() - started
        return seconds / max(self._blocks.rows.nnz, 1)

    def _drawn(self, number: int) -> tuple[kernels.Present, kernels.Draw]:
        """Return who is present in a round, and draw their samples."""
        participants = np.array(self._participation.of_round(number), np.int64)
        returning = participants[~self._is_present[participants]]
        self._is_present[:] = False
        self._is_present[participants] = True
        is_decreasing = self._settings.aggregation == "decreasing"
        present = kernels.Present(
            number,
            round_key(self._seed, DRAW, number),
            participants,
            returning,
            self._is_present,
            self._steps,
            1.0 / number if is_decreasing else 1.0,
        )
        return present, kernels.drawn(self._table, present, self._state)

    @property
    def duals(self) -> FloatArray:
        """The duals of all samples."""
        return np.asarray(self._state.duals)

    def weights(self) -> FloatArray:
        """Return w of the present duals, as if every client had received them."""
        return self._blocks.combined(self.duals) / self._l2_scale

    def measure(self, weights: FloatArray | None = None) -> Measurement:
        """Measure P and D; costs a pass over the data, two without the weights."""
        w = self.weights() if weights is None else weights
        return self._blocks.measured(self._loss, self._l2, w, self.duals, own=w)


def _check(blocks: StackedBlocks, settings: HyfdcaSettings, is_complete: bool) -> None:
    if blocks.by != "samples":
        raise ValueError("HyFDCA reads blocks by sample; stack them by='samples'.")
    if settings.variant != "practical" or settings.searches(is_complete):
        raise ValueError(
            "Many clients at once are simulated with the practical variant and without "
            "a line search; use step='paper' or 'safe'."
        )
    if settings.second_inner_product or settings.min_rows > 1:
        raise ValueError(
            "Many clients at once are simulated with min_rows=1 and without the second "
            "inner product."
        )
    if is_complete and settings.is_safe:
        raise ValueError(
            "Many clients at once, all present, are simulated with step='paper'."
        )
