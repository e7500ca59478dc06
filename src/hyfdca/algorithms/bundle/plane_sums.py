"""What new planes add up to over a client's samples: slopes, offsets, duals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray
from hyfdca.federation.client import above
from hyfdca.federation.sealing import Rows
from hyfdca.maths.kernels import add_bucket_combinations
from hyfdca.maths.loss_kernels import add_conjugates
from hyfdca.protocol.messages import GridSpec, Sealed

if TYPE_CHECKING:
    from hyfdca.algorithms.bundle.client import BundleClient


class PlaneSums:
    """Sums by bucket; duals are (samples, planes · outputs)."""

    def __init__(self, client: BundleClient, n_buckets: int, n_planes: int) -> None:
        self._client, self._party = client, client.party
        self.width = n_planes * client.party.problem.n_outputs
        self._slopes = np.zeros((n_buckets, client.party.n_features, self.width))
        self._conjugates = np.zeros((n_buckets, self.width))

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
        numbers, coefficients = party.numbers(rows), self._weighed(rows, duals)
        add_bucket_combinations(
            indptr, indices, data, numbers, buckets, coefficients, self._slopes
        )
        if labels is not None:
            loss, counted = party.problem.loss, self._client.counted[rows]
            add_conjugates(
                loss, duals, labels[rows], counted, buckets, self._conjugates
            )

    def _weighed(self, rows: Rows, duals: FloatArray) -> FloatArray:
        """Return the duals of planes times the weights of samples."""
        weights = self._party.block.sample_weights
        if weights is None:
            return duals
        return duals * np.tile(weights[rows], duals.shape[1] // weights.shape[1])

    def slopes(self, grid: GridSpec) -> list[Sealed]:
        """Return Σ v_i α_i x_{k,i} over each bucket, as the profile says."""
        seal = self._party.sealing.sealed_features
        return [seal(slope, grid) for slope in self._slopes]

    def offsets(self, grid: GridSpec) -> Sealed:
        """Return 1/N Σ v_i l_i*(-α_i) over the samples counted, by bucket, above."""
        sealing = self._party.sealing
        means = above(self._conjugates) / self._party.problem.n_samples
        return sealing.sealed_by_bucket(means, grid, self._client.bucket_arrangement)

    def forwarded(self, rows: Rows, duals: FloatArray, grid: GridSpec) -> Sealed:
        """Return the duals of the samples counted, for holders without labels."""
        sealing = self._party.sealing
        counted = self._party.block.counts_sample[rows, None]
        numbers = sealing.encoded(np.where(counted, duals, 0.0), grid)
        if isinstance(rows, slice):
            return sealing.sealed_samples(numbers, grid)
        return sealing.sealed_apart(numbers, grid, rows)
