"""What a model's readers must know before they use it, in plain words."""

from __future__ import annotations

from collections.abc import Iterator

from hyfdca.errors import counted
from hyfdca.report.result_files import ResultFolder
from hyfdca.study.outcome import RESULT

_LINEAR = (
    "The model is linear: every feature adds its part whatever the others are. Effects "
    "that depend on each other are not in it."
)
_SHRUNK = (
    "The penalty λ pulls coefficients towards zero, and features that vary together "
    "share theirs. A coefficient is not the effect of a cause, and there is no "
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
_HELD_OUT = (
    "Held-out rows come from the same organisations and the same time as the training "
    "rows. Elsewhere and later the model may do worse."
)
_REHEARSAL = (
    "All parties ran in one process. That is a rehearsal: the person who ran it could "
    "read all tables."
)
_NOT_SEALED = "Nothing was encrypted: the server could read what organisations sent."
_SHARED = (
    "Organisations that share rows can compute cells of each other from what they "
    "receive; the section on what parties could see has the numbers."
)
_NO_PROBABILITIES = (
    "The model's scores are not probabilities; only the logistic loss gives these."
)
_FILLINGS = {"mean": "as the mean of their column", "zero": "as zero"}


def limits_of(folder: ResultFolder) -> tuple[str, ...]:
    """Return sentences, the most important first."""
    return (*_of_this_run(folder), *_of_the_data(folder), *_of_the_model(folder))


def _of_this_run(folder: ResultFolder) -> Iterator[str]:
    result = folder.result
    if result.warning is not None:
        yield result.warning
    if result.about is not None and result.about.is_rehearsal:
        yield _REHEARSAL
    if result.encryption == "none":
        yield _NOT_SEALED
    if result.about is not None and result.about.exposed:
        yield _SHARED


def _of_the_data(folder: ResultFolder) -> Iterator[str]:
    result = folder.result
    if result.uncovered_cells and result.cells:
        share = result.uncovered_cells / result.cells
        settings = result.about.settings if result.about else {}
        filling = _FILLINGS.get(str(settings.get("uncovered")), "as a constant")
        yield f"Nobody holds {share:.1%} of all cells. They count {filling}."
    if folder.model.file.scaling.missing == "mean":
        yield "Blank cells count as the mean of their column."
    if n_rows := result.rows_without_label:
        yield f"Left out: {counted(n_rows, 'row')} without a label."
    if n_rows := result.rows_of_weight_zero:
        yield f"Left out: {counted(n_rows, 'row')} of weight 0."


def _of_the_model(folder: ResultFolder) -> Iterator[str]:
    yield _CERTIFIED
    if RESULT not in folder.missing:
        yield _HELD_OUT if folder.result.evaluation else _NOT_HELD_OUT
    if folder.model.task == "classification" and not folder.model.has_probabilities:
        yield _NO_PROBABILITIES
    yield _SHRUNK
    yield _LINEAR
