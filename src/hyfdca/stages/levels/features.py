"""The features that the columns of a study become, as far as a server knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.holdings.axis import Axis
from hyfdca.model.categories import level_features
from hyfdca.model.file import CategoryEntry
from hyfdca.model.scaling import Scaling, among_levels
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.server import Alignment


@dataclass(frozen=True)
class Levels:
    """How the columns of a study become features, as far as a server knows.

    Parameters
    ----------
    columns : Alignment
        Who holds which columns.
    widths : array (columns,)
        How many features each becomes.
    entries : mapping of str to CategoryEntry
        By column that is a category.
    strangers : mapping of str to pair of int
        By column: two clients with several of its levels, and none in common.
    """

    columns: Alignment
    widths: IntArray
    entries: Mapping[str, CategoryEntry]
    strangers: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def numbers(self) -> Axis:
        """The columns that are numbers, which are scaled."""
        columns = self.columns.layout.features
        if not self.entries:
            return columns
        return columns.expanded((~self.columns.is_category).astype(np.int64))

    @cached_property
    def alignment(self) -> Alignment:
        """Who holds which features.

        Raises
        ------
        AlignmentError
            If two have the same name, or there are none.
        """
        if not self.entries:
            return self.columns
        layout = self.columns.layout
        return replace(
            self.columns,
            layout=replace(layout, features=layout.features.expanded(self.widths)),
            features=self._names(),
            kinds=np.repeat(self.columns.kinds, self.widths),
        )

    def _names(self) -> tuple[str, ...]:
        names: dict[str, str] = {}
        for column, width in zip(self.columns.features, self.widths, strict=True):
            entry = self.entries.get(column)
            own = level_features(column, entry, int(width)) if entry else [column]
            for name in own:
                if names.setdefault(name, column) != column:
                    raise AlignmentError(
                        f"The columns {names[name]!r} and {column!r} both become a "
                        f"feature {name!r}; rename one of them, or leave one out with "
                        "ignore."
                    )
        if not names:
            raise AlignmentError(
                "All columns are categories with a single level that is not rare, or "
                "none; lower min_level_count, or add columns."
            )
        return tuple(names)

    def scaling(self, of_numbers: Scaling) -> Scaling:
        """Return the scaling of all features: those of levels are unchanged."""
        if not self.entries:
            return of_numbers
        starts = np.cumsum(self.widths) - self.widths
        places = starts[~self.columns.is_category]
        return among_levels(of_numbers, places, int(self.widths.sum()))


def levels_of_numbers(columns: Alignment) -> Levels:
    """Return the levels of a study without categories."""
    return Levels(columns, np.ones(len(columns.features), np.int64), {})
