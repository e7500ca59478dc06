"""Alignment with parties that break the protocol: refused, and nothing changed."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import msgspec
import numpy as np
import pytest

from hyfdca.protocol.client_session import decode, frame, unframe
from hyfdca.protocol.codec import RemoteProtocolError, pack_bits, pack_indices
from hyfdca.protocol.messages import Message
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.client import AlignmentClient
from hyfdca.stages.alignment.messages import (
    MOST_CLASSES,
    AlignmentSettings,
    CellsRequest,
    CellTokens,
    HintsRequest,
    PlacementNotice,
    Refused,
    Rows,
    TargetTokens,
)
from tests.stages.alignment.alignments import (
    CLASSIFICATION,
    TOKEN,
    Held,
    Meeting,
    make_table,
)

ALL = [0, 1, 2, 3]


# Clients that break the protocol


def tampered(change, phase="rows", kind=Rows, settings=CLASSIFICATION):
    """Return a meeting whose second client's replies are changed."""
    held = (Held(ALL, [0, 1]), Held([3, 2, 1], [1, 2]))
    meeting = Meeting([own.table for own in held], settings)
    meeting.wires[1].tamper[phase] = (kind, change)
    return meeting


def changed(**changes):
    return lambda reply: msgspec.structs.replace(reply, **changes)


def repeat_first(reply):
    return changed(pseudonyms=bytes(reply.pseudonyms[:32]) + reply.pseudonyms[:16])(
        reply
    )


HOSTILE = {
    "cut pseudonym": lambda r: changed(pseudonyms=r.pseudonyms[:-8])(r),
    "cut word": lambda r: changed(pseudonyms=r.pseudonyms[:-1])(r),
    "fewer pseudonyms": lambda r: changed(pseudonyms=r.pseudonyms[:-16])(r),
    "repeated pseudonym": repeat_first,
    "repeated feature": changed(features=["a", "a"]),
    "empty name": changed(features=["a", ""]),
    "long name": changed(features=["a" * 1001]),
    "fewer label tokens": lambda r: changed(label_tokens=r.label_tokens[:-8])(r),
    "hidden names": changed(hidden_features=b"\0" * 32),
    "no classes": changed(classes=[]),
    "repeated class": changed(classes=["a", "a"]),
    "rest without positive": changed(has_rest=True),
    "too many classes": changed(classes=[str(n) for n in range(MOST_CLASSES + 1)]),
    "pseudonyms without positive": changed(other_classes=b"\0" * 32),
    "classes without labels": changed(label_tokens=None),
    "kinds of fewer columns": changed(kinds=b"\0"),
    "no such kind": changed(kinds=b"\0\x05"),
    "no message": lambda _: Message(),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_rows(case):
    """Rows that break the protocol are refused, and nobody receives a placement."""
    meeting = tampered(HOSTILE[case])
    with pytest.raises(RemoteProtocolError):
        meeting.run()
    for client in meeting.clients:
        with pytest.raises(RemoteProtocolError, match="has not come yet"):
            _ = client.aligned


@pytest.mark.parametrize(
    "change",
    [
        changed(has_rest=True),
        changed(classes=["a", "b"]),
        changed(other_classes=b"\0" * 32),
        changed(other_classes=b"\0" * 8),
        changed(other_classes=bytes(range(16)) * 40),
    ],
)
def test_hostile_classes_with_a_positive_label(change):
    """Beside the positive class there is one other, or an unnamed rest."""
    settings = AlignmentSettings("classification", "unwell")
    with pytest.raises(RemoteProtocolError, match=r"client 1 .*(do not fit|cut off)"):
        tampered(change, settings=settings).run()


def test_hostile_hidden_names():
    """Where names are hidden, a client that shows or repeats them is refused."""
    settings = AlignmentSettings("classification", hide_feature_names=True)
    for change in (
        changed(hidden_features=None),
        changed(features=["a"]),
        changed(hidden_features=b"\0" * 32),
    ):
        with pytest.raises(RemoteProtocolError):
            tampered(change, settings=settings).run()


def test_a_refusal_is_a_sentence_too():
    """A refusal of a kind that does not exist does not decode; a count is bounded."""
    with pytest.raises(AlignmentError, match="'org1' has 7 rows"):
        tampered(lambda _: Refused("repeated", 7)).run()
    for refusal in (Refused("because", 7), Refused("repeated", -1)):
        with pytest.raises(RemoteProtocolError):
            tampered(lambda _, refusal=refusal: refusal).run()


@pytest.mark.parametrize("size", [0, 8, 15, 32])
def test_hostile_tokens(size):
    """Tokens of cells are as many as were asked for."""
    change = changed(tokens=b"\0" * size)
    with pytest.raises(RemoteProtocolError, match="client 1 to 'cells'"):
        tampered(change, "cells", CellTokens).run()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda reply: TargetTokens([reply.tokens[0][8:]]), "client 1 to 'targets'"),
        (lambda reply: TargetTokens([]), "client 1 to .targets.: labels or"),
    ],
)
def test_bad_tokens_of_labels_by_column(change, message):
    """Tokens of labels are as many as there are columns and rows."""
    held = [make_table([0, 1, 2], [0]), make_table([0, 1, 2], [1])]
    held[1] = replace(held[1], labels=("healthy", "healthy", "healthy"))
    meeting = Meeting(held)
    meeting.wires[1].tamper["targets"] = (TargetTokens, change)
    with pytest.raises(RemoteProtocolError, match=message):
        meeting.run()


