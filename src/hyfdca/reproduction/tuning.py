"""Hyperparameters by random search, as the paper chooses them.

Draws are even on a logarithmic scale over the paper's ranges. Each is run for all
rounds; of the runs that do not diverge, Gray Relational Analysis chooses one on the
Pareto front of seven criteria.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from hyfdca.maths.seeds import stream
from hyfdca.reproduction.criteria import Criteria, criteria_of, criteria_table
from hyfdca.reproduction.gray import choose
from hyfdca.reproduction.jobs import Job
from hyfdca.reproduction.paper import (
    DATA_SETS,
    ROUND_TRIPS,
    Hyperparameters,
    Method,
    Setting,
    search_ranges,
)
from hyfdca.reproduction.problems import Choices
from hyfdca.reproduction.simulation import SimulatedRun


@dataclass(frozen=True)
class Search:
    """A search for the hyperparameters of a method in one setting.

    Parameters
    ----------
    n_rounds, measure_every : int
        Settings of every trial.
    l2 : float, optional
        By default the paper's λ.
    """

    setting: Setting
    method: Method
    n_rounds: int
    measure_every: int
    seed: int = 0
    choices: Choices = field(default_factory=Choices)
    l2: float | None = None

    def trial(self, number: int) -> Job:
        """Return a trial, counted from 0; the same for the same seed."""
        setting = self.setting
        random = stream(self.seed, "tune", repr(setting), self.method, number)
        ranges = search_ranges(self.method, setting.data_set)
        drawn = {
            name: float(np.exp(random.uniform(np.log(low), np.log(high))))
            for name, (low, high) in ranges.items()
        }
        return Job(
            setting,
            self.method,
            Hyperparameters(**drawn),
            DATA_SETS[setting.data_set].l2 if self.l2 is None else self.l2,
            self.n_rounds,
            self.measure_every,
            self.seed,
            self.choices,
        )

    def trials(self, n_trials: int | None, seconds: float | None) -> Iterator[Job]:
        """Return trials until there are enough, or the time is up; at least one."""
        started, number = time.monotonic(), 0
        while number == 0 or (
            (n_trials is None or number < n_trials)
            and (seconds is None or time.monotonic() - started < seconds)
        ):
            yield self.trial(number)
            number += 1


@dataclass(frozen=True)
class Trial:
    """A trial that has ended; without criteria it diverged."""

    job: Job
    criteria: Criteria | None


@dataclass(frozen=True)
class Tuned:
    """The outcome of a search.

    Parameters
    ----------
    trials : tuple of Trial
    best : Trial or None
        None if every trial diverged.
    grades : dict
        The grades of trials on the Pareto front, by their number in ``trials``.
    """

    trials: tuple[Trial, ...]
    best: Trial | None
    grades: dict[int, float]


def ended_trial(job: Job, run: SimulatedRun) -> Trial:
    """Return a trial with the criteria of its run."""
    return Trial(job, criteria_of(run.curve, ROUND_TRIPS[job.method]))


def tuned(trials: tuple[Trial, ...]) -> Tuned:
    """Choose among trials that were measured in the same rounds."""
    table = criteria_table([trial.criteria for trial in trials])
    choice = choose(table, Criteria.MAXIMISED)
    best = None if choice.row is None else trials[choice.row]
    grades = dict(zip(choice.front.tolist(), choice.grades.tolist(), strict=True))
    return Tuned(trials, best, grades)
