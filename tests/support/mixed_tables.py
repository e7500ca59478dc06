"""A table with text, dates and booleans, split over three organisations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from hyfdca.maths.seeds import stream
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train

N_ROWS = 120
MIN_COUNT = 5
ORIGIN = pd.Timestamp("2000-01-01")

# Everybody's columns overlap with somebody's, and so do the rows; no cell is nobody's.
NORTH, CITY = list(range(70)), list(range(50, N_ROWS))
COAST = [*range(50), *range(70, N_ROWS)]
HELD = {
    "north": (NORTH, ["age", "ward", "smoker"]),
    "city": (CITY, ["pressure", "ward", "admitted", "code"]),
    "coast": (COAST, ["admitted", "age", "pressure", "smoker"]),
    "island": (NORTH[:50], ["code"]),
}


def mixed_frame() -> pd.DataFrame:
    """Return the pooled table; levels differ between the first and the last rows.

    Of the wards "chapel" and "attic" are rare, "harbour" is in the last rows only, and
    "hall" is as frequent as "lodge".
    """
    random = stream(5, "mixed")
    early = ["ICU"] * 30 + ["emergency"] * 20 + ["lodge"] * 8 + ["chapel"] * 2
    late = ["ICU"] * 22 + ["harbour"] * 20 + ["hall"] * 8 + ["attic"] * 3
    wards = [*random.permutation(early), *random.permutation([*late, *["ICU"] * 7])]
    days = random.integers(0, 3000, N_ROWS)
    return pd.DataFrame(
        {
            "id": [f"P{row:03d}" for row in range(N_ROWS)],
            "age": random.normal(50.0, 15.0, N_ROWS),
            "pressure": random.normal(120.0, 9.0, N_ROWS),
            "ward": wards,
            "admitted": ORIGIN + pd.to_timedelta(days, unit="D"),
            "smoker": random.random(N_ROWS) < 0.4,
            "code": random.choice(["007", "7", "12"], N_ROWS),
            "y": np.where(random.random(N_ROWS) < 0.5, "ill", "well"),
        }
    )


@dataclass
class MixedStudy:
    """A study of such tables, which a test may change before it is written."""

    frame: pd.DataFrame = field(default_factory=mixed_frame)
    settings: dict[str, str] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (rows, columns) in HELD.items():
            own = self.frame.iloc[rows][["id", *columns, "y"]]
            self.tables[name] = own.reset_index(drop=True)

    def write(self, folder: Path) -> Path:
        """Write the tables, two as CSV and two as Parquet, and the study file."""
        settings = {
            "name": '"mixed"',
            "l2": "0.05",
            "scale": '"standard"',
            "tol": "1e-8",
            "fit_intercept": "false",
            "positive_label": '"well"',
            "encryption": '"none"',
            "id_column": '"id"',
            "label_column": '"y"',
            "categorical": '["code"]',
            **self.settings,
        }
        lines = ["[study]", *(f"{k} = {v}" for k, v in settings.items())]
        for number, (name, table) in enumerate(self.tables.items()):
            ending = "parquet" if number % 2 else "csv"
            lines += ["[[clients]]", f'name = "{name}"', f'data = "{name}.{ending}"']
            if ending == "csv":
                table.to_csv(folder / f"{name}.csv", index=False)
            else:
                table.to_parquet(folder / f"{name}.parquet")
        path = folder / "study.toml"
        path.write_text("\n".join(lines) + "\n")
        return path


def with_others(levels: pd.Series) -> pd.Series:
    """Return levels with the rare ones replaced; blank cells are "missing".

    If these are rare even together, they are the most frequent level.
    """
    levels = levels.fillna("missing")
    is_rare = levels.map(levels.value_counts()) < MIN_COUNT
    is_other = is_rare.sum() >= MIN_COUNT
    return levels.mask(is_rare, "other" if is_other else levels.mode()[0])


def pooled_features(
    frame: pd.DataFrame, references: dict[str, str]
) -> tuple[np.ndarray, list[str]]:
    """Return scikit-learn's features of the pooled table, and their names."""
    numbers = pd.DataFrame(
        {
            "age": frame["age"],
            "pressure": frame["pressure"],
            "admitted": (frame["admitted"] - ORIGIN) / pd.Timedelta(days=1),
            "smoker": frame["smoker"].astype(float),
        }
    )
    levels = {name: with_others(frame[name]) for name in references}
    encoder = OneHotEncoder(drop=list(references.values()), sparse_output=False)
    transformer = ColumnTransformer(
        [
            ("numbers", StandardScaler(), list(numbers)),
            ("levels", encoder, list(levels)),
        ]
    )
    X = transformer.fit_transform(numbers.assign(**levels))
    made = encoder_names(transformer.named_transformers_["levels"], list(levels))
    return np.asarray(X), [*numbers, *made]


def encoder_names(encoder: OneHotEncoder, columns: Sequence[str]) -> list[str]:
    """Return the names of features as a study names them."""
    names = []
    each = zip(columns, encoder.categories_, encoder.drop_idx_, strict=True)
    for column, levels, dropped in each:
        kept = [name for place, name in enumerate(levels) if place != dropped]
        names += [f"{column}={name}" for name in kept]
    return names


L2 = 0.05


def trained(study, folder):
    path = study.write(folder)
    return train(prepare(load(path), folder), lambda *_: None)


def references_of(outcome):
    entries = outcome.run.consortium.levels.entries
    return {name: entry.reference or "missing" for name, entry in entries.items()}


def assert_is_pooled(outcome, frame):
    """Check coefficients against scikit-learn on the pooled table.

    The objective is strongly convex, so the certified gap bounds their distance.
    """
    X, names = pooled_features(frame, references_of(outcome))
    assert sorted(outcome.run.consortium.features) == sorted(names)
    oracle = LogisticRegression(
        C=1.0 / (L2 * len(X)), fit_intercept=False, tol=1e-12, max_iter=10_000
    ).fit(X, frame["y"] == "well")
    order = [names.index(name) for name in outcome.run.consortium.features]
    found = outcome.weights[:, 0]
    distance = np.linalg.norm(found - oracle.coef_[0][order])
    assert distance <= np.sqrt(2.0 * outcome.certificate.gap / L2) + 1e-6
    assert outcome.certificate.relative_gap <= 1e-8
    assert np.abs(found).min() > 1e-4  # or the comparison would say nothing
