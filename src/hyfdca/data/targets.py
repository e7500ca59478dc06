"""What rows are trained towards: their labels, weights and offsets, as numbers.

A row is *known* to a client that has its label, with a weight above 0. A row of weight
0 is as if it were not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hyfdca.arrays import BoolArray, FloatArray, IntArray
from hyfdca.data.labels import class_numbers, encode_numbers, signs_of
from hyfdca.data.tables import Table, TableError

ClassWeight = Literal["balanced"] | Mapping[str, float]

_LARGEST = 1e100  # as of cells: sums and products stay finite


@dataclass(frozen=True)
class TargetSettings:
    """What a study says of labels, weights and offsets; each party has its own copy.

    Parameters
    ----------
    has_weights, has_offsets : bool
        Whether clients with labels have columns of them too; all of them or none.
    class_weight : "balanced", mapping of class names to weights, or None
        A class that the mapping does not name has the weight 1.
    labels_visible : bool
        Whether a client may learn labels that it does not have, of rows that it holds.
    """

    has_weights: bool = False
    has_offsets: bool = False
    class_weight: ClassWeight | None = None
    labels_visible: bool = False

    @property
    def n_columns(self) -> int:
        """How many numbers a row has: its label, and what else the study has."""
        return 1 + self.has_weights + self.has_offsets

    @property
    def is_balanced(self) -> bool:
        """Whether classes are weighted by how rare they are."""
        return self.class_weight == "balanced"

    @property
    def is_weighted(self) -> bool:
        """Whether samples may have other weights than 1."""
        return self.has_weights or self.class_weight is not None

    @property
    def needs_totals(self) -> bool:
        """Whether a client needs sums over the rows of others."""
        return self.has_weights or self.is_balanced

    @property
    def what(self) -> str:
        """What holders of a row must agree on, in words."""
        words = ["labels", *["weights"] * self.has_weights]
        words += ["offsets"] * self.has_offsets
        return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


@dataclass(frozen=True, repr=False)
class Targets:
    """A client's labels, weights and offsets by row; without a repr.

    Parameters
    ----------
    values : array (rows, columns)
        The label (the number of a class, or of a regression; NaN if it is not known),
        then the weight and the offset as far as the study has them.
    n_classes : int
        0 for a regression.
    """

    values: FloatArray
    n_classes: int
    settings: TargetSettings

    @property
    def is_known(self) -> BoolArray:
        """Whether the label of each row is known."""
        return np.asarray(~np.isnan(self.values[:, 0]))

    @property
    def weights(self) -> FloatArray | None:
        """The weight of each row; None if all count once."""
        return self.values[:, 1] if self.settings.has_weights else None

    @property
    def offsets(self) -> FloatArray | None:
        """The offset of each row; None without a column of them."""
        return self.values[:, -1] if self.settings.has_offsets else None

    @property
    def classes(self) -> IntArray:
        """The number of each row's class; 0 for a regression."""
        if not self.n_classes:
            return np.zeros(len(self.values), np.int64)
        return self.values[:, 0].astype(np.int64)

    @property
    def encoded(self) -> FloatArray:
        """Labels as losses take them: signs of classes or numbers, (rows, outputs)."""
        if not self.n_classes:
            return self.values[:, :1]
        return signs_of(self.classes, self.n_classes)

    def of_rows(self, rows: IntArray) -> Targets:
        """Return those of some rows."""
        return replace(self, values=self.values[rows])

    def completed(self, rows: IntArray, values: FloatArray) -> Targets:
        """Return the targets with those of some rows replaced.

        Raises
        ------
        ValueError
            If the values cannot be targets of this study.
        """
        every = self.values.copy()
        every[rows] = values
        completed = replace(self, values=every)
        if not completed._is_possible(rows):
            raise ValueError("these cannot be labels, weights or offsets of the study")
        return completed

    def _is_possible(self, rows: IntArray) -> bool:
        """Return whether the values of some rows are of the study's kinds."""
        values = self.values[rows]
        if not np.all(np.isfinite(values)):
            return False
        labels = values[:, 0]
        if self.n_classes and not np.all(np.isin(labels, np.arange(self.n_classes))):
            return False
        return self.weights is None or bool(np.all(self.weights[rows] > 0.0))


@dataclass(frozen=True, repr=False)
class SampleLosses:
    """What the losses of a client's samples are made of; without a repr.

    Parameters
    ----------
    labels : array (samples held, n_outputs) or None
    weights, offsets : arrays (samples held, n_outputs) or None
        Weights have the mean 1 over all samples before classes are weighted. None
        stands for 1 and for 0 everywhere. Clients without labels have weights alone.
    """

    labels: FloatArray | None
    weights: FloatArray | None = None
    offsets: FloatArray | None = None


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
    """Return a text of each row's label, weight and offset, equal if all are."""
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


def class_weights(
    given: ClassWeight | None, classes: Sequence[str], totals: FloatArray | None
) -> FloatArray | None:
    """Return the weight of each class; None if none is weighted.

    Parameters
    ----------
    totals : array (classes,) or None
        The weights of all rows, added up by class; needed for "balanced", where rare
        classes count as much as frequent ones.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        return np.array([given.get(name, 1.0) for name in classes])
    if totals is None:
        raise ValueError("the weight of no class is known")
    balanced: FloatArray = totals.sum() / (len(totals) * totals)
    return balanced


# Columns of a file


def check_weights(file: str, column: str, table: Table) -> None:
    """Refuse weights that are blank, negative, too large or all zero.

    Raises
    ------
    TableError
    """
    if table.weights is None:
        return
    weights = table.weights[is_labelled(table)]
    _refuse_blank(file, f"weight_column {column!r}", weights)
    bad = (weights < 0.0) | (weights > _LARGEST)
    if bad.any():
        raise TableError(
            f"{bad.sum()} rows of {file} have a weight that is negative or beyond "
            f"{_LARGEST} in the weight_column {column!r}; weights are numbers from 0"
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
    _refuse_blank(file, f"offset_column {column!r}", offsets)
    bad = np.abs(offsets) > _LARGEST
    if bad.any():
        raise TableError(
            f"{bad.sum()} rows of {file} have an offset beyond {_LARGEST} in the "
            f"offset_column {column!r}; correct them"
        )


def _refuse_blank(file: str, column: str, numbers: FloatArray) -> None:
    n_blank = int(np.isnan(numbers).sum())
    if n_blank:
        raise TableError(
            f"{n_blank} rows of {file} have nothing in the {column}; fill it, with 1 "
            "for a usual weight or 0 for no offset, or remove the key from the study"
        )
