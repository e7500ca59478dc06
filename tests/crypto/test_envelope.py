"""Envelopes: the recipient alone opens them, the sender alone makes them."""

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.crypto.keys.encoding import pack_fields, unpack_fields
from hyfdca.crypto.keys.envelope import (
    OVERHEAD,
    Context,
    EnvelopeError,
    open_from,
    seal_for,
)
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster, RosterEntry

NORTH, CITY, STRANGER = (Identity.generate() for _ in range(3))
HERE = Context(b"s" * 32, b"r" * 32, "north", "city", 3)
SECRET = b"the secret of the study, some bytes of it" * 3
ENVELOPE = seal_for(SECRET, HERE, NORTH, CITY.public)


def refusal(envelope, context=HERE, recipient=CITY, sender=NORTH):
    """Return why an envelope is refused; one sentence, without the secret."""
    with pytest.raises(EnvelopeError) as caught:
        open_from(envelope, context, recipient, sender.public)
    reason = str(caught.value)
    assert re.fullmatch(r"[A-Z][^.]*\.", reason)
    assert "secret" not in reason
    assert caught.value.__cause__ is None
    return reason


@pytest.mark.parametrize("secret", [b"", b"x", SECRET, bytes(100_000)])
def test_the_recipient_opens_what_was_sealed(secret):
    """The secret comes out as it went in, from bytes that do not have it."""
    envelope = seal_for(secret, HERE, NORTH, CITY.public)
    assert open_from(envelope, HERE, CITY, NORTH.public) == secret
    assert len(secret) < len(envelope) <= len(secret) + OVERHEAD
    assert len(secret) < 10 or secret not in envelope


def test_overhead_holds_for_the_longest_names():
    """The bound of an envelope's size is kept by every context there can be."""
    longest = dataclasses.replace(HERE, sender="s" * 1000, recipient="r" * 1000)
    assert len(seal_for(b"", longest, NORTH, CITY.public)) <= OVERHEAD
    with pytest.raises(ValueError, match="at most 1000 bytes"):
        dataclasses.replace(HERE, sender="é" * 501)


def test_equal_secrets_give_different_envelopes():
    """Who sees two envelopes cannot tell whether they hold the same."""
    again = seal_for(SECRET, HERE, NORTH, CITY.public)
    sealed = [unpack_fields(e[18:], 3)[1] for e in (ENVELOPE, again)]
    assert sealed[0] != sealed[1]


@given(place=st.integers(0, len(ENVELOPE) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_anywhere_is_noticed(place, bit):
    """No bit of an envelope can be changed."""
    changed = bytearray(ENVELOPE)
    changed[place] ^= 1 << bit
    assert SECRET.hex() not in refusal(bytes(changed))


@given(length=st.integers(0, len(ENVELOPE) - 1))
def test_an_envelope_that_is_cut_short_says_so(length):
    """Missing bytes are distinguished from a forgery."""
    is_begun = length >= len(b"hyfdca envelope 1\n")
    expected = "cut short" if is_begun else "not one of this version"
    assert expected in refusal(ENVELOPE[:length])


def test_bytes_after_an_envelope_are_noticed():
    """An envelope ends where it ends."""
    assert "garbled" in refusal(ENVELOPE + b"\0")


@given(garbage=st.binary(max_size=300))
def test_garbage_is_no_envelope(garbage):
    """Any bytes raise only EnvelopeError, which names the sender."""
    assert "envelope of 'north'" in refusal(garbage)
    assert refusal(ENVELOPE[:18] + garbage).endswith(".")


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("study_hash", b"t" * 32, "study 7373.* instead of 7474"),
        ("roster_hash", b"t" * 32, "roster 7272.* instead of 7474"),
        ("sender", "coast", "sender 'north' instead of 'coast'"),
        ("recipient", "coast", "recipient 'city' instead of 'coast'"),
        ("epoch", 4, "epoch 3 instead of 4"),
    ],
)
def test_an_envelope_that_belongs_elsewhere_says_where(field, value, expected):
    """The message names what differs and what was expected."""
    elsewhere = dataclasses.replace(HERE, **{field: value})
    reason = refusal(ENVELOPE, context=elsewhere)
    assert re.search(expected, reason)
    assert reason.count("instead of") == 1


def test_an_envelope_of_another_study_names_all_that_differs():
    """Everything that is not as expected is in one sentence."""
    elsewhere = Context(b"t" * 32, b"t" * 32, "a", "b", 1)
    assert refusal(ENVELOPE, context=elsewhere).count("instead of") == 5


def test_what_an_envelope_claims_is_clipped_and_escaped():
    """A name that a server made up cannot fill the screen or steer the terminal."""
    claimed = dataclasses.replace(HERE, sender="\x1b[2J" + "x" * 900)
    reason = refusal(seal_for(b"", claimed, NORTH, CITY.public))
    assert "\x1b" not in reason
    assert len(reason) < 250


@pytest.mark.parametrize("field", ["sender", "recipient", "epoch", "study_hash"])
def test_a_changed_context_breaks_the_signature(field):
    """A server that rewrites the context of an envelope is found out."""
    old = {"sender": "x", "recipient": "x", "epoch": 2, "study_hash": b"o" * 32}
    elsewhere = dataclasses.replace(HERE, **{field: old[field]})
    envelope = seal_for(SECRET, elsewhere, NORTH, CITY.public)
    _, sealed, signature = unpack_fields(envelope[18:], 3)
    rewritten = envelope[:18] + pack_fields(HERE.to_bytes(), sealed, signature)
    assert "not signed by 'north'" in refusal(rewritten)


