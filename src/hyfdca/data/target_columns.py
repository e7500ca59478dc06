"""Labels, weights and offsets as columns of a table, and which rows have them.

A row is *known* to a client that has its label, with a weight above 0. A row of weight
0 counts as absent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hyfdca.arrays import BoolArray
from hyfdca.data.labels import class_numbers, encode_numbers
from hyfdca.data.tables import Table, TableError
from hyfdca.data.targets import Targets, TargetSettings, in_single_precision
from hyfdca.errors import counted

_LARGEST = 1e100  # as of cells: sums and products stay finite


def is_labelled(table: Table) -> BoolArray:
    """Return whether each row has a label, whatever its weight."""
    if table.labels is None:
        return np.zeros(len(table.ids), dtype=bool)
    return np.fromiter(map(bool, table.labels), np.bool_, len(table.labels))


def is_left_out(table: Table) -> BoolArray:
    """Return whether each row has a label, but the weight 0."""
    if table.weights is None:
        return np.zeros(len(table.ids), dtype=bool)
    return np.asarray(is_labelled(table) & (table.weights == 0.0))


def is_known(table: Table) -> BoolArray:
    """Return whether each row has a label and a weight above 0."""
    return is_labelled(table) & ~is_left_out(table)


def known_labels(table: Table) -> list[str]:
    """Return the labels of the rows that are known."""
    rows = np.flatnonzero(is_known(table)).tolist()
    return [] if table.labels is None else [table.labels[row] for row in rows]


def target_texts(table: Table) -> Sequence[str]:
    """Return a text for each row's label, weight and offset: equal if all three are."""
    labels = table.labels or ()
    columns = [c for c in (table.weights, table.offsets) if c is not None]
    if not columns:
        return labels
    numbers = np.column_stack(columns) + 0.0  # one zero for both
    # Numbers first, since a label may be any text.
    return [
        " ".join([*map(float.hex, row), label])
        for row, label in zip(numbers.tolist(), labels, strict=True)
    ]


def texts_by_column(table: Table, is_number: bool, is_single: bool) -> list[list[str]]:
    """Return texts of labels, of weights and of offsets, equal if the values are.

    Parameters
    ----------
    is_number : bool
        Whether labels are numbers; otherwise they are classes.
    is_single : bool
        Whether numbers that are equal in single precision have equal texts.
    """
    labels = table.labels or ()
    label = encode_numbers(labels)[0][:, 0] if is_number else None
    texts = [list(labels)] if label is None else []
    for column in (label, table.weights, table.offsets):
        if column is not None:
            values = in_single_precision(column) if is_single else column
            texts.append(list(map(float.hex, (values + 0.0).tolist())))
    return texts


def targets_of(
    table: Table,
    classes: Sequence[str],
    positive: str | None,
    settings: TargetSettings,
) -> Targets:
    """Return a client's targets, in the order of its table.

    Parameters
    ----------
    classes : sequence of str
        Those of the study; empty for a regression.
    positive : str or None
        With it, all other labels are the first class.
    """
    labels = table.labels or ()
    if classes:
        numbers = class_numbers(labels, classes, positive).astype(np.float64)
    else:
        numbers = encode_numbers(labels)[0][:, 0]
    beside = (table.weights, table.offsets)
    wanted = (settings.has_weights, settings.has_offsets)
    chosen = [column for column, has in zip(beside, wanted, strict=True) if has]
    columns = [column for column in chosen if column is not None]
    if len(columns) < len(chosen):
        raise ValueError("a table lacks the weights or offsets of its study")
    values = np.column_stack([numbers, *columns])
    values[~is_known(table)] = np.nan
    return Targets(values, len(classes), settings)


def check_weights(file: str, column: str, table: Table) -> None:
    """Refuse weights that are blank, negative, too large or all zero.

    Raises
    ------
    TableError
    """
    if table.weights is None:
        return
    weights = table.weights[is_labelled(table)]
    n_blank = int(np.isnan(weights).sum())
    if n_blank:
        raise TableError(
            f"{file} has {counted(n_blank, 'row')} with a label but nothing in the "
            f"weight_column {column!r}; fill it, with 1 for a row that counts once and "
            "0 for one to leave out"
        )
    bad = (weights < 0.0) | (weights > _LARGEST)
    if bad.any():
        raise TableError(
            f"{file} has {counted(int(bad.sum()), 'row')} with a weight that is "
            f"negative or beyond {_LARGEST} in the weight_column {column!r}; weights "
            "are numbers from 0"
        )
    if len(weights) and not weights.any():
        raise TableError(
            f"all {len(weights)} rows of {file} with a label have the weight 0 in the "
            f"weight_column {column!r}; give some rows a weight above 0"
        )


def check_offsets(file: str, column: str, table: Table, needs_all: bool) -> None:
    """Refuse offsets that are blank or too large.

    Parameters
    ----------
    needs_all : bool
        Whether rows without a label need an offset too.

    Raises
    ------
    TableError
    """
    if table.offsets is None:
        return
    offsets = table.offsets if needs_all else table.offsets[is_labelled(table)]
    n_blank = int(np.isnan(offsets).sum())
    if n_blank:
        raise TableError(
            f"{file} has {counted(n_blank, 'row')} with nothing in the offset_column "
            f"{column!r}; fill it, with 0 for a row without an offset"
        )
    bad = np.abs(offsets) > _LARGEST
    if bad.any():
        raise TableError(
            f"{file} has {counted(int(bad.sum()), 'row')} with an offset beyond "
            f"{_LARGEST} in the offset_column {column!r}; correct them"
        )
