"""The model card: every fact of the report, in one structure.

``model-card.json`` is the card as JSON, and the page shows the same card, so the two
agree.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hyfdca.maths.losses import Loss
from hyfdca.model.file import ModelFile
from hyfdca.protocol.messages import Profile
from hyfdca.report.certificate import CertificateInWords, in_words
from hyfdca.report.coefficients import Coefficients, coefficients_of
from hyfdca.report.limits import limits_of
from hyfdca.report.result_files import (
    Evaluation,
    PathPoint,
    ResultFile,
    ResultFolder,
)
from hyfdca.report.seen import SeenValue, seen_values
from hyfdca.study.about import About
from hyfdca.study.outcome import RESULT, as_json

FORMAT_VERSION = 1


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was trained.

    Parameters
    ----------
    is_target_scaled : bool
        Whether losses of training are of the scaled target.
    """

    task: str
    target: str | None
    classes: tuple[str, ...]
    loss: str
    loss_parameter: float | None
    loss_parameter_in_units: float | None  # of the target
    l2: float
    scale: str
    missing: str
    has_intercept: bool
    is_intercept_penalised: bool
    is_target_scaled: bool


class TrainingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How it was trained, and how well the model fits the training rows."""

    algorithm: str
    algorithm_reason: str
    rounds: int
    stop_reason: str
    is_converged: bool
    warning: str | None
    encryption: str | None
    sealed_with: dict[str, str]
    accuracy: float | None
    r_squared: float | None
    mean_absolute_error: float | None
    above_pooled_optimum: float | None
    seconds: float | None
    bytes_up: int | None
    bytes_down: int | None
    round_trips: float | None


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A model card.

    Parameters
    ----------
    about : About or None
        Who asked and who held what, what organisations can find out about each other,
        and what each stage cost; None if the folder does not say.
    cells, uncovered_cells : int or None
        How many cells the pooled table has, and how many of them nobody holds.
    evaluation, path : optional
        The test on held-out rows, and the choice of λ; None if there was none.
    seen : tuple of SeenValue or None
        What parties could see; None if the folder does not say which study it was.
    missing_files : tuple of str
        Files that the folder does not have.
    """

    format_version: int
    study: str
    summary: str
    certificate: CertificateInWords
    model: ModelFacts
    training: TrainingFacts
    about: About | None
    cells: int | None
    uncovered_cells: int | None
    rows_without_label: int | None
    rows_of_weight_zero: int | None
    evaluation: Evaluation | None
    path: tuple[PathPoint, ...] | None
    path_score: str | None
    coefficients: Coefficients
    seen: tuple[SeenValue, ...] | None
    limits: tuple[str, ...]
    missing_files: tuple[str, ...]

    @property
    def has_result(self) -> bool:
        """Whether the folder describes the study, besides its model."""
        return RESULT not in self.missing_files

    @property
    def n_fits(self) -> int:
        """How many fits a history adds up: per λ, one per fold and one more."""
        return sum(len(own.folds) + 1 for own in self.path or ()) or 1

    def as_json(self) -> bytes:
        """Return the content of ``model-card.json``."""
        return as_json(msgspec.to_builtins(self))


def card_of(folder: ResultFolder) -> Card:
    """Return the card of a result folder."""
    file, result = folder.model.file, folder.result
    coefficients = coefficients_of(folder.model)
    model = _model_facts(folder)
    has_curves = any(own.validation_loss is not None for own in folder.history)
    return Card(
        format_version=FORMAT_VERSION,
        study=file.study,
        summary=_summary(model, result.about, coefficients.n_features),
        certificate=in_words(file.certificate, result.uncovered_cells or 0),
        model=model,
        training=_training_facts(file, result),
        about=result.about,
        cells=result.cells,
        uncovered_cells=result.uncovered_cells,
        rows_without_label=result.rows_without_label,
        rows_of_weight_zero=result.rows_of_weight_zero,
        evaluation=result.evaluation,
        path=result.path,
        path_score=result.path_score,
        coefficients=coefficients,
        seen=_seen(file, result, has_curves),
        limits=limits_of(folder),
        missing_files=folder.missing,
    )


def _model_facts(folder: ResultFolder) -> ModelFacts:
    file = folder.model.file
    return ModelFacts(
        task=folder.model.task,
        target=file.label_column,
        classes=file.classes,
        loss=folder.model.loss.name,
        loss_parameter=folder.model.loss.parameter,
        loss_parameter_in_units=_in_units(folder.model.loss, file),
        l2=file.l2,
        scale=file.scaling.scale,
        missing=file.scaling.missing,
        has_intercept=file.training.fit_intercept,
        is_intercept_penalised=file.training.penalise_intercept,
        is_target_scaled=not file.classes and file.training.target_scale != 1.0,
    )


def _in_units(loss: Loss, file: ModelFile) -> float | None:
    """Return a parameter that is a size of errors in units of the target."""
    if loss.parameter is None or not loss.parameter_is_error:
        return None
    return loss.parameter * file.training.target_scale


def _training_facts(file: ModelFile, result: ResultFile) -> TrainingFacts:
    training = file.training
    return TrainingFacts(
        algorithm=training.algorithm,
        algorithm_reason=training.algorithm_reason,
        rounds=training.rounds,
        stop_reason=training.stop_reason,
        is_converged=training.stop_reason == "tolerance",
        warning=result.warning,
        encryption=result.encryption,
        sealed_with=result.sealed_with or {},
        accuracy=result.accuracy,
        r_squared=result.r_squared,
        mean_absolute_error=result.mean_absolute_error,
        above_pooled_optimum=result.relative_loss,
        seconds=result.seconds,
        bytes_up=result.bytes_up,
        bytes_down=result.bytes_down,
        round_trips=result.round_trips,
    )


_KINDS = {
    "logistic": "A logistic regression",
    "half_squared": "A ridge regression",
    "squared": "A ridge regression",
    "pinball": "A quantile regression",
}


def _summary(model: ModelFacts, about: About | None, n_features: int) -> str:
    """Describe the training in one sentence."""
    kind = _KINDS.get(model.loss)
    if kind is None:
        is_classes = model.task == "classification"
        kind = (
            "A support vector machine"
            if is_classes
            else f"A linear regression with the {model.loss} loss"
        )
    if model.loss == "pinball" and model.loss_parameter is not None:
        kind = f"A regression of the quantile {model.loss_parameter:g}"
    of = f" of {model.target!r}" if model.target else ""
    if len(model.classes) == 2:
        of += f" ({model.classes[1]} against {model.classes[0]})"
    elif model.classes:
        of += f" ({len(model.classes)} classes, each against all others)"
    text = f"{kind}{of} on {n_features:,} features"
    if about is None:
        return f"{text}."
    who = (
        "one organisation"
        if len(about.organisations) == 1
        else (
            f"{len(about.organisations):,} organisations, without pooling their tables"
        )
    )
    return f"{text}, trained on {about.rows:,} rows of {who}."


def _seen(
    file: ModelFile, result: ResultFile, has_curves: bool
) -> tuple[SeenValue, ...] | None:
    settings: dict[str, Any] = result.about.settings if result.about else {}
    profile: Profile = "open" if settings.get("profile") == "open" else "sealed"
    if settings.get("profile") != profile or result.encryption is None:
        return None
    absent = {"levels"} if not file.categories else set()
    absent |= {"evaluation"} if result.evaluation is None else set()
    absent |= set() if has_curves else {"validation"}
    return seen_values(file.training.algorithm, profile, result.encryption, absent)
