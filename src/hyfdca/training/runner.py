"""Training rounds as an iterator; the caller drives it.

The runner is given its collaborators: who takes part (``Members``), what survives a
crash (``Checkpoints``), when to stop (``StopRule``) and what carries messages
(``Driver``). It knows no algorithm: all it calls is the server half's interface.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from hyfdca.algorithms.registry import Choice
from hyfdca.arrays import FloatArray
from hyfdca.errors import StudyError
from hyfdca.federation.algorithm import ChecksConsistency, ServerHalf
from hyfdca.federation.evaluation.confirmation import confirm
from hyfdca.federation.grids import DivergenceError
from hyfdca.federation.path import HasPath
from hyfdca.federation.server import Federation, Point
from hyfdca.holdings.participation import Participation
from hyfdca.maths.objective import Measurement
from hyfdca.model.file import StopReason
from hyfdca.protocol.server_session import BadReplyError, ClientsFailedError
from hyfdca.runtime.driver import Driver, Traffic
from hyfdca.training.reports import RoundReport, cost_of_measuring, objectives
from hyfdca.training.settings import TrainingSettings
from hyfdca.training.stopping import Interruption, Progress, reason_to_stop

# Certificates include rounding, so a gap below zero cannot come from a table.
_BELOW_ZERO = -1e-9
_FAR = 1e6  # times the loss of a model of zeros

Failure = ClientsFailedError | BadReplyError
T = TypeVar("T")


class RestoredError(Exception):
    """Everybody has returned to an earlier round, from which the training continues.

    Anything under way belongs to a round that is run again.
    """


class Members(Protocol):
    """The participants of each round.

    Methods that wait for clients raise ``RestoredError`` if one of them made everybody
    return to an earlier round.
    """

    def of_round(self, round_number: int) -> tuple[int, ...]:
        """Return the clients of a round, waiting for a quorum if necessary."""
        ...

    def can_measure(self, is_last: bool) -> bool:
        """Return whether all clients needed for measuring are present."""
        ...

    def are_all_present(self) -> bool:
        """Return whether every client is present."""
        ...

    def wait_for_all(self, because: str) -> None:
        """Wait until every client is present."""
        ...


class Validator(Protocol):
    """Measures the model of a round on rows that were set aside."""

    def is_due(self, round_number: int) -> bool:
        """Return whether a measurement is due after this round."""
        ...

    def measure(
        self, round_number: int, point: Point, traffic: Traffic
    ) -> dict[str, float]:
        """Return the round's record about these rows."""
        ...


class Checkpoints(Protocol):
    """What survives drop-outs and crashes."""

    def begin_round(self) -> None:
        """Prepare for a round."""
        ...

    def end_round(self, participants: tuple[int, ...]) -> None:
        """Receive the exchanges of a round."""
        ...

    def commit(self, is_last: bool) -> None:
        """Keep a round for good.

        Raises
        ------
        RestoredError
            If an earlier round was restored after that.
        """
        ...

    def announce_end(self) -> None:
        """Say why the training is over, before its model is released."""
        ...

    def recover(self, failure: Failure) -> None:
        """Return to the last round kept, or raise the failure."""
        ...


@dataclass(frozen=True)
class DrawnMembers:
    """Clients that are all present; participation determines who is drawn."""

    participation: Participation
    n_clients: int

    def of_round(self, round_number: int) -> tuple[int, ...]:
        """Return those drawn for a round."""
        drawn = tuple(self.participation.of_round(round_number))
        if drawn and not 0 <= min(drawn) <= max(drawn) < self.n_clients:
            raise ValueError(
                f"Round {round_number} names others than the {self.n_clients} clients."
            )
        return drawn

    def can_measure(self, is_last: bool) -> bool:
        """Return true: everybody is present."""
        return True

    def are_all_present(self) -> bool:
        """Return true: everybody is present."""
        return True

    def wait_for_all(self, because: str) -> None:
        """Return at once."""


class NoCheckpoints:
    """Keeps nothing: a failure ends the training."""

    def begin_round(self) -> None:
        """Do nothing."""

    def end_round(self, participants: tuple[int, ...]) -> None:
        """Do nothing."""

    def commit(self, is_last: bool) -> None:
        """Do nothing."""

    def announce_end(self) -> None:
        """Do nothing."""

    def recover(self, failure: Failure) -> None:
        """Raise the failure."""
        raise failure


