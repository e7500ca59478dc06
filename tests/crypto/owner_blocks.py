"""Who holds what and which blocks a client may get for it, by brute force."""

from __future__ import annotations

from hyfdca.holdings.axis import Axis


def owners_of(axis: Axis, client: int) -> list[tuple[int, ...]]:
    """Return who holds each item of a client."""
    held = [set(items.tolist()) for items in axis.items]
    return [
        tuple(k for k, items in enumerate(held) if item in items)
        for item in axis.items[client].tolist()
    ]


def blocks_of(
    owners: list[tuple[int, ...]],
    rows: list[int],
    width: int,
    n_slots: int,
    numbers_of_groups: dict[tuple[int, ...], int],
) -> list[dict[int, tuple[int, int]]]:
    """Return, by brute force, the blocks that a client may get for some rows.

    A block is a map from slots to the row and the column of the number in it. Groups
    are in the order of their numbers.
    """
    blocks = []
    for group in sorted(set(owners), key=numbers_of_groups.__getitem__):
        numbers = [
            (row, column)
            for row, others in enumerate(owners)
            if others == group
            for column in range(width)
        ]
        for first in range(0, len(numbers), n_slots):
            block = dict(enumerate(numbers[first : first + n_slots]))
            if {row for row, _ in block.values()} & set(rows):
                blocks.append(block)
    return blocks
