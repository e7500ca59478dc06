"""The secrets of a study: what is derived from them, written of them, shown of them."""

import msgspec
import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st
from rich.pretty import pretty_repr

from hyfdca.crypto.keys.study_keys import MAX_BYTES, StudyKeys

MASTER = bytes(range(32))
KEYS = StudyKeys(MASTER, {"bfv": b"b" * 40_000, "paillier": b"p" * 500})


@given(
    master=st.binary(min_size=32, max_size=32),
    schemes=st.dictionaries(st.text(min_size=1, max_size=32), st.binary(), max_size=4),
)
def test_the_bytes_of_study_keys_give_them_back(master, schemes):
    """What is written can be read, whatever the schemes' keys are."""
    keys = StudyKeys(master, schemes)
    assert StudyKeys.from_bytes(keys.to_bytes()) == keys
    backwards = dict(reversed(schemes.items()))
    assert StudyKeys(master, backwards).to_bytes() == keys.to_bytes()


def test_new_study_keys_are_new():
    """The master is random; keys of schemes are as given."""
    first, second = StudyKeys.generate({"bfv": b"k"}), StudyKeys.generate({"bfv": b"k"})
    assert len(first.master) == 32
    assert first.master != second.master
    assert first.scheme_keys == second.scheme_keys == {"bfv": b"k"}


def test_derived_keys_are_hkdf_with_the_label_as_info():
    """Every label and size gives what RFC 5869 says."""
    for label, size in [("pseudonyms", 32), ("stream pads", 64)]:
        expected = HKDF(SHA256(), size, None, label.encode()).derive(MASTER)
        assert KEYS.derive(label, size) == expected
    assert KEYS.derive("pseudonyms") != KEYS.derive("stream pads")
    with pytest.raises(ValueError, match="label"):
        KEYS.derive("")


def encode(*parts):
    return msgspec.msgpack.encode(parts)


BAD = {
    "empty": b"",
    "no list": encode(MASTER)[1:],
    "short master": encode(MASTER[:-1], {}),
    "long master": encode(MASTER + b"x", {}),
    "text master": encode("m" * 32, {}),
    "no schemes": encode(MASTER),
    "more": encode(MASTER, {}, 1),
    "text key": encode(MASTER, {"bfv": "key"}),
    "no name": encode(MASTER, {"": b"key"}),
    "long name": encode(MASTER, {"x" * 33: b"key"}),
    "name no text": encode(MASTER, {7: b"key"}),
    "many schemes": encode(MASTER, {f"s{i}": b"" for i in range(17)}),
    "cut short": KEYS.to_bytes()[:-1],
    "longer": KEYS.to_bytes() + b"\0",
    "other order": encode(MASTER, {"b": b"", "a": b""}),
    "no UTF-8": encode(MASTER, {"bfv": b"k"}).replace(b"bfv", b"\xff\xff\xff"),
    "too large": StudyKeys(MASTER, {"bfv": bytes(MAX_BYTES)}).to_bytes(),
}


@pytest.mark.parametrize("case", BAD)
def test_what_are_no_study_keys_is_refused(case):
    """Anything but the bytes of study keys raises, and nothing of them is quoted."""
    with pytest.raises(ValueError, match=r"[Ss]tudy keys|study keys") as caught:
        StudyKeys.from_bytes(BAD[case])
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "bfv" not in str(caught.value)
    assert "mmmm" not in str(caught.value)


def test_a_tag_depends_on_every_key_and_on_the_statement():
    """A party that lacks one key, or differs in its context, has another tag."""
    others = [
        StudyKeys(MASTER[::-1], KEYS.scheme_keys),
        StudyKeys(MASTER, {"bfv": b"b" * 40_000}),
        StudyKeys(MASTER, {**KEYS.scheme_keys, "paillier": b"q" * 500}),
    ]
    tags = {keys.tag(b"yes") for keys in [*others, KEYS]} | {KEYS.tag(b"no")}
    assert len(tags) == 5
    assert KEYS.tag(b"yes") in tags


@pytest.mark.parametrize("show", [repr, str, "{}".format, pretty_repr])
def test_showing_study_keys_shows_no_secret(show):
    """Two sets can be told apart by their text; nothing is learnt from it."""
    shown = show(KEYS)
    assert shown.startswith("<StudyKeys ")
    assert len(shown) < 40
    assert MASTER.hex()[:6] not in shown.replace(" ", "")
    assert shown != show(StudyKeys(MASTER, {}))
