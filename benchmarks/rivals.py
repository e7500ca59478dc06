"""HyFDCA, FedAvg and HyFEM on the paper's partitions, tuned by the same small budget.

Every method gets as many random draws of its settings, over the paper's ranges, and as
many rounds. The draw with the lowest final loss counts; final is the mean over the last
tenth of the measured rounds, since all three oscillate. All see the same rows and the
same participants in every round. HyFDCA takes the printed step, as in the paper's
study. A fifth of the rows is set aside for the accuracy. Hinge loss and the paper's λ;
losses are relative to the certified optimum of the pooled training rows.

The rows of all draws go to ``docs/comparison-rows.csv``, one per measured round of the
best draw of a method and one per other draw.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import problems
from benchmarks.problems import Problem, Table
from hyfdca.algorithms.fedavg import FedAvg
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.algorithms.hyfem import HyFem
from hyfdca.arrays import FloatArray
from hyfdca.data.splits import train_validation
from hyfdca.federation.algorithm import Algorithm
from hyfdca.holdings.block import Block, split_blocks
from hyfdca.holdings.layout import Layout, layout_of
from hyfdca.holdings.participation import random_fraction
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective, reference_optimum
from hyfdca.maths.seeds import stream
from hyfdca.training.in_process import train_in_process
from hyfdca.training.settings import TrainingSettings

NEEDS = ("mnist", "covtype", "news20")
ROUNDS = {problems.MNIST_5: 2_500, problems.COVTYPE_3: 2_000, problems.NEWS20: 500}
CASES = [(problem, share) for problem in ROUNDS for share in (0.5, 0.9)]
N_DRAWS, N_MEASURED, N_FINAL = 8, 50, 5
HELD_OUT, SEED = 0.2, 0
ROWS = Path(__file__).resolve().parents[1] / "docs" / "comparison-rows.csv"

Random = np.random.Generator


def _iic(random: Random, n_samples: int, n_clients: int, most: float) -> float:
    """Return an inner iterations constant, from one step per client on."""
    return _log_uniform(random, n_clients / n_samples, most)


def _log_uniform(random: Random, low: float, high: float) -> float:
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def _hyfdca(random: Random, n_samples: int, n_clients: int) -> Algorithm:
    return Hyfdca(iic=_iic(random, n_samples, n_clients, 1.0), step="paper")


def _rates(random: Random, n_samples: int, n_clients: int) -> dict[str, Any]:
    return {
        "iic": _iic(random, n_samples, n_clients, 5.0),
        "rate": _log_uniform(random, 1e-5, 25.0),
        "rate_offset": _log_uniform(random, 1e-5, 25.0),
    }


def _fedavg(random: Random, n_samples: int, n_clients: int) -> Algorithm:
    return FedAvg(**_rates(random, n_samples, n_clients))


def _hyfem(random: Random, n_samples: int, n_clients: int) -> Algorithm:
    mu = _log_uniform(random, 1e-2, 1e4)
    return HyFem(mu=mu, **_rates(random, n_samples, n_clients))


METHODS: dict[str, Callable[[Random, int, int], Algorithm]] = {
    "hyfdca": _hyfdca,
    "fedavg": _fedavg,
    "hyfem": _hyfem,
}


@dataclass(frozen=True)
class Trial:
    """One draw of a method's settings, and what it reached."""

    case: str
    share: float
    method: str
    algorithm: Algorithm
    rows: list[dict[str, Any]]

    @property
    def final(self) -> float:
        """The relative loss in the end; infinite if it diverged."""
        return self._final("relative_loss")

    @property
    def accuracy(self) -> float:
        """The accuracy in the end."""
        return self._final("accuracy")

    def _final(self, name: str) -> float:
        return float(np.mean([row[name] for row in self.rows[-N_FINAL:]]))

    def records(self, is_best: bool) -> Iterator[dict[str, Any]]:
        """Return rows for the file."""
        settings = json.dumps(asdict(self.algorithm))
        for row in self.rows if is_best else self.rows[-1:]:
            yield {
                "case": self.case,
                "participation": self.share,
                "method": self.method,
                "is_best": int(is_best),
                **row,
                "settings": settings,
            }


