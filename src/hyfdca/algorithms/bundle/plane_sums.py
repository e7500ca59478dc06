"""A client's part of new planes: slopes, offsets and balances by bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray
from hyfdca.federation.sealing.client_sealing import Rows, above
from hyfdca.maths.kernels import add_bucket_combinations
from hyfdca.maths.loss_kernels import add_conjugates, add_weighted_duals
from hyfdca.protocol.messages import GridSpec, Sealed, SealedTotals, TotalsSpec

if TYPE_CHECKING:
    from hyfdca.algorithms.bundle.client import BundleClient


class PlaneSums:
    """Sums by bucket; duals are (samples, planes · outputs)."""

    def __init__(self, client: BundleClient, n_buckets: int, n_planes: int) -> None:
        self._client, self._party = client, client.party
        self.width = n_planes * client.party.problem.n_outputs
        self._slopes = np.zeros((n_buckets, client.party.n_features, self.width))
        self._conjugates = np.zeros((n_buckets, self.width))
        self._balances = np.zeros((n_buckets, self.width))

    def add(
        self,
        rows: Rows,
        buckets: NDArray[Any],
        duals: FloatArray,
        labels: FloatArray | None = None,
    ) -> None:
        """Add samples; with labels their conjugates too, where they are counted."""
        party = self._party
        indptr, indices, data = party.csr
        coefficients, numbers = self._weighed(rows, duals), party.every_row[rows]
        add_bucket_combinations(
            indptr, indices, data, numbers, buckets, coefficients, self._slopes
        )
        if labels is not None:
            loss, counted = party.problem.loss, self._client.counted[rows]
            add_conjugates(
                loss, duals, labels[rows], counted, buckets, self._conjugates
            )
            if party.block.offsets is not None:  # l(z + o) has l*(-α) + α o
                weighed = counted * party.block.offsets[rows]
                add_weighted_duals(duals, weighed, buckets, self._conjugates)
            if party.problem.free_intercept:
                add_weighted_duals(duals, counted, buckets, self._balances)

    def _weighed(self, rows: Rows, duals: FloatArray) -> FloatArray:
        """Return the duals of planes times the weights of samples."""
        weights = self._party.block.sample_weights
        if weights is None:
            return duals
        return duals * np.tile(weights[rows], duals.shape[1] // weights.shape[1])

    def slopes(self, grid: GridSpec) -> list[Sealed]:
        """Return Σ v_i α_i x_{k,i} over each bucket, as the profile says."""
        seal = self._party.sealing.sealed_features
        return [seal("slopes", slope, grid) for slope in self._slopes]

    def offsets(self, grid: TotalsSpec) -> SealedTotals:
        """Return 1/N Σ v_i l_i*(-α_i) over the samples counted, by bucket, above.

        With a free intercept, the balances 1/N Σ v_i α_i come after them.
        """
        sealing, problem = self._party.sealing, self._party.problem
        means = above(self._conjugates) / problem.n_samples
        if problem.free_intercept:
            means = np.hstack([means, self._balances / problem.n_samples])
        return sealing.sealed_by_bucket(means, grid, self._client.bucket_arrangement)

    def forwarded(self, rows: Rows, duals: FloatArray, grid: GridSpec) -> Sealed:
        """Return the duals of the samples counted, for holders without labels."""
        sealing = self._party.sealing
        counted = self._party.block.counts_sample[rows, None]
        numbers = sealing.encoded(np.where(counted, duals, 0.0), grid)
        if isinstance(rows, slice):
            return sealing.sealed_samples("duals", numbers, grid)
        return sealing.sealed_apart("duals", numbers, grid, rows)
