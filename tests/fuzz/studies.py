"""Tiny studies that between them use every stage, phase and algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.maths.seeds import stream

N_ROWS = 14
NAMES = ("north", "city", "coast")

Holdings = Mapping[str, tuple[Sequence[int], list[str]]]  # rows and columns

_COLUMNS = ["age", "pressure", "ward"]
_MIXED: Holdings = {
    "north": (range(10), ["age", "ward"]),
    "city": (range(N_ROWS), ["pressure"]),
    "coast": ([0, 1, 10, 11, 12, 13], ["age", "ward"]),
}
_BY_ROWS: Holdings = {
    "north": (range(5), _COLUMNS),
    "city": (range(5, 10), _COLUMNS),
    "coast": (range(10, N_ROWS), _COLUMNS),
}
_BY_COLUMNS: Holdings = {
    name: (range(N_ROWS), [column])
    for name, column in zip(NAMES, _COLUMNS, strict=True)
}
_HOLDINGS = {
    "cocoa": _BY_ROWS,
    "d3ca": _BY_ROWS,
    "dscovr": _BY_ROWS,
    "feddcd": _BY_ROWS,
    "fedbcd": _BY_COLUMNS,
}

_USUAL = {
    "name": '"fuzz"',
    "l2": "0.1",
    "tol": "0.0",
    "max_rounds": "2",
    "loss": '"logistic"',
    "id_column": '"id"',
    "label_column": '"y"',
    "encryption": '"stream"',
    "scale": '"standard"',
    "missing": '"mean"',
    "min_level_count": "1",
}
_BLANKS = {
    "labels_visible_to_holders": "true",
    "weight_column": '"weight"',
    "class_weight": '"balanced"',
}
_NUMBERS = {"loss": '"half_squared"', "label_column": '"score"'}

# Settings by name of the study: those of [algorithm], then those of [study].
STUDIES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "bundle": ({"name": "bundle"}, _BLANKS),
    "bundle-numbers": ({"name": "bundle"}, _NUMBERS),
    "bundle-open": ({"name": "bundle"}, {"profile": '"open"', "loss": '"hinge"'}),
    "bundle-visits": ({"name": "bundle"}, {"participation": "0.7"}),
    "bundle-tested": ({"name": "bundle"}, _BLANKS),
    "bundle-tested-numbers": ({"name": "bundle"}, _NUMBERS),
    "bundle-bfv": ({"name": "bundle"}, {"encryption": '"bfv"'}),
    "hyfdca": ({"name": "hyfdca"}, {"scale": '"maxabs"'}),
    "hyfdca-paper": ({"name": "hyfdca", "step": "paper"}, {}),
    "hyfdca-safe": ({"name": "hyfdca", "step": "safe"}, {"encryption": '"none"'}),
    **{
        name: ({"name": name}, {})
        for name in ALGORITHMS
        if name not in ("bundle", "hyfdca")
    },
}


# Of studies that set rows aside
_TESTED = ["[evaluation]", "holdout = 0.4", 'salt = "3"', "min_bin = 1"]


def pooled() -> pd.DataFrame:
    """Return the table that the organisations have together."""
    random = stream(3, "fuzz")
    frame = pd.DataFrame(
        {
            "id": [f"P{row:02d}" for row in range(N_ROWS)],
            "age": random.normal(50.0, 15.0, N_ROWS).round(3),
            "pressure": random.normal(120.0, 9.0, N_ROWS).round(3),
            "ward": [("ICU", "hall", "lodge")[row % 3] for row in range(N_ROWS)],
            "weight": 1.0 + np.arange(N_ROWS) % 3,
        }
    )
    frame["score"] = (frame["age"] / 10 + random.normal(size=N_ROWS)).round(3)
    frame["y"] = np.where(frame["score"] > frame["score"].median(), "ill", "well")
    frame.loc[N_ROWS - 1, "pressure"] = np.nan
    return frame


def write_study(folder: Path, name: str) -> Path:
    """Write the tables and the study file of a study; return the file's path."""
    algorithm, own = STUDIES[name]
    settings = {**_USUAL, **own}
    lines = ["[study]", *(f"{key} = {value}" for key, value in settings.items())]
    lines += ["[algorithm]", *(f'{key} = "{v}"' for key, v in algorithm.items())]
    lines += _TESTED if "tested" in name else []
    for client in NAMES:
        _write_table(folder, client, _HOLDINGS.get(name, _MIXED), settings)
        lines += ["[[clients]]", f'name = "{client}"', f'data = "{client}.csv"']
        lines += ["may_predict = true"]
    path = folder / "study.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _write_table(
    folder: Path, client: str, held: Holdings, settings: Mapping[str, str]
) -> None:
    rows, columns = held[client]
    label = settings["label_column"].strip('"')
    own = pooled().iloc[list(rows)][["id", *columns, label, "weight"]]
    if "labels_visible_to_holders" in settings and client == "north":
        own.loc[own.index[:2], label] = None
    if "weight_column" not in settings:
        own = own.drop(columns="weight")
    own.to_csv(folder / f"{client}.csv", index=False)
