"""A client's half of the bundle method: duals, slopes and losses of its own block."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass

import numpy as np

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.bundle.asked import (
    N_STEPS,
    Asked,
    PlaneNumbers,
    check_steps,
)
from hyfdca.algorithms.bundle.async_client import VisitedBuckets, VisitedState
from hyfdca.algorithms.bundle.plane_sums import PlaneSums
from hyfdca.algorithms.bundle.slopes import Slopes, SlopesState, by_plane
from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError
from hyfdca.federation.client import Party, check_few, grid_step
from hyfdca.federation.messages import Opened, OpenRequest, Released, Vouched
from hyfdca.federation.sealing.client_sealing import above
from hyfdca.federation.sums import EVERYWHERE
from hyfdca.maths.loss_kernels import sums_along, touching_duals
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_reals,
    unpack_indices,
    unpack_places,
    unpack_reals,
)
from hyfdca.protocol.messages import Message, Parts, TooLarge

_FLOAT_ERROR = 1e-15  # of a margin that is moved along, as a share of its size
_BLOCK = 65536  # samples whose duals are in memory at a time


@dataclass(frozen=True, repr=False)
class BundleClientState:
    """What a checkpoint keeps of a client's half."""

    best_margins: FloatArray
    margins: FloatArray
    best_weights: FloatArray
    weights: FloatArray
    intercepts: FloatArray
    best_step: float
    step: float
    moved: int
    slopes: SlopesState
    delivered: dict[int, FloatArray]
    visited: VisitedState
    plane_numbers: PlaneNumbers | None


