"""Makes rounds survive drop-outs and crashes: all commit a round, or it is repeated.

Theory of operation. A round is committed when every present member has saved its state
after it, and then the server its own. A member that fails during a round counts as
absent: everybody returns to the last checkpoint, and the round is repeated with the
members present, if they form a quorum. So each round equals one of the in-process
algorithm with the participants that its record names. A member that comes back resumes
from its last committed round; the server sends it what it missed, as in Algorithm 1.

Between rounds some servers are suspended in an exchange that waits for absent members.
Such a state cannot be saved. Instead, the last state that could be saved is kept, with
the replies since.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from hyfdca.errors import reading
from hyfdca.maths.objective import Measurement
from hyfdca.protocol import checkpoint
from hyfdca.protocol.server_session import BadReplyError, ClientsFailedError
from hyfdca.protocol.transcript import Account
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.journal import Heard, Repeating
from hyfdca.runtime.store import Archive, StoreError
from hyfdca.study.presence import Presence
from hyfdca.training.runner import DrawnMembers, RestoredError, Runner


@dataclass(frozen=True)
class Since:
    """A round after the last state that could be saved."""

    number: int  # of the last request before it
    participants: tuple[int, ...]
    heard: Heard


@dataclass(frozen=True, repr=False)
class ServerRound:
    """What the server saves after a round."""

    kept_by: dict[int, int]  # the last round that each member committed
    measurement: Measurement
    start: float
    seconds: float
    history: bytes  # one record per round, in MessagePack
    set_up_traffic: dict[str, int | float]
    state: bytes
    since: list[Since]
    accounts: list[bytes]  # members' accounts of what they were sent


class PresentMembers:
    """The members that are drawn for a round and present."""

    def __init__(
        self, drawn: DrawnMembers, presence: Presence, checkpoints: RoundCheckpoints
    ) -> None:
        self._drawn, self._presence = drawn, presence
        self._checkpoints = checkpoints

    def of_round(self, round_number: int) -> tuple[int, ...]:
        """Return them once a quorum is present."""
        self._checkpoints.gather(self._presence.quorum)
        here = self._presence.present
        return tuple(c for c in self._drawn.of_round(round_number) if c in here)

    def can_measure(self, is_last: bool) -> bool:
        """Return whether everybody is present, or measuring asks nobody.

        The last round waits for everybody: the model is that of the last measurement.
        """
        if self._checkpoints.measures_alone:
            return True
        if is_last:
            self.wait_for_all("measuring the last round needs every organisation")
        return not self._presence.missing

    def are_all_present(self) -> bool:
        """Return whether nobody is missing."""
        return not self._presence.missing

    def wait_for_all(self, because: str) -> None:
        """Wait until every member is present and has restored its checkpoint."""
        self._presence.say_who_is_needed(because)
        self._checkpoints.gather(len(self._presence.everyone))


class RoundCheckpoints:
    """Saves rounds at all members and at the server, and restores them.

    Parameters
    ----------
    archive : Archive
        The server's archive.
    every : int
        Rounds between checkpoints.
    heard : Heard
        The replies of the current round, if a state may not suffice.
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
        """Note the request number at which the round begins."""
        self._before = self._session.number
        self._heard.clear()

    def end_round(self, participants: tuple[int, ...]) -> None:
        """Keep the replies, in case the state cannot be saved."""
        if not self._runner.federation.is_complete:
            since = Since(self._before, participants, list(self._heard))
            self._since.append(since)

    def commit(self, is_last: bool) -> None:
        """Save the round if that is due, then call members that may be back.

        Raises
        ------
        RestoredError
            If one of them has lost its last checkpoint, but not an earlier one.
        """
        number = self._runner.progress.n_rounds
        if is_last or number % self._every == 0:
            self.keep(number)
        self._presence.forgive()
        if self._send_back(self._presence.call_returning()):
            raise RestoredError

    def keep(self, number: int) -> None:
        """Save the state after a round, at all present members and then here."""
        presence, progress = self._presence, self._runner.progress
        presence.keep(number, self._gap_of_round())
        self.kept_by = {**self.kept_by, **dict.fromkeys(presence.present, number)}
        if self._runner.server.is_between_steps:
            self._state, self._since = checkpoint.save(self._runner.server), []
        assert progress.measurement is not None  # noqa: S101  # the start was measured
        kept = ServerRound(
            self.kept_by,
            progress.measurement,
            progress.start,
            progress.seconds,
            msgspec.msgpack.encode(progress.history),
            msgspec.to_builtins(progress.set_up_traffic),
            self._state,
            self._since,
            [msgspec.msgpack.encode(account) for account in presence.accounts],
        )
        self._archive.write_round(number, checkpoint.encode(kept))

    def _gap_of_round(self) -> float | None:
        """Return the relative gap after the last round; None if not measured."""
        progress = self._runner.progress
        if not progress.history:
            measurement = progress.measurement
            return measurement.relative_gap if measurement else None
        gap = float(progress.history[-1]["relative_gap"])
        return None if math.isnan(gap) else gap

    def announce_end(self) -> None:
        """Announce why the study ends; only then do members release the model."""
        runner, certificate = self._runner, self._runner.certificate
        if runner.stop_reason is None or certificate is None:
            return
        n_rounds, is_diverged = (
            runner.progress.n_rounds,
            runner.stop_reason == "diverged",
        )
        # A run diverges within a round, of which there is nothing to save.
        if len(set(self.kept_by.values())) > 1 and not is_diverged:
            # Absent members could not compare the accounts that go with the model.
            self.keep(n_rounds)
        self._presence.stop(n_rounds, certificate.relative_gap, runner.stop_reason)

    # Recovery

    def recover(self, failure: ClientsFailedError | BadReplyError) -> None:
        """Return to the last checkpoint with the members still present."""
        self._presence.lose(failure)
        self.go_back()

    def go_back(self) -> None:
        """Restore the last checkpoint, here and at the members present."""
        self._restore_last()
        # Called again, because a file may have been damaged since they saved it.
        self._send_back(self._presence.call(list(self._presence.present)))
        self._wait_for(self._presence.quorum)

    def _send_back(self, newcomers: Iterable[int]) -> bool:
        """Let members that were just called restore what they committed.

        If one of them has lost it, everybody returns to the round before. Return
        whether that happened.
        """
        clients = list(newcomers)
        is_lost = not self._is_held(self.kept_by, clients)
        is_earlier = is_lost and self._restore_before(clients)
        if is_earlier:
            clients = list(self._presence.present)
        self._presence.send_back(self.kept_by, clients, self._session.number)
        return is_earlier

    def _is_held(self, kept_by: dict[int, int], clients: Iterable[int]) -> bool:
        """Return whether members hold the rounds, undamaged, that they should."""
        present = self._presence.present
        return all(kept_by.get(c) in present[c].kept for c in clients if c in present)

    def _restore_before(self, clients: Iterable[int]) -> bool:
        """Restore an earlier checkpoint that these members hold, if there is one."""
        last = self._runner.progress.n_rounds
        for number in reversed(self._archive.rounds):
            if number < last and self._can_restore(number, clients):
                self._archive.forget_after(number)
                return True
        return False

    def _can_restore(self, number: int, clients: Iterable[int]) -> bool:
        """Restore a checkpoint, unless it is damaged or one of these lacks it."""
        try:
            if not self._is_held(self._kept(number).kept_by, clients):
                return False
            self.restore(number)
        except (StoreError, checkpoint.CheckpointError):
            return False
        return True

    def gather(self, needed: int) -> None:
        """Wait until enough members are present and have restored a checkpoint.

        A member that failed in this round is called again only if it is needed.

        Raises
        ------
        RestoredError
            If one of them has lost its last checkpoint, but not an earlier one.
        """
        if self._wait_for(needed):
            raise RestoredError

    def _wait_for(self, needed: int) -> bool:
        """Wait as above; return whether an earlier round was restored."""
        presence, is_earlier = self._presence, False
        while len(presence.present) < needed:
            is_earlier |= self._send_back(presence.wait_for(needed))
        return is_earlier

    def _restore_last(self) -> None:
        """Restore the last checkpoint that is not damaged."""
        damages: list[Exception] = []
        for number in reversed(self._archive.rounds):
            try:
                self.restore(number)
                return
            except (StoreError, checkpoint.CheckpointError) as damage:
                damages.append(damage)
        raise damages[0]

    def _kept(self, number: int) -> ServerRound:
        return _read_round(self._archive, number)

    def restore(self, number: int) -> None:
        """Restore the checkpoint of a round.

        Raises
        ------
        StoreError
            If it is damaged.
        CheckpointError
            If another version wrote it.
        """
        kept = self._kept(number)
        with reading(self._archive.damage_of_round(number)):
            if not set(self._presence.everyone) <= kept.kept_by.keys():
                raise ValueError("a member is missing")
            history = _history(kept.history, number)
            traffic = Traffic(**kept.set_up_traffic)  # type: ignore[arg-type]
            accounts = _accounts(kept)
        progress, server = self._runner.progress, self._runner.server
        self.kept_by = dict(kept.kept_by)
        self._presence.accounts = accounts
        progress.history[:] = history
        progress.measurement = kept.measurement
        progress.start, progress.seconds = kept.start, kept.seconds
        progress.set_up_traffic = traffic
        self._state, self._since = kept.state, list(kept.since)
        checkpoint.load(server, kept.state)
        highest = self._session.number
        for since in kept.since:
            self._session.number = since.number
            conversation = server.round(since.participants)
            Repeating(list(since.heard)).run(conversation, Traffic())
        self._session.number = max(highest, self._session.number)


def last_accounts(archive: Archive) -> list[Account]:
    """Return the accounts that members gave when the last round was saved.

    Raises
    ------
    StoreError
        If that round is damaged.
    CheckpointError
        If another version wrote it.
    """
    if not archive.rounds:
        return []
    last = archive.rounds[-1]
    kept = _read_round(archive, last)
    with reading(archive.damage_of_round(last)):
        return _accounts(kept)


def _read_round(archive: Archive, number: int) -> ServerRound:
    return checkpoint.decode(ServerRound, archive.read_round(number) or b"")


def _accounts(kept: ServerRound) -> list[Account]:
    return [msgspec.msgpack.decode(own, type=Account) for own in kept.accounts]


def _history(content: bytes, n_rounds: int) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = msgspec.msgpack.decode(content)
    if len(records) != n_rounds:
        raise ValueError("the file of one round contains another round")
    return [{**r, "participants": tuple(r["participants"])} for r in records]
