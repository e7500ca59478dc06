"""Numbered requests and replies: retries, replays, hostile bytes, lost answers."""

import struct

import msgspec
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.federation.messages import Released
from hyfdca.protocol.client_session import ClientSession, decode, frame, unframe
from hyfdca.protocol.codec import LocalProtocolError, RemoteProtocolError
from hyfdca.protocol.messages import Message, Sealed
from hyfdca.protocol.phases import Phase
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

TOKEN = b"study--1"


class Numbers(Message, frozen=True):
    """A message of the tests' own."""

    values: list[float]


# In any order: what is refused in these tests is refused for another reason.
PHASES = {"double": Phase(Numbers, (Numbers,)), "note": Phase(Numbers)}


def make_session(**given):
    """Return the server's side."""
    return ServerSession(TOKEN, PHASES, **given)


def forged(body, number=1, token=TOKEN):
    """Return bytes whose digest is right, whatever is in them."""
    header = struct.pack("<8sQ", token, number)
    return header + xxhash.xxh3_128_digest(header + body) + body


def is_numbers(body):
    """Return whether bytes are one list of numbers in a list, by another decoder."""
    try:
        content = msgspec.msgpack.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    is_list = isinstance(content, list) and len(content) == 1
    return is_list and _are_numbers(content[0])


def _are_numbers(values):
    return isinstance(values, list) and all(type(v) in (int, float) for v in values)


def _decoded(payload, kind):
    return decode(unframe(payload, TOKEN)[1], kind)


class Client:
    """A client session that doubles numbers, takes notes and counts its calls."""

    def __init__(self, token=TOKEN, after=0):
        self.calls = []
        handlers = {"double": self._double, "note": self._note}
        self.session = ClientSession(token, PHASES, handlers, after)

    def _double(self, request):
        self.calls.append(request.values)
        if not request.values:
            raise RuntimeError("nothing to double")
        if request.values == [0.0]:
            raise ZeroDivisionError("no half of nothing")
        return Numbers([2 * value for value in request.values])

    def _note(self, request):
        self.calls.append(request.values)

    def ask(self, number, *values, phase="double", token=TOKEN):
        """Send one request as bytes and return the bytes of the answer."""
        request = bytes(frame(token, number, Numbers(list(values))))
        return bytes(self.session.handle(phase, request))

    def works(self, number):
        """Answer whether a fresh request is answered as if nothing had happened."""
        reply = self.ask(number, 21.0)
        return _decoded(reply, Numbers).values == [42.0] and self.calls[-1] == [21.0]


def test_a_client_answers_with_the_number_of_the_request():
    """A reply carries study, number and the handler's answer."""
    reply = Client().ask(5, 1.0, 2.5)
    assert unframe(reply, TOKEN)[0] == 5
    assert _decoded(reply, Numbers).values == [2.0, 5.0]


def test_a_notice_is_answered_with_an_empty_message():
    """A handler without answer makes an empty one."""
    reply = Client().ask(1, 1.0, phase="note")
    assert _decoded(reply, Message) == Message()


def test_a_retried_request_is_answered_with_the_same_bytes():
    """The same number again does not call the handler again."""
    client = Client()
    first = client.ask(3, 1.0)
    for _ in range(3):
        assert client.ask(3, 1.0) == first
    assert client.calls == [[1.0]]
    assert client.works(4)


def test_a_replayed_request_is_refused():
    """An older number raises, calls nothing, and the retry of the last one works."""
    client = Client()
    client.ask(3, 1.0)
    last = client.ask(7, 2.0)
    for number in (0, 3, 5, 6):
        with pytest.raises(RemoteProtocolError, match=f"request {number} was answered"):
            client.ask(number, 9.0)
    with pytest.raises(RemoteProtocolError, match="request 7 was answered"):
        client.ask(7, 9.0, phase="note")
    assert client.calls == [[1.0], [2.0]]
    assert client.ask(7, 2.0) == last
    assert client.works(8)


@pytest.mark.parametrize(
    "phase",
    ["", "__class__", "phases", "_phases", "handle", "get", "Double", "double ", "ask"],
)
def test_an_unknown_phase_is_refused(phase):
    """A phase is looked up in the table and nowhere else."""
    client = Client()
    with pytest.raises(RemoteProtocolError, match="there is no phase"):
        client.ask(1, 1.0, phase=phase)
    assert client.calls == []
    assert client.works(1)


@pytest.mark.parametrize("token", [b"study--2", b"\0" * 8, b"STUDY--1"])
def test_a_request_of_another_study_is_refused(token):
    """The token of the study must be the client's own."""
    client = Client()
    with pytest.raises(RemoteProtocolError, match="another study"):
        client.ask(1, 1.0, token=token)
    assert client.calls == []
    assert client.works(1)


BODIES = st.binary(max_size=30) | st.builds(
    # Almost a request: a list of anything in a list, or a part of it
    lambda values, cut: msgspec.msgpack.encode([values])[:cut],
    st.lists(st.floats() | st.integers(-9, 9) | st.none(), max_size=3),
    st.integers(1, 40),
)


@given(body=BODIES, is_forged=st.booleans())
def test_garbage_changes_nothing_at_a_client(body, is_forged):
    """Bytes that are not a request raise RemoteProtocolError and leave no trace."""
    client = Client()
    before = client.ask(1, 1.0)
    payload = forged(body, 2) if is_forged else bytes(frame(TOKEN, 2, Message())) + body
    if is_forged and is_numbers(body):
        client.session.handle("note", payload)
        [values] = msgspec.msgpack.decode(body)
        assert repr(client.calls[1:]) == repr([list(map(float, values))])
        return
    with pytest.raises(RemoteProtocolError):
        client.session.handle("note", payload)
    assert client.calls == [[1.0]]
    assert client.ask(1, 1.0) == before
    assert client.works(2)


def test_a_request_whose_handler_failed_can_be_sent_again():
    """A handler that raises has not used up the number."""
    client = Client()
    before = client.ask(1, 1.0)
    with pytest.raises(RuntimeError):
        client.ask(2)
    with pytest.raises(RemoteProtocolError, match="'double' cannot go on: no half"):
        client.ask(2, 0.0)
    assert client.ask(1, 1.0) == before
    assert client.works(2)


def test_what_belongs_to_an_earlier_session_is_refused():
    """A session that begins after a number answers only what comes later."""
    client = Client(after=5)
    for number in (0, 4, 5):
        with pytest.raises(RemoteProtocolError, match="answered long ago"):
            client.ask(number, 1.0)
    assert client.works(6)


def test_a_session_that_is_resumed_answers_nothing_again():
    """The reply to the last request is gone; it and earlier ones are refused."""
    client = Client()
    client.ask(1, 1.0)
    client.session.resume(7, "double")
    for number in (1, 6, 7):
        with pytest.raises(RemoteProtocolError, match=f"request {number} was answered"):
            client.ask(number, 1.0)
    assert client.calls == [[1.0]]
    assert client.works(8)


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


def test_who_may_fail_is_told_apart():
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
    """Whatever is raised while a reply is read says whose it is, and why."""
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


def test_request_zero_of_no_phase_is_refused():
    """A fresh client has answered nothing yet."""
    with pytest.raises(RemoteProtocolError):
        ClientSession(TOKEN, {}, {}).handle("", frame(TOKEN, 0, Message()))
