"""Rounds of FedAvg and HyFEM for all clients at once: local gradient steps, a mean."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hyfdca.algorithms.fedavg import FedAvg
from hyfdca.algorithms.hyfem import HyFem
from hyfdca.arrays import FloatArray
from hyfdca.federation.local.work import local_rows_key, local_steps
from hyfdca.holdings.participation import Participation
from hyfdca.maths.compiling import jit
from hyfdca.maths.descent import step_sizes
from hyfdca.maths.draws import draw_repeated
from hyfdca.maths.kernels import descent_steps
from hyfdca.maths.losses import Loss
from hyfdca.maths.objective import Measurement
from hyfdca.training.bulk.counts import N_COUNTS, WORK, RoundCounts
from hyfdca.training.bulk.sgd_traffic import SgdTraffic
from hyfdca.training.bulk.stacked import StackedBlocks

_compiled = jit(nogil=True, error_model="numpy")


class _Table(NamedTuple):
    """The rows, by client, with columns numbered among the client's own features."""

    indptr: Any
    columns: Any
    data: Any
    labels: Any  # of the rows
    client_starts: Any
    feature_starts: Any
    features: Any


class _Step(NamedTuple):
    """The participants of a round, and the steps they take."""

    able: Any
    n_steps: Any
    key: Any
    sizes: tuple[Any, ...]
    loss: tuple[Any, ...]


class BulkLocalSgd:
    """A training by FedAvg or HyFEM, all clients in one place.

    Parameters
    ----------
    blocks : StackedBlocks
        Blocks in the order of clients.
    loss : Loss
    l2 : float
        λ.
    settings : FedAvg or HyFem
        With one sample per step; HyFEM with the mean over participants.
    participation : Participation
    seed : int
    """

    def __init__(
        self,
        blocks: StackedBlocks,
        loss: Loss,
        l2: float,
        settings: FedAvg | HyFem,
        participation: Participation,
        seed: int = 0,
    ) -> None:
        _check(blocks, settings)
        self._blocks, self._loss, self._l2 = blocks, loss, l2
        self._settings, self._participation, self._seed = settings, participation, seed
        layout, clients = blocks.layout, range(blocks.n_clients)
        self._n_steps = np.array([local_steps(settings, layout, k) for k in clients])
        indptr, _, data = blocks.csr
        self._table = _Table(
            indptr,
            blocks.client_columns,
            data,
            blocks.labels[blocks.row_samples],
            blocks.client_starts,
            blocks.feature_starts,
            blocks.features,
        )
        self._traffic = SgdTraffic(blocks, self._n_steps)
        self.round_number = 0
        self._weights = np.zeros(blocks.n_features)
        # HyFEM's clients keep their models, those of FedAvg start from the mean.
        keeps = isinstance(settings, HyFem) and not settings.restart
        self._models = np.zeros(len(blocks.features) if keeps else 0)

    def round(self) -> RoundCounts:
        """Let the participants take their steps, and average."""
        self.round_number += 1
        number, settings = self.round_number, self._settings
        participants = np.array(self._participation.of_round(number), np.int64)
        starts = self._blocks.client_starts
        able = participants[starts[participants + 1] > starts[participants]]
        rate = settings.rate_at(number)
        sizes = step_sizes(rate, self._l2)
        if isinstance(settings, HyFem):
            is_proximal = settings.matching == "proximal"
            sizes = step_sizes(rate, self._l2, settings.mu, is_proximal=is_proximal)
        step = _Step(
            able,
            self._n_steps,
            local_rows_key(self._seed, number),
            tuple(sizes),
            self._loss.constants,
        )
        counts = np.zeros((len(able), N_COUNTS), np.int64)
        self._weights = _sgd_round(
            self._table, step, self._models, self._weights, counts
        )
        return RoundCounts(able, counts, self._traffic.round(number, able, counts))

    def weights(self) -> FloatArray:
        """Return the mean weights."""
        return self._weights

    def measure(self, weights: FloatArray | None = None) -> Measurement:
        """Measure P, and D of the duals that touch the loss; two passes over the data.

        ``weights`` are those of this training, which it already knows.
        """
        blocks, loss, w = self._blocks, self._loss, self._weights
        margins = blocks.margins(w)
        duals = -loss.derivative(margins, blocks.labels)
        found = blocks.measured(loss, self._l2, w, duals, margins=margins)
        # No loss is negative, so D(0) = 0 is a bound too.
        return Measurement(found.primal, max(found.dual or 0.0, 0.0))


def _check(blocks: StackedBlocks, settings: FedAvg | HyFem) -> None:
    if blocks.by != "clients":
        raise ValueError("Local steps read blocks by client; stack them by='clients'.")
    if settings.batch != 1:
        raise ValueError("Many clients at once are simulated with batch=1.")
    if isinstance(settings, HyFem) and settings.average != "active":
        raise ValueError("Many clients at once are simulated with average='active'.")


@_compiled
def _sgd_round(table, step, models, weights, counts):  # type: ignore[no-untyped-def]
    """Return the next mean; changes ``models`` and ``counts``.

    ``models`` are the clients' own; empty if they start from the mean.
    """
    holders = np.zeros(weights.size, np.int32)
    for client in step.able:
        first, last = table.feature_starts[client], table.feature_starts[client + 1]
        for f in table.features[first:last]:
            holders[f] += 1
    mean = np.where(holders > 0, 0.0, weights)
    for j in range(step.able.size):
        client = step.able[j]
        first, last = table.feature_starts[client], table.feature_starts[client + 1]
        held = table.features[first:last]
        common = weights[held]
        own = models[first:last] if models.size else common.copy()
        counts[j, WORK] = held.size + _descend(table, step, client, common, own)
        for m in range(held.size):
            mean[held[m]] += own[m] / holders[held[m]]
    return mean


@_compiled
def _descend(table, step, client, common, own):  # type: ignore[no-untyped-def]
    """Take a client's steps; changes ``own``. Returns how many values were read."""
    first, last = table.client_starts[client], table.client_starts[client + 1]
    order = np.empty(step.n_steps[client], np.uint32)
    draw_repeated(step.key, client, last - first, order)
    order += np.uint32(first)
    descent_steps(
        table.indptr,
        table.columns,
        table.data,
        order,
        table.labels,
        np.empty(0),
        step.sizes,
        step.loss,
        common,
        own,
    )
    return (table.indptr[order + np.uint32(1)] - table.indptr[order]).sum()
