"""One run of the study: a method in a setting, simulated in bulk, as a curve."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hyfdca.algorithms.fedavg import FedAvg
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.algorithms.hyfem import HyFem
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.holdings.participation import random_fraction
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Measurement
from hyfdca.reproduction.criteria import RunCurve
from hyfdca.reproduction.paper import Hyperparameters, Method
from hyfdca.reproduction.problems import Choices, PaperProblem
from hyfdca.training.bulk.counts import OPENED, SEALED, SEALED_DRAWN, RoundCounts
from hyfdca.training.bulk.dual_ascent import BulkDualAscent
from hyfdca.training.bulk.local_sgd import BulkLocalSgd
from hyfdca.training.bulk.stacked import Order, StackedBlocks

ORDERS: dict[Method, Order] = {
    "hyfdca": "samples",
    "fedavg": "clients",
    "hyfem": "clients",
}
_HOPELESS = 1e6  # times the loss of the start: no run recovers from there


class BulkRun(Protocol):
    """A training of all clients at once."""

    def round(self) -> RoundCounts:
        """Run one round."""
        ...

    def weights(self) -> FloatArray:
        """Return the model."""
        ...

    def measure(self, weights: FloatArray) -> Measurement:
        """Measure P and D of the model."""
        ...


@dataclass(frozen=True)
class SimulatedRun:
    """The measurements of a run; all arrays have a value per measured round.

    Parameters
    ----------
    rounds : array
        Rounds from 0, the start. A diverged run ends early, with an infinite loss.
    losses, bounds : array
        P and D on the training rows.
    accuracies : array
        The accuracy on the validation rows.
    seconds : array
        The slowest clients' computation up to the round: of every round's time, its
        slowest client's share of the values read, and the time of those that the
        simulation leaves out.
    sealed, opened : array
        Numbers that all clients sealed and opened, up to the round.
    bytes : array
        Bytes that all clients sent and received up to the round, without encryption.
    busiest_sealed, busiest_opened : array
        Sums, up to the round, of the most numbers that one client sealed and opened in
        each round: clients encrypt side by side.
    sealed_drawn : array
        What all clients would have sealed if they sent the margins of drawn samples
        alone, up to the round.
    """

    rounds: IntArray
    losses: FloatArray
    bounds: FloatArray
    accuracies: FloatArray
    seconds: FloatArray
    sealed: IntArray
    opened: IntArray
    bytes: IntArray
    busiest_sealed: IntArray
    busiest_opened: IntArray
    sealed_drawn: IntArray

    def where(self, is_kept: NDArray[np.bool_]) -> SimulatedRun:
        """Return the run with some of its measured rounds."""
        columns = {own.name: getattr(self, own.name)[is_kept] for own in fields(self)}
        return SimulatedRun(**columns)

    @property
    def curve(self) -> RunCurve:
        """The input of tuning's criteria."""
        return RunCurve(self.rounds, self.losses, self.accuracies, self.seconds)


def make_run(  # noqa: PLR0913  # all that a run of the study depends on
    blocks: StackedBlocks,
    l2: float,
    method: Method,
    chosen: Hyperparameters,
    fraction: float,
    seed: int,
    *,
    choices: Choices | None = None,
) -> BulkRun:
    """Return a run of the paper's study that is ready for its first round.

    Parameters
    ----------
    blocks : StackedBlocks
        In the method's order, see ``ORDERS``.
    choices : Choices, optional
        What the paper leaves open, by default as in ``Choices``.
    """
    open_questions = choices or Choices()
    loss, settings = make_loss("hinge"), dict[str, Any](chosen.as_settings())
    present = random_fraction(blocks.n_clients, fraction, seed)
    if method == "hyfdca":
        own = Hyfdca(
            step="paper",
            refresh=open_questions.refresh,
            divide_by=open_questions.divide_by,
            **settings,
        )
        return BulkDualAscent(blocks, loss, l2, own, present, seed)
    rival = FedAvg(**settings) if method == "fedavg" else HyFem(**settings)
    return BulkLocalSgd(blocks, loss, l2, rival, present, seed)


@dataclass(frozen=True)
class TimeLimit:
    """Ends a run before its rounds are over.

    Parameters
    ----------
    seconds : float
        The time of the slowest clients' computation and of waiting. Encryption adds
        time by scheme, so the run may continue beyond what is shown.
    waiting : float
        The seconds of every round in which messages are in transit.
    """

    seconds: float
    waiting: float

    def is_over(self, n_rounds: int, computation: float) -> bool:
        """Return whether the time is up after that many rounds."""
        return computation + n_rounds * self.waiting > self.seconds


def simulate(
    problem: PaperProblem,
    run: BulkRun,
    n_rounds: int,
    measure_every: int,
    limit: TimeLimit | None = None,
    watch: Callable[[int], None] = lambda _: None,
) -> SimulatedRun:
    """Run for some rounds; measure the start, the end, and at intervals between.

    Parameters
    ----------
    limit : TimeLimit, optional
        Its last round is the first that ends after the time.
    watch : callable
        Receives the number of every measured round.
    """
    points: list[tuple[float, ...]] = []
    seconds = 0.0
    spent = np.zeros(6, np.int64)  # see ``_spent``

    def measure(number: int) -> float:
        weights = run.weights()
        with np.errstate(over="ignore", invalid="ignore"):
            found = run.measure(weights)
        loss = found.primal if np.isfinite(found.primal) else np.inf
        accuracy = problem.validation.accuracy(weights)
        bound = 0.0 if found.dual is None else found.dual
        points.append((number, loss, bound, accuracy, seconds, *spent.tolist()))
        watch(number)
        return loss

    start = measure(0)
    for number in range(1, n_rounds + 1):
        started = time.thread_time()  # other processes do not count
        counts = run.round()
        seconds += (time.thread_time() - started) * counts.slowest_share
        seconds += counts.unread_seconds
        spent += _spent(counts)
        is_last = number == n_rounds or bool(limit and limit.is_over(number, seconds))
        is_due = is_last or _is_due(number, measure_every, is_early_wanted=bool(limit))
        if is_due and not measure(number) < _HOPELESS * start:
            points[-1] = (points[-1][0], np.inf, *points[-1][2:])
            break
        if is_last:
            break
    found = np.array(points, dtype=np.float64).T  # counts are far below 2^53
    return SimulatedRun(
        rounds=found[0].astype(np.int64),
        losses=found[1],
        bounds=found[2],
        accuracies=found[3],
        seconds=found[4],
        sealed=found[5].astype(np.int64),
        opened=found[6].astype(np.int64),
        bytes=found[7].astype(np.int64),
        busiest_sealed=found[8].astype(np.int64),
        busiest_opened=found[9].astype(np.int64),
        sealed_drawn=found[10].astype(np.int64),
    )


def _is_due(number: int, measure_every: int, is_early_wanted: bool) -> bool:
    """Return whether a round is measured, including rounds 1, 2, 4, 8, ... if wanted.

    If encryption is slow, few rounds fit into the time: they should not all lie between
    the start and the first measured round.
    """
    is_power = number & (number - 1) == 0
    is_early = is_early_wanted and is_power and number < measure_every
    return is_early or number % measure_every == 0


def _spent(counts: RoundCounts) -> list[int]:
    """Return what a round adds to the totals of a run, in the order of their fields."""
    totals, busiest, traffic = counts.totals, counts.busiest, counts.traffic
    return [
        totals[SEALED],
        totals[OPENED],
        traffic.bytes_up + traffic.bytes_down,
        busiest[SEALED],
        busiest[OPENED],
        totals[SEALED_DRAWN],
    ]
