"""A server's numbered requests: replies by rank, hostile and lost ones, who failed."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.federation.messages import Released
from hyfdca.protocol.client_session import frame, unframe
from hyfdca.protocol.codec import LocalProtocolError, RemoteProtocolError
from hyfdca.protocol.messages import Sealed
from hyfdca.protocol.server_session import (
    Ask,
    BadReplyError,
    ClientsFailedError,
    Replies,
    ServerSession,
    reply_of,
)
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.inprocess import InProcess
from tests.protocol.sessions import (
    BODIES,
    PHASES,
    TOKEN,
    Client,
    Numbers,
    forged,
    is_numbers,
    make_session,
)


class Wire:
    """Carries the bytes of a conversation, and may meddle with the answers."""

    def __init__(self, n_clients=3, meddle=lambda client, reply: reply):
        self.clients = {c: Client() for c in range(n_clients)}
        self.asks = []
        self._meddle = meddle

    def run(self, conversation):
        """Drive a conversation to its end and return its result."""
        try:
            ask = next(conversation)
            while True:
                self.asks.append(ask)
                ask = conversation.send(self._replies(ask))
        except StopIteration as end:
            return end.value

    def _replies(self, ask):
        assert isinstance(ask, Ask)
        ok, failed = {}, {}
        for client, payload in ask.payloads.items():
            reply = self.clients[client].session.handle(ask.phase, bytes(payload))
            reply = self._meddle(client, bytes(reply))
            if isinstance(reply, str):
                failed[client] = reply
            elif reply is not None:
                ok[client] = reply
        # Answers come in any order.
        return Replies(dict(reversed(ok.items())), failed)


def _requests(*clients):
    return {client: Numbers([float(client + 1)]) for client in clients}


def test_answers_come_back_by_rank():
    """The server gets each client's own answer, in order of rank."""
    replies = Wire().run(make_session().ask("double", _requests(2, 0), Numbers))
    assert list(replies) == [0, 2]
    assert {c: r.values for c, r in replies.items()} == {0: [2.0], 2: [6.0]}


def test_requests_are_numbered_over_the_study():
    """Each exchange has the next number, the same for all its clients."""
    wire, session = Wire(), make_session()
    wire.run(session.ask("double", _requests(0, 1), Numbers))
    wire.run(session.tell("note", _requests(1, 2)))
    wire.run(session.ask("double", _requests(0, 2), Numbers))
    numbers = [
        {unframe(bytes(p), TOKEN)[0] for p in ask.payloads.values()}
        for ask in wire.asks
    ]
    assert numbers == [{1}, {2}, {3}]
    assert [ask.wants_reply for ask in wire.asks] == [True, False, True]
    assert wire.clients[2].calls == [[3.0], [3.0]]


def test_asking_nobody_sends_nothing():
    """Without requests there is no exchange and no number is used."""
    wire, session = Wire(), make_session()
    assert wire.run(session.ask("double", {}, Numbers)) == {}
    assert wire.run(session.tell("note", {})) is None
    assert wire.asks == []
    wire.run(session.ask("double", _requests(0), Numbers))
    assert unframe(bytes(wire.asks[0].payloads[0]), TOKEN)[0] == 1


def _reply(token=TOKEN, number=1, message=None):
    return bytes(frame(token, number, message or Numbers([1.0])))


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (_reply(token=b"study--2"), "another study"),
        (_reply(number=2), "it answers request 2, not 1"),
        (_reply(number=0), "it answers request 0, not 1"),
        (_reply()[:12], "shorter than its header"),
        (_reply()[:-1], "damaged on its way"),
        (_reply() + b"\0", "damaged on its way"),
        (_reply(message=Sealed(1, memoryview(b"12345678"))), "does not decode"),
        (b"", "shorter than its header"),
    ],
)
def test_a_bad_answer_is_refused_by_name(reply, message):
    """The error names the client, the phase and what is wrong with its answer."""
    wire = Wire(meddle=lambda client, good: reply if client == 1 else good)
    conversation = make_session().ask("double", _requests(0, 1, 2), Numbers)
    expected = rf"answer of client 1 to 'double': .*{message}"
    with pytest.raises(RemoteProtocolError, match=expected):
        wire.run(conversation)


@given(body=BODIES, is_forged=st.booleans())
def test_garbage_answers_are_refused(body, is_forged):
    """An answer that is not one raises RemoteProtocolError, and the next one works."""
    garbage = forged(body) if is_forged else _reply() + body + b"\0"
    wire = Wire(meddle=lambda client, good: garbage if client == 2 else good)
    session = make_session()
    if is_forged and is_numbers(body):
        replies = wire.run(session.ask("double", _requests(0, 2), Numbers))
        [values] = msgspec.msgpack.decode(body)
        assert repr(replies[2].values) == repr(list(map(float, values)))
        return
    with pytest.raises(RemoteProtocolError, match="answer of client 2"):
        wire.run(session.ask("double", _requests(0, 2), Numbers))
    later = wire.run(session.ask("double", _requests(0), Numbers))
    assert later[0].values == [2.0]


