"""Rules that assign rows by what they are, not by where they stand."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from hyfdca.holdings.partition import grid
from hyfdca.holdings.rules import by_column, by_function
from tests.support.consortia import assert_one_sentence

FEATURES = {"north": ["a", "b"], "city": ["b"], "lab": ["c"]}


@pytest.fixture
def frame():
    """Return a table with a column that says who holds a row."""
    return pd.DataFrame(
        {
            "a": np.arange(6.0),
            "site": ["north", "city", "north", "city", "city", "north"],
            "b": np.arange(6.0),
            "c": np.arange(6.0),
        }
    )


def held(partition):
    """Return who holds what as plain lists."""
    return [(h.samples.tolist(), h.features.tolist()) for h in partition.holdings]


def test_a_column_says_who_holds_a_row(frame):
    """Columns are numbered without it; a client may hold rows of several values."""
    rule = by_column("site", FEATURES, rows={"lab": ["north", "city"]})
    assert rule.features(frame).columns.tolist() == ["a", "b", "c"]
    assert held(rule.partition(frame)) == [
        ([0, 2, 5], [0, 1]),
        ([1, 3, 4], [1]),
        ([0, 1, 2, 3, 4, 5], [2]),
    ]


def test_any_part_of_a_table_is_assigned_as_the_whole(frame):
    """Each row stays with its client, in any selection and order."""
    rule = by_column("site", FEATURES, rows={"lab": ["north", "city"]})
    chosen = [4, 0, 3]
    part = rule.partition(frame.iloc[chosen])
    for holding, whole in zip(
        part.holdings, rule.partition(frame).holdings, strict=True
    ):
        rows = {chosen[row] for row in holding.samples}
        assert rows == set(whole.samples) & set(chosen)
    assert held(rule.partition(frame.iloc[[1, 3]]))[0] == ([], [0, 1])


def test_by_default_each_value_is_a_client(frame):
    """It holds all features; clients are in the order of the values."""
    everything = [0, 1, 2]
    assert held(by_column("site").partition(frame)) == [
        ([1, 3, 4], everything),
        ([0, 2, 5], everything),
    ]
    frame["site"] = frame["site"].astype("category")
    assert len(held(by_column("site").partition(frame.iloc[[0, 2]]))) == 1


def test_rows_to_predict_need_no_column(frame):
    """Their features suffice."""
    rule = by_column("site")
    features = frame.drop(columns="site")
    assert rule.features(features) is features
    values = features.to_numpy()
    assert rule.features(values) is values


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda f: by_column("ward").partition(f), "data frame with the column 'ward'"),
        (
            lambda f: by_column("site").partition(f[["a", "b"]].to_numpy()),
            "data frame with the column 'site'",
        ),
        (
            lambda f: by_column("site", {"north": ["a", "z"]}).partition(f),
            "no column 'z' for the client 'north'",
        ),
        (
            lambda f: by_column("site", {"north": ["a"]}).partition(f),
            "No client holds 3 rows in which the column 'site' is 'city'; .*by_column",
        ),
        (
            lambda f: by_column("site").partition(f.replace("city", None)),
            "No client holds 3 rows in which the column 'site' is blank; ",
        ),
        (
            lambda f: by_column("site", FEATURES).partition(
                f.assign(site=["north", None, "sea", "city", "city", "hill"])
            ),
            "holds 3 rows in which the column 'site' is blank, 'hill', 'sea'; ",
        ),
        (
            lambda f: by_function(lambda X: {"north": ["a", "b", "c"]}).partition(f),
            "pair .rows, columns. per client, but that of 'north' is not a pair",
        ),
        (
            lambda f: by_function(lambda X: None).partition(f),
            "must return a Partition, .*, but it returned NoneType",
        ),
        (
            lambda f: by_function(lambda X: {"north": (None, ["z"])}).partition(f),
            "no column 'z' for the client 'north'",
        ),
        (
            lambda f: by_column("site", FEATURES, rows={"labs": ["north"]}),
            "client 'labs', which features does not",
        ),
        (lambda f: by_function([1, 2]), "needs a function"),
        (
            lambda f: by_function(lambda X: [(range(6), ["z"])]).partition(f),
            "no column 'z' for the client 'client 0'",
        ),
    ],
)
def test_rules_that_do_not_fit_are_refused(make, sentence, frame):
    """One sentence names the client or the column."""
    with pytest.raises(ValueError, match=sentence) as caught:
        make(frame)
    assert_one_sentence(f"{caught.value}\n")


def test_a_function_says_who_holds_what(frame):
    """It may do so by mask or number, by name or number, or as a partition."""
    features = frame.drop(columns="site")

    def by_size(X):
        is_large = X["a"] > 2
        return [(is_large, ["a", "c"]), (~is_large, [0, 1]), (range(6), ["b"])]

    rule = by_function(by_size)
    assert rule.features(features) is features
    assert held(rule.partition(features)) == [
        ([3, 4, 5], [0, 2]),
        ([0, 1, 2], [0, 1]),
        ([0, 1, 2, 3, 4, 5], [1]),
    ]

    def in_halves(X):
        is_large = X[:, [0]].toarray()[:, 0] > 2
        return [(is_large, range(3)), (~is_large, range(3))]

    halves = by_function(in_halves)
    sparse = sp.csr_array(features.to_numpy())
    assert held(halves.partition(sparse)) == [
        ([3, 4, 5], [0, 1, 2]),
        ([0, 1, 2], [0, 1, 2]),
    ]
    whole = grid(6, 3, (2, 1))
    assert by_function(lambda X: whole).partition(features) is whole


def test_a_function_may_name_clients(frame):
    """Its dict means what it means to ``partition_of_frame``: index labels, or all."""
    features = frame.drop(columns="site")

    def by_size(X):
        last = X.index[X["a"] > 3]
        return {"small": (X["a"] <= 3, ["a", "c"]), "large": (last, None)}

    rule, chosen = by_function(by_size), features.iloc[[5, 0, 4]]
    assert held(rule.partition(chosen)) == [([1], [0, 2]), ([0, 2], [0, 1, 2])]
    numbered = by_function(lambda X: {"one": ([0, 2], [0]), "two": (range(6), [1])})
    expected = [([0, 2], [0]), ([0, 1, 2, 3, 4, 5], [1])]
    assert held(numbered.partition(features.to_numpy())) == expected
