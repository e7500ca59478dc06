"""Partitions of data frames, by name, mask and index label."""

import numpy as np
import pandas as pd
import pytest

from hyfdca.holdings.frames import partition_of_frame, pool_frames
from hyfdca.holdings.partition import from_holdings
from tests.support.consortia import assert_one_sentence


@pytest.fixture
def frame():
    """Return a table whose index labels are not its row numbers."""
    values = np.arange(24.0).reshape(6, 4)
    return pd.DataFrame(values, index=list("pqrstu"), columns=["a", "b", "c", "d"])


def held(partition):
    """Return who holds what as plain lists."""
    return [(h.samples.tolist(), h.features.tolist()) for h in partition.holdings]


def test_masks_are_lists_of_numbers():
    """A mask of rows or columns is the list of the places where it is true."""
    mask = np.array([True, False, True, True])
    masked = from_holdings(4, 3, [(mask, [False, True, True]), (~mask, range(3))])
    assert held(masked) == [([0, 2, 3], [1, 2]), ([1], [0, 1, 2])]


@pytest.mark.parametrize("mask", [[True], np.ones((4, 1), dtype=bool)])
def test_a_mask_of_another_size_is_refused(mask):
    """The sentence names the client and the size."""
    with pytest.raises(ValueError, match="mask of the samples of client 1 must have 4"):
        from_holdings(4, 3, [(range(4), range(3)), (mask, range(3))])


def test_rows_and_columns_by_name(frame):
    """Masks, labels and None are the same rows as their numbers."""
    named = {
        "north": (frame["a"] > 10, ["b", "a"]),
        "city": (["u", "p"], ["c"]),
        "coast": (None, ["d"]),
        "lab": (frame.index[:2], None),
        "plain": (np.arange(6) < 2, ["a", "d"]),
        "nullable": ((frame["a"] > 10).astype("boolean"), ["a"]),
    }
    assert held(partition_of_frame(frame, named)) == [
        ([3, 4, 5], [0, 1]),
        ([0, 5], [2]),
        ([0, 1, 2, 3, 4, 5], [3]),
        ([0, 1], [0, 1, 2, 3]),
        ([0, 1], [0, 3]),
        ([3, 4, 5], [0]),
    ]


@pytest.mark.parametrize(
    ("holding", "sentence"),
    [
        ((None, ["a", "e"]), "no column 'e' for the client 'x'"),
        ((["p", "SECRET"], ["a"]), "lacks 1 label of rows that the client 'x'"),
        (
            (pd.Series([True] * 6), ["a"]),
            "mask of the client 'x' has another index than the data frame",
        ),
        ((np.array([True]), ["a"]), "mask of the samples of client 1 must have 6"),
    ],
)
def test_wrong_names_are_refused(holding, sentence, frame):
    """One sentence refuses them without showing an index label."""
    with pytest.raises(ValueError, match=sentence) as caught:
        partition_of_frame(frame, {"all": (None, None), "x": holding})
    assert_one_sentence(f"{caught.value}\n")
    assert "SECRET" not in str(caught.value)


def test_names_that_repeat_are_refused(frame):
    """Such names or labels do not identify anything."""
    with pytest.raises(ValueError, match="two columns 'a'"):
        partition_of_frame(frame[["a", "b", "a"]], {"all": (None, None)})
    with pytest.raises(ValueError, match="labels that repeat"):
        partition_of_frame(frame.loc[["p", "p"]], {"x": (["p"], None)})
    mask = np.array([True, True])
    twice = partition_of_frame(frame.loc[["p", "p"]], {"x": (mask, None)})
    assert held(twice) == [([0, 1], [0, 1, 2, 3])]


def parts_of(frame):
    """Return overlapping parts of a frame that leave no cell out, in mixed order."""
    return {
        "north": frame.loc[["s", "p", "q"], ["b", "a"]],
        "city": frame.loc[list("rtuq"), ["a", "b", "c", "d"]],
        "coast": frame.loc[["s", "p"], ["d", "c"]],
    }


