"""Which part of the paper's study is run: settings, methods, clocks and lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from hyfdca.reproduction.clock import waiting
from hyfdca.reproduction.comparisons import CLOCKS
from hyfdca.reproduction.jobs import Job
from hyfdca.reproduction.paper import (
    DATA_SETS,
    DIAGONAL,
    EQUAL_SECONDS,
    HYPERPARAMETERS,
    METHODS,
    SETTINGS,
    Clock,
    DataSetName,
    Hyperparameters,
    Method,
    Setting,
)
from hyfdca.reproduction.problems import Choices
from hyfdca.reproduction.simulation import TimeLimit

Source = Literal["paper", "tuned"]  # who chose the hyperparameters
SOURCES: tuple[Source, ...] = get_args(Source)
Chosen = Mapping[Setting, Mapping[Method, Hyperparameters]]


@dataclass(frozen=True)
class Effort:
    """How much of the study is done.

    Parameters
    ----------
    scale : float
        Share of the paper's rounds, and of its three hours.
    n_points : int
        Measured rounds of a run.
    n_trials : int
        Trials of our own tuning, for every method in each of the nine settings that the
        paper shows.
    trial_scale : float
        Share of the paper's rounds in such a trial.
    bundle_gap : float
        The relative gap at which the bundle method ends.
    """

    scale: float
    n_points: int
    n_trials: int
    trial_scale: float
    bundle_gap: float


FULL = Effort(1.0, n_points=200, n_trials=50, trial_scale=0.2, bundle_gap=1e-4)
QUICK = Effort(0.003, n_points=8, n_trials=3, trial_scale=0.002, bundle_gap=0.1)


def scaled(scale: float) -> Effort:
    """Return the effort of a study with that share of the rounds and of the time.

    There are also fewer trials and measured rounds, which would take most of the time.
    """
    return replace(
        FULL,
        scale=scale,
        n_points=max(80, round(FULL.n_points * scale)),
        n_trials=max(5, round(FULL.n_trials * scale)),
        trial_scale=FULL.trial_scale * scale,
        bundle_gap=1e-3,
    )


@dataclass(frozen=True)
class RunKey:
    """Which run of the study it is."""

    setting: Setting
    method: Method
    clock: Clock
    source: Source


@dataclass(frozen=True)
class Plan:
    """A study.

    Parameters
    ----------
    efforts : mapping
        How much is done of each data set.
    l2 : mapping
        λ of each data set; only those in it are run.
    seed : int
        The seed of presence and draws.
    """

    efforts: Mapping[DataSetName, Effort]
    l2: Mapping[DataSetName, float]
    choices: Choices = field(default_factory=Choices)
    seed: int = 0

    @property
    def settings(self) -> list[Setting]:
        """The settings, in the order of the paper's tables."""
        return [setting for setting in SETTINGS if setting.data_set in self.l2]

    @property
    def shown(self) -> list[Setting]:
        """The settings that the paper's comparison is about."""
        return [setting for setting in DIAGONAL if setting.data_set in self.l2]

    def seconds(self, data_set: DataSetName) -> float:
        """Return the simulated time of runs that end by time."""
        return self.efforts[data_set].scale * EQUAL_SECONDS

    def n_rounds(self, data_set: DataSetName) -> int:
        """Return the rounds of runs that end by rounds."""
        return _scaled(DATA_SETS[data_set].n_rounds, self.efforts[data_set].scale)

    def n_trial_rounds(self, data_set: DataSetName) -> int:
        """Return the rounds of a trial."""
        effort = self.efforts[data_set]
        return _scaled(DATA_SETS[data_set].n_rounds, effort.trial_scale)

    def window(self, data_set: DataSetName) -> int:
        """Return the rounds of the moving average, in runs that end by rounds."""
        return _scaled(DATA_SETS[data_set].window, self.efforts[data_set].scale)

    def measure_every(self, key: RunKey) -> int:
        """Return the rounds from one measured round of a run to the next."""
        n_points = self.efforts[key.setting.data_set].n_points
        return max(1, self._most_rounds(key) // n_points)

    def _most_rounds(self, key: RunKey) -> int:
        name = key.setting.data_set
        if key.clock == "rounds":
            return self.n_rounds(name)
        # No computation is faster than none.
        return int(self.seconds(name) / waiting(key.method)) + 1

    def job(self, key: RunKey, chosen: Hyperparameters) -> Job:
        """Return the job of a run."""
        setting, name = key.setting, key.setting.data_set
        limit = TimeLimit(self.seconds(name), waiting(key.method))
        return Job(
            setting,
            key.method,
            chosen,
            self.l2[name],
            self._most_rounds(key),
            self.measure_every(key),
            self.seed,
            self.choices,
            limit if key.clock == "seconds" else None,
        )

    def jobs(
        self, source: Source, settings: list[Setting], chosen: Chosen
    ) -> Iterator[tuple[RunKey, Job]]:
        """Return all runs of some settings, grouped by table and split.

        A method without hyperparameters, whose trials all diverged, is left out.
        """
        for setting in settings:
            for method in METHODS:
                own = chosen[setting].get(method)
                if own is not None:
                    for clock in CLOCKS:
                        key = RunKey(setting, method, clock, source)
                        yield key, self.job(key, own)

    def published(self) -> Iterator[tuple[RunKey, Job]]:
        """Return the runs with the paper's hyperparameters."""
        return self.jobs("paper", self.settings, HYPERPARAMETERS)


def _scaled(number: int, scale: float) -> int:
    return max(1, round(number * scale))
