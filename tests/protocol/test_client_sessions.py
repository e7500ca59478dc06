"""A client's numbered requests: retries, replays, hostile bytes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.protocol.client_session import ClientSession, frame, unframe
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from tests.protocol.sessions import (
    BODIES,
    TOKEN,
    Client,
    Numbers,
    decoded,
    forged,
    is_numbers,
)


def test_a_client_answers_with_the_number_of_the_request():
    """A reply carries study, number and the handler's answer."""
    reply = Client().ask(5, 1.0, 2.5)
    assert unframe(reply, TOKEN)[0] == 5
    assert decoded(reply, Numbers).values == [2.0, 5.0]


def test_a_notice_is_answered_with_an_empty_message():
    """A handler without answer makes an empty one."""
    reply = Client().ask(1, 1.0, phase="note")
    assert decoded(reply, Message) == Message()


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
    with pytest.raises(RemoteProtocolError, match="'double' failed: no half"):
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


def test_request_zero_of_no_phase_is_refused():
    """A fresh client has answered nothing yet."""
    with pytest.raises(RemoteProtocolError):
        ClientSession(TOKEN, {}, {}).handle("", frame(TOKEN, 0, Message()))
