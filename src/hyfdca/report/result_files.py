"""The files of a result folder, checked field by field.

A folder may come from another machine or an older hyfdca: ``model.json`` must be there,
all else may be missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from hyfdca.errors import StudyError, plain_mistake
from hyfdca.files import read_limited
from hyfdca.model.model import Model, read_model
from hyfdca.study.about import About, Amount, Count
from hyfdca.study.outcome import HISTORY, RESULT

MODEL = "model.json"

_MOST_BYTES = 2**28
_REMEDY = "give the folder that hyfdca train or hyfdca server wrote"

T = TypeVar("T")

Real = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
# Ratios of sealed sums may exceed their range by the rounding of the grid.
Share = Annotated[float, msgspec.Meta(ge=-1e-6, le=1 + 1e-6)]


class _Read(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a file; unknown fields are ignored."""


class CalibrationBin(_Read, frozen=True):
    """Rows with similar predictions: mean prediction and share of the class."""

    low: Share
    high: Share
    n_rows: Count
    predicted: Share
    observed: Share


class Calibration(_Read, frozen=True):
    """How predicted probabilities compare with observations."""

    slope: Real | None = None
    intercept: Real | None = None
    bins: tuple[CalibrationBin, ...] = ()


class RocPoint(_Read, frozen=True):
    """A point of the ROC curve, as exact as sealed sums give it."""

    false_positive_rate: Share
    true_positive_rate_low: Share
    true_positive_rate_high: Share


class Scores(_Read, frozen=True):
    """How well one class is distinguished from the others."""

    n_rows: Count | None = None
    n_rows_left_out: Count | None = None
    accuracy: Share | None = None
    sensitivity: Share | None = None
    specificity: Share | None = None
    log_loss: Real | None = None
    brier: Real | None = None
    auc: Share | None = None
    auc_low: Share | None = None
    auc_high: Share | None = None
    ks_low: Share | None = None
    ks_high: Share | None = None
    calibration: Calibration | None = None
    roc: tuple[RocPoint, ...] | None = None


class Evaluation(Scores, frozen=True):
    """How the model does on rows that were held out."""

    classes: dict[str, Scores] | None = None
    r2: Real | None = None
    mae: Real | None = None
    rmse: Real | None = None
    quantile_loss: Real | None = None


class PathPoint(_Read, frozen=True):
    """The result of cross-validation for one λ."""

    l2: Amount
    mean: Real | None = None
    standard_error: Amount | None = None
    folds: tuple[Real | None, ...] = ()
    relative_gap: tuple[Real | None, ...] = ()
    rounds: tuple[Count, ...] = ()
    is_best: bool = False
    is_chosen: bool = False


class ResultFile(_Read, frozen=True):
    """What the report needs from ``result.json``."""

    about: About | None = None
    algorithm: str | None = None
    algorithm_reason: str | None = None
    encryption: str | None = None
    sealed_with: dict[str, str] | None = None
    cells: Count | None = None
    uncovered_cells: Count | None = None
    rows_without_label: Count | None = None
    rows_of_weight_zero: Count | None = None
    rounds: Count | None = None
    converged: bool | None = None
    relative_loss: Real | None = None
    accuracy: Share | None = None
    r_squared: Real | None = None
    mean_absolute_error: Amount | None = None
    bytes_up: Count | None = None
    bytes_down: Count | None = None
    round_trips: Amount | None = None
    seconds: Amount | None = None
    warning: str | None = None
    evaluation: Evaluation | None = None
    path: tuple[PathPoint, ...] | None = None
    path_score: str | None = None


class Round(_Read, frozen=True):
    """A round of ``history.json``; objectives are null if it was not measured."""

    round: Count
    primal: Real | None = None
    dual: Real | None = None
    relative_gap: Real | None = None
    validation_loss: Real | None = None


@dataclass(frozen=True)
class ResultFolder:
    """What a result folder holds."""

    model: Model
    result: ResultFile
    history: tuple[Round, ...]
    missing: tuple[str, ...]


def read_result_folder(folder: Path) -> ResultFolder:
    """Read the files of a result folder.

    Raises
    ------
    StudyError
    """
    if not folder.is_dir():
        raise StudyError(f"There is no folder {folder}; {_REMEDY}.")
    if not (folder / MODEL).exists():
        raise StudyError(f"The folder {folder} has no {MODEL}; {_REMEDY}.")
    return ResultFolder(
        read_model(folder / MODEL),
        _read(folder / RESULT, ResultFile, ResultFile),
        _read(folder / HISTORY, tuple[Round, ...], tuple),
        tuple(name for name in (RESULT, HISTORY) if not (folder / name).exists()),
    )


def _read(path: Path, kind: type[T], absent: Callable[[], T]) -> T:
    if not path.exists():
        return absent()
    if not path.is_file():  # a pipe might never end
        raise StudyError(f"The path {path} is not a file; {_REMEDY}.")
    content = read_limited(path, _MOST_BYTES, _REMEDY)
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise StudyError(
            f"The file {path} has a mistake{plain_mistake(error)}; {_REMEDY}."
        ) from None
