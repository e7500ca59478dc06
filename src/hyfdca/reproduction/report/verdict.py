"""How often HyFDCA is ahead, ours beside the paper's 69 of 72."""

from __future__ import annotations

import math

from hyfdca.reproduction.clock import EncryptionCosts
from hyfdca.reproduction.comparisons import (
    CLOCKS,
    MEASURES,
    Comparison,
    Count,
    compare_finals,
    counts_by_clock,
)
from hyfdca.reproduction.paper import (
    DIAGONAL,
    METHODS,
    WON,
    WON_IN_ALL,
    Measure,
    Setting,
)
from hyfdca.reproduction.plan import Source
from hyfdca.reproduction.report.curves import (
    LABELS,
    SOURCES,
    WHOSE,
    setting_title,
)
from hyfdca.reproduction.report.tables import Table, number
from hyfdca.reproduction.views import Study, bundle_view, finals_of

MEASURED: dict[Measure, str] = {"loss": "relative loss", "accuracy": "accuracy"}


def comparisons_of(
    study: Study, source: Source, encryption: EncryptionCosts, settings: list[Setting]
) -> list[Comparison]:
    """Return all comparisons of some settings."""
    return compare_finals(finals_of(study, source, encryption), settings)


def count_table(study: Study) -> Table:
    """Return the counts, by hyperparameters, clock and settings."""
    rows = [
        (
            "published result",
            f"the paper's {len(DIAGONAL)}",
            study.schemes[0].name,
            *(f"{won} of {made}" for won, made in WON.values()),
            "{} of {}".format(*WON_IN_ALL),
        )
    ]
    for source in study.sources:
        shown = study.plan.shown
        which = f"{len(shown)} of its {len(DIAGONAL)}"
        rows += _count_rows(study, source, shown, which)
    if "paper" in study.sources:
        every = study.plan.settings
        rows += _count_rows(study, "paper", every, f"all {len(every)}")
    return Table(
        "Comparisons that HyFDCA wins",
        (
            "hyperparameters",
            "settings",
            "encryption",
            "equal rounds",
            "equal time",
            "in all",
        ),
        tuple(rows),
        "A comparison is a setting, a rival, a clock and a measure (lower final loss, "
        "or higher final accuracy); ties are not won. In equal time computation, "
        "latency and encryption all count; the paper's own runs ended by computation "
        "alone. A method is not run where all trials of its tuning diverged.",
        n_words=3,
    )


def _count_rows(
    study: Study, source: Source, settings: list[Setting], which: str
) -> list[tuple[str, ...]]:
    rows = []
    for scheme in study.schemes:
        made = comparisons_of(study, source, scheme, settings)
        counts = [*counts_by_clock(made).values(), Count.of(made)]
        texts = (_count(count) for count in counts)
        rows.append((WHOSE[source], which, scheme.name, *texts))
    return rows


def lost_table(study: Study, source: Source, encryption: EncryptionCosts) -> Table:
    """Return the comparisons that were not won."""
    made = comparisons_of(study, source, encryption, study.plan.shown)
    rows = [
        (
            setting_title(lost.setting),
            LABELS[lost.rival],
            "equal rounds" if lost.clock == "rounds" else "equal time",
            MEASURED[lost.measure],
            _final(lost.ours),
            _final(lost.theirs),
        )
        for lost in made
        if lost.is_won is False
    ]
    return Table(
        f"Not won, {SOURCES[source]}, encryption: {encryption.name}",
        ("setting", "rival", "clock", "measure", "HyFDCA", "rival's"),
        tuple(rows),
        "" if rows else "All were won.",
        n_words=4,
    )


def final_table(study: Study, source: Source, encryption: EncryptionCosts) -> Table:
    """Return the final loss and accuracy of all runs."""
    finals = finals_of(study, source, encryption)
    names = [LABELS[method] for method in METHODS]
    columns = ["setting"]
    for clock in CLOCKS:
        words = "equal rounds" if clock == "rounds" else "equal time"
        for measure in MEASURES:
            columns += [f"{name}: {MEASURED[measure]}, {words}" for name in names]
        columns += [f"bundle: {MEASURED['loss']}, {words}"]
    settings = study.plan.settings if source == "paper" else study.plan.shown
    rows = []
    for setting in settings:
        row = [f"{setting.data_set} {setting.label}"]
        for clock in CLOCKS:
            own = [finals.get((setting, method, clock)) for method in METHODS]
            row += [_final(final.loss if final else None) for final in own]
            row += [_final(final.accuracy if final else None) for final in own]
            bundle = bundle_view(study, setting, clock)
            row.append(_final(bundle.final.loss if bundle else None))
        rows.append(tuple(row))
    return Table(
        f"Final relative loss and accuracy, {SOURCES[source]}, "
        f"encryption: {encryption.name}",
        tuple(columns),
        tuple(rows),
    )


def _count(count: Count) -> str:
    missing = f" ({count.n_missing} not run)" if count.n_missing else ""
    return f"{count.n_won} of {count.n_made}{missing}"


def _final(value: float | None) -> str:
    if value is not None and not math.isfinite(value):
        return "diverged"
    return number(value)
