"""Lengths of sealed notes, which a server sees: they tell how many cells, not which."""

from __future__ import annotations


def padded_count(count: int, most: int, least: int) -> int:
    """Return the length of a list of ``count`` of ``most`` cells once it is filled up.

    Up to ``least`` cells it is that of all of them. More would cost too much in tables
    that store few cells: then it is the next power of two.
    """
    return min(most, max(least, 1 << max(count - 1, 0).bit_length()))
