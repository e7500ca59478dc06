"""HyFDCA, FedAvg and HyFEM on the paper's partitions, tuned by the same small budget.

Every method gets as many random draws of its settings, over the paper's ranges, and as
many rounds. The draw with the lowest final loss counts; final is the mean over the last
tenth of the measured rounds, since all three oscillate. All see the same rows and the
same participants in every round. HyFDCA takes the printed step, as in the paper's
study, and refreshes all margins, since old ones spoil it where clients are few. A fifth
of the rows is set aside for the accuracy. Hinge loss and the paper's λ; losses are
relative to the certified optimum of the pooled training rows. Rounds are simulated in
bulk.

The rows of all draws go to ``docs/comparison-rows.csv``, one per measured round of the
best draw of a method and one per other draw.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.reproduction.jobs import Job, run_jobs
from hyfdca.reproduction.optimum import certified_optimum
from hyfdca.reproduction.paper import METHODS, DataSetName, Method, Setting
from hyfdca.reproduction.problems import Choices, paper_problem
from hyfdca.reproduction.simulation import SimulatedRun
from hyfdca.reproduction.tuning import Search

NEEDS = ("mnist", "covtype", "news20")
CLIENTS: dict[DataSetName, Any] = {"mnist": 5, "covtype": (3, 3), "news20": (3, 3)}
ROUNDS: dict[DataSetName, int] = {"mnist": 2_500, "covtype": 2_000, "news20": 1_000}
CASES = [Setting(n, CLIENTS[n], share) for n in CLIENTS for share in (0.5, 0.9)]
# One digit against the rest, which is the task that most studies of MNIST have.
CHOICES = Choices(mnist_positive=(3,), mnist_clients="groups", refresh="all")
N_DRAWS, N_MEASURED, N_FINAL = 8, 50, 5
ROWS = Path(__file__).resolve().parents[1] / "docs" / "comparison-rows.csv"


@dataclass(frozen=True)
class Trial:
    """One draw of a method's settings, and what it reached."""

    job: Job
    run: SimulatedRun
    optimum: float

    @property
    def losses(self) -> FloatArray:
        """Relative losses; infinite where it diverged."""
        return self.run.losses / self.optimum - 1.0

    @property
    def final(self) -> float:
        """The relative loss in the end."""
        return float(np.mean(self.losses[-N_FINAL:]))

    @property
    def accuracy(self) -> float:
        """The accuracy in the end."""
        return float(np.mean(self.run.accuracies[-N_FINAL:]))

    def records(self, is_best: bool) -> Iterator[dict[str, Any]]:
        """Return rows for the file."""
        run, n_points = self.run, len(self.run.rounds)
        for i in range(1 if is_best else n_points - 1, n_points):
            yield {
                "case": _case(self.job.setting),
                "participation": self.job.setting.fraction,
                "method": self.job.method,
                "is_best": int(is_best),
                "round": int(run.rounds[i]),
                "bytes": int(run.bytes[i]),
                "relative_loss": float(self.losses[i]),
                "accuracy": float(run.accuracies[i]),
                "settings": json.dumps(self.job.chosen.as_settings()),
            }


def run(folder: Path | None) -> None:
    """Print a line per case and method; write all rows."""
    optima = {n: certified_optimum(paper_problem(n, CHOICES, folder)) for n in CLIENTS}
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        trials: dict[tuple[Setting, Method], list[Trial]] = {}
        for job, outcome in run_jobs(_jobs(), Path(scratch), folder):
            trial = Trial(job, outcome, optima[job.setting.data_set].dual)
            own = trials.setdefault((job.setting, job.method), [])
            own.append(trial)
            case = f"{_case(job.setting)}, {job.setting.fraction:.0%}"
            progress = f"{case}: {job.method} {len(own)}/{N_DRAWS}"
            print(f"{progress}: {trial.final:.4f}", file=sys.stderr)
    for setting in CASES:
        for method in METHODS:
            own = sorted(trials[setting, method], key=lambda t: t.job.file_name)
            best = min(own, key=lambda trial: trial.final)
            _print_line(best, sum(not np.isfinite(t.final) for t in own))
            for trial in own:
                records += trial.records(trial is best)
    with ROWS.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)


def _jobs() -> Iterator[Job]:
    for setting in CASES:
        n_rounds = ROUNDS[setting.data_set]
        for method in METHODS:
            every = n_rounds // N_MEASURED
            search = Search(setting, method, n_rounds, every, choices=CHOICES)
            yield from search.trials(N_DRAWS, None)


def _case(setting: Setting) -> str:
    groups = setting.clients
    shape = f"{groups}x4" if isinstance(groups, int) else f"{groups[0]}x{groups[1]}"
    return f"{setting.data_set} {shape}"


def _print_line(best: Trial, n_diverged: int) -> None:
    setting = best.job.setting
    print(
        f"{_case(setting)}, {setting.fraction:.0%} present, {best.job.method}: "
        f"relative loss {best.final:.4f}, accuracy {best.accuracy:.4f} after "
        f"{best.run.rounds[-1]} rounds; {n_diverged} of {N_DRAWS} draws diverged",
        flush=True,
    )
