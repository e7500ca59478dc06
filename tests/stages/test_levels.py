"""Levels agreed by tokens are those that a count in the clear would give."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.data.expansion import NOWHERE
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.levels.choice import choose_levels
from hyfdca.stages.levels.messages import LevelSettings
from tests.stages.alignment.alignments import OTHER_KEYS
from tests.stages.level_meetings import LevelMeeting, table_with
from tests.support.thoroughness import examples

WARDS = ["ICU", "ER", "attic", "été", None]


@st.composite
def holdings(draw):
    """Draw a column of levels and the rows that each of three clients holds."""
    wards = draw(st.lists(st.sampled_from(WARDS), min_size=1, max_size=25))
    rows = st.lists(st.sampled_from(range(len(wards))), unique=True, min_size=1)
    return wards, [draw(rows) for _ in range(3)]


def clear_choice(wards, held, min_count):
    """Return names with a feature, the most frequent names, and whether others are."""
    rows = {row for own in held for row in own}
    counts = Counter(wards[row] or "" for row in rows)
    common = {name for name, count in counts.items() if count >= min_count}
    top = max((counts[name] for name in common), default=0)
    most = {name for name in common if counts[name] == top}
    n_rare = sum(counts[name] for name in counts if name not in common)
    return common, most, bool(common) and n_rare >= min_count


@settings(max_examples=examples(60))
@given(holdings(), st.integers(1, 6))
def test_levels_are_those_of_a_count_in_the_clear(drawn, min_count):
    """Every row counts once, however many hold it, even rare levels and blanks."""
    wards, held = drawn
    tables = [table_with(rows, ward=[wards[r] for r in rows]) for rows in held]
    meeting = LevelMeeting(tables, LevelSettings(min_count))
    levels = meeting.run()
    common, most, has_other = clear_choice(wards, held, min_count)
    entry = levels.entries["ward"]
    assert entry.has_other == has_other
    assert {*entry.levels, entry.reference} - {None} == common
    assert entry.reference in (most or {None})
    assert levels.widths.tolist() == [len(entry.levels) + has_other]
    for rank, rows in enumerate(held):
        expansion = meeting.clients[rank].expansion
        cells = expansion.features(tables[rank].cells).toarray()
        names = [*entry.levels, *["other"] * has_other]
        own = [wards[row] or "" for row in rows]
        shown = [name if name in common else "other" for name in own]
        expected = [[float(name == level) for level in names] for name in shown]
        np.testing.assert_array_equal(cells, np.reshape(expected, cells.shape))


TABLES = [
    table_with(range(8), age=1.0, ward=["a"] * 3 + ["b"] * 3 + ["c", "d"]),
    table_with(range(6, 14), ward=["c", "d"] + ["e"] * 3 + ["f"] * 3, sex=["m"] * 8),
    table_with(range(14), age=1.0),
]


def test_the_keys_change_nothing():
    """Ties are broken by the tables, so features come in one order under any key."""
    first = LevelMeeting(TABLES, LevelSettings(2)).run()
    other = LevelMeeting(TABLES, LevelSettings(2), OTHER_KEYS).run()
    assert first.alignment.features == other.alignment.features
    assert first.entries == other.entries


def test_the_order_of_levels_means_nothing():
    """It is neither that of names nor that of rows, and differs by table."""
    names = [f"level {number:02d}" for number in range(12)]
    orders = set()
    for age in range(4):
        table = table_with(range(12), ward=names, age=float(age))
        levels = LevelMeeting([table], LevelSettings(1)).run()
        entry = levels.entries["ward"]
        orders.add((entry.reference, *entry.levels))
        assert {*entry.levels, entry.reference} == set(names)
    assert len(orders) == 4
    assert tuple(names) not in orders


@pytest.mark.parametrize("scheme", ["none", "stream", "bfv"])
def test_encrypted_equals_unencrypted(scheme):
    """The scheme changes nothing."""
    found = LevelMeeting(TABLES, LevelSettings(1), encryption=Encryption(scheme)).run()
    assert found.entries["ward"].has_other is False
    assert found.widths.tolist() == [1, 5, 0]
    assert found.entries == LevelMeeting(TABLES, LevelSettings(1)).run().entries


def test_the_axis_of_features():
    """A category's features stand where its column did, at all its holders."""
    levels = LevelMeeting(TABLES, LevelSettings(2)).run()
    assert levels.widths.tolist() == [1, 4, 0]  # a, b, e, f but one, and others
    axis = levels.alignment.layout.features
    assert [items.tolist() for items in axis.items] == [
        [0, 1, 2, 3, 4],
        [1, 2, 3, 4],
        [0],
    ]
    assert levels.alignment.features[0] == "age"
    assert levels.alignment.features[-1] == "ward=other"
    assert [i.tolist() for i in levels.numbers.items] == [[0], [], [0]]


