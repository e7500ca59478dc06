"""A client's sealed vectors: by sample, by feature, and totals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Literal

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.base import Sealer
from hyfdca.crypto.schemes.fixedpoint import (
    SUM_BITS,
    Grid,
    GridOverflowError,
    Rounding,
    decode,
)
from hyfdca.crypto.schemes.plain import PlainAdder
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.crypto.schemes.stream_sums import NONCE_BYTES
from hyfdca.federation.messages import Arrangements
from hyfdca.federation.problem import SLACK
from hyfdca.federation.sealing.checksums import CheckedSealer
from hyfdca.federation.sealing.kind_sealers import KindSealers
from hyfdca.federation.sealing.kinds import (
    Axis,
    FeatureKind,
    SampleKind,
    TotalsKind,
    VectorKind,
)
from hyfdca.federation.sealing.unopened import UnopenedError
from hyfdca.federation.sealing.vector_checks import CheckedRows, CheckedVectors
from hyfdca.federation.sealing.vouching import combinations
from hyfdca.federation.sums import EVERYWHERE
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    unpack_indices,
    unpack_places,
)
from hyfdca.protocol.messages import (
    GridSpec,
    Message,
    Part,
    Profile,
    Sealed,
    SealedTotals,
    Sums,
    TooLarge,
    TotalsPart,
    TotalsSpec,
)

Rows = IntArray | slice  # numbers of rows, or all of them

# Called for what a client opens or seals, with which of the two, the axis, the reals.
Listener = Callable[[Literal["opened", "sealed"], Axis, FloatArray], None]

MOST_GROUPS = 2**31
_ONE_ITEM = Arrangement.together(1)
TAGS = VectorKind("totals", "tags")


class Sealing:
    """Seals and opens a client's vectors with the schemes that the server picked.

    No checkpoint keeps any of it: sealers are recreated, so that no pad is used twice.

    Parameters
    ----------
    shape : (int, int)
        How many samples and features the client has.
    width : int
        Numbers per item by default: the outputs.
    opener : int, optional
        The one client that opens what is sealed; by default all holders of an item do.
    """

    def __init__(
        self,
        profile: Profile,
        sealers: Sealers,
        shape: tuple[int, int],
        width: int,
        opener: int | None = None,
    ) -> None:
        self._is_open, self._width = profile == "open", width
        self.n_held, self.n_features = n_held, n_features = shape
        self._samples = Arrangement.together(n_held)
        self._features = Arrangement.together(n_features)
        self._by_kind = KindSealers(sealers, opener)
        self.listener: Listener | None = None
        self.most_sealed = 0  # numbers of the largest totals that were sealed

    def arrange(self, notice: Arrangements) -> None:
        """Take the schemes, if the study allows them, and the groups of the items."""
        samples = _arranged(notice.sample_groups, self.n_held)
        features = _arranged(notice.feature_groups, self.n_features)
        if self._is_open:  # the server reads sums by feature and by bucket
            plain: tuple[Axis, ...] = ("features", "buckets")
        else:
            plain = ()
        try:
            by_kind = self._by_kind.arranged(notice, samples, features, plain)
        except ValueError as error:
            raise RemoteProtocolError(str(error)) from None
        self._by_kind, self._samples, self._features = by_kind, samples, features

    def is_packed(self, kind: VectorKind) -> bool:
        """Return whether several items of such vectors stand in one block."""
        return self.sealer(kind).is_packed

    def sealer(
        self,
        kind: VectorKind,
        opener: int | None = None,
        witness: int | None = None,
    ) -> Sealer:
        """Return the sealer of a kind of vector.

        Parameters
        ----------
        opener : int, optional
            The client that opens totals; by default this one.
        witness : int, optional
            The client that vouches for what the opener reports.
        """
        rank = self._by_kind.sealers.secrets.rank if opener is None else opener
        try:
            return self._by_kind[kind, rank, witness]
        except ValueError as error:
            raise RemoteProtocolError(str(error)) from None

    def _sealed(
        self,
        kind: VectorKind,
        values: FloatArray,
        grid: GridSpec,
        rounding: Rounding,
        arrangement: Arrangement,
        items: IntArray | None = None,
    ) -> Sealed:
        """Put values on a grid and seal them; raises ``GridOverflowError``."""
        sealer = _on_grid(self.sealer(kind), grid.fraction_bits)
        numbers = Grid(grid.fraction_bits, grid.limit_bits).encode(values, rounding)
        if self.listener:
            self._report_sealed(kind.axis, numbers, grid)
        try:
            payload = sealer.seal(numbers, arrangement, items)
        except ValueError as error:
            raise _too_fine(error) from None
        return Sealed(grid.fraction_bits, payload)

    def resealed(self, kind: SampleKind, sums: Sums, rows: Rows) -> Sums:
        """Return sums by sample resealed, with the same numbers."""
        sealer, items = self.sealer(VectorKind("samples", kind)), _items(rows)
        self.note_opening()
        try:
            numbers = [
                sealer.open(vector.payload, self._width, self._samples, items)
                for vector in sums
            ]
        except ValueError as error:
            raise UnopenedError from error
        return [
            Sealed(v.fraction_bits, sealer.seal(again, self._samples, items))
            for v, again in zip(sums, numbers, strict=True)
        ]

    # Numbers on the grid

    def encoded(
        self, values: FloatArray, grid: GridSpec, rounding: Rounding = "nearest"
    ) -> IntArray:
        """Return values as numbers on a grid; raises ``GridOverflowError``."""
        return Grid(grid.fraction_bits, grid.limit_bits).encode(values, rounding)

    def on_grid(self, values: FloatArray, grid: GridSpec) -> FloatArray:
        """Return values rounded towards zero, as if another client had sent them."""
        return decode(self.encoded(values, grid, "to zero"), grid.fraction_bits)

    # By sample

    def sample_part(
        self,
        kind: SampleKind,
        values: FloatArray,
        grid: GridSpec,
        rounding: Rounding = "nearest",
        rows: Rows = EVERYWHERE,
    ) -> Part | TooLarge:
        """Return values of some samples, or the request for a coarser grid."""
        items = _items(rows)
        try:
            return Part(
                self._sealed(
                    VectorKind("samples", kind),
                    values,
                    grid,
                    rounding,
                    self._samples,
                    items,
                )
            )
        except GridOverflowError:
            return TooLarge()

    def sealed_values(
        self,
        kind: SampleKind,
        values: FloatArray,
        grid: GridSpec,
        rounding: Rounding = "nearest",
    ) -> Sealed:
        """Return values of all samples; raises ``GridOverflowError``."""
        return self._sealed(
            VectorKind("samples", kind), values, grid, rounding, self._samples
        )

    def sealed_samples(
        self,
        kind: SampleKind,
        numbers: IntArray,
        grid: GridSpec,
        rows: Rows = EVERYWHERE,
        rest: IntArray | None = None,
    ) -> Sealed:
        """Return numbers of some samples; see ``Sealer.seal`` for the rest."""
        self._report_sealed("samples", numbers, grid)
        sealer = self.sealer(VectorKind("samples", kind))
        return _seal(sealer, numbers, grid, self._samples, _items(rows), rest)

    def sealed_apart(
        self, kind: SampleKind, numbers: IntArray, grid: GridSpec, rows: IntArray
    ) -> Sealed:
        """Return numbers of some samples, such as a bucket, as a separate vector."""
        apart = self._samples.restricted(rows)
        self._report_sealed("samples", numbers, grid)
        return _seal(self.sealer(VectorKind("samples", kind)), numbers, grid, apart)

    def opened_samples(
        self,
        kind: SampleKind,
        sums: Sums,
        rows: Rows = EVERYWHERE,
        width: int | None = None,
    ) -> FloatArray:
        """Return the reals of a sum by sample, of some rows."""
        width = width or self._width
        items = _items(rows)
        return self._opened(
            VectorKind("samples", kind), sums, width, self._samples, items
        )

    def opened_apart(
        self, kind: SampleKind, sums: Sums, rows: IntArray, width: int | None = None
    ) -> FloatArray:
        """Return the reals of a sum over some samples that is a separate vector."""
        apart = self._samples.restricted(rows)
        width = width or self._width
        return self._opened(VectorKind("samples", kind), sums, width, apart)

    def unpack_rows(self, positions: memoryview | None) -> Rows:
        """Return the rows that a message names; none stands for all."""
        if positions is None:
            return EVERYWHERE
        return unpack_indices(positions, self.n_held)

    def count(self, rows: Rows) -> int:
        """Return how many rows these are."""
        return self.n_held if isinstance(rows, slice) else len(rows)

    # By feature

    def feature_part(
        self, kind: FeatureKind, values: FloatArray, grid: GridSpec
    ) -> Message:
        """Return values by feature, sealed as the profile says."""
        try:
            return Part(self.sealed_features(kind, values, grid))
        except GridOverflowError:
            return TooLarge()

    def sealed_features(
        self, kind: FeatureKind, values: FloatArray, grid: GridSpec
    ) -> Sealed:
        """Return values by feature; raises ``GridOverflowError``."""
        return self._sealed(
            VectorKind("features", kind), values, grid, "nearest", self._features
        )

    def opened_features(
        self, kind: FeatureKind, sums: Sums, width: int | None = None
    ) -> FloatArray:
        """Return the reals of a sum by feature."""
        width = width or self._width
        return self._opened(VectorKind("features", kind), sums, width, self._features)

    # Totals

    def total_part(
        self,
        kind: TotalsKind,
        values: FloatArray,
        grid: GridSpec,
        rounding: Rounding = "nearest",
    ) -> Message:
        """Return totals, or the request for a coarser grid."""
        try:
            return TotalsPart(self.sealed_totals(kind, values, grid, rounding))
        except GridOverflowError:
            return TooLarge()

    def sealed_totals(
        self,
        kind: TotalsKind,
        values: FloatArray,
        grid: GridSpec,
        rounding: Rounding = "nearest",
    ) -> SealedTotals:
        """Return totals of any shape, sealed to those who open them.

        Raises ``GridOverflowError``.
        """
        own, row = VectorKind("totals", kind), values.reshape(1, -1)
        return self._tagged(own, row, grid, rounding, _ONE_ITEM)

    def sealed_by_bucket(
        self, values: FloatArray, grid: TotalsSpec, buckets: Arrangement
    ) -> SealedTotals:
        """Return totals per bucket, rounded up; the open profile shows the server."""
        return self._tagged(
            VectorKind("buckets", "totals"), values, grid, "up", buckets
        )

    def _tagged(
        self,
        kind: VectorKind,
        values: FloatArray,
        grid: GridSpec,
        rounding: Rounding,
        rows: Arrangement,
    ) -> SealedTotals:
        """Seal totals to their opener, and tags of their pads to the witness."""
        spec = grid if isinstance(grid, TotalsSpec) else None
        sealer = self.sealer(kind, *((spec.opener, spec.witness) if spec else ()))
        numbers = Grid(grid.fraction_bits, grid.limit_bits).encode(values, rounding)
        if self.listener:
            self._report_sealed(kind.axis, numbers, grid)
        try:
            payload = sealer.seal(numbers, rows)
        except ValueError as error:
            raise _too_fine(error) from None
        tags = None
        if spec and spec.seed and isinstance(sealer, CheckedSealer):
            nonce, width = bytes(payload[:NONCE_BYTES]), numbers.shape[1]
            pads = sealer.pads(nonce, width, rows)
            vouching = self.sealer(TAGS, spec.witness)
            own = combinations(pads, rows.groups, spec.seed)
            tags = vouching.seal(own, _ONE_ITEM)
        self.most_sealed = max(self.most_sealed, numbers.size)
        return SealedTotals(grid.fraction_bits, payload, tags)

    def opened_totals(
        self, kind: TotalsKind, sums: Sums, shape: tuple[int, int]
    ) -> FloatArray:
        """Return the reals of totals whose rows were summed separately."""
        _check_totals(sums, shape)
        rows = _rows_apart(shape[0])
        return self._opened(VectorKind("totals", kind), sums, shape[1], rows)

    def opened_numbers(
        self,
        totals: Sequence[Sums],
        shapes: Sequence[tuple[int, int]],
        witness: int | None,
    ) -> list[IntArray]:
        """Return the numbers of several totals, on each of their grids."""
        sealer = self.sealer(VectorKind("totals", "totals"), None, witness)
        sum_bits = self._by_kind.sealers.encryption.sum_bits
        for sums, shape in zip(totals, shapes, strict=True):
            _check_totals(sums, shape)
        vectors = [
            (vector.payload, width, _rows_apart(n_rows))
            for sums, (n_rows, width) in zip(totals, shapes, strict=True)
            for vector in sums
        ]
        self.note_opening()
        opened = [open_numbers(sealer, sum_bits, *vector) for vector in vectors]
        if self.listener:
            left = iter(opened)
            for sums in filter(None, totals):
                own = [decode(next(left), vector.fraction_bits) for vector in sums]
                self.listener("opened", "totals", reduce(np.add, own))
        return opened

    # Listening in

    def _opened(
        self,
        kind: VectorKind,
        sums: Sums,
        width: int,
        arrangement: Arrangement,
        items: IntArray | None = None,
    ) -> FloatArray:
        sum_bits = self._by_kind.sealers.encryption.sum_bits
        sealer = self.sealer(kind)
        self.note_opening()
        if len(sums) != 1 and kind.is_complete:
            raise UnopenedError
        values = open_sum(sums, width, sealer, arrangement, items, sum_bits)
        if self.listener:
            self.listener("opened", kind.axis, values)
        return values

    def note_opening(self) -> None:
        """Tell before a sum is opened: what is refused from now on may say of it."""
        if tell := self._by_kind.sealers.tell_opening:
            tell()

    def _report_sealed(self, axis: Axis, numbers: IntArray, grid: GridSpec) -> None:
        if self.listener:
            self.listener("sealed", axis, decode(numbers, grid.fraction_bits))


def _check_totals(sums: Sums, shape: tuple[int, int]) -> None:
    """Refuse a shape that totals cannot have.

    Sealing makes nothing smaller: only a sum without senders is shorter than this.
    """
    if sum(len(vector.payload) for vector in sums) < 8 * shape[0] * shape[1]:
        raise RemoteProtocolError("totals have the wrong shape")


def _rows_apart(n_rows: int) -> Arrangement:
    return _ONE_ITEM if n_rows == 1 else Arrangement.apart(n_rows)


def _seal(
    sealer: Sealer,
    numbers: IntArray,
    grid: GridSpec,
    arrangement: Arrangement,
    items: IntArray | None = None,
    rest: IntArray | None = None,
) -> Sealed:
    sealer = _on_grid(sealer, grid.fraction_bits)
    try:
        payload = sealer.seal(numbers, arrangement, items, rest)
    except ValueError as error:
        raise _too_fine(error) from None
    return Sealed(grid.fraction_bits, payload)


def _on_grid(sealer: Sealer, fraction_bits: int) -> Sealer:
    """Return what seals and opens vectors on a grid: checks depend on it."""
    if isinstance(sealer, CheckedVectors | CheckedRows):
        return sealer.on_grid(fraction_bits)
    return sealer


def _too_fine(error: ValueError) -> RemoteProtocolError:
    return RemoteProtocolError(f"the grid is too fine: {error}")


def _arranged(groups: memoryview | None, n_items: int) -> Arrangement:
    if groups is None:
        return Arrangement.together(n_items)
    return Arrangement(unpack_places(groups, n_items, MOST_GROUPS))


def _items(rows: Rows) -> IntArray | None:
    """Return rows as items of an arrangement; none for all."""
    if not isinstance(rows, slice):
        return rows
    if rows != EVERYWHERE:
        raise ValueError("only all samples or some numbers of them are sealed")
    return None


def open_sum(
    sums: Sums,
    width: int,
    sealer: Sealer,
    arrangement: Arrangement,
    items: IntArray | None = None,
    sum_bits: int = SUM_BITS,
) -> FloatArray:
    """Return the reals of a sum over holders; an empty sum is zero.

    Parameters
    ----------
    sum_bits : int
        No sum of the study is beyond 2**sum_bits steps of its grid: others are noise.
    """
    if not sums:
        return np.zeros((len(arrangement.groups if items is None else items), width))
    parts = []
    for vector in sums:
        own = _on_grid(sealer, vector.fraction_bits)
        numbers = open_numbers(own, sum_bits, vector.payload, width, arrangement, items)
        parts.append(decode(numbers, vector.fraction_bits))
    return reduce(np.add, parts)


def open_numbers(
    sealer: Sealer,
    sum_bits: int,
    payload: memoryview,
    width: int,
    arrangement: Arrangement,
    items: IntArray | None = None,
) -> IntArray:
    """Return the numbers of one vector of a sum; refuse those beyond its range."""
    limit = 1 << sum_bits
    try:
        numbers = sealer.open(payload, width, arrangement, items)
        if numbers.max(initial=0) > limit or numbers.min(initial=0) < -limit:
            raise ValueError("a number is beyond the range of sums")
    except ValueError as error:
        raise UnopenedError from error
    return numbers


def or_too_large(make: Callable[[], Message]) -> Message:
    """Return a reply, or the request for coarser grids if a part of it overflows."""
    try:
        return make()
    except GridOverflowError:
        return TooLarge()


def read_sum(sums: Sums, shape: tuple[int, int]) -> FloatArray:
    """Return the reals of a sum that is not sealed."""
    try:
        parts = [
            decode(PlainAdder().load(vector.payload, shape), vector.fraction_bits)
            for vector in sums
        ]
    except ValueError as error:
        raise RemoteProtocolError(f"a sum cannot be read: {error}") from None
    return reduce(np.add, parts) if parts else np.zeros(shape)


def above(totals: FloatArray) -> FloatArray:
    """Return totals rounded up to cover floating-point error."""
    return totals + SLACK * np.abs(totals)
