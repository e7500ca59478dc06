"""The command ``hyfdca predict``: its arguments, and what a terminal shows of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hyfdca.errors import StudyError
from hyfdca.kits.startup import require_nvflare
from hyfdca.prediction.complete_rows import (
    PredictionFiles,
    Predictions,
    PredictionScore,
    check_out,
    predict_file,
    write_predictions,
)
from hyfdca.prediction.split_rows import SplitPredictions

_MOST_CLASSES = 10  # of which counts are shown


def predict(
    data: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Rows to predict, as CSV, Parquet, LIBSVM or NPZ. Columns are found "
            "by name; others are ignored. With --model they have all features, with "
            "--kit those that this organisation holds.",
        ),
    ],
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The model.json of hyfdca train."),
    ] = None,
    kit: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="This organisation's kit: ask the others, which hold the other "
            "features, for scores of these rows.",
        ),
    ] = None,
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
    """Predict rows of one file, or rows that are split over organisations.

    Writes id, margin, prediction and, for the logistic loss, probability of each row.

    With --model the file has all features. With --kit, an organisation of the study
    that may_predict asks for rows of its own table; all others must be there with
    their rows (hyfdca client --predict), and the server (hyfdca server --predict).
    Each of them logs who asked and for how many rows.
    """
    console = Console()
    if (model is None) == (kit is None):
        raise StudyError("Give either --model, or --kit to ask other organisations.")
    if model is not None:
        files = PredictionFiles(model, data, out, id_column, label_column)
        console.print(_summary(predict_file(files)))
    elif kit is not None:
        if id_column or label_column:
            raise StudyError(
                "With --kit the study file says which columns have IDs and labels; "
                "leave --id-column and --label-column out."
            )
        _show_split(console, _ask(console, kit, data, out))
    console.print(f"Written to {out}", soft_wrap=True, markup=False)


def _ask(console: Console, kit: Path, data: Path, out: Path) -> SplitPredictions:
    require_nvflare()
    # Here, since what it needs may not be installed.
    from hyfdca.flare.asking import ask  # noqa: PLC0415

    check_out(out, data)
    made = ask(kit, data, lambda said: console.print(said, markup=False))
    write_predictions(made.predictions, out)
    return made


def _show_split(console: Console, made: SplitPredictions) -> None:
    table = _summary(made.predictions)
    if made.n_left_out:
        table.add_row("rows left out for lack of features", f"{made.n_left_out:,}")
    if made.n_filled:
        table.add_row("cells that nobody holds, filled", f"{made.n_filled:,}")
    console.print(table)


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


def _score_rows(score: PredictionScore | None, n_rows: int) -> list[tuple[str, str]]:
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
