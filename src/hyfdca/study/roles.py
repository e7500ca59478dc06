"""The columns of an organisation's table that are not features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from hyfdca.algorithms.registry import frees_intercept
from hyfdca.data.tables import label_text, normalised
from hyfdca.data.targets import TargetSettings
from hyfdca.errors import StudyError
from hyfdca.maths.losses import make_loss

if TYPE_CHECKING:  # the study file checks its roles while it is read
    from hyfdca.study.file import Client, Study, StudyFile


@dataclass(frozen=True)
class ColumnRoles:
    """Names of columns as the study or the organisation gives them, normalised."""

    id: str | None
    label: str | None
    weight: str | None
    offset: str | None
    holdout: str | None = None

    @classmethod
    def of_study(cls, study: Study) -> ColumnRoles:
        """Return the names that [study] gives."""
        columns = study.id_column, study.label_column
        return cls(*map(_name, (*columns, study.weight_column, study.offset_column)))

    def given(self) -> Iterator[tuple[str, str]]:
        """Yield each key of the study file that names a column, with that name."""
        for role in ("id", "label", "weight", "offset", "holdout"):
            column = getattr(self, role)
            if column is not None:
                yield f"{role}_column", column


def roles_of(study: Study, client: Client) -> ColumnRoles:
    """Return the roles of columns in an organisation's table."""
    return ColumnRoles(
        _name(client.id_column or study.id_column),
        _name(client.label_column or study.label_column),
        _name(client.weight_column or study.weight_column),
        _name(client.offset_column or study.offset_column),
    )


def target_settings(file: StudyFile) -> TargetSettings:
    """Return the study's settings for labels, weights and offsets."""
    study = file.study
    roles = [roles_of(study, client) for client in file.clients if client.label]
    weights = study.class_weight
    if isinstance(weights, dict):
        weights = {label_text(name): weight for name, weight in weights.items()}
    return TargetSettings(
        has_weights=any(own.weight is not None for own in roles),
        has_offsets=any(own.offset is not None for own in roles),
        class_weight=weights,
        labels_visible=study.labels_visible_to_holders,
        scaling=_target_scaling(study),
        names=dict(ColumnRoles.of_study(study).given()),
    )


def _target_scaling(study: Study) -> Literal["none", "scale", "centre"]:
    """Return how targets are scaled: also centred, unless the intercept is penalised.

    A penalised intercept is penalised for the mean of the targets too.
    """
    task = make_loss(study.loss, study.loss_parameter).task
    if task == "classification" or study.scale_target is False:
        return "none"
    is_free = frees_intercept(None, study.penalise_intercept, study.intercept_scaling)
    return "centre" if study.fit_intercept and is_free else "scale"


def check_roles(file: StudyFile) -> None:
    """Refuse columns with two roles, and weights at only some label holders.

    Raises
    ------
    StudyError
    """
    holdout = _name(file.evaluation.holdout_column)
    for client in file.clients:
        roles = replace(roles_of(file.study, client), holdout=holdout)
        _check_distinct(client, roles)
        _check_no_features(client, roles)
    for key in ("weight_column", "offset_column"):
        _check_everywhere(file, key)
    if file.study.offset_column is None and target_settings(file).has_offsets:
        raise StudyError(
            "Every organisation names its own offset_column, but [study] names none; "
            "add one there, because the model file names it for predictions."
        )
    _check_class_weight(file.study)
    _check_scaled_target(file.study)


def _check_distinct(client: Client, roles: ColumnRoles) -> None:
    for (key, column), (other_key, other) in combinations(roles.given(), 2):
        if column == other:
            raise StudyError(
                f"Organisation {client.name!r} has the column {column!r} as its {key} "
                f"and as its {other_key}; name another column for one of them."
            )


def _check_no_features(client: Client, roles: ColumnRoles) -> None:
    features = set(map(normalised, client.features or ()))
    for key, column in roles.given():
        if column in features:
            raise StudyError(
                f"The features of organisation {client.name!r} name {column!r}, which "
                f"is its {key}; remove it from features."
            )


def _check_everywhere(file: StudyFile, key: str) -> None:
    """Refuse a key that some organisations with labels have and others lack."""
    having = {
        client.name: key in dict(roles_of(file.study, client).given())
        for client in file.clients
        if client.label
    }
    if any(having.values()) and not all(having.values()):
        first, other = (
            next(name for name, has in having.items() if has is wanted)
            for wanted in (True, False)
        )
        raise StudyError(
            f"Organisation {first!r} has a {key}, but {other!r} has labels and no "
            f"{key}; name one for each organisation with labels, or for none."
        )


def _check_class_weight(study: Study) -> None:
    if study.class_weight is None:
        return
    if make_loss(study.loss, study.loss_parameter).task == "regression":
        raise StudyError(
            f'The study sets class_weight, but loss = "{study.loss}" is for numbers; '
            'remove class_weight, or choose a loss for classes such as "logistic".'
        )


def _name(column: str | None) -> str | None:
    return None if column is None else normalised(column)


def _check_scaled_target(study: Study) -> None:
    task = make_loss(study.loss, study.loss_parameter).task
    if study.scale_target and task == "classification":
        raise StudyError(
            f"scale_target is for regressions, but the loss {study.loss!r} is for "
            "classes; leave it out, or choose another loss."
        )
