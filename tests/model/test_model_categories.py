"""Models with categories: features by name, and files that do not fit together."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from hyfdca.data.kinds import Column, table_of_columns
from hyfdca.model.categories import columns_of, features_of, level_features
from hyfdca.model.file import CategoryEntry, ScalingEntry, as_bytes, parse_model_file
from hyfdca.model.model import Model, ModelError
from tests.model.models import make_file

WARD = CategoryEntry(levels=("ER", "", "other"), reference="ICU", has_other=True)
SEX = CategoryEntry(levels=("m",), reference="f", has_other=False)
NAMES = ("age", "ward=ER", "ward=missing", 'ward="other"', "ward=other", "sex=m")


def file_with(weights=NAMES, missing="mean", **changes):
    """Return a model with a weight of 1, 10, 100, ... for its features."""
    numbers = {name: (10.0**n,) for n, name in enumerate(weights)}
    zeros = dict.fromkeys(weights, 0.0)
    scaling = ScalingEntry(
        scale="none",
        missing=missing,
        offsets=zeros,
        scales=dict.fromkeys(weights, 1.0),
        fillings=zeros,
    )
    given = {"categories": {"ward": WARD, "sex": SEX}, **changes}
    return make_file(weights=numbers, scaling=scaling, intercept=(0.0,), **given)


def table(wards, sexes, order=("ward", "sex", "age")):
    """Return rows of age 1."""
    levels = ("ER", "ICU", "new", "other"), ("f", "m")
    codes = [
        [own.index(name) + 1 if name else np.nan for name in names]
        for own, names in zip(levels, (wards, sexes), strict=True)
    ]
    columns = {
        "ward": Column("category", np.array(codes[0], float), levels[0]),
        "sex": Column("category", np.array(codes[1], float), levels[1]),
        "age": Column("number", np.ones(len(wards))),
    }
    ids = tuple(map(str, range(len(wards))))
    return table_of_columns(ids, tuple(order), [columns[name] for name in order])


def test_margins_by_hand():
    """Each level has its weight; what has none is the reference, or the others."""
    model = Model.of(file_with())
    rows = table(["ER", None, "other", "new", "ICU"], ["f", "m", "f", "f", None])
    expected = [1 + 10, 1 + 100 + 1e5, 1 + 1000, 1 + 10_000, 1]
    assert model.margins(rows)[:, 0].tolist() == expected
    assert model.inputs.columns == ("age", "ward", "sex")
    assert model.inputs.n_unknown(rows) == 2


def test_the_first_level_in_other_capitals_is_named():
    """Of several columns it is the model's first one, in every process."""
    names = tuple(f"column {number}" for number in range(8))
    entry = CategoryEntry(levels=("A",), reference="B", has_other=False)
    made = tuple(
        feature for name in names for feature in level_features(name, entry, 1)
    )
    inputs = Model.of(file_with(made, categories=dict.fromkeys(names, entry))).inputs
    column = Column("category", np.ones(1), ("a",))
    rows = table_of_columns(("1",), names, [column] * len(names))
    with pytest.raises(ModelError, match="'column 0' has the level 'a', which the"):
        inputs.check_levels(rows)


@pytest.mark.parametrize("order", [("ward", "age", "sex"), ("age", "ward", "sex")])
def test_columns_are_matched_by_name(order):
    """Their order does not matter."""
    model = Model.of(file_with())
    assert model.margins(table(["ER"], ["m"], order)).tolist() == [[1 + 10 + 1e5]]


def test_blank_cells():
    """A model that takes none refuses those of categories too."""
    model = Model.of(file_with(missing="refuse"))
    with pytest.raises(
        ModelError, match="1 cell is missing, the first in column 'ward'"
    ):
        model.margins(table([None], ["m"]))
    with pytest.raises(ModelError, match="has no column 'ward'"):
        model.margins(table(["ER"], ["m"], ("sex", "age")))


def test_names_and_columns_are_inverse():
    """Columns follow from features, and features from columns."""
    categories = {"ward": WARD, "sex": SEX}
    assert tuple(features_of(("age", "ward", "sex"), categories)) == NAMES
    assert columns_of(NAMES, categories) == ("age", "ward", "sex")
    hidden = CategoryEntry(levels=None, reference=None, has_other=False)
    assert level_features("ward", hidden, 2) == ["ward=#1", "ward=#2"]


def test_the_file_is_read_back():
    """It is, with and without fields that older files lack."""
    file = file_with(dates=("age",))
    assert parse_model_file(as_bytes(file), "path") == file
    old = msgspec.to_builtins(make_file())
    for key in ("categories", "dates", "date_origin"):
        del old[key]
    assert parse_model_file(msgspec.json.encode(old), "path") == make_file()


WRONG = {
    "a level twice": {
        "categories": {
            "sex": SEX,
            "ward": WARD.__class__(levels=("ER", "ER"), reference=None, has_other=True),
        }
    },
    "reference twice": {
        "categories": {
            "ward": WARD,
            "sex": CategoryEntry(levels=("m",), reference="m", has_other=False),
        }
    },
    "no weight": {
        "categories": {
            "ward": WARD,
            "sex": CategoryEntry(levels=("m", "x"), reference="f", has_other=False),
        }
    },
    "apart": {"weights": (*NAMES[1:2], "age", *NAMES[2:])},
}


@pytest.mark.parametrize("case", WRONG)
def test_categories_that_do_not_fit(case):
    """Levels named twice, or features that are not there or not together."""
    with pytest.raises(ModelError, match=r"names a level twice|not those of its cat"):
        Model.of(file_with(**WRONG[case]))
