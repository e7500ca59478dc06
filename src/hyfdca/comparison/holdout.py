"""Rows that are set aside before training, and how well a model predicts them.

A row that is set aside is removed at all organisations. The comparison has every table,
so it pools these rows in the clear; no organisation of a real study could.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import compress

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.data.labels import as_classes, chosen_classes, encode_numbers, r_squared
from hyfdca.data.tables import Table
from hyfdca.data.target_columns import is_known
from hyfdca.errors import StudyError
from hyfdca.holdings.axis import Axis
from hyfdca.holdings.block import append_bias, pooled_cells
from hyfdca.holdings.ownership import cell_holders
from hyfdca.maths.seeds import stream
from hyfdca.model.scaling import TargetScaling
from hyfdca.study.file import StudyFile
from hyfdca.study.local.run import LocalRun


@dataclass(frozen=True, repr=False)
class SplitTables:
    """The organisations' tables by rank: rows to train on, and rows set aside."""

    training: list[Table]
    held_out: list[Table]

    @property
    def n_held_out(self) -> int:
        """How many different rows are set aside."""
        return len({row for table in self.held_out for row in table.ids})


def set_aside(
    file: StudyFile, tables: Sequence[Table], share: float | None
) -> SplitTables:
    """Set a share of the labelled rows aside, drawn with the study's seed.

    Which rows are drawn depends on the IDs alone, not on their order or their cells.

    Parameters
    ----------
    share : float or None
        None for the rows that the study itself sets aside.

    Raises
    ------
    StudyError
        If an organisation would have no row left.
    """
    labelled = sorted({row for table in tables for row in _known_ids(table)})
    drawn: frozenset[str] = frozenset()
    if share is None:
        drawn = _held_out_ids(file, tables).intersection(labelled)
    elif share > 0.0:
        order = stream(file.study.seed, "holdout").permutation(len(labelled))
        n_drawn = max(1, round(share * len(labelled)))
        drawn = frozenset(labelled[place] for place in order[:n_drawn])
    split = SplitTables(
        [_rows_of(table, drawn, is_in=False) for table in tables],
        [_rows_of(table, drawn, is_in=True) for table in tables],
    )
    for client, table in zip(file.clients, split.training, strict=True):
        if not table.ids:
            raise StudyError(
                f"Setting {len(drawn)} rows aside leaves organisation {client.name!r} "
                "no row to train on; use a smaller --holdout, or 0."
            )
    return split


def _held_out_ids(file: StudyFile, tables: Sequence[Table]) -> frozenset[str]:
    """Return the IDs of the rows that a study sets aside."""
    rule = file.evaluation.rule
    return frozenset(
        row for table in tables for row in compress(table.ids, rule.is_held_out(table))
    )


def _rows_of(table: Table, ids: AbstractSet[str], *, is_in: bool) -> Table:
    """Return the rows whose ID is, or is not, among some."""
    wanted = [(row in ids) is is_in for row in table.ids]
    return table.of_rows(np.flatnonzero(wanted))


def _known_ids(table: Table) -> Iterator[str]:
    """Yield the IDs of rows with a label and a weight above 0."""
    return compress(table.ids, is_known(table))


@dataclass(frozen=True, repr=False)
class Validation:
    """Rows set aside, scaled as the training rows are.

    Parameters
    ----------
    X : CSR array (n_rows, n_features)
        With the bias, if there is one, as the last column.
    labels : tuple of str
    classes : tuple of str
        Empty for regression.
    offsets : array (n_rows, 1)
        Added to the margins.
    target : TargetScaling
        How targets were scaled for training.
    weights : array (n_rows,) or None
        How often each row counts, as in training; None for once.
    """

    X: sp.csr_array
    labels: tuple[str, ...]
    classes: tuple[str, ...]
    positive: str | None
    offsets: FloatArray | float = 0.0
    target: TargetScaling = field(default_factory=TargetScaling)
    weights: FloatArray | None = None

    @property
    def metric(self) -> str:
        """What the score is: accuracy for classes, R² for numbers."""
        return "accuracy" if self.classes else "R2"

    def score(self, weights: FloatArray) -> float | None:
        """Return how well a model predicts these rows.

        A label that no training row has counts as wrong. R² is None if all labels are
        equal.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # of a diverged model
            margins = self.target.scale * np.asarray(self.X @ weights) + self.offsets
        margins = margins + self.target.centre
        if not self.classes:
            values = encode_numbers(self.labels)[0][:, 0]
            return r_squared(values, margins[:, 0], self.weights)
        predicted = np.array(self.classes, dtype=object)[chosen_classes(margins)]
        wanted = as_classes(self.labels, self.classes, self.positive)
        return float(np.average(predicted == wanted, weights=self.weights))


def validation_of(run: LocalRun, held_out: Sequence[Table]) -> Validation | None:
    """Pool the rows set aside, by rank of their tables; None without rows.

    As in training, the lowest-ranked holder's cell counts, and a cell that nobody
    holds is zero.
    """
    ids = sorted({row for table in held_out for row in table.ids})
    if not ids:
        return None
    study, aligned = run.study, run.consortium.columns
    row_of = {row: number for number, row in enumerate(ids)}
    column_of = {name: place for place, name in enumerate(aligned.features)}
    rows = [_places(table.ids, row_of) for table in held_out]
    columns = [_places(table.features, column_of) for table in held_out]
    samples = Axis(len(ids), tuple(map(np.sort, rows)))
    holders = cell_holders(samples, aligned.layout.features)
    owned = [
        holders[rank].own_cells(rank).of(_in_order(table.cells, own_rows, own_columns))
        for rank, (table, own_rows, own_columns) in enumerate(
            zip(held_out, rows, columns, strict=True)
        )
    ]
    # Rows set aside have the codes of the table that they were taken from.
    each = zip(run.members, owned, strict=True)
    parts = [member.expansion.features(own) for member, own in each]
    features = run.consortium.alignment.layout.features
    X = run.scaling.apply(pooled_cells(parts, samples, features))
    if run.intercept_value is not None:
        X = append_bias(X, np.ones(len(ids), dtype=bool), run.intercept_value)
    labels, offsets, weights = _targets(held_out, row_of)
    return Validation(
        X,
        labels,
        run.consortium.classes,
        study.positive_text,
        offsets,
        run.target,
        weights,
    )


def _places(names: Sequence[str], place_of: dict[str, int]) -> IntArray:
    return np.array([place_of[name] for name in names], dtype=np.int64)


def _in_order(cells: sp.csr_array, rows: IntArray, columns: IntArray) -> sp.csr_array:
    """Return cells with rows and columns in the order of their places."""
    return sp.csr_array(cells[np.argsort(rows)][:, np.argsort(columns)])


def _targets(
    tables: Sequence[Table], row_of: dict[str, int]
) -> tuple[tuple[str, ...], FloatArray, FloatArray | None]:
    """Return each row's label, offset and weight.

    They are those of the lowest-ranked that has its label.
    """
    labels, offsets = [""] * len(row_of), np.zeros((len(row_of), 1))
    weights = np.ones(len(row_of))
    for table in reversed(tables):
        for place in np.flatnonzero(is_known(table)).tolist():
            row = row_of[table.ids[place]]
            if table.labels is not None:
                labels[row] = table.labels[place]
            if table.offsets is not None:
                offsets[row] = table.offsets[place]
            if table.weights is not None:
                weights[row] = table.weights[place]
    has_weights = any(table.weights is not None for table in tables)
    return tuple(labels), offsets, weights if has_weights else None
