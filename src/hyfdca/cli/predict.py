"""The command ``hyfdca predict``: its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyfdca.errors import StudyError


def predict(
    data: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Rows to predict, as CSV, Parquet, LIBSVM or NPZ. Columns are matched "
            "by name; others are ignored. With --model the rows have all features, "
            "with --kit those that this organisation holds.",
        ),
    ],
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The model.json that hyfdca train wrote."),
    ] = None,
    kit: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="This organisation's kit: ask the organisations that hold the other "
            "features for scores of these rows.",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(metavar="FILE", help="File to write to, .csv or .parquet."),
    ] = Path("predictions.csv"),
    id_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column of IDs; by default the study's."),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column of known labels to compare with; by default the study's, if "
            "it exists.",
        ),
    ] = None,
) -> None:
    """Predict rows of one file, or rows split over organisations.

    Writes the id, margin, prediction and, for the logistic loss, probabilities of each
    row.

    With --model the file has all features. With --kit, an organisation of the study
    that may_predict asks for rows of its own table. All others must be online with
    their rows (hyfdca client --predict), and so must the server (hyfdca server
    --predict). Each of them logs who asked and for how many rows.
    """
    from rich.console import Console

    from hyfdca.cli.displays.predict import predict_here, predict_with_others
    from hyfdca.prediction.complete_rows import PredictionFiles

    console = Console()
    if (model is None) == (kit is None):
        raise StudyError("Give either --model, or --kit to ask other organisations.")
    if model is not None:
        files = PredictionFiles(model, data, out, id_column, label_column)
        predict_here(console, files)
    elif kit is not None:
        if id_column or label_column:
            raise StudyError(
                "With --kit the study file names the ID and label columns; omit "
                "--id-column and --label-column."
            )
        predict_with_others(console, kit, data, out)
    console.print(f"Written to {out}", soft_wrap=True, markup=False)
