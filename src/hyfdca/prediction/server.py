"""The server's side of predictions for split rows: it relays, matches and adds.

It has no model and no key, and sends the sums to the asker alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from hyfdca.crypto.schemes.registry import Adders, new_group_secret
from hyfdca.prediction import messages as p
from hyfdca.prediction.blinded_rows import find_rows
from hyfdca.prediction.client import STAGE
from hyfdca.prediction.policy import declined_sentence
from hyfdca.prediction.sums import ScoringServer
from hyfdca.protocol.messages import Message
from hyfdca.protocol.server_session import Conversation, ServerSession
from hyfdca.runtime.driver import Driver, Traffic
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.messages import AlignmentSettings
from hyfdca.stages.alignment.server import AlignmentServer
from hyfdca.study import messages as s
from hyfdca.study.client.client import STUDY_TOKEN
from hyfdca.study.plan import PROTOCOL, Plan
from hyfdca.study.server import StudyServer

T = TypeVar("T")


@dataclass(frozen=True)
class Answered:
    """The outcome of an organisation's request.

    Parameters
    ----------
    refusal : str
        Why it got nothing, in one sentence; empty if it got its scores.
    """

    asker: str
    n_rows: int
    refusal: str = ""


class _RefusedError(Exception):
    """A party declines; the message is one plain sentence."""


def prediction_alignment(settings: AlignmentSettings) -> AlignmentSettings:
    """Return the settings for aligning rows to predict: without labels.

    Organisations that hold none of the requested rows take part too.
    """
    return AlignmentSettings(
        "regression",
        allow_unshared=True,
        disagreeing_cells=settings.disagreeing_cells,
        cell_tolerance=settings.cell_tolerance,
        blank_cells=settings.blank_cells,
        needs_values=settings.needs_values,
        hide_feature_names=settings.hide_feature_names,
        needs_labels=False,
    )


class PredictionServer:
    """Serves all askers in turn.

    Parameters
    ----------
    driver : callable
        Returns the driver that carries the requests of a stage.
    """

    def __init__(self, plan: Plan, driver: Callable[[str], Driver]) -> None:
        self._plan, self._driver = plan, driver
        self._session = ServerSession(plan.token)
        self._convener = StudyServer(plan, driver, self._session)
        self.traffic = Traffic()

    @property
    def _everyone(self) -> range:
        return range(len(self._plan.names))

    def _others(self, asker: int) -> list[int]:
        return [client for client in self._everyone if client != asker]

    def run(self, tell: Callable[[Answered], None] = lambda _: None) -> list[Answered]:
        """Let everybody compare keys, then serve all askers; return the outcomes.

        Parameters
        ----------
        tell : callable
            Receives each outcome at once: a later request may fail.

        Raises
        ------
        ClientsFailedError, BadReplyError
            If a client does not reply, or its reply is invalid.
        """
        adders = self._convener.agree(self._run("study", self._key_holders()))
        self._session.enter(p.PHASES)
        asked = self._run(STAGE, self._introductions())
        answers = []
        for asker, n_rows in asked.items():
            answers.append(self._run(STAGE, self._answer(asker, n_rows, adders)))
            tell(answers[-1])
        return answers

    def _run(self, stage: str, conversation: Conversation[T]) -> T:
        return self._driver(stage).run(conversation, self.traffic)

    def _key_holders(self) -> Conversation[list[int]]:
        """Return who has the study's keys; all must have the same study file."""
        hello = s.Hello(self._plan.study_hash, PROTOCOL)
        requests = dict.fromkeys(self._everyone, hello)
        session = ServerSession(STUDY_TOKEN, s.PHASES)
        present = yield from session.ask("hello", requests, s.Present)
        return [client for client, answer in present.items() if answer.has_keys]

    def _introductions(self) -> Conversation[dict[int, int]]:
        """Return who asks, and for how many rows."""
        everyone = dict.fromkeys(self._everyone, Message())
        replies = yield from self._session.ask("introduce", everyone, p.Introduction)
        return {
            client: reply.n_rows for client, reply in replies.items() if reply.n_rows
        }

    def _answer(
        self, asker: int, n_rows: int, adders: Adders
    ) -> Conversation[Answered]:
        """Serve one asker, or send it the reason for the refusal."""
        name = self._plan.names[asker]
        try:
            yield from self._predict(asker, adders)
        except (_RefusedError, AlignmentError) as error:
            notice = p.RefusedNotice(str(error)[: p.LONGEST_REASON])
            yield from self._session.tell("refused", {asker: notice})
            return Answered(name, n_rows, str(error))
        return Answered(name, n_rows)

    def _predict(self, asker: int, adders: Adders) -> Conversation[None]:
        session, plan = self._session, self._plan
        replies = yield from session.ask("request", {asker: Message()}, Message)
        request, name = replies[asker], plan.names[asker]
        if isinstance(request, p.Declined):
            raise _RefusedError(declined_sentence(name, name, request))
        assert isinstance(request, p.Asked)  # noqa: S101  # the table has no other
        yield from self._ask_consent(asker, request)
        if plan.prediction_ids == "blinded":
            yield from find_rows(session, asker, self._others(asker))
        settings = prediction_alignment(plan.alignment)
        server = AlignmentServer(plan.names, settings, session)
        layout = (yield from server.run()).layout
        # Fresh group numbers, so that predictions have none in common.
        fresh = Adders(adders.encryption, adders.public, new_group_secret())
        scoring = ScoringServer(layout, request.n_outputs, fresh, session)
        yield from scoring.run(asker)

    def _ask_consent(self, asker: int, request: p.Asked) -> Conversation[None]:
        said = p.ConsiderRequest(**msgspec.structs.asdict(request), asker=asker)
        others = dict.fromkeys(self._others(asker), said)
        replies = yield from self._session.ask("consider", others, Message)
        names = self._plan.names
        for client, reply in replies.items():
            if isinstance(reply, p.Declined):
                raise _RefusedError(
                    declined_sentence(names[client], names[asker], reply)
                )
