"""Agreeing on keys through a server that cheats."""

from dataclasses import replace

import pytest

from hyfdca.crypto.keys.envelope import seal_for
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import RosterEntry
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.stages.keys import messages as m
from hyfdca.stages.keys.client import KeyAgreementError, KeyHolder
from hyfdca.stages.keys.server import agree_on_keys, compare_keys
from tests.stages.key_holders import IDENTITIES, Server, new_keys, sealed

MALLORY = Identity.generate()


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
    expected = f"Rank {rank} is not on this client's roster of 3"
    assert expected in server.refused(1, rank, envelope)
    assert expected in server.refusal(0, "seal keys", m.SealKeys(rank))
    tags = m.CompareKeys({rank: b"t" * 32})
    assert expected in server.refusal(0, "compare keys", tags)


def test_nobody_exchanges_keys_with_itself():
    """A client's own rank is not another client's."""
    server = Server()
    envelope = server.make(0).envelopes[1]
    assert "with itself" in server.refused(1, 1, envelope)
    assert "with itself" in server.refusal(0, "seal keys", m.SealKeys(0))


def test_a_server_with_an_identity_of_its_own_is_refused():
    """Keys that the server made and signed are signed by nobody on the roster."""
    server = Server()
    envelope = sealed(new_keys(), server.roster, identity=MALLORY)
    assert "not signed by 'north'" in server.refused(1, 0, envelope)


def test_an_envelope_signed_again_by_another_client_is_refused():
    """A client of the roster also signs only for itself."""
    server = Server()
    envelope = sealed(new_keys(), server.roster, identity=IDENTITIES[2])
    assert "not signed by 'north'" in server.refused(1, 0, envelope)


def test_keys_sealed_to_the_server_s_roster_are_refused():
    """A roster with the server's key in a client's place is another roster."""
    server = Server()
    first, second, third = server.roster.entries
    swapped = (first, RosterEntry(second.name, MALLORY.public), third)
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
    """A client expects the epoch of its study file, even before it has any key."""
    old, server = Server(epoch=1), Server(epoch=2)
    envelope = old.make(0).envelopes[1]
    assert "epoch 1 instead of 2" in server.refused(1, 0, envelope)
    early = Server(epoch=3).make(0).envelopes[1]
    assert "epoch 3 instead of 2" in server.refused(1, 0, early)
    server.run(agree_on_keys, range(3))
    assert "replay" in server.refused(1, 0, envelope)


def test_garbled_and_truncated_envelopes_are_refused():
    """An accident on the way is reported as such."""
    server = Server()
    envelope = server.make(0).envelopes[1]
    assert "cut short" in server.refused(1, 0, envelope[:-1])
    assert "of 'north' is not one of" in server.refused(1, 0, b"")
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
    assert "'north' sealed something that is not study keys" in reason


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
