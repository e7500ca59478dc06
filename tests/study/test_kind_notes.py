"""Sentences about columns that are not numbers."""

from __future__ import annotations

import numpy as np

from hyfdca.data.kinds import Column, table_of_columns
from hyfdca.data.tables import DATE_ORIGIN
from hyfdca.stages.levels.messages import LevelSettings
from hyfdca.study.kind_notes import kind_notes
from tests.stages.level_meetings import LevelMeeting, category, table_with


def test_a_level_called_missing():
    """It is told from blank cells, as in the names of features."""
    wards = ["missing"] * 3 + [None] * 3 + ["ICU"] * 4
    levels = LevelMeeting([table_with(range(10), ward=wards)], LevelSettings(2)).run()
    (note,) = kind_notes(levels, DATE_ORIGIN, ["north"])
    assert "'missing'" in note
    assert "'\"missing\"'" in note
    assert note.endswith("compared with 'ICU'.")


def test_one_feature():
    """A category of two levels has one."""
    sexes = table_with(range(10), sex=["f"] * 6 + ["m"] * 4)
    levels = LevelMeeting([sexes], LevelSettings(2)).run()
    (note,) = kind_notes(levels, DATE_ORIGIN, ["north"])
    assert note == "The category 'sex' has 1 feature: 'm', compared with 'f'."


def test_columns_without_values_and_single_features():
    """A column that nobody has values of is named, as its weight is 0."""
    sex, blank = category(["f"] * 5 + ["m"] * 5), np.full(10, np.nan)
    ids = tuple(f"r{row}" for row in range(10))
    columns = [sex, Column("blank", blank)]
    table = table_of_columns(ids, ("sex", "lactate"), columns)
    levels = LevelMeeting([table], LevelSettings(2)).run()
    notes = kind_notes(levels, DATE_ORIGIN, ["north"])
    assert notes[0] == "No cell has a value, so the weight is 0: 'lactate'."
    assert notes[1].startswith("The category 'sex' has 1 feature: ")
