"""A whole tuning: the methods of a setting one after another, and its files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from hyfdca import __version__
from hyfdca.data.sources import require
from hyfdca.files import write_whole
from hyfdca.reproduction.criteria import Criteria
from hyfdca.reproduction.jobs import run_jobs
from hyfdca.reproduction.paper import DATA_SETS, Hyperparameters, Method, Setting
from hyfdca.reproduction.problems import Choices
from hyfdca.reproduction.processes import Workers
from hyfdca.reproduction.tuning import Search, Trial, Tuned, ended_trial, tuned

SUMMARY, TRIALS, RUNS = "tuned.json", "trials.csv", "runs"


class TuningWatcher(Protocol):
    """Receives the progress of a tuning."""

    def begin(self, method: Method) -> None:
        """Receive a method whose trials begin."""
        ...

    def trial(self, trial: Trial, number: int) -> None:
        """Receive the end of a trial, numbered within its method."""
        ...


@dataclass(frozen=True)
class Budget:
    """What to tune, and how much.

    Parameters
    ----------
    n_trials, seconds : optional
        Limits per method: this many trials, or fewer if the time is up.
    n_rounds : int, optional
        Rounds of a trial; by default the paper's.
    n_points : int
        Measured rounds of a trial.
    data : path, optional
        Where to look for the data set first.
    """

    n_trials: int | None = 50
    seconds: float | None = None
    n_rounds: int | None = None
    n_points: int = 100
    n_processes: int = 2
    data: Path | None = None
    seed: int = 0
    choices: Choices = field(default_factory=Choices)


@dataclass(frozen=True)
class SettingTuned:
    """The outcome of a tuning, by method."""

    setting: Setting
    n_rounds: int
    seed: int
    choices: Choices
    methods: dict[Method, Tuned]

    def summary(self) -> dict[str, Any]:
        """Return the contents of ``tuned.json``."""
        return {
            "version": __version__,
            "setting": asdict(self.setting),
            "rounds": self.n_rounds,
            "seed": self.seed,
            "choices": asdict(self.choices),
            "methods": {name: _outcome(own) for name, own in self.methods.items()},
        }

    def write(self, folder: Path) -> None:
        """Write the summary and a table of all trials."""
        summary = json.dumps(self.summary(), indent=2) + "\n"
        write_whole(folder / TRIALS, _as_csv(self.methods).encode())
        write_whole(folder / SUMMARY, summary.encode(), is_durable=True)


def tune_setting(
    setting: Setting,
    methods: Sequence[Method],
    budget: Budget,
    folder: Path,
    watch: TuningWatcher,
) -> SettingTuned:
    """Tune methods of a setting; trials that a folder already has are not run again.

    Raises
    ------
    StudyError
        If the data set is missing, before anything is run.
    """
    data, seed, choices = budget.data, budget.seed, budget.choices
    require(setting.data_set, data)
    n_rounds = budget.n_rounds or DATA_SETS[setting.data_set].n_rounds
    every = max(1, n_rounds // budget.n_points)
    found: dict[Method, Tuned] = {}
    with Workers(budget.n_processes) as workers:
        for method in methods:
            watch.begin(method)
            search = Search(setting, method, n_rounds, every, seed, choices)
            trials: list[Trial] = []
            jobs = search.trials(budget.n_trials, budget.seconds)
            for outcome in run_jobs(jobs, folder / RUNS, data, workers):
                trials.append(ended_trial(*outcome))
                watch.trial(trials[-1], len(trials))
            # Processes end in any order; the table should not depend on it.
            found[method] = tuned(tuple(sorted(trials, key=lambda t: t.job.file_name)))
    return SettingTuned(setting, n_rounds, seed, choices, found)


def _outcome(own: Tuned) -> dict[str, Any]:
    best, n_diverged = own.best, sum(trial.criteria is None for trial in own.trials)
    outcome = {
        "trials": len(own.trials),
        "diverged": n_diverged,
        "on_the_front": len(own.grades),
        "hyperparameters": None,
        "criteria": None,
    }
    if best is None or best.criteria is None:
        return outcome
    chosen = best.job.chosen.as_settings()
    return {**outcome, "hyperparameters": chosen, "criteria": asdict(best.criteria)}


def _as_csv(methods: dict[Method, Tuned]) -> str:
    """Return a row per trial; criteria of divergent ones are empty."""
    names = [own.name for own in fields(Hyperparameters)]
    criteria = [own.name for own in fields(Criteria)]
    text = io.StringIO()
    columns = ["method", *names, "diverged", *criteria, "grade", "chosen"]
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    for method, own in methods.items():
        writer.writerows(_rows(method, own))
    return text.getvalue()


def _rows(method: Method, own: Tuned) -> Iterable[dict[str, Any]]:
    for number, trial in enumerate(own.trials):
        yield {
            "method": method,
            **trial.job.chosen.as_settings(),
            "diverged": int(trial.criteria is None),
            **({} if trial.criteria is None else asdict(trial.criteria)),
            "grade": own.grades.get(number, ""),
            "chosen": int(trial is own.best),
        }
