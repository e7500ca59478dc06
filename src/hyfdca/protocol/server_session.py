"""The server's side of a conversation: requests are asked in a legal order.

Theory of operation. The server's work is written as generators: they yield an ``Ask``
and are sent the ``Replies``. A driver carries the bytes; the core has no clock, thread
or socket. Requests are numbered over the whole study, so that a client can tell a
retry from a replay (``client_session.py``). Both sides check every request against the
table of phases.

The code that reads a reply names its sender if the reply is invalid.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from hyfdca.protocol.client_session import frame, read_reply
from hyfdca.protocol.codec import (
    DamagedError,
    LocalProtocolError,
    RemoteProtocolError,
)
from hyfdca.protocol.messages import Message
from hyfdca.protocol.phases import START, Phase, Phases, rules_of

T = TypeVar("T")


@dataclass(frozen=True)
class Ask:
    """Requests of one phase, one per client.

    Parameters
    ----------
    wants_reply : bool
        False for notices, which nobody answers.
    is_extra : bool
        Whether the exchange is counted apart from a round's own; see ``Phase``.
    """

    phase: str
    payloads: Mapping[int, bytes | bytearray]
    wants_reply: bool = True
    is_extra: bool = False


@dataclass(frozen=True)
class Replies:
    """The bytes of the clients that answered, and why the others did not."""

    ok: Mapping[int, bytes | bytearray]
    failed: Mapping[int, str] = field(default_factory=dict)


# Yielded by a conversation that cannot continue without clients that are absent.
PAUSE = Ask("pause", {})

_MORE_TRIES = 3  # for replies that arrive damaged

Conversation = Generator[Ask, Replies, T]


class ClientsFailedError(Exception):
    """Clients that a phase needs did not answer, or answered wrongly.

    Parameters
    ----------
    reasons : mapping of int to str
        The reasons by client; each is the end of a sentence.
    """

    def __init__(self, phase: str, reasons: Mapping[int, str]) -> None:
        self.phase, self.reasons = phase, dict(reasons)
        each = "; ".join(f"client {c}: {why}" for c, why in self.reasons.items())
        super().__init__(f"Phase {phase!r} is missing answers: {each}")


class BadReplyError(RemoteProtocolError):
    """A client's reply is invalid, or replies contradict each other; names the senders.

    Parameters
    ----------
    phase : str
        Empty if unknown; the driver then fills it in.
    clients : int or iterable of int
        Several if it is unknown which of them is wrong.
    is_final : bool
        Whether asking again does not help, so that the study ends.
    """

    def __init__(
        self,
        phase: str,
        clients: int | Iterable[int],
        reason: str,
        is_final: bool = False,
    ) -> None:
        self.phase, self.reason, self.is_final = phase, reason, is_final
        self.clients = (clients,) if isinstance(clients, int) else tuple(clients)
        self.reasons = dict.fromkeys(self.clients, reason)
        who = " and ".join(map(str, self.clients))
        whose = f"answer of client {who}"
        if len(self.clients) > 1:
            whose = f"answers of clients {who}"
        to = f" to {phase!r}" if phase else ""
        super().__init__(f"{whose}{to}: {reason}")

    def in_phase(self, phase: str) -> BadReplyError:
        """Return the same error with its phase filled in, if it was not known."""
        return BadReplyError(
            self.phase or phase, self.clients, self.reason, self.is_final
        )


# Errors that can occur while a server reads a reply with hostile content
INVALID = (RemoteProtocolError, ValueError, ArithmeticError)


def blaming(error: Exception, *clients: int) -> BadReplyError:
    """Return the error that blames these clients for the content of their replies.

    Whatever a server reads from a decoded reply may raise ``INVALID``: an error without
    a sender would end a study, and nobody would know why.
    """
    if isinstance(error, BadReplyError):
        return BadReplyError(error.phase, clients, error.reason)
    return BadReplyError("", clients, str(error))


@contextmanager
def reply_of(*clients: int) -> Iterator[None]:
    """Blame these clients for errors while their replies are read here."""
    try:
        yield
    except INVALID as error:
        raise blaming(error, *clients) from None


@dataclass(frozen=True, repr=False)
class SessionState:
    """The number of the last request, and each client's last phase."""

    number: int
    last: dict[int, str]


