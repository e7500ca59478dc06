"""Sentences of the report that explain how to read its numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hyfdca.reproduction.paper import FIGURE_LATENCY, DataSetName
from hyfdca.reproduction.plan import RunKey
from hyfdca.reproduction.report.curves import TITLES, setting_title
from hyfdca.reproduction.views import Study


def by_set(texts: Mapping[DataSetName, str]) -> str:
    """Return a fact of every data set, or one for all if they agree."""
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{TITLES[name]} {text}" for name, text in texts.items())


def shares_below_one(study: Study) -> str:
    """Return how much of the paper's rounds was run, where it is not all of them."""
    scales = {name: study.plan.efforts[name].scale for name in study.data_sets}
    shares = [(name, f"{own:.3g}") for name, own in scales.items() if own < 1.0]
    if len(shares) == len(scales) and len({own for _, own in shares}) == 1:
        return shares[0][1]
    return ", ".join(f"{own} ({TITLES[name]})" for name, own in shares)


def final_values(study: Study) -> str:
    """Return what a final value is a mean of, and when a run counts as diverged."""
    plan, names = study.plan, study.data_sets
    windows = by_set({name: f"{plan.window(name):,}" for name in names})
    return (
        "Final losses and accuracies are means over the paper's last window: of rounds "
        f"({windows}) at equal rounds, of the last 1 % of a run's rounds at equal "
        "time. A run is called diverged here if that mean is not finite; a loss of a "
        "million times the first counts as infinite. Tuning is stricter: a trial "
        "counts as diverged if any of its losses is not finite, or if its last five "
        "losses are on average not below the first."
    )


def bundle_clock(study: Study) -> str:
    """Return how long the bundle method runs."""
    plan, names = study.plan, study.data_sets
    fitting = {n: f"{int(plan.seconds(n) / FIGURE_LATENCY):,}" for n in names}
    return (
        "Its table runs to the later of two ends: the equal rounds, or as many rounds "
        f"as fit into the equal time at {FIGURE_LATENCY} s each "
        f"({by_set(fitting)}). Its time has computation and latency, and no "
        "encryption, as it is run in the open profile."
    )


def same_draws(study: Study) -> str:
    """Return where both sets of hyperparameters give HyFDCA the same run."""
    same = []
    for setting in study.plan.shown:
        keys = (RunKey(setting, "hyfdca", "rounds", own) for own in study.sources)
        runs = [study.runs.get(key) for key in keys]
        known = [run for run in runs if run is not None]
        if len(known) > 1 and all(
            np.array_equal(known[0].losses, own.losses) for own in known[1:]
        ):
            same.append(setting_title(setting))
    if not same:
        return ""
    return (
        "HyFDCA has the same losses under both sets of hyperparameters in "
        f"{'; '.join(same)}: its only hyperparameter, IIC, comes to the same number of "
        "draws per client there, since IIC N / clients is rounded up."
    )
