"""Makers of models and of their margins, by hand from the JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np

from hyfdca.data.tables import Table, stored_densely
from hyfdca.maths.seeds import stream
from hyfdca.model.file import (
    CertificateEntry,
    ModelFile,
    ScalingEntry,
    TrainingEntry,
    as_bytes,
)
from hyfdca.model.model import Model

FEATURES = ("age", "Größe", 'a, "b"', "x.y [0]")
CLASSES = {"regression": (), "two": ("no", "yes"), "three": ("1", "2", "blue")}


def make_file(
    kind: str = "two",
    loss: str = "logistic",
    scale: str = "standard",
    missing: str = "mean",
    n_features: int = len(FEATURES),
    **changes: Any,
) -> ModelFile:
    """Return a model with random numbers."""
    random = stream(5, kind, scale)
    features, classes = FEATURES[:n_features], CLASSES[kind]
    n_outputs = 3 if kind == "three" else 1
    offsets = random.normal(size=n_features) * (scale == "standard")
    scales = random.random(n_features) + 0.5 if scale != "none" else np.ones(n_features)
    fillings = random.normal(size=n_features) * (missing == "mean")

    def named(numbers):
        return dict(zip(features, numbers.tolist(), strict=True))

    weights = map(tuple, random.normal(size=(n_features, n_outputs)).tolist())
    file = ModelFile(
        format_version=1,
        study="by hand",
        loss=loss,
        loss_parameter=None,
        l2=0.1,
        id_column="id",
        label_column="y",
        positive_label=None,
        classes=classes,
        weights=dict(zip(features, weights, strict=True)),
        intercept=tuple(random.normal(size=n_outputs).tolist()),
        scaling=ScalingEntry(
            scale=scale,
            missing=missing,
            offsets=named(offsets),
            scales=named(scales),
            fillings=named(fillings),
        ),
        training=TrainingEntry(
            algorithm="bundle",
            algorithm_reason="by hand",
            rounds=3,
            stop_reason="tolerance",
            fit_intercept=True,
            intercept_scaling=1.0,
        ),
        certificate=CertificateEntry(primal=0.5, dual=0.25, gap=0.25, relative_gap=0.5),
    )
    return msgspec.structs.replace(file, **changes)


def make_model(*arguments: Any, **changes: Any) -> Model:
    return Model.of(make_file(*arguments, **changes))


def document(file: ModelFile) -> dict[str, Any]:
    """Return a model's JSON as plain dictionaries and lists."""
    return json.loads(as_bytes(file))


def make_table(values: Any, features: Any = FEATURES, labels: Any = None) -> Table:
    """Return a table of dense cells, NaN missing."""
    values = np.asarray(values, dtype=np.float64).reshape(-1, len(features))
    ids = tuple(f"r{row}" for row in range(len(values)))
    return Table(ids, tuple(features), stored_densely(values), labels)


def random_cells(n_rows: int = 7, n_missing: int = 0, n_columns: int = 4) -> np.ndarray:
    """Return cells of different sizes, some zero, some missing."""
    random = stream(6, "cells", n_rows)
    values = random.normal(size=(n_rows, n_columns)) * [1.0, 10.0, 0.1, 3.0][:n_columns]
    values[random.random(values.shape) < 0.3] = 0.0
    places = random.permutation(values.size)[:n_missing]
    values.flat[places] = np.nan
    return values


def margins_by_hand(model: dict[str, Any], row: dict[str, float]) -> list[float]:
    """Return a row's margins, number by number, with exact sums."""
    scaling, margins = model["scaling"], []
    for output, intercept in enumerate(model["intercept"]):
        terms = [intercept]
        for name, weights in model["weights"].items():
            x = row[name]
            x = scaling["fillings"][name] if math.isnan(x) else x
            scaled = (x - scaling["offsets"][name]) / scaling["scales"][name]
            terms.append(weights[output] * scaled)
        margins.append(math.fsum(terms))
    return margins


def all_by_hand(model: dict[str, Any], table: Table) -> np.ndarray:
    """Return the margins of a table's rows by hand."""
    rows = table.cells.toarray().tolist()
    return np.array(
        [
            margins_by_hand(model, dict(zip(table.features, r, strict=True)))
            for r in rows
        ]
    )