class ServerSession:
    """Frames requests, checks their order and the replies.

    ``present`` are the clients that can be asked now; None stands for everybody. A
    conversation that needs others too yields ``PAUSE``, and continues with those who
    are present when it is resumed.

    Parameters
    ----------
    phases : Phases
        The phases of the first stage; ``enter`` changes to another one.
    after : int
        Requests are numbered from the next number on.
    """

    def __init__(self, token: bytes, phases: Phases | None = None, after: int = 0):
        self._token = token
        self.number = after  # of the last request
        self.present: Set[int] | None = None
        self.enter(phases or {})

    def enter(self, phases: Phases) -> None:
        """Begin a stage, which has its own phases."""
        self._rules = rules_of(phases)
        self._last: dict[int, str] = {}

    @contextmanager
    def visiting(self, phases: Phases) -> Iterator[None]:
        """Insert another stage, after which the present one continues."""
        before = self._rules, self._last
        self.enter(phases)
        try:
            yield
        finally:
            self._rules, self._last = before

    def state(self) -> SessionState:
        """Return what a checkpoint keeps."""
        return SessionState(self.number, dict(self._last))

    def restore(self, state: SessionState) -> None:
        """Take a state, but no lower number: clients may have answered higher ones."""
        self.number = max(self.number, state.number)
        self._last, self.present = dict(state.last), None

    def ask(
        self, phase: str, requests: Mapping[int, Message], kind: type[T]
    ) -> Conversation[dict[int, T]]:
        """Send requests and return the decoded replies, by client in rank order."""
        waiting = dict(requests)
        replies: dict[int, Message] = {}
        while waiting:
            if now := self._now(waiting):
                decoded, failed, bad = yield from self._exchange(phase, now)
                if failed:
                    raise ClientsFailedError(phase, failed)
                if bad:
                    raise BadReplyError(phase, *min(bad.items()))
                replies.update(decoded)
            if waiting:
                yield PAUSE
        answers: dict[int, T] = {}
        for client, message in sorted(replies.items()):
            if not isinstance(message, kind):
                raise _other_kind(phase, client, message)
            answers[client] = message
        return answers

    def try_ask(
        self, phase: str, requests: Mapping[int, Message], kind: type[T]
    ) -> Conversation[tuple[dict[int, T], dict[int, str]]]:
        """Send requests; return the decoded replies, and why there are no others."""
        decoded, failed, bad = yield from self._exchange(phase, requests)
        answers: dict[int, T] = {}
        for client, message in sorted(decoded.items()):
            if not isinstance(message, kind):
                raise _other_kind(phase, client, message)
            answers[client] = message
        return answers, {**failed, **bad}

    def tell(self, phase: str, notices: Mapping[int, Message]) -> Conversation[None]:
        """Send notices that nobody answers."""
        waiting = dict(notices)
        while waiting:
            if now := self._now(waiting):
                entry, _, ask = self._framed(phase, now)
                replies = yield Ask(phase, ask, False, entry.is_extra)
                if replies.failed:
                    raise ClientsFailedError(phase, replies.failed)
                self._note(phase, now, replies)
            if waiting:
                yield PAUSE

    def _now(self, waiting: dict[int, Message]) -> dict[int, Message]:
        """Remove and return the waiting requests to clients that are present."""
        here = [c for c in waiting if self.present is None or c in self.present]
        return {client: waiting.pop(client) for client in here}

    def _exchange(
        self, phase: str, requests: Mapping[int, Message]
    ) -> Conversation[tuple[dict[int, Message], dict[int, str], dict[int, str]]]:
        """Send requests; return replies, who did not answer, and who answered badly.

        A request whose reply was damaged on its way is sent again: the client answers
        the same request with the same bytes.
        """
        entry, number, framed = self._framed(phase, requests)
        decoded: dict[int, Message] = {}
        failed: dict[int, str] = {}
        bad: dict[int, str] = {}
        asked = framed
        for _ in range(1 + _MORE_TRIES):
            replies = yield Ask(phase, asked, is_extra=entry.is_extra)
            self._note(phase, asked, replies)
            failed.update(replies.failed)
            bad, asked = {}, {}
            for client in sorted(replies.ok):
                try:
                    decoded[client] = read_reply(
                        replies.ok[client], self._token, number, entry.reply_type
                    )
                except DamagedError as error:
                    bad[client], asked[client] = str(error), framed[client]
                except RemoteProtocolError as error:
                    bad[client] = str(error)
            if not asked:
                break
        return decoded, failed, bad

    def _framed(
        self, phase: str, requests: Mapping[int, Message]
    ) -> tuple[Phase, int, dict[int, bytearray]]:
        """Number and frame requests that may be sent now."""
        rule = self._rules.get(phase)
        if rule is None:
            raise LocalProtocolError(f"there is no phase {phase!r} in this stage")
        for client in requests:
            last = self._last.get(client, START)
            if rule.after is not None and last not in rule.after:
                raise LocalProtocolError(
                    f"phase {phase!r} may not follow {last!r} at client {client}"
                )
        self.number += 1
        number, token = self.number, self._token
        framed = {c: frame(token, number, requests[c]) for c in sorted(requests)}
        return rule.phase, number, framed

    def _note(self, phase: str, asked: Mapping[int, object], replies: Replies) -> None:
        """Note who was asked; a driver that loses answers is a bug here."""
        if set(replies.ok) | set(replies.failed) != set(asked):
            raise LocalProtocolError(f"the driver lost answers of phase {phase!r}")
        self._last.update(dict.fromkeys(replies.ok, phase))


def _other_kind(phase: str, client: int, message: Message) -> BadReplyError:
    return BadReplyError(phase, client, f"it is a {type(message).__name__}")