def test_labels_are_rounded_only_if_the_study_rounds():
    """A server cannot have labels rounded that the study compares exactly."""
    meeting = Meeting([make_table([0, 1], [0])])
    meeting.run()
    _, body = unframe(meeting.wires[0].down[1], TOKEN)
    notice = msgspec.structs.replace(decode(body, PlacementNotice), rounded=b"\xff")
    client = AlignmentClient(meeting.tables[0], meeting.keys, meeting.settings)
    client.handlers["rows"](Message())
    with pytest.raises(RemoteProtocolError, match="does not round labels"):
        client.handlers["placement"](notice)
    unlabelled = make_table([0, 1], [0], has_labels=False)
    client = AlignmentClient(unlabelled, meeting.keys, meeting.settings)
    client.handlers["rows"](Message())
    with pytest.raises(RemoteProtocolError, match="none exist"):
        client.handlers["targets"](Message())


# Servers that break the protocol


def notice_for(meeting):
    """Return what the second client received."""
    return decode(unframe(meeting.wires[1].down[1], TOKEN)[1], PlacementNotice)


def numbers(*values):
    return pack_indices(np.array(values, dtype=np.int64))


BAD_NOTICES = {
    "row twice": {"rows": numbers(0, 1, 1)},
    "fewer rows": {"rows": numbers(0, 1)},
    "row beyond": {"rows": numbers(0, 1, 3)},
    "column twice": {"columns": numbers(1, 1)},
    "group beyond": {"row_groups": numbers(0, 0, 3)},
    "groups with gaps": {"row_groups": numbers(0, 0, 2)},
    "fewer groups": {"column_groups": numbers(0)},
    "fewer flags": {"owns": b""},
    "more flags": {"counts_rows": b"\0\0"},
    "one class": {"classes": ["unwell"]},
    "other classes": {"classes": ["ill", "well"]},
    "repeated class": {"classes": ["healthy", "unwell", "unwell"]},
    "bias of others": {"counts_bias": True},
    "numbers as categories": {"categories": b"\x80"},
    "fewer categories": {"categories": b""},
}


def fresh_client(settings=CLASSIFICATION, has_labels=True):
    """Return a client that has shown its rows, and the placement it would receive."""
    tables = [make_table(ALL, [0, 1]), make_table([3, 2, 1], [1, 2], has_labels)]
    meeting = Meeting(tables, settings)
    meeting.run()
    other = Meeting(tables, settings)
    wire = other.wires[1]
    wire.handle("rows", frame(TOKEN, 1, Message()))
    return other.clients[1], wire, notice_for(meeting)


@pytest.mark.parametrize("case", BAD_NOTICES)
def test_bad_placements(case):
    """A placement that does not fit the client's table changes nothing."""
    client, wire, notice = fresh_client()
    bad = msgspec.structs.replace(notice, **BAD_NOTICES[case])
    with pytest.raises(RemoteProtocolError):
        wire.handle("placement", frame(TOKEN, 2, bad))
    with pytest.raises(RemoteProtocolError, match="has not come yet"):
        _ = client.aligned
    wire.handle("placement", frame(TOKEN, 3, notice))
    assert client.aligned.classes == ("healthy", "unwell")


