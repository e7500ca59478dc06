"""The path: all fits among which λ is chosen, in the rounds of one bundle method.

A fit is a λ and a fold to leave out, or none. The buckets are divided into folds, so
every plane is below the loss of rows of one fold, whatever λ is: all fits share all
planes, and each leaves out those of its own fold. And the losses of the folds at a
point give P of every fit there, and its validation loss. So what any fit asks for
serves all of them.

Fits of all rows have points of their own: first that at the largest λ; once it is near
its optimum, the next begins where it is. The fits without a fold at the same λ follow
from its planes and points; one whose gap stays too large gets a point of its own when
the fit of all rows has finished. A fit has finished when its certified gap is small
enough; its point then leaves the messages.

| phase      | down                                        | up                       |
|------------|---------------------------------------------|--------------------------|
| folds      | -                                           | weight by fold, sealed   |
| open folds | grand totals, to one client                 | weight by fold, open     |
| fits       | fits that have a point, and where they begin| -                        |

All else is in server.py; a search measures λ/2 ||w||² and the loss of each fold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.bundle.buckets import Buckets
from hyfdca.algorithms.bundle.collecting import PlaneCollection
from hyfdca.algorithms.bundle.path_fit import Fit, FitState
from hyfdca.algorithms.bundle.planes import CuttingModel
from hyfdca.algorithms.bundle.server import (
    BundleServer,
    BundleServerState,
    TrialPoint,
)
from hyfdca.algorithms.bundle.settings import PATH_PLACES, TRIAL_STEPS, BundleSettings
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.errors import StudyError
from hyfdca.federation.path import FitRecord, Path, PathRow, largest_l2, path_table
from hyfdca.federation.server import Federation, Point
from hyfdca.maths.objective import Measurement
from hyfdca.protocol.messages import Sums
from hyfdca.protocol.server_session import Conversation

# The relative gap from which on the next smaller λ begins, and the multiple of the
# tolerance from which on the fits without a fold look whether they have finished.
_NEAR, _ALMOST = 0.3, 2.0


@dataclass(frozen=True, repr=False)
class PathServerState:
    """What a checkpoint keeps of the server's half."""

    bundle: BundleServerState
    l2s: tuple[float, ...]
    shares: tuple[float, ...]
    with_point: list[int]
    fits: list[FitState]
    best_intercepts: FloatArray


