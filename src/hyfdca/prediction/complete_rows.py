"""Predictions for a file whose rows have all features of a model."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from os.path import realpath
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray
from hyfdca.data.labels import as_classes, encode_numbers, r_squared
from hyfdca.data.readers import has_named_columns, read_table
from hyfdca.data.tables import (
    Columns,
    MissingColumnsError,
    Table,
    TableError,
    normalised,
)
from hyfdca.errors import StudyError, counted
from hyfdca.model.model import Model, ModelError, read_model
from hyfdca.study.outcome import check_folder, write_files

_ENDINGS = (".csv", ".parquet")


@dataclass(frozen=True)
class PredictionFiles:
    """The inputs of a prediction, and where to write it.

    Parameters
    ----------
    id_column, label_column : str or None
        By default those of the model's study.
    """

    model: Path
    data: Path
    out: Path
    id_column: str | None = None
    label_column: str | None = None


@dataclass(frozen=True)
class PredictionScore:
    """The quality of predictions, over the rows that have a label.

    Parameters
    ----------
    accuracy : float or None
        Share of rows classified correctly; None for regression.
    r2 : float or None
        1 minus the squared error relative to that of the labels' mean; None for classes
        and if all labels are equal.
    absolute_error : float or None
        Mean absolute error; None for classes.
    n_unknown : int
        Rows whose label is not one of the model's classes; they count as wrong.
    """

    n_labelled: int
    accuracy: float | None = None
    r2: float | None = None
    absolute_error: float | None = None
    n_unknown: int = 0


@dataclass(frozen=True)
class Predictions:
    """A model's predictions for some rows.

    Parameters
    ----------
    ids : tuple of str
    margins : array (n_rows, n_outputs)
    labels : tuple of str or None
        "" for rows without a label.
    note : str
        What users should know of them; may be empty.
    n_unknown : int
        Rows with a level that the model does not name.
    unknown_levels : dict of str to str
        The most frequent such level, by column.
    """

    model: Model
    ids: tuple[str, ...] = field(repr=False)
    margins: FloatArray = field(repr=False)
    labels: tuple[str, ...] | None = field(repr=False, default=None)
    note: str = ""
    n_unknown: int = 0
    unknown_levels: dict[str, str] = field(repr=False, default_factory=dict)

    @cached_property
    def predicted(self) -> NDArray[Any]:
        """Classes as text, or numbers."""
        return self.model.predict_from(self.margins)

    def class_counts(self) -> dict[str, int]:
        """Return how many rows were assigned to each class, in class order."""
        if self.model.task == "regression":
            return {}
        counts = Counter(self.predicted.tolist())
        return {name: counts[name] for name in self.model.classes}

    def score(self) -> PredictionScore | None:
        """Compare with the labels; None if no row has one.

        Raises
        ------
        StudyError
            If the model predicts numbers and a label is not a number.
        """
        labels = np.array(self.labels or (), dtype=object)
        has_label = labels != ""
        if not has_label.any():
            return None
        labels, predicted = labels[has_label], self.predicted[has_label]
        if self.model.task == "regression":
            return _number_score(labels.tolist(), predicted)
        return self._class_score(labels, predicted)

    def _class_score(
        self, labels: NDArray[Any], predicted: NDArray[Any]
    ) -> PredictionScore:
        classes, positive = self.model.classes, self.model.file.positive_label
        labels = as_classes(labels.tolist(), classes, positive)
        known = set(classes)
        n_unknown = sum(label not in known for label in labels)
        accuracy = float(np.mean(labels == predicted))
        return PredictionScore(len(labels), accuracy=accuracy, n_unknown=n_unknown)

    def columns(self) -> dict[str, Any]:
        """Return the columns of the file: id, margins, prediction, probabilities.

        With one margin per row there is one probability, that of the second class.
        """
        classes, is_single = self.model.classes, self.margins.shape[1] == 1
        names = ["margin"] if is_single else [f"margin_{name}" for name in classes]
        columns: dict[str, Any] = {"id": list(self.ids)}
        columns |= zip(names, self.margins.T, strict=True)
        columns["prediction"] = self.predicted
        if self.model.has_probabilities:
            shares = self.model.probabilities_from(self.margins).T
            for name, share in list(zip(classes, shares, strict=True))[is_single:]:
                columns[f"probability_{name}"] = share
        return columns


def predict_file(files: PredictionFiles) -> Predictions:
    """Predict the rows of a file and write the predictions, whole or not at all.

    Raises
    ------
    StudyError
        Nothing has been written then.
    """
    check_out(files.out, files.model, files.data)
    try:
        model = read_model(files.model)
        model.inputs.check_named()
    except ModelError as error:
        raise StudyError(str(error)) from None
    table = _read(files, model)
    try:
        margins = model.margins(table)
    except ModelError as error:
        raise StudyError(f"In {files.data.name} {error}") from None
    predictions = predictions_for(model, table, margins)
    write_predictions(predictions, files.out)
    return predictions


def predictions_for(model: Model, table: Table, margins: FloatArray) -> Predictions:
    """Return predictions of a table's rows from their margins without offsets."""
    column, offsets, note = model.file.offset_column, table.offsets, ""
    if offsets is not None:
        margins = margins + offsets[:, None]
    elif column is not None:
        note = (
            f"The table has no offset_column {column!r}: offsets are taken as 0, but "
            "the model was trained with them."
        )
    inputs = model.inputs
    n_unknown, levels = inputs.n_unknown(table), inputs.unknown_levels(table)
    return Predictions(model, table.ids, margins, table.labels, note, n_unknown, levels)


