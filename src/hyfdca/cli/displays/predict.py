"""Terminal output about predictions."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from hyfdca.cli.displays.escaping import escape
from hyfdca.kits.startup import require_nvflare
from hyfdca.prediction.complete_rows import (
    PredictionFiles,
    Predictions,
    check_out,
    predict_file,
    write_predictions,
)
from hyfdca.prediction.label_scores import PredictionScore
from hyfdca.prediction.split_rows import SplitPredictions

_MOST_CLASSES = 10  # whose counts are shown
_MOST_COLUMNS = 5  # with levels that the model does not name


def predict_here(console: Console, files: PredictionFiles) -> None:
    """Predict rows with all features, and show a summary."""
    predictions = predict_file(files)
    console.print(_summary(predictions))
    _show_note(console, predictions)


def predict_with_others(console: Console, kit: Path, data: Path, out: Path) -> None:
    """Ask other organisations for scores of split rows, and show a summary."""
    _show_split(console, _ask(console, kit, data, out))


def _ask(console: Console, kit: Path, data: Path, out: Path) -> SplitPredictions:
    require_nvflare()
    # Imported here because its dependencies may not be installed.
    from hyfdca.flare.predictions.asking import asked

    check_out(out, data)
    with asked(kit, data, lambda said: console.print(said, markup=False)) as made:
        write_predictions(made.predictions, out)
    return made


def _show_split(console: Console, made: SplitPredictions) -> None:
    table = _summary(made.predictions)
    if made.n_left_out:
        table.add_row("rows omitted for lack of features", f"{made.n_left_out:,}")
    if made.n_filled:
        table.add_row("filled cells that nobody holds", f"{made.n_filled:,}")
    console.print(table)
    _show_note(console, made.predictions)


def _show_note(console: Console, predictions: Predictions) -> None:
    score = predictions.score()
    for note in (predictions.note, score.note if score else ""):
        if note:
            console.print(note, soft_wrap=True, markup=False)
    if predictions.warning:
        warning = f"Warning: {predictions.warning}"
        Console(stderr=True).print(warning, soft_wrap=True, markup=False)


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
    if predictions.n_unknown:
        what = "rows with a level that the model does not name"
        table.add_row(what, f"{predictions.n_unknown:,}")
    for column, level in list(predictions.unknown_levels.items())[:_MOST_COLUMNS]:
        table.add_row(f"  in {escape(column)}, such as", escape(repr(level)))
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
