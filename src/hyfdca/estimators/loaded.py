"""Models from files, as estimators use them: settings, coefficients, margins."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from sklearn.utils import check_array

from hyfdca.arrays import FloatArray
from hyfdca.data.kinds import clock_times, read_column, table_of_columns
from hyfdca.data.tables import Columns, Table, listed, normalised, stored_densely
from hyfdca.model.distance import distance_note
from hyfdca.model.model import Model


def settings_of(model: Model) -> dict[str, Any]:
    """Return the arguments of an estimator for the same problem."""
    return {
        "loss": model.file.loss,
        "loss_parameter": model.file.loss_parameter,
        "l2": model.file.l2,
        "fit_intercept": model.file.training.fit_intercept,
        "penalise_intercept": model.file.training.penalise_intercept,
        "intercept_scaling": model.file.training.intercept_scaling,
    }


def raw_coefficients(model: Model) -> tuple[FloatArray, FloatArray]:
    """Return weights (n_outputs, n_features) and intercepts for unscaled features.

    Folding the scaling in rounds: an offset far larger than its scale cancels digits.
    So these are for inspection; margins are computed from the model itself.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        coefficients = model.weights / model.scaling.scale[:, None]
        intercept = model.intercept - model.scaling.offset @ coefficients
    return np.ascontiguousarray(coefficients.T), np.asarray(intercept)


def loaded_margins(model: Model, X: Any) -> FloatArray:
    """Return the margins of an array in the model's order, or of a data frame.

    A frame's columns are matched by name; columns that the model does not have are
    ignored. Categories and dates need a frame.
    """
    if model.file.categories or model.file.dates:
        table = _table(model, X)
        margins = model.margins(table)
        _warn_if_far(model, table.features, table.cells)
        return margins
    checked: Any = check_array(
        _in_order(model, X),
        accept_sparse="csr",
        dtype=np.float64,
        ensure_all_finite="allow-nan",  # the model decides whether cells may be missing
    )
    n_features = len(model.weights)
    if checked.shape[1] != n_features:
        raise ValueError(
            f"X has {checked.shape[1]} features, but the model has {n_features}; pass "
            "the features in the model's order, or a data frame with their names."
        )
    is_dense = isinstance(checked, np.ndarray)
    cells = stored_densely(checked) if is_dense else sp.csr_array(checked)
    margins = model.margins_of_cells(cells)
    _warn_if_far(model, model.features, cells)
    return margins


def _warn_if_far(model: Model, columns: Sequence[str], cells: sp.csr_array) -> None:
    if note := distance_note(model, columns, cells):
        warnings.warn(note, stacklevel=5)


def _table(model: Model, X: Any) -> Table:
    """Return a frame as a table of the model's columns."""
    inputs = model.inputs
    inputs.check_named()
    if not len(getattr(X, "columns", ())):
        raise ValueError(
            "The model has categories or dates; pass X as a data frame with the "
            f"columns {listed(inputs.columns)}."
        )
    reading = Columns(
        features=inputs.columns,
        categorical=tuple(inputs.categories),
        date_origin=model.file.date_origin,
    )
    try:
        arrow = pa.table(_in_order(model, X))
        # The index of a frame, if it is more than a range, comes last.
        each = zip(inputs.columns, arrow.columns, strict=False)
        read = [
            read_column("X", name, _dated(model, name, own), reading)
            for name, own in each
        ]
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise ValueError(
            "X has columns with cells of several types; give each column one type."
        ) from None
    ids = tuple(map(str, range(arrow.num_rows)))
    table = table_of_columns(ids, inputs.columns, read)
    kinds = [arrow.schema.field(place).type for place in range(len(inputs.columns))]
    if warning := inputs.unknown_warning(table):
        warnings.warn(warning, stacklevel=5)
        return table
    n_unknown = inputs.n_unknown(table)
    # Rare levels are unknown too, which is no reason to warn.
    if n_unknown and any(
        pa.types.is_primitive(kind)
        for name, kind in zip(inputs.columns, kinds, strict=True)
        if name in inputs.categories
    ):
        warnings.warn(
            f"{n_unknown} rows of X have levels that the model does not know, which "
            "count as other or as the reference; pass columns such as codes as text, "
            'as in pd.read_csv(..., dtype={"code": str}).',
            stacklevel=4,
        )
    return table


def _dated(model: Model, name: str, column: Any) -> Any:
    """Return a column of dates that a frame has as text, as pd.read_csv leaves it."""
    kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if name not in model.file.dates or not is_text:
        return column
    try:
        return clock_times(column, pa.timestamp("us"))
    except pa.ArrowInvalid:
        raise ValueError(
            f"Column {name!r} of X has cells that are not dates as in 2024-12-31; pass "
            "dates, or text in that form."
        ) from None


def _in_order(model: Model, X: Any) -> Any:
    """Return a frame with named columns in the model's order, else X itself."""
    names = list(getattr(X, "columns", ()))
    if not names or not all(isinstance(name, str) for name in names):
        return X
    counts = Counter(map(normalised, names))
    wrong = [name for name in model.inputs.columns if counts[name] != 1]
    if wrong:
        raise ValueError(
            f"X has no column, or several, for the model's {listed(wrong)}; pass "
            "exactly one for each."
        )
    own_name = {normalised(name): name for name in names}
    return X[[own_name[name] for name in model.inputs.columns]]
