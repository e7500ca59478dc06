"""Alignment by pseudonyms against plain sets of IDs; what it shows, and to whom."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from hyfdca.crypto.keys.pseudonyms import label_tokens
from hyfdca.data.tables import Table
from hyfdca.holdings.layout import Layout, with_bias
from hyfdca.protocol.client_session import decode, unframe
from hyfdca.stages.alignment import comparison
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.messages import AlignmentSettings, PlacementNotice, Rows
from tests.stages.alignment.alignments import (
    ANYHOW,
    CLASSIFICATION,
    KEYS,
    N_FEATURES,
    N_SAMPLES,
    OTHER_KEYS,
    TOKEN,
    Held,
    Meeting,
    consortia,
    id_of,
    label_of,
    make_table,
    name_of,
    numbered,
    sorted_by,
    value_of,
)


def aligned(consortium, settings=ANYHOW, keys=KEYS):
    meeting = Meeting([held.table for held in consortium], settings, keys)
    return meeting, meeting.run()


def assert_same_layout(left: Layout, right: Layout):
    assert left.labelled == right.labelled
    for a, b in ((left.samples, right.samples), (left.features, right.features)):
        assert a.n_items == b.n_items
        for items, others in zip(a.items, b.items, strict=True):
            np.testing.assert_array_equal(items, others)


# The outcome


@given(consortia())
def test_the_layout_is_that_of_clear_ids(consortium):
    """Samples and features are numbered as first holders have them, and matched."""
    _, alignment = aligned(consortium)
    samples = numbered([held.rows for held in consortium])
    features = numbered([held.columns for held in consortium])
    layout = alignment.layout
    assert layout.samples.n_items == N_SAMPLES
    assert alignment.features == tuple(map(name_of, features))
    assert alignment.classes == ("healthy", "unwell")
    assert layout.labelled == tuple(held.has_labels for held in consortium)
    for client, held in enumerate(consortium):
        rows = sorted(samples[row] for row in held.rows)
        columns = sorted(features[column] for column in held.columns)
        assert layout.samples.items[client].tolist() == rows
        assert layout.features.items[client].tolist() == columns


@given(consortia())
def test_clients_know_their_own_place(consortium):
    """Each client has its own cells and labels in order and knows what it counts."""
    meeting, alignment = aligned(consortium)
    samples = numbered([held.rows for held in consortium])
    features = numbered([held.columns for held in consortium])
    bias = with_bias(alignment.layout)
    for client, held in enumerate(consortium):
        own = meeting.clients[client].aligned
        rows, columns = sorted_by(held.rows, samples), sorted_by(held.columns, features)
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                assert own.cells[i, j] == value_of(row, column)
                first = next(
                    k
                    for k, other in enumerate(consortium)
                    if row in other.rows and column in other.columns
                )
                place = own.own.row_groups[i], own.own.column_groups[j]
                assert own.own.owns[place] == (first == client)
        assert own.features == tuple(map(name_of, columns))
        assert own.n_samples == N_SAMPLES
        if held.has_labels:
            expected = [1.0 if row % 2 else -1.0 for row in rows]
            assert own.targets.encoded[:, 0].tolist() == expected
        else:
            assert own.targets is None
        labelled = [k for k, other in enumerate(consortium) if other.has_labels]
        counting = [
            min(k for k in labelled if row in consortium[k].rows) for row in rows
        ]
        assert own.counts_sample.tolist() == [k == client for k in counting]
        counting = [
            min(k for k, other in enumerate(consortium) if column in other.columns)
            for column in columns
        ]
        assert own.counts_feature.tolist() == [k == client for k in counting]
        assert own.counts_bias == (bias.feature_designees[-1] == client)


@given(consortia())
def test_groups_are_owner_groups(consortium):
    """Two rows of a client are of one group if the same clients hold both."""
    meeting, _ = aligned(consortium)
    samples = numbered([held.rows for held in consortium])
    for held, client in zip(consortium, meeting.clients, strict=True):
        rows = sorted_by(held.rows, samples)
        sets = [tuple(row in other.rows for other in consortium) for row in rows]
        groups = client.aligned.own.row_groups.tolist()
        assert len(set(zip(groups, sets, strict=True))) == len(set(groups))
        assert len(set(sets)) == len(set(groups))


@given(consortia())
def test_the_keys_change_nothing(consortium):
    """With another key the outcome and all that clients receive are the same bits."""
    meeting, alignment = aligned(consortium)
    other, same = aligned(consortium, keys=OTHER_KEYS)
    assert_same_layout(alignment.layout, same.layout)
    assert alignment.features == same.features
    for wire, twin in zip(meeting.wires, other.wires, strict=True):
        assert wire.down == twin.down


@given(consortia())
def test_hidden_names(consortium):
    """Hidden feature names do not reach the server, and change nothing else."""
    _, open_alignment = aligned(consortium)
    meeting, alignment = aligned(consortium, replace(ANYHOW, hide_feature_names=True))
    assert_same_layout(alignment.layout, open_alignment.layout)
    assert b"blood" not in meeting.seen
    assert len(set(alignment.features)) == len(open_alignment.features)
    assert all(len(name) == 32 for name in alignment.features)


def test_clients_that_hold_nothing():
    """A client may have no rows, or no columns."""
    held = [Held([], [0]), Held([0, 1, 2], []), Held([1, 0], [0, 1])]
    meeting, alignment = aligned(held)
    assert [len(items) for items in alignment.layout.samples.items] == [0, 3, 2]
    assert [client.aligned.cells.shape for client in meeting.clients] == [
        (0, 1),
        (3, 0),
        (2, 2),
    ]


def test_regression():
    """Labels are numbers, and there are no classes."""
    table = replace(make_table([0, 1], [0, 1]), labels=("1.5", "-2"))
    meeting = Meeting([table], AlignmentSettings("regression"))
    assert meeting.run().classes == ()
    found = meeting.clients[0].aligned.targets.encoded
    np.testing.assert_array_equal(found, [[1.5], [-2.0]])


@pytest.mark.parametrize(
    ("labels", "positive", "classes"),
    [
        ((("10", "9"), ("9", "b")), None, ("9", "10", "b")),
        ((("x", "y"), ("y", "y")), "x", ("y", "x")),
        ((("x", "y"), ("y", "z")), "x", ("rest", "x")),
        ((("y", "z"), ("z", "x")), "x", ("rest", "x")),
        ((("rest", "y"), ("y", "z")), "rest", ("not rest", "rest")),
        ((("y", "y"), ("y", "x")), "x", ("y", "x")),
    ],
)
def test_classes(labels, positive, classes):
    """Classes are sorted, numbers as numbers; the positive one comes last."""
    settings = AlignmentSettings("classification", positive)
    tables = [
        replace(make_table(rows, [0]), labels=own)
        for rows, own in zip(([0, 1], [1, 2]), labels, strict=True)
    ]
    meeting = Meeting(tables, settings)
    assert meeting.run().classes == classes
    for client, own in zip(meeting.clients, labels, strict=True):
        found = client.aligned.targets.encoded
        if len(classes) == 2:
            expected = [[1.0 if label == classes[1] else -1.0] for label in own]
        else:
            expected = [[1.0 if label == c else -1.0 for c in classes] for label in own]
        assert found.tolist() == expected


def test_other_classes_stay_unnamed():
    """With a positive label a client with several others names none of them."""
    labels = ("secret-one", "secret-two", "yes")
    table = replace(make_table([0, 1, 2], [0]), labels=labels)
    meeting = Meeting([table], AlignmentSettings("classification", "yes"))
    assert meeting.run().classes == ("rest", "yes")
    assert b"secret" not in meeting.seen


# What is shown


@given(consortia())
def test_the_server_sees_no_id_and_no_value(consortium):
    """No ID and no number of a table is in any byte that the server saw."""
    meeting, _ = aligned(consortium)
    for held in consortium:
        for row in held.rows:
            assert id_of(row).encode() not in meeting.seen
            assert f"patient-{row:05d}".encode() not in meeting.seen
            for value in filter(None, (value_of(row, c) for c in held.columns)):
                assert struct.pack("<d", value) not in meeting.seen
                assert struct.pack(">d", value) not in meeting.seen


def test_the_server_sees_no_label():
    """No label of a row is shown: numbers not at all, classes once as a set."""
    numbers = tuple(f"{1000.125 + row}" for row in range(N_SAMPLES))
    table = replace(make_table(list(range(N_SAMPLES)), [0]), labels=numbers)
    meeting = Meeting([table, table], AlignmentSettings("regression"))
    meeting.run()
    for number in numbers:
        assert number.encode() not in meeting.seen
        assert struct.pack("<d", float(number)) not in meeting.seen
    meeting = Meeting([replace(table, labels=tuple(map(label_of, range(N_SAMPLES))))])
    meeting.run()
    assert meeting.seen.count(b"unwell") == 1


def test_the_server_and_one_client_find_all_labels():
    """They have the key and few classes to try, as docs/threat-model.md says."""
    rows = [range(4), range(3, N_SAMPLES)]
    meeting = Meeting([make_table([*own], [0]) for own in rows])
    meeting.run()
    for own, wire in zip(rows, meeting.wires, strict=True):
        shown = decode(unframe(wire.up[0], TOKEN)[1], Rows)
        pseudonyms = np.frombuffer(shown.pseudonyms, "<u8").reshape(-1, 2)
        seen = np.frombuffer(shown.label_tokens, "<u8")
        for name in shown.classes:
            is_right = label_tokens(pseudonyms, [name] * len(own), KEYS) == seen
            assert is_right.tolist() == [label_of(row) == name for row in own]


@given(consortia())
def test_studies_do_not_link(consortium):
    """Under another key no word of a pseudonym or token occurs again."""
    hidden = replace(ANYHOW, hide_feature_names=True)
    words = []
    for keys in (KEYS, OTHER_KEYS):
        meeting, _ = aligned(consortium, hidden, keys)
        shown = [decode(unframe(wire.up[0], TOKEN)[1], Rows) for wire in meeting.wires]
        keyed = [
            part or b""
            for own in shown
            for part in (own.pseudonyms, own.hidden_features, own.label_tokens)
        ]
        every = np.concatenate([np.frombuffer(part, "<u8") for part in keyed])
        words.append(set(every.tolist()))
    assert words[0].isdisjoint(words[1])
    assert len(words[0]) >= 2 * N_SAMPLES


def test_rows_of_zeros_do_not_show():
    """Tokens of cells differ from row to row, also where all cells are zero."""
    cells = sp.csr_array((4, 2))
    table = replace(make_table([0, 1, 2, 3], [0, 1]), cells=cells)
    meeting = Meeting([table, table])
    meeting.run()
    [_, _, reply] = meeting.wires[0].up
    tokens = np.frombuffer(reply[-32:], dtype=np.uint64)
    assert len(set(tokens.tolist()) - {0}) == 4


def test_a_client_does_not_learn_who_holds():
    """What a client receives does not show which lower-ranked client has a cell."""
    shared, mine = Held([0, 1, 2], [0, 1]), Held([2, 1, 3], [1, 2])
    others = Held([4, 5], [0, 1, 2])
    received = []
    for order in ([shared, others, mine], [others, shared, mine]):
        meeting, _ = aligned(order)
        received.append(meeting.wires[2].down)
    assert received[0] == received[1]


# Cells held twice


def spoiled(table: Table, places, value) -> Table:
    cells = table.cells.toarray()
    for place in places:
        cells[place] = value
    return replace(table, cells=sp.csr_array(cells))


def test_dense_and_sparse_tables_agree():
    """Stored zeros, zeros that are not stored and -0.0 are the same cells."""
    dense = make_table([0, 1, 2, 3], [0, 1])
    sparse = replace(dense, cells=sp.csr_array(dense.cells.toarray()))
    assert sparse.cells.nnz < dense.cells.nnz
    negative = dense.cells.copy()
    negative.data[negative.data == 0.0] = -0.0
    Meeting([dense, sparse, replace(dense, cells=negative)]).run()


def test_missing_cells_agree_with_missing_cells():
    """A missing cell agrees with a missing one, and with no number."""
    table = make_table([0, 1, 2, 3], [0, 1])
    gaps = spoiled(table, [(0, 1), (2, 0)], np.nan)
    Meeting([gaps, gaps]).run()
    with pytest.raises(AlignmentError, match="'org0' and 'org1' in 2 rows"):
        Meeting([table, gaps]).run()


@given(consortia())
def test_disagreeing_cells_are_counted(consortium):
    """The error names columns, and counts rows by pairs of a holder and the owner."""
    tables = [held.table for held in consortium]
    tables = [
        spoiled(table, [(0, 0), (1, -1)], -77.0 - k) if held.columns else table
        for k, (held, table) in enumerate(zip(consortium, tables, strict=True))
    ]
    found: dict[tuple[int, int], set[int]] = {}
    differing: set[int] = set()
    values: dict[tuple[int, int], tuple[int, float]] = {}
    for client, (held, table) in enumerate(zip(consortium, tables, strict=True)):
        cells = table.cells.toarray()
        for i, row in enumerate(held.rows):
            for j, column in enumerate(held.columns):
                owner, value = values.setdefault((row, column), (client, cells[i, j]))
                if value != cells[i, j]:
                    found.setdefault((owner, client), set()).add(row)
                    differing.add(column)
    if not found:
        Meeting(tables, ANYHOW).run()
        return
    with pytest.raises(AlignmentError, match="different values in cells") as caught:
        Meeting(tables, ANYHOW).run()
    named = [
        f"'org{a}' and 'org{b}' in {len(rows)} row{'s' * (len(rows) > 1)}"
        for (a, b), rows in found.items()
    ]
    assert sum(text in str(caught.value) for text in named) == min(3, len(named))
    listed = str(caught.value).partition("; correct")[0].partition(", in column")[2]
    is_named = {column for column in range(N_FEATURES) if name_of(column) in listed}
    assert is_named <= differing
    assert len(is_named) == min(3, len(differing))
    first = replace(ANYHOW, disagreeing_cells="first")
    Meeting(tables, first).run()


def test_cells_are_asked_for_in_parts(monkeypatch):
    """Fewer tokens per answer mean more exchanges and the same result."""
    rows = list(range(N_SAMPLES))
    held = [Held(rows, [0, 1, 2]), Held(rows, [1, 2, 3]), Held(rows, [2, 3, 0])]
    meeting, _ = aligned(held, CLASSIFICATION)
    assert meeting.traffic.round_trips == 2.5
    monkeypatch.setattr(comparison, "_MOST_TOKENS", 1)
    meeting, _ = aligned(held, CLASSIFICATION)
    assert meeting.traffic.round_trips == 1.5 + 4  # column groups held twice
    tables = [own.table for own in held]
    tables[2] = spoiled(tables[2], [(0, 0), (0, 2), (1, 1)], 5.0)
    with pytest.raises(AlignmentError, match="'org0' and 'org2' in 1 row") as caught:
        Meeting(tables).run()
    assert "'org1' and 'org2' in 1 row" in str(caught.value)


def test_nothing_is_asked_where_nothing_is_held_twice():
    """Without a cell held twice, or without refusing, no tokens of cells are sent."""
    meeting, _ = aligned([Held([0, 1], [0]), Held([1, 0], [1])])
    assert meeting.traffic.round_trips == 1.5
    first = replace(CLASSIFICATION, disagreeing_cells="first")
    meeting, _ = aligned([Held([0, 1], [0]), Held([1, 0], [0])], first)
    assert meeting.traffic.round_trips == 1.5


def test_a_notice_has_no_more_than_it_says():
    """The server tells orders, groups, flags and classes."""
    meeting, _ = aligned([Held([0, 1], [0]), Held([1, 0], [1])])
    _, body = unframe(meeting.wires[1].down[1], TOKEN)
    notice = decode(body, PlacementNotice)
    assert notice.classes == ["healthy", "unwell"]
    assert len(body) < 100
