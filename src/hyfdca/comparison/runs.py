"""Runs one algorithm after another on the same tables; records results and costs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from hyfdca.comparison.contenders import Contender
from hyfdca.comparison.holdout import Validation
from hyfdca.federation.algorithm import Algorithm
from hyfdca.federation.sealing.secrets import Secrecy
from hyfdca.holdings.participation import Participation
from hyfdca.maths.objective import Measurement
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.server_session import ClientsFailedError
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.stopwatch import ConversationCost, Stopwatch
from hyfdca.study.local.run import LocalRun
from hyfdca.training.central import CentralOptimum
from hyfdca.training.in_process import train_in_process
from hyfdca.training.reports import RoundReport
from hyfdca.training.runner import Runner

# Failures that data can cause; anything else is a mistake in the program.
_FAILURES = (ValueError, ArithmeticError, RemoteProtocolError, ClientsFailedError)

RoundWatcher = Callable[[RoundReport], None]


@dataclass(frozen=True)
class Spent:
    """What a training has cost so far; documented at ``CurvePoint``."""

    bytes_up: int = 0
    bytes_down: int = 0
    round_trips: float = 0.0
    seconds: float = 0.0
    simulated_seconds: float = 0.0

    def plus(self, cost: ConversationCost, latency: float) -> Spent:
        """Return the sum with the cost of one more conversation."""
        traffic = cost.traffic
        trips = traffic.round_trips + traffic.search_round_trips
        return Spent(
            self.bytes_up + traffic.bytes_up,
            self.bytes_down + traffic.bytes_down,
            self.round_trips + trips,
            self.seconds + cost.seconds,
            self.simulated_seconds + cost.simulated_seconds(latency),
        )


@dataclass(frozen=True)
class CurvePoint:
    """A measured round; round 0 is the start, after the algorithm's set-up.

    Parameters
    ----------
    relative_loss : float
        The relative excess of the loss over the pooled optimum.
    validation : float or None
        The score on the rows set aside.
    spent : Spent
        All costs up to here, set-up included. Line searches and notices count as round
        trips too. ``seconds`` are measured with clients one after another;
        ``simulated_seconds`` are those of the server and of each exchange's slowest
        client, and the latency of all round trips.
    participants : int
        How many took part in the round.
    """

    round: int
    measurement: Measurement
    relative_loss: float
    validation: float | None
    spent: Spent
    participants: int


@dataclass(frozen=True)
class Curve:
    """What one contender reached, round by round.

    Parameters
    ----------
    n_rounds : int
        How many rounds it ran.
    stop_reason : str
        As in a study's model; "refused" or "failed" with a reason.
    reason : str or None
        Why it could not train, or not finish.
    """

    contender: Contender
    points: list[CurvePoint]
    n_rounds: int
    stop_reason: str
    reason: str | None = None


@dataclass(frozen=True)
class Arena:
    """What all contenders have in common.

    Parameters
    ----------
    run : LocalRun
        The aligned and scaled tables, and all settings but the algorithm.
    secrecy : Secrecy
        The keys of all parties.
    latency : float
        Seconds per round trip, for the simulated time.
    """

    run: LocalRun
    participation: Participation
    secrecy: Secrecy
    optimum: CentralOptimum
    validation: Validation | None
    latency: float

    def train(self, contender: Contender, watch: RoundWatcher) -> Curve:
        """Train one contender until the study would end."""
        algorithm = contender.algorithm
        try:
            runner = self._runner(algorithm)
        except ValueError as error:
            return Curve(contender, [], 0, "refused", str(error))
        self._warm_up(algorithm)
        recorder, reason = _Recorder(self, runner), None
        try:
            recorder.run(watch)
        except _FAILURES as error:
            reason = str(error)
        ended = "failed" if reason is not None else str(runner.stop_reason)
        if ended == "diverged":
            reason = f"It diverged: {algorithm.advice}."
        return Curve(contender, recorder.points, len(runner.history), ended, reason)

    def _runner(self, algorithm: Algorithm, max_rounds: int | None = None) -> Runner:
        settings = replace(self.run.training.settings, algorithm=algorithm)
        if max_rounds is not None:
            settings = replace(settings, max_rounds=max_rounds)
        layout, blocks = self.run.training.federation.layout, self.run.blocks
        return train_in_process(
            settings, layout, blocks, self.participation, self.secrecy
        ).runner

    def _warm_up(self, algorithm: Algorithm) -> None:
        """Compile and start whatever a round needs, before it is timed."""
        with suppress(*_FAILURES):  # the timed training reports the reason
            self._runner(algorithm, max_rounds=1).finish()


class _Recorder:
    """Turns the rounds of a training into points."""

    def __init__(self, arena: Arena, runner: Runner) -> None:
        self._arena, self._runner = arena, runner
        self._clock = Stopwatch(runner.driver)
        self._spent = Spent()
        self.points: list[CurvePoint] = []

    def run(self, watch: RoundWatcher) -> None:
        """Run all rounds; note the start and every round that was measured."""
        runner = self._runner
        runner.driver = self._clock
        runner.start()
        self._note_cost()
        self._note_point(0, 0)
        for report in runner.rounds():
            self._note_cost()
            watch(report)
            if report.measurement is not None:
                self._note_point(report.round_number, len(report.participants))

    def _note_cost(self) -> None:
        """Add the cost of the first conversation; the next one is measuring."""
        training = self._clock.take_costs()[0]
        self._spent = self._spent.plus(training, self._arena.latency)

    def _note_point(self, round_number: int, n_participants: int) -> None:
        measurement = self._runner.measurement
        assert measurement is not None  # noqa: S101  # it has just been made
        relative_loss = self._arena.optimum.relative_loss(measurement.primal)
        point = CurvePoint(
            round_number,
            measurement,
            relative_loss,
            self._score(),
            self._spent,
            n_participants,
        )
        self.points.append(point)

    def _score(self) -> float | None:
        """Validate the model last measured; its release is not counted."""
        validation = self._arena.validation
        if validation is None:
            return None
        weights = self._clock.run(self._runner.server.release(), Traffic())
        self._clock.take_costs()
        return validation.score(weights)
