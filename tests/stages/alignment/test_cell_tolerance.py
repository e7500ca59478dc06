"""Cells held twice that differ by rounding: always the same, and others never."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.crypto.keys.notes import NoteError, open_note, seal_note
from hyfdca.maths.seeds import stream
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.messages import (
    AlignmentSettings,
    CellsRequest,
    Hints,
    HintsRequest,
)
from hyfdca.stages.alignment.rounding import choose_grids, round_values
from tests.stages.alignment.alignments import (
    ANYHOW,
    Meeting,
    consortia,
    make_table,
    name_of,
)

TOLERANT = AlignmentSettings("classification", cell_tolerance=1e-6)
ROWS = list(range(30))
TOLERANCES = st.sampled_from([1e-10, 1e-6, 1e-3, 0.1])
VALUES = st.floats(1e-90, 1e90) | st.floats(-1e90, -1e-90)


def same(owner, other, tolerance):
    """Return whether an owner's value and another holder's agree."""
    a, b = np.array([owner]), np.array([other])
    grid = choose_grids(a, tolerance)
    return bool(round_values(a, grid, tolerance) == round_values(b, grid, tolerance))


@given(VALUES, st.floats(-1.0, 1.0), TOLERANCES)
def test_values_within_the_tolerance_agree(value, share, tolerance):
    """Close values become equal wherever they lie on the grid."""
    other = value * (1.0 - share * tolerance)
    assert same(value, other, tolerance)
    assert same(other, value, tolerance)


@given(VALUES, st.floats(4.0, 9.0), TOLERANCES)
def test_values_beyond_four_tolerances_differ(value, factor, tolerance):
    """Values that are clearly different never agree, nor do those of other sign."""
    assert not same(value, value * (1.0 - factor * tolerance), tolerance)
    assert not same(value, -value, tolerance)


def tables(change):
    """Return tables of three organisations, all but the first with changed cells."""
    held = [make_table(ROWS, [0, 1, 2]), make_table(ROWS[5:], [2, 0, 3])]
    held.append(make_table(ROWS[::-2], [3, 1, 0]))
    return [held[0], *(replace(own, cells=change(own.cells)) for own in held[1:])]


def as_float32(cells):
    return cells.astype(np.float32).astype(np.float64)


def nudged(relative, seed=3):
    """Return a change of all cells by at most this share."""

    def change(cells):
        random = stream(seed, "nudges").uniform(-1.0, 1.0, cells.nnz)
        changed = cells.copy()
        changed.data = cells.data * (1.0 + relative * random)
        return changed

    return change


@pytest.mark.parametrize("change", [as_float32, nudged(4e-7), nudged(0.0)])
def test_rounded_cells_are_the_same(change):
    """Cells in single precision or with rounding differences pass, and stay as is."""
    meeting = Meeting(tables(change), TOLERANT)
    alignment = meeting.run()
    assert alignment.features == tuple(map(name_of, range(4)))
    for client, table in zip(meeting.clients, meeting.tables, strict=True):
        own = client.aligned
        order = [table.features.index(name) for name in own.features]
        expected = table.cells[client.order][:, order].toarray()
        assert np.array_equal(own.cells.toarray(), expected)


def test_without_a_tolerance_cells_must_be_equal():
    """A tolerance of zero compares bits, and says where it is set."""
    with pytest.raises(AlignmentError, match="raise cell_tolerance") as caught:
        Meeting(tables(nudged(1e-7)), replace(TOLERANT, cell_tolerance=0.0)).run()
    assert "'org0' and 'org1' in 25 rows" in str(caught.value)


def test_cells_beyond_the_tolerance_are_counted():
    """Only rows with a clearly different cell count, not those that were rounded."""
    made = tables(as_float32)
    cells = made[1].cells.toarray()
    cells[3, 0] *= 1.25
    cells[4, 1] = 0.0
    made[1] = replace(made[1], cells=sp.csr_array(cells))
    with pytest.raises(AlignmentError) as caught:
        Meeting(made, TOLERANT).run()
    assert (
        "share: 'org0' and 'org1' in 2 rows, in columns 'blood pressure 000' and "
        "'blood pressure 002'; " in str(caught.value)
    )
    assert "(relative, now 1e-06)" in str(caught.value)


def test_missing_cells_are_no_number():
    """A missing cell agrees with a missing one alone, with any tolerance."""
    gaps = make_table(ROWS, [0, 1])
    cells = gaps.cells.toarray()
    cells[2, 1] = np.nan
    gaps = replace(gaps, cells=sp.csr_array(cells))
    rounded = replace(gaps, cells=sp.csr_array(as_float32(gaps.cells)))
    Meeting([gaps, rounded], TOLERANT).run()
    with pytest.raises(
        AlignmentError, match="'org0' and 'org1' in 1 row, in"
    ) as caught:
        Meeting([make_table(ROWS, [0, 1]), rounded], TOLERANT).run()
    assert "in column 'blood pressure 001'; correct them" in str(caught.value)
    assert 'write ignore = ["blood pressure 001"] below' in str(caught.value)


@given(consortia(), st.sampled_from([1e-7, 1e-5]))
def test_every_consortium(consortium, difference):
    """For all holdings, differences of a tenth of the tolerance pass, of ten fail."""
    held = [own.table for own in consortium]
    changed = [
        replace(own, cells=sp.csr_array(own.cells * (1.0 + difference * rank)))
        for rank, own in enumerate(held)
    ]
    settings = replace(ANYHOW, cell_tolerance=1e-6)
    if difference < 1e-6:
        Meeting(changed, settings).run()
        return
    exact = _outcome(changed, ANYHOW)
    assert _outcome(changed, settings) == exact.replace("now 0", "now 1e-06")


def _outcome(held, settings):
    try:
        Meeting(held, settings).run()
    except AlignmentError as error:
        return str(error)
    return ""


def test_equal_cells_cost_nothing_more():
    """Hints are exchanged only where exact tokens differ."""
    meeting = Meeting(tables(nudged(0.0)), TOLERANT)
    meeting.run()
    assert meeting.traffic.round_trips == 2.5
    meeting = Meeting(tables(as_float32), TOLERANT)
    meeting.run()
    assert meeting.traffic.round_trips == 4.5


# Hostile parties


def test_hints_are_sealed_and_bound_to_their_place():
    """A note opens with its key at its place, unchanged, and nowhere else."""
    key, content = b"k" * 32, b"two bits"
    note = seal_note(content, b"here", key)
    assert content not in note
    assert open_note(note, b"here", key) == content
    spoilt = [
        (note, b"there", key),
        (note, b"here", b"K" * 32),
        (note[:-1], b"here", key),
        (note[:5], b"here", key),
        (bytes([note[0] ^ 1]) + note[1:], b"here", key),
    ]
    for case in spoilt:
        with pytest.raises(NoteError):
            open_note(*case)


def test_hints_that_are_exchanged_are_refused():
    """A server that swaps or drops hints is found out."""
    for spoil in (
        lambda reply: Hints(reply.hints[::-1]),
        lambda reply: Hints(reply.hints[:-1]),
        lambda reply: Hints([b"", *reply.hints[1:]]),
    ):
        meeting = Meeting(tables(as_float32), TOLERANT)
        meeting.wires[0].tamper["hints"] = (Hints, spoil)
        with pytest.raises(RemoteProtocolError, match="hint"):
            meeting.run()


def test_hints_are_given_only_of_own_cells():
    """A client gives no hints of cells that it does not own, or without a tolerance."""
    meeting = Meeting(tables(as_float32), TOLERANT)
    meeting.run()
    columns, rows = np.array([0], "<u4").tobytes(), b"\xff"
    with pytest.raises(RemoteProtocolError, match="that others own"):
        meeting.clients[2].handlers["hints"](HintsRequest(columns, rows))
    exact = Meeting(tables(nudged(0.0)), replace(TOLERANT, cell_tolerance=0.0))
    exact.run()
    with pytest.raises(RemoteProtocolError, match="does not round"):
        exact.clients[0].handlers["hints"](HintsRequest(columns, rows))
    with pytest.raises(RemoteProtocolError, match="does not round"):
        exact.clients[1].handlers["cells"](CellsRequest(columns, rows, []))
