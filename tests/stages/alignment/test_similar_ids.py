"""IDs that differ only in how they are written: found, named, never matched."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import scipy.sparse as sp

from hyfdca.crypto.keys.pseudonyms import form_pseudonyms, sample_pseudonyms
from hyfdca.data.id_forms import ID_FORMS
from hyfdca.protocol.client_session import decode, unframe
from hyfdca.protocol.codec import RemoteProtocolError, pack_tokens
from hyfdca.stages.alignment import similar_ids
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.messages import AlignmentSettings, IdForms, IdFormsRequest
from tests.stages.alignment.alignments import (
    KEYS,
    OTHER_KEYS,
    TOKEN,
    Meeting,
    make_table,
)

WATCHFUL = AlignmentSettings("classification", similar_ids="refuse")
ROWS = list(range(40))


def table(ids, columns=(0, 1)):
    """Return a table with these IDs."""
    return replace(make_table(ROWS[: len(ids)], list(columns)), ids=tuple(ids))


def plain_ids():
    return [f"{1017 * (row + 3)}" for row in ROWS]


def halves():
    """Return two tables that share half of the rows, and all of them by ID."""
    return [table(plain_ids()[:30]), table(plain_ids()[10:], [2, 3])]


def refused(tables, settings=WATCHFUL):
    """Return the sentence with which tables are refused."""
    with pytest.raises(AlignmentError) as caught:
        Meeting(tables, settings).run()
    return str(caught.value)


@pytest.mark.parametrize(
    ("theirs", "ours", "reason"),
    [
        ("00{}", "{}", "leading zeros"),
        ("P-0{}", "P-{}", "leading zeros"),
        ("{}.0", "{}", "zeros after a decimal point"),
        ("{}.00", "{}", "zeros after a decimal point"),
        ("a{}", "A{}", "capitals"),
        ("stra\u00dfe{}", "STRASSE{}", "capitals"),
        ("a-{}", "a {}", "blanks or punctuation"),
        ("a-{}", "a{}", "blanks or punctuation"),
    ],
)
@pytest.mark.parametrize("n_changed", [20, 40])
def test_the_reason_is_named(theirs, ours, reason, n_changed):
    """Half or all IDs are written differently: both organisations, counts and why."""
    ids = plain_ids()
    first = [ours.format(own) for own in ids]
    second = [theirs.format(own) for own in ids[:n_changed]] + first[n_changed:]
    sentence = refused([table(first), table(second, [1, 2])])
    assert sentence.startswith(
        f"Organisations 'org0' and 'org1' share {40 - n_changed} of 40 rows, and "
        f"{n_changed} more have IDs that differ only in {reason}; "
    )
    assert 'similar_ids = "allow"' in sentence
    assert "allow_unshared" not in sentence


def test_several_reasons_at_once():
    """If it takes several changes to make IDs alike, no single one is named."""
    ids = plain_ids()
    sentence = refused(
        [table([f"A-0{own}" for own in ids]), table([f"a{i}" for i in ids])]
    )
    assert "40 more have IDs that differ in how they are written; " in sentence


def test_two_reasons_are_both_named():
    """If each of two changes makes many IDs match, both are named."""
    ids = plain_ids()
    theirs = [f"0{own}" for own in ids[:20]] + [f"{own}.0" for own in ids[20:]]
    sentence = refused([table(ids), table(theirs)])
    assert "only in leading zeros and zeros after a decimal point; " in sentence


def test_few_similar_ids_are_different_rows():
    """Similar IDs of less than one row in twenty are no reason to refuse."""
    ids = plain_ids()
    theirs = [f"0{ids[0]}", *ids[1:]]
    assert (
        Meeting([table(ids), table(theirs)], WATCHFUL).run().layout.samples.n_items
        == 41
    )


def test_the_study_may_allow_similar_ids():
    """Where the study allows them they are different rows, and nobody is asked."""
    ids = plain_ids()
    theirs = [f"0{own}" for own in ids[:20]] + ids[20:]
    allowed = replace(WATCHFUL, similar_ids="allow")
    meeting = Meeting([table(ids), table(theirs)], allowed)
    assert meeting.run().layout.samples.n_items == 60
    with pytest.raises(RemoteProtocolError, match="does not compare similar IDs"):
        meeting.clients[0].handlers["id forms"](IdFormsRequest(1, ["any"]))


def test_nobody_is_asked_where_all_rows_are_shared():
    """Tables of the same rows, or some of them, cost no further round trip."""
    ids = plain_ids()
    meeting = Meeting([table(ids), table(ids[:20])], WATCHFUL)
    meeting.run()
    assert meeting.traffic.round_trips == 2.5  # with one for cells held twice
    other = Meeting(halves(), WATCHFUL)
    other.run()
    assert other.traffic.round_trips == 2.5


def test_only_those_who_share_few_rows_are_asked():
    """A client that shares all of its rows with everybody shows no form of its IDs."""
    ids = plain_ids()
    tables = [table(ids), table(ids[:20]), table([*ids[:20], *"abcdefghijklmnopqrst"])]
    meeting = Meeting(tables, WATCHFUL)
    meeting.run()
    assert [len(wire.up) for wire in meeting.wires] == [4, 3, 4]


def test_the_server_sees_no_order_and_no_link():
    """Pseudonyms of forms are sorted, each once, and not those of the rows."""
    ids = ["017", "17", "3", "0005"]
    shown = form_pseudonyms(map(ID_FORMS["leading zeros"], ids), 1, KEYS)
    assert len(shown) == 3
    assert shown[:, 1].tolist() == sorted(shown[:, 1].tolist())
    others = [
        sample_pseudonyms(ids, KEYS),
        form_pseudonyms(ids, 2, KEYS),
        form_pseudonyms(ids, 1, OTHER_KEYS),
    ]
    for other in others:
        assert not {*map(tuple, shown.tolist())} & {*map(tuple, other.tolist())}


def test_ids_do_not_travel():
    """Neither an ID nor a form of it is in what the server sees."""
    ours, theirs = ([f"{word}{own}" for own in plain_ids()] for word in ("bob", "BOB"))
    meeting = Meeting([table(ours), table(theirs)], WATCHFUL)
    with pytest.raises(AlignmentError):
        meeting.run()
    assert b"bob" not in meeting.seen.lower()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda _: IdForms([]), "left out a form"),
        (lambda r: IdForms([bytes(r.pseudonyms[0]) * 2] * 2), "more IDs than rows"),
        (lambda r: IdForms([bytes(r.pseudonyms[0])[:24]] * 2), "cut off"),
        (lambda r: IdForms([bytes(r.pseudonyms[0])[:16] * 2] * 2), "twice"),
    ],
)
def test_hostile_answers(spoil, message):
    """An answer of the wrong size, or with a pseudonym twice, is refused."""
    meeting = Meeting(halves(), WATCHFUL)
    meeting.wires[1].tamper["id forms"] = (IdForms, spoil)
    with pytest.raises(RemoteProtocolError, match=message):
        meeting.run()


def test_an_answer_is_what_was_asked_for():
    """A client answers with one list of pseudonyms per form, in their order."""
    meeting = Meeting(halves(), WATCHFUL)
    meeting.run()
    reply = decode(unframe(meeting.wires[0].up[1], TOKEN)[1], IdForms)
    expected = [
        form_pseudonyms(map(ID_FORMS[form], plain_ids()[:30]), number, KEYS)
        for number, form in enumerate(["as it is", "any"])
    ]
    shown = [bytes(own) for own in reply.pseudonyms]
    assert shown == [bytes(pack_tokens(own)) for own in expected]


def test_a_sample_of_large_tables(monkeypatch):
    """A sample of the IDs of large tables is compared; the count is an estimate."""
    monkeypatch.setattr(similar_ids, "_ENOUGH", 100)
    ids = [f"{3 * row + 1:05d}" for row in range(2000)]
    lost = [own.lstrip("0") for own in ids]
    rows = make_table([0, 1], [0])
    first, second = (
        replace(
            rows,
            ids=tuple(own),
            labels=("a", "b") * 1000,
            cells=sp.eye_array(2000, 1).tocsr(),
        )
        for own in (ids, lost)
    )
    sentence = refused([first, second])
    found = re.search(r"share (\d+) of 2000 rows, and about (\d+) more", sentence)
    n_shared = sum(one == other for one, other in zip(ids, lost, strict=True))
    assert int(found[1]) == n_shared
    assert int(found[2]) == pytest.approx(2000 - n_shared, rel=0.5)
    assert "only in leading zeros" in sentence
    assert Meeting([first, first], WATCHFUL).run().layout.samples.n_items == 2000
