"""Makers of small consortia for tests, and a plain Algorithm 1 to compare with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from hyfdca.algorithms.registry import make_algorithm
from hyfdca.crypto.keys.study_keys import StudyKeys
from hyfdca.crypto.schemes.fixedpoint import Grid, grid_for
from hyfdca.crypto.schemes.registry import Encryption, public_parameters
from hyfdca.federation.algorithm import Algorithm
from hyfdca.federation.client import Party
from hyfdca.federation.path import Path
from hyfdca.federation.sealing.secrets import Secrecy
from hyfdca.federation.server import Federation
from hyfdca.holdings.block import Block, split_blocks, with_folds, with_offsets
from hyfdca.holdings.layout import Layout, layout_of
from hyfdca.holdings.participation import Participation, complete
from hyfdca.holdings.partition import Partition, from_holdings, grid
from hyfdca.maths.losses import Loss, make_loss
from hyfdca.maths.objective import Measurement, Objective
from hyfdca.runtime.driver import Traffic
from hyfdca.training.in_process import LocalTraining, train_in_process
from hyfdca.training.reports import RoundReport
from hyfdca.training.runner import Runner
from hyfdca.training.settings import TrainingSettings

PROFILES = ["open", "sealed"]


def classification(n_samples=120, n_features=24, seed=0, noise=0.3):
    """Return unit rows and labels -1 and 1 of a noisy linear problem."""
    random = np.random.Generator(np.random.PCG64(seed))
    X = random.standard_normal((n_samples, n_features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    direction = random.standard_normal(n_features)
    scores = X @ direction + noise * random.standard_normal(n_samples)
    return sp.csr_array(X), np.where(scores > 0, 1.0, -1.0)[:, None]


def table_for(loss, n_samples=60, n_features=8, seed=0):
    """Return rows and noisy labels of the kind that a loss takes."""
    X, y = classification(n_samples, n_features, seed, noise=0.5)
    if make_loss(loss).task == "classification":
        return X, y
    random = np.random.Generator(np.random.PCG64(seed + 1))
    scores = X @ random.standard_normal((n_features, 1))
    return X, scores + 0.3 * random.standard_normal((n_samples, 1))


def partition_of(name, n_samples=60, n_features=8, seed=0) -> Partition:
    """Return a grid, such as "3x3", or four clients that overlap."""
    if name == "overlapping":
        a, b = n_samples // 3, 2 * n_samples // 3
        c, d = n_features // 3, 2 * n_features // 3
        return from_holdings(
            n_samples,
            n_features,
            [
                (range(b), range(d)),
                (range(a, n_samples), range(c, n_features)),
                (range(n_samples), range(d, n_features)),
                (range(b, n_samples), range(d)),
            ],
        )
    rows, columns = map(int, name.split("x"))
    return grid(n_samples, n_features, (rows, columns), seed)


@dataclass
class Run:
    """A training in this process, with all its parties within reach of a test."""

    settings: TrainingSettings
    layout: Layout
    blocks: list[Block]
    participation: Participation
    training: LocalTraining

    @property
    def runner(self) -> Runner:
        """What runs its rounds."""
        return self.training.runner

    @property
    def federation(self) -> Federation:
        """The server's side."""
        return self.runner.federation

    @property
    def server(self) -> Any:
        """The server's half of the algorithm."""
        return self.runner.server

    @property
    def clients(self) -> list[Any]:
        """The clients' halves of the algorithm."""
        return self.training.clients

    @property
    def parties(self) -> list[Party]:
        """What the clients' halves are made of."""
        return self.training.parties

    @property
    def driver(self) -> Any:
        """What carries messages."""
        return self.runner.driver

    @property
    def history(self) -> list[dict[str, Any]]:
        """One record per round."""
        return self.runner.history

    @property
    def measurement(self) -> Measurement | None:
        """P and D as last measured."""
        return self.runner.measurement

    @property
    def stop_reason(self) -> str | None:
        """Why it stopped."""
        return self.runner.stop_reason

    def rounds(self) -> Iterator[RoundReport]:
        """Run rounds one by one."""
        return self.runner.rounds()

    def finish(self) -> np.ndarray:
        """Run all rounds and return the weights."""
        return self.runner.finish()

    def release(self) -> np.ndarray:
        """Return the weights last measured."""
        return self.runner.release()

    def again(self) -> Run:
        """Return the same training from its start."""
        return start(self.settings, self.layout, self.blocks, self.participation)


