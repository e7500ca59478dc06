"""A holder that tries all IDs there are: it finds those that it holds, and no others.

Written against ``docs/protocol.md`` alone. Messages are read and written as bytes;
hashes, points and statements are computed here.
"""

from __future__ import annotations

import hashlib
import hmac
import struct

import msgspec
import nacl.bindings as sodium
import pytest
import xxhash

from tests.model.models import make_model, random_cells
from tests.prediction.split_cases import STUDY_HASH, Split

SPACE = [f"r{number}" for number in range(200)]  # all IDs that there can be
ASKED, HELD = range(20, 60), range(40, 90)  # rows of the asker, and of the attacker
BOTH = {f"r{row}" for row in ASKED} & {f"r{row}" for row in HELD}
ONE = (1).to_bytes(32, "little")


class Attacker:
    """The organisation "city": it has the study's keys, and plays its own side."""

    def __init__(self, prediction_ids):
        self.split = Split(
            make_model(),
            random_cells(100),
            [(ASKED, [0, 1]), (HELD, [2, 3])],
            study={"prediction_ids": prediction_ids},
        )
        self.split.scores("north")  # they have keys now
        self.asker, self.own = self.split.members("north")
        self.number = 0
        self.say("introduce")
        self.request = self.say("request")
        _, _, self.nonce, _, pseudonyms, _, self.signature = self.request  # a tag first
        self.asked = {pseudonyms[i : i + 16] for i in range(0, len(pseudonyms), 16)}
        purpose = f"prediction {self.nonce.hex()} samples".encode()
        self.key = derived(self.own._member.secrecy.keys.master, purpose)

    def say(self, phase, *fields):
        """Send a message to the asker; return the fields of its reply."""
        self.number += 1
        header = struct.pack("<8sQ", STUDY_HASH[:8], self.number)
        body = msgspec.msgpack.encode(fields)
        payload = header + xxhash.xxh3_128(header + body).digest() + body
        return msgspec.msgpack.decode(
            self.asker.handle("prediction", phase, payload)[32:]
        )

    def signed(self, points):
        """Return the attacker's signature of its first batch of points."""
        roster = self.split.roster
        fields = (
            *(b"hyfdca blinded ids 1", STUDY_HASH, roster.hash, b"1", b"city"),
            *(self.nonce, b"0", hashlib.sha256(points).digest()),
        )
        statement = b"".join(struct.pack("<I", len(own)) + own for own in fields)
        return self.split.identities[1].sign(statement)

    def hashed(self, content, size, person):
        """Return a hash under the key that all clients have."""
        return hashlib.blake2b(
            content, digest_size=size, key=self.key, person=person
        ).digest()

    def point(self, row_id):
        """Return the point of an ID."""
        uniform = self.hashed(row_id.encode(), 64, b"hyfdca id point")
        return sodium.crypto_core_ed25519_add(
            sodium.crypto_core_ed25519_from_uniform(uniform[:32]),
            sodium.crypto_core_ed25519_from_uniform(uniform[32:]),
        )

    def is_asked(self, row_id, point):
        """Return whether the pseudonym of an ID, from a point, was asked for."""
        content = point + row_id.encode()
        return self.hashed(content, 16, b"hyfdca blind id") in self.asked

    def found_by_key(self):
        """Return all IDs whose hash under the clients' key was asked for."""
        person = b"hyfdca sample id"
        return {
            row_id
            for row_id in SPACE
            if self.hashed(row_id.encode(), 16, person) in self.asked
        }


def derived(master, purpose):
    """Return HKDF-SHA256 of a key, 32 bytes without a salt."""
    extracted = hmac.digest(bytes(32), master, "sha256")
    return hmac.digest(extracted, purpose + b"\x01", "sha256")


def test_blinded_ids_cannot_be_tried():
    """A holder recognises its own rows; trying all IDs, it finds no further one."""
    attacker = Attacker("blinded")
    times = sodium.crypto_scalarmult_ed25519_noclamp
    blinding = hashlib.sha256(b"any number").digest()[:31] + b"\x01"
    inverse = sodium.crypto_core_ed25519_scalar_invert(blinding)

    held = [f"r{row}" for row in HELD]
    points = b"".join(times(blinding, attacker.point(row_id)) for row_id in held)
    evaluated, _ = attacker.say("evaluate", points, True, attacker.signed(points), 1)
    received = [evaluated[i : i + 32] for i in range(0, len(evaluated), 32)]
    recognised = {
        row_id
        for row_id, point in zip(held, received, strict=True)
        if attacker.is_asked(row_id, times(inverse, point))
    }
    assert recognised == BOTH

    def attempts(row_id):
        """Return every point that a holder can make of an ID, or has received."""
        factors = (ONE, blinding, inverse)
        own = [times(factor, attacker.point(row_id)) for factor in factors]
        return [*own, *received, *unblinded]

    unblinded = [times(inverse, point) for point in received]
    found = {
        row_id
        for row_id in SPACE
        if any(attacker.is_asked(row_id, point) for point in attempts(row_id))
    }
    assert found == BOTH
    assert attacker.found_by_key() == set()


def test_keyed_ids_can_be_tried():
    """Where the study says so, IDs are only keyed: a holder finds all (docs)."""
    assert Attacker("keyed").found_by_key() == {f"r{row}" for row in ASKED}


def test_ids_that_a_holder_only_claims():
    """The limit of blinding: one evaluated point is one ID that a liar can try."""
    attacker = Attacker("blinded")
    claimed = attacker.point("r20")  # of the asker, and not of the attacker
    [evaluated, _] = attacker.say(
        "evaluate", claimed, True, attacker.signed(claimed), 1
    )
    assert attacker.is_asked("r20", evaluated)


@pytest.mark.parametrize("signer", ["north", "nobody"])
def test_a_server_that_tries_ids(signer):
    """The asker evaluates no points that a holder did not sign."""
    attacker = Attacker("blinded")
    points = attacker.point("r20")
    signature = attacker.signature if signer == "north" else bytes(64)
    with pytest.raises(Exception, match="'city' did not sign these blinded IDs"):
        attacker.say("evaluate", points, True, signature, 1)
