"""Messages that are changed on their way, in both directions of every conversation.

Most cases look at one exchange: a client gets a changed request, or a server a changed
reply, and must refuse it in its own words or continue with the next exchange. Some
cases are followed to the end of their conversation: does the study end with the same
model, and who is named if it does not?
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hyfdca.federation.grids import DivergenceError
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.phases import Phase
from hyfdca.protocol.server_session import (
    Ask,
    BadReplyError,
    ClientsFailedError,
    Replies,
)
from hyfdca.runtime.driver import Handler
from hyfdca.stages.alignment.checks import AlignmentError
from tests.fuzz.cases import OWN_ERRORS, Case, Finding, Tally, Watch, attempt
from tests.fuzz.lies import ENDED, is_contradiction, verdict
from tests.fuzz.parties import DIVERGED, Conversation, Place, Waiting
from tests.fuzz.snapshots import Frozen, ServerSnapshot, watching_servers
from tests.fuzz.studies import NAMES
from tests.fuzz.wire import Phasebook, changed_frame, changed_values, decoded

_FEW_HEARD = 12  # exchanges; servers that must repeat more come up less often
_ALWAYS_IN_FULL = 1  # cases of an exchange, whether their message decodes or not

# One exchange


@dataclass
class Walk:
    """Walks through a conversation, and tries changed messages at each exchange.

    Parameters
    ----------
    rate : float
        Cases at each exchange and in each direction, on average.
    watch : callable
        Is called before each case.
    """

    conversation: Conversation
    tally: Tally
    seed: int
    rate: float
    watch: Watch
    only: Case | None = None  # runs this case alone
    n_exchanges: int = 0
    n_servers: int = 0
    accepted: list[Case] = field(default_factory=list)  # to follow to the end
    _phases: Phasebook = field(default_factory=Phasebook)
    _last: dict[int, int] = field(default_factory=dict)  # exchange, by client

    def run(self) -> bytes:
        """Run the conversation; return its result, which no case may have changed."""
        with self._phases.noting(), watching_servers(self._replies):
            return self.conversation.run(self, lambda _: None)

    def _accept(self, case: Case, exchange: int) -> str:
        """Note a case whose message was accepted, to be followed to the end."""
        whole = Case(
            f"whole {case.kind}",
            case.subject,
            exchange,
            case.number,
            case.seed,
            drawn_as=repr(case),
        )
        self.accepted.append(whole)
        return "accepted"

    def _cases(self, kind: str, place: int, rate: float) -> list[Case]:
        name = self.conversation.name
        if self.only is not None:
            is_here = (self.only.kind, self.only.place) == (kind, place)
            return [self.only] if is_here else []
        drawn = Case(kind, name, place, -1, self.seed).random.random()
        count = int(rate + drawn)
        return [Case(kind, name, place, number, self.seed) for number in range(count)]

    # Requests

    def exchange(
        self, place: Place, payload: bytes | bytearray, client: Handler
    ) -> bytes | bytearray:
        """Try changed requests at a copy of the client, then send the right one."""
        cases = self._cases("request", self.n_exchanges, self.rate)
        self._last[place.client] = self.n_exchanges
        self.n_exchanges += 1
        frozen = Frozen(client) if cases else None
        victim: Handler | None = None
        for case in cases:
            if victim is None and frozen is not None:
                victim = frozen.copy()
            assert victim is not None
            if self._try_request(case, place, payload, victim) != "refused":
                victim = None  # its state is another one now
        reply = client.handle(place.phase, payload)
        if victim is not None:
            self._check_unchanged(cases[-1], place, payload, victim, reply)
        return reply

    def _try_request(
        self, case: Case, place: Place, payload: bytes | bytearray, victim: Handler
    ) -> str | None:
        self.watch(case)
        changed = changed_frame(payload, case.random)

        def act() -> str:
            try:
                victim.handle(place.phase, changed)
            except RemoteProtocolError:
                return "refused"
            return self._accept(case, self.n_exchanges - 1)

        return attempt(self.tally, case, act, lambda: (repr(place), bytes(changed)))

    def _check_unchanged(
        self,
        case: Case,
        place: Place,
        payload: bytes | bytearray,
        victim: Handler,
        reply: bytes | bytearray,
    ) -> None:
        """Check that a client that refused everything answers as if nothing were."""
        try:
            same = len(victim.handle(place.phase, payload)) == len(reply)
        except RemoteProtocolError:
            same = False
        if not same:
            what = Finding(f"a refused request changed a client in {place.phase!r}")
            self.tally.fail(case, what, repr(place), bytes(payload))

    # Replies

    def _replies(self, server: ServerSnapshot, ask: Ask, replies: Replies) -> None:
        place = self.n_servers
        self.n_servers += 1
        if not ask.wants_reply or not replies.ok:
            return
        rate = self.rate * min(1.0, _FEW_HEARD / (1 + server.n_heard))
        for case in self._cases("reply", place, rate):
            client = case.random.choice(sorted(replies.ok))
            self._try_reply(case, server, ask, replies, client)

    def _try_reply(
        self,
        case: Case,
        server: ServerSnapshot,
        ask: Ask,
        replies: Replies,
        client: int,
    ) -> None:
        self.watch(case)
        changed = changed_frame(replies.ok[client], case.random)
        phase = self._phases.phase_of(ask.phase, ask.payloads[client])
        in_full = case.number < _ALWAYS_IN_FULL or phase is None
        if not in_full and decoded(changed, phase.reply_type) is None:
            self.tally.add(case, "refused: it does not decode")
            return
        resumed = server.resumed()
        if resumed is None:
            return

        def act() -> str:
            try:
                resumed.send(Replies({**replies.ok, client: changed}))
            except StopIteration:
                pass
            except DivergenceError:
                return "diverged"
            except OWN_ERRORS as error:
                check_blame(error, client, str(error))
                return "refused"
            return self._accept(case, self._last[client])

        place = f"{server.name}, {ask.phase!r}, client {client}"
        attempt(self.tally, case, act, lambda: (place, bytes(changed)))


def check_blame(error: Exception, client: int, said: str) -> None:
    """Raise a ``Finding`` unless an error names the client that caused it.

    Tables that do not fit together are nobody's fault in particular.
    """
    if AlignmentError in (type(error), type(error.__context__)):
        return
    named = {name for name in NAMES if f"'{name}'" in said or f'"{name}"' in said}
    if isinstance(error, BadReplyError | ClientsFailedError):
        named |= {NAMES[other] for other in error.reasons}
    if NAMES[client] not in named:
        words = " ".join(str(error).split()[:9])
        whom = "another client" if named else "no client"
        raise Finding(f"{type(error).__name__} names {whom}: {words}") from error


# To the end


@dataclass
class Whole:
    """Runs a conversation to its end with one message changed, once or every time."""

    conversation: Conversation
    case: Case
    n_exchanges: int = 0
    changed: bytes = b""
    victim: Place | None = None
    sentences: list[str] = field(default_factory=list)
    values: set[str] = field(default_factory=set)  # those that were changed
    _is_stubborn: bool = False
    _phases: Phasebook = field(default_factory=Phasebook)

    def exchange(
        self, place: Place, payload: bytes | bytearray, client: Handler
    ) -> bytes | bytearray:
        """Change the chosen message; with luck, every later one of its kind."""
        if place.phase == "return":
            self.values.clear()  # rounds that are taken back change nothing
        is_first = self.n_exchanges == self.case.place
        self.n_exchanges += 1
        if is_first:
            self.victim = place
            self._is_stubborn = self.case.random.random() < 0.5
        is_changed = is_first or (self._is_stubborn and place == self.victim)
        if not is_changed:
            return client.handle(place.phase, payload)
        phase = self._phases.phase_of(place.phase, payload)
        if self.case.kind == "whole request":
            known = set(self.values)
            changed = self._change(payload, phase, phase and phase.request)
            try:
                return client.handle(place.phase, changed)
            except Exception:
                self.values = known  # what is refused changes nothing
                raise
        reply = client.handle(place.phase, payload)
        return self._change(reply, phase, phase and phase.reply_type)

    def _change(
        self, payload: bytes | bytearray, phase: Phase | None, kind: Any
    ) -> bytearray:
        changed = changed_frame(payload, self.case.random)
        self.changed = bytes(changed)
        before, after = decoded(payload, kind), decoded(changed, kind)
        if phase and before is not None and after is not None:
            self.values |= changed_values(phase, before, after)
        return changed

    def run(self, undisturbed: bytes) -> str:
        """Return how the conversation ended."""
        try:
            with self._phases.noting():
                result = self.conversation.run(self, self.sentences.append)
        except Waiting as error:
            if self.case.kind == "whole reply" and self.victim is not None:
                check_blame(error, self.victim.client, " ".join(self.sentences))
            return "waits, and says for whom"
        except DivergenceError:
            return "diverged"
        except OWN_ERRORS as error:
            if self.case.kind == "whole reply" and self.victim is not None:
                said = " ".join([str(error), *self.sentences])
                if is_contradiction(said, self.values):
                    return ENDED
                check_blame(error, self.victim.client, said)
            return "ended with an error"
        return "same result" if result == undisturbed else self._other_result()

    def _other_result(self) -> str:
        place = self.victim
        if place is None:
            return "?"
        if any(NAMES[place.client] in said for said in self.sentences):
            return "another result, and who lied was named"
        is_diverged = DIVERGED in self.sentences
        return verdict(self.case.kind, place, self.values, is_diverged)


def try_whole(whole: Whole, undisturbed: bytes, tally: Tally, watch: Watch) -> None:
    """Run a case to the end of its conversation."""
    watch(whole.case)
    attempt(
        tally,
        whole.case,
        lambda: whole.run(undisturbed),
        lambda: (repr(whole.victim), whole.changed),
    )
