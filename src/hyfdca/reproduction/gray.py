"""Chooses among runs by several criteria: Pareto front, Gray Relational Analysis.

Z. Wang, G. P. Rangaiah, "Application and analysis of methods for selecting an optimal
solution from the Pareto-optimal front obtained by multiobjective optimization", Ind.
Eng. Chem. Res. 2017, which the paper cites. There are no weights, and the
distinguishing coefficient is 1: on a front, with each criterion brought to [0, 1] so
that 1 is the best value, the grade of a row F is the mean of 1 / (2 - F_j).

A table has a row per run and a column per criterion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Choice:
    """The outcome of an analysis.

    Parameters
    ----------
    row : int or None
        The row with the highest grade, the first of equals; None if no row is finite.
    front : array (n_graded,)
        The rows that were graded, ascending.
    grades : array (n_graded,)
    """

    row: int | None
    front: IntArray
    grades: FloatArray


def choose(table: FloatArray, maximised: Sequence[bool]) -> Choice:
    """Choose a row by its grade among the rows that no other row dominates.

    Rows with a value that is not finite, such as those of divergent runs, are left out
    first: they neither win nor shift the range of a criterion.

    Parameters
    ----------
    table : array (n_rows, n_criteria)
    maximised : sequence of bool (n_criteria,)
        Whether the highest value of a criterion is the best, or the lowest.
    """
    finite = np.flatnonzero(np.isfinite(table).all(axis=1))
    if not len(finite):
        return Choice(None, finite, np.empty(0))
    front = finite[non_dominated(table[finite], maximised)]
    grades = relational_grades(table[front], maximised)
    return Choice(int(front[np.argmax(grades)]), front, grades)


def non_dominated(table: FloatArray, maximised: Sequence[bool]) -> BoolArray:
    """Return which rows are on the Pareto front.

    A row dominates another if it is nowhere worse and somewhere better. So equal rows
    are all on the front, or none of them.
    """
    gains = _gains(table, maximised)
    n_rows = len(gains)
    no_worse = np.ones((n_rows, n_rows), dtype=bool)  # [i, j]: i than j
    better = np.zeros((n_rows, n_rows), dtype=bool)
    for column in gains.T:  # one at a time: two squares of bits instead of a cube
        no_worse &= column[:, None] >= column
        better |= column[:, None] > column
    return np.asarray(~(no_worse & better).any(axis=0))


def relational_grades(table: FloatArray, maximised: Sequence[bool]) -> FloatArray:
    """Return the grade of each row relative to the others, from 1/2 to 1.

    A criterion in which all rows are equal counts as reached by all.
    """
    gains = _gains(table, maximised)
    if not len(gains):
        return np.empty(0)
    low, high = gains.min(axis=0), gains.max(axis=0)
    differs = high > low
    span = np.where(differs, high - low, 1.0)
    normalised = np.where(differs, (gains - low) / span, 1.0)
    # Sorted, so that rows with the same numbers in another order have the same sum.
    coefficients = np.sort(1.0 / (2.0 - normalised), axis=1)
    return np.asarray(coefficients.mean(axis=1))


def _gains(table: FloatArray, maximised: Sequence[bool]) -> FloatArray:
    """Return the table with every criterion to be maximised."""
    if table.ndim != 2 or table.shape[1] != len(maximised):
        raise ValueError(
            f"a table needs {len(maximised)} criteria, but has the shape {table.shape}"
        )
    if not np.isfinite(table).all():
        raise ValueError("all values must be finite; leave divergent runs out first")
    return np.where(maximised, table, -table)
