"""Checks of an organisation's table and kit against the study, before going online."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from cryptography import x509

from hyfdca.data.labels import Task, encode_numbers
from hyfdca.data.tables import Table
from hyfdca.data.target_columns import is_labelled, is_left_out, known_labels
from hyfdca.errors import StudyError, plain_errors
from hyfdca.kits import tls
from hyfdca.kits.expiry import expiry_warnings, require_valid
from hyfdca.kits.kit import ClientKit, read_certificate, read_client_kit
from hyfdca.kits.policy import is_strict_client
from hyfdca.stages.alignment.checks import refusal
from hyfdca.stages.alignment.own_checks import own_refusal
from hyfdca.study.file import Client, StudyFile, load
from hyfdca.study.identity import make_roster, study_fingerprint, study_hash
from hyfdca.study.kind_notes import kind_word
from hyfdca.study.plan import alignment_settings, plan_of
from hyfdca.study.tables import data_of, table_of


@dataclass(frozen=True)
class FeatureFacts:
    """What an organisation has in a column; NaN where all cells are blank.

    Parameters
    ----------
    smallest, largest : float
        Extremes of the numbers that cells become; levels of a category count from 1.
    what : str
        The kind of the column, and how it is used.
    n_levels : int or None
        The number of levels of a category.
    """

    name: str
    smallest: float
    largest: float
    n_missing: int
    what: str = "number"
    n_levels: int | None = None

    @property
    def is_constant(self) -> bool:
        """Whether there is a single value in all rows, or none at all."""
        return not self.smallest < self.largest


@dataclass(frozen=True)
class CheckedTable:
    """What an organisation should know about its own table."""

    n_rows: int
    labels: str
    n_missing: int
    features: tuple[FeatureFacts, ...]
    notes: tuple[str, ...] = ()
    n_without_label: int = 0  # of its own; 0 if it has no labels at all
    n_without_weight: int = 0  # but with a label


@dataclass(frozen=True)
class CheckedKit:
    """The numbers that people compare, and how long the kit is valid."""

    study_fingerprint: str
    key_fingerprint: str
    root_fingerprint: str
    certificate: x509.Certificate


@dataclass(frozen=True)
class Checked:
    """A table that fits the study, as far as one organisation can tell.

    Parameters
    ----------
    kit : CheckedKit or None
        None before the organisation has a kit.
    """

    name: str
    study: str
    table: CheckedTable
    warnings: tuple[str, ...]
    kit: CheckedKit | None = None


def check(kit: Path, data: Path) -> Checked:
    """Check a kit and a table against the study.

    Raises
    ------
    StudyError
        If the organisation could not take part with them.
    """
    with plain_errors(kit):
        return _check(kit, data)


def _check(kit: Path, data: Path) -> Checked:
    own = read_client_kit(kit)
    make_roster(
        own.content,
        {client.name: client.public_key for client in own.file.clients},
        own.file.study.key_epoch,
    )
    certificate = check_certificate(own)
    checked = _checked(own.file, own.client, data)
    _check_policy(own, checked.table)
    made = CheckedKit(
        study_fingerprint(own.content),
        own.identity.public.fingerprint,
        tls.fingerprint(read_certificate(own.flare, "rootCA")),
        certificate,
    )
    warnings = (*checked.warnings, *_kit_warnings(own))
    return replace(checked, kit=made, warnings=warnings)


def check_without_kits(
    study: Path, name: str | None, data: Path | None
) -> list[Checked]:
    """Check tables against a study file, before there are kits.

    Parameters
    ----------
    name : str or None
        The organisation; by default all, with the tables that the study file names.
    data : Path or None
        Its table; by default the one that the study file names.

    Raises
    ------
    StudyError
        If a table does not fit.
    """
    file = load(study)
    if name is None and data is not None:
        raise StudyError("Give --client too, the organisation whose table --data is.")
    chosen = [client for client in file.clients if name in (None, client.name)]
    if not chosen:
        known = ", ".join(repr(client.name) for client in file.clients)
        raise StudyError(
            f"The study file {study} has no organisation {name!r}; its organisations "
            f"are {known}."
        )
    return [
        _checked(file, client, data or study.parent / data_of(client))
        for client in chosen
    ]


def _checked(file: StudyFile, client: Client, data: Path) -> Checked:
    table = _table(file, client, data)
    return Checked(client.name, file.study.name, table, tuple(_warnings(table)))


def _check_policy(own: ClientKit, table: CheckedTable) -> None:
    """Refuse what the organisation's own policy will refuse in any case."""
    own.policy.check_names([feature.name for feature in table.features])
    own.policy.check_rows(table.n_rows)
    # There may be more outputs, which follow from the classes of all.
    own.policy.check_rounds(plan_of(own.file, study_hash(own.content)), n_outputs=1)


