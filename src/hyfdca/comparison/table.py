"""The long table of a comparison: one row per algorithm and measured round."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from hyfdca import __version__
from hyfdca.comparison.runs import Curve, CurvePoint

SCHEMA = pa.schema(
    [
        ("label", pa.string()),
        ("algorithm", pa.string()),
        ("settings", pa.string()),  # JSON
        ("round", pa.int64()),
        ("primal", pa.float64()),
        ("dual", pa.float64()),
        ("gap", pa.float64()),
        ("relative_gap", pa.float64()),
        ("relative_loss", pa.float64()),
        ("validation", pa.float64()),
        ("bytes_up", pa.int64()),
        ("bytes_down", pa.int64()),
        ("round_trips", pa.float64()),
        ("seconds", pa.float64()),
        ("simulated_seconds", pa.float64()),
        ("participants", pa.int64()),
        ("stop_reason", pa.string()),
        ("seed", pa.int64()),
        ("version", pa.string()),
    ]
)


def long_table(curves: Sequence[Curve], seed: int) -> pa.Table:
    """Return the table; what does not apply is null.

    Only the last row of an algorithm has a stop reason.
    """
    rows = [row for curve in curves for row in _rows(curve, seed)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def as_csv(table: pa.Table) -> bytes:
    """Return the table as a CSV file."""
    content = io.BytesIO()
    pa.csv.write_csv(table, content)
    return content.getvalue()


def as_parquet(table: pa.Table) -> bytes:
    """Return the table as a Parquet file."""
    content = io.BytesIO()
    pa.parquet.write_table(table, content)
    return content.getvalue()


def _rows(curve: Curve, seed: int) -> Iterator[dict[str, Any]]:
    for point in curve.points:
        yield {
            "label": curve.contender.label,
            "algorithm": curve.contender.algorithm.name,
            "settings": curve.contender.settings,
            **point_numbers(point),
            "stop_reason": curve.stop_reason if point is curve.points[-1] else None,
            "seed": seed,
            "version": __version__,
        }


def point_numbers(point: CurvePoint) -> dict[str, Any]:
    """Return the numbers of a point by the names of the table's columns."""
    measured = point.measurement
    has_bound = measured.dual is not None
    return {
        "round": point.round,
        "primal": measured.primal,
        "dual": measured.dual,
        "gap": measured.gap if has_bound else None,
        "relative_gap": measured.relative_gap if has_bound else None,
        "relative_loss": point.relative_loss,
        "validation": point.validation,
        **asdict(point.spent),
        "participants": point.participants,
    }