def test_names_that_are_not_released():
    """Nobody is asked for them, and a client that is refuses."""
    meeting = LevelMeeting(TABLES, LevelSettings(2, releases_names=False))
    levels = meeting.run()
    assert levels.alignment.features == ("age", *(f"ward=#{n}" for n in range(1, 5)))
    assert all(len(wire.up) == 5 for wire in meeting.wires.values())


def test_names_that_look_like_ours():
    """Quotation marks distinguish levels called "other" and "missing" from ours."""
    wards = ["other"] * 3 + ["missing"] * 3 + [None] * 3 + ["x", "z"] + ['"other"'] * 4
    levels = LevelMeeting([table_with(range(15), ward=wards)], LevelSettings(2)).run()
    assert set(levels.alignment.features) == {
        'ward="other"',
        'ward="missing"',
        "ward=missing",
        "ward=other",
    }


def test_what_the_server_sees():
    """No name before names are released, and no count at all."""
    wards = ["a secret ward"] * 7 + ["another secret"] * 3
    table = table_with(range(10), ward=wards)
    meeting = LevelMeeting([table], LevelSettings(2, releases_names=False))
    meeting.run()
    seen = b"".join(reply for wire in meeting.wires.values() for reply in wire.up)
    assert b"secret" not in seen
    words = np.frombuffer(seen[: len(seen) // 8 * 8], "<i8")
    assert not np.isin(words, [3, 7]).any()


def test_two_columns_of_one_level_do_not_link():
    """The same name in another column has another token."""
    table = table_with(range(4), ward=["x"] * 4, floor=["x"] * 4)
    meeting = LevelMeeting([table])
    meeting.run()
    reply = meeting.wires[0].up[0]
    words = np.frombuffer(reply[-64:], "<u8")  # of two levels each
    assert len(set(words.tolist())) == 8


@pytest.mark.parametrize(
    ("counts", "kept", "reference", "has_other"),
    [
        ([5, 9, 9, 3, 2], [0, 2], 1, True),
        ([5, 9, 9, 3, 1], [0, 2], 1, False),
        ([5, 9, 9], [0, 2], 1, False),
        ([5, 0], [], 0, False),
        ([1, 2, 3], [], None, False),
        ([], [], None, False),
    ],
)
def test_choices(counts, kept, reference, has_other):
    """The most frequent level, of equals the first, is the reference.

    So are rare levels that are fewer than 5 rows even together.
    """
    choice = choose_levels(np.array(counts, np.int64), 5)
    assert choice.kept.tolist() == kept
    assert (choice.reference, choice.has_other) == (reference, has_other)
    assert choice.width == len(kept) + has_other
    nowhere = [] if reference is None else [choice.places[reference]]
    assert set(nowhere) <= {NOWHERE}
    rare = choice.places[np.array(counts) < 5]
    assert set(rare.tolist()) <= {len(kept) if has_other else NOWHERE}


def test_too_many_levels(monkeypatch):
    """A sentence says what to leave out."""
    monkeypatch.setattr("hyfdca.stages.levels.messages.MOST_LEVELS", 8)
    with pytest.raises(AlignmentError, match="have 9 levels together, more than 8"):
        LevelMeeting(TABLES).run()


@pytest.mark.parametrize(
    "wards", [(["ICU", "ER"], ["icu", "ER"]), (["a b", "ab"], ["ER", "ab"])]
)
def test_levels_that_are_written_differently(wards):
    """Capitals and blanks alone make no level, at one organisation or between two."""
    tables = [
        table_with([2 * k, 2 * k + 1], ward=own, site=["x", "y"])
        for k, own in enumerate(wards)
    ]
    watchful = LevelSettings(1, similar="refuse")
    with pytest.raises(AlignmentError, match="Column 'ward' has 1 level") as caught:
        LevelMeeting(tables, watchful).run()
    assert 'similar_levels = "allow"' in str(caught.value)
    allowed = LevelMeeting(tables, LevelSettings(1)).run()
    entry = allowed.entries["ward"]
    assert {*entry.levels, entry.reference} == {*wards[0], *wards[1]}


def test_different_levels_may_be_refused_and_pass():
    """Levels that differ in more, and blank ones, are not spellings of each other."""
    tables = [
        table_with([0, 1], ward=["ICU", None]),
        table_with([2, 3], ward=["ER", "ICU"]),
    ]
    levels = LevelMeeting(tables, LevelSettings(1, similar="refuse")).run()
    assert {*levels.entries["ward"].levels, levels.entries["ward"].reference} == {
        *("ICU", "ER", "")
    }
