"""Fitted estimators as models: the same margins, bit for bit, from a file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import FloatArray
from hyfdca.data.tables import label_text, listed, normalised, stored_densely
from hyfdca.model.file import (
    FORMAT_VERSION,
    CertificateEntry,
    ModelFile,
    ScalingEntry,
    TrainingEntry,
)
from hyfdca.model.model import Model, ModelError

if TYPE_CHECKING:
    from hyfdca.estimators.base import FederatedLinearModel

_CELLS_AT_ONCE = 2**22


def margins_of(X: Any, weights: FloatArray, intercept: FloatArray) -> FloatArray:
    """Return the margins of rows, (n_rows, n_outputs), as a model computes them.

    Each row is summed on its own in the order of the features, so its margin does not
    depend on the other rows.

    Parameters
    ----------
    X : array or sparse array (n_rows, n_features)
    weights : array (n_features, n_outputs)
    intercept : array (n_outputs,)
    """
    if isinstance(X, np.ndarray):
        step = max(_CELLS_AT_ONCE // max(X.shape[1], 1), 1)
        parts = [X[first : first + step] for first in range(0, len(X), step)]
        margins = [stored_densely(part) @ weights for part in parts]
        return np.asarray(np.concatenate(margins) + intercept)
    cells = sp.csr_array(X)
    if not cells.has_canonical_format:
        cells = cells.copy()
        cells.sum_duplicates()
    return np.asarray(cells @ weights + intercept)


def model_of(estimator: FederatedLinearModel) -> Model:
    """Return the model of an estimator that was fitted here.

    Raises
    ------
    ValueError
        If features or classes have the same name once they are text.
    """
    file = _file(estimator, _feature_names(estimator))
    try:
        return Model.of(file)
    except ModelError as error:
        raise ValueError(
            f"This estimator cannot be exported: its model {error}."
        ) from None


def _file(estimator: FederatedLinearModel, names: list[str]) -> ModelFile:
    weights, intercept = estimator._linear()
    assert estimator.certificate_ is not None  # noqa: S101  # fitting certifies
    return ModelFile(
        format_version=FORMAT_VERSION,
        study=type(estimator).__name__,
        loss=estimator.loss,
        loss_parameter=estimator.loss_parameter,
        l2=estimator._l2_strength(),
        id_column=None,
        label_column=None,
        positive_label=None,
        classes=tuple(map(label_text, getattr(estimator, "classes_", ()))),
        weights=dict(zip(names, map(tuple, weights.tolist()), strict=True)),
        intercept=tuple(intercept.tolist()),
        scaling=_unscaled(names),
        training=_training(estimator),
        certificate=CertificateEntry.of(estimator.certificate_),
    )


def _feature_names(estimator: FederatedLinearModel) -> list[str]:
    numbered = [f"f{number}" for number in range(estimator.n_features_in_)]
    given = getattr(estimator, "feature_names_in_", numbered)
    names = [normalised(name) for name in given]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(
            f"Several features are named {listed(twice)} apart from blanks; rename "
            "them and fit again."
        )
    return names


def _unscaled(names: list[str]) -> ScalingEntry:
    """Return a scaling that changes nothing and allows no missing cells."""
    zero, one = dict.fromkeys(names, 0.0), dict.fromkeys(names, 1.0)
    return ScalingEntry(
        scale="none", missing="refuse", offsets=zero, scales=one, fillings=zero
    )


def _training(estimator: FederatedLinearModel) -> TrainingEntry:
    assert estimator.stop_reason_ is not None  # noqa: S101  # it has ended
    return TrainingEntry(
        algorithm=estimator.algorithm_,
        algorithm_reason=estimator.algorithm_reason_,
        rounds=estimator.n_iter_,
        stop_reason=estimator.stop_reason_,
        fit_intercept=bool(estimator.fit_intercept),
        penalise_intercept=not estimator._frees_intercept(estimator._algorithm()),
        intercept_scaling=float(estimator.intercept_scaling),
        target_centre=estimator._target.centre,
        target_scale=estimator._target.scale,
    )
