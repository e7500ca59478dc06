"""Agreeing on keys through a server that relays, and through one that cheats."""

from dataclasses import replace

import pytest

from hyfdca.crypto.envelope import seal_for
from hyfdca.crypto.identity import Identity
from hyfdca.crypto.roster import Entry, Roster
from hyfdca.crypto.schemes import public_parameters
from hyfdca.crypto.study_keys import StudyKeys
from hyfdca.protocol import key_messages as m
from hyfdca.protocol.client import ClientSession
from hyfdca.protocol.codec import RemoteProtocolError, decode, frame, unframe
from hyfdca.protocol.key_agreement import (
    HeldKeys,
    KeyAgreementError,
    KeyHolder,
    admit,
    agree_again,
    agree_on_keys,
    compare_keys,
)
from hyfdca.protocol.messages import Message
from hyfdca.protocol.server import PAUSE, Replies, ServerSession

TOKEN = b"study--1"
NAMES = ["north", "city", "coast", "hill"]
IDENTITIES = [Identity.generate() for _ in NAMES]
MALLORY = Identity.generate()


def new_keys():
    return StudyKeys.generate({"bfv": StudyKeys.generate().master * 1000})


def roster_of(n_clients=3, epoch=1, study=b"s"):
    entries = zip(NAMES[:n_clients], IDENTITIES, strict=False)
    return Roster(study * 32, tuple(Entry(n, i.public) for n, i in entries), epoch)


class Client:
    """A key holder behind a session, with what can be seen of its state."""

    def __init__(self, rank, roster, held=None):
        self.n_made = 0
        self.holder = KeyHolder(IDENTITIES[rank], roster, self._make, held)
        self.session = ClientSession(TOKEN, self.holder.phases)

    def _make(self):
        self.n_made += 1
        return new_keys()

    def state(self):
        """Return all that a refused request must leave alone."""
        holder = self.holder
        return holder.held, dict(holder._sealed), holder._agreeing, self.n_made


class Server:
    """Relays as the server half says, or says what it likes; keeps all bytes."""

    def __init__(self, n_clients=3, epoch=1, study=b"s"):
        self.roster = roster_of(n_clients, epoch, study)
        self.clients = [Client(rank, self.roster) for rank in range(n_clients)]
        self.seen = []
        self._session = ServerSession(TOKEN)

    def run(self, conversation_of, *arguments):
        """Drive a conversation of an honest server."""
        conversation = conversation_of(self._session, *arguments)
        return self.carry_on(conversation, next(conversation))

    def carry_on(self, conversation, ask):
        """Drive a conversation to its next pause, or to its end."""
        try:
            while ask is not PAUSE:
                replies = {
                    client: self._carry(client, ask.phase, payload)
                    for client, payload in ask.payloads.items()
                }
                ask = conversation.send(Replies(replies))
        except StopIteration as end:
            return end.value

    def say(self, client, phase, message, kind=Message):
        """Send one request out of turn and return the answer."""
        number = self._session._next_number()
        reply = self._carry(client, phase, frame(TOKEN, number, message))
        return decode(unframe(reply, TOKEN)[1], kind)

    def _carry(self, client, phase, payload):
        self.seen.append(bytes(payload))
        reply = bytes(self.clients[client].session.handle(phase, payload))
        self.seen.append(reply)
        return reply

    def make(self, client):
        """Have a client make keys."""
        return self.say(client, "make keys", Message(), m.MadeKeys)

    def give(self, client, sender, envelope):
        """Hand a client an envelope, and return its tag."""
        request = m.TakeKeys(sender, envelope)
        return self.say(client, "take keys", request, m.Confirmation).tag

    def tag(self, client):
        """Return the tag of a client's keys."""
        return self.say(client, "key tag", Message(), m.Confirmation).tag

    def refusal(self, client, phase, message):
        """Return why a request is refused, which must change nothing."""
        before = self.clients[client].state()
        with pytest.raises(KeyAgreementError) as caught:
            self.say(client, phase, message)
        assert self.clients[client].state() == before
        reason = str(caught.value)
        assert reason.endswith(".")
        return reason

    def refused(self, client, sender, envelope):
        """Return why an envelope is refused."""
        return self.refusal(client, "take keys", m.TakeKeys(sender, envelope))

    def all_keys(self):
        """Return the keys that each client lets be used."""
        return [client.holder.keys for client in self.clients]


