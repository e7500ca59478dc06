"""Finds the largest of holders' numbers, digit by digit, from one-hot counts.

A maximum is not a sum, but its digits follow from sums. As a whole number, the bits of
a non-negative float grow with it; so the holders whose own number starts with the
digits found so far count their next one, and the highest digit that anybody counted is
the next digit of the maximum. In base 16 three digits are sign and exponent, 16 the
number itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray
from hyfdca.protocol.codec import RemoteProtocolError

BASE = 16
DIGITS = 16  # of a float64
EXPONENT_DIGITS = 3
_EXPONENT_BIAS = 1023


class SecureMax:
    """The largest of some non-negative floats per feature, found digit by digit."""

    def __init__(self, n_features: int) -> None:
        self._prefix = np.zeros(n_features, np.uint64)
        self._n_digits = 0

    def next_digit(self, largest: FloatArray) -> FloatArray:
        """Return a one-hot digit where the own number may still be the largest."""
        bits = np.maximum(largest, 0.0).view(np.uint64)
        prefix = _leading(bits, self._n_digits)
        digit = _leading(bits, self._n_digits + 1) - prefix * np.uint64(BASE)
        is_candidate = (largest >= 0.0) & (prefix == self._prefix)
        hot = np.zeros((len(digit), BASE))
        hot[is_candidate, digit[is_candidate]] = 1.0
        return hot

    def take(self, counts: FloatArray) -> None:
        """Append the highest digit that any client counted; 0 if none did."""
        highest = BASE - 1 - np.argmax(counts[:, ::-1] > 0.5, axis=1)
        digit = np.where(counts.max(axis=1) > 0.5, highest, 0).astype(np.uint64)
        self._prefix = self._prefix * np.uint64(BASE) + digit
        self._n_digits += 1

    def unit(self) -> FloatArray:
        """Return the power of two just below the largest; 1 for zero."""
        exponent = _shifted(self._prefix, self._n_digits - EXPONENT_DIGITS)
        power = np.ldexp(1.0, exponent.astype(np.int64) - _EXPONENT_BIAS)
        return np.where(exponent > 0, power, 1.0)

    def number(self) -> FloatArray:
        """Return the largest itself, once all digits are known."""
        if self._n_digits != DIGITS:
            raise RemoteProtocolError("the maximum is not known to its last digit")
        return self._prefix.view(np.float64)


def _leading(bits: NDArray[np.uint64], n_digits: int) -> NDArray[np.uint64]:
    return _shifted(bits, DIGITS - n_digits)


def _shifted(bits: NDArray[np.uint64], n_digits: int) -> NDArray[np.uint64]:
    """Drop the last digits; a shift by all 64 bits is not defined in C."""
    if n_digits >= DIGITS:
        return np.zeros_like(bits)
    return bits >> np.uint64(4 * n_digits)
