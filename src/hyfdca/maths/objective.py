"""The paper's problem on one machine with all data: P, D, gap, reference.

    P(w) = λ/2 ||w||² + 1/N Σ v_i l_i(x_i·w + o_i)
    D(a) = -λ/2 ||w(a)||² - 1/N Σ v_i (l_i*(-a_i) + a_i o_i)
    w(a) = 1/(λN) Σ v_i a_i x_i

The weights ``v`` of the samples are 1 unless samples or classes are weighted; duals are
kept per unit of weight, so their domain is the loss's own. Offsets ``o`` are 0 unless
they are given. Several outputs (one-vs-rest classes) are columns; P and D sum
over them. With a free intercept, one without penalty, it is the last row of the
weights; D is then a bound only for duals with Σ v_i a_i = 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray
from hyfdca.maths.kernels import ascent_epoch, unsigned
from hyfdca.maths.losses import Loss
from hyfdca.maths.seeds import stream

_RUN = 32  # rows read in a run: enough for the memory, few enough to stay random


def relative_gap(primal: float, dual: float) -> float:
    """Return (P - D) / P, the certificate's number; 0 when both are 0."""
    if primal == dual == 0.0:
        return 0.0
    return (primal - dual) / max(primal, float(np.finfo(np.float64).tiny))


@dataclass(frozen=True)
class Measurement:
    """P of a model and a lower bound on the optimum: P is at most ``gap`` too high.

    Rounding is inside: ``primal`` is rounded up, ``dual`` down. Without a bound
    ``dual`` is None, and the gap is infinite. Several models have one measurement, of
    their sums, and ``worst`` is the largest relative gap among them.
    """

    primal: float
    dual: float | None
    worst: float | None = None

    @property
    def gap(self) -> float:
        """P - D."""
        return np.inf if self.dual is None else self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        """(P - D) / P, and 0 when both are 0; of several models the largest."""
        if self.worst is not None:
            return self.worst
        return np.inf if self.dual is None else relative_gap(self.primal, self.dual)


@dataclass(frozen=True)
class Objective:
    """A regularised linear problem.

    Parameters
    ----------
    X : CSR array (n_samples, n_features)
    labels : array (n_samples, n_outputs)
        -1 and 1 for classification, targets for regression.
    loss : Loss
    l2_strength : float
        The paper's λ.
    sample_weights, offsets : array (n_samples, n_outputs), optional
    free_intercept : bool
    """

    X: sp.csr_array
    labels: FloatArray
    loss: Loss
    l2_strength: float
    sample_weights: FloatArray | None = None
    offsets: FloatArray | None = None
    free_intercept: bool = False

    @property
    def l2_scale(self) -> float:
        """λN."""
        return self.l2_strength * float(self.labels.shape[0])

    def of_rows(self, rows: NDArray[np.int64]) -> Objective:
        """Return the same problem with its samples in another order."""
        weights, offsets = self.sample_weights, self.offsets
        return replace(
            self,
            X=self.X[rows],
            labels=self.labels[rows],
            sample_weights=None if weights is None else weights[rows],
            offsets=None if offsets is None else offsets[rows],
        )

    def margins(self, weights: FloatArray) -> FloatArray:
        """Return X w with intercept and offsets, (n_samples, n_outputs)."""
        margins = np.asarray(self.X @ weights[: self.X.shape[1]])
        if self.free_intercept:
            margins = margins + weights[-1]
        return margins if self.offsets is None else margins + self.offsets

    def weights_from(self, duals: FloatArray) -> FloatArray:
        """Return w(a), (n_features, n_outputs), without a free intercept."""
        return np.asarray(self.X.T @ self.weighted(duals)) / self.l2_scale

    def primal(self, weights: FloatArray) -> float:
        """Return P(w)."""
        losses = self.loss.value(self.margins(weights), self.labels)
        return self._regulariser(weights) + self._mean(losses)

    def dual(self, duals: FloatArray, weights: FloatArray | None = None) -> float:
        """Return D(a), minus infinity outside the domain; ``weights`` is w(a)."""
        weights = self.weights_from(duals) if weights is None else weights
        conjugates = self.loss.conjugate(duals, self.labels)
        if self.offsets is not None:
            conjugates = conjugates + duals * self.offsets
        return -self._regulariser(weights) - self._mean(conjugates)

    def gap(self, duals: FloatArray) -> float:
        """Return P(w(a)) - D(a), never negative except for rounding."""
        return self.primal(self.weights_from(duals)) - self.dual(duals)

    @cached_property
    def curvatures(self) -> FloatArray:
        """Return v_i ||x_i||² / (λN), (n_samples, n_outputs)."""
        norms = np.asarray(self.X.multiply(self.X).sum(axis=1)).reshape(-1, 1)
        return self.weighted(np.broadcast_to(norms, self.labels.shape)) / self.l2_scale

    def weighted(self, values: FloatArray) -> FloatArray:
        """Return v_i times the values of the samples."""
        return values if self.sample_weights is None else values * self.sample_weights

    def _mean(self, values: FloatArray) -> float:
        return float(self.weighted(values).sum() / self.labels.shape[0])

    def _regulariser(self, weights: FloatArray) -> float:
        own = weights[: self.X.shape[1]]
        return 0.5 * self.l2_strength * float(np.vdot(own, own))


