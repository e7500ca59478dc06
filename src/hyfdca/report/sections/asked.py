"""What was asked, and by whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from hyfdca.pages.elements import Html, folded
from hyfdca.pages.tables import Table, as_html
from hyfdca.report.card import Card
from hyfdca.report.numbers import ABSENT
from hyfdca.report.sections import UNKNOWN, Section, facts, note
from hyfdca.study.about import About
from hyfdca.study.file import Evaluation, Study
from hyfdca.study.tuning import Change

_MOST_TEXT = 300  # characters of a setting


def asked(card: Card) -> Section:
    """Return what identifies the study, and its settings."""
    return Section(
        "asked",
        "What was asked, and by whom",
        "All parties had the same study file. Its fingerprint is the number that they "
        "compared; hyfdca study fingerprint shows it for a file.",
        tuple(_content(card)),
    )


def _content(card: Card) -> Iterator[Html]:
    about, model = card.about, card.model
    yield facts(
        ("Study", card.study),
        *(_who(about) if about else ()),
        *(_run(about) if about else ()),
        ("Target", model.target),
        ("Classes", ", ".join(model.classes)),
        ("Loss", _loss(card)),
        ("λ", f"{model.l2:.4g}"),
        ("Scaling", model.scale),
        ("Intercept", _intercept(card)),
        ("Algorithm", f"{card.training.algorithm} ({card.training.algorithm_reason})"),
        ("Encryption", _encryption(card)),
    )
    if about is None:
        yield note(UNKNOWN)
        return
    if any(own.key for own in about.organisations):
        rows = [(own.name, own.key or ABSENT) for own in about.organisations]
        columns = ("organisation", "fingerprint of its public key")
        yield as_html(Table("", columns, tuple(rows), n_words=2))
    if settings := tuple(_settings(about)):
        table = Table("", ("table", "key", "value"), settings, n_words=3)
        yield folded(
            "Settings of the study file that are not the default",
            as_html(table),
            is_printed=True,
        )


def _run(about: About) -> Iterator[tuple[str, str]]:
    """Yield the number of the run, unless it is the only one so far."""
    if about.run == 1 and not about.changes:
        return
    changes = [
        f"{own.setting} = {own.value:g} (study file: {own.study_file:g}, allowed: "
        f"{own.least:g} to {own.most:g})"
        for own in about.changes
    ]
    yield "Run", ", ".join([f"{about.run} of the study", *changes])


def _who(about: About) -> Iterator[tuple[str, str]]:
    yield "Fingerprint of its file", about.fingerprint or "none: trained without a file"
    if about.is_rehearsal is not None:
        alone = "in one process, as a rehearsal"
        yield "Where", alone if about.is_rehearsal else "between machines"
    yield "Finished", f"{about.finished:%d %B %Y, %H:%M %Z}"
    software = (
        f"hyfdca {about.hyfdca}, protocol {about.protocol}, Python {about.python}"
    )
    yield "Software", software


def _loss(card: Card) -> str:
    model = card.model
    if model.loss_parameter is None:
        return model.loss
    text = f"{model.loss}, loss_parameter {model.loss_parameter:g}"
    own = model.loss_parameter_in_units
    return text if own is None else f"{text} = {own:,.4g} in units of the target"


def _intercept(card: Card) -> str:
    if not card.model.has_intercept:
        return "none"
    return "penalised" if card.model.is_intercept_penalised else "not penalised"


def _encryption(card: Card) -> str | None:
    scheme, used = card.training.encryption, set(card.training.sealed_with.values())
    if scheme is None or used <= {scheme}:
        return scheme
    return f"{scheme} (vectors sealed with {', '.join(sorted(used))})"


def _settings(about: About) -> Iterator[tuple[str, str, str]]:
    """Yield the non-default settings, as far as this version knows the defaults."""
    study: dict[str, Any] = msgspec.to_builtins(
        Study(name=str(about.settings.get("name")))
    )
    evaluation: dict[str, Any] = msgspec.to_builtins(Evaluation())
    of_file = {own.setting: _as_written(about, own) for own in about.changes}
    tables: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
        ("study", {**about.settings, **of_file}, study),
        ("algorithm", about.algorithm, {}),
        ("evaluation", about.evaluation, evaluation),
        ("tuning", about.tuning, {}),
    )
    for table, settings, defaults in tables:
        for key, value in settings.items():
            if key not in defaults or value != defaults[key]:
                text = json.dumps(value, ensure_ascii=False)
                shown = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
                yield f"[{table}]", key, shown


def _as_written(about: About, change: Change) -> float:
    """Return the file's own value of a changed setting; rounds are whole numbers."""
    is_whole = isinstance(about.settings.get(change.setting), int)
    return int(change.study_file) if is_whole else change.study_file
