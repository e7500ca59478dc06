"""The time of a round between machines, from what was counted in a simulation.

A round takes the computation of its slowest client, the latency of its round trips, and
the encryption operations at a known time each. The paper encrypted nothing either: it
counted operations and took the times from a published benchmark of Paillier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.reproduction.paper import (
    FIGURE_LATENCY,
    PAILLIER_SECONDS,
    ROUND_TRIPS,
    Method,
)

_NANOSECONDS = 1e9  # per second


class NanosecondCosts(Protocol):
    """What one number costs, as ``hyfdca.bench.crypto.measure`` returns it."""

    @property
    def encrypt_ns(self) -> float:
        """To encrypt."""
        ...

    @property
    def decrypt_ns(self) -> float:
        """To decrypt."""
        ...

    @property
    def add_ns(self) -> float:
        """To add to another, both encrypted."""
        ...


@dataclass(frozen=True)
class EncryptionCosts:
    """Seconds per number, for each operation of a scheme."""

    name: str
    encrypt: float
    decrypt: float
    add: float

    @classmethod
    def measured(cls, name: str, costs: NanosecondCosts) -> EncryptionCosts:
        """Return what a benchmark measured."""
        times = (costs.encrypt_ns, costs.decrypt_ns, costs.add_ns)
        return cls(name, *(time / _NANOSECONDS for time in times))


PAPER_PAILLIER = EncryptionCosts("paillier, as published", **PAILLIER_SECONDS)
NO_ENCRYPTION = EncryptionCosts("none", 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class RoundCounts:
    """What the rounds of a run took; all arrays are (n_rounds,).

    The paper says that it counts operations, but not whether those of all clients or
    those of the busiest one, as clients encrypt side by side. The caller decides by
    what it counts.

    Parameters
    ----------
    computation : array
        Seconds of the slowest client, see ``slowest``.
    encrypted, decrypted, added : array
        How many numbers.
    """

    computation: FloatArray
    encrypted: IntArray
    decrypted: IntArray
    added: IntArray

    @classmethod
    def unencrypted(cls, computation: FloatArray) -> RoundCounts:
        """Return the counts of a method that encrypts nothing."""
        none = np.zeros(len(computation), dtype=np.int64)
        return cls(computation, none, none, none)


@dataclass(frozen=True)
class RoundClock:
    """Tells the time of rounds.

    Parameters
    ----------
    round_trips : float
        Per round.
    latency : float
        Seconds per round trip.
    """

    round_trips: float
    latency: float
    encryption: EncryptionCosts

    def round_seconds(self, counts: RoundCounts) -> FloatArray:
        """Return the time of each round."""
        costs = self.encryption
        encryption = (
            counts.encrypted * costs.encrypt
            + counts.decrypted * costs.decrypt
            + counts.added * costs.add
        )
        waiting = self.round_trips * self.latency
        return np.asarray(counts.computation + waiting + encryption)

    def elapsed(self, counts: RoundCounts) -> FloatArray:
        """Return the time from the start to the end of each round."""
        return np.cumsum(self.round_seconds(counts))


def paper_clock(method: Method, latency: float = FIGURE_LATENCY) -> RoundClock:
    """Return the clock of the paper's figures; FedAvg and HyFEM do not encrypt."""
    encryption = PAPER_PAILLIER if method == "hyfdca" else NO_ENCRYPTION
    return RoundClock(ROUND_TRIPS[method], latency, encryption)


def slowest(client_seconds: FloatArray) -> FloatArray:
    """Return the time of each round's slowest client.

    Parameters
    ----------
    client_seconds : array (n_rounds, n_clients)
        Zero for clients that were absent.
    """
    return np.asarray(client_seconds.max(axis=1))


def rounds_within(elapsed: FloatArray, seconds: float) -> int:
    """Return how many rounds end within a time.

    The paper's runs of equal time have 10,800 s "of computation", which must mean
    without latency: 11,605,640 rounds in that time leave 0.9 ms for each. Its figures
    then show them by a time that includes latency and encryption. To do the same, pass
    the running total of the computation alone.
    """
    return int(np.searchsorted(elapsed, seconds, side="right"))
