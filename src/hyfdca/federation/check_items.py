"""The check row of each owner group, as one more item on an axis.

Check rows come after all other items, in the order of the groups' first items, so items
keep their positions. A check row has the holders of its group. See
``sealing/vector_checks.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.holdings.axis import Axis


@dataclass(frozen=True)
class CheckItems:
    """An axis with check rows.

    Parameters
    ----------
    axis : Axis
        With the check rows.
    groups : array (items and check rows,)
        The owner group of each.
    n_items : int
        Without the check rows.
    """

    axis: Axis
    groups: IntArray
    n_items: int

    def with_checks(self, client: int, positions: IntArray) -> IntArray:
        """Return positions of a client's items, and of the check rows they have."""
        own = self.axis.items[client]
        found = np.unique(self.groups[own[positions]])
        rows = self.n_items + np.flatnonzero(
            np.isin(self.groups[self.n_items :], found)
        )
        return np.concatenate([positions, np.searchsorted(own, rows)])


def with_check_items(axis: Axis, groups: IntArray) -> CheckItems:
    """Return an axis with a check row for each owner group."""
    arrangement = Arrangement(groups)

    def extended(items: IntArray) -> IntArray:
        # Who has the first item of a group has all of them.
        rows = np.flatnonzero(np.isin(arrangement.first, items))
        return np.concatenate([items, axis.n_items + rows])

    # Clients with identical items keep identical ones.
    own = {id(items): extended(items) for items in axis.items}
    every = tuple(own[id(items)] for items in axis.items)
    checked = arrangement.with_checks
    return CheckItems(Axis(checked.n_items, every), checked.groups, axis.n_items)
