"""How often HyFDCA is ahead, ours beside the paper's 69 of 72."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hyfdca.pages.tables import Table, number
from hyfdca.reproduction.clock import EncryptionCosts
from hyfdca.reproduction.comparisons import (
    MEASURES,
    Comparison,
    Count,
    Final,
    compare_finals,
    counts_by_clock,
)
from hyfdca.reproduction.paper import (
    DIAGONAL,
    METHODS,
    WON,
    WON_IN_ALL,
    Clock,
    Measure,
    Method,
    Setting,
)
from hyfdca.reproduction.plan import Source
from hyfdca.reproduction.report.curves import (
    LABELS,
    SOURCES,
    WHOSE,
    setting_title,
)
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


def final_table(
    study: Study, source: Source, encryption: EncryptionCosts, clock: Clock
) -> Table:
    """Return the final loss and accuracy of all runs that end by a clock."""
    finals = finals_of(study, source, encryption)
    settings = study.plan.settings if source == "paper" else study.plan.shown
    rows = []
    for setting in settings:
        own = {m: finals.get((setting, m, clock)) for m in METHODS}
        bundle = bundle_view(study, setting, clock)
        every = [*own.values(), bundle.final if bundle else None]
        rows.append(
            (
                setting_title(setting),
                _lowest(own),
                *(_final(final.loss if final else None) for final in every),
                *(_final(final.accuracy if final else None) for final in every),
            )
        )
    names = [*(LABELS[method] for method in METHODS), "bundle"]
    ends = {"rounds": "equal rounds", "seconds": f"equal time with {encryption.name}"}
    return Table(
        f"Final relative loss and accuracy, {SOURCES[source]}, {ends[clock]}",
        (
            "setting",
            "lowest loss of the three",
            *(f"{name}: {MEASURED[measure]}" for measure in MEASURES for name in names),
        ),
        tuple(rows),
        "n/a: not run, as all trials of its tuning diverged."
        if source == "tuned"
        else "",
        n_words=2,
    )


def _lowest(finals: Mapping[Method, Final | None]) -> str:
    """Return the method of the paper with the lowest final loss."""
    losses = {m: final.loss for m, final in finals.items() if final is not None}
    return LABELS[min(losses, key=losses.__getitem__)] if losses else "n/a"


def _count(count: Count) -> str:
    missing = f" ({count.n_missing} not run)" if count.n_missing else ""
    return f"{count.n_won} of {count.n_made}{missing}"


def _final(value: float | None) -> str:
    if value is not None and not math.isfinite(value):
        return "diverged"
    return number(value)
