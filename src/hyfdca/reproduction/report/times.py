"""What a round takes: Figure 4, and the paper's three tables of times."""

from __future__ import annotations

from collections.abc import Iterator

from hyfdca.pages.tables import Table, number
from hyfdca.reproduction.clock import waiting
from hyfdca.reproduction.paper import (
    FIGURE_LATENCY,
    METHODS,
    ROUND_SECONDS,
    DataSetName,
    Method,
    Setting,
)
from hyfdca.reproduction.plan import RunKey
from hyfdca.reproduction.report.charts import Bar, Chart, Panel
from hyfdca.reproduction.report.curves import LABELS, TITLES, setting_title
from hyfdca.reproduction.simulation import SimulatedRun
from hyfdca.reproduction.views import Study

_PARTS = {
    "computation": "#1f6f8b",
    "latency": "#e0a030",
    "encryption, published Paillier": "#b5452c",
    "encryption, measured Paillier": "#8e6bb5",
    "encryption, measured BFV": "#d77fa6",
}


def time_bars(study: Study) -> Chart:
    """Return Figure 4."""
    panels = tuple(
        tuple(
            Panel(
                setting_title(setting),
                "",
                "seconds per round",
                bars=tuple(_bars(study, setting)),
                is_log_y=True,
            )
            for setting in study.plan.shown
            if setting.data_set == name
        )
        for name in study.data_sets
    )
    return Chart(
        "figure-4",
        "Figure 4: mean time of a round, by what it is spent on",
        f"Computation of the slowest client here, {FIGURE_LATENCY} s per round trip, "
        "and HyFDCA's encryption: with the paper's times of Paillier, all clients one "
        "after another, and with Paillier and BFV as measured here, clients side by "
        "side. The scale is logarithmic.",
        panels,
    )


def time_table(study: Study, name: DataSetName) -> Table:
    """Return a table of the paper with our times beside its own."""
    schemes = [scheme.name for scheme in study.schemes]
    columns = ["setting"]
    columns += ["HyFDCA computation", "paper"]
    columns += [f"encryption: {scheme}" for scheme in schemes]
    columns += ["paper", "FedAvg computation", "paper", "HyFEM computation", "paper"]
    settings = [own for own in study.plan.settings if own.data_set == name]
    return Table(
        f"Computational and encryption times for {TITLES[name]} (seconds per round)",
        tuple(columns),
        tuple(_time_row(study, setting) for setting in settings),
        "Published Paillier is the paper's time per operation, times the operations "
        "that its text implies; its own column is what it printed, mostly less. n/a is "
        "the paper's.",
    )


def _time_row(study: Study, setting: Setting) -> tuple[str, ...]:
    own = {method: _computation(study, setting, method) for method in METHODS}
    published = ROUND_SECONDS[setting]
    theirs = {m: None if s is None else s.computation for m, s in published.items()}
    ours, run = published["hyfdca"], _run(study, setting, "hyfdca")
    encryption = [
        None if run is None else _per_round(scheme.seconds(run)[-1], run)
        for scheme in study.schemes
    ]
    return (
        setting.label,
        *(number(own["hyfdca"]), number(theirs["hyfdca"])),
        *map(number, encryption),
        number(None if ours is None else ours.encryption),
        *(number(own["fedavg"]), number(theirs["fedavg"])),
        *(number(own["hyfem"]), number(theirs["hyfem"])),
    )


def _bars(study: Study, setting: Setting) -> Iterator[Bar]:
    for method in METHODS:
        run = _run(study, setting, method)
        if run is None:
            continue
        parts = [_per_round(run.seconds[-1], run), waiting(method)]
        if method == "hyfdca":
            parts += [_per_round(own.seconds(run)[-1], run) for own in study.schemes]
        for (part, colour), seconds in zip(_PARTS.items(), parts, strict=False):
            yield Bar(LABELS[method], part, seconds, colour)


def _computation(study: Study, setting: Setting, method: Method) -> float | None:
    run = _run(study, setting, method)
    return None if run is None else _per_round(run.seconds[-1], run)


def _run(study: Study, setting: Setting, method: Method) -> SimulatedRun | None:
    return study.runs.get(RunKey(setting, method, "rounds", "paper"))


def _per_round(total: float, run: SimulatedRun) -> float:
    return float(total) / max(int(run.rounds[-1]), 1)
