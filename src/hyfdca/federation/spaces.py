"""How vectors by sample or by feature are kept on the server: by item, or by block.

Packed schemes add whole blocks. A block has items of one owner group, so it has the
holders of its items, and the blocks are an axis like the samples or features are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement, BlockMap
from hyfdca.crypto.schemes.base import Adder
from hyfdca.holdings.axis import Axis


@dataclass(frozen=True)
class Space:
    """A kind of vector: who has which units of it, and what adds them.

    Parameters
    ----------
    axis : Axis
        The units: the items, or blocks of them.
    width : int
        Numbers of a unit that is an item; 1 for a block.
    """

    axis: Axis
    width: int
    adder: Adder
    _items: Axis
    _blocks: BlockMap | None = None

    def units(self, client: int, positions: IntArray | None) -> IntArray | None:
        """Return the client's units that have its items at these positions."""
        if positions is None or self._blocks is None:
            return positions
        covering = self._blocks.covering(self._items.items[client][positions])
        return np.searchsorted(self.axis.items[client], covering)


def space_of(axis: Axis, groups: IntArray, width: int, adder: Adder) -> Space:
    """Return the space for so many numbers an item.

    Parameters
    ----------
    groups : array (items,)
        The owner group of each item.
    """
    if adder.n_slots is None:
        return Space(axis, width, adder, axis)
    blocks = Arrangement(groups).blocks(width, adder.n_slots)
    # Clients with the very same items keep the very same blocks.
    held = {id(items): blocks.covering(items) for items in axis.items}
    units = Axis(blocks.n_blocks, tuple(held[id(items)] for items in axis.items))
    return Space(units, 1, adder, axis, blocks)
