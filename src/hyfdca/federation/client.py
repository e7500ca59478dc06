"""What every client half does: partial margins, shares and totals of its own block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import BoolArray, FloatArray, IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.base import Sealer
from hyfdca.crypto.schemes.fixedpoint import (
    Grid,
    GridOverflowError,
    Rounding,
    decode,
    power_above,
)
from hyfdca.crypto.schemes.plain import PlainSealer
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.federation.problem import SLACK, Problem, Profile
from hyfdca.federation.sums import EVERYWHERE, open_sum
from hyfdca.holdings.block import Block
from hyfdca.maths.kernels import add_row_combination, row_norms, row_products, unsigned
from hyfdca.protocol import messages as m
from hyfdca.protocol.checkpoint import Kept
from hyfdca.protocol.client_session import Phase
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_reals,
    unpack_counts,
    unpack_indices,
    unpack_places,
)

Rows = IntArray | slice  # numbers of rows, or all of them

# Told what a client opens and seals: what it did, the kind of vector, the reals.
Listener = Callable[[Literal["opened", "sealed"], str, FloatArray], None]

_MOST_GROUPS = 2**31


class Sealing(Kept):
    """Seals and opens a client's vectors with the schemes that the server picked.

    Nothing of it is kept: sealers are made anew, so that no pad is used twice.

    Parameters
    ----------
    shape : (int, int)
        How many samples and features the client has.
    width : int
        Numbers an item where nothing else is said: the outputs.
    """

    def __init__(
        self, profile: Profile, sealers: Sealers, shape: tuple[int, int], width: int
    ) -> None:
        self._is_open, self._schemes, self._width = profile == "open", sealers, width
        self.n_held, self.n_features = n_held, n_features = shape
        self._samples = Arrangement.together(n_held)
        self._features = Arrangement.together(n_features)
        self._picked: dict[str, Sealer] = {}
        self.listener: Listener | None = None
        self.phases: Mapping[str, Phase] = {
            "arrange": Phase(m.Arrangements, self._arrange),
            "reseal": Phase(m.ResealRequest, self._reseal),
        }

    def _arrange(self, notice: m.Arrangements) -> None:
        """Take the schemes, if the study allows them, and the groups of the items."""
        samples = _arranged(notice.sample_groups, self.n_held)
        features = _arranged(notice.feature_groups, self.n_features)
        named = self._schemes.named
        try:
            picked = {
                "samples": named(notice.samples),
                "totals": named(notice.totals),
                # In the open profile the server reads what is summed by feature.
                "features": PlainSealer() if self._is_open else named(notice.features),
            }
        except ValueError as error:
            raise RemoteProtocolError(str(error)) from None
        self._picked, self._samples, self._features = picked, samples, features

    def sealer(self, kind: str) -> Sealer:
        """Return what seals a kind of vector."""
        if kind not in self._picked:
            if self._schemes.encryption.scheme != "none":
                raise RemoteProtocolError("nobody has said how vectors are sealed")
            self._picked[kind] = PlainSealer()
        return self._picked[kind]

    def _reseal(self, request: m.ResealRequest) -> m.Resealed:
        """Return sums by sample sealed anew, number by number the same."""
        rows = self.unpack_rows(request.positions)
        sealer, items = self.sealer("samples"), _items(rows)
        try:
            numbers = [
                sealer.open(vector.payload, self._width, self._samples, items)
                for vector in request.sums
            ]
        except ValueError as error:
            raise RemoteProtocolError(f"a sum does not open: {error}") from None
        return m.Resealed(
            [
                m.Sealed(v.fraction_bits, sealer.seal(anew, self._samples, items))
                for v, anew in zip(request.sums, numbers, strict=True)
            ]
        )

    # Numbers on the grid

    def encoded(
        self, values: FloatArray, grid: m.GridSpec, rounding: Rounding = "nearest"
    ) -> IntArray:
        """Return values as numbers on a grid; raises ``GridOverflowError``."""
        return Grid(grid.fraction_bits, grid.limit_bits).encode(values, rounding)

    def on_grid(self, values: FloatArray, grid: m.GridSpec) -> FloatArray:
        """Return values rounded towards zero as they would arrive from elsewhere."""
        return decode(self.encoded(values, grid, "to zero"), grid.fraction_bits)

    # By sample

    def sample_part(
        self,
        values: FloatArray,
        grid: m.GridSpec,
        rounding: Rounding = "nearest",
        rows: Rows = EVERYWHERE,
    ) -> m.Part | m.TooLarge:
        """Return values of some samples, or the request for a coarser grid."""
        try:
            numbers = self.encoded(values, grid, rounding)
        except GridOverflowError:
            return m.TooLarge()
        return m.Part(self.sealed_samples(numbers, grid, rows))

    def sealed_samples(
        self,
        numbers: IntArray,
        grid: m.GridSpec,
        rows: Rows = EVERYWHERE,
        rest: IntArray | None = None,
    ) -> m.Sealed:
        """Return numbers of some samples; see ``Sealer.seal`` for the rest."""
        self._tell_sealed("samples", numbers, grid)
        return _seal(
            self.sealer("samples"), numbers, grid, self._samples, _items(rows), rest
        )

    def sealed_apart(
        self, numbers: IntArray, grid: m.GridSpec, rows: IntArray
    ) -> m.Sealed:
        """Return numbers of some samples, such as a bucket, as a vector of its own."""
        apart = self._samples.restricted(rows)
        self._tell_sealed("samples", numbers, grid)
        return _seal(self.sealer("samples"), numbers, grid, apart)

    def opened_samples(
        self, sums: m.Sums, rows: Rows = EVERYWHERE, width: int | None = None
    ) -> FloatArray:
        """Return the reals of a sum by sample, of some rows."""
        width = width or self._width
        items = _items(rows)
        return self._opened("samples", sums, width, self._samples, items)

    def opened_apart(
        self, sums: m.Sums, rows: IntArray, width: int | None = None
    ) -> FloatArray:
        """Return the reals of a sum over some samples that is a vector of its own."""
        apart = self._samples.restricted(rows)
        width = width or self._width
        return self._opened("samples", sums, width, apart)

    def unpack_rows(self, positions: memoryview | None) -> Rows:
        """Return the rows that a message names; none stands for all."""
        if positions is None:
            return EVERYWHERE
        return unpack_indices(positions, self.n_held)

    def count(self, rows: Rows) -> int:
        """Return how many rows these are."""
        return self.n_held if isinstance(rows, slice) else len(rows)

    # By feature

    def feature_part(self, values: FloatArray, grid: m.GridSpec) -> m.Message:
        """Return values by feature, sealed as the profile says."""
        try:
            return m.Part(self.sealed_features(values, grid))
        except GridOverflowError:
            return m.TooLarge()

    def sealed_features(self, values: FloatArray, grid: m.GridSpec) -> m.Sealed:
        """Return values by feature; raises ``GridOverflowError``."""
        numbers = self.encoded(values, grid)
        self._tell_sealed("features", numbers, grid)
        return _seal(self.sealer("features"), numbers, grid, self._features)

    def opened_features(self, sums: m.Sums, width: int | None = None) -> FloatArray:
        """Return the reals of a sum by feature."""
        width = width or self._width
        return self._opened("features", sums, width, self._features)

    # Totals

    def total_part(
        self, values: FloatArray, grid: m.GridSpec, rounding: Rounding = "nearest"
    ) -> m.Message:
        """Return totals, or the request for a coarser grid."""
        try:
            return m.Part(self.sealed_totals(values, grid, rounding))
        except GridOverflowError:
            return m.TooLarge()

    def sealed_totals(
        self, values: FloatArray, grid: m.GridSpec, rounding: Rounding = "nearest"
    ) -> m.Sealed:
        """Return totals of any shape; raises ``GridOverflowError``."""
        numbers = self.encoded(values, grid, rounding).reshape(1, -1)
        self._tell_sealed("totals", numbers, grid)
        return _seal(self.sealer("totals"), numbers, grid, Arrangement.together(1))

    def sealed_by_bucket(
        self, numbers: IntArray, grid: m.GridSpec, buckets: Arrangement
    ) -> m.Sealed:
        """Return totals a bucket, which the server reads in the open profile."""
        sealer = PlainSealer() if self._is_open else self.sealer("totals")
        self._tell_sealed("buckets", numbers, grid)
        return _seal(sealer, numbers, grid, buckets)

    def opened_totals(self, sums: m.Sums, shape: tuple[int, int]) -> FloatArray:
        """Return the reals of totals whose rows were summed apart."""
        n_rows, width = shape
        return self._opened("totals", sums, width, Arrangement.apart(n_rows))

    # Listening in

    def _opened(
        self,
        kind: str,
        sums: m.Sums,
        width: int,
        arrangement: Arrangement,
        items: IntArray | None = None,
    ) -> FloatArray:
        values = open_sum(sums, width, self.sealer(kind), arrangement, items)
        if self.listener:
            self.listener("opened", kind, values)
        return values

    def _tell_sealed(self, kind: str, numbers: IntArray, grid: m.GridSpec) -> None:
        if self.listener:
            self.listener("sealed", kind, decode(numbers, grid.fraction_bits))


def _seal(
    sealer: Sealer,
    numbers: IntArray,
    grid: m.GridSpec,
    arrangement: Arrangement,
    items: IntArray | None = None,
    rest: IntArray | None = None,
) -> m.Sealed:
    try:
        payload = sealer.seal(numbers, arrangement, items, rest)
    except ValueError as error:
        raise RemoteProtocolError(f"the grid is too fine: {error}") from None
    return m.Sealed(grid.fraction_bits, payload)


def _arranged(groups: memoryview | None, n_items: int) -> Arrangement:
    if groups is None:
        return Arrangement.together(n_items)
    return Arrangement(unpack_places(groups, n_items, _MOST_GROUPS))


def _items(rows: Rows) -> IntArray | None:
    """Return rows as items of an arrangement; none for all."""
    if not isinstance(rows, slice):
        return rows
    if rows != EVERYWHERE:
        raise ValueError("only all samples or some numbers of them are sealed")
    return None


_MOST_TOTALS = 100_000_000  # numbers


class Holder(Sealing):
    """A client's data, and the phases that all algorithms share."""

    def __init__(self, problem: Problem, block: Block, sealers: Sealers) -> None:
        X = block.X
        super().__init__(problem.profile, sealers, X.shape, problem.n_outputs)
        self.problem, self.block = problem, block
        self._csr = (unsigned(X.indptr), unsigned(X.indices), X.data)
        self._every_row = np.arange(self.n_held, dtype=np.uint32)
        # What set-up will tell.
        self.squared_norms = np.zeros((self.n_held, 1))
        self.curvatures = np.zeros((self.n_held, problem.n_outputs))
        self.sample_holders = np.ones(self.n_held, np.int64)
        self.label_holders = np.ones(self.n_held, np.int64)
        self.feature_holders = np.ones(self.n_features, np.int64)
        self.phases = {
            **self.phases,
            "bounds": Phase(m.Message, self._bounds),
            "norms": Phase(m.GridRequest, self._norms),
            "prepare": Phase(m.Prepare, self._prepare),
            "open": Phase(m.OpenRequest, self._open),
        }

    # Set-up

    def _bounds(self, _: m.Message) -> m.Bounds:
        """Return public bounds on this client's numbers, for choosing grids.

        Powers of two: for the squared losses the steepest slope itself is a label.
        """
        loss_at_zero = slope = 0.0
        if self.block.labels is not None and self.n_held:
            zero = np.zeros_like(self.block.labels)
            losses = self.weighted(self.problem.loss.value(zero, self.block.labels))
            loss_at_zero = float(losses[self.block.counts_sample].sum())
            slope = float(
                np.abs(self.problem.loss.derivative(zero, self.block.labels)).max()
            )
        columns = np.zeros((self.n_features, self.problem.n_outputs))
        counts = self.weighted(np.ones((self.n_held, self.problem.n_outputs)))
        indptr, indices, data = self._csr
        add_row_combination(
            indptr, indices, np.abs(data), self._every_row, counts, columns
        )
        return m.Bounds(
            row_norm=power_above(float(self._partial_norms.max(initial=0.0))),
            column_sum=power_above(float(columns.max(initial=0.0))),
            slope_at_zero=power_above(slope),
            loss_at_zero=power_above(loss_at_zero),
        )

    def _norms(self, request: m.GridRequest) -> m.Message:
        return self.sample_part(self._partial_norms, request.grid)

    def _prepare(self, request: m.Prepare) -> None:
        """Take the set-up sums: ||x_i||² and how many clients hold what."""
        shape = (self.n_held, self.problem.n_outputs)
        squared_norms = self.opened_samples(request.norms, width=1)
        sample_holders = unpack_counts(request.sample_holders, self.n_held)
        label_holders = unpack_counts(request.label_holders, self.n_held)
        feature_holders = unpack_counts(request.feature_holders, self.n_features)
        self.squared_norms, self.sample_holders = squared_norms, sample_holders
        self.label_holders, self.feature_holders = label_holders, feature_holders
        norms = np.broadcast_to(squared_norms, shape)
        self.curvatures = self.weighted(norms) / self.problem.l2_scale

    # Totals

    def _open(self, request: m.OpenRequest) -> m.Opened:
        if len(request.totals) != len(request.shapes):
            raise RemoteProtocolError("totals and their shapes do not match")
        if sum(rows * width for rows, width in request.shapes) > _MOST_TOTALS:
            raise RemoteProtocolError("these are no totals of a study: too many")
        pairs = zip(request.totals, request.shapes, strict=True)
        opened = [self.opened_totals(totals, shape).ravel() for totals, shape in pairs]
        return m.Opened(pack_reals(np.concatenate(opened)))

    # The block

    @property
    def csr(self) -> Any:
        """The block as kernels take it: indptr, indices, data."""
        return self._csr

    def products(self, rows: Rows, weights: FloatArray) -> FloatArray:
        """Return x_{k,i}·w of some rows."""
        out = np.empty((self.count(rows), weights.shape[1]))
        row_products(*self._csr, self.numbers(rows), weights, out)
        return out

    def combine(self, rows: Rows, coefficients: FloatArray) -> FloatArray:
        """Return Σ_j coefficients_j x_{rows_j}."""
        out = np.zeros((self.n_features, coefficients.shape[1]))
        add_row_combination(*self._csr, self.numbers(rows), coefficients, out)
        return out

    def weighted(
        self, values: FloatArray, rows: Rows | BoolArray = EVERYWHERE
    ) -> FloatArray:
        """Return values of samples (of some rows) times the weights of the samples."""
        weights = self.block.sample_weights
        if weights is None:
            return values
        return values * weights[rows]

    def numbers(self, rows: Rows) -> NDArray[np.uint32]:
        """Return rows as kernels take them."""
        if isinstance(rows, slice):
            return self._every_row[rows]
        return rows.astype(np.uint32)

    @cached_property
    def _partial_norms(self) -> FloatArray:
        norms = np.empty((self.n_held, 1))
        row_norms(*self._csr, norms)
        return norms


def above(totals: FloatArray) -> FloatArray:
    """Return totals that are no lower for the rounding of floating-point sums."""
    return totals + SLACK * np.abs(totals)