class PathServer(BundleServer):
    """The server's half."""

    # Buckets are many, and what travels of planes is a square of their number.
    most_planes = 48

    def __init__(
        self, federation: Federation, settings: BundleSettings, path: Path
    ) -> None:
        super().__init__(federation, settings)
        self.path = path
        self.shares: tuple[float, ...] = ()
        self.with_point = [path.whole(0)]
        # Of the points, (points, outputs)
        self._best_intercepts = np.zeros((1, federation.problem.n_outputs))

    def state(self) -> PathServerState:  # type: ignore[override]
        """Return what a checkpoint keeps."""
        return PathServerState(
            self.bundle_state(),
            self.path.l2s,
            self.shares,
            self.with_point,
            [fit.state() for fit in self.fits],
            self._best_intercepts,
        )

    def restore(self, state: PathServerState) -> None:  # type: ignore[override]
        """Take a state."""
        self.restore_bundle(state.bundle)
        self.path = self.path.restored(state.l2s)
        self.shares, self.with_point = state.shares, list(state.with_point)
        self._best_intercepts = state.best_intercepts
        for fit, kept in zip(self.fits, state.fits, strict=True):
            fit.restore(kept)

    def start_at(self, weights: FloatArray) -> None:
        """Begin at zero all the same: a fit begins at the point of another fit."""

    # Before the first round

    @cached_property
    def _whole_buckets(self) -> Buckets:
        most = self.settings.max_buckets // self.path.n_folds
        return self.buckets_up_to(max(most, 1))

    @cached_property
    def planes(self) -> PlaneCollection:
        """Collects new planes, of vertices alone: candidates step from one point."""
        return PlaneCollection(
            self.federation, self.grids, self.buckets, self.model, PATH_PLACES
        )

    @cached_property
    def buckets(self) -> Buckets:
        """Who is in which bucket, each divided into folds, which clients know."""
        whole, n_folds = self._whole_buckets, self.path.n_folds
        of_client = tuple(
            (own[:, None] * n_folds + np.arange(n_folds)).ravel()
            for own in whole.of_client
        )
        return Buckets(whole.of_sample, of_client, n_folds * whole.n_buckets)

    def notices(self) -> dict[int, b.BucketsNotice]:
        """Return the buckets before they are divided."""
        return self.notices_of(self._whole_buckets)

    @cached_property
    def fits(self) -> list[Fit]:
        """All fits by number; the shares of the folds are known before."""
        fold_of = np.arange(self.buckets.n_buckets) % self.path.n_folds
        return [
            Fit(
                self.federation,
                self.buckets,
                fold_of != self.path.fold(number),
                self.path.l2_of(number, self.shares),
            )
            for number in range(self.path.n_fits)
        ]

    def set_up(self) -> Conversation[None]:
        """Set up, measure at w = 0, and learn the weight of each fold."""
        yield from self.arrange()
        found = yield from self._measure_along({}, np.zeros(1), 1)
        weights = yield from self._fold_weights()
        shares = 1.0 - weights / weights.sum()
        if not np.all((shares > 0.0) & (shares < 1.0)):
            raise StudyError("A fold has no rows; use fewer folds, or another salt.")
        self.shares = tuple(shares.tolist())
        largest = None
        if self.path.is_auto:
            yield from self.planes.collect(self._move)
            largest = self._largest_l2(float(found[1:].sum()))
            self.path = self.path.scaled(largest)
        self._show_all(found, self._best_intercepts[None])
        yield from self._go_on_with(self.with_point, self.with_point, largest)

    def _largest_l2(self, primal: float) -> float:
        """Return the largest λ, by the planes that touch the loss at w = 0."""
        model = self.model
        # All places are one there: take the first of each bucket.
        whole = np.zeros_like(model.weights)
        whole[model.n_buckets :: self.planes.n_planes] = 1.0
        [squares] = model.squared_norms_of(whole[None])
        squares = squares * self.federation.problem.l2_strength
        return largest_l2(float(squares.sum()), primal)

    def _fold_weights(self) -> Conversation[FloatArray]:
        federation, grid = self.federation, self.federation.grids.totals
        total = yield from federation.gather_total(
            "folds", grid, lambda _, spec: b.FoldsRequest(spec), (1, self.path.n_folds)
        )
        [weights] = yield from federation.open_totals([total], "open folds")
        return np.asarray(weights[0])

    # A round

    def step(self) -> Conversation[None]:
        """Add planes, solve for new points, go towards them."""
        self.planes.n_points = len(self.with_point)
        if not self._has_first_planes:
            yield from self.planes.collect(self._move)
        points = self._solve()
        numbers, sources = self._next_with_point(points)
        if not numbers:
            return  # all have finished, by planes of others
        if numbers != self.with_point:
            yield from self._go_on_with(numbers, sources)
        yield from self._search([points[number] for number in numbers])
        self.model.forget()

    @property
    def _has_first_planes(self) -> bool:
        """Whether set-up has collected the planes of the first step."""
        return not self._n_measured and len(self.model.sloped) > 0

    def _solve(self) -> dict[int, TrialPoint]:
        """Return the next points of all fits that need one."""
        by_fold: dict[int, CuttingModel] = {}
        found: dict[int, TrialPoint] = {}

        def solve(number: int) -> None:
            fit, fold = self.fits[number], self.path.fold(number)
            if fold not in by_fold:
                by_fold[fold] = self.model.of_buckets(fit.kept)
            found[number] = fit.solve(by_fold[fold])

        present = [n for n in self.with_point if not self._has_finished(n)]
        for number in present:
            solve(number)
        for number in self._beginning():
            solve(number)
        self._note_weights(found)
        return {n: self._spread(n, point) for n, point in found.items()}

    def _has_finished(self, number: int) -> bool:
        return self.fits[number].relative_gap <= self.path.tolerance

    def _beginning(self) -> list[int]:
        """Return the fits without a point that need one, or their bound."""
        path, tolerance = self.path, self.path.tolerance
        numbers = []
        for place in range(len(path.l2s)):
            whole = path.whole(place)
            if whole not in self.with_point:
                continue
            gap = self.fits[whole].relative_gap
            if gap <= max(_NEAR, tolerance) and place + 1 < len(path.l2s):
                after = path.whole(place + 1)
                if after not in self.with_point:
                    numbers.append(after)
            if gap <= _ALMOST * tolerance:
                numbers += [n for n in path.folds_at(place) if self._is_waiting(n)]
        return numbers

    def _is_waiting(self, number: int) -> bool:
        return number not in self.with_point and not self._has_finished(number)

    def _next_with_point(
        self, points: dict[int, TrialPoint]
    ) -> tuple[list[int], list[int]]:
        """Return which fits have a point in this round, and where each begins."""
        sources = {}
        for number in points:
            place = self.path.place(number)
            if self._has_finished(number):
                continue
            if number in self.with_point:
                sources[number] = number
            elif self.path.is_whole(number):
                sources[number] = self.path.whole(place - 1)
            elif self._has_finished(self.path.whole(place)):
                sources[number] = self.path.whole(place)
        numbers = sorted(sources)
        return numbers, [sources[number] for number in numbers]

    def _go_on_with(
        self, numbers: list[int], sources: list[int], largest: float | None = None
    ) -> Conversation[None]:
        notice = b.FitsNotice(self._move, numbers, sources, self.shares, largest)
        everyone = self.federation.everyone
        yield from self.federation.session.tell("fits", dict.fromkeys(everyone, notice))
        places = [self.with_point.index(source) for source in sources]
        self._best_intercepts = self._best_intercepts[places]
        self.with_point = list(numbers)

    def _spread(self, number: int, point: TrialPoint) -> TrialPoint:
        """Return a point with weights for all planes, those left out included."""
        kept = self.fits[number].kept
        n_buckets = self.model.n_buckets
        planes = kept[self.model.buckets[n_buckets:]]
        weights = np.zeros((len(planes), point.plane_weights.shape[1]))
        weights[planes] = point.plane_weights
        return TrialPoint(point.weights, weights, point.intercepts, point.squared_norms)

    def _note_weights(self, found: dict[int, TrialPoint]) -> None:
        """Keep the planes that some fit uses."""
        heaviest = np.zeros_like(self.model.weights)
        for number in found:
            fit = self.fits[number]
            planes = fit.kept[self.model.buckets]
            heaviest[planes] = np.maximum(heaviest[planes], fit.model.weights)
        if found:
            self.model.note_weights(heaviest)

    def _search(self, points: list[TrialPoint]) -> Conversation[None]:
        """Measure on the way to new points; go where P of each fit is lowest."""
        margins = yield from self.try_point(_joined(points))
        found = yield from self._measure_along(margins, TRIAL_STEPS, len(points))
        trial = np.stack([point.intercepts for point in points])
        change = TRIAL_STEPS[:, None, None] * (trial - self._best_intercepts)
        lowest = self._show_all(found, self._best_intercepts + change)
        steps = TRIAL_STEPS[lowest]
        self._best_intercepts = self._best_intercepts + steps * (
            trial - self._best_intercepts
        )
        self._n_measured += 1
        self._move = b.Move(self._n_measured, steps.ravel().tolist())
        for number in self.with_point:
            self.fits[number].rounds += 1

    def _measure_along(
        self, margins: dict[int, Sums], steps: FloatArray, n_points: int
    ) -> Conversation[FloatArray]:
        """Return ||w||²/2 and the loss of each fold, (1 + folds, steps, points, C).

        Numbers that did not fit the grid are infinite: such a point is never taken.
        """
        n_outputs, n_rows = self.federation.problem.n_outputs, 1 + self.path.n_folds
        shape = (n_rows * len(steps), n_points * n_outputs)
        found = yield from self.totals_along(margins, steps, shape)
        grid = self.federation.grids.totals.grid
        largest = math.ldexp(1.0, grid.limit_bits - grid.fraction_bits)
        found = np.where(found < largest, found, np.inf)
        by_point = found.reshape(n_rows, len(steps), n_points, n_outputs)
        # Clients measure λ/2 ||w||², which is of the size of P.
        l2s = [self.path.l2_of(number, self.shares) for number in self.with_point]
        by_point[0] /= np.array(l2s)[:, None]
        return by_point

    def _show_all(self, found: FloatArray, intercepts: FloatArray) -> IntArray:
        """Offer the measurements to all fits; return the lowest steps of points.

        Intercepts are (steps, points, outputs), what is returned (points, outputs).
        """
        penalties, losses = found[0], found[1:]
        lowest = np.zeros(intercepts.shape[1:], np.int64)
        places = {number: place for place, number in enumerate(self.with_point)}
        for number, fit in enumerate(self.fits):
            fold, place = self.path.fold(number), places.get(number)
            others = np.delete(losses, fold, axis=0) if fold < len(losses) else losses
            primals = fit.l2_strength * penalties + others.sum(axis=0)
            if place is not None:
                lowest[place] = primals[:, place].argmin(axis=0)
            if not self.path.is_whole(number):
                fit.look(primals, intercepts, losses[fold])
            elif place is not None:
                own = slice(place, place + 1)
                fit.go(primals[:, own], intercepts[:, own])
            elif not self._n_measured:  # at w = 0, where all begin
                fit.look(primals, intercepts)
        return lowest

    # Results

    def measure(self) -> Conversation[Measurement]:
        """Return P and D of all fits, and the largest gap; nothing is exchanged."""
        yield from ()
        records = list(self.records().values())
        return Measurement(
            sum(own.primal for own in records),
            sum(own.dual for own in records),
            max(own.relative_gap for own in records),
        )

    def records(self) -> dict[int, FitRecord]:
        """Return the outcome of each fit."""
        left = (*self.shares, 1.0)
        records = {}
        for number, fit in enumerate(self.fits):
            share = left[self.path.fold(number)]
            primal, dual = float(fit.primals.sum()), float(fit.bounds.sum())
            validation = np.nan
            if share < 1.0 and self._has_begun(self.path.place(number)):
                validation = float(fit.validations.sum()) / (1.0 - share)
            records[number] = FitRecord(
                primal / share, dual / share, fit.relative_gap, fit.rounds, validation
            )
        return records

    def _has_begun(self, place: int) -> bool:
        """Return whether there is a model of all rows at a λ."""
        whole = self.path.whole(place)
        return whole in self.with_point or self.fits[whole].rounds > 0

    def table(self) -> list[PathRow]:
        """Return one row per λ, with the choice."""
        return path_table(self.path, self.records())

    def chosen(self) -> int:
        """Return the fit of all rows at the chosen λ."""
        return self.path.whole([row.is_chosen for row in self.table()].index(True))

    def chosen_measurement(self) -> Measurement:
        """Return P and D of the fit whose weights are released."""
        own = self.records()[self.chosen()]
        return Measurement(own.primal, own.dual)

    @property
    def n_points_tried(self) -> int:
        """The number of points at which clients have formed margins."""
        return sum(fit.rounds for fit in self.fits)

    def released_point(self) -> Point:
        """Return where the weights of the chosen fit are."""
        number, is_free = self.chosen(), self.federation.problem.free_intercept
        intercepts = self.fits[number].intercepts if is_free else None
        return Point(b.MovedRelease(self._move, number), intercepts)

    def release(self) -> Conversation[FloatArray]:
        """Return the weights of the chosen fit of all rows, a free intercept last."""
        return self.federation.release(self.released_point())


def _joined(points: list[TrialPoint]) -> TrialPoint:
    """Return points one after the other."""
    weights = [point.weights for point in points if point.weights is not None]
    return TrialPoint(
        np.hstack(weights) if weights else None,
        np.hstack([point.plane_weights for point in points]),
        np.concatenate([point.intercepts for point in points]),
        np.concatenate([point.squared_norms for point in points]),
    )
