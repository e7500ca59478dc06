"""From the columns of a table to the features of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.data.tables import Table, bare_name, listed
from hyfdca.errors import counted
from hyfdca.model.categories import (
    MISSING,
    columns_of,
    features_of,
    is_unknown,
    model_expansion,
)
from hyfdca.model.file import CategoryEntry, ModelError, ModelFile

_MOST = 0.5  # share of the rows of a category


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

    def check_levels(self, table: Table) -> None:
        """Refuse levels that differ from the model's in capitals or blanks alone.

        Raises
        ------
        ModelError
        """
        if self.file.similar_levels == "allow":
            return
        for name, entry in self.categories.items():
            known = {entry.reference or "", *(entry.levels or ())}
            known_as = {bare_name(level): level for level in known}
            for level in table.levels.get(name, ()):
                if level not in known and bare_name(level) in known_as:
                    raise ModelError(
                        f"{name!r} has the level {level!r}, which the model has as "
                        f"{known_as[bare_name(level)]!r}; write it alike."
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
        self.check_levels(table)
        cells = self._cells(table)
        self.check_missing(cells, self.columns)
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

    def check_missing(self, cells: sp.csr_array, names: Sequence[str]) -> None:
        """Refuse blank cells if the model needs every cell.

        Parameters
        ----------
        names : sequence of str
            The names of the columns.

        Raises
        ------
        ModelError
        """
        is_missing = np.isnan(cells.data)
        if is_missing.any() and self.file.scaling.missing == "refuse":
            n_missing = counted(int(is_missing.sum()), "cell is", "cells are")
            first = names[cells.indices[is_missing].min()]
            raise ModelError(
                f"{n_missing} missing, the first in column {first!r}, but the model "
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

    def blank_note(self, table: Table) -> str:
        """Return what blank cells of categories count as; empty if there are none."""
        notes = []
        for name, codes, _ in self._unknown(table):
            entry, n_blank = self.categories[name], int(np.sum(codes == 0))
            if n_blank and "" in (entry.levels or ()):
                notes.append(
                    f"{counted(n_blank, 'blank cell')} of {name!r} counted as its "
                    f"level {MISSING!r}; where nobody held {name!r} in training, rows "
                    f"count as {entry.reference!r}."
                )
        return " ".join(notes)

    def unknown_warning(self, table: Table) -> str:
        """Return a warning about categories most of whose rows have unknown levels."""
        found = []
        for name, codes, is_new in self._unknown(table):
            entry, share = self.categories[name], float(np.mean(is_new[codes]))
            if share > _MOST:
                as_what = "as other" if entry.has_other else f"as {entry.reference!r}"
                found.append(f"{share:.0%} of the rows for {name!r}, counted {as_what}")
        if not found:
            return ""
        return (
            f"The model does not know the level of {', '.join(found)}; write levels as "
            "in training."
        )

    def _unknown(self, table: Table) -> Iterator[tuple[str, IntArray, BoolArray]]:
        """Yield each category's codes, by row, and whether each code is unknown."""
        for place, name in enumerate(table.features if self.categories else ()):
            if name in self.categories:
                codes = np.nan_to_num(table.cells[:, [place]].toarray()[:, 0])
                is_new = is_unknown(self.categories[name], table.levels[name])
                yield name, codes.astype(np.int64), is_new
