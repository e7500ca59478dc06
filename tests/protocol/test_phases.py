"""The order of phases: what a table does not allow is neither answered nor sent."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.audit.fields import TABLES
from hyfdca.federation.grids import DivergenceError
from hyfdca.federation.messages import SET_UP
from hyfdca.federation.server import Federation
from hyfdca.protocol.codec import LocalProtocolError, RemoteProtocolError
from hyfdca.protocol.messages import Message, TooLarge
from hyfdca.protocol.phases import START, Phase
from hyfdca.protocol.sessions import (
    ClientSession,
    Replies,
    ServerSession,
    frame,
    unframe,
)
from hyfdca.stages import scaling
from hyfdca.stages.alignment import messages as alignment
from hyfdca.stages.keys import messages as keys
from hyfdca.study.messages import START_PHASES
from tests.protocol.attributes import differences
from tests.protocol.examples import example
from tests.protocol.kinds import KINDS, PLAIN_KINDS, make_run, runs_of
from tests.support.run_cases import AXES

TOKEN = b"study--1"

# Those of algorithms come after the first phase of training, in studies.
TRAININGS = {name: kind.phases for name, kind in ALGORITHMS.items()}
IN_STUDIES = {f"{n} in a study": {**START_PHASES, **t} for n, t in TRAININGS.items()}
EVERY = {
    **{f"{next(iter(table))} {place}": table for place, table in enumerate(TABLES)},
    **IN_STUDIES,
}
every_table = pytest.mark.parametrize("table", EVERY.values(), ids=EVERY)
every_training = pytest.mark.parametrize("table", TRAININGS.values(), ids=TRAININGS)


def may_follow(table, phase, last):
    """Return whether a table allows a phase directly after another."""
    after = table[phase].after
    return after is None or last in after


def paths_in(table):
    """Return a shortest way to every phase that can be reached from the start."""
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
    """What may come before is a phase of the table, or the start of the stage."""
    named = {last for phase in table.values() for last in phase.after or ()}
    assert named <= {*table, START, "start"}


@every_table
def test_every_phase_can_be_reached(table):
    """No phase waits for one that never comes."""
    assert paths_in(table).keys() == {START, *table}


@every_table
def test_no_phase_is_its_own_start(table):
    """The phase before the first one has a name that no phase has."""
    assert START not in table


@pytest.mark.parametrize(
    "table", [*TRAININGS.values(), *IN_STUDIES.values()], ids=[*TRAININGS, *IN_STUDIES]
)
def test_no_way_leads_around_set_up(table):
    """Without any one phase of set-up, no phase of a round can be reached."""
    assert SET_UP.items() <= table.items()
    for left_out in SET_UP:
        rest = {phase: entry for phase, entry in table.items() if phase != left_out}
        assert paths_in(rest).keys() <= {START, "start", *SET_UP}


def test_no_way_leads_around_what_a_stage_begins_with():
    """Keys are compared, rows shown, schemes arranged before what rests on it."""
    for table, first, rest in (
        (keys.PHASES, "compare keys", {"parameters"}),
        (alignment.PHASES, "rows", {"placement", "cells"}),
        (alignment.PHASES, "placement", {"cells"}),
        (scaling.PHASES, "arrange", {"digits", "means", "spread", "deviations"}),
        (scaling.PHASES, "digits", {"means", "spread", "deviations", "scaling"}),
        (IN_STUDIES["hyfdca in a study"], "prepare", {"step", "shares", "release"}),
    ):
        without = {phase: entry for phase, entry in table.items() if phase != first}
        assert not rest & paths_in(without).keys()


@every_training
def test_who_asks_for_a_coarser_grid_is_asked_again(table):
    """A phase whose reply may be "too large" may follow itself."""
    alone = [p for p, e in table.items() if TooLarge in e.reply and p not in e.after]
    assert alone == []


# Sessions that walk a table


class Client:
    """A client that takes any message, and counts what it was asked."""

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
        """Send a request under the last number."""
        request = example(self._table[phase].request)
        return bytes(self.session.handle(phase, frame(TOKEN, self.number, request)))

    def walk(self, path):
        """Be asked these phases, one after another."""
        for phase in path:
            self.say(phase)
        return self


def wrong_turns(table):
    """Return each phase that can be reached, and one that may not come after it."""
    for (last, path), phase in itertools.product(paths_in(table).items(), table):
        if not may_follow(table, phase, last):
            yield last, path, phase


@every_table
def test_a_client_refuses_what_may_not_follow(table):
    """Nothing has changed then: the last reply stands, and the right phase works."""
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
    """Have a server go through a phase with clients that answer well."""
    entry, requests = (
        table[phase],
        dict.fromkeys(clients, example(table[phase].request)),
    )
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
    """It notices before anything is sent to anybody, and can go on."""
    for last, path, phase in wrong_turns(table):
        session = ServerSession(TOKEN, table)
        for step in path:
            answered(session, table, step)
        before = session.state()
        request = example(table[phase].request)
        for wrong in ([0], [0, 1]):  # client 1 has been asked nothing yet
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


def test_clients_of_a_phase_may_come_from_different_ones():
    """The order is each client's own: what one was not asked it may skip."""
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
    """A server has the phases of its present stage; each begins at its start."""
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


