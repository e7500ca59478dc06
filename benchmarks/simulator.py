"""A simulated round of thousands of clients, beside a NumPy loop over the clients.

MNIST in 5,000 sample-quadrant clients with 90 % present, covtype and news20 dealt to
12x12 clients, with the paper's inner iterations. A round is timed without measuring P.
The loop is how one would write HyFDCA client by client; it ends with the same duals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks import problems
from benchmarks.problems import Table
from hyfdca.algorithms.hyfdca.draws import DRAW, local_steps
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import Participation, random_fraction
from hyfdca.holdings.partition import Partition, deal_nonzeros, image_quadrants
from hyfdca.maths.draws import distinct_rows, round_key
from hyfdca.maths.losses import make_loss
from hyfdca.reproduction.paper import DATA_SETS, HYPERPARAMETERS, DataSetName, Setting
from hyfdca.training.bulk.dual_ascent import BulkDualAscent
from hyfdca.training.bulk.stacked import stacked

NEEDS = ("mnist", "covtype", "news20")
N_ROUNDS, N_LOOPED, FRACTION = 50, 2, 0.9
LOADERS: dict[DataSetName, Callable[[Path | None], Table]] = {
    "mnist": problems.mnist,
    "covtype": problems.covtype,
    "news20": problems.news20,
}


def run(folder: Path | None) -> None:
    """Print the time of a round of each set, and how much faster than the loop."""
    for name, load in LOADERS.items():
        data, clients = DATA_SETS[name], DATA_SETS[name].clients[-1]
        table = load(folder)
        split = _split(table, clients)
        chosen = HYPERPARAMETERS[Setting(name, clients, FRACTION)]["hyfdca"]
        settings = Hyfdca(step="paper", refresh="drawn", iic=chosen.iic)
        present = random_fraction(split.n_clients, FRACTION, seed=0)
        blocks = stacked(table.X, table.y[:, 0], split, by="samples")
        bulk = BulkDualAscent(blocks, make_loss("hinge"), data.l2, settings, present)
        bulk.round()  # compiles
        seconds = _seconds(bulk.round, N_ROUNDS)
        print(f"{name}, {split.n_clients} clients: {1e3 * seconds:.1f} ms a round")
        if name == "mnist":
            loop = Loop(table, split, data.l2, settings, present)
            looped = _seconds(loop.round, N_LOOPED)
            again = BulkDualAscent(
                blocks, make_loss("hinge"), data.l2, settings, present
            )
            for _ in range(N_LOOPED):
                again.round()
            difference = float(np.abs(again.duals - loop.duals).max())
            print(
                f"  a loop over clients: {looped:.2f} s, the same to {difference:.0e}"
            )
            print(f"  ratio {looped / seconds:.0f} (at least 50)")


def _split(table: Table, clients: int | tuple[int, int]) -> Partition:
    if isinstance(clients, int):
        return image_quadrants(len(table.y), clients // 4, seed=0)
    return deal_nonzeros(table.X, clients, seed=0)


def _seconds(work: Callable[[], object], repetitions: int) -> float:
    started = time.perf_counter()
    for _ in range(repetitions):
        work()
    return (time.perf_counter() - started) / repetitions


class Client:
    """One client: its block, what it knows, and what it sent last."""

    def __init__(self, X: sp.csr_array, samples: IntArray, features: IntArray) -> None:
        self.X, self.samples, self.features = X.toarray(), samples, features
        self.duals, self.margins = np.zeros(len(samples)), np.zeros(len(samples))
        self.share = np.zeros(len(features))

    def rows_of(self, samples: IntArray) -> IntArray:
        """Return the client's rows of those samples that it holds."""
        return np.flatnonzero(np.isin(self.samples, samples, assume_unique=True))


class Loop:
    """HyFDCA as the paper's study runs it, one client after another, in NumPy."""

    def __init__(
        self,
        table: Table,
        split: Partition,
        l2: float,
        settings: Hyfdca,
        participation: Participation,
    ) -> None:
        holdings = zip(split.split(table.X), split.holdings, strict=True)
        self.clients = [Client(X, held.samples, held.features) for X, held in holdings]
        layout = layout_of(split)
        numbers = range(split.n_clients)
        self._steps = [local_steps(settings, layout, k) for k in numbers]
        self._participation, self._l2_scale = participation, l2 * split.n_samples
        self._labels = table.y[:, 0]
        self._norms = np.asarray(table.X.multiply(table.X).sum(axis=1)).reshape(-1)
        self.duals = np.zeros(split.n_samples)
        self._shares = np.zeros(split.n_features)
        self._margins = np.zeros(split.n_samples)
        self._number = 0

    def round(self) -> None:
        """Run one outer iteration."""
        self._number += 1
        active = self._participation.of_round(self._number)
        self._show(active)
        key = round_key(0, DRAW, self._number)
        drawn = [self._drawn(key, k) for k in active]
        touched = np.unique(np.concatenate(drawn))
        weights = self._shares / self._l2_scale
        present = np.zeros(len(self.duals))
        for k in active:
            client = self.clients[k]
            present[client.samples] += 1
            rows = client.rows_of(touched)
            margins = client.X[rows] @ weights[client.features]
            self._margins[client.samples[rows]] += margins - client.margins[rows]
            client.margins[rows] = margins
        for samples, change in [(s, self._changes(s, present)) for s in drawn]:
            self.duals[samples] += change
        self._show(active)

    def _drawn(self, key: np.uint64, k: int) -> IntArray:
        samples = self.clients[k].samples
        return samples[distinct_rows(key, k, len(samples), self._steps[k])]

    def _changes(self, samples: IntArray, present: FloatArray) -> FloatArray:
        """Return the changes of the hinge's duals, divided by the holders present."""
        labels, old = self._labels[samples], self.duals[samples]
        violation = 1.0 - labels * self._margins[samples]
        step = self._l2_scale * violation / np.maximum(self._norms[samples], 1e-300)
        new = labels * np.clip(labels * old + step, 0.0, 1.0)
        return np.asarray((new - old) / present[samples])

    def _show(self, active: Sequence[int]) -> None:
        """Let clients take the duals they missed, and send their shares."""
        for k in active:
            client = self.clients[k]
            known = self.duals[client.samples]
            if np.any(known != client.duals):
                share = client.X.T @ known
                self._shares[client.features] += share - client.share
                client.duals, client.share = known, share
