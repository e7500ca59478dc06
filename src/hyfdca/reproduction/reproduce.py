"""The whole study: optima, our own tuning, all runs, the bundle method.

Everything that took long is kept in the folder as soon as it is done. A study that was
stopped, or killed, goes on from there; a shorter one leaves a longer one what they
share: optima and λ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hyfdca import __version__
from hyfdca.data.sources import require
from hyfdca.reproduction.bundle_run import Limits
from hyfdca.reproduction.central import Central, L2Choice, central_models
from hyfdca.reproduction.clock import PAPER_PAILLIER, EncryptionCosts
from hyfdca.reproduction.jobs import Job, run_jobs
from hyfdca.reproduction.paper import (
    DATA_SETS,
    FIGURE_LATENCY,
    HYPERPARAMETERS,
    METHODS,
    DataSetName,
    Hyperparameters,
    Method,
    Setting,
)
from hyfdca.reproduction.plan import Chosen, Effort, Plan, RunKey, Source
from hyfdca.reproduction.problems import Choices, paper_problem
from hyfdca.reproduction.processes import worker_pool
from hyfdca.reproduction.simulation import SimulatedRun
from hyfdca.reproduction.tuning import Search, ended_trial, tuned
from hyfdca.reproduction.views import Study
from hyfdca.reproduction.waiting import BundleCurve, bundle_curve

RUNS, KEPT = "runs", "kept"
_TRIAL_POINTS = 25  # measured rounds of a trial, at the most
K = TypeVar("K", bound=str)
T = TypeVar("T")


class StudyWatcher(Protocol):
    """Receives the progress of a study."""

    def begin(self, what: str, n_all: int) -> None:
        """Take note of a part of the study, of so many steps."""
        ...

    def step(self, what: str) -> None:
        """Take note of a step that has ended."""
        ...


@dataclass(frozen=True)
class Options:
    """What to run, and how.

    Parameters
    ----------
    efforts : mapping
        How much to do of each data set; those not in it are left out.
    sources : tuple
        Whose hyperparameters to run with.
    schemes : sequence of EncryptionCosts
        Measured ones; the last is the one that our own methods use.
    data : path, optional
        Where to look for the data sets first.
    command : str
        What was typed, for the report.
    """

    efforts: Mapping[DataSetName, Effort]
    sources: tuple[Source, ...] = ("paper", "tuned")
    l2: L2Choice = "validation"
    choices: Choices = field(default_factory=Choices)
    schemes: tuple[EncryptionCosts, ...] = ()
    data: Path | None = None
    n_processes: int = 2
    seed: int = 0
    command: str = ""


def check_data_sets(names: Iterable[DataSetName], data: Path | None) -> None:
    """Refuse to begin without the data.

    Raises
    ------
    StudyError
        If a data set is not there; the sentence says how to get it.
    """
    for name in names:
        require(name, data)


def reproduce(options: Options, folder: Path, watch: StudyWatcher) -> Study:
    """Run the study, or what is missing of it.

    Raises
    ------
    StudyError
        If a data set is not there, before anything is run.
    """
    check_data_sets(options.efforts, options.data)
    central = _central(options, folder, watch)
    l2 = {name: own.l2 for name, own in central.items()}
    plan = Plan(options.efforts, l2, options.choices, options.seed)
    chosen: dict[Source, Chosen] = {}
    if "paper" in options.sources:
        chosen["paper"] = HYPERPARAMETERS
    if "tuned" in options.sources:
        chosen["tuned"] = _tuned(plan, options, folder, watch)
    runs: dict[RunKey, SimulatedRun] = {}
    for source, own in chosen.items():
        settings = plan.settings if source == "paper" else plan.shown
        keyed = list(plan.jobs(source, settings, own))
        what = "runs, paper's settings" if source == "paper" else "runs, own tuning"
        runs |= dict(_run_all(keyed, what, options, folder, watch))
    return Study(
        plan,
        {name: own.facts for name, own in central.items()},
        {name: own.fits for name, own in central.items()},
        {name: own.optimum for name, own in central.items()},
        {name: own.published_optimum for name, own in central.items()},
        (PAPER_PAILLIER, *options.schemes),
        runs,
        chosen,
        _bundles(plan, options, folder, watch),
        __version__,
        options.command,
    )


def _central(
    options: Options, folder: Path, watch: StudyWatcher
) -> dict[DataSetName, Central]:
    watch.begin("optima and λ", len(options.efforts))
    calls = {
        name: (name, options.choices, options.l2, folder / KEPT, options.data)
        for name in options.efforts
    }
    found = dict(_side_by_side(central_models, calls, options.n_processes, watch))
    return {name: found[name] for name in options.efforts}


def _tuned(
    plan: Plan, options: Options, folder: Path, watch: StudyWatcher
) -> dict[Setting, dict[Method, Hyperparameters]]:
    """Search hyperparameters in the settings that the paper shows."""
    keyed: list[tuple[tuple[Setting, Method], Job]] = []
    for setting in plan.shown:
        name = setting.data_set
        effort, n_rounds = plan.efforts[name], plan.n_trial_rounds(name)
        every = max(1, n_rounds // min(effort.n_points, _TRIAL_POINTS))
        for method in METHODS:
            search = Search(
                setting,
                method,
                n_rounds,
                every,
                plan.seed,
                plan.choices,
                plan.l2[name],
            )
            trials = (search.trial(i) for i in range(effort.n_trials))
            keyed += [((setting, method), trial) for trial in trials]
    ended: dict[Job, SimulatedRun] = dict(
        _run_jobs([job for _, job in keyed], "trials", options, folder, watch)
    )
    chosen: dict[Setting, dict[Method, Hyperparameters]] = {s: {} for s in plan.shown}
    for setting, method in dict.fromkeys(key for key, _ in keyed):
        own = [job for key, job in keyed if key == (setting, method)]
        best = tuned(tuple(ended_trial(job, ended[job]) for job in own)).best
        if best is not None:
            chosen[setting][method] = best.job.chosen
    return chosen


def _run_all(
    keyed: Sequence[tuple[RunKey, Job]],
    what: str,
    options: Options,
    folder: Path,
    watch: StudyWatcher,
) -> Iterator[tuple[RunKey, SimulatedRun]]:
    jobs = [job for _, job in keyed]
    ended = dict(_run_jobs(jobs, what, options, folder, watch))
    return ((key, ended[job]) for key, job in keyed)


def _run_jobs(
    jobs: Sequence[Job], what: str, options: Options, folder: Path, watch: StudyWatcher
) -> Iterator[tuple[Job, SimulatedRun]]:
    watch.begin(what, len(jobs))
    runs = run_jobs(jobs, folder / RUNS, options.data, options.n_processes)
    for job, run in runs:
        watch.step(f"{job.setting.data_set} {job.setting.label}, {job.method}")
        yield job, run


def _bundles(
    plan: Plan, options: Options, folder: Path, watch: StudyWatcher
) -> dict[Setting, BundleCurve]:
    """Run the bundle method once per split; fractions share its steps."""
    splits: dict[str, list[Setting]] = {}
    for setting in sorted(plan.settings, key=_length, reverse=True):
        split = f"{setting.data_set} {setting.label.rpartition(', ')[0]}"
        splits.setdefault(split, []).append(setting)
    watch.begin("bundle method", len(splits))
    calls = {
        split: (plan, tuple(settings), folder / KEPT, options.data)
        for split, settings in splits.items()
    }
    found = dict(_side_by_side(_split_bundles, calls, options.n_processes, watch))
    curves = {s: curve for own in found.values() for s, curve in own.items()}
    return {setting: curves[setting] for setting in plan.settings}


def _length(setting: Setting) -> int:
    """Return a guess of how long the bundle method takes: the longest goes first."""
    return DATA_SETS[setting.data_set].n_features * setting.n_clients


def _split_bundles(
    plan: Plan, settings: Sequence[Setting], folder: Path, data: Path | None
) -> dict[Setting, BundleCurve]:
    """Return the curves of settings that differ in who is present alone."""
    name = settings[0].data_set
    problem = paper_problem(name, plan.choices, data, plan.l2[name])
    limits = Limits(plan.efforts[name].bundle_gap)
    # No round takes less than the latency of one trip.
    n_rounds = max(plan.n_rounds(name), int(plan.seconds(name) / FIGURE_LATENCY))
    return {
        own: bundle_curve(problem, own, n_rounds, folder, plan.seed, limits)
        for own in settings
    }


def _side_by_side(
    function: Callable[..., T],
    calls: dict[K, tuple[Any, ...]],
    n_processes: int,
    watch: StudyWatcher,
) -> Iterator[tuple[K, T]]:
    """Return what calls return, by their keys, in the order in which they end."""
    if n_processes == 1:
        for key, own in calls.items():
            yield key, function(*own)
            watch.step(key)
        return
    with worker_pool(n_processes) as pool:
        running = {pool.submit(function, *own): key for key, own in calls.items()}
        for ended in as_completed(running):
            yield running[ended], ended.result()
            watch.step(running[ended])
