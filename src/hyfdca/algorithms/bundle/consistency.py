"""Whether planes fit the losses that clients measure: both follow from the same rows.

Where a plane touches the loss it is as high as the loss. Its slope comes from one kind
of parts (slopes), the loss from another (margins). A client whose parts do not belong
together, such as margins of 0 beside slopes of a table, makes them differ: at the trial
point w, where new planes touch, by

    T = Σ_s (c_s - σ_s·w / N) - F(w) = 1/N Σ_k (Σ_i α_i m_{k,i} - σ_k·w_k)

with the margins m_{k,i} and slopes σ_k that client k sent. Honest parts leave T = 0 but
for rounding. All of this is computed from what rounds show the server anyway.

In the open profile the server has t_k = σ_k·w_k / N of each client. A client that sends
its margins, or its slopes, times a constant makes T the same multiple of its t_k in
every round; others do not, but by chance. Otherwise anyone may be the cause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hyfdca.algorithms.bundle.planes import CuttingModel
from hyfdca.algorithms.bundle.slopes import by_plane
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.sealing.client_sealing import read_sum
from hyfdca.federation.server import Federation
from hyfdca.protocol.messages import Sealed
from hyfdca.protocol.server_session import BadReplyError

TRIAL_PLACE = 1.0  # between the best point (0) and the trial point
_ROUNDS = 5  # in a row that have to differ
_SHARE = 0.05  # of the gap: smaller differences do not hold up a run
_ROUNDINGS = 10.0  # times what rounding may account for
_FLOAT_ERROR = 1e-9  # as a share of the numbers that are added up
_ENOUGH = 4  # numbers; of fewer, many things are a multiple by chance
# Of T: what may be left of it besides a multiple of one client's t_k. True multiples
# leave rounding. Where w hardly moves, others are nearly multiples too: with 1e-3, one
# of 40 was an honest client.
_SAME = 1e-6

_REASON = (
    "the slopes and the margins that they send contradict each other: planes do not "
    "touch the loss where they should, so training cannot succeed"
)
_ONE = _REASON.replace("that they send", "that it sends")


@dataclass(frozen=True)
class Trial:
    """A trial point, and what was measured there.

    Parameters
    ----------
    weights : array (n_features, n_outputs) or None
        None where the server may not see them: then they are those of the planes.
    length : float
        √λ ||w||.
    losses : array (n_outputs,)
        The mean losses.
    rounding : float
        How far off the losses may be, and the planes because of the margins.
    """

    weights: FloatArray | None
    intercepts: FloatArray
    length: float
    losses: FloatArray
    rounding: float


@dataclass(frozen=True)
class Difference:
    """By how much new planes are above the loss that they touch.

    Parameters
    ----------
    total : array (n_outputs,)
        T.
    parts : array (n_clients, n_outputs) or None
        t_k; None where the server does not see them.
    """

    total: FloatArray
    parts: FloatArray | None


@dataclass(frozen=True)
class NewPlanes:
    """The planes of one collection, in the order of buckets.

    Parameters
    ----------
    n_planes : int
        Of each bucket.
    place : int
        Which of them touches the loss at the trial point.
    touching : array of int
        The places of these in the model.
    shown : mapping of int to list of Sealed
        By client, its slopes in its buckets; empty where the server cannot read them.
    """

    n_planes: int
    place: int
    touching: IntArray
    shown: Mapping[int, list[Sealed]]


@dataclass(frozen=True, repr=False)
class ConsistencyState:
    """What a checkpoint keeps: how far off rounding may have put points and planes.

    Parameters
    ----------
    coarsest : float
        The largest step of the grids of margins so far.
    longest : float
        The largest length of a plane so far, in units of √λ N.
    """

    coarsest: float
    longest: float


class PlaneConsistency:
    """Compares new planes with the loss measured where they touch, round by round."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self._lipschitz = federation.problem.loss.lipschitz
        self._trial: Trial | None = None
        self._coarsest = self._longest = 0.0  # as in the state
        self.differences: list[Difference] = []  # of the last rounds, without a gap

    def state(self) -> ConsistencyState:
        """Return what a checkpoint keeps."""
        return ConsistencyState(self._coarsest, self._longest)

    def restore(self, state: ConsistencyState) -> None:
        """Take a state; comparing starts again, because repeated rounds may differ."""
        self._coarsest, self._longest = state.coarsest, state.longest
        self._trial = None  # so one round is not compared
        self.differences = []

    def expect(
        self,
        weights: FloatArray | None,
        intercepts: FloatArray,
        squared_norms: FloatArray,
        norm_errors: FloatArray,
        primals: FloatArray,
    ) -> None:
        """Note what was measured at a trial point, where the next planes will touch.

        Parameters
        ----------
        squared_norms : array (n_outputs,)
            λ ||w||², above by ``norm_errors`` or twice that.
        """
        federation, grids = self._federation, self._federation.grids
        self._coarsest = max(self._coarsest, grids.margins.step)
        self._trial = None
        largest = math.ldexp(grids.totals.step, grids.totals.grid.limit_bits)
        if primals.max() >= largest:
            return  # P is cut off there
        losses = primals - squared_norms / 2
        margins = federation.grid_maker.sample_holders * self._coarsest
        totals = federation.grid_maker.n_clients * grids.totals.step
        rounding = len(losses) * (margins * self._steepest(losses) + totals)
        rounding += float(norm_errors.sum())
        length = math.sqrt(float(squared_norms.sum()))
        self._trial = Trial(weights, intercepts.copy(), length, losses, rounding)

    def _steepest(self, losses: FloatArray) -> float:
        """Return how steep the loss is on average at a point, at most."""
        if math.isfinite(self._lipschitz):
            return self._lipschitz
        # No loss has a curvature c above 2, and |l'|² is at most 2 c l.
        return self._federation.bounds.slope_at_zero + 2 * math.sqrt(
            max(float(losses.max()), 0.0)
        )

    def compare(
        self,
        model: CuttingModel,
        new: NewPlanes,
        rounding: tuple[float, float],
        gap: float,
    ) -> None:
        """Compare planes that were just added with the loss at the trial point.

        Parameters
        ----------
        rounding : (float, float)
            How far off the sum of their offsets may be; and that of their slopes, as a
            length in units of √λ N.
        gap : float
            P - D, the scale for differences.
        """
        trial, self._trial = self._trial, None
        if trial is None:
            return
        planes = new.touching
        if trial.weights is None:
            products, error = self._products(model, planes)
        else:
            products, error = self._open_products(model, planes, trial.weights), 0.0
        balanced = model.balances[planes] * trial.intercepts
        offsets = model.offsets[planes]
        total = (offsets - products - balanced).sum(axis=0) - trial.losses
        sizes = np.abs(products) + np.abs(offsets) + np.abs(balanced)
        error += trial.rounding + rounding[0] + rounding[1] * trial.length
        error += _FLOAT_ERROR * float(sizes.sum() + np.abs(trial.losses).sum())
        if not float(np.abs(total).sum()) > _ROUNDINGS * error + _SHARE * max(gap, 0.0):
            self.differences.clear()
            return
        parts = None
        if new.shown and trial.weights is not None:
            parts = self._parts(new, trial.weights)
        self.differences = [*self.differences, Difference(total, parts)][-_ROUNDS:]

    def _products(self, model: CuttingModel, new: IntArray) -> tuple[FloatArray, float]:
        """Return σ·w / N by the Gram matrix, and how far off their sum may be."""
        weights = np.abs(model.weights)
        found = np.einsum("npc,pc->nc", model.gram[new], model.weights)
        self._longest = max(self._longest, float(model.units.max()))
        error = (
            len(new) * float((model.units @ weights).sum()) * model.errors[new].max()
        )
        # Planes that were dropped since may have had a little weight.
        lost = np.abs(model.n_buckets - model.weights.sum(axis=0)).sum()
        own = float(model.units[new].sum())
        return found, float(error + own * self._longest * lost)

    def _open_products(
        self, model: CuttingModel, new: IntArray, weights: FloatArray
    ) -> FloatArray:
        """Return σ·w / N of planes whose slopes the server has."""
        assert model.slopes is not None  # noqa: S101  # the open profile shows them
        slopes = model.slopes.matrix()[new - model.n_buckets]
        return np.asarray((slopes * weights).sum(axis=1) / self._n_samples)

    def _parts(self, new: NewPlanes, weights: FloatArray) -> FloatArray:
        """Return σ_k·w_k / N of each client: of its own slopes."""
        features, n_outputs = self._federation.layout.features, weights.shape[1]
        found = np.zeros((self._federation.layout.n_clients, n_outputs))
        for client, by_bucket in new.shown.items():
            own = weights[features.items[client]]
            for sealed in by_bucket:
                slopes = read_sum([sealed], (len(own), new.n_planes * n_outputs))
                found[client] += (by_plane(slopes, n_outputs)[new.place] * own).sum(
                    axis=0
                )
        return found / self._n_samples

    @property
    def _n_samples(self) -> int:
        return self._federation.problem.n_samples

    def check(self, is_over: bool) -> None:
        """Refuse to continue after some rounds in which planes did not fit.

        Parameters
        ----------
        is_over : bool
            Whether the run cannot continue in any case; then one round is enough.

        Raises
        ------
        BadReplyError
            It names the client whose parts do not fit, or all of them.
        """
        if len(self.differences) < (1 if is_over else _ROUNDS):
            return
        one = self._only_cause()
        clients, reason = (
            (self._federation.everyone, _REASON) if one is None else (one, _ONE)
        )
        raise BadReplyError("planes", clients, reason, is_final=True)

    def _only_cause(self) -> int | None:
        """Return the one client of whose t_k all T are the same multiple, or none."""
        totals = np.concatenate([own.total for own in self.differences])
        known = [own.parts for own in self.differences if own.parts is not None]
        if len(known) < len(self.differences) or len(totals) < _ENOUGH:
            return None
        parts = np.concatenate(known, axis=1)
        squares = np.maximum((parts**2).sum(axis=1), np.finfo(float).tiny)
        factors = (parts @ totals) / squares
        left = np.abs(totals - factors[:, None] * parts).sum(axis=1)
        fitting = np.flatnonzero(left <= _SAME * np.abs(totals).sum())
        return int(fitting[0]) if len(fitting) == 1 else None
