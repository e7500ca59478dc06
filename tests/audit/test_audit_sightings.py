"""What the audit says was seen: decided by the bytes, not by their declaration."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from hyfdca.audit.payloads import Seals, looks_plain
from hyfdca.audit.reading import Heard, UnknownError, heard
from hyfdca.audit.sightings import Sightings
from hyfdca.audit.views import Record, read_view, view_path
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.fixedpoint import Grid
from hyfdca.crypto.schemes.plain import PlainSealer
from hyfdca.crypto.schemes.registry import SCHEMES, Encryption
from hyfdca.federation.messages import Bounds
from hyfdca.maths.seeds import stream
from hyfdca.protocol import messages as m
from hyfdca.protocol.client_session import frame
from tests.audit.audits import GRID, PAPER, TWO, audited, record
from tests.support.set_keys import sealer_of

pytestmark = [
    pytest.mark.usefixtures("no_figure"),
    pytest.mark.xdist_group("sightings"),  # two recorded runs for all of them
]

HINGE = {"loss": '"hinge"', "l2": "0.01", "max_rounds": "5"}


def seal_numbers(scheme, n_numbers=200):
    """Return numbers on a grid, sealed by a scheme."""
    encryption = Encryption(scheme, paillier_bits=2048)
    table = SCHEMES[scheme]
    key = table.new_key(encryption)
    sealer = sealer_of(encryption, {scheme: key}, scheme)
    numbers = Grid(40, 58).encode(stream(1, "numbers").normal(size=(n_numbers, 1)))
    return sealer.seal(numbers, Arrangement.together(n_numbers))


def messages_of(folder):
    return [heard(r) for r in read_view(view_path(folder, None))[1]]


def complaints(messages, profile="sealed"):
    sightings = Sightings(profile)
    sightings.look(messages)
    return sightings.complaints()


@pytest.fixture(scope="module")
def sealed_bundle(tmp_path_factory):
    """Return the messages of a sealed run of the bundle method."""
    folder = tmp_path_factory.mktemp("sealed")
    return messages_of(record(folder, GRID, encryption='"stream"', **HINGE))


@pytest.fixture(scope="module")
def sealed_hyfdca(tmp_path_factory):
    """Return the messages of a sealed run of HyFDCA."""
    folder = tmp_path_factory.mktemp("sealed")
    given = {**PAPER, "max_rounds": "5", "encryption": '"stream"'}
    return messages_of(record(folder, GRID, **given))


@pytest.mark.parametrize("scheme", ["bfv", "stream", "paillier"])
def test_sealed_vectors_look_sealed(scheme):
    """Only the vectors of the scheme "none" read as numbers on a grid."""
    assert not looks_plain(seal_numbers(scheme, 40 if scheme == "paillier" else 200))
    assert looks_plain(seal_numbers("none"))


def test_sealed_runs_have_no_complaints(sealed_bundle, sealed_hyfdca):
    """Runs of both methods show the server nothing that the trust model forbids."""
    assert complaints(sealed_bundle) == complaints(sealed_hyfdca) == []


def spoilt(messages, phase, change):
    """Return messages with every reply of a phase changed."""
    return [
        replace(said, message=change(said.message))
        if said.phase == phase and said.direction == "up"
        else said
        for said in messages
    ]


def plain_vector(vector):
    """Return a vector that is declared padded, and is not."""
    n_numbers = (len(vector.payload) - 24) // 8
    numbers = stream(1, "plain").integers(-(2**40), 2**40, size=(n_numbers, 1))
    payload = PlainSealer().seal(numbers, Arrangement.together(n_numbers))
    nonce = stream(1, "nonce", n_numbers).bytes(24)
    return m.Sealed(vector.fraction_bits, memoryview(nonce + bytes(payload)))


def test_plain_vectors_are_found_whatever_is_said(sealed_bundle):
    """Margins that were never sealed are detected although the run declares them so."""
    bad = spoilt(sealed_bundle, "trial", lambda part: m.Part(plain_vector(part.vector)))
    assert "The margins are declared sealed, but read" in " ".join(complaints(bad))


def test_short_plain_vectors_are_found_together(sealed_hyfdca):
    """Vectors of four numbers are too short to judge alone, but not together."""
    bad = spoilt(
        sealed_hyfdca, "losses", lambda part: m.Part(plain_vector(part.vector))
    )
    assert "The losses are declared sealed, but read" in " ".join(complaints(bad))


def test_a_pad_used_twice_is_found(sealed_bundle):
    """A repeated nonce is detected."""
    first = next(s for s in sealed_bundle if s.phase == "trial" and s.direction == "up")
    assert any("used twice" in c for c in complaints([*sealed_bundle, first]))


def test_weights_in_the_clear_are_found(sealed_bundle):
    """A trial point shown to the server in the sealed profile is detected."""
    said = next(s for s in sealed_bundle if s.phase == "trial")
    shown = msgspec.structs.replace(said.message, weights=memoryview(bytes(32)))
    assert complaints([replace(said, message=shown)], "open") == []
    found = complaints([replace(said, message=shown)])
    assert found == [
        "The server could read what the sealed profile seals: trial weights."
    ]


def test_vectors_of_an_open_run_are_forbidden_in_a_sealed_one(tmp_path):
    """Slopes and offsets, visible in the open profile, are detected in the sealed."""
    given = {**HINGE, "profile": '"open"', "encryption": '"stream"'}
    messages = messages_of(record(tmp_path, GRID, **given))
    assert complaints(messages, "open") == []
    readable, *misjudged = complaints(messages)
    assert "slopes" in readable
    assert "margins" not in readable
    assert any("The offsets are declared sealed" in one for one in misjudged)


def test_vectors_that_nobody_said_are_sealed_are_open(sealed_bundle):
    """If no scheme is declared, the audit treats vectors as open."""
    unsaid = [said for said in sealed_bundle if said.phase != "arrange"]
    assert "margins" in complaints(unsaid)[0]


@pytest.mark.parametrize("encryption", ["stream", "bfv"])
def test_what_is_seen_is_what_was_sent(encryption, tmp_path):
    """Every byte of sealed vectors is counted, under the scheme that sealed it."""
    given = {**HINGE, "encryption": f'"{encryption}"', "small_vectors": '"same"'}
    audit = audited(tmp_path, TWO, **given)
    sealed = {s.value: s for s in audit.seen if s.form == "sealed"}
    assert sealed.pop("keys").schemes == {"hpke"}
    assert set(sealed) == {
        "row norms",
        "margins",
        "slopes",
        "losses",
        "products",
        "offsets",
        "grand totals",
        "tags",
    }
    totals = {"losses", "products", "offsets", "grand totals", "tags"}
    for value, seen in sealed.items():
        assert seen.schemes == {"stream" if value in totals else encryption}
    slopes = sealed["slopes"]
    assert slopes.phases.keys() == {"planes", "gram"}
    assert slopes.n_messages == 5 * 2 * 2  # rounds, clients, up and down


@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize("method", ["line_search", "safe", "bundle", "lbfgs"])
def test_what_is_forwarded_is_sealed(method, profile, tmp_path):
    """What the server forwards to a holder without labels it cannot read itself.

    That holder is the first one, which is also who opens grand totals.
    """
    given = {"algorithm": f'"{method}"', "max_rounds": "4", "encryption": '"stream"'}
    if method in ("line_search", "safe"):
        given |= {"algorithm": '"hyfdca"', "step": f'"{method}"'}
    given |= {"profile": f'"{profile}"', "labels_visible_to_holders": "true"}
    audit = audited(tmp_path, TWO, lacking=["north"], **given)
    assert audit.is_clean
    value = "dual changes" if "step" in given else "duals"
    forms = {sighting.form for sighting in audit.seen if sighting.value == value}
    assert forms == {"sealed"}


def test_margins_to_clients_without_labels_are_found(sealed_bundle):
    """Margins may go only to clients that need them."""
    sightings = Sightings("sealed")
    sightings.labelled = (True, True, False, True)
    sightings.look(sealed_bundle)
    assert sightings.complaints() == ["Client 2 has no labels but was sent margins."]


def test_unknown_messages_are_reported():
    """A phase or a message that is in no table yields a sentence, not a guess."""
    with pytest.raises(UnknownError, match="'gossip' is in no table"):
        heard(Record("gossip", 0, "up", b""))
    strange = bytes(frame(b"12345678", 1, Bounds(1.0, 1.0, 1.0, 1.0)))
    with pytest.raises(UnknownError, match="is not one of this phase"):
        heard(Record("shares", 0, "up", strange))
    assert isinstance(heard(Record("bounds", 0, "up", strange)), Heard)


def test_seals_are_judged_by_many_words():
    """Chance alone never causes a complaint: random words, many short vectors."""
    seals, random = Seals(), stream(3, "words")
    for _ in range(2000):
        seals.look("margins", "stream", random.bytes(24 + 8 * 5), is_sum=False)
    assert seals.finish() == []
    words = np.frombuffer(random.bytes(8 * 5000), "<i8")
    assert 0.02 < np.mean(np.abs(words.astype(float)) < 2.0**58) < 0.045
