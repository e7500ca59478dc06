"""Tables of organisations, read as their study specifies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hyfdca.data.csv_form import CsvForm
from hyfdca.data.readers import read_table
from hyfdca.data.tables import (
    Columns,
    MissingColumnsError,
    Table,
    TableError,
    normalised,
)
from hyfdca.errors import StudyError, counted
from hyfdca.study.file import Client, Evaluation, Study
from hyfdca.study.roles import roles_of


def common_columns(study: Study, client: Client) -> Columns:
    """Return how an organisation's files are read, to train and to predict."""
    roles = roles_of(study, client)
    return Columns(
        id=roles.id,
        label=roles.label,
        offset=roles.offset,
        rows_by_order=study.rows == "by order",
        csv=CsvForm(
            client.encoding or study.encoding,
            client.delimiter or study.delimiter,
            client.decimal or study.decimal,
        ),
    )


def table_of(
    study: Study,
    client: Client,
    path: Path,
    evaluation: Evaluation = Evaluation(),  # noqa: B008  # it is immutable
) -> Table:
    """Read one organisation's table, as the study specifies.

    Raises
    ------
    StudyError
    """
    column = evaluation.holdout_column
    columns = replace(
        common_columns(study, client),
        features=tuple(map(normalised, client.features)) if client.features else None,
        has_label=client.label,
        ignored=tuple(map(normalised, client.ignore)),
        ignored_if_present=tuple(map(normalised, study.ignore)),
        weight=roles_of(study, client).weight,
        holdout=None if column is None else normalised(column),
        categorical=tuple(map(normalised, study.categorical)),
        text_is_category=True,
        date_origin=study.date_origin,
    )
    try:
        table = read_table(path, columns)
    except TableError as error:
        hint = _hint(error, columns)
        raise StudyError(f"Organisation {client.name!r}: {error}{hint}.") from None
    is_final = study.blank_cells == "refuse"  # otherwise others may have the values
    if study.missing == "refuse" and is_final and table.n_missing:
        raise StudyError(
            f"Organisation {client.name!r} has "
            f"{counted(table.n_missing, 'missing cell')} in {path.name}, the first in "
            f'column {table.first_missing!r}; fill them, set missing = "mean" (the '
            'default is "refuse"), or blank_cells = "share" if other organisations '
            "have them and all agree to share such values."
        )
    if study.scale == "standard" and not table.is_dense:
        raise StudyError(
            f"Organisation {client.name!r} has a sparse table, which scale = "
            '"standard" would make dense by centring features; set scale = "maxabs" or '
            '"none".'
        )
    if study.uncovered == "mean" and not table.is_dense:
        raise StudyError(
            f"Organisation {client.name!r} has a sparse table, which uncovered = "
            '"mean" would make dense by centring features; set uncovered = "zero".'
        )
    if evaluation.rule and evaluation.rule.is_held_out(table).all():
        raise StudyError(
            f"Organisation {client.name!r} has {counted(len(table.ids), 'row')} in "
            f"{path.name}, and [evaluation] sets all of them aside; leave it rows to "
            "train on, with a smaller holdout or with 0 in the holdout_column."
        )
    return table


def _hint(error: TableError, columns: Columns) -> str:
    """Return further advice about a table that lacks a column."""
    if not isinstance(error, MissingColumnsError):
        return ""
    if error.key == "ignore":
        return ", or use ignore in [study] for columns that only some tables have"
    if columns.label in error.columns:
        return ", or write label = false below its name if it has no labels"
    return ""


def data_of(client: Client) -> str:
    """Return the path of an organisation's table in the study file."""
    if client.data is None:
        raise StudyError(
            f"Organisation {client.name!r} has no data in the study file; add the path "
            "of its table, or let it take part from its own machine."
        )
    return client.data
