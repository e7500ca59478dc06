"""The command ``hyfdca predict``: its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyfdca.errors import StudyError

if TYPE_CHECKING:
    from hyfdca.data.csv_form import CsvForm


def predict(  # noqa: PLR0913, PLR0917  # the options of a command
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
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Encoding of a CSV file, such as cp1252; by default found by looking, "
            "as are the next two.",
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(metavar="CHAR", help="What is between its cells; \\t is a tab."),
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(metavar="CHAR", help="Its decimal point: . or ,")
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
        form = _given_form(encoding, delimiter, decimal)
        files = PredictionFiles(model, data, out, id_column, label_column, form)
        predict_here(console, files)
    elif kit is not None:
        if any((id_column, label_column, encoding, delimiter, decimal)):
            raise StudyError(
                "With --kit the study file names the ID and label columns and says how "
                "CSV files are written; omit --id-column and --label-column, and "
                "--encoding, --delimiter and --decimal."
            )
        predict_with_others(console, kit, data, out)
    console.print(f"Written to {out}", soft_wrap=True, markup=False)


def _given_form(
    encoding: str | None, delimiter: str | None, decimal: str | None
) -> CsvForm:
    """Return how a CSV file is written, as options say."""
    from hyfdca.data.csv_form import CsvForm, is_delimiter, is_encoding

    delimiter = "\t" if delimiter == "\\t" else delimiter
    if encoding is not None and not is_encoding(encoding):
        raise StudyError(
            f"The encoding {encoding!r} is unknown; give --encoding as utf-8, cp1252 "
            "or another that Python knows."
        )
    if delimiter is not None and not is_delimiter(delimiter):
        raise StudyError(
            f"The delimiter {delimiter!r} is not one printable ASCII character or a "
            "tab; correct --delimiter."
        )
    if decimal not in (None, ".", ","):
        raise StudyError(
            f"The decimal point {decimal!r} is unknown; give --decimal as a point or a "
            "comma."
        )
    return CsvForm(encoding, delimiter, decimal)