def test_bad_placements_of_other_tasks():
    """Classes of a regression, a wrong positive one, and losses without labels."""
    for settings, has_labels, change in (
        (AlignmentSettings("classification", "unwell"), True, {"classes": ["a", "b"]}),
        (CLASSIFICATION, False, {"counts_rows": pack_bits(np.ones(1, bool))}),
    ):
        _, wire, notice = fresh_client(settings, has_labels)
        bad = msgspec.structs.replace(notice, **change)
        with pytest.raises(RemoteProtocolError):
            wire.handle("placement", frame(TOKEN, 2, bad))
    table = replace(make_table(ALL, [0]), labels=("1", "2", "3", "4"))
    meeting = Meeting([table], AlignmentSettings("regression"))
    meeting.wires[0].handle("rows", frame(TOKEN, 1, Message()))
    with pytest.raises(RemoteProtocolError, match="cannot be the classes"):
        meeting.wires[0].handle(
            "placement",
            frame(
                TOKEN,
                2,
                PlacementNotice(
                    n_samples=4,
                    rows=numbers(*ALL),
                    columns=numbers(0),
                    row_groups=numbers(0, 0, 0, 0),
                    column_groups=numbers(0),
                    owns=b"\xff",
                    counts_rows=b"\xff",
                    counts_columns=b"\xff",
                    counts_bias=True,
                    classes=["a", "b"],
                ),
            ),
        )


def test_phases_out_of_order():
    """Nothing is placed before rows are shown, and nothing shown or placed twice."""
    _, _, notice = fresh_client()
    some = CellsRequest(numbers(0), b"\0")
    requests = {"rows": Message(), "placement": notice, "cells": some}
    new, number = Meeting([make_table([3, 2, 1], [1, 2])]).wires[0], count(1)
    for refused, allowed in (
        (["placement", "cells"], "rows"),
        (["rows", "cells"], "placement"),
        (["rows", "placement"], "cells"),
    ):
        for phase in refused:
            with pytest.raises(RemoteProtocolError, match=f"'{phase}' is out of order"):
                new.handle(phase, frame(TOKEN, next(number), requests[phase]))
        new.handle(allowed, frame(TOKEN, next(number), requests[allowed]))


def test_a_client_refuses_what_is_out_of_order_by_itself():
    """Should a session let it through, nothing is placed before or shown after."""
    _, _, notice = fresh_client()
    client = Meeting([make_table([3, 2, 1], [1, 2])]).clients[0]
    handlers = client.handlers
    with pytest.raises(RemoteProtocolError, match="before the rows"):
        handlers["placement"](notice)
    with pytest.raises(RemoteProtocolError, match="has not come yet"):
        handlers["cells"](CellsRequest(numbers(), b""))
    handlers["rows"](Message())
    handlers["placement"](notice)
    with pytest.raises(RemoteProtocolError, match="or twice"):
        handlers["placement"](notice)
    with pytest.raises(RemoteProtocolError, match="after their placement"):
        handlers["rows"](Message())


def test_cells_are_compared_once():
    """Neither again, nor none of them."""
    client, wire, notice = fresh_client(replace(CLASSIFICATION, cell_tolerance=1e-6))
    wire.handle("placement", frame(TOKEN, 2, notice))
    owns, number = client.aligned.own.owns, count(3)
    own = int(owns.any(axis=0).argmax())  # a column group of which it owns cells
    each, both = pack_bits(owns[:, [own]]), pack_bits(owns)
    some, other = numbers(own), numbers(1 - own)
    wire.handle("cells", frame(TOKEN, next(number), CellsRequest(some, each)))
    for refused in (
        CellsRequest(some, each),
        CellsRequest(numbers(0, 1), both),
        CellsRequest(numbers(), b""),
    ):
        with pytest.raises(RemoteProtocolError, match="'cells' is about no cells, or"):
            wire.handle("cells", frame(TOKEN, next(number), refused))
    for phase, allowed in (
        ("cells", CellsRequest(other, pack_bits(owns[:, [1 - own]]))),
        ("hints", HintsRequest(some, each)),
        ("cells", CellsRequest(some, each, [])),
        ("hints", HintsRequest(some, each, "column")),
        ("cells", CellsRequest(some, each, [], "column")),
        ("cells", CellsRequest(some, each, None, "column")),
    ):
        wire.handle(phase, frame(TOKEN, next(number), allowed))
    with pytest.raises(RemoteProtocolError, match="'hints' is about no cells, or"):
        wire.handle("hints", frame(TOKEN, next(number), HintsRequest(some, each)))


def test_bad_requests_for_cells():
    """Column groups that a client does not have are refused."""
    _, wire, notice = fresh_client()
    wire.handle("placement", frame(TOKEN, 2, notice))
    for bad in (
        CellsRequest(numbers(7), b"\0"),
        CellsRequest(numbers(1, 0), b"\0"),
        CellsRequest(numbers(0), b""),
    ):
        with pytest.raises(RemoteProtocolError):
            wire.handle("cells", frame(TOKEN, 3, bad))
    some = CellsRequest(numbers(0), b"\0")
    wire.handle("cells", frame(TOKEN, 4, some))
    reply = decode(unframe(wire.up[-1], TOKEN)[1], CellTokens)
    assert bytes(reply.tokens) == b""
