"""The costs of a round's exchanges, recorded by the driver that carries them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from hyfdca.algorithms.bundle.settings import TRIAL_STEPS
from hyfdca.protocol.server_session import Ask, Replies
from hyfdca.reproduction.merging import MergedPartition
from hyfdca.runtime.driver import Driver
from hyfdca.runtime.inprocess import InProcess

_NUMBER = 8  # bytes, in vectors that are not encrypted
_TO_ONE_CLIENT = ("open search", "open planes")
_DOWN_BY_SAMPLE, _UP_BY_SAMPLE = ("search",), ("trial",)


class Exchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request and its replies.

    Parameters
    ----------
    waits : bool
        Whether everybody is asked; otherwise it is the client that opens totals.
    n_bytes : int
        The bytes of all messages, both ways.
    slowest_seconds : float
        The CPU time of the slowest client.
    sealed, opened : int
        Numbers that clients would seal and open if they encrypted.
    """

    phase: str
    waits: bool
    n_bytes: int
    slowest_seconds: float
    sealed: int
    opened: int


class Recorder(Driver):
    """Lets one client work at a time, and records the costs.

    A client that represents several has the bytes of all of them: a message per client,
    with vectors by feature in each; vectors by sample are shared out. Its time is not
    divided, so it is an upper bound on that of each.
    """

    def __init__(self, inner: InProcess, merged: MergedPartition) -> None:
        self._inner, self._merged = inner, merged
        self._held = merged.partition.samples.items
        self._noted: list[Exchange] = []
        self._client_seconds = 0.0

    def take(self) -> tuple[list[Exchange], float]:
        """Return the exchanges since the last call, and the CPU time of all clients."""
        taken = self._noted, self._client_seconds
        self._noted, self._client_seconds = [], 0.0
        return taken

    def exchange(self, ask: Ask) -> Replies:
        """Return the replies of all clients that are asked."""
        replies: dict[int, bytes | bytearray] = {}
        seconds = []
        for client, payload in ask.payloads.items():
            started = time.thread_time()
            replies[client] = self._inner.client(client).handle(ask.phase, payload)
            seconds.append(time.thread_time() - started)
        self._client_seconds += sum(seconds)
        self._noted.append(self._note(ask, replies, seconds))
        return Replies(replies)

    def _note(
        self, ask: Ask, replies: dict[int, bytes | bytearray], seconds: Sequence[float]
    ) -> Exchange:
        phase, n_bytes = ask.phase, 0
        waits = phase not in _TO_ONE_CLIENT
        for client, payload in ask.payloads.items():
            n_alike = int(self._merged.stands_for[client]) if waits else 1
            by_sample = _NUMBER * len(self._held[client])
            down = by_sample if phase in _DOWN_BY_SAMPLE else 0
            n_bytes += _of_all(n_alike, len(payload), down)
            if ask.wants_reply:
                up = by_sample if phase in _UP_BY_SAMPLE else 0
                n_bytes += _of_all(n_alike, len(replies[client]), up)
        sealed, opened = self._numbers(phase)
        return Exchange(phase, waits, n_bytes, max(seconds), sealed, opened)

    def _numbers(self, phase: str) -> tuple[int, int]:
        """Return how many numbers are sealed and opened: margins, and P on the way."""
        held = sum(map(len, self._held))
        along = len(TRIAL_STEPS)
        counts = {
            "trial": (held, 0),
            "search": (self._merged.n_clients * along, held),
            "open search": (0, along),
        }
        return counts.get(phase, (0, 0))


def _of_all(n_alike: int, size: int, by_sample: int) -> int:
    """Return the bytes of the messages that one message represents."""
    if by_sample > size:  # a refusal, which has no vector
        by_sample = 0
    return by_sample + n_alike * (size - by_sample)
