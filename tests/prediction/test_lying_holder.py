"""A holder that sends a wrong part: the sentence names it, if not it alone."""

from __future__ import annotations

import msgspec
import pytest

from hyfdca.prediction.messages import ScoreParts
from hyfdca.protocol.client_session import decode, frame, unframe
from hyfdca.protocol.server_session import BadReplyError
from tests.fuzz.corpus import make_corpus
from tests.fuzz.parties import prediction

LIAR = 2


@pytest.fixture(scope="module")
def conversation(tmp_path_factory):
    """Return predictions of a small study, of which two organisations ask."""
    root = tmp_path_factory.mktemp("lies") / "corpus"
    make_corpus(root)
    return prediction(root, root / "out" / "model.json")


class Liar:
    """Spoils one vector of the liar's parts on its way."""

    def __init__(self, vector):
        """Take the name of the vector."""
        self._vector = vector

    def exchange(self, place, payload, client):
        """Return the client's reply, changed if it is the liar's."""
        reply = client.handle(place.phase, payload)
        if (place.phase, place.client) != ("parts", LIAR):
            return reply
        token = bytes(reply[:8])
        number, body = unframe(reply, token)
        parts = decode(body, ScoreParts)
        sealed = getattr(parts, self._vector)
        spoilt = bytes(byte ^ 0x5A for byte in sealed.payload)
        sealed = msgspec.structs.replace(sealed, payload=memoryview(spoilt))
        parts = msgspec.structs.replace(parts, **{self._vector: sealed})
        return frame(token, number, parts)


@pytest.mark.parametrize("vector", ["margins", "cells"])
def test_a_sum_that_does_not_open_blames_all_who_sent_parts(vector, conversation):
    """The asker is not left alone with the blame: it only opens the sum."""
    with pytest.raises(BadReplyError, match="one of them is wrong") as caught:
        conversation.run(Liar(vector), str)
    assert LIAR in caught.value.clients
