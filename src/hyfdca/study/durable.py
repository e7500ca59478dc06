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
from typing import Any

import msgspec

from hyfdca.algorithms.registry import Parties
from hyfdca.arrays import FloatArray
from hyfdca.federation.evaluation import DualServer
from hyfdca.holdings.participation import Participation
from hyfdca.maths.objective import Measurement
from hyfdca.protocol import checkpoint as state
from hyfdca.protocol.server_session import BadReplyError, ClientsFailedError
from hyfdca.runtime.driver import Driver, Traffic
from hyfdca.runtime.journal import Heard, Journaling, Repeating
from hyfdca.runtime.store import Archive, StoreError
from hyfdca.study.presence import Attendance
from hyfdca.training.runner import RoundReport, Rounds, TrainingSettings


class Since(msgspec.Struct, frozen=True):
    """A round after the last state that could be written down."""

    number: int  # of the last request before it
    participants: tuple[int, ...]
    heard: Heard


class KeptRound(msgspec.Struct, frozen=True):
    """What the server keeps after a round."""

    kept_by: dict[int, int]  # the last round that each member kept for good
    primal: float
    dual: float | None
    history: list[dict[str, Any]]
    set_up_traffic: dict[str, int | float]
    state: bytes
    since: list[Since]


_decoder = msgspec.msgpack.Decoder(KeptRound)


class DurableRounds(Rounds):
    """Rounds of members that may fail, on a server that may."""

    def __init__(
        self,
        settings: TrainingSettings,
        parties: Parties,
        participation: Participation,
        driver: Driver,
    ) -> None:
        self._heard: Heard = []
        if not participation.is_complete:
            driver = Journaling(driver, self._heard)
        super().__init__(settings, parties, participation, driver)
        self._session = parties.session
        self._since: list[Since] = []
        self._state = b""
        self.kept_by: dict[int, int] = {}

    def among(self, attendance: Attendance, archive: Archive, every: int) -> None:
        """Run with these members.

        Parameters
        ----------
        archive : Archive
            The server's.
        every : int
            Rounds after which all is kept.
        """
        self._attendance, self._archive, self._every = attendance, archive, every

    def start_by(self, driver: Driver) -> None:
        """Start with another driver than rounds have."""
        live, self.driver = self.driver, driver
        try:
            self.start()
        finally:
            self.driver = live

    # What a round does

    def participants(self, round_number: int) -> tuple[int, ...]:
        """Return those drawn for a round who are there."""
        here = self._attendance.present
        return tuple(c for c in super().participants(round_number) if c in here)

    def can_measure(self) -> bool:
        """Return whether everybody is there, or nobody is asked anything.

        The last round waits for everybody: the model is that of the last measurement.
        """
        if not isinstance(self.server, DualServer):
            return True
        if len(self.history) + 1 == self.settings.max_rounds:
            self._attendance.say_who_is_needed("the last round is measured by all")
            self._gather(len(self._attendance.everyone))
        return not self._attendance.missing

    def commit(self) -> None:
        """Have all keep the round, then keep it here; see who is back."""
        number = len(self.history)
        is_last = self._is_reached() or number == self.settings.max_rounds
        if is_last or number % self._every == 0:
            self.keep(number)
        self._attendance.forgive()
        self._send_back(self._attendance.call_returning())

    def keep(self, number: int) -> None:
        """Keep the state after a round, everywhere or nowhere."""
        attendance = self._attendance
        attendance.keep(number, self._gap_of_round())
        self.kept_by = {**self.kept_by, **dict.fromkeys(attendance.present, number)}
        if self.server.is_between_steps:
            self._state, self._since = state.save(self.server), []
        assert self.certificate is not None  # noqa: S101  # the start was measured
        kept = KeptRound(
            self.kept_by,
            self.certificate.primal,
            self.certificate.dual,
            self.history,
            msgspec.to_builtins(self.set_up_traffic),
            self._state,
            self._since,
        )
        self._archive.write_round(number, msgspec.msgpack.encode(kept))

    def _gap_of_round(self) -> float | None:
        """Return the gap after the last round, if it was measured."""
        if not self.history:
            return self.certificate.relative_gap if self.certificate else None
        gap = float(self.history[-1]["relative_gap"])
        return None if math.isnan(gap) else gap

    def _round(self, round_number: int) -> RoundReport:
        self._gather(self._attendance.quorum)
        before = self._session.number
        self._heard.clear()
        report = super()._round(round_number)
        if not self.participation.is_complete:
            heard = list(self._heard)
            self._since.append(Since(before, report.participants, heard))
        return report

    # Going back

    def recover(self, failure: ClientsFailedError | BadReplyError) -> None:
        """Go back to the last round that was kept, with those who are there."""
        self._attendance.lose(failure)
        self.go_back()

    def go_back(self) -> None:
        """Restore the last round that was kept, here and at those who are there."""
        self._restore_last()
        self._send_back(list(self._attendance.present))
        self._gather(self._attendance.quorum)

    def _send_back(self, clients: Iterable[int]) -> None:
        after = self._session.number
        self._attendance.send_back(self.kept_by, clients, after)

    def _gather(self, needed: int) -> None:
        """Wait until so many are there, and where they should be.

        Whoever failed in this round is called again only if it cannot do without.
        """
        attendance = self._attendance
        while len(attendance.present) < needed:
            self._send_back(attendance.wait_for(needed))

    def _restore_last(self) -> None:
        """Take the last state that was kept, or the one before if it is damaged."""
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
        """
        kept = _decoder.decode(self._archive.read_round(number) or b"")
        self.kept_by, self.history = dict(kept.kept_by), list(kept.history)
        self.certificate = Measurement(kept.primal, kept.dual)
        self.set_up_traffic = Traffic(**kept.set_up_traffic)  # type: ignore[arg-type]
        self._state, self._since = kept.state, list(kept.since)
        state.load(self.server, kept.state)
        highest = self._session.number
        for since in kept.since:
            self._session.number = since.number
            conversation = self.server.round(since.participants)
            Repeating(list(since.heard)).run(conversation, Traffic())
        self._session.number = max(highest, self._session.number)

    # The end

    def release(self) -> FloatArray:
        """Return the weights last measured, once everybody is there to give them."""
        while True:
            self._attendance.say_who_is_needed("the model is made of all parts")
            self._gather(len(self._attendance.everyone))
            try:
                return super().release()
            except (ClientsFailedError, BadReplyError) as failure:
                self.recover(failure)
