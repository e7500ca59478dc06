"""The paper's tables of data, hyperparameters and central training, with ours."""

from __future__ import annotations

from dataclasses import fields

from hyfdca.maths.objective import relative_gap
from hyfdca.reproduction.paper import (
    DATA_SETS,
    HYPERPARAMETERS,
    METHODS,
    REPLACED_HYFEM_IIC,
    DataSetName,
    Hyperparameters,
)
from hyfdca.reproduction.report.curves import LABELS, TITLES, setting_title
from hyfdca.reproduction.report.tables import Table, number
from hyfdca.reproduction.views import Study

_SYMBOLS = {"iic": "IIC", "rate": "a", "rate_offset": "b", "mu": "μ"}


def data_table(study: Study) -> Table:
    """Return the paper's table of data sets."""
    rows = []
    for name in study.data_sets:
        data, facts = DATA_SETS[name], study.facts[name]
        rows.append(
            (
                TITLES[name],
                data.kind,
                f"{facts.n_samples:,} ({data.n_samples:,})",
                f"{facts.n_features:,} ({data.n_features:,})",
                f"{facts.sparsity:.3f} % ({data.sparsity} %)",
                f"{facts.n_training:,} and {facts.n_validation:,}",
                f"{study.plan.l2[name]:g} ({data.l2:g})",
            )
        )
    return Table(
        "Data sets; the paper's figures in brackets",
        (
            "set",
            "kind",
            "samples",
            "features",
            "zeros",
            "to train and to validate",
            "λ",
        ),
        tuple(rows),
        "Features of MNIST without the constant one of 10 that the paper appends. The "
        "paper's λ was chosen by validation, see the table of central models.",
    )


def hyperparameter_table(study: Study, name: DataSetName) -> Table:
    """Return what was chosen in the settings of a set."""
    columns = [
        (method, own.name)
        for method in METHODS
        for own in fields(Hyperparameters)
        if getattr(next(iter(HYPERPARAMETERS.values()))[method], own.name) is not None
    ]
    tuned = study.chosen.get("tuned", {})
    rows = []
    for setting in study.plan.settings:
        if setting.data_set != name:
            continue
        choices = [("", HYPERPARAMETERS[setting])]
        if setting in tuned:
            choices.append((", our tuning", dict(tuned[setting])))
        for whose, chosen in choices:
            values = (getattr(chosen.get(m), own, None) for m, own in columns)
            rows.append((setting.label + whose, *map(number, values)))
    replaced = [s for s in REPLACED_HYFEM_IIC if s.data_set == name]
    note = "".join(
        f"HyFEM's IIC in {setting_title(s)} was {REPLACED_HYFEM_IIC[s]} for FedAvg; "
        "the authors replaced it, since HyFEM diverged with it."
        for s in replaced
    )
    return Table(
        f"{TITLES[name]}: hyperparameters employed",
        ("setting", *(f"{LABELS[m]} {_SYMBOLS[own]}" for m, own in columns)),
        tuple(rows),
        note,
    )


def central_table(study: Study) -> Table:
    """Return the certified optima beside the paper's lowest central losses."""
    rows = []
    for name in study.data_sets:
        data, own = DATA_SETS[name], study.published_optima[name]
        rows.append(
            (
                TITLES[name],
                f"{data.l2:g}",
                f"{data.optimum} after {data.optimum_iterations:,} iterations",
                f"{own.primal:.6f}",
                f"{own.dual:.6f}",
                f"{own.relative_gap:.1e}",
                f"{own.primal - own.regulariser:.6f}",
                f"{own.accuracy:.4f}",
            )
        )
    return Table(
        "Central training: certified optima at the paper's λ",
        (
            "set",
            "λ",
            "the paper's lowest loss",
            "P",
            "D",
            "relative gap",
            "of P, mean loss",
            "validation accuracy",
        ),
        tuple(rows),
        "The optimum is between D and P, for any solver. Where the paper's figure "
        "is below D it is that of another problem (other classes, another loss, "
        "another scaling), which it does not state.",
    )


def fits_table(study: Study, name: DataSetName) -> Table:
    """Return the central models among which λ was chosen."""
    return Table(
        f"{TITLES[name]}: central models by λ",
        ("λ", "validation accuracy", "P", "relative gap"),
        tuple(
            (
                f"{fit.l2:g}",
                f"{fit.accuracy:.4f}",
                f"{fit.primal:.4f}",
                f"{max(relative_gap(fit.primal, fit.dual), 0.0):.1e}",
            )
            for fit in study.fits[name]
        ),
        f"Chosen: {study.plan.l2[name]:g}. Of all λ whose accuracy is within a "
        "standard error of the best, the paper's if it is among them, else the "
        "largest.",
    )


def bundle_table(study: Study) -> Table:
    """Return what the bundle method needs, with its certificate."""
    rows, efforts = [], study.plan.efforts
    for setting, own in study.bundles.items():
        gap = relative_gap(float(own.losses[-1]), float(own.bounds[-1]))
        rows.append(
            (
                setting_title(setting),
                f"{len(own.rounds) - 1:,}",
                f"{int(own.rounds[-1]):,}",
                f"{own.n_bytes[-1] / 1e6:,.1f}",
                number(float(own.losses[-1]), 6),
                number(float(own.bounds[-1]), 6),
                f"{gap:.1e}",
                "yes"
                if gap <= efforts[setting.data_set].bundle_gap
                else "not in these rounds",
                number(float(own.accuracies[-1])),
            )
        )
    return Table(
        "The bundle method, our default",
        (
            "setting",
            "steps",
            "rounds",
            "MB in all",
            "P",
            "D",
            "certified gap",
            "done",
            "accuracy",
        ),
        tuple(rows),
        "With everybody present a step is a round; otherwise each of its exchanges "
        "waits until every client was present once.",
    )
