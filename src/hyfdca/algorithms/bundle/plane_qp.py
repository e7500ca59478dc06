"""The inner programme of a dual bundle method: the best mixture of planes.

A bundle method bounds convex functions, one per bucket, from below by planes. The dual
of its master programme chooses how much of each plane to take::

    max  offsets . b - |factor' b|^2 / 2    over b >= 0, sum of b in each bucket = 1

Where the planes have one direction in common that costs nothing, the intercept, in
which each has the slope of its balance and which is kept within a reach, the value is
lower by reach |balances . b|. The intercept is what that constraint costs.

Theory of operation. A primal-dual interior point method with Mehrotra's predictor and
corrector keeps b and the slacks of the planes positive. Every step leaves the sums of b
as they are: it is a step of all planes but one per bucket, the pivot, which takes what
is left. So the multipliers of the sums never appear, and a step costs one Cholesky
factor, of the size of the dimensions or of the planes, whichever are fewer.

With an intercept there are two more variables, the sides: how much of balances . b is
above zero and how much below. They and b change so that the equation stays true; its
multiplier is found from one more solution with the same factor.

Most planes have no weight in the end. A large programme is therefore solved over few
planes at a time, and the gradient tells which of the others would improve it.

Reference: S. Mehrotra, SIAM Journal on Optimization 2 (1992) 575-601.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from hyfdca.arrays import FloatArray, IntArray

_LARGE = 250  # size of a Newton matrix from which solving over few planes pays
_MAX_TRIPS = 20  # over few planes, before all are taken
_NEWCOMERS = 2  # planes per bucket that a trip adds
_SMALL_WEIGHT = 1e-3  # a plane with less is left out of the next trip
_GRAM_PREFERENCE = 1.5  # planes per dimension up to which a Gram matrix is cheaper

_MAX_STEPS = 80
_PATIENCE = 8  # steps without a smaller gap: rounding allows no more
_FIRST_SLACK = 0.1  # of the mean distance from the highest plane
_TO_THE_BOUNDARY = 0.99
_NOISE = 8.0 * float(np.finfo(np.float64).eps)  # of a Gram matrix, per plane

Newton = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Balances:
    """The slopes of the planes in the intercept, and how far that may go.

    Parameters
    ----------
    values : array (n_planes,)
    reach : float
        The intercept is between -reach and reach.
    """

    values: FloatArray
    reach: float


@dataclass(frozen=True)
class PlaneMixture:
    """The weights of the planes in a mixture, and the intercept that goes with it."""

    weights: FloatArray
    intercept: float = 0.0


@dataclass(frozen=True)
class PlaneProgramme:
    """What to maximise, over planes in any order.

    Parameters
    ----------
    offsets : array (n_planes,)
    buckets : int array (n_planes,)
        The bucket of each plane, from 0; every bucket has a plane.
    slopes : array (n_planes, n_dimensions), or (n_planes, n_planes)
        The slopes of the planes or, where ``is_gram``, their inner products: cheaper
        where there are more dimensions than planes.
    balances : Balances, optional
        Without it there is no intercept.
    """

    offsets: FloatArray
    buckets: IntArray
    slopes: FloatArray
    is_gram: bool = False
    balances: Balances | None = None

    def gradient(self, mixture: PlaneMixture) -> FloatArray:
        """Return how fast the value grows with the weight of each plane."""
        weights = mixture.weights
        combined = weights if self.is_gram else weights @ self.slopes
        gradient: FloatArray = self.offsets - self.slopes @ combined
        if self.balances is None:
            return gradient
        return gradient - mixture.intercept * self.balances.values

    def imbalance_cost(self, mixture: PlaneMixture) -> float:
        """Return how much more the value loses to the reach than to the intercept."""
        if self.balances is None:
            return 0.0
        balance = float(self.balances.values @ mixture.weights)
        return self.balances.reach * abs(balance) - mixture.intercept * balance

    def over(self, planes: IntArray) -> PlaneProgramme:
        """Return the programme of some planes, in the cheaper form."""
        slopes, is_gram = self.slopes[planes], self.is_gram
        if is_gram:
            slopes = slopes[:, planes]
        elif len(planes) < _GRAM_PREFERENCE * slopes.shape[1]:
            slopes, is_gram = slopes @ slopes.T, True
        own = self.balances
        return PlaneProgramme(
            self.offsets[planes],
            self.buckets[planes],
            slopes,
            is_gram,
            None if own is None else Balances(own.values[planes], own.reach),
        )

    @cached_property
    def starts(self) -> IntArray:
        """The first plane of each bucket, where planes are sorted by bucket."""
        return np.searchsorted(self.buckets, np.arange(self.buckets[-1] + 1))

    @cached_property
    def _ends(self) -> IntArray:
        """The last plane of each bucket, where planes are sorted by bucket."""
        return np.append(self.starts[1:], len(self.buckets)) - 1

    def pivots(self, mobility: FloatArray) -> IntArray:
        """Return the most mobile plane of each bucket, where they are sorted.

        Differences to another plane would have errors of the size of its mobility.
        """
        most_mobile: IntArray = np.lexsort((mobility, self.buckets))[self._ends]
        return most_mobile


def solve_plane_qp(
    programme: PlaneProgramme,
    tolerance: float,
    start: FloatArray | None = None,
    most_planes: int | None = None,
) -> PlaneMixture:
    """Return the best mixture of the planes.

    Parameters
    ----------
    tolerance : float
        How far from the optimal value the weights may be. Where rounding does not
        allow it (often 1e-9 of the largest product of slopes), the best are returned.
    start : array (n_planes,), optional
        The weights of the last solve, zero for new planes; they only save time.
    most_planes : int, optional
        With more planes than this, a few are taken at a time, whatever the dimensions.

    Returns
    -------
    mixture : PlaneMixture
        Its weights are not negative, with sum one in each bucket.
    """
    n_planes = len(programme.offsets)
    is_large = min(programme.slopes.shape) > _LARGE
    if is_large or (most_planes is not None and n_planes > most_planes):
        weights = np.zeros(n_planes) if start is None else start
        found = _solve_by_few(programme, PlaneMixture(weights), tolerance)
        if found is not None:
            return found
    return _solve_over(programme, np.arange(n_planes), tolerance)


def _solve_by_few(
    programme: PlaneProgramme, mixture: PlaneMixture, tolerance: float
) -> PlaneMixture | None:
    """Solve over few planes at a time; None where that does not converge."""
    gradient = programme.gradient(mixture)
    last: NDArray[np.bool_] | None = None
    for trip in range(_MAX_TRIPS):
        # Later, less and less is left out: otherwise light planes might come and go.
        kept = mixture.weights > _SMALL_WEIGHT * 0.25 ** max(trip - 5, 0)
        kept[_newcomers(programme.buckets, gradient, kept)] = True
        if kept.mean() > 0.5:
            return None
        if last is not None and np.array_equal(kept, last):
            continue
        last = kept
        # Half of the tolerance is for the planes left out.
        mixture = _solve_over(programme, np.flatnonzero(kept), 0.5 * tolerance)
        gradient = programme.gradient(mixture)
        distance = _highest(programme.buckets, gradient) - gradient
        missing = mixture.weights @ distance + programme.imbalance_cost(mixture)
        if missing <= tolerance:
            return mixture
    return None


def _newcomers(
    buckets: IntArray, gradient: FloatArray, kept: NDArray[np.bool_]
) -> IntArray:
    """Return the best planes of each bucket that are better than those kept."""
    price = _highest(buckets, np.where(kept, gradient, -np.inf))
    better = np.flatnonzero(gradient > price)
    better = better[np.lexsort((-gradient[better], buckets[better]))]
    of_bucket = buckets[better]
    rank = np.arange(len(better)) - np.searchsorted(of_bucket, of_bucket)
    return better[rank < _NEWCOMERS]


def _highest(buckets: IntArray, values: FloatArray) -> FloatArray:
    """Return for each plane the highest value of its bucket."""
    highest = np.full(int(buckets.max()) + 1, -np.inf)
    np.maximum.at(highest, buckets, values)
    return highest[buckets]


def _solve_over(
    whole: PlaneProgramme, planes: IntArray, tolerance: float
) -> PlaneMixture:
    """Return the mixture of all planes; those not named have no weight."""
    planes = planes[np.argsort(whole.buckets[planes], kind="stable")]
    weights = np.zeros(len(whole.offsets))
    with np.errstate(all="ignore"):  # a step that is not finite ends the solve
        found = _interior_point(whole.over(planes), tolerance)
    weights[planes] = found.weights
    return PlaneMixture(weights, found.intercept)


def _interior_point(programme: PlaneProgramme, tolerance: float) -> PlaneMixture:
    """Solve a programme whose planes are sorted by bucket."""
    buckets, starts = programme.buckets, programme.starts
    newton_of = _gram_newton if programme.is_gram else _factor_newton
    weights = 1.0 / np.bincount(buckets)[buckets]
    best = PlaneMixture(weights)
    sides = None if programme.balances is None else _Sides(programme.balances, weights)
    slacks: FloatArray | None = None
    best_gap, best_step = np.inf, 0
    for step in range(_MAX_STEPS):
        weights = weights / np.add.reduceat(weights, starts)[buckets]
        mixture = PlaneMixture(weights, 0.0 if sides is None else sides.intercept)
        gradient = programme.gradient(mixture)
        distance = np.maximum.reduceat(gradient, starts)[buckets] - gradient
        gap = float(weights @ distance) + programme.imbalance_cost(mixture)
        if gap < best_gap:
            best, best_gap, best_step = mixture, gap, step
        if not gap > max(tolerance, 0.0) or step > best_step + _PATIENCE:
            break
        if slacks is None:
            slacks = distance + _FIRST_SLACK * (distance.mean() or 1.0)
        newton = newton_of(programme, weights / slacks)
        if sides is None:
            weights, slacks = _advance(weights, slacks, gradient, newton)
        else:
            weights, slacks = sides.advance(weights, slacks, gradient, newton)
    return best


class _Sides:
    """The two variables that an intercept adds, with their slacks.

    Of balances . b they are what is above zero and what is below; their slacks are how
    far the intercept is from either end of its reach.
    """

    def __init__(self, balances: Balances, weights: FloatArray) -> None:
        self._balances, self._reach = balances.values, balances.reach
        size = float(np.abs(balances.values).mean()) or 1.0
        self._amounts = np.full(2, size)
        self._keep_equation(weights)
        self._slacks = np.full(2, balances.reach)

    @property
    def intercept(self) -> float:
        """The intercept, from its distances to the ends of the reach."""
        above, below = self._slacks.tolist()
        middle: float = (below - above) / 2
        return min(max(middle, -self._reach), self._reach)

    def _keep_equation(self, weights: FloatArray) -> None:
        """Let the amounts differ by balances . b again, which rounding may change."""
        above, below = self._amounts.tolist()
        off = float(self._balances @ weights) - (above - below)
        self._amounts = np.array([above + max(off, 0.0), below + max(-off, 0.0)])

    def advance(
        self,
        weights: FloatArray,
        slacks: FloatArray,
        gradient: FloatArray,
        newton: Newton,
    ) -> tuple[FloatArray, FloatArray]:
        """Return weights and slacks of the planes after one step, sides included."""
        self._keep_equation(weights)
        both = np.concatenate([weights, self._amounts])
        both_slacks = np.concatenate([slacks, self._slacks])
        force = np.concatenate([gradient, self._gradient()])
        solve = self._newton(newton, self._amounts / self._slacks)
        both, both_slacks = _advance(both, both_slacks, force, solve)
        self._amounts, self._slacks = both[-2:], both_slacks[-2:]
        return both[:-2], both_slacks[:-2]

    def _gradient(self) -> FloatArray:
        """Return how fast the value grows with each side, at the present intercept."""
        intercept = self.intercept
        return np.array([intercept - self._reach, -intercept - self._reach])

    def _newton(self, newton: Newton, mobility: FloatArray) -> Newton:
        """Return the solver for planes and sides, in which the equation stays true."""
        balances = self._balances
        by_balance = newton(balances)
        stiffness = float(mobility.sum() + balances @ by_balance)
        signs = np.array([1.0, -1.0])

        def solve(force: FloatArray) -> FloatArray:
            change, sides = newton(force[:-2]), mobility * force[-2:]
            multiplier = float(balances @ change - signs @ sides) / stiffness
            change = change - multiplier * by_balance
            return np.concatenate([change, sides + multiplier * signs * mobility])

        return solve


def _advance(
    weights: FloatArray, slacks: FloatArray, gradient: FloatArray, newton: Newton
) -> tuple[FloatArray, FloatArray]:
    """Return weights and slacks after one step: predictor, then corrector."""
    product = float(weights @ slacks)
    change = newton(gradient)
    slack_change = -slacks - slacks / weights * change
    predicted = weights + _length(weights, change, 1.0) * change
    slacks_there = slacks + _length(slacks, slack_change, 1.0) * slack_change
    target = product / len(weights) * (predicted @ slacks_there / product) ** 3
    centring = (target - change * slack_change) / weights
    change = newton(gradient + centring)
    slack_change = centring - slacks - slacks / weights * change
    return (
        weights + _length(weights, change, _TO_THE_BOUNDARY) * change,
        slacks + _length(slacks, slack_change, _TO_THE_BOUNDARY) * slack_change,
    )


def _length(values: FloatArray, change: FloatArray, share: float) -> float:
    """Return the step, at most one, that goes a share of the way to zero."""
    speed = -float((change / values).min())
    return 1.0 if speed <= share else share / speed


def _factor_newton(programme: PlaneProgramme, mobility: FloatArray) -> Newton:
    """Solve with a matrix of the dimensions: I + slopes' mobility slopes, centred."""
    buckets, starts, factor = programme.buckets, programme.starts, programme.slopes
    pivots = programme.pivots(mobility)
    share = mobility / np.add.reduceat(mobility, starts)[buckets]
    root, pivot_of = np.sqrt(mobility), pivots[buckets]
    centred = factor - factor.take(pivot_of, axis=0)
    means = np.add.reduceat(share[:, None] * centred, starts, axis=0)
    centred -= means.take(buckets, axis=0)
    centred *= root[:, None]
    lower = _cholesky(dsyrk(1.0, centred.T, lower=1), 1.0)

    def solve(force: FloatArray) -> FloatArray:
        force = force - force[pivot_of]
        force = root * (force - np.add.reduceat(share * force, starts)[buckets])
        slope, _ = dpotrs(lower, force @ centred, lower=1)
        change: FloatArray = root * (force - centred @ slope)
        change[pivots] = 0.0
        change[pivots] = -np.add.reduceat(change, starts)
        return change

    return solve