@pytest.mark.parametrize("n_damaged", [0, 1, 3, 4])
def test_a_damaged_answer_is_asked_for_again(n_damaged):
    """Three times, of that client alone, with the same bytes; it works once."""
    left = [n_damaged]

    def damage(client, good):
        if client != 1 or not left[0]:
            return good
        left[0] -= 1
        return good[:-1] + bytes([good[-1] ^ 1])

    wire, session = Wire(meddle=damage), make_session()
    conversation = session.ask("double", _requests(0, 1), Numbers)
    if n_damaged > 3:
        with pytest.raises(BadReplyError, match=r"client 1 .*damaged on its way"):
            wire.run(conversation)
        return
    replies = wire.run(conversation)
    assert [reply.values for reply in replies.values()] == [[2.0], [4.0]]
    assert wire.clients[1].calls == [[2.0]]
    first, *again = wire.asks
    expected = [{1: first.payloads[1]}] * n_damaged
    assert [ask.payloads for ask in again] == expected


def test_clients_that_may_fail_are_distinguished():
    """Where some may be missing, the others' answers count, with reasons for these."""
    reasons = {0: "timed out", 2: _reply(token=b"study--2")}
    wire = Wire(meddle=reasons.get)
    conversation = make_session().try_ask("double", _requests(0, 1, 2), Numbers)
    replies, failed = wire.run(conversation)
    assert {c: r.values for c, r in replies.items()} == {1: [4.0]}
    assert failed[0] == "timed out"
    assert "another study" in failed[2]
    assert failed.keys() == {0, 2}


def test_clients_that_failed_are_named_with_their_reasons():
    """Missing answers raise ClientsFailedError with every client and reason."""
    reasons = {0: "timed out", 2: "connection lost"}
    wire = Wire(meddle=reasons.get)
    conversation = make_session().ask("double", _requests(0, 1, 2), Numbers)
    with pytest.raises(ClientsFailedError) as caught:
        wire.run(conversation)
    text = str(caught.value)
    assert "'double'" in text
    assert "client 0: timed out" in text
    assert "client 2: connection lost" in text
    assert "client 1" not in text


@pytest.mark.parametrize(
    "error",
    [
        RemoteProtocolError("it is short"),
        ValueError("it is short"),
        OverflowError("it is short"),
        BadReplyError("double", 0, "it is short"),  # by a part that knows less
    ],
)
def test_what_goes_wrong_with_a_reply_names_its_sender(error):
    """Any error while a reply is read names its sender and the reason."""
    with (
        pytest.raises(BadReplyError, match=r"client 3.*: it is short") as raised,
        reply_of(3),
    ):
        raise error
    assert raised.value.reasons == {3: "it is short"}


def test_replies_that_contradict_each_other_name_all_senders():
    """Nobody can tell which of them is wrong."""
    expected = "answers of clients 0 and 2: they differ"
    with pytest.raises(BadReplyError, match=expected), reply_of(0, 2):
        raise RemoteProtocolError("they differ")


def test_a_driver_says_in_which_phase_a_reply_was_invalid():
    """Code that reads a reply need not know the phase."""

    def conversation():
        replies = yield from make_session().ask("double", _requests(1), Numbers)
        with reply_of(*replies):
            raise ValueError("it is short")

    driver = InProcess({1: Client().session})
    with pytest.raises(BadReplyError, match="client 1 to 'double': it is short"):
        driver.run(conversation(), Traffic())


def test_answers_a_driver_lost_or_invented_are_our_own_fault():
    """A driver must return an answer or a reason for each client asked."""
    lost = Wire(meddle=lambda client, good: good if client else None)
    with pytest.raises(LocalProtocolError, match="lost answers of phase 'double'"):
        lost.run(make_session().ask("double", _requests(0, 1), Numbers))
    conversation = make_session().ask("double", _requests(0), Numbers)
    next(conversation)
    with pytest.raises(LocalProtocolError):
        conversation.send(Replies({0: _reply(), 1: _reply()}))


def test_two_studies_on_one_wire_do_not_mix():
    """A server of another study is refused by the clients."""
    wire = Wire()
    with pytest.raises(RemoteProtocolError, match="another study"):
        wire.run(
            ServerSession(b"study--2", PHASES).ask("double", _requests(0), Numbers)
        )
    assert wire.clients[0].calls == []
    released = make_session().ask("double", _requests(0), Released)
    with pytest.raises(BadReplyError, match=r"client 0 .*it is a Numbers"):
        wire.run(released)
