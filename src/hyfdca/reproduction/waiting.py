"""The bundle method under partial participation, where each exchange waits for all.

Every exchange of a step waits until each client was present once; totals then wait for
the client that opens them, the first of those present when they were requested. So the
method's points are those with everybody present, and presence only determines when they
are reached: this can be computed without training, also for 20,000 clients.

It is the conservative curve. On data with fewer features than samples the product runs
asynchronously in the open profile (``AsyncBundleServer``) and needs fewer rounds, since
buckets do not wait for each other. It waits as here on wide data, such as News20, and
in the sealed profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.holdings.participation import Participation, random_fraction
from hyfdca.reproduction.bundle_run import (
    BundleHistory,
    Limits,
    Step,
    bundle_history,
)
from hyfdca.reproduction.paper import Setting
from hyfdca.reproduction.problems import PaperProblem


@dataclass(frozen=True)
class BundleCurve:
    """A run of the bundle method; all arrays have a value per step, from the start.

    Parameters
    ----------
    rounds : array
        The physical round in which the step ends; 0 is the start.
    losses, bounds : array
        P and D on the training rows. The server already knows D after the first
        exchange of a step.
    accuracies : array
        The accuracy on the validation rows.
    client_seconds : array
        Computation up to the step. Every trip of an exchange takes as long as the
        exchange's slowest client, present or not. Where clients were merged, it
        is the time of a merged one. Both make it an upper bound.
    server_seconds : array
        CPU time of the server up to the step.
    n_bytes : array
        The bytes of all clients, both ways, up to the step.
    round_trips : array
        Round trips up to the step; a round has one per exchange that somebody answers.
    sealed, opened : array
        Numbers that all clients would seal and open if they encrypted, up to the step:
        margins and parts of P, since the open profile shows slopes to the server.
    """

    rounds: IntArray
    losses: FloatArray
    bounds: FloatArray
    accuracies: FloatArray
    client_seconds: FloatArray
    server_seconds: FloatArray
    n_bytes: IntArray
    round_trips: IntArray
    sealed: IntArray
    opened: IntArray

    @property
    def seconds(self) -> FloatArray:
        """Computation of clients and server, one after the other."""
        return self.client_seconds + self.server_seconds


def bundle_curve(
    problem: PaperProblem,
    setting: Setting,
    n_rounds: int,
    folder: Path | None = None,
    seed: int = 0,
    limits: Limits | None = None,
) -> BundleCurve:
    """Return the steps that end within some rounds, in a setting of the paper.

    Parameters
    ----------
    n_rounds : int
        Physical rounds.
    folder : path, optional
        Where the history with everybody present is kept; the settings of different
        fractions share it.
    seed : int
        The seed of presence: the same clients as in ``make_run`` with that seed.
    """
    history = bundle_history(problem, setting.clients, folder, limits or Limits())
    present = random_fraction(history.n_clients, setting.fraction, seed)
    return waiting_curve(history, present, n_rounds)


def waiting_curve(
    history: BundleHistory, participation: Participation, n_rounds: int
) -> BundleCurve:
    """Return when the steps of a history end if some clients are absent at times."""
    start, *steps = history.steps
    waits = _Waits(participation, history.n_clients, n_rounds)
    points = [_point(0, start, [])]
    for step in steps:
        trips = [waits.trips() if e.waits else waits.opening() for e in step.exchanges]
        if waits.round_number > n_rounds:
            break
        points.append(_point(waits.round_number, step, trips))
        waits.next_round()
    found = np.array(points, dtype=np.float64).T  # counts are far below 2^53
    totals = np.cumsum(found[4:], axis=1)
    whole = [row.astype(np.int64) for row in totals[2:]]
    return BundleCurve(found[0].astype(np.int64), *found[1:4], *totals[:2], *whole)


def _point(round_number: int, step: Step, trips: Sequence[int]) -> tuple[float, ...]:
    """Return the values of ``BundleCurve``, of one step alone."""
    exchanges = step.exchanges
    slowest = (e.slowest_seconds * n for e, n in zip(exchanges, trips, strict=True))
    return (
        round_number,
        step.loss,
        step.bound,
        step.accuracy,
        sum(slowest),
        step.server_seconds,
        sum(e.n_bytes for e in exchanges),
        sum(trips),
        sum(e.sealed for e in exchanges),
        sum(e.opened for e in exchanges),
    )


class _Waits:
    """Presence by round, as exchanges wait one after another.

    An exchange begins in the round in which the one before it ended, with those present
    then; a step begins in the round after the last one ended.
    """

    def __init__(
        self, participation: Participation, n_clients: int, n_rounds: int
    ) -> None:
        self._participation, self._n_rounds = participation, n_rounds
        self._absent = np.ones(n_clients, dtype=bool)
        self._opener = 0
        self.round_number = 0
        self.next_round()

    def next_round(self) -> None:
        """Continue with the next round."""
        self.round_number += 1
        self._absent[:] = True
        self._absent[list(self._participation.of_round(self.round_number))] = False

    def trips(self) -> int:
        """Wait for everybody, or the last round; return how often somebody answered."""
        self._opener = int(self._absent.argmin())  # the first one present, if any
        waiting, n_waiting, n_trips = self._absent.copy(), len(self._absent), 0
        while self.round_number <= self._n_rounds:
            waiting &= self._absent
            n_before, n_waiting = n_waiting, int(np.count_nonzero(waiting))
            n_trips += n_waiting < n_before
            if not n_waiting:
                break
            self.next_round()
        return n_trips

    def opening(self) -> int:
        """Wait for the client that totals of the last exchange are sealed to."""
        while self._absent[self._opener] and self.round_number <= self._n_rounds:
            self.next_round()
        return 1
