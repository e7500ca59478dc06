"""Tables without a study file, and the files that hyfdca study new drafts for them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hyfdca.maths.seeds import stream
from hyfdca.study.file import load

N_ROWS = 60
FEATURES = ["age", "dose", "weight", "pulse"]


def pooled():
    """Return the table that the organisations have parts of."""
    random = stream(5, "drafts")
    frame = pd.DataFrame(random.normal(size=(N_ROWS, 4)), columns=FEATURES)
    score = frame @ [1.0, -2.0, 0.5, 0.0] + 0.3 * random.normal(size=N_ROWS)
    frame.insert(0, "patient", [f"P{row:03d}" for row in range(N_ROWS)])
    frame["outcome"] = np.where(score > 0, "ill", "well")
    frame["cost"] = score
    return frame


def write(folder, frames):
    """Write tables as CSV or Parquet, by the endings of their names."""
    for name, frame in frames.items():
        if name.endswith(".csv"):
            frame.to_csv(folder / name, index=False)
        else:
            frame.to_parquet(folder / name)
    return [folder / name for name in frames]


def two_parts(label="outcome"):
    """Return the left and the right half of the columns, labels on the left."""
    frame = pooled()
    left = frame[["patient", "age", "dose", label]]
    return {"north.csv": left, "city.parquet": frame[["patient", "weight", "pulse"]]}


def drafted(hyfdca, folder, paths, *options):
    """Draft a study; return its text and what it says."""
    out = folder / "study.toml"
    code, output, errors = hyfdca("study", "new", *paths, "--out", out, *options)
    assert (code, errors) == (0, "")
    assert str(out) in output
    return out.read_text(), load(out)


def halves(first, second):
    """Return two tables of different rows, with different labels."""
    frame = pooled().drop(columns="cost")
    parts = {"north.csv": frame[:30], "city.csv": frame[30:]}
    made = {}
    for labels, (name, own) in zip((first, second), parts.items(), strict=True):
        wanted = np.resize(np.array(labels, dtype=object), len(own))
        made[name] = own.assign(outcome=wanted)
    return made