class Runner:
    """Runs the rounds of one training.

    Parameters
    ----------
    choice : Choice
        The algorithm, and why it was chosen.
    driver : Driver
        Carries the server's requests to the clients of this training.
    members : Members
    checkpoints : Checkpoints, optional
        By default nothing is kept.
    progress : Progress, optional
        The progress that checkpoints share with the runner.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        choice: Choice,
        federation: Federation,
        server: ServerHalf,
        driver: Driver,
        members: Members,
    ) -> None:
        self.settings, self.algorithm, self.federation = settings, choice, federation
        self.server, self.driver, self.members = server, driver, members
        self.checkpoints: Checkpoints = NoCheckpoints()
        self.progress = Progress()
        self.stop_reason: StopReason | None = None
        self.release_traffic = Traffic()
        self.set_up_seconds: float | None = None  # if the set-up was not replayed
        self.release_seconds = 0.0
        # Whether P is measured again at the released weights. Where one person has all
        # data in one place, there is nobody to distrust.
        self.confirms = False
        self.validator: Validator | None = None  # where the study has curves
        self.interruption = Interruption()
        self._rules = [*settings.stop_rules(), self.interruption]

    @property
    def history(self) -> list[dict[str, Any]]:
        """One record per round."""
        return self.progress.history

    @property
    def measurement(self) -> Measurement | None:
        """P and D as last measured."""
        return self.progress.measurement

    @property
    def certificate(self) -> Measurement | None:
        """P and D of the model: on a path, of the one that was chosen."""
        if isinstance(self.server, HasPath):
            return self.server.chosen_measurement()
        return self.measurement

    @property
    def released_l2(self) -> float:
        """λ of the model: on a path, the one that was chosen."""
        if isinstance(self.server, HasPath):
            return next(row.l2 for row in self.server.table() if row.is_chosen)
        return self.settings.l2_strength

    def sealed_with(self) -> dict[str, str]:
        """Return the scheme of each kind of vector, as picked by bytes."""
        picks = self.federation.vectors.picks
        return {kind: pick.text for kind, pick in picks.items()}

    def rounds(self) -> Iterator[RoundReport]:
        """Train until a rule says stop.

        A caller that stops listening may ask again; the rounds then continue.
        """
        if self.measurement is None:
            self.start()
        try:
            while (reason := reason_to_stop(self._rules, self.progress)) is None:
                if (report := self._committed_round()) is not None:
                    yield report
            if reason == "interrupted":
                self.checkpoints.commit(is_last=True)  # perhaps requested since
                self._measure_last()
        except DivergenceError:
            self.stop_reason = "diverged"
            return
        is_diverged = reason != "tolerance" and self.progress.is_diverging
        self.stop_reason = "diverged" if is_diverged else reason

    def _committed_round(self) -> RoundReport | None:
        """Run one round; None if it must be repeated, or an earlier one too."""
        try:
            report = self._round(self.progress.n_rounds + 1)
            self._check_consistency()
            self.progress.history.append(report.as_record())
            self.checkpoints.commit(self._is_last())
        except RestoredError:
            return None
        except (ClientsFailedError, BadReplyError) as failure:
            self.checkpoints.recover(failure)
            return None
        return report

    def _check_consistency(self) -> None:
        """Have a run end that cannot succeed, because clients contradict themselves."""
        gap = math.inf if self.measurement is None else self.measurement.relative_gap
        is_contradiction = gap < _BELOW_ZERO
        is_good = gap <= self.settings.tolerance and not is_contradiction
        if self.confirms and isinstance(self.server, ChecksConsistency) and not is_good:
            self.server.check_consistency(is_over=is_contradiction)

    def _measure_last(self) -> None:
        """Measure the last round if it was not: the model is the one last measured.

        The round was committed earlier, so a resumed training does not know of this
        measurement and equals an undisturbed one.
        """
        if not self.history or not math.isnan(self.history[-1]["primal"]):
            return
        traffic = Traffic()
        try:
            self._measure(self.driver, traffic)
        except BadReplyError as failure:
            if failure.is_final:
                self.checkpoints.recover(failure)  # raises it in words for users
            raise
        self.history[-1].update(objectives(self.measurement))
        self.history[-1].update(cost_of_measuring(traffic))

    def _is_last(self) -> bool:
        return reason_to_stop(self._rules, self.progress) is not None

    def finish(self) -> FloatArray:
        """Run the rounds that are left and return the weights."""
        if self.stop_reason is None:
            for _ in self.rounds():
                pass
        return self.release()

    def release(self) -> FloatArray:
        """Return the weights last measured, (n_features, n_outputs), bias last."""
        return self.conclude(lambda weights: weights)

    def conclude(self, then: Callable[[FloatArray], T]) -> T:
        """Release the weights, and do whatever else needs all clients.

        If a client fails, both are repeated once it is back. If rounds were lost by
        then, they are run again first.
        """
        n_rounds = self.progress.n_rounds
        while True:
            try:
                self.members.wait_for_all("the model consists of everybody's parts")
                if self.progress.n_rounds < n_rounds and self.stop_reason is not None:
                    n_rounds = self._train_again()
                    continue
                self.checkpoints.announce_end()
                return then(self._released())
            except RestoredError:
                continue
            except (ClientsFailedError, BadReplyError) as failure:
                self.checkpoints.recover(failure)

    def _train_again(self) -> int:
        """Run the rounds after an earlier one that was restored; return their number.

        Clients that have released the model release no other one. So everybody who
        took part should be present again.
        """
        self.stop_reason = None
        for _ in self.rounds():
            pass
        return self.progress.n_rounds

    def _released(self) -> FloatArray:
        started = time.perf_counter()
        weights = self.driver.run(self.server.release(), self.release_traffic)
        if self.confirms:
            self._confirm(weights)
        self.release_seconds += time.perf_counter() - started
        return weights

    def _confirm(self, weights: FloatArray) -> None:
        """Measure P at the released weights, and compare it.

        A run that diverged has no certificate to compare with, nor need its losses
        fit a grid.
        """
        is_diverged = self.stop_reason == "diverged"
        measured = self.certificate
        assert measured is not None  # noqa: S101  # there is a model
        certified = math.inf if is_diverged else measured.primal
        try:
            conversation = confirm(
                self.federation, weights, certified, self.released_l2
            )
            self.driver.run(conversation, self.release_traffic)
        except DivergenceError:
            if not is_diverged:
                raise

    def start(self, driver: Driver | None = None) -> None:
        """Exchange what every round needs, and measure the start.

        Parameters
        ----------
        driver : Driver, optional
            Used instead of that of the rounds, such as one that writes a journal.
        """
        driver = driver or self.driver
        traffic, started = self.progress.set_up_traffic, time.perf_counter()
        try:
            driver.run(self.server.set_up(), traffic)
            self._measure(driver, traffic)
        except DivergenceError as error:
            raise self.federation.start_error(error) from None
        self.set_up_seconds = time.perf_counter() - started
        assert self.measurement is not None  # noqa: S101  # just made
        self.progress.start = self.measurement.primal

    def _round(self, round_number: int) -> RoundReport:
        participants = self.members.of_round(round_number)
        traffic, measuring = Traffic(), Traffic()
        self.checkpoints.begin_round()
        started = time.perf_counter()
        self.driver.run(self.server.round(participants), traffic)
        seconds = time.perf_counter() - started
        is_last = self._ends_with(round_number, seconds)
        is_due = is_last or round_number % self.settings.measure_every == 0
        is_measured = is_due and self.members.can_measure(is_last)
        if is_measured:
            self._measure(self.driver, measuring)
        self.progress.seconds += time.perf_counter() - started
        self.checkpoints.end_round(participants)
        measurement = self.measurement if is_measured else None
        validation = self._validated(round_number, measurement, measuring)
        return RoundReport(
            round_number,
            participants,
            seconds,
            traffic,
            measuring,
            measurement,
            validation,
        )

    def _validated(
        self, round_number: int, measured: Measurement | None, traffic: Traffic
    ) -> dict[str, float] | None:
        """Measure the model on rows set aside; None where that is not due.

        It needs everybody. The scores of a diverging model may have any size.
        """
        if self.validator is None or measured is None:
            return None
        is_far = not measured.primal <= _FAR * self.progress.start
        is_due = self.validator.is_due(round_number)
        if not is_due or is_far or not self.members.are_all_present():
            return None
        point = self.server.released_point()
        return self.validator.measure(round_number, point, traffic)

    def _ends_with(self, round_number: int, seconds: float) -> bool:
        """Return whether a limit makes this the last round, which is measured."""
        settings = self.settings
        if round_number == settings.max_rounds:
            return True
        spent = self.progress.seconds + seconds
        return settings.max_seconds is not None and spent >= settings.max_seconds

    def _measure(self, driver: Driver, traffic: Traffic) -> None:
        measurement = driver.run(self.server.measure(), traffic)
        self.progress.measurement = measurement
        if measurement.relative_gap < _BELOW_ZERO:
            self._check_consistency()  # which may say who is the cause
            raise StudyError(
                "The lower bound is above the loss, which no table can cause: an "
                "organisation has other rows or duals than it began with; restart."
            )


def make_runner(
    settings: TrainingSettings,
    choice: Choice,
    federation: Federation,
    driver: Driver,
    members: Members,
) -> Runner:
    """Assemble a training: the only place where its server half is made."""
    server = choice.algorithm.server(federation)
    return Runner(settings, choice, federation, server, driver, members)
