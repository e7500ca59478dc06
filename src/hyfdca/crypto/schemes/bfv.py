"""BFV: 4,096 numbers in a block, exact, by Microsoft SEAL.

Fan and Vercauteren 2012, "Somewhat practical fully homomorphic encryption". Clients
share the secret key and encrypt with it, which is faster and less noisy than with a
public one. The server needs neither SEAL nor a key: ciphertexts add up residue by
residue, modulo the primes of the ciphertext modulus.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import ByteArray, IntArray
from hyfdca.crypto.schemes.bfv_blocks import BfvBlocks, BfvParameters, cut
from hyfdca.maths.compiling import jit


class BlockWork(Protocol):
    """Several processes that seal and open blocks."""

    def is_worth(self, n_blocks: int) -> bool:
        """Return whether this many blocks are worth sending to other processes."""
        ...

    def work(self, what: str, rows: Any, seeds: Sequence[bytes]) -> Any:
        """Return rows sealed ("seal") or opened ("open"), each by the key of a seed."""
        ...


ResidueArray = NDArray[np.uint64]

_WORD = 8


class BfvCipher:
    """A client's half.

    Parameters
    ----------
    seed_of : callable
        Returns the seed of an owner group's secret key.
    work : BlockWork, optional
        What seals and opens many blocks at a time; by default this process.
    """

    def __init__(
        self,
        parameters: BfvParameters,
        seed_of: Callable[[int], bytes],
        work: BlockWork | None = None,
    ) -> None:
        self._parameters, self._seed_of, self._work = parameters, seed_of, work
        self._made: dict[int, BfvBlocks] = {}
        self.n_slots = parameters.ring_degree
        self.block_bytes = parameters.block_bytes

    def __repr__(self) -> str:
        return "BfvCipher(secret keys)"

    def seal(self, numbers: IntArray, groups: IntArray) -> ByteArray:
        """Return one ciphertext per row of numbers, by the key of its group."""
        half = self._parameters.plaintext_modulus // 2
        if numbers.size and not -half < numbers.min() <= numbers.max() < half:
            raise ValueError(f"a number is beyond {half}, what a slot can hold")
        if self._is_worth(groups):
            there: ByteArray = self._there("seal", numbers, groups)
            return there
        size = self.block_bytes
        room = np.empty(self._parameters.room(len(numbers)), np.uint8)
        for group, rows in _runs(groups):
            self._of(group).seal_into(room[rows.start * size :], numbers[rows])
        return room[: len(numbers) * size].reshape(-1, size)

    def open(self, blocks: ByteArray, groups: IntArray) -> IntArray:
        """Return the numbers of each ciphertext, by the key of its group."""
        if self._is_worth(groups):
            there: IntArray = self._there("open", blocks, groups)
            return there
        numbers = np.empty((len(blocks), self.n_slots), np.int64)
        for group, rows in _runs(groups):
            self._of(group).open_into(numbers[rows], blocks[rows])
        return numbers

    def _of(self, group: int) -> BfvBlocks:
        if group not in self._made:
            self._made[group] = BfvBlocks(self._parameters, self._seed_of(group))
        return self._made[group]

    def _is_worth(self, groups: IntArray) -> bool:
        return self._work is not None and self._work.is_worth(len(groups))

    def _there(self, what: str, rows: Any, groups: IntArray) -> Any:
        assert self._work is not None  # noqa: S101  # only called if it is worth it
        seed_of = {group: self._seed_of(group) for group in set(groups.tolist())}
        return self._work.work(what, rows, [seed_of[g] for g in groups.tolist()])


def _runs(groups: IntArray) -> Iterator[tuple[int, slice]]:
    """Return each run of blocks of one group."""
    start = 0
    for group, run in itertools.groupby(groups.tolist()):
        end = start + len(list(run))
        yield group, slice(start, end)
        start = end


class BfvAddition:
    """The server's half."""

    def __init__(self, parameters: BfvParameters) -> None:
        self.n_slots = parameters.ring_degree
        self.block_bytes = parameters.block_bytes
        self.capacity = parameters.capacity
        self._parameters = parameters
        self._primes = np.array(parameters.primes, np.uint64)

    def load(self, blocks: ByteArray) -> ResidueArray:
        """Return residues as words; each must be below its prime."""
        n_bytes = self._parameters.residue_bytes
        content = np.ascontiguousarray(blocks).reshape(-1)
        residues = np.empty((len(blocks), self._parameters.n_residues), np.uint64)
        # A word that starts at the last residue would go beyond the end.
        n_words = max(residues.size - (n_bytes < _WORD), 0)
        words = np.ndarray((n_words,), np.uint64, content.data, 0, (n_bytes,))
        last = int.from_bytes(content[n_words * n_bytes :].tobytes(), "little")
        if not _load_residues(words, last, n_bytes, self._primes, residues):
            raise ValueError("a residue is not below its prime")
        return residues

    def dump(self, ciphertexts: ResidueArray) -> ByteArray:
        """Return residues without the bytes that are always zero."""
        room = np.empty(self._parameters.room(len(ciphertexts)), np.uint8)
        content = cut(ciphertexts.reshape(-1), self._parameters.residue_bytes, room)
        return content.reshape(len(ciphertexts), self.block_bytes)

    def zeros(self, n_blocks: int) -> ResidueArray:
        """Return room for ciphertexts."""
        return np.zeros((n_blocks, self._parameters.n_residues), np.uint64)

    def add(
        self, total: ResidueArray, where: IntArray, ciphertexts: ResidueArray
    ) -> None:
        """Add residues modulo their primes, in place."""
        _add_residues(total, where, ciphertexts, self._primes)


@jit(nogil=True)
def _load_residues(words, last, n_bytes, primes, residues):  # type: ignore[no-untyped-def]
    """Fill ``residues`` from words that overlap; return whether all are in range."""
    mask = ~np.uint64(0) >> np.uint64(64 - 8 * n_bytes)
    flat = residues.reshape(-1)
    for j in range(words.size):
        flat[j] = words[j] & mask
    if words.size < flat.size:
        flat[flat.size - 1] = last
    fits = True
    degree = residues.shape[1] // (2 * primes.size)
    for row in residues:
        for run in range(2 * primes.size):
            prime = primes[run % primes.size]
            for j in range(run * degree, (run + 1) * degree):
                fits &= row[j] < prime
    return fits


@jit(nogil=True)
def _add_residues(total, where, ciphertexts, primes):  # type: ignore[no-untyped-def]
    """Add rows to rows of ``total``, which it changes."""
    degree = total.shape[1] // (2 * primes.size)
    for b in range(where.size):
        ours, theirs = total[where[b]], ciphertexts[b]
        for run in range(2 * primes.size):
            prime = primes[run % primes.size]
            for j in range(run * degree, (run + 1) * degree):
                # Both are below a prime of at most 61 bits. Below it too, the sum
                # less the prime wraps to a huge number.
                value = ours[j] + theirs[j]
                ours[j] = min(value, value - prime)
