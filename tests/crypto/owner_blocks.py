"""Who holds what and which blocks a client may get for it, by brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.holdings.axis import Axis
from tests.support.seen_vectors import Vector


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


def with_checks(
    vector: Vector, owners: list[tuple[int, ...]], groups: IntArray
) -> tuple[Vector, list[tuple[int, ...]], IntArray]:
    """Return a vector with its check rows, and the owners and groups of all rows.

    A check row has the owners of its group. The check rows are those of the rows'
    groups, after all others, in the order of the groups' first items.
    """
    if vector.is_apart:
        owners, groups = [owners[row] for row in vector.rows], groups[vector.rows]
        vector = vector._replace(rows=list(range(len(owners))), is_apart=False)
    if not vector.kind.is_checked:
        return vector, owners, groups
    first = np.sort(np.unique(groups, return_index=True)[1])
    distinct = groups[first]
    found = set(groups[vector.rows].tolist())
    checks = [len(owners) + g for g, own in enumerate(distinct) if own in found]
    return (
        vector._replace(rows=[*vector.rows, *checks]),
        [*owners, *(owners[row] for row in first)],
        np.concatenate([groups, distinct]),
    )


def check_packed(
    cipher: Any,
    vector: Vector,
    owners: list[tuple[int, ...]],
    groups: IntArray,
    plain: list[int],
) -> None:
    """Open the blocks that a client got and look at every slot."""
    vector, owners, groups = with_checks(vector, owners, groups)
    rows = vector.rows
    numbers_of_groups = dict(zip(owners, groups.tolist(), strict=True))
    n_slots = cipher.n_slots
    blocks = blocks_of(owners, rows, vector.width, n_slots, numbers_of_groups)
    payload = bytes(vector.sealed.payload)
    n_bits = len(blocks) // 8 + 1
    is_there = np.unpackbits(np.frombuffer(payload[:n_bits], np.uint8))
    content = np.frombuffer(payload[n_bits:], np.uint8)
    there = [block for block, bit in zip(blocks, is_there, strict=False) if bit]
    # The bit after them says how many blocks there could be.
    assert is_there[len(blocks) :].tolist() == [1] + [0] * (7 - len(blocks) % 8)
    of_blocks = [numbers_of_groups[owners[next(iter(b.values()))[0]]] for b in there]
    sealed = content.reshape(len(there), cipher.block_bytes)
    opened = cipher.open(sealed, np.array(of_blocks, np.int64))
    numbers = dict.fromkeys(itertools.product(rows, range(vector.width)), 0)
    for block, slots in zip(there, opened.tolist(), strict=True):
        for slot, number in enumerate(slots):
            if slot not in block:
                assert number == 0, "a slot of no sample or feature of this client"
            elif block[slot] in numbers:
                numbers[block[slot]] = number
    found = list(numbers.values())
    assert found[: len(plain)] == plain
    assert all(0 <= check < 2**40 for check in found[len(plain) :])
