"""Models read from a file, as estimators use them: settings, coefficients, margins."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from hyfdca.arrays import FloatArray
from hyfdca.data.tables import listed, normalised, stored_densely
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
    ignored.
    """
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
    return model.margins_of_cells(cells)


def _in_order(model: Model, X: Any) -> Any:
    """Return a frame with named columns in the model's order; anything else as is."""
    names = list(getattr(X, "columns", ()))
    if not names or not all(isinstance(name, str) for name in names):
        return X
    counts = Counter(map(normalised, names))
    wrong = [name for name in model.features if counts[name] != 1]
    if wrong:
        raise ValueError(
            f"X has no column, or several, for the model's {listed(wrong)}; pass "
            "exactly one for each."
        )
    own_name = {normalised(name): name for name in names}
    return X[[own_name[name] for name in model.features]]
