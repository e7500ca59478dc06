"""The server's model of the loss, made of cutting planes.

For any dual vector α all holders agree on, l_i(z) >= -α_i z - l_i*(-α_i) for every
sample. Summed over a bucket that is a plane below the bucket's loss: its slope comes
from σ = Σ α_i x_i, its offset is -1/N Σ l_i*(-α_i). With plane weights b that add up
to 1 in each bucket,

    D(b) = Σ b_s c_s - λ/2 ||w(b)||²,    w(b) = 1/(λN) Σ b_s σ_s,

is a lower bound on the optimum, and the largest of them is a small programme.

An intercept without penalty has no square in D. Kept within a reach B, it takes
B |Σ b_s τ_s| instead, where the balance τ = 1/N Σ α_i of a plane is its slope in the
intercept.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, fields

import numpy as np

from hyfdca.algorithms.bundle.plane_qp import (
    Balances,
    PlaneProgramme,
    solve_plane_qp,
)
from hyfdca.algorithms.bundle.slopes import Array3, Slopes, SlopesState
from hyfdca.arrays import BoolArray, FloatArray, IntArray
from hyfdca.federation.problem import SLACK

_NO_WEIGHT = 1e-4  # an interior point leaves some weight everywhere
_MAX_AGE = 8  # solves that a plane may go without weight
_WHOLE_PLANES = 16  # from which the limits of an intercept are found


@dataclass(frozen=True)
class GramUpdate:
    """Gram entries of new planes with all sloped ones, old first, as holders sum them.

    An entry may be off by ``error`` in units of the older plane's length; of two new
    planes, in units of ``unit``.
    """

    gram: Array3
    error: float = 0.0
    unit: float = 0.0


@dataclass(frozen=True, repr=False)
class ModelState:
    """What a checkpoint keeps of a cutting model."""

    slopes: SlopesState | None
    numbers: IntArray
    next_number: int
    buckets: IntArray
    ages: FloatArray
    errors: FloatArray
    units: FloatArray
    longest_new: float
    coarsest_step: float
    offsets: FloatArray
    gram: FloatArray
    weights: FloatArray
    balances: FloatArray
    intercepts: FloatArray
    reach: FloatArray
    balance_error: float


@dataclass
class CuttingModel:
    """What the server knows of the planes, and the programme it solves.

    Parameters
    ----------
    scale : float
        λN² of the study: Gram entries are σ·σ' / (λN²).
    slopes : Slopes or None
        In the open profile; without them holders sum the Gram entries.
    max_planes : int
        Planes kept per bucket; of more, the lightest are dropped.
    first_reach : float or None
        How far from zero a free intercept may be at first; None if there is none.
    most_planes : int, optional
        With more planes than this, a programme is solved over a few at a time.
    """

    n_buckets: int
    n_outputs: int
    scale: float
    slopes: Slopes | None
    keeps_gram: bool
    max_planes: int = 128
    first_reach: float | None = None
    most_planes: int | None = None
    numbers: IntArray = field(init=False)
    buckets: IntArray = field(init=False)
    ages: FloatArray = field(init=False)
    errors: FloatArray = field(init=False)  # of Gram entries, in units of
    units: FloatArray = field(init=False)  # the other plane's length, or more
    offsets: FloatArray = field(init=False)
    gram: Array3 = field(init=False)
    weights: FloatArray = field(init=False)
    balances: FloatArray = field(init=False)
    intercepts: FloatArray = field(init=False)  # of the weights, by output
    reach: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Start with the planes of α = 0, which cost nothing: l >= 0."""
        n = self.n_buckets
        self.numbers = np.arange(n)
        self.next_number = n
        self.buckets = np.arange(n)
        self.ages = np.zeros(n)
        self.errors, self.units = np.zeros(n), np.zeros(n)
        self.longest_new = 0.0
        self.coarsest_step = 0.0
        self.offsets = np.zeros((n, self.n_outputs))
        self.weights = np.ones((n, self.n_outputs))
        self.balances = np.zeros((n, self.n_outputs))
        self.intercepts = np.zeros(self.n_outputs)
        self.reach = np.full(self.n_outputs, self.first_reach or 0.0)
        self.balance_error = 0.0
        self.gram = np.zeros((n, n, self.n_outputs)) if self.keeps_gram else _NONE

    def state(self) -> ModelState:
        """Return what a checkpoint keeps."""
        slopes = None if self.slopes is None else self.slopes.state()
        return ModelState(slopes, *(getattr(self, name) for name in _IN_STATE))

    def restore(self, state: ModelState) -> None:
        """Take a state."""
        if self.slopes is not None and state.slopes is not None:
            self.slopes.restore(state.slopes)
        for name in _IN_STATE:
            setattr(self, name, getattr(state, name))

    @property
    def sloped(self) -> IntArray:
        """The numbers of all planes but those of α = 0, as clients know them."""
        return self.numbers[self.n_buckets :]

    def add(
        self,
        buckets: IntArray,
        offsets: FloatArray,
        update: GramUpdate | None,
        balances: FloatArray | None = None,
    ) -> None:
        """Add planes, with their Gram entries where these are kept.

        Balances are those of a study with a free intercept.
        """
        n_new, n_old = len(buckets), len(self.numbers)
        new = np.arange(self.next_number, self.next_number + n_new)
        self.numbers = np.append(self.numbers, new)
        self.next_number += n_new
        self.buckets = np.append(self.buckets, buckets)
        self.ages = np.append(self.ages, np.zeros(n_new))
        self.offsets = np.concatenate([self.offsets, offsets])
        none = np.zeros((n_new, self.n_outputs))
        self.weights = np.concatenate([self.weights, none])
        self.balances = np.concatenate(
            [self.balances, none if balances is None else balances]
        )
        if update is None:
            return
        gram = update.gram
        self.errors = np.append(self.errors, np.full(n_new, update.error))
        own = np.einsum("nnc->nc", gram[:, n_old - self.n_buckets :]).max(axis=1)
        lengths = np.maximum(np.sqrt(np.maximum(own, 0.0)), update.unit)
        self.longest_new = math.sqrt(max(float(own.max()), 0.0))
        self.units = np.append(self.units, lengths)
        size = n_old + n_new
        larger = np.zeros((size, size, self.n_outputs))
        larger[:n_old, :n_old] = self.gram
        larger[n_old:, self.n_buckets :] = gram
        larger[self.n_buckets :, n_old:] = gram.transpose(1, 0, 2)
        self.gram = larger

    def solve(self, tolerances: FloatArray, age: float = 1.0) -> None:
        """Find plane weights within a tolerance (by output) of the best.

        Planes without weight get older by ``age``, 1 where every bucket has new ones.
        """
        for output, tolerance in enumerate(tolerances.tolist()):
            start = self.weights[:, output]
            programme = self._programme(output)
            found = solve_plane_qp(programme, tolerance, start, self.most_planes)
            self.weights[:, output] = found.weights
            self.intercepts[output] = found.intercept
        self.note_weights(self.weights, age)

    def note_weights(self, weights: FloatArray, age: float = 1.0) -> None:
        """Take plane weights found elsewhere; planes without weight get older."""
        self.weights = weights
        self.ages = np.where(weights.max(axis=1) > _NO_WEIGHT, 0.0, self.ages + age)

    def of_buckets(self, kept: BoolArray) -> CuttingModel:
        """Return the model of the loss of some buckets alone."""
        own = copy(self)
        planes = kept[self.buckets]
        for name in ("numbers", "ages", "offsets", "weights", "balances"):
            setattr(own, name, getattr(self, name)[planes])
        own.n_buckets = int(kept.sum())
        own.buckets = (np.cumsum(kept) - 1)[self.buckets[planes]]
        if self.keeps_gram:
            own.gram = self.gram[planes][:, planes]
            own.errors, own.units = self.errors[planes], self.units[planes]
        if self.slopes is not None:
            own.slopes = self.slopes.of_planes(planes[self.n_buckets :])
        return own

    def at_scale(self, scale: float) -> CuttingModel:
        """Return the same planes at another λ: they bound the loss, whatever it is."""
        own, growth = copy(self), self.scale / scale
        own.scale = scale
        if self.keeps_gram:
            own.gram = self.gram * growth
            own.errors = self.errors * math.sqrt(growth)
            own.units = self.units * math.sqrt(growth)
        return own

    def _balances_of(self, output: int) -> Balances | None:
        if self.first_reach is None:
            return None
        return Balances(self.balances[:, output], float(self.reach[output]))

    def intercept_limits(self, primals: FloatArray, norm_error: float) -> FloatArray:
        """Return how far from zero an optimal intercept can be, by output.

        With P(w, w_0) at most ``primals``, √λ ||w|| is at most √(2P), so a plane below
        the whole loss with balance τ, offset c and length L = ||σ|| / (√λ N) says that
        -τ w_0 is at most P - c + L √(2P). Planes of both signs enclose w_0.

        Parameters
        ----------
        norm_error : float
            As in ``bound``.
        """
        weights = self._whole_planes()
        lengths = np.sqrt(np.maximum(self.squared_norms_of(weights), 0.0))
        offsets = (weights * self.offsets).sum(axis=1)
        rise = primals - offsets + (lengths + norm_error) * np.sqrt(2 * primals)
        rise = np.maximum(rise, 0.0) * (1 + SLACK)
        balances = (weights * self.balances).sum(axis=1)
        steep = np.abs(balances) - self.n_buckets * self.balance_error
        with np.errstate(divide="ignore"):
            limits = np.where(steep > 0.0, rise / np.maximum(steep, 0.0), np.inf)
        below = np.where(balances > 0.0, limits, np.inf).min(axis=0)
        above = np.where(balances < 0.0, limits, np.inf).min(axis=0)
        return np.asarray(np.maximum(above, below))

    def is_limited_below(self) -> BoolArray:
        """Return where planes keep the intercept from going down without end."""
        balances = (self._whole_planes() * self.balances).sum(axis=1)
        error = self.n_buckets * self.balance_error
        return np.asarray(balances.max(axis=0) > error)

    def _whole_planes(self) -> Array3:
        """Return planes below the whole loss, one of each bucket, by their balances.

        As plane weights, (planes below the whole loss, planes, outputs).
        """
        outputs = np.arange(self.n_outputs)
        order = np.stack(
            [np.lexsort((own, self.buckets)) for own in self.balances.T], axis=1
        )
        sizes = np.bincount(self.buckets, minlength=self.n_buckets)
        starts = np.cumsum(sizes) - sizes
        shares = np.linspace(0.0, 1.0, min(int(sizes.max()), _WHOLE_PLANES))
        places = starts + np.rint(shares[:, None] * (sizes - 1)).astype(np.int64)
        weights = np.zeros((len(shares), *self.weights.shape))
        numbers = np.arange(len(shares))[:, None, None]
        weights[numbers, order[places], outputs] = 1.0
        return weights

    def _programme(self, output: int) -> PlaneProgramme:
        return PlaneProgramme(
            self.offsets[:, output],
            self.buckets,
            self._quadratic(output),
            self.keeps_gram,
            self._balances_of(output),
        )

    def _quadratic(self, output: int) -> FloatArray:
        """Return the Gram matrix, or the slopes in units of its root."""
        if self.keeps_gram:
            return self.gram[:, :, output]
        assert self.slopes is not None  # noqa: S101  # for the type checker
        slopes = self.slopes.matrix()[:, :, output]
        zero = np.zeros((self.n_buckets, slopes.shape[1]))
        return np.concatenate([zero, slopes]) / math.sqrt(self.scale)

    def forget(self) -> None:
        """Drop planes without weight for long, and the lightest of full buckets."""
        kept = (self.ages <= _MAX_AGE) | (np.arange(len(self.ages)) < self.n_buckets)
        heaviest = self.weights.max(axis=1)
        crowded = np.bincount(self.buckets[kept], minlength=self.n_buckets)
        for bucket in np.flatnonzero(crowded > self.max_planes).tolist():
            inside = np.flatnonzero(kept & (self.buckets == bucket))[1:]
            order = np.lexsort((-self.ages[inside], heaviest[inside]))
            kept[inside[order[: crowded[bucket] - self.max_planes]]] = False
        self._keep(kept)

    def _keep(self, kept: BoolArray) -> None:
        for name in ("numbers", "buckets", "ages", "offsets", "weights", "balances"):
            setattr(self, name, getattr(self, name)[kept])
        if self.keeps_gram:
            self.gram = self.gram[kept][:, kept]
            self.errors, self.units = self.errors[kept], self.units[kept]
        if self.slopes is not None:
            self.slopes.keep(self.sloped)

    def squared_norms(self) -> FloatArray:
        """Return λ ||w||² of each output from the Gram matrix, rounded up.

        It is negative only if the entries are not products of any vectors.
        """
        return self._gram_norms(self.weights)

    def squared_norms_of(self, weights: Array3) -> FloatArray:
        """Return λ ||w||² of other mixtures, (mixtures, planes, outputs) of weights."""
        if self.keeps_gram:
            return np.stack([self._gram_norms(own) for own in weights])
        assert self.slopes is not None  # noqa: S101  # for the type checker
        combined = self.slopes.combine_each(weights[:, self.n_buckets :])
        return np.asarray((combined**2).sum(axis=1) / self.scale)

    def _gram_norms(self, b: FloatArray) -> FloatArray:
        squares = np.einsum("sc,spc,pc->c", b, self.gram, b, optimize=True)
        found: FloatArray = squares + self.gram_errors(b)
        float_error = SLACK * (self.units @ np.abs(b)) ** 2
        return np.asarray(np.where(found < -float_error, found, np.maximum(found, 0)))

    def gram_errors(self, b: FloatArray) -> FloatArray:
        """Return how far off λ ||w||² of plane weights may be for rounding."""
        # An entry came in units of one plane's length with the other's error.
        return 2 * (self.errors @ np.abs(b)) * (self.units @ np.abs(b))

    @property
    def lengths(self) -> FloatArray:
        """The lengths of the sloped planes, in units of √(λN²); never zero."""
        own = np.einsum("ssc->sc", self.gram).max(axis=1)[self.n_buckets :]
        return np.where(own > 0, np.sqrt(np.maximum(own, 0.0)), 1.0)

    def note_balances(self, error: float) -> None:
        """Note how far off the balances of new planes may be, for the bound."""
        self.balance_error = max(self.balance_error, error)

    def note_step(self, fraction_bits: int) -> None:
        """Note the grid of a slope, for the bound."""
        self.coarsest_step = max(self.coarsest_step, math.ldexp(1.0, -fraction_bits))

    def remember(self, new: Array3) -> GramUpdate | None:
        """Keep the slopes of planes to be added; return their Gram entries if kept."""
        assert self.slopes is not None  # noqa: S101  # the open profile shows them
        self.slopes.append(self.next_number, new)
        if not self.keeps_gram:
            return None
        return GramUpdate(self.slopes.products(len(new), slice(None)) / self.scale)

    def bound(self, squared_norms: FloatArray, norm_error: float) -> FloatArray:
        """Return D(b) of each output, rounded down.

        Parameters
        ----------
        squared_norms : array
            λ ||w||² of each output.
        norm_error : float
            How much longer √λ w may be for the rounding of slopes.
        """
        lengths = np.sqrt(np.maximum(squared_norms, 0.0)) + norm_error
        linear = (self.weights * self.offsets).sum(axis=0)
        size = np.abs(self.weights * self.offsets).sum(axis=0) + lengths**2
        bounds: FloatArray = linear - lengths**2 / 2 - SLACK * size
        return bounds - self._imbalance_costs()

    def _imbalance_costs(self) -> FloatArray:
        """Return what an intercept within its reach takes from D, rounded up."""
        if self.first_reach is None:
            return np.zeros(self.n_outputs)
        imbalances = np.abs((self.weights * self.balances).sum(axis=0))
        sizes = (self.weights * np.abs(self.balances)).sum(axis=0)
        # The weights of each bucket add up to 1.
        rounding = self.n_buckets * self.balance_error + SLACK * sizes
        return np.asarray(self.reach * (imbalances + rounding))


_NONE = np.empty((0, 0, 0))
_IN_STATE = [own.name for own in fields(ModelState) if own.name != "slopes"]
