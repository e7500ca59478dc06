"""Makers of small consortia: files of organisations that share rows and columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.maths.seeds import stream

# Settings that tests give beside those of [study], but that stand in [algorithm].
EVALUATION_KEYS = ("folds", "choice", "salt")
ALGORITHM_KEYS = {
    "algorithm",
    *(name for kind in ALGORITHMS.values() for name in vars(kind())),
}
HYFDCA = '"hyfdca"'

N_ROWS, N_COLUMNS = 60, 5
NAMES = [f"x{number}" for number in range(N_COLUMNS)]


def pooled_table() -> np.ndarray:
    """Return features of different sizes; x1 is often zero."""
    X = stream(11, "pooled").normal(size=(N_ROWS, N_COLUMNS))
    X = X * [1.0, 5.0, 0.1, 1.0, 30.0] + [0.0, 0.0, 4.0, -2.0, 100.0]
    X[::3, 1] = 0.0
    return X


def scores() -> np.ndarray:
    """Return a noisy linear function of the features."""
    X = pooled_table()
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    noise = stream(11, "noise").normal(size=N_ROWS)
    return standard @ [1.0, -2.0, 1.5, 0.5, 1.0] + 0.5 * noise


@dataclass
class Organisation:
    """A table that a test may spoil before it is written."""

    rows: list[int]
    columns: list[str]
    labels: list[Any]
    extra: str = ""  # more lines of its entry in the study file
    table: dict[str, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        X = pooled_table()
        self.table = {
            "id": [f"P{row:03d}" for row in self.rows],
            **{n: X[self.rows, NAMES.index(n)].tolist() for n in self.columns},
            "y": [self.labels[row] for row in self.rows],
        }


@dataclass
class Files:
    """A study that is to be written to a folder."""

    organisations: dict[str, Organisation]
    settings: dict[str, str]

    def write(self, folder: Path) -> Path:
        """Write the tables as CSV and the study file; return its path."""
        elsewhere = {*ALGORITHM_KEYS, *EVALUATION_KEYS}
        own = {k: v for k, v in self.settings.items() if k not in elsewhere}
        lines = ["[study]", *(f"{k} = {v}" for k, v in own.items())]
        lines += self._algorithm()
        chosen = {k: v for k, v in self.settings.items() if k in EVALUATION_KEYS}
        if chosen:
            lines += ["[evaluation]", *(f"{k} = {v}" for k, v in chosen.items())]
        for name, organisation in self.organisations.items():
            data = f'data = "{name}.csv"' if "data =" not in organisation.extra else ""
            lines += ["[[clients]]", f'name = "{name}"', data, organisation.extra]
            with (folder / f"{name}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(organisation.table)
                writer.writerows(zip(*organisation.table.values(), strict=True))
        path = folder / "study.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def _algorithm(self) -> list[str]:
        """Return the table [algorithm], if a setting of one is given."""
        given = {k: v for k, v in self.settings.items() if k in ALGORITHM_KEYS}
        name = given.pop("algorithm", None)
        if name is None and not given:
            return []
        settings = [f"{k} = {v}" for k, v in given.items()]
        return ["[algorithm]", f"name = {name or HYFDCA}", *settings]


def make_files(labels: list[Any] | None = None, **settings: str) -> Files:
    """Return three organisations that overlap in rows and in columns."""
    labels = (
        ["ill" if s > 0 else "well" for s in scores()] if labels is None else labels
    )
    scale = settings.get("scale", '"standard"')
    return Files(
        {
            "north": Organisation(list(range(40)), NAMES[:3], labels),
            "city": Organisation(list(range(20, 60)), NAMES[2:], labels),
            "coast": Organisation([*range(10), *range(50, 60)], NAMES[:2], labels),
        },
        {
            "name": '"test"',
            "loss": '"logistic"',
            "l2": "0.05",
            "scale": '"standard"',
            "uncovered": '"mean"' if scale == '"standard"' else '"zero"',
            "tol": "1e-4",
            "id_column": '"id"',
            "label_column": '"y"',
            **settings,
        },
    )


def held() -> np.ndarray:
    """Return which cells some organisation of ``make_files`` holds."""
    mask = np.zeros((N_ROWS, N_COLUMNS), dtype=bool)
    for organisation in make_files().organisations.values():
        columns = [NAMES.index(name) for name in organisation.columns]
        mask[np.ix_(organisation.rows, columns)] = True
    return mask


def extra(organisation: str, line: str) -> Callable[[Files], None]:
    """Return what adds a line to an organisation in a study file."""

    def change(files):
        files.organisations[organisation].extra = line

    return change


def assert_one_sentence(text: str) -> None:
    """Check that a complaint is one plain sentence on a line of its own."""
    assert text.endswith(".\n")
    assert text.count("\n") == 1
    assert not re.search(r"[.!?] ", text)
    assert "Traceback" not in text
