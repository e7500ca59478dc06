"""How much an attack recovers, compared with the data of the study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import BoolArray, FloatArray

_FOUND = 0.01  # largest error of a recovered row, as a share of its length
_ANGLE = 1e-3  # largest error of a recovered direction
_FEWEST_COLUMNS = 3  # with fewer, directions agree by chance

# If columns are centred, guesses near zero tie with the mean; chance decides on which
# side of the tie they fall.
BETTER = 0.95


@dataclass(frozen=True)
class AttackScore:
    """What an attack found out about the rows of a table.

    Parameters
    ----------
    error : float
        Root of squared errors, relative to predicting each column's mean: 0 is full
        recovery, 1 is none. Rows without a guess are predicted by the mean.
    recovered : float
        Share of rows that are right to 1 %.
    directions : float
        Share of rows that are right up to a factor.
    n_equations : int
        How many equations the attack could use.
    """

    error: float
    recovered: float
    directions: float
    n_equations: int

    @property
    def succeeds(self) -> bool:
        """Whether the attack does better than predicting column means."""
        return self.error < BETTER or self.recovered > 0 or self.directions > 0


def score(
    guesses: Mapping[int, FloatArray], truth: Mapping[int, FloatArray], n_equations: int
) -> AttackScore:
    """Compare guesses of clients' blocks with the blocks; NaN means no guess."""
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
    """Return which rows point in the same or in opposite directions."""
    if table.shape[1] < _FEWEST_COLUMNS:
        return np.zeros(len(table), np.bool_)
    scale = np.abs(guess).max(axis=1, keepdims=True, initial=0.0)
    guess = guess / np.where(scale > 0, scale, 1.0)  # so that no square overflows
    lengths = np.linalg.norm(guess, axis=1) * np.linalg.norm(table, axis=1)
    along = np.abs((guess * table).sum(axis=1))
    return np.asarray((lengths > 0) & (along >= (1 - _ANGLE**2 / 2) * lengths))
