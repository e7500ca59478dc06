"""Checks that vectors look sealed; declarations are not trusted.

Numbers on a grid stay below 2^58, so as words of 64 bits they are all small. A sealed
word is small once in 32 times. This reveals vectors that were declared sealed and are
not. It does not prove any scheme secure.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_SMALL = 2**58  # sums on grids stay below this
_CHANCE = 1.0 / 32.0  # probability that a random word is small
_ENOUGH = 16  # words; most of them are small by chance once in 10^9 vectors
_LOOKED_AT = 4096  # bytes at each end of a packed vector
_NONCE = 24  # bytes, before the words of a stream vector
# Of a sum: nonces, runs of rows, contributors of each; bytes of a length and of a place
_HEAD = struct.Struct("<IIIBB")
_DEVIATIONS = 6.0

_TWICE = "A pad was used twice, which reveals the difference of two sealed vectors."

Bytes = bytes | memoryview


def stream_words(payload: Bytes, is_sum: bool) -> Bytes:
    """Return the words of a vector sealed by stream, without its nonces."""
    if not is_sum:
        return payload[_NONCE:]
    if len(payload) < _HEAD.size:
        return b""
    n_nonces, n_runs, depth, of_length, of_id = _HEAD.unpack_from(payload)
    table = _NONCE * n_nonces + n_runs * (of_length + depth * of_id)
    return payload[_HEAD.size + table :]


def looks_plain(payload: Bytes) -> bool:
    """Return whether a vector reads as small whole numbers at any byte offset."""
    ends = {bytes(payload[:_LOOKED_AT]), bytes(payload[-_LOOKED_AT:])}
    for part in ends:
        for start in range(8):
            words = _words(part[start:])
            if len(words) >= _ENOUGH and _n_small(words) > len(words) / 2:
                return True
    return False


@dataclass
class Seals:
    """Checks of a run's sealed vectors; ``complaints`` are plain sentences."""

    complaints: dict[str, None] = field(default_factory=dict)
    _nonces: set[bytes] = field(default_factory=set)
    _words: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _small: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def look(self, value: str, scheme: str, payload: Bytes, is_sum: bool) -> None:
        """Check a vector that is declared sealed by a scheme."""
        if scheme == "stream":
            self._look_at_stream(value, payload, is_sum)
        elif len(payload) and looks_plain(payload):
            self._complain(value)

    def _look_at_stream(self, value: str, payload: Bytes, is_sum: bool) -> None:
        if not is_sum:
            nonce = bytes(payload[:_NONCE])
            if nonce in self._nonces:
                self.complaints[_TWICE] = None
            self._nonces.add(nonce)
        words = _words(stream_words(payload, is_sum))
        if len(words) >= _ENOUGH and _n_small(words) > len(words) / 2:
            self._complain(value)
        # Vectors too short to judge alone are judged together. A sum without summands
        # is zero, and declares it.
        if not is_sum:
            self._words[value].append(len(words))
            self._small[value] += _n_small(words)

    def finish(self) -> list[str]:
        """Return the complaints, including those about short vectors together."""
        for value, sizes in self._words.items():
            expected = sum(sizes) * _CHANCE
            most = expected + _DEVIATIONS * expected**0.5 + 3
            if self._small[value] > most:
                self._complain(value)
        return list(self.complaints)

    def _complain(self, value: str) -> None:
        sentence = f"The {value} are declared sealed, but read as plain numbers."
        self.complaints[sentence] = None


def _words(content: Bytes) -> NDArray[np.int64]:
    return np.frombuffer(content, "<i8", count=len(content) // 8)


def _n_small(words: NDArray[np.int64]) -> int:
    return int(np.sum((words > -_SMALL) & (words < _SMALL)))
