"""Rounds that survive drop-outs and crashes: a round is kept by all, or repeated.

Theory of operation. A round is over when everybody who is there has kept its state
after it, and then the server its own: that is the commit. A member that fails in the
middle of a round was not there: everybody goes back to the last round that was kept,
and the round is run again with those who are there, if they are enough. So each round
is one of the in-process algorithm with the participants that its record names. A member
that comes back goes on from the last round it kept for good; what it missed it is told
as in Algorithm 1.

Between rounds some servers are in the middle of an exchange that waits for absent
members. Such a state cannot be written down; instead the last one that could is, with
the replies since.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from hyfdca.maths.objective import Measurement
from hyfdca.protocol import checkpoint
from hyfdca.protocol.server_session import BadReplyError, ClientsFailedError
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.journal import Heard, Repeating
from hyfdca.runtime.store import Archive, StoreError
from hyfdca.study.presence import Presence
from hyfdca.training.runner import DrawnMembers, Runner


@dataclass(frozen=True)
class Since:
    """A round after the last state that could be kept."""

    number: int  # of the last request before it
    participants: tuple[int, ...]
    heard: Heard


@dataclass(frozen=True)
class ServerRound:
    """What the server keeps after a round."""

    kept_by: dict[int, int]  # the last round that each member kept for good
    primal: float
    dual: float | None
    seconds: float
    history: bytes  # one record per round, as JSON would have it
    set_up_traffic: dict[str, int | float]
    state: bytes
    since: list[Since]


class PresentMembers:
    """Of those drawn for a round, the members that are present."""

    def __init__(
        self, drawn: DrawnMembers, presence: Presence, checkpoints: RoundCheckpoints
    ) -> None:
        self._drawn, self._presence = drawn, presence
        self._checkpoints = checkpoints

    def of_round(self, round_number: int) -> tuple[int, ...]:
        """Return them, once enough are there."""
        self._checkpoints.gather(self._presence.quorum)
        here = self._presence.present
        return tuple(c for c in self._drawn.of_round(round_number) if c in here)

    def can_measure(self, is_last: bool) -> bool:
        """Return whether everybody is there, or nobody is asked anything.

        The last round waits for everybody: the model is that of the last measurement.
        """
        if self._checkpoints.measures_alone:
            return True
        if is_last:
            self.wait_for_all("the last round is measured by all")
        return not self._presence.missing

    def wait_for_all(self, because: str) -> None:
        """Wait until every member is present, and where it should be."""
        self._presence.say_who_is_needed(because)
        self._checkpoints.gather(len(self._presence.everyone))


class RoundCheckpoints:
    """Keeps rounds at all members and at the server, and goes back to them.

    Parameters
    ----------
    archive : Archive
        The server's.
    every : int
        Rounds after which all is kept.
    heard : Heard
        The replies of the present round, where a state may not be enough.
    """

    def __init__(
        self,
        runner: Runner,
        presence: Presence,
        archive: Archive,
        every: int,
        heard: Heard,
    ) -> None:
        self._runner, self._presence = runner, presence
        self._archive, self._every, self._heard = archive, every, heard
        self._session = runner.federation.session
        self._since: list[Since] = []
        self._state = b""
        self._before = 0  # number of the last request before the round
        self.kept_by: dict[int, int] = {}

    @property
    def measures_alone(self) -> bool:
        """Whether measuring asks nobody."""
        return self._runner.algorithm.algorithm.needs.measuring == "nobody"

    # Rounds

    def begin_round(self) -> None:
        """Note where the round begins."""
        self._before = self._session.number
        self._heard.clear()

    def end_round(self, participants: tuple[int, ...]) -> None:
        """Keep the replies, in case the state cannot be kept."""
        if not self._runner.federation.is_complete:
            since = Since(self._before, participants, list(self._heard))
            self._since.append(since)

    def commit(self, is_last: bool) -> None:
        """Have all keep the round, then keep it here; see who is back."""
        number = self._runner.progress.n_rounds
        if is_last or number % self._every == 0:
            self.keep(number)
        self._presence.forgive()
        self._send_back(self._presence.call_returning())

    def keep(self, number: int) -> None:
        """Keep the state after a round, everywhere or nowhere."""
        presence, progress = self._presence, self._runner.progress
        presence.keep(number, self._gap_of_round())
        self.kept_by = {**self.kept_by, **dict.fromkeys(presence.present, number)}
        if self._runner.server.is_between_steps:
            self._state, self._since = checkpoint.save(self._runner.server), []
        assert progress.measurement is not None  # noqa: S101  # the start was measured
        kept = ServerRound(
            self.kept_by,
            progress.measurement.primal,
            progress.measurement.dual,
            progress.seconds,
            msgspec.msgpack.encode(progress.history),
            msgspec.to_builtins(progress.set_up_traffic),
            self._state,
            self._since,
        )
        self._archive.write_round(number, checkpoint.encode(kept))

    def _gap_of_round(self) -> float | None:
        """Return the gap after the last round, if it was measured."""
        progress = self._runner.progress
        if not progress.history:
            measurement = progress.measurement
            return measurement.relative_gap if measurement else None
        gap = float(progress.history[-1]["relative_gap"])
        return None if math.isnan(gap) else gap

    # Going back

    def recover(self, failure: ClientsFailedError | BadReplyError) -> None:
        """Go back to the last round kept, with those who are there."""
        self._presence.lose(failure)
        self.go_back()

    def go_back(self) -> None:
        """Restore the last round kept, here and at those who are there."""
        self._restore_last()
        self._send_back(list(self._presence.present))
        self.gather(self._presence.quorum)

    def _send_back(self, clients: Iterable[int]) -> None:
        self._presence.send_back(self.kept_by, clients, self._session.number)

    def gather(self, needed: int) -> None:
        """Wait until enough members are there, and where they should be.

        A member that failed in this round is called again only if it is needed.
        """
        presence = self._presence
        while len(presence.present) < needed:
            self._send_back(presence.wait_for(needed))

    def _restore_last(self) -> None:
        """Take the last state kept, or the one before if it is damaged."""
        *earlier, last = self._archive.rounds
        try:
            self.restore(last)
        except StoreError:
            if not earlier:
                raise
            self.restore(earlier[-1])

    def restore(self, number: int) -> None:
        """Take the state after a round that was kept.

        Raises
        ------
        StoreError
            If it is damaged.
        CheckpointError
            If another version wrote it.
        """
        content = self._archive.read_round(number) or b""
        kept = checkpoint.decode(ServerRound, content)
        progress, server = self._runner.progress, self._runner.server
        self.kept_by = dict(kept.kept_by)
        progress.history[:] = _history(kept.history)
        progress.measurement = Measurement(kept.primal, kept.dual)
        progress.seconds = kept.seconds
        progress.set_up_traffic = Traffic(**kept.set_up_traffic)  # type: ignore[arg-type]
        self._state, self._since = kept.state, list(kept.since)
        checkpoint.load(server, kept.state)
        highest = self._session.number
        for since in kept.since:
            self._session.number = since.number
            conversation = server.round(since.participants)
            Repeating(list(since.heard)).run(conversation, Traffic())
        self._session.number = max(highest, self._session.number)


def _history(content: bytes) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = msgspec.msgpack.decode(content)
    return [{**r, "participants": tuple(r["participants"])} for r in records]