def check_labels(model: Model, table: Table, remedy: str) -> None:
    """Refuse labels that predictions of a table's rows cannot be compared with.

    Parameters
    ----------
    remedy : str
        What to do instead of correcting them.

    Raises
    ------
    StudyError
    """
    labels = [label for label in table.labels or () if label]
    if model.task == "regression" and labels:
        _refuse_words(encode_numbers(labels)[1], remedy)


def write_predictions(predictions: Predictions, out: Path) -> None:
    """Write predictions to a file, whole or not at all.

    Raises
    ------
    StudyError
    """
    predictions.score()  # refuses invalid labels
    write_files(out.parent, {out.name: _encoded(predictions, out)})


def check_out(out: Path, *read: Path) -> None:
    """Refuse an output file that cannot be written, or is also an input.

    Raises
    ------
    StudyError
    """
    if out.suffix.lower() not in _ENDINGS:
        raise StudyError(
            f"Cannot write {out.name}; give --out a name that ends in "
            f"{' or '.join(_ENDINGS)}."
        )
    if realpath(out) in map(realpath, read):
        raise StudyError(
            f"Writing to {out} would overwrite an input file; give --out another name."
        )
    check_folder(out.parent)


def _read(files: PredictionFiles, model: Model) -> Table:
    """Return the table with the model's columns in the model's order."""
    id_column = files.id_column or model.file.id_column
    if id_column is None and has_named_columns(files.data):
        raise StudyError(
            f"The model does not name the ID column of {files.data.name}; name it with "
            "--id-column."
        )
    columns = Columns(
        id=_name(id_column),
        label=_name(files.label_column or model.file.label_column),
        features=model.inputs.columns,
        label_needed=False,
        absent_are_zero=True,
        offset=_name(model.file.offset_column),
        categorical=tuple(model.inputs.categories),
        date_origin=model.file.date_origin,
    )
    try:
        return _with_label(files, read_table(files.data, columns))
    except MissingColumnsError as error:
        raise StudyError(_missing_columns(error, columns)) from None
    except TableError as error:
        raise StudyError(f"Cannot predict: {error}.") from None


def _name(column: str | None) -> str | None:
    return None if column is None else normalised(column)


def _with_label(files: PredictionFiles, table: Table) -> Table:
    """Return the table if it has the requested label column."""
    wanted = files.label_column
    if wanted and table.labels is None and has_named_columns(files.data):
        raise MissingColumnsError(files.data.name, [normalised(wanted)])
    return table


def _missing_columns(error: MissingColumnsError, columns: Columns) -> str:
    advice = (
        "add it, or correct its name in the table"
        if len(error.columns) == 1
        else "add them, or correct their names in the table"
    )
    if columns.id in error.columns:
        advice = "name the ID column with --id-column"
    elif error.columns == (columns.label,):
        advice = "correct --label-column, or omit it"
    return f"Cannot predict: {error.what}, which the model needs; {advice}."


def _number_score(labels: list[str], predicted: FloatArray) -> PredictionScore:
    values, n_bad = encode_numbers(labels)
    _refuse_words(n_bad, "name another column with --label-column")
    with np.errstate(over="ignore", invalid="ignore"):  # for huge labels
        absolute_error = float(np.mean(np.abs(values[:, 0] - predicted)))
    r2 = r_squared(values[:, 0], predicted)
    return PredictionScore(len(labels), r2=r2, absolute_error=absolute_error)


def _refuse_words(n_bad: int, remedy: str) -> None:
    if n_bad:
        raise StudyError(
            f"{counted(n_bad, 'row has', 'rows have')} a label that is not a number, "
            f"but the model predicts numbers; correct them, or {remedy}."
        )


def _encoded(predictions: Predictions, out: Path) -> bytes:
    table, content = pa.table(predictions.columns()), io.BytesIO()
    if out.suffix.lower() == ".csv":
        pa.csv.write_csv(table, content)
    else:
        pa.parquet.write_table(table, content)
    return content.getvalue()
