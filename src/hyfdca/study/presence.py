"""Tracks presence: the server's side of the messages about a study as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from hyfdca.errors import StudyError
from hyfdca.federation.blame import WRONG_PART
from hyfdca.model.file import StopReason
from hyfdca.protocol.messages import Message
from hyfdca.protocol.server_session import (
    BadReplyError,
    ClientsFailedError,
    Conversation,
    ServerSession,
)
from hyfdca.protocol.transcript import Account
from hyfdca.runtime.driver import Driver, Traffic
from hyfdca.study import messages as m
from hyfdca.study.client.client import STUDY_TOKEN
from hyfdca.study.client.policy import is_by_policy
from hyfdca.study.own_model import MISFIT, NO_RECORD
from hyfdca.study.plan import PROTOCOL, Plan

T = TypeVar("T")

# Limits for a present member, per round: network failures may resolve themselves,
# refusals hardly ever do.
_MOST_FAILURES, _MOST_REFUSALS = 20, 3
REFUSED = "refused"  # starts the reason of a refusal


class StudyNetwork(Protocol):
    """Connects a server with the members of its study."""

    def driver(self, stage: str) -> Driver:
        """Return the driver that carries the requests of a stage."""
        ...

    def wait(self, missing: Iterable[int]) -> None:
        """Wait briefly for missing members before they are called again."""
        ...

    def returning(self, missing: Iterable[int]) -> Iterable[int]:
        """Return the members worth calling again, without waiting."""
        ...


class MisfitError(StudyError):
    """The model does not fit what a member knows about it.

    Parameters
    ----------
    accepted : list of int
        The members that accepted it at the same time.
    """

    def __init__(self, sentence: str, accepted: list[int]) -> None:
        super().__init__(sentence)
        self.accepted = accepted


class Presence:
    """Tracks which members are present; lets them save and restore rounds.

    Parameters
    ----------
    tell : callable
        Receives a sentence when a member comes, leaves, or cannot take part.
    """

    def __init__(
        self,
        plan: Plan,
        network: StudyNetwork,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._plan, self._network, self.tell = plan, network, tell
        self.quorum = plan.quorum
        self._session = ServerSession(STUDY_TOKEN, m.PHASES)
        self.present: dict[int, m.Present] = {}
        self._reported: dict[int, set[str]] = {}  # by member, since its last round
        self._away: set[int] = set()  # members reported as unavailable
        # Since the last successful round, by member and whether it refused
        self._n_failures: dict[tuple[int, bool], int] = {}
        self.accounts: list[Account] = []  # members' accounts of what they were sent
        self.traffic = Traffic()

    @property
    def everyone(self) -> range:
        """All members, present or not."""
        return range(len(self._plan.names))

    @property
    def missing(self) -> list[int]:
        """The members that are not present."""
        return [client for client in self.everyone if client not in self.present]

    def number_from(self, number: int) -> None:
        """Give later requests numbers above this one."""
        self._session.number = max(number, self._session.number)

    # Who is present

    def wait_for(self, needed: int) -> list[int]:
        """Call until ``needed`` members are present; return the newcomers."""
        newcomers = self.call(self.missing)
        while len(self.present) < needed:
            self._network.wait(self.missing)
            newcomers += self.call(self.missing)
        return newcomers

    def say_who_is_needed(self, for_what: str) -> None:
        """Report whom the study waits for, if anybody is missing."""
        if self.missing:
            names = ", ".join(repr(self._plan.names[client]) for client in self.missing)
            self.tell(f"Waiting for {names}, because {for_what}.")

    def call_returning(self) -> list[int]:
        """Call members that may be back; return those that are."""
        return self.call(self._network.returning(self.missing))

    def call(self, clients: Iterable[int]) -> list[int]:
        """Call these members; return those that are present."""
        hello = m.Hello(self._plan.study_hash, PROTOCOL)
        called = dict.fromkeys(clients, hello)
        if not called:
            return []
        answers, failed = self._run(self._session.try_ask("hello", called, m.Present))
        for client, answer in answers.items():
            if answer.study_hash != self._plan.study_hash:
                failed[client] = "it replied for another study file"
                continue
            self.present[client] = answer
            if client in self._away:
                self._away.discard(client)
                self._tell_once(client, "is available again")
        for client, reason in failed.items():
            self._note(client, reason)
        return [client for client in answers if client in self.present]

    def lose(self, failure: ClientsFailedError | BadReplyError) -> None:
        """Note that members failed in a phase.

        Raises
        ------
        StudyError
            If a member is present but keeps failing, or asking again does not help.
        """
        if isinstance(failure, BadReplyError) and failure.is_final:
            raise StudyError(self._dispute(failure))
        for client, reason in failure.reasons.items():
            if is_by_policy(reason):  # it would repeat the refusal
                said = _plain(reason)
                said = said[:1].lower() + said[1:]
                raise StudyError(f"{self._one_of(failure, client)} refuses: {said}.")
            self.present.pop(client, None)
            self._note(client, reason)
            # A client answers nothing more after some sums that do not open.
            is_refusal = reason.startswith(REFUSED) or reason == WRONG_PART
            n_failures = self._n_failures.get((client, is_refusal), 0) + 1
            self._n_failures[client, is_refusal] = n_failures
            most = _MOST_REFUSALS if is_refusal else _MOST_FAILURES
            if n_failures > most:
                raise StudyError(
                    f"{self._one_of(failure, client)} failed more than {most} times "
                    "without a successful round, most recently in phase "
                    f"{failure.phase!r}: "
                    f"{reason}; see its log."
                )

    def _dispute(self, failure: BadReplyError) -> str:
        """Return why the study ends, with everybody who may be the cause."""
        who, why = self._one_of(failure, failure.clients[0]), failure.reason
        return f"{who} is wrong: {why}; the study ends without a model."

    def _one_of(self, failure: ClientsFailedError | BadReplyError, client: int) -> str:
        """Return a member that failed, or all of which one is the cause."""
        if isinstance(failure, ClientsFailedError) or len(failure.clients) == 1:
            return self._name(client)
        names = [repr(self._plan.names[client]) for client in failure.clients]
        return f"One of the organisations {', '.join(names)}"

    def forgive(self) -> None:
        """Reset the counts of failures after a successful round."""
        self._n_failures.clear()
        for client in self.present:
            self._reported.pop(client, None)

    def _note(self, client: int, reason: str) -> None:
        self.present.pop(client, None)
        self._away.add(client)
        self._tell_once(client, f"is unavailable: {reason.rstrip('.')}")

    def _tell_once(self, client: int, what: str) -> None:
        """Report something about a member once, even if it alternates with calls."""
        reported = self._reported.setdefault(client, set())
        if what not in reported:
            reported.add(what)
            self.tell(f"{self._name(client)} {what}.")

    # Checkpoints

    def begin(self, after: int) -> None:
        """Let everybody restart with only the study's keys.

        They need not answer requests of other stages up to this number.
        """
        request = m.BeginRequest.of(self._plan.run, after)
        self._ask("begin", dict.fromkeys(self.everyone, request))

    def keep(self, number: int, relative_gap: float | None) -> None:
        """Let every present member save the state after a round."""
        here = sorted(self.present)
        request = m.KeepRequest(number, relative_gap, here, self.accounts)
        kept = self._run(
            self._session.ask("keep", dict.fromkeys(here, request), m.Kept)
        )
        self.accounts = [answer.account for answer in kept.values()]

    def send_back(
        self, kept: Mapping[int, int], clients: Iterable[int], after: int
    ) -> None:
        """Let each of these members restore the last round that it committed.

        They need not answer requests of other stages up to this number.
        """
        requests = {c: m.ReturnRequest(kept[c], after) for c in clients}
        if not requests:
            return
        _, failed = self._run(self._session.try_ask("return", requests, Message))
        if failed:
            self.lose(ClientsFailedError("return", failed))

    def stop(self, number: int, relative_gap: float, reason: StopReason) -> None:
        """Announce the end of the study to every present member."""
        stop = m.StopRequest(number, relative_gap, reason)
        self._ask("stop", dict.fromkeys(sorted(self.present), stop))

    def finish(self, model: bytes, clients: Iterable[int]) -> list[int]:
        """Send the model to members; return those that do not need it again.

        A member without a record of its weights, for example after ``--restart``, can
        never accept it. A sentence says how its user gets the file.

        Raises
        ------
        MisfitError
            If it does not fit what a member knows about it.
        """
        notice = m.FinishNotice(model, self.accounts)
        notices = {c: notice for c in clients if c in self.present}
        if not notices:
            return []
        answers, failed = self._run(self._session.try_ask("finish", notices, Message))
        accepted, misfits = list(answers), []
        for client, reason in failed.items():
            if NO_RECORD in reason:
                self._tell_once(client, f"does not take the model: {_plain(reason)}")
                accepted.append(client)
                continue
            self._note(client, reason)
            if MISFIT in reason:
                misfits.append(f"{self._name(client)} {reason.rstrip('.')}.")
        if misfits:
            raise MisfitError(" ".join(misfits), sorted(accepted))
        return sorted(accepted)

    def _ask(self, phase: str, requests: Mapping[int, Message]) -> None:
        self._run(self._session.ask(phase, requests, Message))

    def _run(self, conversation: Conversation[T]) -> T:
        return self._network.driver("study").run(conversation, self.traffic)

    def _name(self, client: int) -> str:
        return f"Organisation {self._plan.names[client]!r}"


def _plain(reason: str) -> str:
    """Return the reason of a refusal without the word that starts it."""
    return reason.removeprefix(f"{REFUSED}: ").rstrip(".")
