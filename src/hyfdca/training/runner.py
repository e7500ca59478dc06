"""The server's rounds, one by one, measured, until they may stop."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from hyfdca.algorithms.bundle.server import BundleSettings
from hyfdca.algorithms.hyfdca.draws import HyfdcaSettings
from hyfdca.algorithms.registry import (
    ALGORITHMS,
    AlgorithmName,
    Choice,
    Parties,
    Settings,
    choose_algorithm,
)
from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.errors import StudyError
from hyfdca.federation.problem import Problem, Profile
from hyfdca.federation.server import DivergenceError
from hyfdca.holdings.participation import Participation
from hyfdca.maths.losses import Loss
from hyfdca.maths.objective import Measurement
from hyfdca.model.file import StopReason
from hyfdca.protocol.server_session import BadReplyError, ClientsFailedError
from hyfdca.runtime.driver import Driver, Traffic

# Certificates have rounding inside: a gap below zero is nobody's.
_BELOW_ZERO = -1e-9

# What to do about a run that stopped for another reason than its tolerance.
ADVICE: dict[str | None, str] = {
    "round limit": "raise max_rounds, scale the features or use a larger l2",
    "diverged": "use step='auto', or draw fewer samples a round",
}


@dataclass(frozen=True)
class TrainingSettings:
    """What is learnt and when to stop; documented at the estimators."""

    loss: Loss
    l2_strength: float
    hyfdca: HyfdcaSettings = field(default_factory=HyfdcaSettings)
    profile: Profile = "sealed"
    max_rounds: int = 1000
    tolerance: float = 1e-3
    measure_every: int = 1
    algorithm: AlgorithmName = "auto"
    bundle: BundleSettings = field(default_factory=BundleSettings)
    encryption: Encryption = field(default_factory=Encryption)

    @property
    def of_algorithms(self) -> Settings:
        """What the algorithms themselves are told."""
        return Settings(self.hyfdca, self.bundle)

    def problem(self, n_samples: int, n_outputs: int) -> Problem:
        """Return what both halves of an algorithm know of so many samples."""
        return Problem(
            self.loss,
            self.l2_strength,
            n_samples,
            n_outputs,
            self.profile,
            self.hyfdca.min_rows,
        )

    def choose(self, parties: Parties) -> Choice:
        """Return the algorithm for these parties, and why it is that one."""
        own = self.of_algorithms
        return choose_algorithm(self.algorithm, own, parties, self.tolerance)


@dataclass(frozen=True)
class RoundReport:
    """What a round did and cost; measuring is counted apart and not timed."""

    round_number: int
    participants: tuple[int, ...]
    seconds: float
    traffic: Traffic
    measuring: Traffic
    certificate: Measurement | None

    def as_record(self) -> dict[str, Any]:
        """Return the report as one flat record of a history."""
        certificate = self.certificate or Measurement(math.nan, math.nan)
        return {
            "round": self.round_number,
            "primal": certificate.primal,
            "dual": certificate.dual,
            "gap": certificate.gap,
            "relative_gap": certificate.relative_gap,
            "seconds": self.seconds,
            **asdict(self.traffic),
            **{f"measuring_{k}": v for k, v in asdict(self.measuring).items()},
            "participants": self.participants,
        }


class Rounds:
    """Rounds that whoever iterates over them drives.

    Parameters
    ----------
    parties : Parties
        The server's side: what is learnt, who holds what, what adds.
    driver : Driver
        Carries the server's requests to the clients of this training.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        parties: Parties,
        participation: Participation,
        driver: Driver,
    ) -> None:
        self.settings, self.layout = settings, parties.layout
        self.participation, self.driver = participation, driver
        self.algorithm = settings.choose(parties)
        algorithm = ALGORITHMS[self.algorithm.name]
        self.server = algorithm.server(settings.of_algorithms, parties)
        self.certificate: Measurement | None = None
        self.stop_reason: StopReason | None = None
        self.history: list[dict[str, Any]] = []
        self.set_up_traffic, self.release_traffic = Traffic(), Traffic()

    def sealed_with(self) -> dict[str, str]:
        """Return the scheme of each kind of vector, as picked by bytes."""
        picks = self.server.coordinator.vaults.picks
        return {kind: pick.text for kind, pick in picks.items()}

    def rounds(self) -> Iterator[RoundReport]:
        """Train until the gap is small enough or the limit is reached.

        Whoever stops listening may ask again and goes on where it was.
        """
        if self.certificate is None:
            self.start()
        while not self._is_reached():
            if len(self.history) == self.settings.max_rounds:
                self.stop_reason = "round limit"
                return
            try:
                report = self._round(len(self.history) + 1)
                self.history.append(report.as_record())
                self.commit()
            except DivergenceError:
                self.stop_reason = "diverged"
                return
            except (ClientsFailedError, BadReplyError) as failure:
                self.recover(failure)
                continue
            yield report
        self.stop_reason = "tolerance"

    def finish(self) -> FloatArray:
        """Run the rounds that are left and return the weights."""
        if self.stop_reason is None:
            for _ in self.rounds():
                pass
        return self.release()

    def release(self) -> FloatArray:
        """Return the weights last measured, (n_features, n_outputs), bias last."""
        return self.driver.run(self.server.release(), self.release_traffic)

    def start(self) -> None:
        """Exchange what every round needs, and measure the start."""
        self.driver.run(self.server.set_up(), self.set_up_traffic)
        self._measure(self.set_up_traffic)

    # What runs that can be resumed do otherwise

    def participants(self, round_number: int) -> tuple[int, ...]:
        """Return who takes part in a round."""
        n_clients = self.layout.n_clients
        drawn = tuple(self.participation.of_round(round_number))
        if drawn and not 0 <= min(drawn) <= max(drawn) < n_clients:
            raise ValueError(
                f"Round {round_number} names others than the {n_clients} clients."
            )
        return drawn

    def can_measure(self) -> bool:
        """Return whether everybody is there, which measuring needs."""
        return True

    def commit(self) -> None:
        """Take note that a round is over, for good."""

    def recover(self, failure: ClientsFailedError | BadReplyError) -> None:
        """Make up for a round that failed; nothing is kept here to go back to."""
        raise failure

    def _round(self, round_number: int) -> RoundReport:
        participants = self.participants(round_number)
        traffic, measuring = Traffic(), Traffic()
        started = time.perf_counter()
        self.driver.run(self.server.round(participants), traffic)
        seconds = time.perf_counter() - started
        is_last = round_number == self.settings.max_rounds
        is_due = is_last or round_number % self.settings.measure_every == 0
        is_measured = is_due and self.can_measure()
        if is_measured:
            self._measure(measuring)
        certificate = self.certificate if is_measured else None
        return RoundReport(
            round_number, participants, seconds, traffic, measuring, certificate
        )

    def _measure(self, traffic: Traffic) -> None:
        self.certificate = self.driver.run(self.server.certify(), traffic)
        if self.certificate.relative_gap < _BELOW_ZERO:
            raise StudyError(
                "The bound from below is above the loss, which no table can cause: an "
                "organisation has other rows or duals than it began with; begin again."
            )

    def _is_reached(self) -> bool:
        gap = self.certificate.relative_gap if self.certificate else math.inf
        return gap <= self.settings.tolerance
