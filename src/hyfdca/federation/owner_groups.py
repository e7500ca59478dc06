"""Owner groups as the server shows them to clients: opaque numbers and holders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.crypto.keys.set_secrets import Members
from hyfdca.crypto.schemes.arrangement import Arrangement, opaque_groups
from hyfdca.federation.messages import Arrangements
from hyfdca.holdings.axis import Axis, group_holders, owner_groups
from hyfdca.protocol.codec import pack_indices


@dataclass(frozen=True, repr=False)
class OwnerGroups:
    """The owner groups of an axis.

    Parameters
    ----------
    secret : bytes
        The server's secret, from which the numbers are derived.
    name : str
        The kind of the groups; other kinds get other numbers.
    """

    axis: Axis
    secret: bytes
    name: str

    @cached_property
    def _plain(self) -> IntArray:
        return owner_groups(self.axis)

    @cached_property
    def numbers(self) -> IntArray:
        """The owner group of each item, under a number that reveals nothing."""
        return opaque_groups(self._plain, self.secret, self.name)

    @property
    def arrangement(self) -> Arrangement:
        """All items by their groups."""
        return Arrangement(self.numbers)

    def packed(self, client: int) -> memoryview:
        """Return the groups of a client's items."""
        return pack_indices(self.numbers[self.axis.items[client]])

    def owners(self, client: int) -> tuple[Members, ...]:
        """Return the holders of each group that a client has items of, by number."""
        items = self.axis.items[client]
        _, first = np.unique(self.numbers[items], return_index=True)
        groups = self._plain[items][first].tolist()
        return tuple(self._members[group] for group in groups)

    @cached_property
    def _members(self) -> list[Members]:
        holders = group_holders(self.axis, self._plain)
        return [tuple(np.flatnonzero(own).tolist()) for own in holders]


def by_sample(scheme: str, groups: OwnerGroups, client: int) -> Arrangements:
    """Return the arrangement of a stage whose vectors are by sample."""
    return Arrangements(
        scheme,
        scheme,
        sample_groups=groups.packed(client),
        sample_owners=groups.owners(client),
    )


def by_feature(scheme: str, groups: OwnerGroups, client: int) -> Arrangements:
    """Return the arrangement of a stage whose vectors are by feature."""
    return Arrangements(
        scheme,
        scheme,
        feature_groups=groups.packed(client),
        feature_owners=groups.owners(client),
    )