@pytest.mark.parametrize("as_list", [False, True])
def test_pooling_puts_parts_together(frame, as_list):
    """The pooled table has every cell, and the partition who holds it."""
    frame["y"] = [0, 1, 1, 0, 1, 0]
    parts = {name: part.copy() for name, part in parts_of(frame).items()}
    parts["north"]["y"] = frame["y"]
    parts["city"].insert(1, "y", frame["y"])
    X, y, partition = pool_frames(list(parts.values()) if as_list else parts, "y")
    assert X.index.tolist() == list("spqrtu")
    assert X.columns.tolist() == ["b", "a", "c", "d"]
    pd.testing.assert_frame_equal(X, frame.loc[X.index, X.columns])
    pd.testing.assert_series_equal(y, frame.loc[X.index, "y"])
    for part, holding in zip(parts.values(), partition.holdings, strict=True):
        features = part.columns.drop("y", errors="ignore")
        assert set(X.index[holding.samples]) == set(part.index)
        assert set(X.columns[holding.features]) == set(features)


def test_cells_that_nobody_holds(frame):
    """They are refused with their share, or filled as requested."""
    parts = [frame.loc[["p", "q"], ["a", "b"]], frame.loc[["r", "s"], ["b", "c"]]]
    with pytest.raises(ValueError, match=r"holds 4 of 12 cells \(33.3%\)") as caught:
        pool_frames(parts)
    assert_one_sentence(f"{caught.value}\n")
    zero, mean = (pool_frames(parts, uncovered=how).X for how in ("zero", "mean"))
    assert zero["a"].tolist() == [0.0, 4.0, 0.0, 0.0]
    assert mean["a"].tolist() == [0.0, 4.0, 2.0, 2.0]
    assert mean["c"].tolist() == [12.0, 12.0, 10.0, 14.0]
    assert mean["b"].tolist() == zero["b"].tolist() == [1.0, 5.0, 9.0, 13.0]


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda p: p["city"].__setitem__("a", 77.0), "'city' has 1 cell that differs"),
        (lambda p: p["city"].__setitem__("a", "77x"), "'city' has columns that are"),
        (lambda p: p["north"].__setitem__("y", 1), "'city' has 1 label that differs"),
        (lambda p: p["city"].pop("y"), "3 rows have a label in"),
        (lambda p: [f.pop("y") for f in p.values()], "No data frame has the label"),
        (lambda p: p.update(city=p["city"].loc[["q", "q"]]), "labels that repeat"),
        (lambda p: p.clear(), "no data frame to pool"),
    ],
)
def test_parts_that_do_not_fit_are_refused(frame, spoil, sentence):
    """One sentence refuses them without showing a cell."""
    frame["y"] = [0, 0, 1, 0, 1, 0]
    parts = {name: part.join(frame["y"]) for name, part in parts_of(frame).items()}
    spoil(parts)
    with pytest.raises(ValueError, match=sentence) as caught:
        pool_frames(parts, "y")
    assert_one_sentence(f"{caught.value}\n")
    assert "77" not in str(caught.value)


def test_blank_labels_come_from_others(frame):
    """A label that one client lacks may be known to another."""
    north = frame.loc[["p", "q"]].assign(y=[1.0, np.nan])
    city = frame.loc[["q", "r"]].assign(y=["0", "1"])
    city["y"] = city["y"].astype(float)
    assert pool_frames([north, city], "y").y.tolist() == [1.0, 0.0, 1.0]


def test_blank_cells_come_from_others(frame):
    """A cell that one client lacks is what another has, whichever comes first."""
    expected = pool_frames([frame, frame]).X
    blank = frame.astype(float)
    blank.iloc[1, 0] = np.nan
    for parts in ([blank, frame], [frame, blank]):
        assert pool_frames(parts).X.equals(expected)
    assert pool_frames([blank, blank]).X.isna().sum().sum() == 1


def test_an_unknown_way_to_fill_is_refused(frame):
    """The sentence lists the values that are allowed."""
    with pytest.raises(ValueError, match="one of refuse, zero, mean, got 'median'"):
        pool_frames([frame], uncovered="median")