def start(settings, layout, blocks, participation, secrecy=None) -> Run:
    """Return a training that is ready for its first round."""
    training = train_in_process(settings, layout, blocks, participation, secrecy)
    return Run(settings, layout, blocks, participation, training)


def make_training(
    X: sp.csr_array,
    labels: np.ndarray,
    partition: Partition,
    *,
    loss: str | Loss = "hinge",
    l2: float = 0.05,
    participation: Participation | None = None,
    labelled: Sequence[bool] | None = None,
    bias: float | None = None,
    profile: str = "sealed",
    max_rounds: int = 100,
    tolerance: float = 0.0,
    measure_every: int = 1,
    blocks=None,
    algorithm: str | Algorithm = "hyfdca",
    encryption: Encryption | None = None,
    keys: dict[str, bytes] | None = None,
    seed: int = 0,
    free_intercept: bool = False,
    offset: float | None = None,
    path: Path | None = None,
    folds: np.ndarray | None = None,
    **own: object,
) -> Run:
    """Return a run on a table that is split as the partition says.

    ``own`` are settings of the algorithm; HyFDCA's step is the printed one.
    """
    bias = None if free_intercept else bias
    layout = layout_of(partition, labelled, bias is not None)
    if isinstance(algorithm, str):
        printed = {"step": "paper"} if algorithm == "hyfdca" else {}
        algorithm = make_algorithm(algorithm, {**printed, **own})
    settings = TrainingSettings(
        make_loss(loss) if isinstance(loss, str) else loss,
        l2,
        algorithm,
        profile,
        max_rounds,
        tolerance,
        measure_every,
        encryption=encryption or Encryption(),
        seed=seed,
        free_intercept=free_intercept,
        has_offsets=offset is not None,
        path=path,
    )
    blocks = blocks or split_blocks(X, labels, partition, layout, bias)
    if offset is not None:
        blocks = with_offsets(blocks, layout, np.full(labels.shape, offset))
    if folds is not None:
        blocks = with_folds(blocks, layout, folds)
    secrecy = None
    if keys is not None:
        secrecy = _secrecy(settings.encryption, keys, partition.n_clients)
    participation = participation or complete(partition.n_clients)
    return start(settings, layout, blocks, participation, secrecy)


def _secrecy(encryption: Encryption, keys: dict[str, bytes], n_clients: int) -> Secrecy:
    """Return what the parties of a study have of these keys of schemes."""
    shared = StudyKeys.generate(keys)
    return Secrecy(encryption, [shared] * n_clients, public_parameters(keys))


def bundle_run(X, y, partition, **given) -> Run:
    """Return a run of the bundle method."""
    return make_training(X, y, partition, algorithm="bundle", **given)


def alike_rows():
    """Return rows so much alike that the printed step blows up, and targets."""
    random = np.random.Generator(np.random.PCG64(0))
    X = sp.csr_array(1.0 + 0.01 * random.standard_normal((200, 4)))
    return X, random.standard_normal((200, 1))


def diverging_run(**settings: object) -> Run:
    """Return a run with the printed step on rows that are much alike."""
    X, y = alike_rows()
    return make_training(
        X,
        y,
        grid(200, 4, (2, 2), seed=0),
        loss="half_squared",
        l2=1e-4,
        max_rounds=3000,
        **settings,
    )


def set_up(training: Run) -> Run:
    """Run the set-up exchanges only."""
    training.driver.run(training.server.set_up(), Traffic())
    return training


def run_round(training: Run, participants: Sequence[int] | None = None) -> Traffic:
    """Run one round without measuring and return what it cost."""
    traffic = Traffic()
    who = participants if participants is not None else range(training.layout.n_clients)
    training.driver.run(training.server.round(list(who)), traffic)
    return traffic


def measure(training: Run) -> Measurement:
    """Return P and D of the present state."""
    return training.driver.run(training.server.measure(), Traffic())


def searched_primals(training: Run) -> list[float]:
    """Return P as each search of a bundle method has found it, waits left out."""
    at_zero = set_up(training.again())
    found = [
        measure(at_zero).primal,
        *(record["primal"] for record in training.history),
    ]
    return [new for old, new in pairwise(found) if new != old]


