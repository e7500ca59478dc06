"""How much an attack recovers, against the data of the study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import BoolArray, FloatArray

_FOUND = 0.01  # of its length, that a row may be off and still count as recovered
_ANGLE = 1e-3  # that a direction may be off
_FEWEST_COLUMNS = 3  # below, directions agree by chance

# Guesses near zero tie with the mean where columns are centred; chance is on either
# side of a tie.
BETTER = 0.95


@dataclass(frozen=True)
class AttackScore:
    """What an attack found out about rows of a table.

    Parameters
    ----------
    error : float
        Root of squared errors, over that of predicting each column's mean: 0 is all, 1
        is nothing. Rows that the attack says nothing of are predicted by the mean.
    recovered : float
        Share of rows that are right to 1 %.
    directions : float
        Share of rows that are right but for a factor.
    n_equations : int
        What the attack had to work with.
    """

    error: float
    recovered: float
    directions: float
    n_equations: int

    @property
    def succeeds(self) -> bool:
        """Whether it does better than predicting column means."""
        return self.error < BETTER or self.recovered > 0 or self.directions > 0


def score(
    guesses: Mapping[int, FloatArray], truth: Mapping[int, FloatArray], n_equations: int
) -> AttackScore:
    """Compare guesses of clients' blocks, NaN where there is none, with the blocks."""
    wrong = spread = 0.0
    n_rows = n_found = n_directions = 0
    for client, table in truth.items():
        mean = table.mean(axis=0, keepdims=True) if len(table) else table
        guess = guesses.get(client, np.full_like(table, np.nan))
        is_said = np.all(np.isfinite(guess), axis=1)
        filled = np.where(is_said[:, None], np.nan_to_num(guess), mean)
        errors = np.linalg.norm(filled - table, axis=1)
        wrong += float((errors**2).sum())
        spread += float(((table - mean) ** 2).sum())
        lengths = np.linalg.norm(table, axis=1)
        n_rows += len(table)
        n_found += int(np.sum(is_said & (errors <= _FOUND * lengths) & (lengths > 0)))
        n_directions += int(np.sum(is_said & is_parallel(filled, table)))
    return AttackScore(
        error=(wrong / spread) ** 0.5 if spread else 1.0,
        recovered=n_found / max(n_rows, 1),
        directions=n_directions / max(n_rows, 1),
        n_equations=n_equations,
    )


def is_parallel(guess: FloatArray, table: FloatArray) -> BoolArray:
    """Return which rows point the same way, or the opposite one."""
    if table.shape[1] < _FEWEST_COLUMNS:
        return np.zeros(len(table), np.bool_)
    scale = np.abs(guess).max(axis=1, keepdims=True, initial=0.0)
    guess = guess / np.where(scale > 0, scale, 1.0)  # no square overflows
    lengths = np.linalg.norm(guess, axis=1) * np.linalg.norm(table, axis=1)
    along = np.abs((guess * table).sum(axis=1))
    return np.asarray((lengths > 0) & (along >= (1 - _ANGLE**2 / 2) * lengths))
