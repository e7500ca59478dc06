"""The paper's figures of curves: loss and accuracy against rounds, time and bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyfdca.reproduction.clock import EncryptionCosts
from hyfdca.reproduction.paper import (
    DATA_SETS,
    FIGURE_LATENCY,
    FRACTIONS,
    METHODS,
    Clock,
    DataSetName,
    Method,
    Setting,
)
from hyfdca.reproduction.plan import RunKey, Source
from hyfdca.reproduction.report.charts import COLOURS, Chart, Line, Panel
from hyfdca.reproduction.views import Study, View, bundle_view, view_of

LABELS: dict[Method, str] = {"hyfdca": "HyFDCA", "fedavg": "FedAvg", "hyfem": "HyFEM"}
TITLES: dict[DataSetName, str] = {
    "mnist": "MNIST",
    "news20": "News20",
    "covtype": "Covtype",
}
SOURCES: dict[Source, str] = {
    "paper": "the paper's hyperparameters",
    "tuned": "our own tuning",
}
WHOSE: dict[Source, str] = {"paper": "the paper's", "tuned": "our own"}
_BY_CLIENTS = ("#1f6f8b", "#e0a030", "#b5452c")  # from few clients to many
_LEAST = 1e-6  # least relative loss shown; optima are known to this accuracy


@dataclass(frozen=True)
class _Measure:
    """What curves show."""

    label: str
    of: Callable[[View], Any]
    is_log: bool = False


_MEASURES = (
    _Measure("relative loss", lambda view: view.losses.clip(_LEAST), is_log=True),
    _Measure("validation accuracy", lambda view: view.accuracies),
)


@dataclass(frozen=True)
class _Abscissa:
    """The horizontal axis of curves; ``total`` is where it ends, as a 1."""

    label: str
    clock: Clock
    of: Callable[[View], Any]
    total: Callable[[list[View]], float] = lambda _: 1.0
    is_log: bool = False


def against_rounds(study: Study, source: Source) -> Chart:
    """Return Figure 3."""
    x = _Abscissa("relative round, t_R", "rounds", lambda view: view.rounds, _longest)
    return Chart(
        f"figure-3-{source}",
        f"Figure 3: equal rounds, {SOURCES[source]}",
        "Relative loss (P - P*) / P* and validation accuracy, from easy settings at "
        "the left to hard ones at the right. The bundle method ends, with a dot, where "
        "its certificate says that it is done. t_R is the share of all rounds."
        f"{_missing(source)}",
        _panels(study, source, x, study.schemes[0]),
    )


def against_time(study: Study, source: Source, encryption: EncryptionCosts) -> Chart:
    """Return supplementary Figure 1."""
    x = _Abscissa("relative time, T_R", "seconds", lambda view: view.seconds, _latest)
    name = encryption.name.lower().replace(",", "").replace(" ", "-")
    return Chart(
        f"figure-s1-{source}-{name}",
        f"Supplementary Figure 1: equal time, {SOURCES[source]}, "
        f"encryption: {encryption.name}",
        f"Time is the slowest client's computation, {FIGURE_LATENCY} s per round trip, "
        "and HyFDCA's encryption. FedAvg, HyFEM and the bundle method (open profile) "
        "are without encryption. T_R is the time as a share of the longest."
        f"{_missing(source)}",
        _panels(study, source, x, encryption),
    )


def against_bytes(study: Study, source: Source) -> Chart:
    """Return a figure that the paper does not have."""
    x = _Abscissa(
        "bytes of all clients, up and down",
        "rounds",
        lambda view: np.where(view.bytes > 0, view.bytes, np.nan),
        is_log=True,
    )
    return Chart(
        f"figure-bytes-{source}",
        f"Loss and accuracy by bytes, {SOURCES[source]}",
        "The runs of Figure 3 by what they send, unencrypted. The paper has no such "
        f"figure.{_missing(source)}",
        _panels(study, source, x, study.schemes[0]),
    )


def by_setting(study: Study, name: DataSetName, number: int) -> Chart:
    """Return supplementary Figure 2, 3 or 4: HyFDCA in all settings of a set."""
    panels = tuple(
        tuple(
            Panel(
                f"{fraction:.0%} of the clients present",
                "relative round, t_R",
                measure.label,
                tuple(_lines_by_clients(study, name, fraction, measure)),
                is_log_y=measure.is_log,
            )
            for fraction in FRACTIONS
        )
        for measure in _MEASURES
    )
    return Chart(
        f"figure-s{number}",
        f"Supplementary Figure {number}: HyFDCA on {TITLES[name]} in all settings",
        "The paper's hyperparameters. Dashed: the bundle method, whose exchanges wait "
        "until every client was present once.",
        panels,
    )


def setting_title(setting: Setting) -> str:
    """Return a setting in words."""
    return (
        f"{TITLES[setting.data_set]}, {clients_label(setting)}, "
        f"{setting.fraction:.0%} present"
    )


def clients_label(setting: Setting) -> str:
    """Return the clients of a setting in words."""
    counts = setting.clients
    if isinstance(counts, int):
        return f"{counts:,} clients"
    return f"{counts[0]}x{counts[1]} clients"


def _panels(
    study: Study, source: Source, x: _Abscissa, encryption: EncryptionCosts
) -> tuple[tuple[Panel, ...], ...]:
    """Return two rows per data set, with a column per setting shown."""
    rows = []
    for name in study.data_sets:
        settings = [own for own in study.plan.shown if own.data_set == name]
        for measure in _MEASURES:
            panels = (
                Panel(
                    setting_title(setting),
                    x.label,
                    measure.label,
                    tuple(_lines(study, setting, source, x, encryption, measure)),
                    is_log_x=x.is_log,
                    is_log_y=measure.is_log,
                )
                for setting in settings
            )
            rows.append(tuple(panels))
    return tuple(rows)


def _lines(  # all that a panel is made of
    study: Study,
    setting: Setting,
    source: Source,
    x: _Abscissa,
    encryption: EncryptionCosts,
    measure: _Measure,
) -> Iterator[Line]:
    views = {
        LABELS[method]: view_of(
            study, RunKey(setting, method, x.clock, source), encryption
        )
        for method in METHODS
    }
    known = {label: view for label, view in views.items() if view is not None}
    total = x.total(list(known.values()))
    bundle = bundle_view(study, setting, x.clock)
    if bundle is not None:
        known["bundle"] = bundle
    for label, view in known.items():
        is_bundle = label == "bundle"
        yield Line(
            label,
            x.of(view) / total,
            measure.of(view),
            COLOURS[label],
            "dash" if is_bundle else "solid",
            is_marked=is_bundle and view.is_over,
        )


def _lines_by_clients(
    study: Study, name: DataSetName, fraction: float, measure: _Measure
) -> Iterator[Line]:
    total = study.plan.n_rounds(name)
    for clients, colour in zip(DATA_SETS[name].clients, _BY_CLIENTS, strict=True):
        setting = Setting(name, clients, fraction)
        label = clients_label(setting)
        key = RunKey(setting, "hyfdca", "rounds", "paper")
        view = view_of(study, key, study.schemes[0])
        if view is not None:
            x, y = view.rounds / total, measure.of(view)
            yield Line(f"HyFDCA, {label}", x, y, colour)
        bundle = bundle_view(study, setting, "rounds")
        if bundle is not None:
            x, y = bundle.rounds / total, measure.of(bundle)
            yield Line(
                f"bundle, {label}", x, y, colour, "dash", is_marked=bundle.is_over
            )


def _missing(source: Source) -> str:
    """Return why a panel may have no curve of a method."""
    if source == "paper":
        return ""
    return " A method has no curve where all trials of its tuning diverged."


def _longest(views: list[View]) -> float:
    return max((float(view.rounds[-1]) for view in views), default=1.0)


def _latest(views: list[View]) -> float:
    return max((float(view.seconds[-1]) for view in views), default=1.0)