def test_who_did_not_answer_was_not_there():
    """A client that failed in a phase may be asked it again, and no later one."""
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


def test_a_session_that_is_resumed_knows_its_place():
    """What may follow the phase it was resumed after is answered, and nothing else."""
    client = Client(alignment.PHASES)
    client.session.resume(7, "placement")
    client.number = 7
    for wrong in ("rows", "placement"):
        with pytest.raises(RemoteProtocolError, match="out of order"):
            client.say(wrong)
    client.say("cells")
    assert [phase for phase, _ in client.calls] == ["cells"]


# The halves of algorithms


class Tempted:
    """A client's session that is asked all wrong phases before each right one."""

    def __init__(self, run, twin, client):
        self._session = run.driver._clients[client]
        self._half, self._twin = run.clients[client], twin.clients[client]
        self._other = twin.driver._clients[client]
        self.refused = set()

    def handle(self, phase, payload):
        """Pass a request on, after those that may not come now."""
        session = self._session
        number, _ = unframe(payload, session._token)
        for wrong, entry in session.phases.items():
            if may_follow(session.phases, wrong, session.last_phase):
                continue
            request = frame(session._token, number, example(entry.request))
            known = wrong in session.handlers
            said = "is out of order" if known else f"there is no phase '{wrong}'"
            with pytest.raises(RemoteProtocolError, match=said):
                session.handle(wrong, request)
            self.refused.add((session.last_phase, wrong))
        # The twin was asked the right ones only.
        assert differences(self._half, self._twin) == []
        self._other.handle(phase, payload)
        return session.handle(phase, payload)


@pytest.mark.parametrize("profile", AXES["profile"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_half_takes_a_phase_out_of_order(kind, profile):
    """At any time of a run: the half is as if nobody had asked, and so is the model."""
    run, twin, other = (make_run(kind, profile, "complete") for _ in range(3))
    wires = {c: Tempted(run, twin, c) for c in range(len(run.clients))}
    run.driver._clients = wires
    assert run.finish().tobytes() == other.finish().tobytes()
    refused = set().union(*(wire.refused for wire in wires.values()))
    rounds = run.settings.algorithm.phases.keys() - SET_UP.keys()
    for before in (START, "arrange", "bounds", "norms"):
        assert {phase for last, phase in refused if last == before} >= rounds


def test_hyfdca_takes_no_step_before_it_is_prepared():
    """A server that goes straight from the schemes to a step gets nothing."""
    run, other = (make_run("drawn", "sealed", "complete") for _ in range(2))
    session, half = run.driver._clients[0], run.clients[0]
    notice = run.federation.vectors.notice(0)
    for own in (run, other):
        client = own.driver._clients[0]
        client.handle("arrange", frame(client._token, 1, notice))
    step = example(ALGORITHMS["hyfdca"].phases["step"].request)
    with pytest.raises(
        RemoteProtocolError, match=r"'step' is out of order: .*'arrange'"
    ):
        session.handle("step", frame(session._token, 2, step))
    assert differences(half, other.clients[0]) == []


# Runs that end early


def may_diverge(algorithm):
    """Return the phases in which a run may end because no grid is coarse enough."""
    table = algorithm.phases
    probes = {
        "probe margins",
        "probe shares",
    }  # of set-up, after which there is nothing
    return [p for p, e in table.items() if TooLarge in e.reply and p not in probes]


@pytest.mark.parametrize("kind", PLAIN_KINDS)
def test_a_run_that_diverges_in_any_phase_releases_its_model(kind, monkeypatch):
    """It ends in the middle of a round; the model last measured is there to be had."""
    gather, diverging, met = Federation.gather, [], set()

    def gather_and_diverge(federation, phase, *given):
        replies = yield from gather(federation, phase, *given)
        if replies and diverging == [phase]:
            diverging.append("it did")
            raise DivergenceError("outgrown")
        return replies

    monkeypatch.setattr(Federation, "gather", gather_and_diverge)
    for run in runs_of(kind):
        for phase in may_diverge(run.settings.algorithm):
            diverging.clear()
            again = run.again()
            for _ in again.rounds():
                diverging[:] = diverging or [phase]
            if diverging[1:]:
                met.add(phase)
                assert again.stop_reason == "diverged"
                assert np.all(np.isfinite(again.release())), phase
    assert met
