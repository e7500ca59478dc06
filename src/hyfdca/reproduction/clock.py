"""The time of a run between machines, derived from the counts of a simulation.

A round takes the computation of its slowest client, the latency of its round trips, and
the encryption operations at a known time each. The paper encrypted nothing either: it
counted operations and took the times from a published benchmark of Paillier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec
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
    """The cost of one number, as ``hyfdca.bench.crypto.measure`` returns it."""

    @property
    def encrypt_ns(self) -> float:
        """The cost of encrypting it."""
        ...

    @property
    def decrypt_ns(self) -> float:
        """The cost of decrypting it."""
        ...

    @property
    def add_ns(self) -> float:
        """The cost of adding it to another, both encrypted."""
        ...


class Counted(Protocol):
    """The costs of a run up to each of its measured rounds."""

    @property
    def rounds(self) -> IntArray:
        """Numbers of the rounds."""
        ...

    @property
    def seconds(self) -> FloatArray:
        """Computation of the slowest clients."""
        ...

    @property
    def sealed(self) -> IntArray:
        """Numbers that all clients encrypted."""
        ...

    @property
    def sealed_drawn(self) -> IntArray:
        """The same without margins of samples that nobody draws."""
        ...

    @property
    def opened(self) -> IntArray:
        """Numbers that all clients decrypted."""
        ...

    @property
    def busiest_sealed(self) -> IntArray:
        """Numbers that the client with most of them encrypted, round by round."""
        ...

    @property
    def busiest_opened(self) -> IntArray:
        """Numbers that the client with most of them decrypted, round by round."""
        ...


@dataclass(frozen=True)
class EncryptionCosts:
    """Seconds per number, for each operation of a scheme.

    Parameters
    ----------
    is_published : bool
        Whether operations are counted as the paper does: those of all clients, one
        after another, with the margins of drawn samples alone. Otherwise clients
        encrypt side by side, as they compute, all that they send; the busiest counts.
    slots : int
        Numbers in a ciphertext. A client sends two vectors in a round and receives two;
        the last ciphertext of each is charged as if it were full.
    """

    name: str
    encrypt: float
    decrypt: float
    add: float
    is_published: bool = False
    slots: int = 1

    @classmethod
    def measured(
        cls, name: str, costs: NanosecondCosts, slots: int = 1
    ) -> EncryptionCosts:
        """Return what a benchmark measured."""
        times = (costs.encrypt_ns, costs.decrypt_ns, costs.add_ns)
        encrypt, decrypt, add = (time / _NANOSECONDS for time in times)
        return cls(name, encrypt, decrypt, add, slots=slots)

    def seconds(self, run: Counted) -> FloatArray:
        """Return the time of encryption up to each measured round.

        The server adds every number once, no matter who sealed it.
        """
        sealed, opened, added = run.busiest_sealed, run.busiest_opened, run.sealed
        if self.is_published:
            sealed, opened, added = run.sealed_drawn, run.opened, run.sealed_drawn
        empty = 2 * (self.slots - 1) * run.rounds
        at_clients = (sealed + empty) * self.encrypt + (opened + empty) * self.decrypt
        return np.asarray(at_clients + added * self.add)


class MeasuredCosts(msgspec.Struct, forbid_unknown_fields=True):
    """The file of measured costs: a resumed study keeps its prices."""

    costs: tuple[EncryptionCosts, ...]


PAPER_PAILLIER = EncryptionCosts(
    "Paillier, published",
    PAILLIER_SECONDS["encrypt"],
    PAILLIER_SECONDS["decrypt"],
    PAILLIER_SECONDS["add"],
    is_published=True,
)
NO_ENCRYPTION = EncryptionCosts("none", 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class RunClock:
    """Computes the time of a run.

    Parameters
    ----------
    waiting : float
        The seconds of every round in which messages are in transit.
    """

    waiting: float
    encryption: EncryptionCosts

    def elapsed(self, run: Counted) -> FloatArray:
        """Return the time up to each measured round."""
        encryption = self.encryption.seconds(run)
        return np.asarray(run.seconds + run.rounds * self.waiting + encryption)


def waiting(method: Method, latency: float = FIGURE_LATENCY) -> float:
    """Return the seconds of a round in which messages are in transit."""
    return ROUND_TRIPS[method] * latency


def clock_of(
    method: Method,
    encryption: EncryptionCosts = PAPER_PAILLIER,
    latency: float = FIGURE_LATENCY,
) -> RunClock:
    """Return the clock of a method; FedAvg and HyFEM do not encrypt."""
    encrypts = method == "hyfdca"
    costs = encryption if encrypts else NO_ENCRYPTION
    return RunClock(waiting(method, latency), costs)
