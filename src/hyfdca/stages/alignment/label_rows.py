"""Which rows have a label, and at which clients, derived from tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import BoolArray, IntArray, TokenArray
from hyfdca.crypto.keys.pseudonyms import NO_LABEL, NO_WEIGHT
from hyfdca.holdings.axis import Axis


@dataclass(frozen=True)
class Blanks:
    """Labels that some clients with labels lack, and who gives them.

    Parameters
    ----------
    lacking, giving : tuples of arrays
        By client, the positions of its rows in the study's order: those whose label it
        lacks, and those whose label it gives because it is the first that has it.
    """

    lacking: tuple[IntArray, ...]
    giving: tuple[IntArray, ...]

    def __bool__(self) -> bool:
        """Whether anybody lacks a label."""
        return any(len(own) for own in self.lacking)


class LabelRows:
    """What the tokens of all clients show about the rows of an axis.

    Parameters
    ----------
    tokens : sequence of arrays or None
        By client, in the order of its rows on the axis; None without labels.
    """

    def __init__(self, axis: Axis, tokens: Sequence[TokenArray | None]) -> None:
        self._axis, self.tokens = axis, tokens
        self.owners = np.full(axis.n_items, -1)  # the first that has a row's label
        owned = np.full(axis.n_items, NO_LABEL)  # its token
        for client in reversed(range(len(tokens))):
            own = tokens[client]
            if own is not None:
                is_said = own != NO_LABEL
                items = axis.items[client][is_said]
                self.owners[items], owned[items] = client, own[is_said]
        self._owned = owned

    @property
    def is_labelled(self) -> BoolArray:
        """Whether somebody has the label of each row, and its weight is above 0."""
        return np.asarray(self._owned > NO_WEIGHT)

    @property
    def n_without_weight(self) -> int:
        """How many rows have a label and the weight 0."""
        return int(np.sum(self._owned == NO_WEIGHT))

    def blanks(self) -> Blanks:
        """Return who lacks which labels of the rows that are labelled somewhere."""
        is_kept, is_lacked = self.is_labelled, np.zeros(self._axis.n_items, dtype=bool)
        lacking = [self._lacking(client) for client in range(len(self.tokens))]
        for items, own in zip(self._axis.items, lacking, strict=True):
            is_lacked[items[is_kept[items]][own]] = True
        giving = []
        for client, items in enumerate(self._axis.items):
            kept = items[is_kept[items]]
            is_given = is_lacked[kept] & (self.owners[kept] == client)
            giving.append(np.flatnonzero(is_given))
        return Blanks(tuple(lacking), tuple(giving))

    def _lacking(self, client: int) -> IntArray:
        tokens = self.tokens[client]
        if tokens is None:
            return np.empty(0, np.int64)
        is_kept = self.is_labelled[self._axis.items[client]]
        return np.flatnonzero(tokens[is_kept] == NO_LABEL)
