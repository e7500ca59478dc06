"""Messages that are changed on their way, in both directions of every conversation.

Most cases look at one exchange: a client gets a changed request, or a server a changed
reply, and must refuse it in its own words or go on to the next exchange. Some cases are
followed to the end of their conversation: does the study end with the same model, and
who is named if it does not?
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import msgspec

from hyfdca.federation.grids import DivergenceError
from hyfdca.protocol.client_session import frame, unframe
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.server_session import Ask, BadReplyError, Replies
from hyfdca.runtime.driver import Handler
from hyfdca.stages.alignment.checks import AlignmentError
from tests.fuzz.cases import OWN_ERRORS, Case, Finding, Tally, Watch, attempt
from tests.fuzz.mutations import changed_message
from tests.fuzz.parties import Conversation, Place, Waiting
from tests.fuzz.snapshots import ServerSnapshot, copy_of, watching_servers
from tests.fuzz.studies import NAMES

_TOKEN = 8  # bytes of a message that say which study it is of


def changed_frame(payload: bytes | bytearray, random: Random) -> bytearray:
    """Return a framed message with its body changed and its digest right."""
    token = bytes(payload[:_TOKEN])
    number, body = unframe(payload, token)
    return frame(token, number, msgspec.Raw(changed_message(bytes(body), random)))  # type: ignore[arg-type]


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

    def run(self) -> bytes:
        """Run the conversation; return its result, which no case may have changed."""
        with watching_servers(self._replies):
            return self.conversation.run(self, lambda _: None)

    def _cases(self, kind: str, place: int) -> list[Case]:
        name = self.conversation.name
        if self.only is not None:
            is_here = (self.only.kind, self.only.place) == (kind, place)
            return [self.only] if is_here else []
        drawn = Case(kind, name, place, -1, self.seed).random.random()
        count = int(self.rate + drawn)
        return [Case(kind, name, place, number, self.seed) for number in range(count)]

    # Requests

    def exchange(
        self, place: Place, payload: bytes | bytearray, client: Handler
    ) -> bytes | bytearray:
        """Try changed requests at a copy of the client, then send the right one."""
        cases = self._cases("request", self.n_exchanges)
        self.n_exchanges += 1
        victim: Handler | None = None
        for case in cases:
            victim = victim or copy_of(client)
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
            return "accepted"

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
        for case in self._cases("reply", place):
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
            return "accepted"

        place = f"{server.name}, {ask.phase!r}, client {client}"
        attempt(self.tally, case, act, lambda: (place, bytes(changed)))


def check_blame(error: Exception, client: int, said: str) -> None:
    """Raise a ``Finding`` unless an error names the client that caused it.

    Tables that do not fit together are nobody's fault in particular.
    """
    if AlignmentError in (type(error), type(error.__context__)):
        return
    if isinstance(error, BadReplyError):
        named = {NAMES[other] for other in error.reasons}
    else:
        named = {name for name in NAMES if f"'{name}'" in said or f'"{name}"' in said}
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
    told: list[str] = field(default_factory=list)
    _is_stubborn: bool = False

    def exchange(
        self, place: Place, payload: bytes | bytearray, client: Handler
    ) -> bytes | bytearray:
        """Change the chosen message; with luck, every later one of its kind."""
        is_first = self.n_exchanges == self.case.place
        self.n_exchanges += 1
        if is_first:
            self.victim = place
            self._is_stubborn = self.case.random.random() < 0.5
        is_changed = is_first or (self._is_stubborn and place == self.victim)
        if not is_changed:
            return client.handle(place.phase, payload)
        if self.case.kind == "whole request":
            return client.handle(place.phase, self._change(payload))
        return self._change(client.handle(place.phase, payload))

    def _change(self, payload: bytes | bytearray) -> bytearray:
        changed = changed_frame(payload, self.case.random)
        self.changed = bytes(changed)
        return changed

    def run(self, undisturbed: bytes) -> str:
        """Return how the conversation ended."""
        try:
            result = self.conversation.run(self, self.told.append)
        except Waiting:
            return "waits"
        except DivergenceError:
            return "diverged"
        except OWN_ERRORS as error:
            if self.case.kind == "whole reply" and self.victim is not None:
                said = " ".join([str(error), *self.told])
                check_blame(error, self.victim.client, said)
            return "ended with an error"
        return "same result" if result == undisturbed else self._other_result()

    def _other_result(self) -> str:
        place = self.victim
        return f"another result ({place.stage}, {place.phase})" if place else "?"


def try_whole(whole: Whole, undisturbed: bytes, tally: Tally, watch: Watch) -> None:
    """Run a case to the end of its conversation."""
    watch(whole.case)
    attempt(
        tally,
        whole.case,
        lambda: whole.run(undisturbed),
        lambda: (repr(whole.victim), whole.changed),
    )
