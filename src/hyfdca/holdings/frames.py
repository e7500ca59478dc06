"""Partitions of data frames: rows by index label or mask, columns by name.

Frames are used through their own methods; pandas is not imported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from hyfdca.arrays import BoolArray, FloatArray, IntArray
from hyfdca.errors import counted
from hyfdca.holdings.partition import Partition, from_holdings

Uncovered = Literal["refuse", "zero", "mean"]


def partition_of_frame(
    frame: Any, holdings: Mapping[str, tuple[Any, Sequence[str] | None]]
) -> Partition:
    """Return the partition of a data frame.

    Parameters
    ----------
    holdings : mapping of str to (rows, columns)
        By client, in order of rank. Rows are a boolean mask or labels of the frame's
        index, columns are names; None stands for all of them. A cell that no client
        holds counts as zero.

    Examples
    --------
    >>> partition_of_frame(
    ...     df, {"north": (df["age"] > 40, ["age", "bmi"]), "city": (None, ["hba1c"])}
    ... )
    """
    numbers = column_numbers(frame)
    held = [
        (_rows(frame, rows, client), named_columns(numbers, columns, client))
        for client, (rows, columns) in holdings.items()
    ]
    return from_holdings(len(frame), len(numbers), held)


def column_numbers(frame: Any) -> dict[str, int]:
    """Return the number of each column of a frame.

    Raises
    ------
    ValueError
        If a name occurs twice.
    """
    names = list(frame.columns)
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"The data frame has two columns {twice[0]!r}; rename one.")
    return {name: number for number, name in enumerate(names)}


def named_columns(
    numbers: Mapping[str, int], wanted: Sequence[str] | None, client: str
) -> list[int]:
    """Return the numbers of the columns that a client holds."""
    if wanted is None:
        return list(numbers.values())
    for name in wanted:
        if name not in numbers:
            raise ValueError(
                f"The data frame has no column {name!r} for the client {client!r}; "
                "correct the name."
            )
    return [numbers[name] for name in wanted]


def _rows(frame: Any, rows: Any, client: str) -> BoolArray | IntArray:
    if rows is None:
        return np.ones(len(frame), dtype=bool)
    if str(getattr(rows, "dtype", "")) == "boolean":  # of pandas, with room for NA
        rows = rows.astype(bool)
    values = np.asarray(rows)
    if values.dtype != bool:
        return _labelled_rows(frame, values, client)
    if hasattr(rows, "to_numpy") and not rows.index.equals(frame.index):
        raise ValueError(
            f"The mask of the client {client!r} has another index than the data frame; "
            "make it from the frame's own columns."
        )
    return values


def _labelled_rows(frame: Any, labels: Any, client: str) -> IntArray:
    _check_index(frame, "data frame")
    places = np.asarray(frame.index.get_indexer(labels), dtype=np.int64)
    if n_unknown := int(np.sum(places < 0)):
        raise ValueError(
            f"The data frame's index lacks {counted(n_unknown, 'label')} of rows that "
            f"the client {client!r} is to hold; correct them."
        )
    return places


def _check_index(frame: Any, what: str) -> None:
    if not frame.index.is_unique:
        raise ValueError(
            f"The {what} has index labels that repeat, so they do not identify rows; "
            "make them distinct, or use boolean masks."
        )


# Frames of several clients


class PooledFrames(NamedTuple):
    """The tables of several clients as one.

    Parameters
    ----------
    X : data frame
        All rows and features.
    y : series or None
        The labels of the rows, if a label column was named.
    partition : Partition
        Who holds which parts of X.
    """

    X: Any
    y: Any
    partition: Partition


def pool_frames(
    frames: Mapping[str, Any] | Iterable[Any],
    label: str | None = None,
    uncovered: Uncovered = "refuse",
) -> PooledFrames:
    """Return the frames of several clients as one table, with its partition.

    Rows with the same index label are the same row, columns with the same name the
    same feature. Where several clients hold a cell or a label, they must agree; one
    that is blank at some of them has the value of the others.

    Parameters
    ----------
    frames : mapping of str to data frame, or iterable of data frames
        In order of rank; the names are for messages.
    label : str, optional
        The column with the labels; a frame may lack it.
    uncovered : {"refuse", "zero", "mean"}
        What to do with cells that no client holds: refuse them, or take them as zero
        or as the mean of the column.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> X, y, partition = pool_frames({"north": north, "city": city}, label="outcome")
    >>> HyFDCAClassifier(grid=partition).fit(X, y)
    """
    named = frames if isinstance(frames, Mapping) else _numbered(frames)
    if not named:
        raise ValueError("There is no data frame to pool; pass at least one.")
    if uncovered not in ("refuse", "zero", "mean"):
        raise ValueError(
            f"uncovered must be one of refuse, zero, mean, got {uncovered!r}."
        )
    for name, frame in named.items():
        _check_index(frame, f"data frame of {name!r}")
        column_numbers(frame)
    features = {
        name: frame[[column for column in frame.columns if column != label]]
        for name, frame in named.items()
    }
    X, partition = _pooled_features(features, uncovered)
    y = None if label is None else _pooled_labels(named, label, X.index)
    return PooledFrames(X, y, partition)


def _numbered(frames: Iterable[Any]) -> dict[str, Any]:
    return {f"client {number}": frame for number, frame in enumerate(frames)}


def _pooled_features(
    frames: Mapping[str, Any], uncovered: Uncovered
) -> tuple[Any, Partition]:
    index, numbers = _union(frames.values())
    holdings = [
        (index.get_indexer(frame.index), [numbers[name] for name in frame.columns])
        for frame in frames.values()
    ]
    values = np.full((len(index), len(numbers)), np.nan)
    is_held = np.zeros(values.shape, dtype=bool)
    for (name, frame), held in zip(frames.items(), holdings, strict=True):
        place = np.ix_(*held)
        cells = _numbers(frame, name)
        values[place] = _agreed(values[place], cells, is_held[place], name)
        is_held[place] = True
    _cover(values, is_held, uncovered)
    partition = from_holdings(*values.shape, holdings)
    kind = type(next(iter(frames.values())))
    return kind(values, index=index, columns=list(numbers)), partition


def _union(frames: Iterable[Any]) -> tuple[Any, dict[str, int]]:
    """Return all index labels, and the numbers of all columns, as they appear."""
    first, *others = frames
    index, names = first.index, dict.fromkeys(first.columns)
    for frame in others:
        index = index.append(frame.index[~frame.index.isin(index)])
        names |= dict.fromkeys(frame.columns)
    return index, {name: number for number, name in enumerate(names)}


def _numbers(frame: Any, name: str) -> FloatArray:
    try:
        return np.asarray(frame.to_numpy(dtype=np.float64))
    except (TypeError, ValueError):
        raise ValueError(
            f"The data frame of {name!r} has columns that are not numbers; encode or "
            "drop them."
        ) from None


def _agreed(known: Any, new: Any, is_known: BoolArray, name: str) -> Any:
    """Return the cells known so far, and the new ones where nothing is known."""
    is_same = (known == new) | np.isnan(known) | np.isnan(new)
    if n_different := int(np.sum(is_known & ~is_same)):
        cells = counted(n_different, "cell that differs", "cells that differ")
        raise ValueError(
            f"The client {name!r} has {cells} from those of clients before it; correct "
            "them."
        )
    return np.where(is_known & ~np.isnan(known), known, new)


def _cover(values: FloatArray, is_held: BoolArray, uncovered: Uncovered) -> None:
    """Fill the cells that nobody holds."""
    n_uncovered = int(np.sum(~is_held))
    if n_uncovered and uncovered == "refuse":
        raise ValueError(
            f"No client holds {n_uncovered} of {values.size} cells "
            f"({n_uncovered / values.size:.1%}); uncovered='mean' takes them as the "
            "mean of their column, uncovered='zero' as zero."
        )
    means = np.zeros(values.shape[1])
    if n_uncovered and uncovered == "mean":
        is_known = is_held & ~np.isnan(values)
        totals = np.where(is_known, values, 0.0).sum(axis=0)
        means = totals / np.maximum(is_known.sum(axis=0), 1)
    values[~is_held] = np.broadcast_to(means, values.shape)[~is_held]


def _pooled_labels(frames: Mapping[str, Any], label: str, index: Any) -> Any:
    """Return the label of every row, from the clients that have it."""
    own = {name: f[label].dropna() for name, f in frames.items() if label in f.columns}
    if not own:
        raise ValueError(f"No data frame has the label column {label!r}.")
    known = next(iter(own.values())).iloc[:0]
    for name, labels in own.items():
        is_known = labels.index.isin(known.index)
        earlier = np.asarray(known.loc[labels.index[is_known]])
        if n_different := int(np.sum(earlier != np.asarray(labels[is_known]))):
            different = counted(n_different, "label that differs", "labels that differ")
            raise ValueError(
                f"The client {name!r} has {different} from those of clients before it; "
                "correct them."
            )
        known = _extended(known, labels[~is_known])
    if n_missing := len(index) - len(known):
        raise ValueError(
            f"{counted(n_missing, 'row has', 'rows have')} a label in no data frame; "
            "drop them or add labels."
        )
    return known.loc[index]


def _extended(series: Any, more: Any) -> Any:
    """Return one series after the other; whole numbers stay whole."""
    values = np.concatenate([series.to_numpy(), more.to_numpy()])
    return type(series)(values, index=series.index.append(more.index), name=series.name)