def sealed(keys, roster, sender=0, recipient=1, identity=None):
    """Return an envelope that a client, or whoever claims to be it, seals."""
    return seal_for(
        keys.to_bytes(),
        roster.context(sender, recipient),
        identity or IDENTITIES[sender],
        roster.entries[recipient].public,
    )


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
    """The latecomer has the others' keys, whoever sealed them."""
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
    """Whoever is asked again answers with the same keys: a repeat changes nothing."""
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
    assert len(late.all_keys()) == 3


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
    with pytest.raises(RemoteProtocolError, match="client 0 sealed no keys for clie"):
        server.run(agree_on_keys, range(3))


# A server that cheats.


def test_swapped_envelopes_are_refused():
    """A client does not take what was sealed for another one."""
    server = Server()
    envelopes = server.make(0).envelopes
    assert "recipient 'coast' instead of 'city'" in server.refused(1, 0, envelopes[2])
    assert "recipient 'city' instead of 'coast'" in server.refused(2, 0, envelopes[1])
    server.give(1, 0, envelopes[1])


def test_an_envelope_passed_off_as_another_client_s_is_refused():
    """Who sealed it is not for the server to say."""
    server = Server()
    envelope = server.make(0).envelopes[1]
    assert "sender 'north' instead of 'coast'" in server.refused(1, 2, envelope)


@pytest.mark.parametrize("rank", [3, 4, 1_000_000])
def test_a_stranger_is_neither_believed_nor_given_keys(rank):
    """A rank that is not on the roster is nobody."""
    server = Server()
    envelope = server.make(0).envelopes[1]
    expected = f"Rank {rank} is nobody on this client's roster of 3"
    assert expected in server.refused(1, rank, envelope)
    assert expected in server.refusal(0, "seal keys", m.SealKeys(rank))
    tags = m.CompareKeys({rank: b"t" * 32})
    assert expected in server.refusal(0, "compare keys", tags)


def test_nobody_exchanges_keys_with_itself():
    """A client's own rank is no other."""
    server = Server()
    envelope = server.make(0).envelopes[1]
    assert "with itself" in server.refused(1, 1, envelope)
    assert "with itself" in server.refusal(0, "seal keys", m.SealKeys(0))


def test_a_server_with_an_identity_of_its_own_is_refused():
    """Keys that the server made and signed are signed by nobody on the roster."""
    server = Server()
    envelope = sealed(new_keys(), server.roster, identity=MALLORY)
    assert "not signed by 'north'" in server.refused(1, 0, envelope)


def test_an_envelope_signed_anew_by_another_client_is_refused():
    """Also a client of the roster signs for itself only."""
    server = Server()
    envelope = sealed(new_keys(), server.roster, identity=IDENTITIES[2])
    assert "not signed by 'north'" in server.refused(1, 0, envelope)


def test_keys_sealed_to_the_server_s_roster_are_refused():
    """A roster with the server's key in a client's place is another roster."""
    server = Server()
    first, second, third = server.roster.entries
    swapped = (first, Entry(second.name, MALLORY.public), third)
    roster = replace(server.roster, entries=swapped)
    envelope = seal_for(
        new_keys().to_bytes(),
        roster.context(0, 1),
        IDENTITIES[0],
        IDENTITIES[1].public,
    )
    assert "roster" in server.refused(1, 0, envelope)
    with pytest.raises(ValueError, match="No organisation of the study has the key"):
        KeyHolder(IDENTITIES[1], roster, new_keys)


def test_an_envelope_sealed_to_another_key_is_refused():
    """A sender that used a wrong key for the recipient is named."""
    server = Server()
    envelope = seal_for(
        new_keys().to_bytes(),
        server.roster.context(0, 1),
        IDENTITIES[0],
        IDENTITIES[2].public,
    )
    reason = server.refused(1, 0, envelope)
    assert "of 'north' does not open" in reason


def test_an_envelope_of_another_study_is_refused():
    """Keys of a study with the same clients do not pass for this one's."""
    server, other = Server(), Server(study=b"t")
    envelope = other.make(0).envelopes[1]
    assert "study 7474" in server.refused(1, 0, envelope)


