"""Small comparisons, and records of their progress."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from hyfdca.comparison.compare import ComparisonSettings, StudyComparison, compare
from hyfdca.comparison.contenders import contenders_of
from hyfdca.comparison.table import long_table
from hyfdca.study.file import load
from hyfdca.study.local.study import read_tables
from tests.support.consortia import Files

TIMES = {"seconds", "simulated_seconds"}


class Watched:
    """Notes who took part in which round, by contender."""

    def __init__(self) -> None:
        self.participants: dict[str, list[tuple[int, ...]]] = {}
        self.reports: dict[str, list[Any]] = {}

    def note(self, sentence: str) -> None:
        """Take no note."""

    def prepare(self, what: str) -> None:
        """Take no note."""

    def begin(self, contender, number, n_all) -> None:
        """Start a list."""
        self._now = contender.label
        self.participants[self._now], self.reports[self._now] = [], []

    def round(self, report, tolerance) -> None:
        """Note a round."""
        self.participants[self._now].append(report.participants)
        self.reports[self._now].append(report)

    def end(self, curve) -> None:
        """Take no note."""


def compared(
    files: Files,
    folder: Path,
    algorithms: str | None,
    watch: Watched | None = None,
    **given: Any,
) -> StudyComparison:
    """Write a study to a folder and compare algorithms on it, without a figure."""
    settings = ComparisonSettings(**{"holdout": 0.0, "latency": 0.1, **given})
    path = files.write(folder)
    contenders = contenders_of(algorithms, load(path))
    file = settings.applied_to(load(path), contenders)
    tables = read_tables(file, folder)
    return compare(file, tables, contenders, settings, watch or Watched())


def rows_of(comparison: StudyComparison, name: str | None = None) -> list[dict]:
    """Return the rows of the long table, of one algorithm or of all."""
    table: pa.Table = long_table(comparison.curves, comparison.file.study.seed)
    return [r for r in table.to_pylist() if name in (None, r["algorithm"])]


def without(rows: Iterable[dict], names: Iterable[str]) -> list[dict]:
    """Return rows without some columns."""
    left_out = set(names)
    return [{k: v for k, v in r.items() if k not in left_out} for r in rows]
