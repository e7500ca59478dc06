"""Passes reals by sample to other holders, bit for bit, as sums of whole numbers.

The 64 bits of a float are cut into three numbers of at most 22 bits. Before them comes
a 1: its sum over holders shows how many of them gave the reals of a row.
"""

from __future__ import annotations

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.federation.sealing.kinds import SampleKind
from hyfdca.federation.sealing.unopened import UnopenedError
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import GridSpec, Part, Sums

WHOLE_NUMBERS = GridSpec(0, 22)
_SHIFTS = np.array([42, 21, 0], np.uint64)
_MASKS = np.array([2**22 - 1, 2**21 - 1, 2**21 - 1], np.uint64)


def width_of(n_columns: int) -> int:
    """Return how many whole numbers encode this many reals."""
    return 1 + len(_SHIFTS) * n_columns


def given_part(
    sealing: Sealing, kind: SampleKind, values: FloatArray, rows: IntArray
) -> Part:
    """Return the reals of some rows, (rows, columns), sealed for their holders."""
    part = sealing.sample_part(kind, as_whole_numbers(values), WHOLE_NUMBERS, rows=rows)
    assert isinstance(part, Part)  # noqa: S101  # all numbers are below the limit
    return part


def taken_values(
    sealing: Sealing, kind: SampleKind, sums: Sums, rows: IntArray, n_columns: int
) -> FloatArray:
    """Return the reals of some rows that other holders gave, (rows, columns).

    Raises
    ------
    RemoteProtocolError
        If a row was not given by exactly one holder.
    """
    if [vector.fraction_bits for vector in sums] != [WHOLE_NUMBERS.fraction_bits]:
        raise RemoteProtocolError("values do not come as one sum of whole numbers")
    numbers = sealing.opened_samples(kind, sums, rows, width_of(n_columns))
    try:
        return from_whole_numbers(numbers)
    except ValueError as error:
        raise UnopenedError from error


def as_whole_numbers(values: FloatArray) -> FloatArray:
    """Return rows of reals as rows of whole numbers."""
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64)
    parts = (bits[:, :, None] >> _SHIFTS) & _MASKS
    return np.column_stack([np.ones(len(values)), parts.reshape(len(values), -1)])


def from_whole_numbers(numbers: FloatArray) -> FloatArray:
    """Return the reals that a sum over holders encodes.

    Raises
    ------
    ValueError
        If a row was not given by exactly one holder.
    """
    n_rows = len(numbers)
    n_columns = (numbers.shape[1] - 1) // len(_SHIFTS)
    parts = numbers[:, 1:].reshape(n_rows, n_columns, len(_SHIFTS))
    is_possible = (parts >= 0.0) & (parts <= _MASKS) & (parts == np.floor(parts))
    if np.any(numbers[:, 0] != 1.0) or not is_possible.all():
        raise ValueError("values of a row do not come from exactly one holder")
    bits = np.bitwise_or.reduce(parts.astype(np.uint64) << _SHIFTS, axis=2)
    return np.ascontiguousarray(bits).view(np.float64)
