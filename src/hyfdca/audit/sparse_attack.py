"""What a curious client could infer without knowing a row: columns that are sparse.

The others' part of the margins of shared rows, over rounds, is Z = X W, and the columns
of Z span those of X once there are as many of them (``client_attack``). A column of 0
and 1, or one that is mostly zero, is an unusually sparse vector of this span. If Q is
an orthonormal basis of it, and the column is not zero in row i, then

    minimise ‖Q c‖₁  subject to  (Q c)_i = 1

is a linear programme that often has this column as its solution (Spielman, Wang and
Wright, "Exact Recovery of Sparsely-Used Dictionaries", 2012). A column that was centred
is sparse after a constant is added, so the span of Z and ones is searched too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.audit.client_attack import Group, Overheard, others_part
from hyfdca.audit.spans import span_of
from hyfdca.audit.sparse_vectors import SparseSearch

_MOST_GROUPS = 8  # of rows with the same holders, the largest
_MOST = 0.5  # share of rows with one value, above which a column counts as sparse
_IN_SPAN = 1e-6  # largest distance of a unit vector from a span that contains it
_SAME = 1e-4  # largest error of a sparse column, relative to its largest entry


@dataclass(frozen=True)
class Columns:
    """How many columns of a kind the others have, and how many were found."""

    columns: int
    found: int


@dataclass(frozen=True)
class SparseScore:
    """What a client found out about one group of samples, without a known row.

    Parameters
    ----------
    rank : int
        The dimension of the span of the margins.
    binary : Columns
        Columns of two values; they count as found if all rows are exact.
    sparse : Columns
        Other columns that have one value in most rows; they count as found if all rows
        are right up to a factor.
    n_dense : int
        Columns of neither kind, which the attack does not look for.
    n_wrong : int
        Vectors that look like a column but are not.
    """

    group: Group
    rank: int
    binary: Columns
    sparse: Columns
    n_dense: int
    n_wrong: int
    n_programmes: int

    @property
    def n_found(self) -> int:
        """How many columns were found."""
        return self.binary.found + self.sparse.found

    @property
    def n_columns(self) -> int:
        """How many columns the others have."""
        return self.binary.columns + self.sparse.columns + self.n_dense


def attack_sparse(
    overheard: Overheard, groups: Sequence[Group], truth: dict[int, FloatArray]
) -> list[SparseScore]:
    """Attack the others' columns in the largest groups of samples."""
    return [
        _attack(
            group,
            span_of(overheard.others(group.rows)[0], len(group.others)),
            others_part(overheard.facts, group, truth),
        )
        for group in groups[:_MOST_GROUPS]
    ]


def _attack(group: Group, basis: FloatArray, table: FloatArray) -> SparseScore:
    search = SparseSearch()
    if basis.size:
        search.within(basis)
        search.within(_with_ones(basis))
    guesses = list(search.found.values())
    columns = [column for column in table.T if np.ptp(column)]
    binary = [column for column in columns if _is_binary(column)]
    sparse = [column for column in columns if _is_sparse(column)]
    return SparseScore(
        group,
        basis.shape[1],
        _columns(binary, guesses),
        _columns(sparse, guesses),
        n_dense=len(columns) - len(binary) - len(sparse),
        n_wrong=sum(not _is_any(guess, columns) for guess in guesses),
        n_programmes=search.n_programmes,
    )


def _with_ones(basis: FloatArray) -> FloatArray:
    """Return a basis of the span with a constant vector added to it."""
    ones = np.full((len(basis), 1), len(basis) ** -0.5)
    rest = ones - basis @ (basis.T @ ones)
    size = np.linalg.norm(rest)
    return np.hstack([basis, rest / size]) if size > _IN_SPAN else basis


def _columns(columns: list[FloatArray], guesses: list[FloatArray]) -> Columns:
    is_found = [any(_is_same(guess, column) for guess in guesses) for column in columns]
    return Columns(len(columns), sum(is_found))


def _is_any(guess: FloatArray, columns: list[FloatArray]) -> bool:
    return any(_is_same(guess, column) for column in columns)


def _is_binary(column: FloatArray) -> bool:
    return bool(np.all((column == column.min()) | (column == column.max())))


def _is_sparse(column: FloatArray) -> bool:
    most = np.unique(column, return_counts=True)[1].max()
    return not _is_binary(column) and bool(most > _MOST * len(column))


def _is_same(guess: FloatArray, column: FloatArray) -> bool:
    """Return whether a guess is the column, up to a constant and a factor."""
    is_zero = guess == 0
    usual = column[is_zero][0]
    peak = int(np.abs(guess).argmax())
    if not np.all(column[is_zero] == usual) or column[peak] == usual:
        return False
    scaled = (column - usual) / (column[peak] - usual)
    error = np.abs(scaled - guess / guess[peak]).max()
    return bool(error <= (0.0 if _is_binary(column) else _SAME))
