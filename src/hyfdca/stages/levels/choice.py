"""Chooses the levels of a category that get a feature, by counts: all holders agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.data.expansion import NOWHERE


@dataclass(frozen=True)
class Choice:
    """Which levels of a column get a feature, by their number in the study.

    Parameters
    ----------
    n_levels : int
        How many the column has.
    kept : array
        Levels with a feature of their own, ascending.
    reference : int or None
        The level without a feature; None if all levels are rare.
    has_other : bool
        Whether a last feature is for all rare levels together.
    """

    n_levels: int
    kept: IntArray
    reference: int | None
    has_other: bool

    @property
    def width(self) -> int:
        """How many features there are."""
        return len(self.kept) + self.has_other

    @property
    def places(self) -> IntArray:
        """The place of each level among the features, or ``NOWHERE``."""
        others = len(self.kept) if self.has_other else NOWHERE
        places = np.full(self.n_levels, others, np.int64)
        places[self.kept] = np.arange(len(self.kept))
        if self.reference is not None:
            places[self.reference] = NOWHERE
        return places


def choose_levels(counts: IntArray, min_count: int) -> Choice:
    """Return which levels get a feature.

    The reference is the most frequent level, the first of equals. If all levels are
    rare, all rows are "other", and the column carries no information. If all rare
    levels together have too few rows, they count as the reference: a feature of a
    single row would have a weight that says nothing but that row's label.

    Parameters
    ----------
    counts : array (n_levels,)
        How many rows have each level.
    """
    is_rare = counts < min_count
    common = np.flatnonzero(~is_rare)
    if not len(common):
        return Choice(len(counts), common, None, has_other=False)
    reference = int(common[np.argmax(counts[common])])
    has_other = int(counts[is_rare].sum()) >= max(min_count, 1)
    kept = common[common != reference]
    return Choice(len(counts), kept, reference, has_other)