class BundleClient:
    """State: margins and weights at the best point and at the trial point.

    Margins are those of its samples, if it has labels, with offsets and intercept;
    weights those of its features; intercepts those of the trial point.

    Parameters
    ----------
    asked : Asked
        What the client answers.
    """

    def __init__(self, party: Party, asked: Asked) -> None:
        self.party, self._sealing, self._asked = party, party.sealing, asked
        self._labels = party.block.labels
        n_outputs = party.problem.n_outputs
        n_margins = 0 if party.block.labels is None else party.n_held
        by_feature = (party.n_features, n_outputs)
        self.best_margins = party.at_start(n_margins)
        self.margins = party.at_start(n_margins)
        self.best_weights, self.weights = np.zeros(by_feature), np.zeros(by_feature)
        self._intercepts = np.zeros(n_outputs)
        self._best_step = self._step = 0.0  # widths of the grids of the margins' sums
        self._moved = 0
        self._slopes = Slopes(*by_feature)
        self.n_points = 1  # each with all outputs, one after the other
        counted = party.block.counts_sample[:, None] * np.ones(
            (party.n_held, n_outputs)
        )
        self.counted = party.weighted(counted)  # zero where others count
        self.buckets = np.zeros(party.n_held, np.uint32)
        self.n_buckets = 1
        self.bucket_arrangement = Arrangement.apart(1)
        self._delivered: dict[int, FloatArray] = {}  # duals, for candidates
        self._visited = VisitedBuckets(self)
        self._plane_numbers: PlaneNumbers | None = None  # of the sealed profile

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **self.party.handlers,
            "buckets": self._take_buckets,
            "planes": self._planes,
            "forward planes": self._take_planes,
            "gram": self._gram,
            "open planes": self._open_planes,
            "trial": self._trial,
            "search": self._search,
            "open search": self._open_search,
            "release": self._release,
            **self._visited.handlers,
        }

    def state(self) -> BundleClientState:
        """Return what a checkpoint keeps."""
        return BundleClientState(
            self.best_margins,
            self.margins,
            self.best_weights,
            self.weights,
            self._intercepts,
            self._best_step,
            self._step,
            self._moved,
            self._slopes.state(),
            self._delivered,
            self._visited.state(),
            self._plane_numbers,
        )

    def restore(self, state: BundleClientState) -> None:
        """Take a state."""
        self.best_margins, self.margins = state.best_margins, state.margins
        self.best_weights, self.weights = state.best_weights, state.weights
        self._intercepts = state.intercepts
        self._best_step, self._step = state.best_step, state.step
        self._moved, self._delivered = state.moved, dict(state.delivered)
        self._slopes.restore(state.slopes)
        self._visited.restore(state.visited)
        self._plane_numbers = state.plane_numbers

    def _take_buckets(self, notice: b.BucketsNotice) -> None:
        numbers = unpack_indices(notice.numbers, self._asked.max_buckets)
        places = unpack_places(notice.buckets, self.party.n_held, len(numbers))
        if np.bincount(places, minlength=len(numbers)).min(initial=1) < 1:
            raise RemoteProtocolError("a bucket has none of this client's samples")
        if self.party.block.row_groups is not None:
            self._asked.check_buckets(self.party.block.row_groups, places)
        smallest = int(np.bincount(places).min(initial=self.party.n_held))
        check_few(self.party.least_rows, smallest, "a bucket")
        self.n_buckets, self.buckets = len(numbers), places.astype(np.uint32)
        self.bucket_arrangement = Arrangement(numbers)

    # New planes

    def _planes(self, request: b.PlanesRequest) -> Message:
        """Form duals where the loss is touched; return the planes they give."""
        best = self._best()
        try:
            return self._formed_planes(request)
        except Exception:
            self._go_back(best)
            raise

    def _formed_planes(self, request: b.PlanesRequest) -> Message:
        mixture, labels = request.mixture, self._labels
        if labels is None:
            raise RemoteProtocolError("this client has no labels to make planes of")
        self._asked.check_planes(request)
        present = None if mixture is None else self._present_duals(mixture)
        n_planes = self.n_points * (len(request.places) + len(request.candidates))
        sums = PlaneSums(self, self.n_buckets, n_planes)
        self._apply_step(request.move)
        is_kept = request.forwards or present is not None
        kept = np.empty((self.party.n_held, sums.width) if is_kept else (0, 0))
        try:
            # By blocks: the duals of all samples need not be in memory at once.
            for first in range(0, self.party.n_held, _BLOCK):
                rows = slice(first, min(first + _BLOCK, self.party.n_held))
                duals = self._new_duals(rows, request, present, labels[rows])
                sums.add(rows, self.buckets[rows], duals, labels)
                if is_kept:
                    kept[rows] = duals
            if mixture is not None:
                # Duals that are no longer part of the mixture are forgotten.
                mixed = {d: self._delivered[d] for d in mixture.deliveries}
                self._delivered = {**mixed, request.number: kept}
            return b.Planes(
                sums.slopes(request.grid),
                sums.offsets(request.offsets_grid),
                [sums.forwarded(EVERYWHERE, kept, request.duals_grid)]
                if request.forwards
                else None,
            )
        except GridOverflowError:
            return TooLarge()

    def _new_duals(
        self,
        rows: slice,
        request: b.PlanesRequest,
        present: FloatArray | None,
        labels: FloatArray,
    ) -> FloatArray:
        """Return the duals of all new planes, (rows, planes · outputs)."""
        best, trial = self.best_margins[rows], self.margins[rows]
        loss, places = self.party.problem.loss, np.array(request.places)
        duals = touching_duals(loss, best, trial, labels, places)
        if present is not None:
            steps = [
                self._candidate(rows, present[rows], c) for c in request.candidates
            ]
            duals = np.hstack([duals, *steps])
        # On the grid, so that holders without labels have exactly the same.
        if request.forwards:
            return self._sealing.on_grid(duals, request.duals_grid)
        return duals

    def _present_duals(self, mixture: b.Mixture) -> FloatArray:
        """Return the mixture of delivered duals that the server's programme chose."""
        if not set(mixture.deliveries) <= set(self._delivered):
            raise RemoteProtocolError("these planes were never delivered")
        delivered = [self._delivered[d] for d in mixture.deliveries]
        n_outputs = self.party.problem.n_outputs
        total = np.zeros((self.party.n_held, n_outputs))
        # All collections of a study have the same number of planes.
        width = max((duals.shape[1] for duals in delivered), default=0)
        shape = (len(delivered), self.n_buckets, width)
        weights = unpack_reals(mixture.weights, math.prod(shape)).reshape(shape)
        self._check_mixture(weights, n_outputs)
        for duals, of_bucket in zip(delivered, weights, strict=True):
            parts = of_bucket[self.buckets] * duals
            by_output = parts.reshape(self.party.n_held, width // n_outputs, n_outputs)
            total += by_output.sum(axis=1)
        return total

    def _check_mixture(self, weights: FloatArray, n_outputs: int) -> None:
        """Refuse weights of delivered duals, by bucket, that are not a mixture."""
        n_deliveries, n_buckets, width = weights.shape
        planes = weights.reshape(-1, n_outputs)
        buckets = np.repeat(np.arange(n_buckets), width // n_outputs)
        self._asked.check_weights(planes, np.tile(buckets, n_deliveries), n_buckets)

    def _candidate(
        self, rows: slice, duals: FloatArray, candidate: b.Candidate
    ) -> FloatArray:
        """Return duals after a step of Algorithm 5 each, with another curvature."""
        best, labels = self.best_margins[rows], self.party.labels[rows]
        margins = best + candidate.place * (self.margins[rows] - best)
        # A row of zeros has no curvature: its best dual is where its plane touches.
        is_row = self.party.squared_norms[rows] > 0
        curvatures = np.where(is_row, candidate.curvature, 0.0)
        loss = self.party.problem.loss
        moved = duals + loss.dual_step(duals, margins, labels, curvatures)
        return loss.into_domain(moved, labels)

    def _take_planes(self, request: b.ForwardedPlanes) -> Message:
        """Take the duals of new planes from the samples' designated holders."""
        self._asked.check_count(request.n_planes, self.n_points)
        sums = PlaneSums(self, self.n_buckets, request.n_planes)
        duals = self._sealing.opened_samples("duals", request.duals, width=sums.width)
        sums.add(EVERYWHERE, self.buckets, duals)
        try:
            return Parts(sums.slopes(request.grid))
        except GridOverflowError:
            return TooLarge()

    def _gram(self, request: b.GramRequest) -> Message:
        """Take new slopes; return their products with all slopes, σ·σ'/(λN²)."""
        problem = self.party.problem
        if not request.slopes or not all(request.slopes):
            raise RemoteProtocolError("new planes come with their slopes")
        if len(request.slopes) > self._asked.max_buckets:
            raise RemoteProtocolError("there are slopes of more buckets than allowed")
        numbers = self._checked_numbers(request)
        n_new, known = len(request.slopes) * request.n_planes, self._slopes.numbers
        is_new = request.first not in known  # otherwise it is asked again
        kept = unpack_indices(request.kept, request.first)
        n_all = np.isin(known, kept).sum() + n_new
        units = unpack_reals(request.units, int(n_all))
        if np.any(units <= 0):
            raise RemoteProtocolError("a unit of Gram entries is not positive")
        before = copy(self._slopes), self._plane_numbers
        try:
            if is_new:
                width = request.n_planes * problem.n_outputs
                new = []
                for sums in request.slopes:
                    opened = self._sealing.opened_features("slopes", sums, width)
                    new.append(by_plane(opened, problem.n_outputs))
                self._slopes.keep(kept)
                self._slopes.append(request.first, np.concatenate(new))
                self._plane_numbers = numbers
            products = self._slopes.products(n_new, self.party.block.counts_feature)
            scaled = products / (problem.l2_scale * problem.n_samples * units[:, None])
            return self._sealing.total_part("totals", scaled, request.grid)
        except Exception:
            self._slopes, self._plane_numbers = before
            raise

    def _checked_numbers(self, request: b.GramRequest) -> PlaneNumbers:
        """Return how planes are numbered, which is the same in the whole study."""
        self._asked.check_count(request.n_planes, self.n_points)
        n_buckets, own = len(request.slopes), self.bucket_arrangement.groups
        if n_buckets <= own.max(initial=0):
            raise RemoteProtocolError("new planes come with a slope of every bucket")
        numbers = self._plane_numbers or PlaneNumbers(n_buckets)
        if numbers.n_buckets != n_buckets:
            raise RemoteProtocolError("planes are numbered by collection and bucket")
        return numbers.with_collection(request.first, request.n_planes)

    def _open_planes(self, request: OpenRequest) -> Opened | Vouched:
        """Open the offsets of new planes by bucket, and their Gram entries."""
        problem, numbers = self.party.problem, self._plane_numbers
        if numbers is None:
            raise RemoteProtocolError("planes were not multiplied yet")
        n_buckets, width = numbers.n_buckets, numbers.n_planes[-1] * problem.n_outputs
        n_halves = 2 if problem.free_intercept else 1  # balances follow offsets
        products = n_buckets * width * len(self._slopes.numbers)
        shapes = [(n_buckets, n_halves * width), (1, products)]
        return self.party.open_totals(request, [shapes])

    # A new point

    def _trial(self, request: b.TrialRequest) -> Message:
        """Take the trial point; return x_{k,i}·w_k."""
        best, n_columns = self._best(), self.weights.shape[1]
        try:
            self._apply_step(request.move)
            weights = self._trial_weights(request)
            intercepts = self.party.unpacked_intercepts(request.intercepts, n_columns)
            reply = self._sealing.sample_part(
                "margins", self.party.products(EVERYWHERE, weights), request.grid
            )
        except Exception:
            self._go_back(best)
            raise
        self.weights, self._intercepts = weights, intercepts
        return reply

    def _trial_weights(self, request: b.TrialRequest) -> FloatArray:
        """Return the weights of features, or those that plane weights stand for."""
        shape = self.weights.shape
        if request.weights is not None:
            return unpack_reals(request.weights, math.prod(shape)).reshape(shape)
        return self._mixed(request.plane_weights or memoryview(b""))

    def _mixed(self, payload: memoryview) -> FloatArray:
        scales = self._l2_scales()
        numbers = self._slopes.numbers
        shape = (len(numbers), self.weights.shape[1])
        given = unpack_reals(payload, math.prod(shape)).reshape(shape)
        if self._plane_numbers is not None:
            buckets = self._plane_numbers.buckets_of(numbers)
            n_buckets = self._plane_numbers.n_buckets
            self._asked.check_weights(given, buckets, n_buckets)
        points = map(np.ascontiguousarray, np.split(given, self.n_points, axis=1))
        return np.hstack(list(map(self._slopes.combine, points))) / scales

    def _l2_scales(self) -> FloatArray | float:
        """Return λN of the points that are mixtures of planes."""
        return self.party.problem.l2_scale

    def _search(self, request: b.SearchRequest) -> Message:
        """Return this client's part of P at steps to the trial point, rounded up."""
        check_steps(request)
        steps, before = np.array(request.steps), (self.margins, self._step)
        try:
            if self.party.block.labels is not None:
                step = grid_step(request.margins)
                margins = self.party.margins(request.margins, n_points=self.n_points)
                self.margins, self._step = margins + self._intercepts, step
            totals = self._measured(steps)
            # A step where P does not fit is never taken: P(0) fits.
            most = math.ldexp(1.0, request.grid.limit_bits - request.grid.fraction_bits)
            return self._sealing.total_part(
                "totals", np.minimum(above(totals), most), request.grid, "up"
            )
        except Exception:
            self.margins, self._step = before
            raise

    def _measured(self, steps: FloatArray) -> FloatArray:
        """Return P at some steps to the trial point, (steps, outputs)."""
        totals = self.party.problem.l2_strength * self._penalties_along(steps)
        if self.party.block.labels is not None:
            totals += self._losses_along(steps, self.party.block.labels)
        return totals

    def _penalties_along(self, steps: FloatArray) -> FloatArray:
        """Return ||w||²/2 over the features counted here, by step."""
        change = self.weights - self.best_weights
        counted = self.party.block.counts_feature
        along = self.best_weights[counted] + steps[:, None, None] * change[counted]
        return np.asarray(0.5 * (along**2).sum(axis=1))

    def _open_search(self, request: OpenRequest) -> Opened | Vouched:
        """Open P along the steps."""
        return self._open_measured(request, self.party.problem.n_outputs)

    def _open_measured(self, request: OpenRequest, n_numbers: int) -> Opened | Vouched:
        """Open what a search measures, some numbers per step."""
        shapes = [[(1, n_steps * n_numbers)] for n_steps in N_STEPS]
        return self.party.open_totals(request, shapes)

    def _losses_along(self, steps: FloatArray, labels: FloatArray) -> FloatArray:
        """Return mean losses of the samples counted here, at worst, by step."""
        problem, start, end = self.party.problem, self.best_margins, self.margins
        if not self.party.block.counts_sample.any():
            return np.zeros((len(steps), problem.n_outputs))
        loss, errors = problem.loss, self._margin_errors()
        if loss.shape.insensitivity:
            loss, errors = loss.covering(errors)
        sums = sums_along(loss, start, end, labels, self.counted, steps)
        above = loss.above(sums, errors, self.counted)
        return above / problem.n_samples

    def _margin_errors(self) -> FloatArray:
        """Return how far off the margins along a search may be, by sample."""
        # |1 - s| of one error and s of the other, at steps s up to 2
        error = (self._best_step + 2 * self._step) / 2
        ends = (self.best_margins, self.margins)
        size = sum(max(z.max(), -z.min()) for z in ends)
        return np.asarray(self.party.sample_holders * error + _FLOAT_ERROR * size)

    def _best(self) -> tuple[FloatArray, FloatArray, float, int]:
        """Return the best point, to return to if a request is refused."""
        return self.best_weights, self.best_margins, self._best_step, self._moved

    def _go_back(self, best: tuple[FloatArray, FloatArray, float, int]) -> None:
        self.best_weights, self.best_margins, self._best_step, self._moved = best

    def _apply_step(self, move: b.Move) -> None:
        """Move the best point towards the trial point, once per search."""
        if move.number == self._moved:
            return
        best, steps = self._weights_after(move), np.array(move.steps)
        self.best_weights = best
        if self.party.block.labels is not None:
            change = self.margins - self.best_margins
            change *= steps
            self.best_margins = self.best_margins + change  # not in place: see _best
            errors = np.abs(1 - steps) * self._best_step + steps * self._step
            self._best_step = float(errors.max())
        self._moved = move.number

    def _weights_after(self, move: b.Move) -> FloatArray:
        """Return the best weights after a move, without changing anything."""
        if move.number == self._moved:
            return self.best_weights
        if move.number < self._moved or len(move.steps) != self.weights.shape[1]:
            raise RemoteProtocolError("this step is not the next one")
        change = self.weights - self.best_weights
        return np.asarray(self.best_weights + np.array(move.steps) * change)

    def _release(self, request: b.MovedRelease) -> Released:
        """Give away the best weights of this client's features."""
        return Released(pack_reals(self._weights_after(request.move)))
