"""Who is there: the server's half of what is said about a study as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from hyfdca.errors import StudyError
from hyfdca.protocol.messages import Message
from hyfdca.protocol.server_session import (
    BadReplyError,
    ClientsFailedError,
    Conversation,
    ServerSession,
)
from hyfdca.runtime.driver import Driver, Traffic
from hyfdca.study import messages as m
from hyfdca.study.client import STUDY_TOKEN
from hyfdca.study.plan import PROTOCOL, Plan

T = TypeVar("T")

# Of a member that is there, in one and the same round: what comes of the network may
# pass, a refusal hardly.
_MOST_FAILURES, _MOST_REFUSALS = 20, 3
REFUSED = "refused"  # how the reason of a refusal starts


class StudyNetwork(Protocol):
    """What connects a server with the members of its study."""

    def driver(self, stage: str) -> Driver:
        """Return what carries the requests of a stage."""
        ...

    def wait(self, missing: Iterable[int]) -> None:
        """Wait a little for members that are missing, before they are called again."""
        ...

    def returning(self, missing: Iterable[int]) -> Iterable[int]:
        """Return those that are worth calling again, without waiting."""
        ...


class Presence:
    """Calls members, notes who is there, and has them keep rounds and go back.

    Parameters
    ----------
    tell : callable
        Told in a sentence who comes, goes, or cannot take part and why.
    """

    def __init__(
        self,
        plan: Plan,
        network: StudyNetwork,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._plan, self._network, self._tell = plan, network, tell
        self.quorum = plan.quorum
        self._session = ServerSession(STUDY_TOKEN, m.PHASES)
        self.present: dict[int, m.Present] = {}
        self._told: dict[int, set[str]] = {}  # of each, since it was in a round
        self._away: set[int] = set()  # of those who were told to be
        self._n_failures: dict[int, int] = {}  # since the last round that succeeded
        self.traffic = Traffic()

    @property
    def everyone(self) -> range:
        """All members, there or not."""
        return range(len(self._plan.names))

    @property
    def missing(self) -> list[int]:
        """Who is not there."""
        return [client for client in self.everyone if client not in self.present]

    def number_from(self, number: int) -> None:
        """Give requests numbers above this one from now on."""
        self._session.number = max(number, self._session.number)

    # Who is there

    def wait_for(self, needed: int) -> list[int]:
        """Call until so many are there; return who was not before."""
        newcomers = self.call(self.missing)
        while len(self.present) < needed:
            self._network.wait(self.missing)
            newcomers += self.call(self.missing)
        return newcomers

    def say_who_is_needed(self, for_what: str) -> None:
        """Say whom the study waits for, if anybody is missing."""
        if self.missing:
            names = ", ".join(repr(self._plan.names[client]) for client in self.missing)
            self._tell(f"Waiting for {names}, because {for_what}.")

    def call_returning(self) -> list[int]:
        """Call those who may be back; return who is."""
        return self.call(self._network.returning(self.missing))

    def call(self, clients: Iterable[int]) -> list[int]:
        """See who of these is there, and return them."""
        hello = m.Hello(self._plan.study_hash, PROTOCOL)
        called = dict.fromkeys(clients, hello)
        if not called:
            return []
        answers, failed = self._run(self._session.try_ask("hello", called, m.Present))
        for client, answer in answers.items():
            if answer.study_hash != self._plan.study_hash:
                failed[client] = "it answers for another study file"
                continue
            self.present[client] = answer
            if client in self._away:
                self._away.discard(client)
                self._tell_once(client, "is there again")
        for client, reason in failed.items():
            self._note(client, reason)
        return [client for client in answers if client in self.present]

    def lose(self, failure: ClientsFailedError | BadReplyError) -> None:
        """Take note that members did not answer in a phase.

        Raises
        ------
        StudyError
            If one is there and fails all the same, again and again.
        """
        for client, reason in failure.reasons.items():
            self.present.pop(client, None)
            self._note(client, reason)
            self._n_failures[client] = self._n_failures.get(client, 0) + 1
            is_refusal = reason.startswith(REFUSED)
            most = _MOST_REFUSALS if is_refusal else _MOST_FAILURES
            if self._n_failures[client] > most:
                raise StudyError(
                    f"{self._name(client)} failed {most} times without a round in "
                    f"between, at last in phase {failure.phase!r}: {reason}; see its "
                    "log."
                )

    def forgive(self) -> None:
        """Count failures anew, since a round succeeded."""
        self._n_failures.clear()
        for client in self.present:
            self._told.pop(client, None)

    def _note(self, client: int, reason: str) -> None:
        self.present.pop(client, None)
        self._away.add(client)
        self._tell_once(client, f"is not there: {reason.rstrip('.')}")

    def _tell_once(self, client: int, what: str) -> None:
        """Tell something of a member, which may alternate call by call."""
        told = self._told.setdefault(client, set())
        if what not in told:
            told.add(what)
            self._tell(f"{self._name(client)} {what}.")

    # Keeping and going back

    def begin(self, after: int) -> None:
        """Have everybody start anew, with nothing but the study's keys.

        Whatever was asked up to a number, in other stages, they need not answer.
        """
        self._ask("begin", dict.fromkeys(self.everyone, m.BeginRequest(after)))

    def keep(self, number: int, relative_gap: float | None) -> None:
        """Have everybody who is there keep the state after a round."""
        here = sorted(self.present)
        self._ask(
            "keep", dict.fromkeys(here, m.KeepRequest(number, relative_gap, here))
        )

    def send_back(
        self, kept: Mapping[int, int], clients: Iterable[int], after: int
    ) -> None:
        """Have members go back, each to the last round that it kept for good.

        Whatever was asked up to a number, in other stages, they need not answer.
        """
        requests = {c: m.ReturnRequest(kept[c], after) for c in clients}
        if not requests:
            return
        _, failed = self._run(self._session.try_ask("return", requests, Message))
        if failed:
            self.lose(ClientsFailedError("return", failed))

    def finish(self, model: bytes, clients: Iterable[int]) -> list[int]:
        """Give the model to members; return who has it now."""
        notices = {c: m.FinishNotice(model) for c in clients if c in self.present}
        if not notices:
            return []
        answers, failed = self._run(self._session.try_ask("finish", notices, Message))
        for client, reason in failed.items():
            self._note(client, reason)
        return sorted(answers)

    def _ask(self, phase: str, requests: Mapping[int, Message]) -> None:
        self._run(self._session.ask(phase, requests, Message))

    def _run(self, conversation: Conversation[T]) -> T:
        return self._network.driver("study").run(conversation, self.traffic)

    def _name(self, client: int) -> str:
        return f"Organisation {self._plan.names[client]!r}"
