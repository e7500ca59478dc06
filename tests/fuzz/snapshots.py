"""Copies of both halves in the middle of a conversation, so that each case has its own.

Copies share what nobody changes: tables, layouts, keys. They share sealers, too. Two
copies then use the same pads, which is of no account here, where nothing is secret.

What is copied is pickled once and loaded for each case, which takes a tenth of the time
of ``copy.deepcopy``.
"""

from __future__ import annotations

import copy
import copyreg
import io
import pickle  # noqa: TID251  # copies within this process
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CellType, FunctionType, ModuleType
from typing import Any

from msgspec.msgpack import Decoder

from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster
from hyfdca.crypto.schemes.registry import Adders, Sealers
from hyfdca.crypto.schemes.stream import StreamSealer
from hyfdca.data.tables import Table
from hyfdca.federation.problem import Problem
from hyfdca.holdings.axis import Axis
from hyfdca.holdings.layout import Layout
from hyfdca.protocol.server_session import Ask, Conversation, Replies
from hyfdca.runtime.driver import Driver, Traffic
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
    """Let copies share such parts, in this context."""
    for kind in _SHARED:
        kind.__deepcopy__ = _itself  # type: ignore[attr-defined]
    copyreg.pickle(memoryview, lambda view: (memoryview, (bytes(view),)))
    try:
        yield
    finally:
        for kind in _SHARED:
            del kind.__deepcopy__  # type: ignore[attr-defined]
        del copyreg.dispatch_table[memoryview]


class _Reference:
    """A function that is handed on as it is, to be made again with other cells."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function


_BY_REFERENCE = (FunctionType, ModuleType, type, _Reference, Decoder, *_SHARED)


def _empty_closure(of: _Reference) -> FunctionType:
    """Return a function like another one, which has nothing in its cells yet."""
    own = of.function
    cells = tuple(CellType() for _ in own.__closure__ or ())
    return FunctionType(
        own.__code__, own.__globals__, own.__name__, own.__defaults__, cells
    )


def _fill(function: FunctionType, contents: tuple[Any, ...]) -> None:
    for cell, content in zip(function.__closure__ or (), contents, strict=True):
        cell.cell_contents = content


class _Pickler(pickle.Pickler):
    """Pickles everything but what copies share, which it collects."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.shared: list[object] = []
        self._places: dict[int, int] = {}
        self._is_shared: dict[type, bool] = {}
        self._references: dict[FunctionType, _Reference] = {}

    def persistent_id(self, value: object) -> int | None:
        """Return the place of a shared object; None for all others."""
        kind = type(value)
        if kind not in self._is_shared:
            self._is_shared[kind] = issubclass(kind, _BY_REFERENCE)
        if not self._is_shared[kind] or getattr(value, "__closure__", None):
            return None
        place = self._places.setdefault(id(value), len(self.shared))
        if place == len(self.shared):
            self.shared.append(value)
        return place

    def reducer_override(self, value: Any) -> Any:
        """Copy a closure with what is in its cells, such as the client itself."""
        if not isinstance(value, FunctionType) or not value.__closure__:
            return NotImplemented
        contents = tuple(cell.cell_contents for cell in value.__closure__)
        reference = self._references.setdefault(value, _Reference(value))
        return _empty_closure, (reference,), contents, None, None, _fill


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, shared: list[object]) -> None:
        super().__init__(io.BytesIO(content))
        self._shared = shared

    def persistent_load(self, place: int) -> object:
        return self._shared[place]


class Frozen:
    """Something as it is now, to be copied again and again.

    Raises
    ------
    TypeError
        If it cannot be copied, such as a server that is suspended in an exchange.
    """

    def __init__(self, value: Any) -> None:
        file = io.BytesIO()
        pickler = _Pickler(file)
        self._copied: Any = None
        try:
            pickler.dump(value)
        except (pickle.PicklingError, AttributeError):  # a local class, for example
            self._copied = copy.deepcopy(value)
        self._content, self._shared = file.getvalue(), pickler.shared

    def copy(self) -> Any:
        """Return a copy which nobody else has."""
        if self._copied is not None:
            return copy.deepcopy(self._copied)
        return _Unpickler(self._content, self._shared).load()


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
            self._given = Frozen(dict(frame.f_locals))
        except TypeError:  # a server that is suspended in another exchange
            return
        if not code.co_freevars:
            self._start = FunctionType(code, frame.f_globals)

    @property
    def n_heard(self) -> int:
        """How many exchanges must be repeated first."""
        return len(self._heard)

    def hear(self, replies: Replies) -> None:
        """Note the replies to the last request."""
        self._heard.append(replies)

    def resumed(self) -> Conversation[Any] | None:
        """Return a conversation that waits for the next replies; None if it cannot."""
        if self._start is None:
            return None
        conversation = self._start(**self._given.copy())
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
