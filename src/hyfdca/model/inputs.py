"""From the columns of a table to the features of a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.data.tables import Table, listed
from hyfdca.errors import counted
from hyfdca.model.categories import (
    columns_of,
    features_of,
    is_unknown,
    model_expansion,
)
from hyfdca.model.file import CategoryEntry, ModelError, ModelFile


@dataclass(frozen=True)
class Inputs:
    """The columns that a model's features are made from."""

    file: ModelFile

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Their names, in the order of the features."""
        return columns_of(tuple(self.file.weights), self.categories)

    @cached_property
    def categories(self) -> dict[str, CategoryEntry]:
        """The categories whose levels the model names, by column."""
        every = self.file.categories.items()
        return {column: entry for column, entry in every if entry.levels is not None}

    def check(self) -> None:
        """Refuse a file whose categories do not fit its weights.

        Raises
        ------
        ModelError
            The message is only the predicate of a sentence, such as "has ...".
        """
        if not self.file.categories:
            return
        for entry in self.file.categories.values():
            named = [*(entry.levels or ()), entry.reference]
            if len(set(named)) < len(named):
                raise ModelError("has a category that names a level twice")
        made = features_of(self.columns, self.categories)
        if tuple(made) != tuple(self.file.weights):
            raise ModelError("has weights that are not those of its categories' levels")

    def check_named(self) -> None:
        """Refuse to predict if the study did not release the names of levels.

        Raises
        ------
        ModelError
        """
        hidden = self.file.categories.keys() - self.categories.keys()
        if hidden:
            raise ModelError(
                f"The model does not name the levels of {listed(sorted(hidden))}, so "
                "it cannot predict; train with release_level_names = true."
            )

    def check_kinds(self, table: Table) -> None:
        """Refuse dates where the model has numbers, and numbers where it has dates.

        Raises
        ------
        ModelError
        """
        dates, needed = set(self.file.dates), set(self.columns)
        for place, name in enumerate(table.features if dates or table.kinds else ()):
            kind = table.kind_of(place)
            if name not in needed or kind == "blank":
                continue
            if (kind == "date") != (name in dates):
                found = "dates" if kind == "date" else "no dates"
                expected = "dates" if name in dates else "numbers"
                raise ModelError(
                    f"{name!r} has {found}, but the model was trained on {expected} "
                    "there; correct it."
                )

    def features(self, table: Table) -> sp.csr_array:
        """Return the cells of the model's features, not scaled.

        Columns are matched by name; those that the model does not use are ignored.

        Raises
        ------
        ModelError
        """
        self.check_named()
        self.check_kinds(table)
        cells = self._cells(table)
        self.check_missing(int(np.isnan(cells.data).sum()))
        expansion = model_expansion(self.columns, self.categories, table.levels)
        return expansion.features(cells)

    def _cells(self, table: Table) -> sp.csr_array:
        """Return the cells of the model's columns, in its order."""
        if table.features == self.columns:
            return table.cells
        place = {name: number for number, name in enumerate(table.features)}
        missing = [name for name in self.columns if name not in place]
        if missing:
            add = "add it" if len(missing) == 1 else "add them"
            raise ModelError(f"The table has no column {listed(missing)}; {add}.")
        return sp.csr_array(table.cells[:, [place[name] for name in self.columns]])

    def check_missing(self, n_missing: int) -> None:
        """Refuse blank cells if the model needs every cell.

        Raises
        ------
        ModelError
        """
        if n_missing and self.file.scaling.missing == "refuse":
            raise ModelError(
                f"{counted(n_missing, 'cell is', 'cells are')} missing, but the model "
                'needs every cell; fill them, or train with missing = "mean".'
            )

    def n_unknown(self, table: Table) -> int:
        """Return how many rows have a level that the model does not name."""
        has_unknown = np.zeros(len(table.ids), dtype=bool)
        for _, codes, is_new in self._unknown(table):
            has_unknown |= is_new[codes]
        return int(has_unknown.sum())

    def unknown_levels(self, table: Table) -> dict[str, str]:
        """Return the most frequent level that the model does not name, by column."""
        found = {}
        for name, codes, is_new in self._unknown(table):
            counts = np.bincount(codes, minlength=len(is_new)) * is_new
            if counts.any():
                found[name] = ("", *table.levels[name])[int(counts.argmax())]
        return found

    def _unknown(self, table: Table) -> Iterator[tuple[str, IntArray, BoolArray]]:
        """Yield each category's codes, by row, and whether each code is unknown."""
        for place, name in enumerate(table.features if self.categories else ()):
            if name in self.categories:
                codes = np.nan_to_num(table.cells[:, [place]].toarray()[:, 0])
                is_new = is_unknown(self.categories[name], table.levels[name])
                yield name, codes.astype(np.int64), is_new
