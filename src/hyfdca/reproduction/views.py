"""Runs as the paper's figures show them: smoothed, for equal rounds or equal time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.maths.objective import relative_gap
from hyfdca.reproduction.central import CentralFit, DataFacts
from hyfdca.reproduction.clock import EncryptionCosts, RunClock, clock_of
from hyfdca.reproduction.comparisons import Final
from hyfdca.reproduction.optimum import CertifiedOptimum
from hyfdca.reproduction.paper import (
    FIGURE_LATENCY,
    Clock,
    DataSetName,
    Method,
    Setting,
)
from hyfdca.reproduction.plan import Chosen, Plan, RunKey, Source
from hyfdca.reproduction.simulation import SimulatedRun
from hyfdca.reproduction.smoothing import (
    equal_seconds_window,
    moving_average,
    window_of_points,
)
from hyfdca.reproduction.waiting import BundleCurve


@dataclass(frozen=True)
class Study:
    """The study as it was run here: all that tables and figures show.

    Parameters
    ----------
    fits : mapping
        The central models among which λ was chosen; empty if it is the paper's.
    optima : mapping
        The optima of the pooled training rows, at the study's λ.
    published_optima : mapping
        The same at the paper's λ.
    schemes : sequence of EncryptionCosts
        The paper's clock first.
    chosen : mapping
        The hyperparameters, by who chose them.
    version, command : str
        The version and the command that were run.
    """

    plan: Plan
    facts: Mapping[DataSetName, DataFacts]
    fits: Mapping[DataSetName, tuple[CentralFit, ...]]
    optima: Mapping[DataSetName, CertifiedOptimum]
    published_optima: Mapping[DataSetName, CertifiedOptimum]
    schemes: tuple[EncryptionCosts, ...]
    runs: Mapping[RunKey, SimulatedRun]
    chosen: Mapping[Source, Chosen]
    bundles: Mapping[Setting, BundleCurve]
    version: str
    command: str

    @property
    def data_sets(self) -> list[DataSetName]:
        """The data sets that were run."""
        return list(self.plan.l2)

    @property
    def sources(self) -> list[Source]:
        """The sources of hyperparameters."""
        return list(self.chosen)


@dataclass(frozen=True)
class View:
    """A smoothed curve; all arrays are (n_averages,).

    Parameters
    ----------
    rounds, seconds, bytes : array
        Values at the end of each average's window.
    losses : array
        Relative losses, (P - P*) / P*; infinite where a run diverged.
    window : int
        Measured rounds in an average.
    is_over : bool
        Whether a certificate ended it.
    """

    rounds: IntArray
    seconds: FloatArray
    bytes: IntArray
    losses: FloatArray
    accuracies: FloatArray
    window: int = 1
    is_over: bool = False

    @property
    def final(self) -> Final:
        """Its final values."""
        return Final(float(self.losses[-1]), float(self.accuracies[-1]))


def view_of(study: Study, key: RunKey, encryption: EncryptionCosts) -> View | None:
    """Return a run's curve; None if there is no such run.

    Parameters
    ----------
    encryption : EncryptionCosts
        The costs that count in the time of runs that end by time.
    """
    run = study.runs.get(key)
    if run is None:
        return None
    plan, name = study.plan, key.setting.data_set
    every = plan.measure_every(key)
    clock = clock_of(key.method, encryption)
    if key.clock == "rounds":
        return _smoothed(study, name, run, clock, plan.window(name), every)
    within = int(np.searchsorted(clock.elapsed(run), plan.seconds(name), side="right"))
    shown = run.where(np.arange(len(run.rounds)) < max(1, within))
    window = equal_seconds_window(int(shown.rounds[-1]))
    if window_of_points(window, every) > 1:  # averages are over equal distances
        shown = shown.where(shown.rounds % every == 0)
    return _smoothed(study, name, shown, clock, window, every)


def bundle_view(study: Study, setting: Setting, clock: Clock) -> View | None:
    """Return the curve of the bundle method, cut at the end of the longest other."""
    found = study.bundles.get(setting)
    if found is None:
        return None
    name = setting.data_set
    seconds = found.seconds + found.round_trips * FIGURE_LATENCY
    if clock == "rounds":
        limit = study.plan.n_rounds(name)
        within = np.searchsorted(found.rounds, limit, side="right")
    else:
        within = np.searchsorted(seconds, study.plan.seconds(name), side="right")
    shown = slice(max(1, int(within)))
    gap = relative_gap(float(found.losses[-1]), float(found.bounds[-1]))
    target = study.plan.efforts[name].bundle_gap
    return View(
        found.rounds[shown],
        seconds[shown],
        found.n_bytes[shown],
        found.losses[shown] / study.optima[name].dual - 1.0,
        found.accuracies[shown],
        is_over=bool(within == len(found.rounds)) and gap <= target,
    )


def _smoothed(  # what a curve is made of
    study: Study,
    name: DataSetName,
    run: SimulatedRun,
    clock: RunClock,
    window: int,
    every: int,
) -> View:
    n_points = min(window_of_points(window, every), len(run.rounds))
    relative = run.losses / study.optima[name].dual - 1.0
    last = slice(n_points - 1, None)
    return View(
        run.rounds[last],
        clock.elapsed(run)[last],
        run.bytes[last],
        moving_average(relative, n_points),
        moving_average(run.accuracies, n_points),
        n_points,
    )


def finals_of(
    study: Study, source: Source, encryption: EncryptionCosts
) -> dict[tuple[Setting, Method, Clock], Final | None]:
    """Return the final values of all runs of a source."""
    views = {
        (key.setting, key.method, key.clock): view_of(study, key, encryption)
        for key in study.runs
        if key.source == source
    }
    return {key: view.final for key, view in views.items() if view is not None}
