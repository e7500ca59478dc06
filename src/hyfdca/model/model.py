"""A trained model: margins, classes and probabilities of rows with all features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray
from hyfdca.data.labels import Task, chosen_classes, class_probabilities
from hyfdca.data.tables import Table, stored_densely
from hyfdca.errors import counted
from hyfdca.files import write_whole
from hyfdca.maths.losses import Loss, make_loss
from hyfdca.maths.objective import Measurement
from hyfdca.model.file import ModelError, ModelFile, as_bytes, read_model_file
from hyfdca.model.inputs import Inputs
from hyfdca.model.scaling import Scaling

__all__ = ["Model", "ModelError", "read_model"]

_CELLS_AT_ONCE = 2**22  # of sparse rows that centring fills


@dataclass(frozen=True, eq=False)
class Model:
    """A linear model with the scaling of its features.

    Parameters
    ----------
    file : ModelFile
        The whole content of the model file.
    weights : array (n_features, n_outputs)
        The weights of the scaled features, in the order of ``features``.
    intercept : array (n_outputs,)
    scaling : Scaling
        Arrays in the order of ``features``.
    """

    file: ModelFile = field(repr=False)
    loss: Loss
    weights: FloatArray = field(repr=False)
    intercept: FloatArray = field(repr=False)
    scaling: Scaling = field(repr=False)

    @classmethod
    def of(cls, file: ModelFile) -> Self:
        """Build the model from the content of its file.

        Raises
        ------
        ModelError
            The message is only the predicate of a sentence, such as "has ...".
        """
        loss = _loss(file)
        _check_classes(file, loss.task)
        width = len(file.classes) if len(file.classes) > 2 else 1
        n_wrong = sum(len(row) != width for row in file.weights.values())
        if not file.weights or n_wrong or len(file.intercept) != width:
            raise ModelError(
                f"has a wrong shape: expected {width} weights per feature and "
                f"{width} intercepts"
            )
        entry = file.scaling
        by_feature = (entry.offsets, entry.scales, entry.fillings)
        if any(numbers.keys() != file.weights.keys() for numbers in by_feature):
            raise ModelError("has a scaling for other features than its weights")
        arrays = [np.array([d[f] for f in file.weights]) for d in by_feature]
        model = cls(
            file,
            loss,
            np.array(list(file.weights.values())),
            np.array(file.intercept),
            Scaling(*arrays),
        )
        model._check_numbers()
        model.inputs.check()
        return model

    def _check_numbers(self) -> None:
        scaling = self.scaling
        numbers = (self.weights, self.intercept, scaling.offset, scaling.filling)
        if not all(np.isfinite(array).all() for array in (*numbers, scaling.scale)):
            raise ModelError("has numbers that are not finite")
        if n_bad := int(np.sum(scaling.scale <= 0)):
            raise ModelError(f"has {n_bad} scales that are not positive")
        certificate = self.certificate
        said = (self.file.certificate.gap, self.file.certificate.relative_gap)
        if said != (certificate.gap, certificate.relative_gap):
            raise ModelError("has a certificate whose gap does not match P and D")

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, in the order of the weights."""
        return tuple(self.file.weights)

    @cached_property
    def inputs(self) -> Inputs:
        """The columns that the features are made from."""
        return Inputs(self.file)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; empty for regression."""
        return self.file.classes

    @property
    def task(self) -> Task:
        """What the model predicts: classes, or numbers."""
        return self.loss.task

    @property
    def has_probabilities(self) -> bool:
        """Whether margins yield probabilities: only with the logistic loss."""
        return self.loss.name == "logistic"

    @property
    def certificate(self) -> Measurement:
        """How close the model is to the optimum on its training rows."""
        return Measurement(self.file.certificate.primal, self.file.certificate.dual)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file, whole or not at all.

        ``from_model`` of the estimators and ``hyfdca predict`` read it.

        Raises
        ------
        ModelError
            If it cannot be written.
        """
        try:
            write_whole(Path(path), as_bytes(self.file))
        except OSError as error:
            raise ModelError(
                f"Cannot write the model file {path} ({error.strerror}); choose "
                "another path."
            ) from None

    # From tables, by the names of their columns

    def margins(self, table: Table) -> FloatArray:
        """Return the margins of a table's rows, (n_rows, n_outputs).

        Columns are matched by name; those that the model does not use are ignored.
        """
        return self.margins_of_cells(self.inputs.features(table))

    def predict(self, table: Table) -> NDArray[Any]:
        """Return the class of each row as text, or its number for regression."""
        return self.predict_from(self.margins(table))

    def probabilities(self, table: Table) -> FloatArray:
        """Return the probability of each class, (n_rows, n_classes)."""
        return self.probabilities_from(self.margins(table))

    # From margins, whatever their source

    def predict_from(self, margins: FloatArray) -> NDArray[Any]:
        """Return the class of each row of margins, or its number for regression."""
        if self.task == "regression":
            return margins[:, 0]
        return np.array(self.classes, dtype=object)[chosen_classes(margins)]

    def probabilities_from(self, margins: FloatArray) -> FloatArray:
        """Return the probability of each class of each row of margins."""
        if not self.has_probabilities:
            raise ModelError(
                f"A model with the loss {self.loss.name!r} has no probabilities; train "
                "one with loss = 'logistic'."
            )
        return class_probabilities(margins)

    # From cells in the order of the features

    def margins_of_cells(self, cells: sp.csr_array) -> FloatArray:
        """Return the margins of rows, (n_rows, n_outputs).

        Each row is summed on its own in the order of the features. Its margin is
        therefore the same bit for bit, whatever the other rows and stored zeros.

        Parameters
        ----------
        cells : CSR array (n_rows, n_features)
            Not scaled; NaN means missing.
        """
        self.inputs.check_missing(cells, self.features)
        if not cells.has_canonical_format:
            cells = cells.copy()
            cells.sum_duplicates()
        margins = np.empty((cells.shape[0], len(self.intercept)))
        # Overflow is detected at the end.
        with np.errstate(over="ignore", invalid="ignore"):
            for rows in self._row_groups(cells.shape[0]):
                margins[rows] = self._scaled(cells[rows]) @ self.weights
            margins += self.intercept
        if n_bad := int(np.sum(~np.isfinite(margins).all(axis=1))):
            raise ModelError(
                f"{counted(n_bad, 'row has', 'rows have')} cells so large that the "
                "margin is not finite; correct them."
            )
        return margins

    def _row_groups(self, n_rows: int) -> Iterator[slice]:
        step = max(n_rows, 1)
        if self._is_centred:
            step = max(_CELLS_AT_ONCE // len(self.weights), 1)
        for first in range(0, n_rows, step):
            yield slice(first, first + step)

    @property
    def _is_centred(self) -> bool:
        return bool(np.any(self.scaling.offset))

    def _scaled(self, cells: sp.csr_array) -> sp.csr_array:
        n_rows, n_features = cells.shape
        if self._is_centred and cells.nnz < n_rows * n_features:
            # Zeros that are not stored need the offset too.
            cells = stored_densely(cells.toarray())
        return self.scaling.apply(cells)


def read_model(path: Path) -> Model:
    """Read a model from its file.

    Raises
    ------
    ModelError
    """
    file = read_model_file(path)
    try:
        return Model.of(file)
    except ModelError as error:
        raise ModelError(
            f"The model file {path} {error}; give the model.json that hyfdca train "
            "wrote."
        ) from None


def _loss(file: ModelFile) -> Loss:
    try:
        return make_loss(file.loss, file.loss_parameter)
    except ValueError:
        raise ModelError(
            "has a loss or loss_parameter that hyfdca does not know"
        ) from None


def _check_classes(file: ModelFile, task: Task) -> None:
    classes = file.classes
    if task == "regression":
        if classes or file.positive_label is not None:
            raise ModelError(f"has classes, but its loss {file.loss!r} is for numbers")
        return
    if len(set(classes)) < max(len(classes), 2):
        raise ModelError("has fewer than two classes, or one of them twice")
    if file.positive_label is not None and classes[1:] != (file.positive_label,):
        raise ModelError("has a positive_label that is not the second of two classes")
