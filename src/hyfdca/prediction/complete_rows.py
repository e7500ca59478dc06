"""Predictions for a file whose rows have all features of a model."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from os.path import realpath
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray
from hyfdca.data.csv_form import CsvForm
from hyfdca.data.readers import has_named_columns, read_table
from hyfdca.data.tables import (
    Columns,
    MissingColumnsError,
    Table,
    TableError,
    normalised,
)
from hyfdca.errors import StudyError
from hyfdca.model.distance import distance_note
from hyfdca.model.model import Model, ModelError, read_model
from hyfdca.prediction.label_scores import PredictionScore, score_of
from hyfdca.study.outcome import check_folder, write_files

_ENDINGS = (".csv", ".parquet")
_BY_OPTION = {  # what an option does that in training is a key of the study file
    "delimiter": ", or say how it is written with --delimiter, --decimal or --encoding",
    "encoding": ", or name its own with --encoding",
    "id_column": ", or name another column with --id-column",
}


@dataclass(frozen=True)
class PredictionFiles:
    """The inputs of a prediction, and where to write it.

    Parameters
    ----------
    id_column, label_column : str or None
        By default those of the model's study.
    csv : CsvForm
        How the data are written, if they are a CSV file.
    """

    model: Path
    data: Path
    out: Path
    id_column: str | None = None
    label_column: str | None = None
    csv: CsvForm = field(default_factory=CsvForm)


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
        What users should know about them; may be empty.
    n_unknown : int
        Rows with a level that the model does not name.
    unknown_levels : dict of str to str
        The most frequent such level, by column.
    warning : str
        That most rows of a category have unknown levels; may be empty.
    """

    model: Model
    ids: tuple[str, ...] = field(repr=False)
    margins: FloatArray = field(repr=False)
    labels: tuple[str, ...] | None = field(repr=False, default=None)
    note: str = ""
    n_unknown: int = 0
    unknown_levels: dict[str, str] = field(repr=False, default_factory=dict)
    warning: str = ""

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
        return score_of(self.model, self.labels or (), self.predicted)

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
        Nothing has been written in that case.
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
    notes = (predictions.note, model.inputs.blank_note(table))
    predictions = replace(predictions, note=" ".join(filter(None, notes)))
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
    distance = distance_note(model, table.features, table.cells)
    return Predictions(
        model,
        table.ids,
        margins,
        table.labels,
        " ".join(filter(None, (note, distance))),
        inputs.n_unknown(table),
        inputs.unknown_levels(table),
        inputs.unknown_warning(table),
    )


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
        csv=files.csv,
    )
    try:
        return _with_label(files, read_table(files.data, columns))
    except MissingColumnsError as error:
        raise StudyError(_missing_columns(error, columns)) from None
    except TableError as error:
        advice = _BY_OPTION.get(error.key, "")
        raise StudyError(f"Cannot predict: {error.plain}{advice}.") from None


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
    if error.columns == (columns.id,):
        advice = "name the ID column with --id-column"
    elif error.columns == (columns.label,):
        advice = "correct --label-column, or omit it"
    return f"Cannot predict: {error.what}, which the model needs{error.hint}; {advice}."


def _encoded(predictions: Predictions, out: Path) -> bytes:
    table, content = pa.table(predictions.columns()), io.BytesIO()
    if out.suffix.lower() == ".csv":
        pa.csv.write_csv(table, content)
    else:
        pa.parquet.write_table(table, content)
    return content.getvalue()
