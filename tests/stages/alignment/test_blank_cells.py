"""Cells that are blank at one organisation and known to another that holds them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.data.tables import KINDS, Table, stored_densely
from hyfdca.protocol.client_session import decode, unframe
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.server_session import BadReplyError
from hyfdca.stages.alignment import blank_cells
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.messages import (
    BlankNotes,
    CommonCells,
    Filled,
    FillRequest,
    KnownNotes,
    KnownRequest,
)
from tests.stages.alignment.alignments import (
    ANYHOW,
    N_FEATURES,
    N_SAMPLES,
    TOKEN,
    Held,
    Meeting,
    consortia,
    make_table,
    value_of,
)
from tests.support.liars import unframed

SHARED = replace(ANYHOW, blank_cells="share")
NOTE_BYTES = 12 + 16 + 64  # nonce, tag, and what is beside cells and names
PLACES = st.tuples(st.integers(0, N_SAMPLES - 1), st.integers(0, N_FEATURES - 1))


def blanked(held: Held, blank: set[tuple[int, int]]) -> Table:
    """Return a table without the cells of some rows and columns."""
    cells = [
        [np.nan if (r, c) in blank else value_of(r, c) for c in held.columns]
        for r in held.rows
    ]
    shape = (len(held.rows), len(held.columns))
    return replace(held.table, cells=stored_densely(np.reshape(cells, shape)))


@given(consortia(), st.data())
def test_the_known_value_counts(consortium, data):
    """Every holder ends with what any of them knows; nothing else changes."""
    blank = [data.draw(st.sets(PLACES, max_size=8)) for _ in consortium]
    tables = [blanked(*own) for own in zip(consortium, blank, strict=True)]
    meeting = Meeting(tables, SHARED)
    alignment = meeting.run()
    n_filled = 0
    for own, client, before in zip(consortium, meeting.clients, tables, strict=True):
        expected = [
            [known_value(consortium, blank, (r, c)) for c in own.columns]
            for r in own.rows
        ]
        after = client.table.cells.toarray()
        np.testing.assert_array_equal(after, np.reshape(expected, after.shape))
        n_filled += before.n_missing - client.table.n_missing
    assert alignment.n_filled == n_filled


def known_value(consortium, blank, cell):
    """Return a cell as anybody knows it who holds it."""
    row, column = cell
    is_known = any(
        row in own.rows and column in own.columns and cell not in without
        for own, without in zip(consortium, blank, strict=True)
    )
    return value_of(row, column) if is_known else np.nan


THREE = [Held([0, 1, 2], [0, 1]), Held([2, 1, 0], [1, 0]), Held([1, 2], [0, 1, 2])]


def three(*blank: set[tuple[int, int]], settings=SHARED, **changed: float) -> Meeting:
    """Return three organisations of the same cells; x1 of row 1 may be changed."""
    tables = [blanked(*own) for own in zip(THREE, blank, strict=True)]
    for rank, value in changed.items():
        tables[int(rank[3:])].cells[1 if rank != "org2" else 0, 1] = value
    return Meeting(tables, settings)


def test_values_of_others_are_compared():
    """Two that know a cell must agree on it, regardless of who has it blank."""
    with pytest.raises(AlignmentError, match="'org0' and 'org2' in 1 row"):
        three({(1, 1)}, set(), set(), org2=7.0).run()
    meeting = three({(1, 1)}, set(), set(), org2=value_of(1, 1) * (1 + 1e-8))
    meeting.settings = replace(SHARED, cell_tolerance=1e-6)
    tolerant = Meeting(meeting.tables, meeting.settings)
    tolerant.run()
    assert tolerant.clients[0].aligned.cells[1, 1] == value_of(1, 1)


def test_values_are_filled_also_if_none_are_compared():
    """With disagreeing_cells = "first", the first that has a value counts."""
    first = replace(SHARED, disagreeing_cells="first")
    meeting = three({(1, 1)}, {(1, 1)}, set(), org2=7.0, settings=first)
    meeting.run()
    assert [own.table.cells.max() > 100 for own in meeting.clients] == [True] * 3
    assert meeting.clients[0].aligned.cells[1, 1] == 7.0
    assert "cells" not in meeting.wires[0].phases
    both = three({(1, 1)}, set(), set(), org2=7.0, settings=first)
    both.run()
    assert both.clients[0].aligned.cells[1, 1] == value_of(1, 1)


def test_without_blanks_nothing_is_sent():
    """There are notes only if somebody has a blank cell and the study shares them."""
    meeting = three(set(), set(), set())
    meeting.run()
    assert not {"blanks", "known cells", "fill cells"} & {*meeting.wires[0].phases}
    refusing = three({(1, 1)}, set(), set(), settings=ANYHOW)
    with pytest.raises(AlignmentError, match='blank_cells = "share" if some'):
        refusing.run()
    assert "blanks" not in refusing.wires[0].phases


def test_cells_that_stay_blank():
    """Where all values are needed, what nobody knows is refused with its column."""
    needed = replace(SHARED, needs_values=True)
    with pytest.raises(AlignmentError, match=r"'org0' has 1 .*pressure 001'"):
        three({(1, 1), (2, 0)}, {(1, 1)}, {(1, 1)}, settings=needed).run()
    with pytest.raises(AlignmentError, match="1 blank cell that no other"):
        Meeting([blanked(THREE[0], {(0, 0)})], needed).run()
    three({(1, 1)}, set(), {(1, 1)}, settings=needed).run()


def test_the_server_learns_how_many_and_no_more():
    """Messages have the same length wherever the blank cells are."""
    sizes, seen = [], []
    for place in ((1, 0), (2, 1)):
        meeting = three({place}, set(), {(2, 0)})
        meeting.run()
        sizes.append([[len(reply) for reply in wire.up] for wire in meeting.wires])
        seen.append(meeting.seen)
    assert sizes[0] == sizes[1]
    assert np.float64(value_of(2, 1)).tobytes() not in seen[1]


@pytest.mark.parametrize("blank", [{(1, 1)}, {(1, 1), (2, 0), (0, 0), (0, 1)}])
def test_notes_do_not_show_which_cells_are_blank(blank):
    """A note about few cells is as long however many of them are blank."""
    meeting = three({(0, 0)}, blank, {(2, 0)})
    meeting.run()
    phases = "blanks", "known cells"
    sizes = {
        (phase, size)
        for wire in meeting.wires
        for phase, reply in zip(wire.phases, wire.up, strict=True)
        if phase in phases
        for size in map(len, unframed(reply)[2][0])
    }
    # The first two have six cells in common; the third has four of them.
    assert {(phase, size - NOTE_BYTES) for phase, size in sizes} == {
        ("blanks", 8 * 6),
        ("blanks", 8 * 4),
        ("known cells", 9 * 6),
        ("known cells", 9 * 4),
    }


def test_many_blank_cells_are_counted_roughly(monkeypatch):
    """Beyond some, notes are as long as for the next power of two."""
    monkeypatch.setattr(blank_cells, "_LEAST", 1)
    blank = {(0, 0), (0, 1), (1, 0)}
    meeting = three(blank, set(), set())
    meeting.run()
    [notes] = unframed(meeting.wires[0].up[2])[2]
    assert [len(note) - NOTE_BYTES for note in notes] == [8 * 4, 8 * 1]


# Levels of categories


@pytest.mark.parametrize("level", ["A", "ä" * 1000], ids=["short", "long"])
def test_notes_do_not_show_how_long_a_level_is(level):
    """Nor whether the only common cell has one."""
    name = make_table([0], [0]).features[0]
    tables = [
        replace(
            make_table([0, row], [0]),
            cells=stored_densely(np.array([[own], [1.0]])),
            kinds=("category",),
            levels={name: levels},
        )
        for row, own, levels in [(1, np.nan, ("B",)), (2, 2.0, ("1", level))]
    ]
    meeting = Meeting(tables, replace(SHARED, allow_unshared=True))
    meeting.run()
    assert level in meeting.clients[0].table.levels[name]
    [[note]] = unframed(meeting.wires[1].up[2])[2]
    assert len(note) - NOTE_BYTES == 9 + 2**16


def test_levels_have_the_numbers_of_a_reader():
    """A level that a table lacks gets its place among the sorted ones."""
    own = [(1.0, 2.0, np.nan), (1.0, 2.0, 1.0)]
    levels = [("alpha", "omega"), ("alpha", "omega")]
    levels[1] = ("middle", "omega")
    tables = [
        replace(
            make_table([0, 1, 2], [0]),
            cells=stored_densely(np.array([cells]).T),
            kinds=("category",),
            levels={make_table([0], [0]).features[0]: names},
        )
        for cells, names in zip(own, levels, strict=True)
    ]
    first = replace(SHARED, disagreeing_cells="first")
    meeting = Meeting(tables, first)
    meeting.run()
    table = meeting.clients[0].table
    assert [*table.levels.values()] == [("alpha", "middle", "omega")]
    assert table.cells.toarray().ravel().tolist() == [1.0, 3.0, 2.0]


def test_a_column_that_is_blank():
    """A column without any cell of its own takes the kind and the values of others."""
    name = make_table([0], [0]).features[0]
    cells = stored_densely(np.full((2, 1), np.nan))
    empty = replace(make_table([0, 1], [0]), cells=cells, kinds=("blank",))
    wards = replace(
        make_table([1, 0], [0]),
        cells=stored_densely(np.array([[1.0], [np.nan]])),
        kinds=("category",),
        levels={name: ("ICU",)},
    )
    meeting = Meeting([empty, wards], SHARED)
    meeting.run()
    filled = meeting.clients[0].table
    assert filled.kinds == ("category",)
    assert filled.levels == {name: ("ICU",)}
    assert filled.cells.data.tolist() == pytest.approx([np.nan, 1.0], nan_ok=True)
    assert meeting.clients[0].aligned.levels == {name: ("ICU",)}


# Servers and clients that do not follow the protocol


@pytest.mark.parametrize(
    ("phase", "kind"), [("blanks", BlankNotes), ("known cells", KnownNotes)]
)
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda notes: notes[:-1], "no note for each"),
        (lambda notes: notes[::-1], "note is invalid"),
        (lambda notes: [b"", *notes[1:]], "note is invalid"),
        (lambda notes: [bytes(notes[0])[:-1] + b"x", *notes[1:]], "note is invalid"),
    ],
)
def test_notes_that_are_spoilt(phase, kind, spoil, message):
    """A note that was changed, swapped or left out ends the alignment."""
    meeting = three({(1, 1)}, {(2, 0)}, {(1, 0)})
    meeting.wires[1].tamper[phase] = (kind, lambda reply: kind(spoil(reply.notes)))
    with pytest.raises((RemoteProtocolError, BadReplyError), match=message):
        meeting.run()


def test_a_column_that_is_not_there():
    """A client that names another column than its own is found out."""
    meeting = three({(1, 1)}, {(1, 1)}, {(1, 1)})
    meeting.wires[0].tamper["fill cells"] = (Filled, lambda _: Filled(0, 1, 2))
    with pytest.raises(BadReplyError, match="no such column"):
        meeting.run()


def test_a_client_shares_only_what_its_study_shares():
    """Without the organisation's own consent, it gives neither blanks nor values."""
    meeting = three(set(), set(), set(), settings=ANYHOW)
    meeting.run()
    common = ([1], b"\xff", b"\xff")
    for phase, request in (
        ("blanks", CommonCells(*common)),
        ("known cells", KnownRequest(*common, [b""])),
        ("fill cells", FillRequest(*common, [b""])),
    ):
        with pytest.raises(RemoteProtocolError, match="does not share"):
            meeting.clients[0].handlers[phase](request)


