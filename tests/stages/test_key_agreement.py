"""Agreeing on keys through a server that relays."""

import pytest

from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.protocol.server_session import PAUSE, Replies
from hyfdca.stages.keys import messages as m
from hyfdca.stages.keys.client import KeyAgreementError, KeyHolder
from hyfdca.stages.keys.server import admit, agree_on_keys, compare_keys
from tests.stages.key_holders import IDENTITIES, Server, roster_of


@pytest.mark.parametrize("n_clients", [1, 2, 4])
def test_everybody_gets_the_keys_that_the_first_client_made(n_clients):
    """After the conversation all clients may use the same keys, made once."""
    server = Server(n_clients)
    server.run(agree_on_keys, reversed(range(n_clients)))
    first, *others = server.all_keys()
    assert all(keys == first for keys in others)
    assert [client.n_made for client in server.clients] == [1] + [0] * (n_clients - 1)


def test_the_server_sees_no_secret():
    """No key, nor any piece of one, is in the bytes that the server had."""
    server = Server(4)
    server.run(agree_on_keys, range(3))
    server.run(admit, 3, 1)
    server.run(compare_keys, range(4))
    keys = server.all_keys()[3]
    view = b"".join(server.seen)
    assert server.clients[1].holder._sealed[3] in view
    secrets = [keys.master, keys.to_bytes(), keys.derive("hyfdca key confirmation")]
    secrets += [keys.scheme_keys["bfv"][i : i + 16] for i in range(0, 32, 16)]
    for identity in IDENTITIES:
        line = identity.to_bytes()
        secrets += [line[20:40], identity._signing.private_bytes_raw()]
        secrets += [identity.sealing_key.private_bytes_raw()]
    assert not any(secret in view for secret in secrets)


def test_keys_cannot_be_used_before_everybody_confirmed_them():
    """A client without keys, or whose peers are silent, says what it waits for."""
    server = Server()
    holder = server.clients[0].holder
    with pytest.raises(KeyAgreementError, match="no study keys of epoch 1 yet"):
        _ = holder.keys
    server.run(agree_on_keys, range(2))
    with pytest.raises(KeyAgreementError, match="'coast' has not confirmed"):
        _ = holder.keys
    server.run(admit, 2, 1)
    with pytest.raises(KeyAgreementError, match="'coast' has not confirmed"):
        _ = holder.keys
    with pytest.raises(KeyAgreementError, match="'north' has not confirmed"):
        _ = server.clients[2].holder.keys
    server.run(compare_keys, range(3))
    assert holder.keys == server.clients[2].holder.keys


@pytest.mark.parametrize("by", [0, 1])
def test_any_key_holder_lets_a_latecomer_in(by):
    """The latecomer has the others' keys, regardless of who sealed them."""
    server = Server()
    server.run(agree_on_keys, range(2))
    server.run(admit, 2, by)
    server.run(compare_keys, range(3))
    first, *others = server.all_keys()
    assert others == [first, first]


def test_absent_clients_are_waited_for():
    """The conversation pauses until the maker, then until the others are there."""
    server = Server()
    session = server._session
    conversation = agree_on_keys(session, range(3))
    session.present = {1, 2}
    assert next(conversation) is PAUSE
    session.present = {0, 1}
    server.carry_on(conversation, conversation.send(Replies({})))
    assert server.clients[1].holder.held is not None
    assert server.clients[2].holder.held is None
    session.present = None
    server.carry_on(conversation, conversation.send(Replies({})))
    first, *others = server.all_keys()
    assert others == [first, first]


def test_a_conversation_can_be_held_again():
    """A client that is asked again gives the same keys: a repeat changes nothing."""
    server = Server()
    server.run(agree_on_keys, range(3))
    before = [client.state() for client in server.clients]
    server.run(agree_on_keys, range(3))
    assert [client.state() for client in server.clients] == before
    late = Server()
    late.run(agree_on_keys, range(2))
    for _ in range(2):
        late.run(admit, 2, 1)
    late.run(compare_keys, range(3))
    first, *others = late.all_keys()
    assert others == [first, first]


def test_a_client_without_keys_cannot_seal_compare_or_confirm():
    """What it has not got it says so, and gets nothing by being asked."""
    server = Server()
    requests = {
        "seal keys": m.SealKeys(2),
        "key tag": Message(),
        "compare keys": m.CompareKeys({0: b"t" * 32}),
    }
    for phase, message in requests.items():
        assert "no study keys of epoch 1" in server.refusal(1, phase, message)


def test_a_maker_whose_roster_lacks_a_client_is_named():
    """The server notices that a client it knows gets no envelope."""
    server = Server(2)
    with pytest.raises(
        RemoteProtocolError, match="client 0 to 'make keys': it sealed no keys for clie"
    ):
        server.run(agree_on_keys, range(3))


def test_a_maker_that_fails_has_made_nothing():
    """If making keys fails, the client can be asked again."""

    def fail():
        raise RuntimeError("no entropy")

    holder = KeyHolder(IDENTITIES[0], roster_of(), fail)
    with pytest.raises(RuntimeError):
        holder.handlers["make keys"](Message())
    assert holder.held is None
    assert holder._sealed == {}
