"""When a client gives its weights away: once per run of a study, after the run's end.

The server announces the end with its certificate. A client compares the announcement
with its own study file, and with what it was told after the last round it saved. After
the announcement it answers no further round. It gives its weights, and remembers a
digest of them: a server that lost the answer gets the same weights again, and no
server gets others in this run. So the model cannot be used as a way to read sums at
points of the server's choice, one release after the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from hyfdca.errors import reading
from hyfdca.federation.messages import CONFIRMING, SET_UP
from hyfdca.protocol import checkpoint
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.runtime.store import Archive
from hyfdca.study import messages as m
from hyfdca.study.client.answered import TESTS
from hyfdca.study.client.records import read_record
from hyfdca.study.client.rounds import RoundsTaken
from hyfdca.study.own_model import MISFIT, OwnModel, check_model
from hyfdca.study.plan import Plan

_RELEASED, _OWN_MODEL, _REPEATS = "released", "own-model", "repeats"

# A round is repeated after a failure, and may then have another point. Beyond the
# rounds that the study file allows, that happens this often at most.
MOST_REPEATS = 100
_BEFORE_ROUNDS = ("start", *SET_UP)


def forget_release(archive: Archive) -> None:
    """Let another model be released in this run, as only the client's user may.

    What counts over all runs stays: which run it is, and the rounds taken part in.
    """
    archive.forget(_RELEASED)
    archive.forget(_OWN_MODEL)
    archive.forget(_REPEATS)
    archive.forget(TESTS)


class Releases:
    """Decides whether a client's weights may be released now.

    Parameters
    ----------
    plan : Plan
        Of the run, from the client's own study file. In a rehearsal all parties belong
        to one person, who may look at the model at any time.
    taken : RoundsTaken
        Counts the rounds that the client answers.
    note_round : callable
        Is called before a round is answered.
    """

    def __init__(
        self,
        plan: Plan,
        archive: Archive,
        taken: RoundsTaken,
        note_round: Callable[[], None],
    ) -> None:
        self._settings, self._archive, self._taken = plan.training, archive, taken
        self._note_round = note_round
        self._every, self._is_rehearsal = plan.checkpoint_every, plan.is_rehearsal
        self._of_run = b"%d.%d" % (plan.epoch, plan.run.number)
        self._stop: m.StopRequest | None = None
        self.last_saved = 0  # round
        self._last_gap: float | None = None  # as announced when it was saved
        self._is_in_round = False  # since the last round was saved, or restored

    def forget(self, last_saved: int = 0) -> None:
        """Forget the announced end: training continues after a round, 0 the first.

        A round that was under way is repeated, which counts.
        """
        self._stop, self.last_saved, self._last_gap = None, last_saved, None
        if self._is_in_round and not self._is_rehearsal:
            self._archive.write(_REPEATS, b"%d" % (self._n_repeats() + 1))
        self._is_in_round = False

    def saved(self, round_number: int, gap: float | None) -> None:
        """Note that a round was saved, with the gap that the server announced."""
        self.last_saved, self._last_gap = round_number, gap
        self._is_in_round = False
        if not self._is_rehearsal:
            self._taken.saved()

    def _n_repeats(self) -> int:
        with reading(self._archive.damage(_REPEATS)):
            return int(self._archive.read(_REPEATS) or b"0")

    def announce(self, stop: m.StopRequest) -> None:
        """Take the announcement of the end.

        Raises
        ------
        RemoteProtocolError
            If the study file knows no such end, or later rounds were saved.
        """
        last = self.last_saved
        if stop.round < last:
            raise RemoteProtocolError(f"round {last} was saved before that end")
        if stop.round == last and not self._is_known(stop.relative_gap):
            raise RemoteProtocolError(
                f"the gap of round {last} was {self._last_gap:g} when it was saved, "
                f"and is {stop.relative_gap:g} at the end"
            )
        if not self._is_due(stop):
            raise RemoteProtocolError(
                f"the study does not end after round {stop.round} with the reason "
                f"{stop.reason!r} at a relative gap of {stop.relative_gap:g}"
            )
        self._stop = stop

    def _is_known(self, gap: float) -> bool:
        """Return whether a gap may be that of the round which was saved last.

        Where a study chooses l2, that was the largest gap of all fits. The model is one
        of them.
        """
        if self._last_gap is None or self._settings.path is None:
            return self._last_gap in (None, gap)
        return gap <= self._last_gap

    def _is_due(self, stop: m.StopRequest) -> bool:
        """Return whether the study file has this end.

        A run that diverges is not a matter of the file. Its model is released once too.
        """
        settings = self._settings
        return {
            "tolerance": stop.relative_gap <= settings.tolerance,
            "round limit": stop.round >= settings.max_rounds,
            "time limit": settings.max_seconds is not None,
            "stalled": settings.stall_rounds is not None,
            "diverged": True,
        }.get(stop.reason, False)

    def check_phase(self, phase: str) -> None:
        """Refuse a release before the end, and every other phase after it.

        There are no rounds after the last one that the study file allows.
        """
        if self._is_rehearsal:
            return
        is_end = phase == "release" or phase in CONFIRMING
        if is_end and self._stop is None:
            raise RemoteProtocolError(
                "weights are released after the end of the study was announced"
            )
        if not is_end and self._stop is not None:
            raise RemoteProtocolError("the end of the study was announced")
        most = self._settings.max_rounds
        if not is_end and self.last_saved >= most:
            raise RemoteProtocolError(f"the study has at most {most} rounds")
        if not is_end and phase not in _BEFORE_ROUNDS:
            self._begin_round(most + MOST_REPEATS)

    def _begin_round(self, most: int) -> None:
        """Note that a round is under way; refuse it if too many were repeated."""
        if self._is_in_round:
            return
        if self._n_repeats() > most:
            raise RemoteProtocolError(
                f"the server had more than {most} rounds repeated; start this "
                "organisation's client with --restart if that is right"
            )
        self._note_round()
        # Which rounds these are is known once one of them is saved.
        left = self._settings.max_rounds - self.last_saved
        self._taken.take(min(self._every, left))
        self._is_in_round = True

    def check_not_over(self) -> None:
        """Refuse what belongs to a round once the end was announced."""
        if self._stop is not None and not self._is_rehearsal:
            raise RemoteProtocolError("the end of the study was announced")

    def check_reply(self, reply: bytes) -> None:
        """Refuse to give away other weights than before in this run.

        Raises
        ------
        RemoteProtocolError
        """
        if self._is_rehearsal:
            return
        digest = hashlib.sha256(reply).digest()
        kept_run, _, kept = (self._archive.read(_RELEASED) or b"").partition(b":")
        if kept_run != self._of_run:
            self._archive.write(_RELEASED, self._of_run + b":" + digest)
        elif kept != digest:
            raise RemoteProtocolError(
                "it released the model of this study before, and not with these "
                "weights; start its client with --restart if another one may be "
                "released"
            )

    def note(self, own: OwnModel) -> None:
        """Save what this client knows of the model that it confirmed."""
        if (stop := self._stop) is not None:
            own = replace(own, ending=(stop.round, stop.relative_gap, stop.reason))
        self._archive.write(_OWN_MODEL, checkpoint.encode(own))

    def check_model(self, content: bytes) -> None:
        """Refuse a model that differs from what this client released.

        Raises
        ------
        RemoteProtocolError
        """
        known = self._archive.read(_OWN_MODEL)
        if known is None:
            raise RefusedError(
                f"{MISFIT} this organisation, which has no record of weights that it "
                "released; copy model.json from an organisation that has it"
            )
        check_model(content, read_record(OwnModel, known))
