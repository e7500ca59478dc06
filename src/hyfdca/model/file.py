"""The file ``model.json``: one description serves for writing and reading.

The margin of a row x is Σ_f weights[f] (x[f] - offsets[f]) / scales[f] plus the
intercept, with fillings[f] in place of a missing x[f], plus the row's offset if the
study has an offset_column; one number per output. There
is one output for regression and for two classes (positive margins mean the second),
otherwise one per class. Numbers are written in their shortest form and read back bit
for bit.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Final, Literal, Self

import msgspec

from hyfdca.data.tables import DATE_ORIGIN
from hyfdca.errors import StudyError, plain_mistake
from hyfdca.maths.objective import Measurement
from hyfdca.model.scaling import Missing, Scale

StopReason = Literal[
    "tolerance", "round limit", "time limit", "stalled", "diverged", "interrupted"
]

FORMAT_VERSION: Final = 1
_MOST_BYTES = 2**30  # some six million features
_ADVICE = "give the model.json that hyfdca train wrote"


class ModelError(StudyError):
    """A model that cannot be used this way; the message is one plain sentence."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A record that accepts exactly the fields it names."""


class ScalingEntry(_Strict, frozen=True):
    """How cells were scaled and filled, by feature."""

    scale: Scale
    missing: Missing
    offsets: dict[str, float]
    scales: dict[str, float]
    fillings: dict[str, float]


class CategoryEntry(_Strict, frozen=True):
    """The levels of a column that is a category.

    Parameters
    ----------
    levels : tuple of str or None
        The levels with a feature each, in order; "" is a blank cell. None if the study
        does not release names.
    reference : str or None
        The level without a feature; None if the column has none, or is not released.
    has_other : bool
        Whether a last feature is for all other levels.
    """

    levels: tuple[str, ...] | None
    reference: str | None
    has_other: bool


class TrainingEntry(_Strict, frozen=True):
    """How the model was trained; prediction does not need it."""

    algorithm: str
    algorithm_reason: str
    rounds: int
    stop_reason: StopReason
    fit_intercept: bool
    intercept_scaling: float
    # P, D and the loss's parameter are those of (target - centre) / scale.
    target_centre: float = 0.0
    target_scale: float = 1.0
    penalise_intercept: bool = True  # models without this entry have it


class CertificateEntry(_Strict, frozen=True):
    """How close the model is to the optimum on the rows it was trained on."""

    primal: float
    dual: float | None  # None if there is no bound, and therefore no gap
    gap: float | None
    relative_gap: float | None

    @classmethod
    def of(cls, measured: Measurement) -> Self:
        """Return the certificate of a measurement."""
        return cls(
            primal=measured.primal,
            dual=measured.dual,
            gap=measured.gap,
            relative_gap=measured.relative_gap,
        )


class ModelFile(_Strict, frozen=True):
    """A model as stored in its file.

    Parameters
    ----------
    id_column, label_column, offset_column : str or None
        Names used in the study; tables to predict may use others.
    positive_label : str or None
        If given, every other label belongs to the first class.
    classes : tuple of str
        Empty for regression. Labels are text, numbers in their shortest form.
    weights : dict of str to tuple of float
        One number per output, by feature; their order is the model's.
    categories : dict of str to CategoryEntry
        By column; its features stand together among the weights.
    dates : tuple of str
        Columns of dates, which become days since ``date_origin``.
    similar_levels : {"refuse", "allow"}
        Whether levels that differ in capitals or blanks alone are different ones.
    """

    format_version: Literal[1]
    study: str
    loss: str
    loss_parameter: float | None
    l2: float
    id_column: str | None
    label_column: str | None
    positive_label: str | None
    classes: tuple[str, ...]
    weights: dict[str, tuple[float, ...]]
    intercept: tuple[float, ...]
    scaling: ScalingEntry
    training: TrainingEntry
    certificate: CertificateEntry
    offset_column: str | None = None
    categories: dict[str, CategoryEntry] = {}
    dates: tuple[str, ...] = ()
    date_origin: datetime.date = DATE_ORIGIN
    similar_levels: Literal["refuse", "allow"] = "refuse"


class _Version(msgspec.Struct, frozen=True):
    """The field that a file of any version has; the rest is ignored."""

    format_version: int


def as_bytes(file: ModelFile) -> bytes:
    """Return the content of a model file, formatted for human readers too."""
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def read_model_file(path: Path) -> ModelFile:
    """Return the parsed model file, checked field by field.

    Raises
    ------
    ModelError
    """
    return parse_model_file(_content(path), path)


def parse_model_file(content: bytes, path: Path) -> ModelFile:
    """Return the parsed content of a model file; ``path`` is for messages.

    Raises
    ------
    ModelError
    """
    try:
        version = msgspec.json.decode(content, type=_Version).format_version
        if version == FORMAT_VERSION:
            return msgspec.json.decode(content, type=ModelFile)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ModelError(
            f"The model file {path} has a mistake{plain_mistake(error)}; {_ADVICE}."
        ) from None
    raise ModelError(
        f"The model file {path} has format_version {version}, but this hyfdca reads "
        f"{FORMAT_VERSION}; use the hyfdca that wrote it, or train the study again."
    )


def _content(path: Path) -> bytes:
    try:
        # Anything but a regular file, such as a pipe, might never end.
        if path.stat().st_size <= _MOST_BYTES and path.is_file():
            return path.read_bytes()
    except (OSError, ValueError):
        raise ModelError(f"Cannot read the model file {path}; {_ADVICE}.") from None
    raise ModelError(
        f"The model file {path} is a folder or larger than {_MOST_BYTES >> 30} GB; "
        f"{_ADVICE}."
    )
