"""Rules that give the partition of any table, however its rows are chosen.

A ``Partition`` belongs to one table: its rows have numbers. A rule is for tables that
are cut into pieces, as by ``cross_val_score``: it assigns rows by their content.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hyfdca.arrays import BoolArray
from hyfdca.errors import counted
from hyfdca.holdings.frames import column_numbers, named_columns, partition_of_frame
from hyfdca.holdings.partition import Partition, from_holdings

Holdings = Iterable[tuple[ArrayLike, ArrayLike]] | Mapping[str, tuple[Any, Any]]

_MOST_NAMED = 3  # values in one sentence


class PartitionRule(ABC):
    """Makes the partition of each table that an estimator is fitted to."""

    @abstractmethod
    def partition(self, X: Any) -> Partition:
        """Return the partition of a table's features."""

    def features(self, X: Any) -> Any:
        """Return the table without columns that only say who holds a row."""
        return X


def by_column(
    column: str,
    features: Mapping[str, Sequence[str]] | None = None,
    rows: Mapping[str, Sequence[Any]] | None = None,
) -> PartitionRule:
    """Return the rule by which a column of a data frame says who holds a row.

    The column itself is not a feature; rows to predict need not have it. A cell that no
    client holds counts as zero.

    Parameters
    ----------
    features : mapping of str to sequence of str, optional
        The columns that each client holds, in order of rank. By default there is one
        client per value of the column, and each holds all features.
    rows : mapping of str to sequence, optional
        The values of the column whose rows a client holds; by default its own name.

    Examples
    --------
    >>> rule = by_column(
    ...     "site",
    ...     features={"north": ["age"], "city": ["age", "bmi"], "lab": ["hba1c"]},
    ...     rows={"lab": ["north", "city"]},
    ... )
    >>> cross_val_score(HyFDCAClassifier(grid=rule), df, y)
    """
    strangers = [name for name in rows or () if name not in (features or ())]
    if strangers:
        raise ValueError(
            f"rows names the client {strangers[0]!r}, which features does not; add its "
            "features."
        )
    if features is None:
        return _BySite(column)
    values = {name: (name,) for name in features} | dict(rows or {})
    held = {name: (tuple(values[name]), tuple(features[name])) for name in features}
    return _ByColumn(column, tuple((name, *of) for name, of in held.items()))


def by_function(function: Callable[[Any], Partition | Holdings]) -> PartitionRule:
    """Return the rule by which a function says who holds what.

    Parameters
    ----------
    function : callable
        Takes the table that is passed to ``fit``. Returns a ``Partition``, or each
        client's rows and columns: rows as a boolean mask or as numbers, columns also
        as names if the table is a data frame. May return a dict by client's name; for a
        data frame, its values are those of ``partition_of_frame``. To pickle an
        estimator, or to fit it in several processes, define the function in a module.

    Examples
    --------
    >>> def by_age(X):
    ...     is_old = X["age"] > 60
    ...     return [(is_old, ["age", "bmi"]), (~is_old, ["age", "hba1c"])]
    >>> HyFDCAClassifier(grid=by_function(by_age))
    """
    if not callable(function):
        raise ValueError(f"by_function needs a function, got {function!r}.")
    return _ByFunction(function)


@dataclass(frozen=True)
class _BySite(PartitionRule):
    """One client per value of a column."""

    column: str

    def features(self, X: Any) -> Any:
        """Return the table without the column."""
        return X.drop(columns=self.column) if self._is_in(X) else X

    def partition(self, X: Any) -> Partition:
        """Return the partition of the other columns."""
        if not self._is_in(X):
            raise ValueError(
                f"The rule needs a data frame with the column {self.column!r}, which X "
                "is not; pass one, or use by_function."
            )
        numbers = column_numbers(self.features(X))
        held = [
            (np.asarray(X[self.column].isin(values)), columns)
            for values, columns in self._clients(X, numbers)
        ]
        self._check_held(X, [mask for mask, _ in held])
        return from_holdings(len(X), len(numbers), held)

    def _check_held(self, X: Any, masks: Sequence[BoolArray]) -> None:
        """Refuse rows whose value in the column belongs to no client, or is blank."""
        values = X[self.column][~np.any(masks, axis=0)]
        if len(values) == 0:
            return
        found = list(map(repr, sorted(values.dropna().unique().tolist(), key=str)))
        found = ["blank", *found] if values.isna().any() else found
        more = [f"{len(found) - _MOST_NAMED} more"] if found[_MOST_NAMED:] else []
        raise ValueError(
            f"No client holds {counted(len(values), 'row')} in which the column "
            f"{self.column!r} is {', '.join(found[:_MOST_NAMED] + more)}; correct the "
            "column, give such rows to a client with features or rows of by_column, or "
            "leave them out."
        )

    def _is_in(self, X: Any) -> bool:
        return self.column in getattr(X, "columns", ())

    def _clients(
        self, X: Any, numbers: Mapping[str, int]
    ) -> list[tuple[Sequence[Any], list[int]]]:
        """Return the values and the numbers of the columns of each client."""
        found = sorted(X[self.column].dropna().unique(), key=str)
        return [([value], list(numbers.values())) for value in found]


@dataclass(frozen=True)
class _ByColumn(_BySite):
    """Clients with a name, the values of their rows and their columns."""

    clients: tuple[tuple[str, tuple[Any, ...], tuple[str, ...]], ...]

    def _clients(
        self, X: Any, numbers: Mapping[str, int]
    ) -> list[tuple[Sequence[Any], list[int]]]:
        return [
            (values, named_columns(numbers, columns, name))
            for name, values, columns in self.clients
        ]


@dataclass(frozen=True)
class _ByFunction(PartitionRule):
    function: Callable[[Any], Partition | Holdings]

    def partition(self, X: Any) -> Partition:
        """Return the partition that the function gives."""
        held = self.function(X)
        if isinstance(held, Partition):
            return held
        by_client = _by_client(held)
        is_frame = hasattr(X, "columns")
        if is_frame and isinstance(held, Mapping):
            return partition_of_frame(X, by_client)
        n_rows, n_columns = np.shape(X) if not hasattr(X, "shape") else X.shape
        numbers = column_numbers(X) if is_frame else {}
        by_number = [
            (rows, _numbered(columns, numbers, client))
            for client, (rows, columns) in by_client.items()
        ]
        return from_holdings(n_rows, n_columns, by_number)


def _by_client(held: Any) -> dict[str, tuple[Any, Any]]:
    """Return a function's result, checked, by client; unnamed clients get a name."""
    if not isinstance(held, Mapping | Iterable) or isinstance(held, str):
        raise _mistake(f"it returned {type(held).__name__}")
    given = held if isinstance(held, Mapping) else _by_rank(held)
    for client, own in given.items():
        if not isinstance(own, tuple | list) or len(own) != 2:
            raise _mistake(f"that of {client!r} is not a pair")
    return dict(given)


def _by_rank(held: Iterable[Any]) -> dict[str, Any]:
    return {f"client {rank}": own for rank, own in enumerate(held)}


def _mistake(what: str) -> ValueError:
    return ValueError(
        "The function given to by_function must return a Partition, or a list or dict "
        f"with a pair (rows, columns) per client, but {what}."
    )


def _numbered(columns: Any, numbers: Mapping[str, int], client: str) -> ArrayLike:
    """Return columns by number, whether they are given by name or not."""
    given: ArrayLike = columns
    if len(columns) and all(isinstance(name, str) for name in columns):
        given = named_columns(numbers, columns, client)
    return given
