"""Shares that a client has shown, and whether a new one would show too much.

The difference of two shares is a sum over the rows whose dual differs between them.
With ``min_rows`` a client shows a share only if it differs in at least that many rows
from each share it has shown lately, in training or for measuring. Rows whose dual
hardly moved beside that of another row do not count: the sum is then that row.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import BoolArray, FloatArray

_NOTICEABLE = 1e-3  # of the largest change of a dual
_REMEMBERED = 32  # shares, besides the first, which is zero

Shown = tuple[FloatArray, FloatArray]  # duals and the share they gave


@dataclass(frozen=True, repr=False)
class ShownState:
    """What a checkpoint keeps: the shares shown lately."""

    later: deque[Shown]


class ShownShares:
    """The shares that a client has shown, with the duals behind them.

    Parameters
    ----------
    is_in_shares : array of bool
        The rows that shares include: not those without a cell, or without weight.
    duals, share : arrays
        At the start, which is public: zeros.
    """

    def __init__(
        self,
        min_rows: int,
        is_in_shares: BoolArray,
        duals: FloatArray,
        share: FloatArray,
    ) -> None:
        self._min_rows, self._is_in_shares = min_rows, is_in_shares
        n_rows = int(is_in_shares.sum())
        if 0 < n_rows < min_rows:
            raise ValueError(
                f"A client has cells in {n_rows} rows and could never show a share "
                f"with min_rows = {min_rows}; lower min_rows."
            )
        self._first = (duals.copy(), share.copy())
        self._later: deque[Shown] = deque(maxlen=_REMEMBERED)

    def state(self) -> ShownState:
        """Return what a checkpoint keeps."""
        return ShownState(self._later)

    def restore(self, state: ShownState) -> None:
        """Take a state."""
        self._later = deque(state.later, _REMEMBERED)

    def choose(self, duals: FloatArray, share: FloatArray) -> FloatArray:
        """Return the share to show: that of these duals, or one that was shown."""
        shown = [self._first, *self._later]
        changes = [self._changes(duals, old) for old, _ in shown]
        is_same = [not change.any() for change in changes]
        if any(is_same):  # the same share, so that even rounding is identical
            return shown[is_same.index(True)][1]
        counts = [int(np.sum(own > _NOTICEABLE * own.max())) for own in changes]
        return share if min(counts) >= self._min_rows else shown[-1][1]

    def _changes(self, duals: FloatArray, old: FloatArray) -> FloatArray:
        """Return by how much the duals behind two shares differ, by row in shares."""
        return np.asarray(np.abs(duals - old).max(axis=1)[self._is_in_shares])

    def note(self, duals: FloatArray, share: FloatArray) -> None:
        """Remember a share that is being shown."""
        self._later.append((duals.copy(), share.copy()))
