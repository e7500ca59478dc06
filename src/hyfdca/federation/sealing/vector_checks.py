"""Checks of vectors by sample or by feature: what the server adds to them is noticed.

A sealed vector has one more item at the end of each owner group. It has, for each
column c, the number u Σ_i r_i m_{i,c} modulo p, over the items i of the group. So sums
of check rows are, modulo p, the check rows of sums. The prime p, the factors r and, for
each grid, the unit u are secrets of the holders of the group, for each kind of vector.
Who says that a vector is on another grid is right once in 2^30 times. Who adds other
numbers than multiples of p without knowing the factors is right about the check row
with a probability of 2^-26. As p is one of 2^25 primes, numbers below 2^64 are
multiples of it with a probability of 2^-24.

What is a sum of whole vectors, each any number of times, has the right check rows:
check rows do not show that a part is missing, is old, or was added twice. Where all
holders of a group give one vector each (``VectorKind.is_complete``), they do: each
holder adds a secret number of its own to its check rows, and the opener expects the sum
of these.

Vectors of several numbers per row, of which the server hands on single rows, have a
number in each row instead that is made of the row's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from hyfdca.arrays import IntArray
from hyfdca.crypto.keys.set_secrets import Members, derived
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.base import JoiningSealer, Sealer
from hyfdca.federation.sealing.check_kernels import (
    BIAS,
    combine,
    combine_groups,
    combine_one,
)

_FACTOR_BITS = 26
_PRIME_BITS = 31  # of sums of 2^42, 2^11 contributors leave that many
_WITNESSES = (2, 3, 5, 7)  # of Miller and Rabin, for all numbers below 2^31


class Checks:
    """The secrets of the checks of one kind of vector.

    Parameters
    ----------
    secret_of : callable
        Returns the secret of an owner group for this kind of vector.
    """

    def __init__(self, secret_of: Callable[[int], bytes]) -> None:
        self._secret_of = secret_of
        self._secrets: dict[int, _GroupSecrets] = {}
        self._last: tuple[Arrangement, _Weights] | None = None

    def weights(self, arrangement: Arrangement, items: IntArray | None) -> _Weights:
        """Return the secret weights of some items, whole groups of an arrangement."""
        if items is not None:
            return self._made(arrangement.restricted(items))
        if self._last is None or self._last[0] is not arrangement:
            self._last = (arrangement, self._made(arrangement))
        return self._last[1]

    def _made(self, arrangement: Arrangement) -> _Weights:
        groups, sizes = arrangement.distinct.tolist(), arrangement.sizes.tolist()
        every = [self.of_group(group) for group in groups]
        of_groups = [own.factors(n) for own, n in zip(every, sizes, strict=True)]
        order, factors = arrangement.order, _none(arrangement.n_items)
        factors[order] = np.concatenate([_none(0), *of_groups])
        starts = np.concatenate([[0], np.cumsum(arrangement.sizes)])
        primes = np.array([own.prime for own in every], np.int64)
        biases = [
            BIAS * int(factors.sum(dtype=np.uint64)) % own.prime
            for factors, own in zip(of_groups, every, strict=True)
        ]
        own = (order, starts, factors, primes, biases)
        return _Weights(arrangement.appearing, groups, every, *own, {})

    def of_group(self, group: int) -> _GroupSecrets:
        """Return the secrets of an owner group."""
        if group not in self._secrets:
            self._secrets[group] = _GroupSecrets(self._secret_of(group))
        return self._secrets[group]


class Senders(NamedTuple):
    """The clients that give one vector each to a sum.

    Parameters
    ----------
    rank : int
        The client's own.
    owners : mapping of int to Members
        The holders of each owner group.
    """

    rank: int
    owners: Mapping[int, Members]


class CheckedVectors:
    """Seals and opens whole vectors by sample and by feature, with check rows.

    Parameters
    ----------
    fraction_bits : int
        Of the grid of the numbers.
    senders : Senders, optional
        By default any holders of a group may give any number of vectors.
    """

    def __init__(
        self,
        sealer: JoiningSealer,
        checks: Checks,
        fraction_bits: int = 0,
        senders: Senders | None = None,
    ) -> None:
        self._sealer, self._checks, self._bits = sealer, checks, fraction_bits
        self._senders = senders
        self.is_packed = sealer.is_packed

    def on_grid(self, fraction_bits: int) -> CheckedVectors:
        """Return the sealer of vectors on a grid."""
        return CheckedVectors(self._sealer, self._checks, fraction_bits, self._senders)

    def seal(
        self,
        numbers: IntArray,
        arrangement: Arrangement,
        items: IntArray | None = None,
        rest: IntArray | None = None,
    ) -> memoryview:
        """Return the sealed form of the numbers and their check rows."""
        if rest is not None:
            raise ValueError("vectors with check rows are sealed as a whole")
        weights = self._checks.weights(arrangement, items)
        rows = _combined(numbers, weights, self._bits)
        if self._senders is not None:
            own = (self._senders.rank,)
            rows = weights.shifted(rows, lambda _: own)
        rows = rows[weights.appearing]
        places = _with_checks(arrangement, items)
        return self._sealer.seal(numbers, arrangement.with_checks, places, more=rows)

    def open(
        self,
        payload: memoryview,
        width: int,
        arrangement: Arrangement,
        items: IntArray | None = None,
    ) -> IntArray:
        """Return the numbers inside, or raise ``ValueError``."""
        places = _with_checks(arrangement, items)
        rows = self._sealer.open(payload, width, arrangement.with_checks, places)
        n_items = arrangement.n_items if items is None else len(items)
        numbers, found = rows[:n_items], rows[n_items:]
        weights = self._checks.weights(arrangement, items)
        expected = _combined(numbers, weights, self._bits)
        if self._senders is not None:
            expected = weights.shifted(expected, self._senders.owners.__getitem__)
        order = weights.appearing
        if np.any(found % weights.primes[order, None] != expected[order]):
            raise ValueError("check rows are wrong")
        return numbers


class CheckedRows:
    """Seals and opens any rows of vectors, each with a check of its own at its end.

    Parameters
    ----------
    fraction_bits : int
        Of the grid of the numbers.
    """

    def __init__(self, sealer: Sealer, checks: Checks, fraction_bits: int = 0) -> None:
        self._sealer, self._checks, self._bits = sealer, checks, fraction_bits
        self.is_packed = sealer.is_packed

    def on_grid(self, fraction_bits: int) -> CheckedRows:
        """Return the sealer of vectors on a grid."""
        return CheckedRows(self._sealer, self._checks, fraction_bits)

    def seal(
        self,
        numbers: IntArray,
        arrangement: Arrangement,
        items: IntArray | None = None,
        rest: IntArray | None = None,
    ) -> memoryview:
        """Return the sealed form of the numbers and the checks of their rows."""
        if rest is not None:
            raise ValueError("rows with checks are sealed without others")
        own = self.checks(numbers, arrangement, items)[0]
        return self._sealer.seal(np.column_stack([numbers, own]), arrangement, items)

    def open(
        self,
        payload: memoryview,
        width: int,
        arrangement: Arrangement,
        items: IntArray | None = None,
    ) -> IntArray:
        """Return the numbers inside, or raise ``ValueError``."""
        rows = self._sealer.open(payload, width + 1, arrangement, items)
        own, primes = self.checks(rows[:, :-1], arrangement, items)
        if np.any(rows[:, -1] % primes != own):
            raise ValueError("the check of a row is wrong")
        return rows[:, :-1]

    def checks(
        self, numbers: IntArray, arrangement: Arrangement, items: IntArray | None
    ) -> tuple[IntArray, IntArray]:
        """Return the check of each row, and the prime of its owner group."""
        groups, ranks = arrangement.groups, arrangement.ranks
        if items is not None:
            groups, ranks = groups[items], ranks[items]
        factors, primes = np.empty(numbers.shape, np.int64), np.empty_like(groups)
        units = np.empty_like(groups)
        found, sizes = np.unique(groups, return_counts=True)
        of_groups = np.split(np.argsort(groups, kind="stable"), np.cumsum(sizes))
        for group, own in zip(found.tolist(), of_groups, strict=False):
            secrets, n_rows = self._checks.of_group(group), int(ranks[own].max()) + 1
            every = secrets.factors(n_rows * numbers.shape[1])
            factors[own] = every.reshape(n_rows, -1)[ranks[own]]
            primes[own], units[own] = secrets.prime, secrets.unit(self._bits)
        products = numbers % primes[:, None] * factors % primes[:, None]
        return products.sum(axis=1) % primes * units % primes, primes


class _Weights(NamedTuple):
    """Items by group, where each group starts among them, and the factor of each item.

    Before them the groups and their secrets. Then the prime of each group, and what its
    words contain besides the numbers.
    """

    appearing: IntArray
    groups: list[int]
    secrets: list[_GroupSecrets]
    order: IntArray
    starts: IntArray
    factors: NDArray[np.uint32]
    primes: IntArray
    biases: list[int]
    known: dict[int, IntArray]

    def shifted(self, rows: IntArray, senders: Callable[[int], Members]) -> IntArray:
        """Return check rows with the secret numbers of the senders of each group."""
        each = zip(self.secrets, map(senders, self.groups), strict=True)
        shifts = [sum(map(own.shift, ranks)) % own.prime for own, ranks in each]
        by_group = np.array(shifts, np.int64).reshape(-1, 1)
        return np.asarray((rows + by_group) % self.primes[:, None])

    def moduli(self, fraction_bits: int) -> IntArray:
        """Return the prime, the bias and the unit of each group, (3, groups)."""
        if fraction_bits not in self.known:
            units = [own.unit(fraction_bits) for own in self.secrets]
            made = np.array([self.primes, self.biases, units], np.int64)
            self.known[fraction_bits] = made
        return self.known[fraction_bits]


class _GroupSecrets:
    """The prime and the factors of an owner group."""

    def __init__(self, secret: bytes) -> None:
        self.prime = _prime(_words(derived(secret, b"prime")))
        self._factors = np.empty(0, np.uint32)
        self._secret, self._units = secret, dict[int, int]()

    def unit(self, fraction_bits: int) -> int:
        """Return what the checks of vectors on a grid are multiplied by."""
        if fraction_bits not in self._units:
            key = derived(self._secret, b"grid", b"%d" % fraction_bits)
            self._units[fraction_bits] = 1 + int.from_bytes(key, "big") % (
                self.prime - 1
            )
        return self._units[fraction_bits]

    def shift(self, rank: int) -> int:
        """Return the secret number of a client that gives one vector to each sum."""
        key = derived(self._secret, b"sender", b"%d" % rank)
        return int.from_bytes(key, "big") % self.prime

    def factors(self, n_items: int) -> NDArray[np.uint32]:
        """Return the factors of this many items."""
        if len(self._factors) < n_items:
            words = _words(derived(self._secret, b"factors"))
            self._factors = words(n_items) >> np.uint32(32 - _FACTOR_BITS)
        return self._factors[:n_items]


def _none(n_items: int) -> NDArray[np.uint32]:
    return np.empty(n_items, np.uint32)


def _words(key: bytes) -> Callable[[int], NDArray[np.uint32]]:
    """Return a source of random words: an AES-CTR stream."""
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return lambda n: np.frombuffer(stream.update(bytes(4 * n)), "<u4")


def _prime(source: Callable[[int], NDArray[np.uint32]]) -> int:
    """Return a random prime between 2^30 and 2^31."""
    least = 1 << (_PRIME_BITS - 1)
    while True:
        for word in source(64).tolist():
            candidate = least | word % least | 1
            if _is_prime(candidate):
                return int(candidate)


def _is_prime(number: int) -> bool:
    """Return whether an odd number between 2^30 and 2^31 is prime."""
    odd, n_halved = number - 1, 0
    while odd % 2 == 0:
        odd, n_halved = odd // 2, n_halved + 1
    for witness in _WITNESSES:
        power = pow(witness, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(n_halved - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def _with_checks(arrangement: Arrangement, items: IntArray | None) -> IntArray | None:
    """Return the places of items and of the check rows of their groups."""
    if items is None:
        return None
    found, sizes = np.unique(arrangement.groups[items], return_counts=True)
    places = np.searchsorted(arrangement.distinct, found)
    if np.any(arrangement.sizes[places] != sizes):
        raise ValueError("only whole owner groups have check rows")
    rows = np.flatnonzero(np.isin(arrangement.appearing, places))
    return np.concatenate([items, arrangement.n_items + rows])


def _combined(numbers: IntArray, weights: _Weights, fraction_bits: int) -> IntArray:
    """Return u Σ r_i m_i modulo p of each group, (groups, width)."""
    found = np.empty((len(weights.primes), numbers.shape[1]), np.int64)
    words = np.ascontiguousarray(numbers).view(np.uint64)
    own = (weights.factors, weights.moduli(fraction_bits))
    if found.size == 1:
        combine_one(words, *own, found)
    elif found.shape[1] == 1:
        combine_groups(words, weights.order, weights.starts, *own, found)
    else:
        combine(words, weights.order, weights.starts, *own, found)
    return found
