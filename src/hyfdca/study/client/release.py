"""When a client gives its weights away: once per run of a study, after the run's end.

The server announces the end with its certificate. A client compares the announcement
with its own study file, and with what the server reported after the last saved round.
After the announcement it answers no further round. It gives its weights, and remembers
their digest: a server that lost the answer gets the same weights again, and no
server gets others in this run. So the model cannot be used as a way to read sums at
points of the server's choice, one release after the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hyfdca.errors import counted
from hyfdca.federation.messages import CONFIRMING, SET_UP
from hyfdca.protocol import checkpoint
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.protocol.phases import Phase
from hyfdca.protocol.transcript import TranscriptState
from hyfdca.runtime.store import Archive
from hyfdca.study import messages as m
from hyfdca.study.client.answered import TESTS
from hyfdca.study.client.asked import AskedPhases
from hyfdca.study.client.records import read_record
from hyfdca.study.client.repeats import START, Repeats, forget_repeats
from hyfdca.study.client.rounds import RoundsTaken
from hyfdca.study.own_model import NO_RECORD, OwnModel
from hyfdca.study.plan import Plan

_RELEASED, _CONFIRMED = "released", "own-model"

# A round is repeated after a failure, and may then have another point. This may happen
# at most this often beyond the rounds that the study file allows.
MOST_REPEATS = 100
_BEFORE_ROUNDS = ("start", *SET_UP)


def forget_release(archive: Archive) -> None:
    """Allow another model to be released: in a new run, or if the client's user asks.

    What counts over all runs stays: the run's number, and the rounds taken part in.
    """
    archive.forget(_RELEASED)
    archive.forget(_CONFIRMED)
    forget_repeats(archive)
    archive.forget(TESTS)


@dataclass(frozen=True)
class Confirmed:
    """What a client saves at the end of a run, to compare with later messages.

    Parameters
    ----------
    transcript : TranscriptState
        What it was sent. Other clients' accounts of the last round come with the model.
    """

    own: OwnModel
    transcript: TranscriptState


class Releases:
    """Decides whether a client's weights may be released now.

    Parameters
    ----------
    plan : Plan
        The plan of the run, from the client's own study file. In a rehearsal all
        parties belong to one person, who may look at the model at any time.
    taken : RoundsTaken
        Counts the rounds that the client answers.
    note_round : callable
        Called before a round is answered.
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
        self._has_start = False  # whether the start was saved, which is round 0
        self._is_in_round = False  # since the last round was saved, or restored
        self._is_counting = not self._is_rehearsal
        self._repeats, self._asked = Repeats(archive), AskedPhases()
        self._most: Mapping[str, int | None] = {}

    def begin_training(self, most: Mapping[str, int | None]) -> None:
        """Set how often a round has each phase of the algorithm."""
        self._most = most

    def resume_after(self, round_number: int) -> None:
        """Let training continue after a round: forget the end, and its model."""
        self._stop = None
        self.forget_model()
        self._continue(round_number, None)

    def forget_model(self) -> None:
        """Accept no model until another one is confirmed."""
        self._archive.forget(_CONFIRMED)

    def check_keep(self, round_number: int) -> None:
        """Refuse a number that does not cover all rounds answered since the last one.

        Otherwise a server could get answers to more rounds than it counts.

        Raises
        ------
        RemoteProtocolError
        """
        if self._is_rehearsal or not self._has_start:
            return
        n_saved = round_number - self.last_saved
        n_answered = max(self._asked.n_rounds(self._most), self._is_in_round)
        if n_saved < n_answered:
            raise RemoteProtocolError(
                f"round {round_number} cannot be saved: round {self.last_saved} was, "
                f"and {counted(n_answered, 'round')} answered since"
            )

    def saved(self, round_number: int, gap: float | None) -> None:
        """Note that a round was saved, with the gap that the server announced."""
        self._continue(round_number, gap)
        if not self._is_rehearsal:
            self._taken.saved()

    def _continue(self, round_number: int, gap: float | None) -> None:
        self.last_saved, self._last_gap, self._has_start = round_number, gap, True
        self._is_in_round = False
        self._asked.clear()

    def announce(self, stop: m.StopRequest) -> None:
        """Take the announcement of the end.

        Raises
        ------
        RemoteProtocolError
            If the study file does not have this end, or later rounds were saved.
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
        """Return whether a gap may be that of the last saved round.

        Where a study chooses l2, that was the largest gap of all fits. The model is one
        of them.
        """
        if self._last_gap is None or self._settings.path is None:
            return self._last_gap in (None, gap)
        return gap <= self._last_gap

    def _is_due(self, stop: m.StopRequest) -> bool:
        """Return whether the study file has this end.

        The file does not determine whether a run diverges. Its model is also released,
        once.
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

    @contextmanager
    def unchanged_by_errors(self) -> Iterator[None]:
        """Do not count a request that is refused."""
        with self._asked.unchanged_by_errors():
            yield

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Count no request: these were counted when they came."""
        self._is_counting = False
        try:
            yield
        finally:
            self._is_counting = not self._is_rehearsal

    def take(self, name: str, phase: Phase, request: Message) -> None:
        """Count a request of the training before it is answered.

        Raises
        ------
        RemoteProtocolError
            If the rounds until the next saved one have no more of them.
        """
        is_end = name == "release" or name in CONFIRMING
        if is_end or name in _BEFORE_ROUNDS or not self._is_counting:
            return
        self._asked.take(name, phase, request, self._most_of(name, phase))
        self.begin_round()

    def _most_of(self, name: str, phase: Phase) -> int | None:
        """Return how often a phase may come until a round is saved."""
        most = self._most.get(name, phase.most)
        if not self._has_start:
            return most if phase.most_at_start is None else phase.most_at_start
        return None if most is None else most * self._n_rounds

    @property
    def _n_rounds(self) -> int:
        """How many rounds there are at most until one is saved."""
        return min(self._every, self._settings.max_rounds - self.last_saved)

    def begin_round(self) -> None:
        """Note that a round is under way, before anything of it is answered.

        Raises
        ------
        RemoteProtocolError
            If too many were repeated, or the client's own policy allows no more.
        """
        if self._is_in_round or self._is_rehearsal:
            return
        most = self._settings.max_rounds + MOST_REPEATS
        self._repeats.begin(self.last_saved if self._has_start else START, most)
        self._note_round()
        # Their numbers are known once one of them is saved.
        self._taken.take(self._n_rounds)
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

    def note(self, own: OwnModel, transcript: TranscriptState) -> None:
        """Save what this client knows about the model that it confirmed."""
        if (stop := self._stop) is not None:
            own = replace(own, ending=(stop.round, stop.relative_gap, stop.reason))
        confirmed = Confirmed(own, transcript)
        self._archive.write(_CONFIRMED, checkpoint.encode(confirmed))

    def confirmed(self) -> Confirmed:
        """Return what the client saved when it confirmed its weights.

        Raises
        ------
        RefusedError
            If it has not confirmed any.
        """
        known = self._archive.read(_CONFIRMED)
        if known is None:
            raise RefusedError(
                f"{NO_RECORD}; copy model.json from an organisation that has it"
            )
        return read_record(Confirmed, known)