@dataclass(frozen=True)
class Optimum:
    """A certified solution: P(weights) is within ``primal - dual`` of the optimum."""

    weights: FloatArray
    duals: FloatArray
    primal: float
    dual: float
    n_epochs: int

    @property
    def relative_gap(self) -> float:
        """(P - D) / P."""
        return relative_gap(self.primal, self.dual)


def reference_optimum(
    objective: Objective,
    tolerance: float = 1e-6,
    max_epochs: int = 10_000,
    seed: int = 0,
) -> Optimum:
    """Solve by stochastic dual coordinate ascent until the relative gap is small.

    It takes neither offsets nor a free intercept. Not reaching ``tolerance`` within
    ``max_epochs`` shows in the gap returned.
    """
    n_samples, n_outputs = objective.labels.shape
    random = stream(seed, "reference")
    # Shuffled once, rows can then be read in runs: four times as fast an epoch on
    # covtype as jumping around in the table.
    order = random.permutation(n_samples)
    shuffled = objective.of_rows(order)
    duals = np.zeros((n_samples, n_outputs))
    optimum = _certified(shuffled, duals, 0)
    while optimum.relative_gap > tolerance and optimum.n_epochs < max_epochs:
        rows = visiting_order(n_samples, random)
        for output in range(n_outputs):
            _ascend(shuffled, output, rows, duals, optimum.weights)
        optimum = _certified(shuffled, duals, optimum.n_epochs + 1)
    in_place = np.empty_like(duals)
    in_place[order] = duals
    return _certified(objective, in_place, optimum.n_epochs)


def _ascend(
    objective: Objective,
    output: int,
    order: NDArray[np.uint32],
    duals: FloatArray,
    start: FloatArray,
) -> None:
    """Run one epoch on one output, from the weights of its duals; changes ``duals``."""
    X = objective.X
    ones = np.ones(objective.labels.shape)
    column = duals[:, output].copy()
    ascent_epoch(
        unsigned(X.indptr),
        unsigned(X.indices),
        X.data,
        order,
        objective.labels[:, output].copy(),
        objective.curvatures[:, output].copy(),
        objective.weighted(ones)[:, output] / objective.l2_scale,
        objective.loss.constants,
        column,
        start[:, output].copy(),
    )
    duals[:, output] = column


def _certified(objective: Objective, duals: FloatArray, n_epochs: int) -> Optimum:
    weights = objective.weights_from(duals)
    primal, dual = objective.primal(weights), objective.dual(duals, weights)
    return Optimum(weights, duals, primal, dual, n_epochs)


def visiting_order(n_samples: int, random: np.random.Generator) -> NDArray[np.uint32]:
    """Return a random order of the rows, of short runs where there are many rows."""
    run = 1 if n_samples < 1024 * _RUN else _RUN
    starts = random.permutation(-(-n_samples // run)).astype(np.uint32) * np.uint32(run)
    rows = (starts[:, None] + np.arange(run, dtype=np.uint32)).ravel()
    return rows[rows < np.uint32(n_samples)].astype(np.uint32, copy=False)
