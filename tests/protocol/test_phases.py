"""The order of phases: clients refuse and servers never send what breaks it."""

from __future__ import annotations

import itertools
from typing import Annotated

import pytest

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.audit.fields import TABLES
from hyfdca.federation.messages import SET_UP
from hyfdca.protocol.client_session import ClientSession, frame, unframe
from hyfdca.protocol.codec import LocalProtocolError, RemoteProtocolError
from hyfdca.protocol.messages import GridSpec, Message, OnlyIn, TooLarge
from hyfdca.protocol.phases import START, Phase
from hyfdca.protocol.server_session import Replies, ServerSession
from hyfdca.stages.alignment import messages as alignment
from hyfdca.stages.keys import messages as keys
from hyfdca.stages.labels import messages as labels
from hyfdca.stages.scaling import messages as scaling
from hyfdca.study.messages import START_PHASES
from tests.protocol.examples import example
from tests.protocol.kinds import may_follow

TOKEN = b"study--1"

# In a study, the phases of an algorithm follow the notice that training starts.
TRAININGS = {name: kind.all_phases() for name, kind in ALGORITHMS.items()}
IN_STUDIES = {f"{n} in a study": {**START_PHASES, **t} for n, t in TRAININGS.items()}
EVERY = {
    **{f"{next(iter(table))} {place}": table for place, table in enumerate(TABLES)},
    **IN_STUDIES,
}
every_table = pytest.mark.parametrize("table", EVERY.values(), ids=EVERY)
every_training = pytest.mark.parametrize("table", TRAININGS.values(), ids=TRAININGS)


def paths_in(table):
    """Return a shortest path from the start to every reachable phase."""
    paths, waiting = {START: ()}, [START]
    while waiting:
        last = waiting.pop(0)
        for phase in table:
            if phase not in paths and may_follow(table, phase, last):
                paths[phase] = (*paths[last], phase)
                waiting.append(phase)
    return paths


# The tables


@every_table
def test_tables_name_their_own_phases(table):
    """The phases before a phase are in its table, or are the start of the stage."""
    named = {last for phase in table.values() for last in phase.after or ()}
    assert named <= {*table, START, "start"}


@every_table
def test_every_phase_can_be_reached(table):
    """Every phase is reachable from the start."""
    assert paths_in(table).keys() == {START, *table}


@every_table
def test_no_phase_is_its_own_start(table):
    """No phase has the name that stands for the start."""
    assert START not in table


@pytest.mark.parametrize(
    "table", [*TRAININGS.values(), *IN_STUDIES.values()], ids=[*TRAININGS, *IN_STUDIES]
)
def test_no_path_skips_set_up(table):
    """Without any single phase of set-up, no phase of a round is reachable."""
    assert SET_UP.items() <= table.items()
    for left_out in SET_UP:
        rest = {phase: entry for phase, entry in table.items() if phase != left_out}
        assert paths_in(rest).keys() <= {START, "start", *SET_UP}


def test_no_path_skips_the_beginning_of_a_stage():
    """Phases that depend on an earlier one are unreachable without it."""
    for table, first, rest in (
        (keys.PHASES, "compare keys", {"parameters"}),
        (alignment.PHASES, "rows", {"placement", "cells"}),
        (alignment.PHASES, "placement", {"cells"}),
        (labels.PHASES, "arrange", {"give labels", "weigh rows", "take weights"}),
        (labels.PHASES, "weigh rows", {"weight totals"}),
        (scaling.PHASES, "arrange", {"digits", "means", "spread", "deviations"}),
        (scaling.PHASES, "digits", {"means", "spread", "deviations", "scaling"}),
        (IN_STUDIES["hyfdca in a study"], "prepare", {"step", "shares", "release"}),
    ):
        without = {phase: entry for phase, entry in table.items() if phase != first}
        assert not rest & paths_in(without).keys()


@every_training
def test_a_phase_can_be_repeated_on_a_coarser_grid(table):
    """A phase whose reply may be ``TooLarge`` may follow itself."""
    alone = [p for p, e in table.items() if TooLarge in e.reply and p not in e.after]
    assert alone == []


# Sessions


