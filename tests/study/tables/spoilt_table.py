"""A small study, and an organisation's table of it, in the form to be spoilt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from hyfdca.maths.seeds import stream

N_ROWS = 30
FEATURES = ["a", "b", "c"]
POSITIVE = "müde"
# Rows and columns: every cell is somewhere, every two organisations share rows and a
# column, and none has all rows or all columns.
ORGANISATIONS = {
    "north": (range(20), ["a", "b"]),
    "city": ([*range(10), *range(20, 30)], ["b", "c"]),
    "coast": (range(10, 30), ["c", "a"]),
}


def pooled() -> pd.DataFrame:
    """Return the table as meant."""
    random = stream(8, "spoilt")
    frame = pd.DataFrame(random.normal(size=(N_ROWS, 3)) * [1, 10, 0.1] + 3)
    frame.columns = FEATURES
    frame.insert(0, "id", [f"{7 * row + 1:04d}" for row in range(N_ROWS)])
    score = frame["a"] - frame["b"] / 10 + random.normal(size=N_ROWS)
    frame["y"] = np.where(score > score.median(), POSITIVE, "wach")
    return frame


def part_of(name: str) -> pd.DataFrame:
    """Return one organisation's part of it."""
    rows, columns = ORGANISATIONS[name]
    return pooled().loc[list(rows), ["id", *columns, "y"]].reset_index(drop=True)


@dataclass
class Spoilt:
    """A table about to be spoilt, and the file that it is written to.

    Parameters
    ----------
    number : int
        Chooses a row, a column or a byte.
    """

    folder: Path
    name: str
    frame: pd.DataFrame
    number: int
    path: Path = Path()

    def __post_init__(self) -> None:
        self.path = self.folder / f"{self.name}.csv"

    @property
    def column(self) -> str:
        """A feature."""
        columns = ORGANISATIONS[self.name][1]
        return columns[self.number % len(columns)]

    @property
    def row(self) -> int:
        """A row."""
        return self.number % len(self.frame)

    def set_cell(self, column: str, value: object) -> None:
        """Change one cell, and write."""
        self.frame[column] = self.frame[column].astype(object)
        self.frame.loc[self.row, column] = value
        self.write_csv()

    def change(self, column: str, how: Callable) -> None:
        """Change a column, and write."""
        self.frame[column] = self.frame[column].map(how)
        self.write_csv()

    def write_csv(self, **options) -> None:
        """Write the table as CSV."""
        self.frame.to_csv(self.path, **{"index": False, **options})

    def write_bytes(self, content: bytes) -> None:
        """Write something else."""
        self.path.write_bytes(content)

    def edit(self, how: Callable[[str], str], encoding: str = "utf-8") -> None:
        """Write the table as CSV with its text changed."""
        text = self.frame.to_csv(index=False)
        self.write_bytes(how(text).encode(encoding))

    def write_parquet(self, **columns) -> None:
        """Write the table as Parquet, with some columns of another type."""
        self.path = self.path.with_suffix(".parquet")
        table = pa.Table.from_pandas(self.frame, preserve_index=False)
        for name, column in columns.items():
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, column)
        pq.write_table(table, self.path)
