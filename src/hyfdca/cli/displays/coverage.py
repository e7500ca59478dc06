"""A map of a table on the terminal: groups of rows by groups of columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.table import Table

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.cli.displays.escaping import escape
from hyfdca.data.tables import listed
from hyfdca.errors import counted
from hyfdca.holdings.axis import Axis, shared_counts
from hyfdca.holdings.coverage import Coverage

_MOST_ROWS, _MOST_COLUMNS = 8, 6  # groups that are shown, the largest
_MOST_PAIRS = 3  # pairs of organisations, those that share the fewest rows


def coverage_map(coverage: Coverage, names: Sequence[str]) -> Table:
    """Return who holds which cells, with one entry for each set of holders."""
    rows = _largest(coverage.rows, _MOST_ROWS)
    columns = _largest(coverage.columns, _MOST_COLUMNS)
    table = Table(title="Who holds which cells", title_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(counted(coverage.columns[column], "column"))
    for row in rows:
        held = coverage.row_holders[row] & coverage.column_holders[columns]
        cells = [_named(names, own) for own in held]
        table.add_row(counted(coverage.rows[row], "row"), *cells)
    n_left = (len(coverage.rows) - len(rows), len(coverage.columns) - len(columns))
    notes = []
    if any(n_left):
        notes.append(f"{n_left[0]} more groups of rows and {n_left[1]} of columns.")
    if coverage.n_uncovered:
        share = f"{coverage.uncovered_share:.1%}"
        notes.append(f"Nobody holds {share} of all cells ({coverage.n_uncovered:,}).")
    table.caption = " ".join(notes) or None
    return table


def column_lists(
    coverage: Coverage, names: Sequence[str], features: Sequence[str]
) -> list[str]:
    """Return the features by their holders, one line per group of the map."""
    lines = []
    for group in _largest(coverage.columns, _MOST_COLUMNS).tolist():
        holders = np.flatnonzero(coverage.column_holders[group]).tolist()
        own = [features[column] for column in coverage.columns_of(group).tolist()]
        who = ", ".join(names[k] for k in holders)
        lines.append(f"{counted(len(own), 'column')} of {who}: {listed(own)}")
    return lines


def few_shared(samples: Axis, names: Sequence[str]) -> list[str]:
    """Return lines about organisations that share less than half of their rows.

    Where no two organisations share any row, that is the kind of the study.
    """
    shared = shared_counts(samples)
    fewer = np.minimum.outer(np.diag(shared), np.diag(shared))
    if not np.triu(shared, 1).any():
        return []
    pairs = np.argwhere(np.triu(2 * shared < fewer, 1)).tolist()
    pairs.sort(key=lambda pair: shared[*pair] / fewer[*pair])
    lines = [
        f"{names[a]} and {names[b]} share {shared[a, b]:,} of {fewer[a, b]:,} rows."
        for a, b in pairs[:_MOST_PAIRS]
    ]
    n_left = len(pairs) - len(lines)
    return [*lines, f"{n_left} more pairs share less than half."] if n_left else lines


def _largest(sizes: IntArray, most: int) -> IntArray:
    """Return the largest groups, in their own order."""
    return np.sort(np.argsort(-sizes, kind="stable")[:most])


def _named(names: Sequence[str], is_holder: BoolArray) -> str:
    held = [escape(names[k]) for k in np.flatnonzero(is_holder).tolist()]
    return ", ".join(held) or "[bold yellow]nobody[/]"