class Client:
    """A client that accepts any message and notes its requests."""

    def __init__(self, table):
        self.calls, self.number = [], 0
        handlers = {phase: self._handler(phase) for phase in table}
        self.session, self._table = ClientSession(TOKEN, table, handlers), table

    def _handler(self, phase):
        return lambda request: self.calls.append((phase, request))

    def say(self, phase):
        """Send the next request."""
        self.number += 1
        return self.repeat(phase)

    def repeat(self, phase):
        """Send a request with the last number."""
        request = example(self._table[phase].request)
        return bytes(self.session.handle(phase, frame(TOKEN, self.number, request)))

    def walk(self, path):
        """Send the requests of these phases."""
        for phase in path:
            self.say(phase)
        return self


def wrong_turns(table):
    """Yield every reachable phase with every phase that may not follow it."""
    for (last, path), phase in itertools.product(paths_in(table).items(), table):
        if not may_follow(table, phase, last):
            yield last, path, phase


@every_table
def test_a_client_refuses_what_may_not_follow(table):
    """A refusal changes nothing: the last request can be retried, a legal one works."""
    assert any(wrong_turns(table)) == any(e.after is not None for e in table.values())
    for last, path, phase in wrong_turns(table):
        client = Client(table).walk(path)
        before, calls = dict(vars(client.session)), list(client.calls)
        came = f"after '{last}'" if last else "first"
        said = f"phase '{phase}' is out of order: .*{came}"
        with pytest.raises(RemoteProtocolError, match=said):
            client.say(phase)
        assert vars(client.session) == before
        assert client.calls == calls
        client.number -= 1
        if last:
            assert client.repeat(last) == before["_last_reply"]
        follows = [p for p in table if may_follow(table, p, last)]
        if follows:
            client.say(follows[0])
        assert len(client.calls) == len(calls) + bool(follows)


def answered(session, table, phase, clients=(0,)):
    """Run one phase of a server with clients that reply correctly."""
    entry = table[phase]
    requests = dict.fromkeys(clients, example(entry.request))
    say = session.ask if entry.reply else session.tell
    given = (Message,) if entry.reply else ()
    conversation = say(phase, requests, *given)
    ask = next(conversation)
    assert ask.wants_reply == bool(entry.reply)
    reply = example(entry.reply[0]) if entry.reply else Message()
    number = unframe(ask.payloads[clients[0]], TOKEN)[0]
    with pytest.raises(StopIteration):
        conversation.send(
            Replies({client: frame(TOKEN, number, reply) for client in clients})
        )


@every_table
def test_a_server_never_sends_what_may_not_follow(table):
    """The server raises before it sends anything, and can continue."""
    for last, path, phase in wrong_turns(table):
        session = ServerSession(TOKEN, table)
        for step in path:
            answered(session, table, step)
        before = session.state()
        request = example(table[phase].request)
        for wrong in ([0], [0, 1]):  # client 1 has had no request yet
            requests = dict.fromkeys(wrong, request)
            said = f"'{phase}' may not follow '{last}' at client 0"
            for conversation in (
                session.ask(phase, requests, Message),
                session.try_ask(phase, requests, Message),
                session.tell(phase, requests),
            ):
                with pytest.raises(LocalProtocolError, match=said):
                    next(conversation)
        assert session.state() == before
        follows = [p for p in table if may_follow(table, p, last)]
        if follows:
            answered(session, table, follows[0])
            assert session.state().last == {0: follows[0]}


def test_the_order_is_checked_per_client():
    """A client may skip a phase that is not for it."""
    table = {
        "first": Phase(Message, (Message,), (START,)),
        "aside": Phase(Message, (Message,), ("first",)),
        "last": Phase(Message, (Message,), ("first", "aside")),
    }
    session = ServerSession(TOKEN, table)
    answered(session, table, "first", (0, 1))
    answered(session, table, "aside", (1,))
    answered(session, table, "last", (0, 1))
    with pytest.raises(
        LocalProtocolError, match="'last' may not follow '' at client 2"
    ):
        next(session.ask("last", {2: Message()}, Message))


