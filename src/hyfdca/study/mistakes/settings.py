"""Refuses settings of a study file that contradict each other or have unknown names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from hyfdca.data.csv_form import is_delimiter, is_encoding
from hyfdca.errors import StudyError, as_study_error
from hyfdca.study.tuning import check_tuning
from hyfdca.study.values import without_controls

if TYPE_CHECKING:  # the study file is checked while it is read
    from hyfdca.study.file import Client, Evaluation, Study, StudyFile


def check_settings(file: StudyFile, path: Path) -> None:
    """Check what the study file alone shows.

    Raises
    ------
    StudyError
        The message names the path.
    """
    _check_names(path, file)
    _check_quorum(path, file)
    _check_uncovered(path, file.study)
    _check_holdout(path, file.evaluation)
    _check_folds(path, file)
    as_study_error(
        lambda: check_tuning(f"The study file {path}", file.study, file.tuning)
    )
    _check_curves(path, file)
    for client in file.clients:
        _check_labels_visible(file.study, client)
    _check_encodings(path, file)
    _check_delimiters(path, file)


def _check_names(path: Path, file: StudyFile) -> None:
    """Refuse names that a terminal would interpret, and duplicate organisations."""
    names = [client.name for client in file.clients]
    for name in (file.study.name, *names):
        if name != without_controls(name):
            raise StudyError(
                f"The study file {path} has the name {name!r}, which cannot be "
                "printed; use letters, digits and signs."
            )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise StudyError(
            f"The study file {path} names the organisation {repeated[0]!r} more than "
            "once; give each its own name."
        )


def _check_quorum(path: Path, file: StudyFile) -> None:
    quorum, n_clients = file.study.quorum, len(file.clients)
    if quorum != "all" and quorum > n_clients:
        raise StudyError(
            f"The study file {path} sets a quorum of {quorum} but has {n_clients} "
            f'organisations; set quorum = "all", or at most {n_clients}.'
        )


def _check_uncovered(path: Path, study: Study) -> None:
    """Refuse a filling that contradicts what scaling makes of uncovered cells."""
    if study.uncovered == "zero" and study.scale == "standard":
        raise StudyError(
            f'The study file {path} sets uncovered = "zero", but scale = "standard" '
            'centres features; set uncovered = "mean", or scale = "maxabs" or "none".'
        )


def _check_holdout(path: Path, evaluation: Evaluation) -> None:
    if evaluation.holdout and evaluation.holdout_column is not None:
        raise StudyError(
            f"The study file {path} sets both holdout and holdout_column; remove one "
            "of them."
        )


def _check_folds(path: Path, file: StudyFile) -> None:
    """Refuse several l2 without folds, and folds without several l2."""
    l2, folds = file.study.l2, file.evaluation.folds
    if isinstance(l2, list) and len(set(l2)) < len(l2):
        raise StudyError(
            f"The study file {path} has the same l2 twice; give different ones."
        )
    if isinstance(l2, float) == (folds is None):
        _check_choice(path, file)
        return
    if folds is None:
        raise StudyError(
            f"The study file {path} leaves l2 to be chosen, which needs folds; write "
            "folds = 5 in a table [evaluation], or give one l2."
        )
    raise StudyError(
        f"The study file {path} has folds, but one l2; give l2 as a list to choose "
        'from, such as [1e-4, 1e-3, 1e-2], or as "auto", or leave folds out.'
    )


def _check_choice(path: Path, file: StudyFile) -> None:
    """Refuse a rule of choice where nothing is chosen."""
    choice = file.evaluation.choice
    if file.evaluation.folds is None and choice != "best":
        raise StudyError(
            f'The study file {path} has choice = "{choice}", but one l2; give l2 as a '
            'list or as "auto" and add folds = 5, or leave choice out.'
        )


def _check_curves(path: Path, file: StudyFile) -> None:
    """Refuse curves without rows set aside, without one model, or never measured."""
    every, measured = file.evaluation.curves, file.study.measure_every
    if every is None:
        return
    if not file.evaluation.rule:
        raise StudyError(
            f"The study file {path} has curves, but sets no rows aside; add holdout = "
            "0.2 to the table [evaluation], or leave curves out."
        )
    if not isinstance(file.study.l2, float):
        raise StudyError(
            f"The study file {path} has curves, but leaves l2 to be chosen, so that "
            "there is no one model to draw them of; give one l2, or leave curves out."
        )
    if every % measured:
        raise StudyError(
            f"The study file {path} sets curves = {every}, but measures every "
            f"{measured} rounds; make curves a multiple of measure_every."
        )


def _check_labels_visible(study: Study, client: Client) -> None:
    if client.label or study.labels_visible_to_holders:
        return
    raise StudyError(
        f"Organisation {client.name!r} has no labels, but the duals of its rows would "
        "tell it these labels or something about them; set labels_visible_to_holders = "
        "true if all organisations agree."
    )


def _check_encodings(path: Path, file: StudyFile) -> None:
    for encoding in (file.study.encoding, *(own.encoding for own in file.clients)):
        if encoding is not None and not is_encoding(encoding):
            raise StudyError(
                f"The study file {path} names the encoding {encoding!r}, which is "
                'unknown; use "utf-8", "cp1252" or another that Python knows.'
            )


def _check_delimiters(path: Path, file: StudyFile) -> None:
    for delimiter in (file.study.delimiter, *(own.delimiter for own in file.clients)):
        if delimiter is not None and not is_delimiter(delimiter):
            raise StudyError(
                f"The study file {path} sets delimiter = {delimiter!r}, which is not a "
                "printable ASCII character or a tab; save the tables with another, "
                'such as ";".'
            )
