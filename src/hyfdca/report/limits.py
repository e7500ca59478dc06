"""What a model's readers must know before they use it, in plain words."""

from __future__ import annotations

from collections.abc import Iterator

from hyfdca.errors import counted
from hyfdca.report.numbers import share
from hyfdca.report.result_files import ResultFile, ResultFolder
from hyfdca.study.about import About
from hyfdca.study.outcome import RESULT

_LINEAR = (
    "The model is linear: every feature contributes independently of the others. It "
    "has no interactions."
)
_SHRUNK = (
    "The penalty λ pulls coefficients towards zero, and features that vary together "
    "share theirs. A coefficient is not a causal effect, and there is no "
    "confidence interval for it."
)
_CERTIFIED = (
    "The certificate is about the loss on the training rows. It says that no better "
    "model of this kind exists for these rows, not that the model is right for others."
)
_NOT_HELD_OUT = (
    "No rows were held out, so nothing here says how the model does on rows that it "
    "has not seen."
)
_ELSEWHERE = "Elsewhere and later the model may do worse."
_DRAWN = (
    "Held-out rows come from the same organisations and the same time as the training "
    "rows."
)
_HELD_OUT = "Held-out rows come from the tables of this study."
_REHEARSAL = (
    "All parties ran in one process. That is a rehearsal: the person who ran it could "
    "read all tables."
)
_NOT_SEALED = "Nothing was encrypted: the server could read what organisations sent."
_WEIGHTED_CLASSES = (
    "Classes were weighted (class_weight): predicted probabilities are not risks. "
    "Those of classes that count more are too high."
)
_SHARED = (
    "Organisations that share rows can compute cells of each other from what they "
    "receive; the section on what parties could see has the numbers."
)
_NO_PROBABILITIES = (
    "The model's scores are not probabilities; only the logistic loss gives these."
)
_FILLINGS = {"mean": "as the mean of their column", "zero": "as zero"}
_SCORED_EARLIER_RUNS = (
    "The held-out rows also scored earlier runs of the study. If this run was picked "
    "by its scores, they are too good."
)


def limits_of(folder: ResultFolder) -> tuple[str, ...]:
    """Return sentences, the most important first."""
    return (*_of_this_run(folder), *_of_the_data(folder), *_of_the_model(folder))


def _of_this_run(folder: ResultFolder) -> Iterator[str]:
    result = folder.result
    if result.warning is not None:
        yield result.warning
    if has_weighted_classes(folder.model.has_probabilities, result.about):
        yield _WEIGHTED_CLASSES
    if result.about is not None and result.about.is_rehearsal:
        yield _REHEARSAL
    if result.encryption == "none":
        yield _NOT_SEALED
    if result.about is not None and result.about.exposed:
        yield _SHARED
    if result.evaluation and result.about is not None and result.about.run > 1:
        yield _SCORED_EARLIER_RUNS


def _of_the_data(folder: ResultFolder) -> Iterator[str]:
    result = folder.result
    if result.uncovered_cells and result.cells:
        part = share(result.uncovered_cells / result.cells)
        yield f"Nobody holds {part} of all cells. They count {_filling(folder)}."
    if folder.model.file.scaling.missing == "mean":
        yield from _blank_cells(folder)
    if n_rows := result.rows_without_label:
        yield f"Left out: {counted(n_rows, 'row')} without a label."
    if n_rows := result.rows_of_weight_zero:
        yield f"Left out: {counted(n_rows, 'row')} of weight 0."


def _filling(folder: ResultFolder) -> str:
    """Return what cells that nobody holds count as, by kind of column."""
    model, about = folder.model, folder.result.about
    settings = about.settings if about is not None else {}
    number = _FILLINGS.get(str(settings.get("uncovered")), "as a constant")
    if not model.file.categories:
        return number
    level = "as the most frequent level"
    if set(model.inputs.columns) <= model.file.categories.keys():
        return level
    return f"{number}, or in a category {level}"


def _blank_cells(folder: ResultFolder) -> Iterator[str]:
    """Yield what blank cells count as, by kind of column."""
    file, columns = folder.model.file, folder.model.inputs.columns
    if set(columns) - file.categories.keys():
        yield "Blank cells count as the mean of their column."
    if file.categories:
        yield "Blank cells of categories count as a level of their own, missing."


def _of_the_model(folder: ResultFolder) -> Iterator[str]:
    yield _CERTIFIED
    if RESULT not in folder.missing:
        yield _held_out(folder.result) if folder.result.evaluation else _NOT_HELD_OUT
    if folder.model.task == "classification" and not folder.model.has_probabilities:
        yield _NO_PROBABILITIES
    yield _SHRUNK
    yield _LINEAR


def _held_out(result: ResultFile) -> str:
    """Return where held-out rows come from, as far as it is known."""
    settings = result.about.evaluation if result.about is not None else {}
    if (column := settings.get("holdout_column")) is not None:
        return f"The study's column {column!r} chose the held-out rows. {_ELSEWHERE}"
    return f"{_DRAWN if settings else _HELD_OUT} {_ELSEWHERE}"


def has_weighted_classes(has_probabilities: bool, about: About | None) -> bool:
    """Return whether weights of classes moved probabilities."""
    settings = about.settings if about is not None else {}
    return has_probabilities and settings.get("class_weight") is not None