@pytest.mark.parametrize(
    ("partners", "notes", "message"),
    [
        ([1, 1], [b"", b""], "named twice"),
        ([2, 1], [b"", b""], "out of order"),
        ([7], [b""], "not on the roster"),
        ([0], [b""], "invalid"),
        ([0], [], "expected 1 notes"),
    ],
)
def test_requests_that_are_spoilt(partners, notes, message):
    """A client answers for other clients of the study only, once each."""
    meeting = three({(1, 1)}, set(), set())
    meeting.run()
    owns = meeting.clients[1].aligned.own.owns
    bits = [bytes(-(-len(partners) * size // 8)) for size in owns.shape]
    with pytest.raises(RemoteProtocolError, match=message):
        meeting.clients[1].handlers["known cells"](KnownRequest(partners, *bits, notes))


def test_a_note_is_bound_to_all_its_cells():
    """A server that shows two clients different common rows brings them nothing."""
    meeting = three({(1, 1)}, set(), set())
    meeting.run()
    at = meeting.wires[1].phases.index("known cells")
    request = decode(unframe(meeting.wires[1].down[at], TOKEN)[1], KnownRequest)
    fewer = msgspec.structs.replace(request, rows=b"\x00")
    with pytest.raises(RemoteProtocolError, match="note is invalid"):
        meeting.clients[1].handlers["known cells"](fewer)


def changed(**fields):
    """Return what replaces some of the fields of a partner's values."""
    return lambda known: msgspec.structs.replace(known, **fields)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (changed(numbers=b""), "asked for"),
        (changed(numbers=np.array([np.inf]).tobytes()), "cannot be in the cell"),
        (changed(kinds=bytes([len(KINDS)])), "cannot be in the cell"),
        (changed(kinds=bytes([KINDS.index("category")])), "cannot be in the cell"),
        (changed(levels=[" ICU"]), "blanks around it"),
        (changed(levels=[""]), "no cells in it"),
        (changed(levels=0), "no cells in it"),
    ],
)
def test_values_that_cannot_be(monkeypatch, spoil, message):
    """What a partner says is checked before it becomes a cell."""
    answer = blank_cells.SharedBlanks._answer
    monkeypatch.setattr(
        blank_cells.SharedBlanks, "_answer", lambda *given: spoil(answer(*given))
    )
    with pytest.raises(RemoteProtocolError, match=message):
        three({(1, 1)}, set(), set()).run()