@contextmanager
def coarse_grids(lost_bits):
    """Put all vectors of rounds on grids coarser by ``lost_bits`` than usual."""

    def coarser(*given):
        grid = grid_for(*given)
        return Grid(grid.fraction_bits - lost_bits, grid.limit_bits)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hyfdca.federation.grids.grid_for", coarser)
        yield


def duals_of(training: Run) -> np.ndarray:
    """Return the duals as each sample's lowest-ranked holder has them."""
    samples = training.layout.samples
    duals = np.zeros((samples.n_items, training.clients[0].dual.duals.shape[1]))
    for client in reversed(range(len(training.clients))):
        duals[samples.items[client]] = training.clients[client].dual.duals
    return duals


def server_duals(training: Run) -> np.ndarray:
    """Return the duals that the server keeps, including those not yet sent."""
    samples = training.layout.samples
    duals = np.zeros((samples.n_items, training.clients[0].dual.duals.shape[1]))
    for client, party in enumerate(training.parties):
        sums = training.server.dual.duals.take(client, None)
        duals[samples.items[client]] = party.sealing.opened_samples("drawn duals", sums)
    return duals


@dataclass
class PlainAlgorithm:
    """Algorithm 1 with the errata, on plain arrays and one output.

    Written from the text of the paper, with none of the package's exchanges: caches
    of inner products and shares, returning clients, averaging over holders.
    """

    X: np.ndarray
    y: np.ndarray
    partition: Partition
    loss: Loss
    l2: float
    refresh: str = "drawn"
    divide_by: str = "active"
    factor: float = 1.0
    duals: np.ndarray = field(init=False)

    def __post_init__(self):
        """Start from zero duals and weights."""
        self.N = len(self.y)
        self.duals = np.zeros(self.N)
        holdings = self.partition.holdings
        self.blocks = [b.toarray() for b in self.partition.split(sp.csr_array(self.X))]
        self.local = [np.zeros(len(h.samples)) for h in holdings]
        self.inner = [np.zeros(len(h.samples)) for h in holdings]
        self.shares = [np.zeros(len(h.features)) for h in holdings]
        self.previous = set()
        self.curvatures = self.factor * (self.X**2).sum(axis=1) / (self.l2 * self.N)

    def weights(self):
        """Return w_0, the sum of the cached shares."""
        weights = np.zeros(self.X.shape[1])
        for holding, share in zip(self.partition.holdings, self.shares, strict=True):
            weights[holding.features] += share
        return weights / (self.l2 * self.N)

    def round(self, active, drawn, step=1.0):
        """Run one round; ``drawn`` maps a client to its positions, None for all."""
        self._aggregate([k for k in active if k not in self.previous])
        weights, holdings = self.weights(), self.partition.holdings
        positions = {
            k: np.arange(len(holdings[k].samples)) if rows is None else rows
            for k, rows in drawn.items()
        }
        union = np.unique(
            np.concatenate([holdings[k].samples[rows] for k, rows in positions.items()])
        )
        for k in active:
            fresh = self.blocks[k] @ weights[holdings[k].features]
            asked = np.isin(holdings[k].samples, union) | (self.refresh == "all")
            self.inner[k][asked] = fresh[asked]
        margins, holders = np.zeros(self.N), np.zeros(self.N)
        for k, holding in enumerate(holdings):
            margins[holding.samples] += self.inner[k]
            if k in active or self.divide_by == "all":
                holders[holding.samples] += 1
        before = self.duals.copy()
        for k, rows in positions.items():
            samples = holdings[k].samples[rows]
            change = self.loss.dual_step(
                before[samples],
                margins[samples],
                self.y[samples],
                self.curvatures[samples],
            )
            self.duals[samples] += step * change / holders[samples]
        self._aggregate(active)
        self.previous = set(active)

    def _aggregate(self, clients):
        for k in clients:
            self.local[k] = self.duals[self.partition.holdings[k].samples]
            self.shares[k] = self.blocks[k].T @ self.local[k]


def pooled(X, labels, loss="hinge", l2=0.05) -> Objective:
    """Return the problem on all the data in one place."""
    return Objective(sp.csr_array(X), labels, make_loss(loss), l2)
