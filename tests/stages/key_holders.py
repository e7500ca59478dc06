"""A server and clients that agree on keys: it relays, or says what it likes."""

import pytest

from hyfdca.crypto.keys.envelope import seal_for
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster, RosterEntry
from hyfdca.crypto.keys.study_keys import StudyKeys
from hyfdca.protocol.client_session import ClientSession, decode, frame, unframe
from hyfdca.protocol.messages import Message
from hyfdca.protocol.server_session import PAUSE, Replies, ServerSession
from hyfdca.stages.keys import messages as m
from hyfdca.stages.keys.client import KeyAgreementError, KeyHolder

TOKEN = b"study--1"
NAMES = ["north", "city", "coast", "hill"]
IDENTITIES = [Identity.generate() for _ in NAMES]


def new_keys():
    return StudyKeys.generate({"bfv": StudyKeys.generate().master * 1000})


def roster_of(n_clients=3, epoch=1, study=b"s"):
    entries = zip(NAMES[:n_clients], IDENTITIES, strict=False)
    return Roster(
        study * 32, tuple(RosterEntry(n, i.public) for n, i in entries), epoch
    )


class Client:
    """A key holder behind a session, with what can be seen of its state."""

    def __init__(self, rank, roster, held=None):
        self.n_made = 0
        self.holder = KeyHolder(IDENTITIES[rank], roster, self._make, held)
        self.session = ClientSession(TOKEN, m.PHASES, self.holder.handlers)

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
        self._session = ServerSession(TOKEN, m.PHASES)

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
        """Send one request out of turn and return the answer.

        What is out of order a session refuses by itself (tests/protocol). Here the
        key holder is to refuse what comes in order, so the session takes it to be.
        """
        self._session.number += 1
        session, after = self.clients[client].session, m.PHASES[phase].after
        session.last_phase = after[0]
        request = frame(TOKEN, self._session.number, message)
        reply = self._carry(client, phase, request)
        return decode(unframe(reply, TOKEN)[1], kind)

    def _carry(self, client, phase, payload):
        self.seen.append(bytes(payload))
        reply = bytes(self.clients[client].session.handle(phase, payload))
        self.seen.append(reply)
        return reply

    def make(self, client):
        """Let a client make keys."""
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
    """Return an envelope sealed by a client, or by a party that claims to be it."""
    return seal_for(
        keys.to_bytes(),
        roster.context(sender, recipient),
        identity or IDENTITIES[sender],
        roster.entries[recipient].public,
    )
