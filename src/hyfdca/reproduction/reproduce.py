"""The whole study: optima, our own tuning, all runs, the bundle method.

Expensive results are stored in the folder as soon as they are done. A study that was
stopped or killed resumes from there; a longer one reuses what it shares with a shorter
one: optima and λ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hyfdca import __version__
from hyfdca.data.sources import require
from hyfdca.reproduction.bundle_run import Limits, history_name
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
from hyfdca.reproduction.problems import Choices, held_problem
from hyfdca.reproduction.processes import Workers
from hyfdca.reproduction.simulation import SimulatedRun
from hyfdca.reproduction.tuning import Search, ended_trial, tuned
from hyfdca.reproduction.views import Study
from hyfdca.reproduction.waiting import BundleCurve, bundle_curve

RUNS, KEPT = "runs", "kept"
_TRIAL_POINTS = 25  # measured rounds of a trial, at most
K = TypeVar("K", bound=str)
T = TypeVar("T")


class StudyWatcher(Protocol):
    """Receives the progress of a study."""

    def begin(self, what: str, n_all: int, n_kept: int = 0) -> None:
        """Receive a part of the study: its steps, and how many are already done."""
        ...

    def step(self, what: str) -> None:
        """Receive the end of a step."""
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


@dataclass(frozen=True)
class _Work:
    """What every part of the study needs."""

    options: Options
    folder: Path
    watch: StudyWatcher
    workers: Workers


def check_data_sets(names: Iterable[DataSetName], data: Path | None) -> None:
    """Refuse to begin without the data.

    Raises
    ------
    StudyError
        If a data set is missing; the sentence says how to get it.
    """
    for name in names:
        require(name, data)


def reproduce(options: Options, folder: Path, watch: StudyWatcher) -> Study:
    """Run the study, or the missing parts of it.

    Raises
    ------
    StudyError
        If a data set is missing, before anything is run.
    """
    check_data_sets(options.efforts, options.data)
    with Workers(options.n_processes) as workers:
        return _study(_Work(options, folder, watch, workers))


def _study(work: _Work) -> Study:
    options = work.options
    central = _central(work)
    l2 = {name: own.l2 for name, own in central.items()}
    plan = Plan(options.efforts, l2, options.choices, options.seed)
    chosen: dict[Source, Chosen] = {}
    if "paper" in options.sources:
        chosen["paper"] = HYPERPARAMETERS
    if "tuned" in options.sources:
        chosen["tuned"] = _tuned(plan, work)
    runs: dict[RunKey, SimulatedRun] = {}
    for source, own in chosen.items():
        settings = plan.settings if source == "paper" else plan.shown
        keyed = list(plan.jobs(source, settings, own))
        what = "runs, paper's settings" if source == "paper" else "runs, own tuning"
        runs |= dict(_run_all(keyed, what, work))
    return Study(
        plan,
        {name: own.facts for name, own in central.items()},
        {name: own.fits for name, own in central.items()},
        {name: own.optimum for name, own in central.items()},
        {name: own.published_optimum for name, own in central.items()},
        (PAPER_PAILLIER, *options.schemes),
        runs,
        chosen,
        _bundles(plan, work),
        __version__,
        options.command,
    )


def _central(work: _Work) -> dict[DataSetName, Central]:
    options = work.options
    calls = {
        name: (name, options.choices, options.l2, work.folder / KEPT, options.data)
        for name in options.efforts
    }
    # Stored results are found by the rows they were computed from; that takes a while.
    what = "reading the data sets, optima and λ"
    n_kept = sum(_has_central(name, work) for name in calls)
    found = dict(_side_by_side(what, central_models, calls, work, n_kept))
    return {name: found[name] for name in options.efforts}


def _has_central(name: DataSetName, work: _Work) -> bool:
    """Return whether there are files of expensive results, judging by their names."""
    needed = ["optimum", *(["central"] if work.options.l2 == "validation" else [])]
    return all(_is_kept(f"{name}-{what}", work) for what in needed)


def _is_kept(stem: str, work: _Work) -> bool:
    return any((work.folder / KEPT).glob(f"{stem}-*.json"))


def _tuned(plan: Plan, work: _Work) -> dict[Setting, dict[Method, Hyperparameters]]:
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
        _run_jobs([job for _, job in keyed], "trials", work)
    )
    chosen: dict[Setting, dict[Method, Hyperparameters]] = {s: {} for s in plan.shown}
    for setting, method in dict.fromkeys(key for key, _ in keyed):
        own = [job for key, job in keyed if key == (setting, method)]
        best = tuned(tuple(ended_trial(job, ended[job]) for job in own)).best
        if best is not None:
            chosen[setting][method] = best.job.chosen
    return chosen


def _run_all(
    keyed: Sequence[tuple[RunKey, Job]], what: str, work: _Work
) -> Iterator[tuple[RunKey, SimulatedRun]]:
    jobs = [job for _, job in keyed]
    ended = dict(_run_jobs(jobs, what, work))
    return ((key, ended[job]) for key, job in keyed)


def _run_jobs(
    jobs: Sequence[Job], what: str, work: _Work
) -> Iterator[tuple[Job, SimulatedRun]]:
    runs_folder = work.folder / RUNS
    n_kept = sum((runs_folder / job.file_name).exists() for job in jobs)
    work.watch.begin(what, len(jobs), n_kept)
    runs = run_jobs(jobs, runs_folder, work.options.data, work.workers)
    for job, run in runs:
        work.watch.step(f"{job.setting.data_set} {job.setting.label}, {job.method}")
        yield job, run


def _bundles(plan: Plan, work: _Work) -> dict[Setting, BundleCurve]:
    """Run the bundle method once per split; fractions share its steps."""
    splits: dict[str, list[Setting]] = {}
    for setting in sorted(plan.settings, key=_length, reverse=True):
        split = f"{setting.data_set} {setting.label.rpartition(', ')[0]}"
        splits.setdefault(split, []).append(setting)
    calls = {
        split: (plan, tuple(settings), work.folder / KEPT, work.options.data)
        for split, settings in splits.items()
    }
    n_kept = sum(_is_kept(_bundle_stem(own[0]), work) for own in splits.values())
    found = dict(_side_by_side("bundle method", _split_bundles, calls, work, n_kept))
    curves = {s: curve for own in found.values() for s, curve in own.items()}
    return {setting: curves[setting] for setting in plan.settings}


def _bundle_stem(setting: Setting) -> str:
    return f"{setting.data_set}-{history_name(setting.clients)}"


def _length(setting: Setting) -> int:
    """Estimate how long the bundle method takes: the longest run goes first."""
    return DATA_SETS[setting.data_set].n_features * setting.n_clients


def _split_bundles(
    plan: Plan, settings: Sequence[Setting], folder: Path, data: Path | None
) -> dict[Setting, BundleCurve]:
    """Return the curves of settings that differ only in who is present."""
    name = settings[0].data_set
    problem = replace(held_problem(name, plan.choices, data), l2=plan.l2[name])
    limits = Limits(plan.efforts[name].bundle_gap)
    # No round takes less than the latency of one trip.
    n_rounds = max(plan.n_rounds(name), int(plan.seconds(name) / FIGURE_LATENCY))
    return {
        own: bundle_curve(problem, own, n_rounds, folder, plan.seed, limits)
        for own in settings
    }


def _side_by_side(
    what: str,
    function: Callable[..., T],
    calls: dict[K, tuple[Any, ...]],
    work: _Work,
    n_kept: int,
) -> Iterator[tuple[K, T]]:
    """Return the results of calls by their keys, in the order in which they end."""
    work.watch.begin(what, len(calls), n_kept)
    for key, found in work.workers.side_by_side(function, calls):
        yield key, found
        work.watch.step(key)
