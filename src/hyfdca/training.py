"""A training run in one process: rounds one by one, measured, until it may stop."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import scipy.sparse as sp

from hyfdca.algorithms.bundle import BundleSettings
from hyfdca.algorithms.certificate import Certificate
from hyfdca.algorithms.coordinator import DivergenceError
from hyfdca.algorithms.draws import HyfdcaSettings
from hyfdca.algorithms.problem import Block, Problem, Profile
from hyfdca.algorithms.table import (
    ALGORITHMS,
    AlgorithmName,
    Parties,
    Settings,
    choose_algorithm,
)
from hyfdca.crypto.schemes import Encryption
from hyfdca.layout import Layout, append_bias
from hyfdca.losses import FloatArray, Loss
from hyfdca.participation import Participation
from hyfdca.partition import Partition
from hyfdca.protocol.client import ClientSession
from hyfdca.protocol.codec import TOKEN_BYTES
from hyfdca.protocol.server import ServerSession
from hyfdca.runtimes.driver import Traffic
from hyfdca.runtimes.inprocess import InProcess
from hyfdca.runtimes.machine import n_cores
from hyfdca.secrecy import Secrecy, fresh_secrecy

StopReason = Literal["tolerance", "round limit", "diverged"]


_MUCH = 1_000_000  # cells, from which on threads are worth their switching

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


@dataclass(frozen=True)
class RoundReport:
    """What a round did and cost; measuring is counted apart and not timed."""

    round_number: int
    participants: tuple[int, ...]
    seconds: float
    traffic: Traffic
    measuring: Traffic
    certificate: Certificate | None

    def as_record(self) -> dict[str, Any]:
        """Return the report as one flat record of a history."""
        certificate = self.certificate or Certificate(math.nan, math.nan)
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


@dataclass(repr=False)
class Training:
    """A run that whoever iterates over it drives.

    Parameters
    ----------
    blocks : sequence of Block
        The clients' data, by rank.
    secrecy : Secrecy, optional
        The parties' keys; by default fresh ones.
    """

    settings: TrainingSettings
    layout: Layout
    blocks: Sequence[Block]
    participation: Participation
    secrecy: Secrecy | None = None
    certificate: Certificate | None = None
    stop_reason: StopReason | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    set_up_traffic: Traffic = field(default_factory=Traffic)
    release_traffic: Traffic = field(default_factory=Traffic)

    def __post_init__(self) -> None:
        settings = self.settings
        problem = Problem(
            settings.loss,
            settings.l2_strength,
            self.layout.samples.n_items,
            _n_outputs(self.blocks),
            settings.profile,
            settings.hyfdca.min_rows,
        )
        token = _token(settings, self.layout)
        is_complete = self.participation.is_complete
        secrecy = self.secrecy or fresh_secrecy(settings.encryption, len(self.blocks))
        session = ServerSession(token)
        parties = Parties(problem, self.layout, secrecy.adders(), session, is_complete)
        own = Settings(settings.hyfdca, settings.bundle)
        self.algorithm = choose_algorithm(
            settings.algorithm, own, parties, settings.tolerance
        )
        algorithm = ALGORITHMS[self.algorithm.name]
        self.server = algorithm.server(own, parties)
        client = algorithm.client(own, is_complete)
        self.clients = [
            client(problem, block, secrecy.sealers(k))
            for k, block in enumerate(self.blocks)
        ]
        self.driver = InProcess(
            {
                k: ClientSession(token, client.phases)
                for k, client in enumerate(self.clients)
            },
            _n_threads(self.blocks),
        )

    def sealed_with(self) -> dict[str, str]:
        """Return the scheme of each kind of vector, as picked by bytes."""
        picks = self.server.coordinator.vaults.picks
        return {kind: pick.text for kind, pick in picks.items()}

    def rounds(self) -> Iterator[RoundReport]:
        """Train until the gap is small enough or the limit is reached.

        Whoever stops listening may ask again and goes on where it was.
        """
        if self.certificate is None:
            self.driver.run(self.server.set_up(), self.set_up_traffic)
            self._measure(self.set_up_traffic)
        while not self._is_reached():
            if len(self.history) == self.settings.max_rounds:
                self.stop_reason = "round limit"
                return
            try:
                report = self._round(len(self.history) + 1)
            except DivergenceError:
                self.stop_reason = "diverged"
                return
            self.history.append(report.as_record())
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

    def _round(self, round_number: int) -> RoundReport:
        n_clients = self.layout.n_clients
        participants = tuple(self.participation.of_round(round_number))
        if participants and not 0 <= min(participants) <= max(participants) < n_clients:
            raise ValueError(
                f"Round {round_number} names others than the {n_clients} clients."
            )
        traffic, measuring = Traffic(), Traffic()
        started = time.perf_counter()
        self.driver.run(self.server.round(participants), traffic)
        seconds = time.perf_counter() - started
        is_last = round_number == self.settings.max_rounds
        is_measured = is_last or round_number % self.settings.measure_every == 0
        if is_measured:
            self._measure(measuring)
        certificate = self.certificate if is_measured else None
        return RoundReport(
            round_number, participants, seconds, traffic, measuring, certificate
        )

    def _measure(self, traffic: Traffic) -> None:
        self.certificate = self.driver.run(self.server.certify(), traffic)

    def _is_reached(self) -> bool:
        gap = self.certificate.relative_gap if self.certificate else math.inf
        return gap <= self.settings.tolerance


def split_blocks(
    X: sp.csr_array,
    labels: FloatArray,
    partition: Partition,
    layout: Layout,
    bias: float | None = None,
    sample_weights: FloatArray | None = None,
) -> list[Block]:
    """Return what each client holds of a table that is all in one place."""
    blocks = []
    for client, part in enumerate(partition.split(X)):
        rows, counted = layout.samples.items[client], layout.counts_samples(client)
        blocks.append(
            Block(
                X=part if bias is None else append_bias(part, counted, bias),
                labels=labels[rows] if layout.labelled[client] else None,
                counts_sample=counted,
                counts_feature=layout.counts_features(client),
                sample_weights=None if sample_weights is None else sample_weights[rows],
            )
        )
    return blocks


def _n_threads(blocks: Sequence[Block]) -> int:
    """Return how many clients work at a time: one where there is little to do."""
    if sum(block.X.nnz for block in blocks) < _MUCH:
        return 1
    return min(n_cores(), len(blocks))


def _n_outputs(blocks: Sequence[Block]) -> int:
    return next(int(b.labels.shape[1]) for b in blocks if b.labels is not None)


def _token(settings: TrainingSettings, layout: Layout) -> bytes:
    """Return what tells messages of this study from others."""
    facts = repr((settings, layout.samples.n_items, layout.features.n_items))
    return hashlib.blake2b(facts.encode(), digest_size=TOKEN_BYTES).digest()
