"""Copies of both halves in the middle of a conversation, so that each case has its own.

Copies share what nobody changes: tables, layouts, keys. They share sealers, too. Two
copies then use the same pads, which is of no account here, where nothing is secret.
"""

from __future__ import annotations

import copy
import copyreg
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster
from hyfdca.crypto.schemes.registry import Adders, Sealers
from hyfdca.crypto.schemes.stream import StreamSealer
from hyfdca.data.tables import Table
from hyfdca.federation.problem import Problem
from hyfdca.holdings.axis import Axis
from hyfdca.holdings.layout import Layout
from hyfdca.protocol.server_session import Ask, Conversation, Replies
from hyfdca.runtime.driver import Driver, Handler, Traffic
from hyfdca.study.plan import Plan

_SHARED = (
    *(Adders, Axis, Identity, Layout, Plan, Problem, Roster, Sealers, StreamSealer),
    Table,
)

AfterExchange = Callable[["ServerSnapshot", Ask, Replies], None]


def _itself(value: Any, memo: object) -> Any:
    return value


@contextmanager
def share_what_never_changes() -> Iterator[None]:
    """Have copies share such parts, in this context."""
    for kind in _SHARED:
        kind.__deepcopy__ = _itself  # type: ignore[attr-defined]
    copyreg.pickle(memoryview, lambda view: (memoryview, (bytes(view),)))
    try:
        yield
    finally:
        for kind in _SHARED:
            del kind.__deepcopy__  # type: ignore[attr-defined]
        del copyreg.dispatch_table[memoryview]


def copy_of(client: Handler) -> Handler:
    """Return a client as it is now, which nobody else has."""
    return copy.deepcopy(client)


class ServerSnapshot:
    """A server's conversation as it was at its start, and the replies since.

    A conversation cannot be copied, but its beginning can: it is resumed by repeating
    the replies.
    """

    def __init__(self, conversation: Conversation[Any]) -> None:
        frame, code = conversation.gi_frame, conversation.gi_code
        self.name = conversation.__qualname__
        self._heard: list[Replies] = []
        self._start: Callable[..., Conversation[Any]] | None = None
        try:
            self._given = copy.deepcopy(dict(frame.f_locals))
        except TypeError:  # a server that is suspended in another exchange
            return
        if not code.co_freevars:
            self._start = FunctionType(code, frame.f_globals)

    def hear(self, replies: Replies) -> None:
        """Note the replies to the last request."""
        self._heard.append(replies)

    def resumed(self) -> Conversation[Any] | None:
        """Return a conversation that waits for the next replies; None if it cannot."""
        if self._start is None:
            return None
        conversation = self._start(**copy.deepcopy(self._given))
        next(conversation)
        for replies in self._heard:
            conversation.send(replies)
        return conversation


@contextmanager
def watching_servers(call: AfterExchange) -> Iterator[None]:
    """Call after each exchange of any server, in this context."""
    original = Driver._run

    def run(self: Driver, conversation: Conversation[Any], traffic: Traffic) -> Any:
        watched = _watched(conversation, call)
        return original(self, watched, traffic)

    Driver._run = run  # type: ignore[method-assign]
    try:
        yield
    finally:
        Driver._run = original  # type: ignore[method-assign]


def _watched(conversation: Conversation[Any], call: AfterExchange) -> Conversation[Any]:
    """Return the same conversation, which calls after each exchange."""
    snapshot = ServerSnapshot(conversation)
    try:
        ask = next(conversation)
        while True:
            replies = yield ask
            call(snapshot, ask, replies)
            snapshot.hear(replies)
            ask = conversation.send(replies)
    except StopIteration as end:
        return end.value