@dataclass(frozen=True)
class Arena:
    """The training rows of a case, split, and what trials are measured by."""

    name: str
    share: float
    n_rounds: int
    l2: float
    layout: Layout
    blocks: list[Block]
    optimum: float
    held_out: Table

    @classmethod
    def of(cls, problem: Problem, share: float, folder: Path | None) -> Arena:
        """Load a problem's table and set rows aside."""
        table = problem.load(folder)
        rest, out = train_validation(len(table.y), HELD_OUT, SEED)
        train = Table(table.X[rest], table.y[rest])
        objective = Objective(train.X, train.y, make_loss("hinge"), problem.l2)
        partition = problem.split(train)
        layout = layout_of(partition)
        return cls(
            f"{problem.name} {problem.shape}",
            share,
            ROUNDS[problem],
            problem.l2,
            layout,
            split_blocks(train.X, train.y, partition, layout),
            reference_optimum(objective, 1e-5).dual,
            Table(table.X[out], table.y[out]),
        )

    def trial(self, method: str, number: int) -> Trial:
        """Train with one draw of settings, for all rounds."""
        random = stream(SEED, self.name, method, number)
        n_samples, n_clients = self.layout.samples.n_items, self.layout.n_clients
        algorithm = METHODS[method](random, n_samples, n_clients)
        settings = TrainingSettings(
            make_loss("hinge"),
            self.l2,
            algorithm,
            profile="open",
            max_rounds=self.n_rounds,
            tolerance=0.0,
            measure_every=self.n_rounds // N_MEASURED,
            seed=SEED,
        )
        present = random_fraction(n_clients, self.share, SEED)
        runner = train_in_process(settings, self.layout, self.blocks, present).runner
        rows, n_bytes, trips = [], 0, 0.0
        for report in runner.rounds():
            n_bytes += report.traffic.bytes_up + report.traffic.bytes_down
            trips += report.traffic.round_trips
            if report.measurement is not None:
                row = self._row(report.measurement.primal, runner.release())
                rows.append(
                    {"round": report.round_number, "bytes": n_bytes, "trips": trips}
                    | row
                )
        if runner.stop_reason == "diverged" or not rows:
            rows.append({**self._row(np.inf, None), "round": len(runner.history)})
        return Trial(self.name, self.share, method, algorithm, rows)

    def _row(self, primal: float, weights: FloatArray | None) -> dict[str, Any]:
        accuracy = np.nan
        if weights is not None:
            scores = np.asarray(self.held_out.X @ weights)
            accuracy = float(np.mean((scores >= 0) == (self.held_out.y > 0)))
        return {"relative_loss": primal / self.optimum - 1.0, "accuracy": accuracy}


def run(folder: Path | None) -> None:
    """Print a line per case and method; write all rows."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.imap(partial(_tuned, folder), range(len(CASES)), chunksize=1)
        records: list[dict[str, Any]] = []
        for trials in found:
            for method in METHODS:
                own = [trial for trial in trials if trial.method == method]
                best = min(own, key=lambda trial: trial.final)
                _print_line(best, sum(not np.isfinite(t.final) for t in own))
                for trial in own:
                    records += trial.records(trial is best)
    names = list(dict.fromkeys(name for record in records for name in record))
    with ROWS.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(records)


def _tuned(folder: Path | None, case: int) -> list[Trial]:
    arena, trials = Arena.of(*CASES[case], folder), []
    for method in METHODS:
        for number in range(N_DRAWS):
            trial = arena.trial(method, number)
            progress = f"{trial.case}, {trial.share:.0%}: {method} {number + 1}"
            print(f"{progress}/{N_DRAWS}: {trial.final:.4f}", file=sys.stderr)
            trials.append(trial)
    return trials


def _print_line(best: Trial, n_diverged: int) -> None:
    n_rounds = best.rows[-1]["round"]
    print(
        f"{best.case}, {best.share:.0%} present, {best.method}: relative loss "
        f"{best.final:.4f}, accuracy {best.accuracy:.4f} after {n_rounds} rounds; "
        f"{n_diverged} of {N_DRAWS} draws diverged",
        flush=True,
    )
