"""A path: the fits among which the strength λ of the penalty is chosen.

A fit is a λ and the fold whose rows it leaves out; one more per λ leaves out none. Fits
are numbered by λ, the largest first, then by fold, the whole data last. The penalty of
a fit without some rows is λ times the share of the weight that is left, so that both
terms of its P are those of a training on these rows, times that share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.maths.objective import Measurement

PathChoice = Literal["best", "one_standard_error"]
CHOICES: tuple[PathChoice, ...] = ("best", "one_standard_error")

# If the data determine the largest λ: how many λ there are, and the least share of it.
_N_AUTO, _SMALLEST_SHARE = 9, 1e-4
_LEFT = 0.25  # largest share of P(0) by which a model at the largest λ can lower it


def auto_path(n_folds: int, tolerance: float, choice: PathChoice = "best") -> Path:
    """Return a path whose largest λ the data will determine."""
    shares = np.geomspace(1.0, _SMALLEST_SHARE, _N_AUTO)
    return Path(tuple(shares.tolist()), n_folds, tolerance, choice, is_auto=True)


def largest_l2(squared_gradient: float, primal: float) -> float:
    """Return the smallest λ at which w = 0 is nearly as good as the optimum.

    P(0) - P* is at most ||g||² / (2λ), where g is the gradient of the mean loss at 0.
    The result is a power of two, so that it reveals little about the data.
    """
    smallest = squared_gradient / (2 * _LEFT * max(primal, 1e-300))
    return 2.0 ** math.ceil(math.log2(min(max(smallest, 1e-90), 1e90)))


@dataclass(frozen=True)
class Path:
    """What is fitted and how one λ is chosen.

    Parameters
    ----------
    l2s : tuple of float
        All λ, the largest first.
    n_folds : int
    tolerance : float
        The certified relative gap at which a fit has finished.
    choice : {"best", "one_standard_error"}
        The λ with the lowest mean validation loss, or the largest whose mean is at most
        one standard error above that.
    is_auto : bool
        The λ are multiples of the largest, which the data determine (``largest_l2``).
    """

    l2s: tuple[float, ...]
    n_folds: int
    tolerance: float
    choice: PathChoice = "best"
    is_auto: bool = False

    def scaled(self, largest: float) -> Path:
        """Return the path with the largest λ that the data determined."""
        l2s = tuple(largest * share for share in self.l2s)
        return replace(self, l2s=l2s, is_auto=False)

    def restored(self, l2s: tuple[float, ...]) -> Path:
        """Return the path that a run had reached, with these λ."""
        return replace(self, l2s=l2s, is_auto=self.is_auto and l2s == self.l2s)

    @property
    def n_fits(self) -> int:
        """One per λ and fold, and one per λ with all rows."""
        return len(self.l2s) * (self.n_folds + 1)

    def place(self, fit: int) -> int:
        """Return which λ a fit has, from 0, the largest."""
        return fit // (self.n_folds + 1)

    def fold(self, fit: int) -> int:
        """Return the fold that a fit leaves out; ``n_folds`` stands for none."""
        return fit % (self.n_folds + 1)

    def is_whole(self, fit: int) -> bool:
        """Return whether a fit has all rows."""
        return self.fold(fit) == self.n_folds

    def whole(self, place: int) -> int:
        """Return the fit of all rows at a λ."""
        return place * (self.n_folds + 1) + self.n_folds

    def folds_at(self, place: int) -> list[int]:
        """Return the fits that leave out a fold, at a λ."""
        first = place * (self.n_folds + 1)
        return list(range(first, first + self.n_folds))

    def l2_of(self, fit: int, shares: Sequence[float]) -> float:
        """Return λ of a fit, given the shares of the weight left without each fold."""
        share = 1.0 if self.is_whole(fit) else shares[self.fold(fit)]
        return self.l2s[self.place(fit)] * share


@runtime_checkable
class HasPath(Protocol):
    """A server's half that fits a path."""

    def table(self) -> list[PathRow]:
        """Return one row per λ, the largest first."""
        ...

    def chosen_measurement(self) -> Measurement:
        """Return P and D of the fit whose weights are released."""
        ...

    @property
    def n_points_tried(self) -> int:
        """The number of points at which clients have formed margins."""
        ...


@dataclass(frozen=True)
class FitRecord:
    """The outcome of one fit, in the units of a training on its own rows.

    ``validation`` is the mean loss of the rows left out; NaN for a fit of all rows.
    """

    primal: float
    dual: float
    relative_gap: float
    rounds: int
    validation: float


@dataclass(frozen=True)
class PathRow:
    """One λ: the validation losses of its folds, and the certificates of its fits."""

    l2: float
    mean: float
    standard_error: float
    folds: tuple[float, ...]
    relative_gap: tuple[float, ...]
    rounds: tuple[int, ...]
    is_best: bool
    is_chosen: bool


def path_table(path: Path, records: dict[int, FitRecord]) -> list[PathRow]:
    """Return one row per λ, the largest first; NaN where a fit never began."""
    fits = [path.folds_at(place) for place in range(len(path.l2s))]
    scores = np.array([[records[f].validation for f in own] for own in fits])
    means, errors = scores.mean(axis=1), standard_errors(scores)
    best, chosen = chosen_place(scores, path.choice)
    return [
        PathRow(
            l2,
            float(means[place]),
            float(errors[place]),
            tuple(scores[place].tolist()),
            tuple(records[f].relative_gap for f in fits[place]),
            tuple(records[f].rounds for f in fits[place]),
            place == best,
            place == chosen,
        )
        for place, l2 in enumerate(path.l2s)
    ]


def standard_errors(scores: FloatArray) -> FloatArray:
    """Return the standard error of each row's mean over folds."""
    return np.asarray(scores.std(axis=1, ddof=1) / np.sqrt(scores.shape[1]))


def chosen_place(scores: FloatArray, choice: PathChoice) -> tuple[int, int]:
    """Return the best λ and the chosen one, by place; of equals the larger λ.

    Parameters
    ----------
    scores : array (n_l2s, n_folds)
        Losses; NaN for a λ that never began, which is never chosen.
    """
    means = scores.mean(axis=1)
    best = int(np.nanargmin(means))
    if choice == "best":
        return best, best
    limit = means[best] + standard_errors(scores)[best]
    return best, int(np.flatnonzero(means <= limit)[0])
