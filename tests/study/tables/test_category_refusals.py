"""What is refused of categories, and what is said about them."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.errors import StudyError
from hyfdca.study.local.training import train_file
from tests.support.mixed_tables import (
    MixedStudy,
    assert_is_pooled,
    mixed_frame,
    references_of,
    trained,
)

pytestmark = pytest.mark.usefixtures("no_figure")


def change(name, column, values):
    def spoil(study):
        study.tables[name][column] = values(study.tables[name][column])

    return spoil


REFUSED = {
    "text and numbers": (
        change("coast", "age", lambda own: own.map(lambda age: f"about {age:.0f}")),
        "Column 'age' has numbers at 'north' but text at 'coast'; set categorical = "
        '["age"]',
    ),
    "dates and numbers": (
        change("coast", "admitted", lambda own: own.astype("int64")),
        "Column 'admitted' has dates at 'city' but numbers at 'coast'; set categorical",
    ),
    "cells of categories": (
        change("city", "ward", lambda own: own.mask(own.index == 3, "hall")),
        "'north' and 'city' in 1 row",
    ),
    "mixed column": (
        change("north", "ward", lambda own: own.mask(own.index == 3, "12")),
        "column 'ward' of north.csv has 69 cells that are not numbers; correct them, "
        'set categorical = ["ward"]',
    ),
    "taken name": (
        lambda study: study.tables["city"].insert(1, "ward=hall", 1.5),
        "The columns 'ward' and 'ward=hall' both become a feature 'ward=hall'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(tmp_path, case):
    """One sentence names the column and the settings."""
    spoil, message = REFUSED[case]
    study = MixedStudy(settings={"uncovered": '"mean"'})
    spoil(study)
    with pytest.raises(StudyError) as raised:
        trained(study, tmp_path)
    assert message in str(raised.value)


SETTINGS = {
    "categorical": (
        '["wards", "code"]',
        "categorical names 'wards', which is a feature of no",
    ),
    "min_level_count": ("0", "min_level_count"),
    "date_origin": ('"2000-13-01"', "date_origin"),
}


@pytest.mark.parametrize("key", SETTINGS)
def test_wrong_settings(tmp_path, key):
    """One sentence names the key."""
    value, message = SETTINGS[key]
    with pytest.raises(StudyError, match=message):
        trained(MixedStudy(settings={key: value}), tmp_path)


def test_true_and_false_are_numbers_elsewhere(tmp_path):
    """A column of 0 and 1 fits one of true and false."""
    study = MixedStudy()
    study.tables["coast"]["smoker"] = study.tables["coast"]["smoker"].astype(int)
    assert_is_pooled(trained(study, tmp_path), mixed_frame())


def test_true_and_false_are_not_other_numbers(tmp_path):
    """A column of 1 and 2 does not fit one of true and false, whatever is shared."""
    study = MixedStudy(settings={"allow_unshared": "true"})
    for name, start in (("north", 0), ("city", 1000), ("coast", 2000)):
        own = study.tables[name]
        own["patient"] = [f"Q{start + row}" for row in range(len(own))]
    study.tables["coast"]["smoker"] = study.tables["coast"]["smoker"].astype(int) + 1
    message = "'smoker' is yes or no at 'north', but .* 0 and 1 at 'coast'; write 1 for"
    with pytest.raises(StudyError, match=message):
        trained(study, tmp_path)


def test_a_column_that_is_blank_somewhere(tmp_path):
    """It is what it is elsewhere: here a category, whose blank cells are a level."""
    frame = mixed_frame()
    frame.loc[:49, "code"] = None
    outcome = trained(MixedStudy(frame, {"missing": '"mean"'}), tmp_path)
    assert "code=missing" not in outcome.run.consortium.features  # the reference
    assert references_of(outcome)["code"] == "missing"
    assert_is_pooled(outcome, frame)


def test_what_is_shown(tmp_path):
    """Every column that is not of numbers is mentioned, with what is done with it."""
    outcome = trained(MixedStudy(settings={"tol": "1e-2"}), tmp_path)
    notes = outcome.summary().notes
    assert "Dates become days since 2000-01-01: 'admitted'." in notes
    assert "True and false become 1 and 0: 'smoker'." in notes
    [ward] = [note for note in notes if "'ward'" in note]
    assert ward.startswith("The category 'ward' has 5 features: ")
    assert ward.endswith(", compared with 'ICU'.")


def test_the_origin_of_dates(tmp_path):
    """Another one moves the means of dates, and nothing else."""
    own = {"tol": "1e-2"}
    first = trained(MixedStudy(settings=own), tmp_path)
    own["date_origin"] = "1999-12-31"
    second = trained(MixedStudy(settings=own), tmp_path)
    place = first.run.consortium.features.index("admitted")
    moved = second.run.scaling.offset - first.run.scaling.offset
    assert moved[place] == pytest.approx(1.0)
    assert np.count_nonzero(np.abs(moved) > 1e-9) == 1
    assert second.model().date_origin.isoformat() == "1999-12-31"


def test_all_levels_are_rare(tmp_path):
    """A category of names says nothing, and that is said."""
    study = MixedStudy(settings={"tol": "1e-2", "min_level_count": "1000"})
    path = study.write(tmp_path)
    outcome = train_file(path, tmp_path / "out", lambda *_: None)
    assert not [name for name in outcome.run.consortium.features if "=" in name]
    assert "The category 'ward' has 0 features: it has a single level" in "".join(
        outcome.summary().notes
    )


def test_pandas_categories(tmp_path):
    """A pandas category is one by type, even if its levels look like numbers."""
    study = MixedStudy(settings={"tol": "1e-2", "categorical": "[]"})
    for name in ("city", "island"):  # those with Parquet files
        study.tables[name]["code"] = study.tables[name]["code"].astype("category")
    outcome = trained(study, tmp_path)
    names = {name for name in outcome.run.consortium.features if "code" in name}
    assert names < {"code=007", "code=7", "code=12"}
    assert len(names) == 2
