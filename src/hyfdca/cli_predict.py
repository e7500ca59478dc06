"""The command ``hyfdca predict``: its arguments, and what a terminal shows of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hyfdca.prediction import PredictionFiles, Predictions, Score, predict_file

_MOST_CLASSES = 10  # of which counts are shown


def predict(
    model: Annotated[
        Path, typer.Option(metavar="FILE", help="The model.json of hyfdca train.")
    ],
    data: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Rows with all features, as CSV, Parquet, LIBSVM or NPZ. Columns are "
            "found by name; others are ignored.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="FILE", help="File to write to, .csv or .parquet."),
    ] = Path("predictions.csv"),
    id_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column of the IDs; by default the study's."),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column of known labels, to compare with; by default the study's, if "
            "there is one.",
        ),
    ] = None,
) -> None:
    """Predict rows of one file that has all features of a model.

    Writes id, margin, prediction and, for the logistic loss, probability of each row.
    """
    console = Console()
    files = PredictionFiles(model, data, out, id_column, label_column)
    console.print(_summary(predict_file(files)))
    console.print(f"Written to {out}", soft_wrap=True, markup=False)


def _summary(predictions: Predictions) -> Table:
    model = predictions.model
    title = escape(model.file.study)
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("rows predicted", f"{len(predictions.ids):,}")
    counts = predictions.class_counts()
    for name in list(counts)[:_MOST_CLASSES]:
        table.add_row(f"  as {escape(name)}", f"{counts[name]:,}")
    if n_more := sum(list(counts.values())[_MOST_CLASSES:]):
        table.add_row("  as others", f"{n_more:,}")
    for what, number in _score_rows(predictions.score(), len(predictions.ids)):
        table.add_row(what, number)
    gap = model.certificate.relative_gap
    table.add_row("certified relative gap of the model", f"{gap:.2e}")
    return table


def _score_rows(score: Score | None, n_rows: int) -> list[tuple[str, str]]:
    if score is None:
        return []
    rows = []
    if score.n_labelled < n_rows:
        rows.append(("rows with a label", f"{score.n_labelled:,}"))
    if score.accuracy is not None:
        rows.append(("accuracy", f"{score.accuracy:.1%}"))
    if score.n_unknown:
        rows.append(("labels unknown to the model", f"{score.n_unknown:,}"))
    if score.r2 is not None:
        rows.append(("R²", f"{score.r2:.4f}"))
    if score.absolute_error is not None:
        rows.append(("mean absolute error", f"{score.absolute_error:.6g}"))
    return rows