def test_an_older_epoch_s_envelope_is_refused():
    """Also before any key was taken, a client expects the epoch of its study file."""
    old, server = Server(epoch=1), Server(epoch=2)
    envelope = old.make(0).envelopes[1]
    assert "epoch 1 instead of 2" in server.refused(1, 0, envelope)
    early = Server(epoch=3).make(0).envelopes[1]
    assert "epoch 3 instead of 2" in server.refused(1, 0, early)
    server.run(agree_on_keys, range(3))
    assert "replay" in server.refused(1, 0, envelope)


def test_garbled_and_truncated_envelopes_are_refused():
    """An accident on the way is told as such."""
    server = Server()
    envelope = server.make(0).envelopes[1]
    assert "cut short" in server.refused(1, 0, envelope[:-1])
    assert "no envelope" in server.refused(1, 0, b"")
    flipped = bytearray(envelope)
    flipped[len(envelope) // 2] ^= 1
    assert "changed on its way" in server.refused(1, 0, bytes(flipped))
    server.give(1, 0, envelope)


@pytest.mark.parametrize(
    "secret",
    [b"", b"no keys", new_keys().to_bytes()[:-1]],
    ids=["empty", "other", "cut short"],
)
def test_what_is_sealed_must_be_study_keys(secret):
    """A sender of another version is named, nothing is taken, nothing is quoted."""
    server = Server()
    context = server.roster.context(0, 1)
    envelope = seal_for(secret, context, IDENTITIES[0], IDENTITIES[1].public)
    reason = server.refused(1, 0, envelope)
    assert "'north' sealed something that is no study keys" in reason


def test_keys_are_never_replaced_within_an_epoch():
    """Other keys, or the same in another envelope, are refused once there are some."""
    server = Server()
    server.run(agree_on_keys, range(3))
    keys = server.all_keys()[0]
    for other in (new_keys(), keys):
        assert "replay" in server.refused(1, 0, sealed(other, server.roster))
        assert "replay" in server.refused(1, 2, sealed(other, server.roster, 2))
        assert "replay" in server.refused(0, 1, sealed(other, server.roster, 1, 0))
    assert "from another one" in server.refusal(1, "make keys", Message())
    assert server.all_keys() == [keys] * 3


def test_two_sets_of_keys_are_noticed_by_everybody():
    """A server that had two clients make keys cannot show either the other's tag."""
    server = Server(4)
    makers = {0: server.make(0), 1: server.make(1)}
    for sender, client in [(0, 2), (1, 3)]:
        server.give(client, sender, makers[sender].envelopes[client])
    tags = {
        c: server.say(c, "key tag", Message(), m.Confirmation).tag for c in range(4)
    }
    for client, other in [(0, "city"), (1, "north"), (2, "city"), (3, "north")]:
        reason = server.refusal(client, "compare keys", m.CompareKeys(tags))
        assert f"'{other}' has other study keys" in reason
    with pytest.raises(KeyAgreementError, match="other study keys"):
        server.run(compare_keys, range(4))
    # Leaving out those that differ does not help the server.
    for client, friend, other in [(0, 2, "city"), (3, 1, "north")]:
        few = m.CompareKeys({friend: tags[friend], client: tags[client]})
        server.say(client, "compare keys", few)
        with pytest.raises(KeyAgreementError, match=f"'{other}' has not confirmed"):
            _ = server.clients[client].holder.keys


def test_one_client_s_tag_does_not_pass_for_another_s():
    """A tag says whose it is: repeating it confirms nothing."""
    server = Server()
    server.run(agree_on_keys, range(2))
    tag = server.tag(1)
    for forged in (tag, bytes(32)):
        reason = server.refusal(0, "compare keys", m.CompareKeys({2: forged}))
        assert "'coast' has other study keys" in reason


def test_a_tag_of_another_epoch_or_study_confirms_nothing():
    """The same keys in another study or epoch have other tags."""
    keys = new_keys()
    tags = set()
    for epoch, study in [(1, b"s"), (2, b"s"), (1, b"t")]:
        server = Server(epoch=epoch, study=study)
        tags.add(server.give(1, 0, sealed(keys, server.roster)))
    assert len(tags) == 3


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ("take keys", m.SealKeys(0)),
        ("compare keys", m.CompareKeys({0: b"short"})),
        ("compare keys", m.CompareKeys({-1: bytes(32)})),
        ("seal keys", m.SealKeys(-1)),
        ("make keys", m.SealKeys(1)),
    ],
)
def test_malformed_requests_are_refused(phase, message):
    """Sizes and ranks are checked before anything is done."""
    server = Server()
    server.run(agree_on_keys, range(3))
    before = server.clients[1].state()
    with pytest.raises(RemoteProtocolError, match="does not decode"):
        server.say(1, phase, message)
    assert server.clients[1].state() == before


