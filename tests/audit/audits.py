"""Small studies to record and audit."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from hyfdca.audit.recording import train_recorded
from hyfdca.audit.report import Audit, audit_folder
from hyfdca.maths.seeds import stream
from tests.support.consortia import ALGORITHM_KEYS, EVALUATION_KEYS

N_ROWS, N_COLUMNS = 40, 9

# Organisations: who has which rows and columns.
HORIZONTAL = {
    "north": (range(20), range(5)),
    "city": (range(20, N_ROWS), range(5)),
}
TWO = {"north": (range(N_ROWS), range(3)), "city": (range(N_ROWS), range(3, 6))}
THREE = {**TWO, "coast": (range(N_ROWS), range(6, N_COLUMNS))}
GRID = {
    "north": (range(20), range(4)),
    "city": (range(20, N_ROWS), range(4)),
    "coast": (range(20), range(4, 8)),
    "south": (range(20, N_ROWS), range(4, 8)),
}
PAPER = {
    "algorithm": '"hyfdca"',
    "step": '"paper"',
    "l2": "0.1",
    "loss": '"logistic"',
}


def write_study(folder: Path, who, lacking=(), table=None, **settings) -> Path:
    """Write a study of these organisations and their parts of one table.

    Settings of an algorithm go to its own table, others to that of the study.
    """
    random = stream(5, "audits")
    X = random.normal(size=(N_ROWS, N_COLUMNS)) + 0.5 if table is None else table
    scores = X @ random.normal(size=X.shape[1]) + random.normal(size=len(X))
    labels = scores > (0 if table is None else np.median(scores))
    chosen = {"name": '"audited"', "id_column": '"id"', "label_column": '"y"'}
    chosen |= {"tol": "0.0", "max_rounds": "30", "encryption": '"none"', **settings}
    own = {key: chosen.pop(key) for key in ALGORITHM_KEYS & chosen.keys()}
    evaluation = {k: chosen.pop(k) for k in set(EVALUATION_KEYS) & chosen.keys()}
    lines = ["[study]", *(f"{key} = {value}" for key, value in chosen.items())]
    if own:
        named = {"name": own.pop("algorithm"), **own}
        lines += ["[algorithm]", *(f"{key} = {value}" for key, value in named.items())]
    lines += ["[evaluation]", *(f"{k} = {value}" for k, value in evaluation.items())]
    for name, (rows, columns) in who.items():
        lines += ["[[clients]]", f'name = "{name}"', f'data = "{name}.csv"']
        if name in lacking:
            lines.append("label = false")
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", *(f"x{column}" for column in columns), "y"])
            for row in rows:
                cells = X[row, list(columns)].tolist()
                writer.writerow([f"P{row}", *cells, "ill" if labels[row] else "well"])
    path = folder / "study.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def record(folder: Path, who, clients=(), **given) -> Path:
    """Train such a study, recorded; return the folder of its views."""
    path = write_study(folder, who, **given)
    train_recorded(path, folder / "out", lambda *_: None, list(clients))
    return folder / "out"


def audited(folder: Path, who, **given) -> Audit:
    """Record a study and audit it."""
    return audit_folder(record(folder, who, **given))