def _gram_newton(programme: PlaneProgramme, mobility: FloatArray) -> Newton:
    """Solve with a matrix of the planes, each taken as its difference to the pivot."""
    gram, pivots = programme.slopes.copy(), programme.pivots(mobility)
    noise = len(gram) * _NOISE * np.max(np.diag(gram))
    gram.flat[:: len(gram) + 1] += 1.0 / mobility + noise
    others = np.delete(np.arange(len(gram)), pivots)
    rivals = pivots[programme.buckets[others]]
    gram = gram[others] - gram[rivals]
    gram = gram.take(others, axis=1) - gram.take(rivals, axis=1)
    lower = _cholesky(gram.T, 0.0)

    def solve(force: FloatArray) -> FloatArray:
        change = np.zeros(len(force))
        if not len(others):  # only the intercept has a choice, no bucket does
            return change
        change[others], _ = dpotrs(lower, force[others] - force[rivals], lower=1)
        change[pivots] = -np.add.reduceat(change, programme.starts)
        return change

    return solve


def _cholesky(matrix: FloatArray, diagonal: float) -> FloatArray:
    """Return the lower factor of matrix + diagonal I, NaN where there is none."""
    matrix.flat[:: len(matrix) + 1] += diagonal
    lower, info = dpotrf(matrix, lower=1, overwrite_a=1, clean=0)
    return lower if info == 0 else np.full_like(matrix, np.nan)
