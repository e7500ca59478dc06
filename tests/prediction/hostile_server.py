"""A server of predictions that sends what it likes."""

from __future__ import annotations

import msgspec

from hyfdca.prediction import messages as p
from hyfdca.protocol.client_session import TOKEN_BYTES, decode, frame, unframe
from hyfdca.protocol.messages import Message
from tests.model.models import make_model, random_cells
from tests.prediction.split_cases import STUDY_HASH, Split

TOKEN = STUDY_HASH[:TOKEN_BYTES]
HOLDINGS = [([0, 1, 2, 3], [0, 1]), ([0, 1, 2, 5], [2]), ([1, 2, 3, 6], [3, 1])]


class Hostile:
    """A server that sends arbitrary messages to members that share keys."""

    def __init__(self, **given):
        self.split = Split(make_model(), random_cells(7), HOLDINGS, **given)
        self.split.scores("north")  # they have keys now
        [reply] = [r for phase, *_, r in self.split.said if phase == "request"]
        self.asked = decode(unframe(reply, TOKEN)[1], p.Asked)
        self.start()

    def start(self):
        """Restart all members; so far they have only been asked who they are."""
        self.members, self._number = self.split.members("north"), 0
        for rank in range(len(self.members)):
            self.say(rank, "introduce", Message())

    def take_over(self, members):
        """Continue with members that have just been served."""
        self.members, self._number = members, 10**6

    def say(self, rank, phase, message):
        """Send a message to a member; return the body of its reply."""
        self._number += 1
        payload = frame(TOKEN, self._number, message)
        return unframe(self.members[rank].handle("prediction", phase, payload), TOKEN)[
            1
        ]

    def request(self):
        """Let the asker sign a request."""
        return decode(self.say(0, "request", Message()), p.Asked)

    def consider(self, rank, asked, asker=0):
        """Deliver a request to a holder."""
        said = p.ConsiderRequest(**msgspec.structs.asdict(asked), asker=asker)
        return decode(self.say(rank, "consider", said), p.Consent | p.Declined)

    def let_find(self, rank):
        """Let a holder recognise the requested rows."""
        batch = decode(self.say(rank, "blind", Message()), p.BlindedIds)
        evaluated = self.evaluate(rank, batch)
        self.say(rank, "recognise", evaluated)

    def evaluate(self, rank, batch):
        """Let the asker evaluate a batch of a holder's points."""
        fields = msgspec.structs.asdict(batch)
        request = p.EvaluateRequest(**fields, holder=rank)
        return decode(self.say(0, "evaluate", request), p.EvaluatedIds)

    def n_logged(self, rank):
        """Return how many predictions a holder has logged."""
        return len(self.split.log(rank).entries)