def check_certificate(own: ClientKit) -> x509.Certificate:
    """Return an organisation's certificate, if it is the right one and still valid.

    Raises
    ------
    StudyError
    """
    certificate = read_certificate(own.flare, "client")
    root = read_certificate(own.flare, "rootCA")
    name = tls.common_name(certificate)
    if name != own.client.name or not tls.is_issued_by(certificate, root):
        raise StudyError(
            f"The certificate in {own.flare} is not that of {own.client.name!r}; "
            "reinstall the package."
        )
    require_valid(own)
    return certificate


def checked_table(file: StudyFile, client: Client, data: Path) -> Table:
    """Return an organisation's table, if it fits the study as far as it can tell.

    Raises
    ------
    StudyError
    """
    settings = alignment_settings(file)
    table = table_of(file.study, client, data, file.evaluation)
    refused = own_refusal(table, settings)
    if refused is not None:
        raise StudyError(str(refusal(client.name, refused, settings)))
    return table


def _table(file: StudyFile, client: Client, data: Path) -> CheckedTable:
    study, table = file.study, checked_table(file, client, data)
    return CheckedTable(
        len(table.ids),
        _labels(table, alignment_settings(file).task),
        table.n_missing,
        _features(table, study.date_origin),
        table.notes,
        0 if table.labels is None else int(np.sum(~is_labelled(table))),
        int(np.sum(is_left_out(table))),
    )


def _labels(table: Table, task: Task) -> str:
    labels = known_labels(table)
    if not labels:
        return "none"
    if task == "regression":
        values = encode_numbers(labels)[0]
        return f"{values.min():g} to {values.max():g}"
    most = Counter(labels).most_common()
    shown = ", ".join(f"{name!r} {count}" for name, count in most[:5])
    return shown + (f" and {len(most) - 5} more classes" if len(most) > 5 else "")


def _features(table: Table, origin: datetime.date) -> tuple[FeatureFacts, ...]:
    """Return what is in each column."""
    cells, n_features = table.cells, len(table.features)
    smallest, largest = (
        extreme.toarray().ravel().tolist()
        for extreme in (cells.nanmin(axis=0), cells.nanmax(axis=0))
    )
    blank = cells.indices[np.isnan(cells.data)]
    n_missing = np.bincount(blank, minlength=n_features).tolist()
    words = [kind_word(table.kind_of(c), origin) for c in range(n_features)]
    sizes = {name: len(levels) for name, levels in table.levels.items()}
    n_levels = map(sizes.get, table.features)
    facts = (table.features, smallest, largest, n_missing, words, n_levels)
    return tuple(FeatureFacts(*own) for own in zip(*facts, strict=True))


def _warnings(table: CheckedTable) -> Iterator[str]:
    yield from table.notes
    if any(own.is_constant for own in table.features):
        yield "Constant columns carry no information here; elsewhere they may vary."


def _kit_warnings(own: ClientKit) -> Iterator[str]:
    yield from expiry_warnings(own)
    if not is_strict_client(own.flare):
        yield (
            "The kit's settings in flare/local are no longer strict; reinstall the kit."
        )