def test_a_phase_of_another_stage_is_not_sent():
    """A server sends only phases of its present stage, each stage from its start."""
    session = ServerSession(TOKEN, keys.PHASES)
    with pytest.raises(LocalProtocolError, match="there is no phase 'rows'"):
        next(session.ask("rows", {0: Message()}, Message))
    answered(session, keys.PHASES, "make keys")
    session.enter(alignment.PHASES)
    answered(session, alignment.PHASES, "rows")
    with pytest.raises(LocalProtocolError, match="there is no phase 'make keys'"):
        next(session.ask("make keys", {0: Message()}, Message))
    session.enter(alignment.PHASES)
    answered(session, alignment.PHASES, "rows")


def test_a_phase_that_failed_does_not_count():
    """A client that did not reply in a phase can be sent that phase again."""
    table = alignment.PHASES
    session = ServerSession(TOKEN, table)
    conversation = session.try_ask("rows", {0: Message(), 1: Message()}, Message)
    ask = next(conversation)
    number = unframe(ask.payloads[0], TOKEN)[0]
    reply = frame(TOKEN, number, example(alignment.Rows))
    with pytest.raises(StopIteration):
        conversation.send(Replies({0: reply}, {1: "timed out"}))
    assert session.state().last == {0: "rows"}
    answered(session, table, "rows", (1,))


def test_a_resumed_session_continues_the_order():
    """After a restart, only phases that may follow the last one are answered."""
    client = Client(alignment.PHASES)
    client.session.resume(7, "placement")
    client.number = 7
    for wrong in ("rows", "placement"):
        with pytest.raises(RemoteProtocolError, match="out of order"):
            client.say(wrong)
    client.say("cells")
    assert [phase for phase, _ in client.calls] == ["cells"]


class Number(Message, frozen=True):
    """A number on a grid, with fields of either profile."""

    value: int
    shown: Annotated[int | None, OnlyIn("open")] = None
    hidden: Annotated[int | None, OnlyIn("sealed")] = None
    grid: GridSpec = GridSpec(40, 50)


def client_of(own, **entry):
    """Return a client of a profile, and what it was asked."""
    table, asked = {"ask": Phase(Number, (Message,), **entry)}, []
    handlers = {"ask": asked.append}
    session = ClientSession(TOKEN, table, handlers, profile=own)
    return session, asked


def test_a_client_refuses_what_belongs_to_the_other_profile():
    """Phases and fields alike; without a profile both are answered."""
    shown, hidden = Number(1, shown=2), Number(1, hidden=2)
    for profile, own, other in (("open", shown, hidden), ("sealed", hidden, shown)):
        session, asked = client_of(profile)
        with pytest.raises(RemoteProtocolError, match=f"belong to the {profile}"):
            session.handle("ask", frame(TOKEN, 1, other))
        session.handle("ask", frame(TOKEN, 1, own))
        assert asked == [own]
        session, asked = client_of(profile, profile=profile)
        session.handle("ask", frame(TOKEN, 1, Number(1)))
        mine = "open" if profile == "sealed" else "sealed"
        session, _ = client_of(mine, profile=profile)
        with pytest.raises(RemoteProtocolError, match="it does not belong"):
            session.handle("ask", frame(TOKEN, 1, Number(1)))
    session, asked = client_of(None)
    session.handle("ask", frame(TOKEN, 1, shown))
    session.handle("ask", frame(TOKEN, 2, hidden))
    assert asked == [shown, hidden]


def test_a_single_phase_is_repeated_on_other_grids_alone():
    """A refusal changes nothing: the same content is still answered."""
    session, asked = client_of(None, is_single=True)
    session.handle("ask", frame(TOKEN, 1, Number(1)))
    with pytest.raises(RemoteProtocolError, match="only with other grids"):
        session.handle("ask", frame(TOKEN, 2, Number(2)))
    coarser = Number(1, grid=GridSpec(32, 50))
    session.handle("ask", frame(TOKEN, 2, coarser))
    assert asked == [Number(1), coarser]


def test_the_sealed_profile_may_have_an_order_of_its_own():
    """What the open profile allows before a phase may be out of order there."""
    entry = Phase(Message, after=("a", "b"), sealed_after=("b",))
    assert entry.allowed_after("open") == entry.allowed_after() == ("a", "b")
    assert entry.allowed_after("sealed") == ("b",)
