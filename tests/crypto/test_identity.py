"""An organisation's keys: their text, their bytes, and what is never shown."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.crypto.keys.identity import Identity, PublicIdentity

OWNER = Identity.generate()
LETTERS = string.ascii_letters + string.digits + "-_"
SECRETS = (
    OWNER.sealing_key.private_bytes_raw(),
    OWNER._signing.private_bytes_raw(),
)


def test_the_text_of_a_public_key_gives_it_back():
    """One line of plain letters stands for both public keys."""
    text = OWNER.public.text
    assert PublicIdentity.parse(text) == OWNER.public
    assert str(OWNER.public) == text
    assert text.startswith("hyfdca1:")
    assert set(text.removeprefix("hyfdca1:")) <= set(LETTERS)


def test_the_bytes_of_an_identity_give_it_back():
    """What is written can be read, and signs and opens as before."""
    again = Identity.from_bytes(OWNER.to_bytes())
    assert again.public == OWNER.public
    assert again.to_bytes() == OWNER.to_bytes()
    assert OWNER.public.has_signed(again.sign(b"yes"), b"yes")


def test_no_two_identities_are_alike():
    """New keys are new, in both halves, and have another fingerprint."""
    other = Identity.generate().public
    assert other.sealing != OWNER.public.sealing
    assert other.verifying != OWNER.public.verifying
    assert other.fingerprint != OWNER.public.fingerprint


@given(place=st.integers(0, 91), letter=st.sampled_from(LETTERS))
def test_a_wrong_letter_in_a_public_key_is_noticed(place, letter):
    """Another letter at any place makes it no key."""
    text = OWNER.public.text
    place += len("hyfdca1:")
    changed = text[:place] + letter + text[place + 1 :]
    if changed == text:
        assert PublicIdentity.parse(changed) == OWNER.public
    else:
        with pytest.raises(ValueError, match="typing error"):
            PublicIdentity.parse(changed)


@given(place=st.integers(0, 90))
def test_swapped_letters_in_a_public_key_are_noticed(place):
    """Neighbours in the wrong order make it no key."""
    body = OWNER.public.text.removeprefix("hyfdca1:")
    swapped = body[:place] + body[place + 1] + body[place] + body[place + 2 :]
    if swapped != body:
        with pytest.raises(ValueError, match="typing error"):
            PublicIdentity.parse(f"hyfdca1:{swapped}")


TEXT = OWNER.public.text


# By name: the keys are new in each process, and so no part of a test's name.
BAD_TEXTS = {
    "empty": ("", "begins with hyfdca1:"),
    "later version": ("hyfdca2:" + TEXT[8:], "begins with hyfdca1:"),
    "capitals": (TEXT.upper(), "begins with hyfdca1:"),
    "space": (" " + TEXT, "begins with hyfdca1:"),
    "secret": (OWNER.to_bytes().decode(), "begins with hyfdca1:"),
    "line end": (TEXT + "\n", "characters that no key has"),
    "padding": (TEXT + "=", "characters that no key has"),
    "accent": (TEXT[:-1] + "é", "characters that no key has"),
    "other base64": (TEXT[:-1] + "/", "characters that no key has"),
    "cut short": (TEXT[:-1], "91 letters .* instead of 92"),
    "longer": (TEXT + "A", "93 letters .* instead of 92"),
    "prefix alone": ("hyfdca1:", "0 letters"),
}


@pytest.mark.parametrize("case", BAD_TEXTS)
def test_what_is_no_public_key_is_refused(case):
    """The message says what is wrong, and repeats nothing of it."""
    text, message = BAD_TEXTS[case]
    with pytest.raises(ValueError, match=message) as caught:
        PublicIdentity.parse(text)
    assert TEXT[12:40] not in str(caught.value)


@pytest.mark.parametrize("point", [0, 1])
def test_a_point_that_hides_nothing_is_refused(point):
    """A sealing key whose shared secrets anybody can guess is refused."""
    weak = point.to_bytes(32, "little")
    with pytest.raises(ValueError, match="Nothing can be sealed"):
        PublicIdentity(weak, OWNER.public.verifying)


@pytest.mark.parametrize(("first", "second"), [(31, 32), (32, 33), (0, 64)])
def test_keys_of_another_size_are_refused(first, second):
    """Both keys have 32 bytes."""
    with pytest.raises(ValueError, match="two times 32 bytes"):
        PublicIdentity(b"\x09" * first, b"\x09" * second)


@given(place=st.integers(0, 500), bit=st.integers(0, 7))
def test_a_flipped_bit_in_a_secret_key_is_noticed(place, bit):
    """Garbled bytes are refused, without a word of what they were."""
    garbled = bytearray(OWNER.to_bytes())
    garbled[place % len(garbled)] ^= 1 << bit
    with pytest.raises(ValueError, match="key") as caught:
        Identity.from_bytes(bytes(garbled))
    assert OWNER.to_bytes()[-30:].decode() not in str(caught.value)


BAD_SECRETS = {
    "empty": b"",
    "prefix alone": b"hyfdca-secret1:",
    "cut short": OWNER.to_bytes()[:-1],
    "public": TEXT.encode(),
    "no text": b"\xff",
}


@pytest.mark.parametrize("case", BAD_SECRETS)
def test_what_is_no_secret_key_is_refused(case):
    """Bytes that are missing, cut short or public are refused as a secret key."""
    with pytest.raises(ValueError, match="key"):
        Identity.from_bytes(BAD_SECRETS[case])


@pytest.mark.parametrize("show", [repr, str, "{}".format, "{0!r}".format])
def test_showing_an_identity_shows_its_fingerprint_only(show):
    """No text of it has anything of its secrets."""
    shown = show(OWNER)
    assert shown == f"<Identity {OWNER.public.fingerprint}>"
    assert not any(secret.hex()[:8] in shown for secret in SECRETS)


def test_only_its_owner_signs():
    """A signature holds for one key and one message."""
    signature = OWNER.sign(b"yes")
    assert OWNER.public.has_signed(signature, b"yes")
    assert not OWNER.public.has_signed(signature, b"no")
    assert not OWNER.public.has_signed(signature[:-1], b"yes")
    assert not OWNER.public.has_signed(b"", b"yes")
    assert not Identity.generate().public.has_signed(signature, b"yes")