def test_a_sealed_secret_opens_in_its_own_context_only():
    """Even a sender who signs it again cannot move a sealed secret elsewhere."""
    elsewhere = dataclasses.replace(HERE, epoch=2)
    sealed = unpack_fields(seal_for(SECRET, elsewhere, NORTH, CITY.public)[18:], 3)[1]
    signature = NORTH.sign(ENVELOPE[:18] + pack_fields(HERE.to_bytes(), sealed))
    moved = ENVELOPE[:18] + pack_fields(HERE.to_bytes(), sealed, signature)
    assert "does not open" in refusal(moved)


def test_an_envelope_signed_by_somebody_else_is_refused():
    """A party that seals its own secret, or signs another's, is not the sender."""
    forged = seal_for(b"mine", HERE, STRANGER, CITY.public)
    reason = refusal(forged)
    assert "not signed by 'north'" in reason
    assert NORTH.public.fingerprint in reason
    context, sealed, _ = unpack_fields(ENVELOPE[18:], 3)
    signature = STRANGER.sign(ENVELOPE[:18] + pack_fields(context, sealed))
    signed_anew = ENVELOPE[:18] + pack_fields(context, sealed, signature)
    assert "not signed by 'north'" in refusal(signed_anew)


def test_another_recipient_cannot_open_an_envelope():
    """The message names the key that does not fit."""
    reason = refusal(ENVELOPE, recipient=STRANGER)
    assert "does not open" in reason
    assert STRANGER.public.fingerprint in reason


contexts = st.builds(
    Context,
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=32, max_size=32),
    st.text("ab\0", max_size=4),
    st.text("ab\0", max_size=4),
    st.integers(1, 2**63 - 1),
)


@given(first=contexts, second=contexts)
def test_contexts_never_collide(first, second):
    """Different contexts have different bytes, and the bytes give the context back."""
    assert (first.to_bytes() == second.to_bytes()) == (first == second)
    swapped = dataclasses.replace(first, sender=first.recipient, recipient=first.sender)
    assert (first.to_bytes() == swapped.to_bytes()) == (first == swapped)
    assert Context.from_bytes(first.to_bytes()) == first


small = st.lists(st.binary(max_size=5), max_size=4)


@given(first=small, second=small)
def test_fields_never_collide(first, second):
    """Different lists of fields have different bytes, whatever their number."""
    assert (pack_fields(*first) == pack_fields(*second)) == (first == second)
    assert unpack_fields(pack_fields(*first), len(first)) == first
    with pytest.raises(ValueError, match="field"):
        unpack_fields(pack_fields(*first), len(first) + 1)


@pytest.mark.parametrize(
    "change",
    [
        {"study_hash": b"short"},
        {"roster_hash": b"r" * 33},
        {"epoch": 0},
        {"epoch": 2**63},
    ],
)
def test_a_context_that_cannot_be_is_refused(change):
    """Hashes have 32 bytes, epochs start at 1."""
    with pytest.raises(ValueError, match=r"hash|Epochs"):
        dataclasses.replace(HERE, **change)


def entries(*identities):
    return tuple(
        RosterEntry(name, i.public)
        for name, i in zip(["north", "city"], identities, strict=True)
    )


def test_the_hash_of_a_roster_depends_on_names_keys_and_order():
    """Any change of identities changes the hash."""
    first, second = entries(NORTH, CITY)
    rosters = [
        (first, second),
        (second, first),
        (first,),
        (first, second._replace(name="citi")),
        entries(NORTH, STRANGER),
        entries(CITY, NORTH),
    ]
    assert len({Roster(b"s" * 32, entries).hash for entries in rosters}) == 6
    again = Roster(b"t" * 32, (first, second), 2)
    assert again.hash == Roster(b"s" * 32, (first, second)).hash


def test_a_roster_knows_its_organisations_by_key():
    """A key on the roster has a rank, another one is refused by fingerprint."""
    roster = Roster(b"s" * 32, entries(NORTH, CITY))
    assert roster.rank_of(CITY.public) == 1
    with pytest.raises(ValueError, match=STRANGER.public.fingerprint):
        roster.rank_of(STRANGER.public)


def test_a_roster_that_cannot_be_is_refused():
    """Names and keys are each organisation's own; names and epochs fit a context."""
    first, second = entries(NORTH, CITY)
    other = STRANGER.public
    sealing = RosterEntry(
        "third", dataclasses.replace(other, sealing=first.public.sealing)
    )
    signing = RosterEntry(
        "third", dataclasses.replace(second.public, sealing=other.sealing)
    )
    same_name = RosterEntry("city", other)
    for bad in (sealing, signing, same_name):
        with pytest.raises(ValueError, match="have the same"):
            Roster(b"s" * 32, (first, second, bad))
    with pytest.raises(ValueError, match="at most 1000"):
        Roster(b"s" * 32, (first._replace(name="x" * 1001),))
    with pytest.raises(ValueError, match="Epochs"):
        Roster(b"s" * 32, (first,), 0)
