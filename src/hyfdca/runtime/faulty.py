"""A network in one process on which everything goes wrong, driven by a seed.

Requests and replies are lost, late, duplicated, damaged or out of order. Members crash
and restart from their checkpoints. Every run can be repeated exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from hyfdca.maths.seeds import stream
from hyfdca.protocol.codec import ProtocolError
from hyfdca.protocol.server_session import Ask, Replies
from hyfdca.runtime.driver import Driver


class Participant(Protocol):
    """A member of a study, as seen by a network."""

    def handle(
        self, stage: str, phase: str, payload: bytes | bytearray
    ) -> bytes | bytearray:
        """Answer one request."""
        ...


@dataclass(frozen=True)
class Faults:
    """The probability of each fault, per message."""

    drop: float = 0.0  # of a request or, equally likely, of its reply
    delay: float = 0.0  # until some later exchange
    duplicate: float = 0.0
    reorder: float = 0.0  # of the members of one exchange
    corrupt: float = 0.0  # one bit, of a request or of its reply
    crash: float = 0.0  # of the member, before or after it answers


@dataclass(frozen=True)
class _Late:
    stage: str
    phase: str
    payload: bytes


class FaultyNetwork:
    """Carries requests to members in this process, badly.

    Parameters
    ----------
    start : callable
        Starts the member of that rank from its last checkpoint.
    n_tries : int
        How often the same bytes are sent before a member counts as unavailable.
    """

    def __init__(
        self,
        start: Callable[[int], Participant],
        n_members: int,
        faults: Faults,
        seed: int,
        n_tries: int = 2,
    ) -> None:
        self._start, self.faults, self.n_tries = start, faults, n_tries
        self._random = stream(seed, "faults")
        self._members = [start(rank) for rank in range(n_members)]
        self._late: list[list[_Late]] = [[] for _ in self._members]
        self.n_waits = 0
        self.met: dict[str, int] = {}  # how often each fault was met

    def driver(self, stage: str) -> Driver:
        """Return the driver that carries the requests of a stage."""
        return _FaultyDriver(self, stage)

    def wait(self, missing: Iterable[int]) -> None:
        """Count a wait; all members are back at once."""
        self.n_waits += 1

    def returning(self, missing: Iterable[int]) -> Iterable[int]:
        """Return all missing members."""
        return missing

    def exchange(self, stage: str, ask: Ask) -> Replies:
        """Send requests to members, each with its own faults."""
        ranks = list(ask.payloads)
        if self._strikes("reorder"):
            self._random.shuffle(ranks)
        ok, failed = {}, {}
        for rank in ranks:
            reply = self._tried(rank, stage, ask.phase, bytes(ask.payloads[rank]))
            if isinstance(reply, str):
                failed[rank] = reply
            else:
                ok[rank] = reply
        return Replies({rank: ok[rank] for rank in ask.payloads if rank in ok}, failed)

    def _tried(self, rank: int, stage: str, phase: str, payload: bytes) -> bytes | str:
        """Return a member's reply, or why there is none."""
        reason = "it did not answer"
        for _ in range(self.n_tries):
            self._deliver_late(rank)
            if self._strikes("delay"):
                self._late[rank].append(_Late(stage, phase, payload))
                continue
            if self._strikes("drop"):
                continue
            try:
                reply = self._delivered(rank, stage, phase, payload)
            except ProtocolError as error:
                reason = str(error)
                continue
            if not self._strikes("drop"):
                return self._maybe_corrupted(reply)
        return reason

    def _delivered(self, rank: int, stage: str, phase: str, payload: bytes) -> bytes:
        if self._strikes("crash"):
            self.restart(rank)
        if self._strikes("duplicate"):
            self._members[rank].handle(stage, phase, payload)
        request = self._maybe_corrupted(payload)
        reply = bytes(self._members[rank].handle(stage, phase, request))
        if self._strikes("crash"):
            self.restart(rank)
        return reply

    def restart(self, rank: int) -> None:
        """Restart a member; messages on their way to it are lost."""
        self._late[rank].clear()
        self._members[rank] = self._start(rank)

    def _deliver_late(self, rank: int) -> None:
        """Perhaps deliver a late message now; nobody waits for the reply."""
        if self._late[rank] and self._random.random() < 0.5:
            late = self._late[rank].pop(0)
            try:
                self._members[rank].handle(late.stage, late.phase, late.payload)
            except ProtocolError:
                return  # it came too late

    def _maybe_corrupted(self, payload: bytes) -> bytes:
        if not self._strikes("corrupt"):
            return payload
        damaged = bytearray(payload)
        place = int(self._random.integers(len(damaged)))
        damaged[place] ^= 1 << int(self._random.integers(8))
        return bytes(damaged)

    def _strikes(self, fault: str) -> bool:
        likely: float = getattr(self.faults, fault)
        strikes = bool(likely) and bool(self._random.random() < likely)
        if strikes:
            self.met[fault] = self.met.get(fault, 0) + 1
        return strikes


class _FaultyDriver(Driver):
    def __init__(self, network: FaultyNetwork, stage: str) -> None:
        self._network, self._stage = network, stage

    def exchange(self, ask: Ask) -> Replies:
        return self._network.exchange(self._stage, ask)
