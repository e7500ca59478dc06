"""Every measured round of a study as one long table."""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from hyfdca.reproduction.clock import waiting
from hyfdca.reproduction.paper import FIGURE_LATENCY, Setting
from hyfdca.reproduction.plan import RunKey
from hyfdca.reproduction.views import Study

_TEXTS = (
    *("data_set", "clients", "method", "hyperparameters", "clock"),
    *("choices", "version"),
)
_SETTINGS = ("fraction", "l2", "iic", "rate", "rate_offset", "mu")
_MEASURED = (
    *("loss", "bound", "relative_loss", "accuracy"),
    *("computation_seconds", "waiting_seconds"),
)
_COUNTS = (
    *("round", "seed", "bytes"),
    *("sealed", "opened", "busiest_sealed", "busiest_opened", "sealed_drawn"),
)


def long_table(study: Study) -> pa.Table:
    """Return a row per measured round of every run; null for what does not apply.

    Costs are totals from the start. ``encryption_seconds`` has a column per scheme, in
    the order of ``Study.schemes``.
    """
    parts = [_run_columns(study, key) for key in study.runs]
    parts += [_bundle_columns(study, setting) for setting in study.bundles]
    schema = _schema(study)
    tables = [_table(schema, columns) for columns in parts]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def as_parquet(table: pa.Table) -> bytes:
    """Return the table as a Parquet file."""
    content = io.BytesIO()
    pa.parquet.write_table(table, content, compression="zstd")
    return content.getvalue()


def _schema(study: Study) -> pa.Schema:
    schemes = [_encryption_name(scheme.name) for scheme in study.schemes]
    return pa.schema(
        [(name, pa.string()) for name in _TEXTS]
        + [(name, pa.float64()) for name in (*_SETTINGS, *_MEASURED, *schemes)]
        + [(name, pa.int64()) for name in _COUNTS]
    )


def _encryption_name(scheme: str) -> str:
    words = scheme.lower().replace(",", "").split()
    return "_".join(["encryption_seconds", *words])


def _table(schema: pa.Schema, columns: dict[str, Any]) -> pa.Table:
    n_rows = len(columns["round"])
    arrays = []
    for own in schema:
        value = columns.get(own.name)
        values = value if isinstance(value, np.ndarray) else [value] * n_rows
        arrays.append(pa.array(values, own.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _run_columns(study: Study, key: RunKey) -> dict[str, Any]:
    run, name = study.runs[key], key.setting.data_set
    columns = {
        "method": key.method,
        "hyperparameters": key.source,
        "clock": key.clock,
        **study.chosen[key.source][key.setting][key.method].as_settings(),
        "round": run.rounds,
        "loss": run.losses,
        "bound": run.bounds,
        "relative_loss": run.losses / study.optima[name].dual - 1.0,
        "accuracy": run.accuracies,
        "computation_seconds": run.seconds,
        "waiting_seconds": run.rounds * waiting(key.method),
        "bytes": run.bytes,
        "sealed": run.sealed,
        "opened": run.opened,
        "busiest_sealed": run.busiest_sealed,
        "busiest_opened": run.busiest_opened,
        "sealed_drawn": run.sealed_drawn,
    }
    if key.method == "hyfdca":
        columns |= {
            _encryption_name(own.name): own.seconds(run) for own in study.schemes
        }
    return {**_common(study, key.setting), **columns}


def _bundle_columns(study: Study, setting: Setting) -> dict[str, Any]:
    own = study.bundles[setting]
    return {
        **_common(study, setting),
        "method": "bundle",
        "round": own.rounds,
        "loss": own.losses,
        "bound": own.bounds,
        "relative_loss": own.losses / study.optima[setting.data_set].dual - 1.0,
        "accuracy": own.accuracies,
        "computation_seconds": own.seconds,
        "waiting_seconds": own.round_trips * FIGURE_LATENCY,
        "bytes": own.n_bytes,
    }


def _common(study: Study, setting: Setting) -> dict[str, Any]:
    plan = study.plan
    return {
        "data_set": setting.data_set,
        "clients": setting.label.rpartition(", ")[0],
        "fraction": setting.fraction,
        "l2": plan.l2[setting.data_set],
        "seed": plan.seed,
        "choices": json.dumps(dataclasses.asdict(plan.choices)),
        "version": study.version,
    }
