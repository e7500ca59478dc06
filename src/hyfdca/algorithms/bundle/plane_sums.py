"""What new planes add up to over a client's samples: slopes, offsets, lent duals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray
from hyfdca.federation.client import Rows, above
from hyfdca.maths.kernels import add_bucket_combinations
from hyfdca.maths.loss_kernels import add_conjugates
from hyfdca.protocol import messages as m

if TYPE_CHECKING:
    from hyfdca.algorithms.bundle.client import BundleClient


class PlaneSums:
    """Sums by bucket; duals are (samples, planes · outputs)."""

    def __init__(self, client: BundleClient, n_buckets: int, n_planes: int) -> None:
        self._client = client
        self.width = n_planes * client.problem.n_outputs
        self._slopes = np.zeros((n_buckets, client.n_features, self.width))
        self._conjugates = np.zeros((n_buckets, self.width))

    def add(
        self,
        rows: Rows,
        buckets: NDArray[Any],
        duals: FloatArray,
        labels: FloatArray | None = None,
    ) -> None:
        """Add samples; with labels their conjugates too, where they are counted."""
        client = self._client
        indptr, indices, data = client.csr
        numbers, coefficients = client.numbers(rows), self._weighed(rows, duals)
        add_bucket_combinations(
            indptr, indices, data, numbers, buckets, coefficients, self._slopes
        )
        if labels is not None:
            loss, counted = client.problem.loss, client.counted[rows]
            add_conjugates(
                loss, duals, labels[rows], counted, buckets, self._conjugates
            )

    def _weighed(self, rows: Rows, duals: FloatArray) -> FloatArray:
        """Return the duals of planes times the weights of samples."""
        weights = self._client.block.sample_weights
        if weights is None:
            return duals
        return duals * np.tile(weights[rows], duals.shape[1] // weights.shape[1])

    def slopes(self, grid: m.GridSpec) -> list[m.Sealed]:
        """Return Σ v_i α_i x_{k,i} over each bucket, as the profile says."""
        seal = self._client.sealed_features
        return [seal(slope, grid) for slope in self._slopes]

    def offsets(self, grid: m.GridSpec) -> m.Sealed:
        """Return 1/N Σ v_i l_i*(-α_i) over the samples counted, by bucket, above."""
        client = self._client
        numbers = client.encoded(
            above(self._conjugates) / client.problem.n_samples, grid, "up"
        )
        return client.sealed_by_bucket(numbers, grid, client.bucket_arrangement)

    def lent(self, rows: Rows, duals: FloatArray, grid: m.GridSpec) -> m.Sealed:
        """Return the duals of the samples counted, for holders without labels."""
        counted = self._client.block.counts_sample[rows, None]
        client = self._client
        numbers = client.encoded(np.where(counted, duals, 0.0), grid)
        if isinstance(rows, slice):
            return client.sealed_samples(numbers, grid)
        return client.sealed_apart(numbers, grid, rows)
