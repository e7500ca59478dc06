"""Changes of small consortia: blank labels, weights, offsets, rows left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.support.consortia import N_ROWS, Files

VISIBLE = {"labels_visible_to_holders": "true"}


def blank(files: Files, rows: Iterable[int], *names: str) -> Files:
    """Remove the labels of some rows at some organisations, or at all."""
    chosen = set(rows)
    for name in names or files.organisations:
        own = files.organisations[name]
        own.table["y"] = [
            "" if row in chosen else label
            for row, label in zip(own.rows, own.table["y"], strict=True)
        ]
    return files


def remove(files: Files, rows: Iterable[int]) -> Files:
    """Remove some rows everywhere."""
    gone = set(rows)
    for own in files.organisations.values():
        kept = [place for place, row in enumerate(own.rows) if row not in gone]
        own.rows = [own.rows[place] for place in kept]
        for name, column in own.table.items():
            own.table[name] = [column[place] for place in kept]
    return files


def add_column(
    files: Files, key: str, name: str, value: Callable[[int], Any], *left_out: str
) -> Files:
    """Give every organisation a column, and the study its name under a key."""
    files.settings[key] = f'"{name}"'
    for organisation, own in files.organisations.items():
        if organisation not in left_out:
            own.table[name] = [value(row) for row in own.rows]
    return files


def repeat(files: Files, times: Callable[[int], int]) -> Files:
    """Repeat each row so many times, under IDs of their own."""
    for own in files.organisations.values():
        counts = [times(row) for row in own.rows]
        ids = own.table["id"]
        own.table = {
            name: [
                cell for cell, n in zip(column, counts, strict=True) for _ in range(n)
            ]
            for name, column in own.table.items()
        }
        own.table["id"] = [
            f"{i}-{number}"
            for i, n in zip(ids, counts, strict=True)
            for number in range(n)
        ]
    return files


def weight(row: int) -> float:
    """Return a weight that is no round number."""
    return 0.2 + (row * 37 % N_ROWS) / 7


def offset(row: int) -> float:
    """Return an offset."""
    return (row * 11 % N_ROWS) / 50 - 0.4
