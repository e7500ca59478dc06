"""The targets of rows: their labels, weights and offsets, as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from hyfdca.arrays import BoolArray, FloatArray, IntArray
from hyfdca.data.labels import signs_of

ClassWeight = Literal["balanced"] | Mapping[str, float]


@dataclass(frozen=True)
class TargetSettings:
    """A study's rules for labels, weights and offsets; each party has its own copy.

    Parameters
    ----------
    has_weights, has_offsets : bool
        Whether clients with labels have columns of them too; all of them or none.
    class_weight : "balanced", mapping of class names to weights, or None
        A class that the mapping does not name has the weight 1.
    labels_visible : bool
        Whether a client may learn labels that it does not have, of rows that it holds.
    scaling : {"none", "scale", "centre"}
        Whether numbers are scaled to deviation 1, and centred too.
    names : mapping of str to str
        The study's names of the columns, by "label_column" and so on, for messages.
    """

    has_weights: bool = False
    has_offsets: bool = False
    class_weight: ClassWeight | None = None
    labels_visible: bool = False
    scaling: Literal["none", "scale", "centre"] = "none"
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_columns(self) -> int:
        """The count of numbers per row: a label, perhaps a weight and an offset."""
        return len(self.columns)

    @property
    def is_balanced(self) -> bool:
        """Whether rare classes have larger weights."""
        return self.class_weight == "balanced"

    @property
    def is_weighted(self) -> bool:
        """Whether samples may have other weights than 1."""
        return self.has_weights or self.class_weight is not None

    @property
    def needs_totals(self) -> bool:
        """Whether a client needs sums of weights over the rows of others."""
        return self.has_weights or self.is_balanced

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of a row's numbers: a label, perhaps a weight and an offset."""
        beside = ("weight",) * self.has_weights + ("offset",) * self.has_offsets
        return ("label", *beside)


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
        """Return the targets of some rows."""
        return replace(self, values=self.values[rows])

    def rounded(self, rows: BoolArray) -> Targets:
        """Return the targets, those of some rows in single precision."""
        values = np.where(rows[:, None], in_single_precision(self.values), self.values)
        return replace(self, values=values)

    def completed(self, rows: IntArray, values: FloatArray) -> Targets:
        """Return the targets, those of some rows replaced.

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


def in_single_precision(values: FloatArray) -> FloatArray:
    """Return numbers rounded to float32; those beyond its range stay unchanged."""
    with np.errstate(over="ignore", under="ignore"):
        single = values.astype(np.float32).astype(np.float64)
    is_within = (single != 0.0) & ~np.isinf(single)
    return np.where(is_within, single, values)


@dataclass(frozen=True, repr=False)
class SampleLosses:
    """The labels, weights and offsets of a client's samples; without a repr.

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