# A client that comes back.


def restarted(server, client, roster=None):
    """Start a client again with what it kept, as it is on disk."""
    held = HeldKeys.from_bytes(server.clients[client].holder.held.to_bytes())
    server.clients[client] = Client(client, roster or server.roster, held)


def test_a_client_that_comes_back_has_its_keys():
    """Kept keys are used again; the maker does not make others."""
    server = Server()
    server.run(agree_on_keys, range(3))
    keys = server.all_keys()
    envelope = server.clients[0].holder._sealed[1]
    for client in range(3):
        restarted(server, client)
    assert server.all_keys() == keys  # everybody had confirmed them
    server.give(1, 0, envelope)
    server.run(compare_keys, range(3))
    assert server.all_keys() == keys
    assert server.make(0).tag == server.tag(0)
    assert server.clients[0].n_made == 0


def test_keys_that_were_not_confirmed_are_not_used_after_a_restart_either():
    """Who went away before everybody had compared must compare first."""
    server = Server()
    made = server.make(0)
    server.give(1, 0, made.envelopes[1])
    for client in (0, 1):
        restarted(server, client)
        with pytest.raises(KeyAgreementError, match="not confirmed"):
            _ = server.clients[client].holder.keys


@pytest.mark.parametrize("holding", [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_whoever_has_the_keys_of_an_earlier_run_gives_them_to_the_others(holding):
    """All end with the same, those that were there if there were any."""
    server = Server()
    server.run(agree_on_keys, range(3))
    keys = server.all_keys()
    for client in range(3):
        if client in holding:
            restarted(server, client)
        else:
            server.clients[client] = Client(client, server.roster)
    public = server.run(agree_again, range(3), holding)
    assert public == public_parameters(server.all_keys()[0].scheme_keys)
    assert len({own.to_bytes() for own in server.all_keys()}) == 1
    assert (server.all_keys() == keys) == bool(holding)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x96\xc4\x00"])
def test_held_keys_are_read_or_refused(content):
    """What is no held keys says so, and nothing of what it is."""
    with pytest.raises(ValueError, match="no held keys"):
        HeldKeys.from_bytes(content)


def test_a_client_that_comes_back_still_refuses_replays():
    """What was taken is remembered with the keys."""
    server = Server()
    server.run(agree_on_keys, range(3))
    restarted(server, 1)
    assert "replay" in server.refused(1, 0, sealed(new_keys(), server.roster))


def test_a_later_epoch_has_new_keys():
    """With a study file of a later epoch old keys are gone and new ones are made."""
    server = Server()
    server.run(agree_on_keys, range(3))
    old = server.all_keys()
    server.roster = roster_of(epoch=2)
    for client in range(3):
        restarted(server, client)
        assert server.clients[client].holder.held is None
    server.run(agree_on_keys, range(3))
    assert server.all_keys()[0] not in old
    assert server.clients[1].holder.held.epoch == 2


def test_an_old_study_file_is_refused():
    """A client that has keys of a later epoch does not go back."""
    server = Server(epoch=2)
    server.run(agree_on_keys, range(3))
    with pytest.raises(ValueError, match="keys of epoch 2, the study file is of epo"):
        restarted(server, 1, roster_of(epoch=1))


@pytest.mark.parametrize("roster", [roster_of(study=b"t"), roster_of(4)])
def test_a_changed_study_needs_a_new_epoch(roster):
    """Keys stay with the study file and the roster they were made for."""
    server = Server()
    server.run(agree_on_keys, range(3))
    with pytest.raises(ValueError, match="raise its key_epoch"):
        restarted(server, 1, roster)


def test_a_maker_that_fails_has_made_nothing():
    """If making keys fails, the client can be asked again."""

    def fail():
        raise RuntimeError("no entropy")

    holder = KeyHolder(IDENTITIES[0], roster_of(), fail)
    with pytest.raises(RuntimeError):
        holder.phases["make keys"].handle(Message())
    assert holder.held is None
    assert holder._sealed == {}
