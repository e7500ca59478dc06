"""What an organisation knows about the model, to compare with the file it receives.

It knows the weights and the scaling of its own columns, the intercept, what its study
file and the classes say, and how the study ended. All of this is saved when its weights
are confirmed, because the model may arrive after a restart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.data.expansion import NOWHERE
from hyfdca.federation.evaluation.confirmation import Confirming
from hyfdca.model.categories import level_features
from hyfdca.model.file import ModelError, ModelFile, parse_model_file
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.study.client.stages import ClientStages
from hyfdca.study.plan import Plan

MISFIT = "the model does not fit"  # starts the reason of a refusal
# likewise, if a client has nothing to compare the model with
NO_RECORD = (
    f"{MISFIT} this organisation, which has no record of weights that it released"
)

_SCALING = ("offsets", "scales", "fillings")


@dataclass(frozen=True, repr=False)
class OwnModel:
    """One organisation's part of the model, in the units of training.

    Parameters
    ----------
    columns : list of str
        Its columns.
    widths : array (columns,)
        How many features each has.
    levels : dict of str to dict of str to int
        By column that is a category: the places of its own levels among its features.
    weights : array (features, n_outputs)
    scaling : array (3, columns that are numbers)
        Offset, scale and filling.
    intercept : array (n_outputs,) or None
        The intercept; None if the client does not know it.
    bias : float
        The factor of the intercept.
    target : array (2,) or None
        Centre and scale of the target; None without labels.
    facts : dict of str to str
        What the study file says about the model, as JSON, by subject.
    dates, others : list of str
        Columns that are dates, and columns that are not; blank ones may be either.
    ending : tuple of (int, float, str) or None
        Rounds, relative gap and reason, as they were announced.
    """

    columns: list[str]
    widths: IntArray
    levels: dict[str, dict[str, int]]
    weights: FloatArray
    scaling: FloatArray
    intercept: FloatArray | None
    bias: float
    target: FloatArray | None
    facts: dict[str, str]
    dates: list[str]
    others: list[str]
    ending: tuple[int, float, str] | None = None


def own_model(stages: ClientStages, confirmed: Confirming, plan: Plan) -> OwnModel:
    """Return what an organisation knows, once its weights are confirmed."""
    assert confirmed.weights is not None  # noqa: S101  # they are confirmed
    expansion, scaling, target = stages.expansion, stages.scaling, stages.target
    bias, kinds = plan.bias, stages.kinds  # the bias feature, if there is one, is last
    own, rest = np.split(confirmed.weights, [int(expansion.widths.sum())])
    intercept = confirmed.intercepts if bias is None else None
    return OwnModel(
        columns=list(stages.aligned.features),
        widths=expansion.widths,
        levels=_levels(stages),
        weights=own,
        scaling=np.stack([scaling.offset, scaling.scale, scaling.filling]),
        intercept=rest[0] if len(rest) else intercept,
        bias=1.0 if bias is None else bias,
        target=None if target is None else np.array([target.centre, target.scale]),
        facts=_facts_of_study(plan, stages.aligned.classes),
        dates=[name for name, kind in kinds.items() if kind == "date"],
        others=[name for name, kind in kinds.items() if kind not in ("date", "blank")],
    )


def _facts_of_study(plan: Plan, classes: Sequence[str]) -> dict[str, str]:
    """Return what an organisation knows without the server."""
    study = plan.file.study
    return _as_json(
        {
            "the loss": (study.loss, study.loss_parameter),
            # If it is chosen, only its range is known.
            "l2": None if plan.training.path else plan.training.l2_strength,
            "the order of the classes": classes,
            "the positive label": study.positive_text,
            "the kind of scaling": study.scale,
            "what becomes of blank cells": study.missing,
            "the day from which dates are counted": study.date_origin,
            "what becomes of similar levels": study.similar_levels,
        }
    )


def _facts_of_model(model: ModelFile) -> dict[str, str]:
    """Return the same facts about a model."""
    return _as_json(
        {
            "the loss": (model.loss, model.loss_parameter),
            "l2": model.l2,
            "the order of the classes": model.classes,
            "the positive label": model.positive_label,
            "the kind of scaling": model.scaling.scale,
            "what becomes of blank cells": model.scaling.missing,
            "the day from which dates are counted": model.date_origin,
            "what becomes of similar levels": model.similar_levels,
        }
    )


def _as_json(facts: Mapping[str, object]) -> dict[str, str]:
    known = {what: value for what, value in facts.items() if value is not None}
    return {what: msgspec.json.encode(value).decode() for what, value in known.items()}


def _levels(stages: ClientStages) -> dict[str, dict[str, int]]:
    """Return the places of the organisation's own levels, by column."""
    aligned, found = stages.aligned, {}
    for column, places in stages.expansion.places.items():
        name = aligned.features[column]
        pairs = zip(("", *aligned.levels[name]), places.tolist(), strict=True)
        found[name] = {level: place for level, place in pairs if place != NOWHERE}
    return found


def check_model(content: bytes, own: OwnModel) -> None:
    """Refuse a model that differs from what the organisation knows about it.

    Raises
    ------
    RemoteProtocolError
        If it is not a model.
    RefusedError
        If it does not fit; one plain sentence that names what differs.
    """
    try:
        model = parse_model_file(content, Path("model.json"))
    except ModelError as error:
        raise RemoteProtocolError(str(error)) from None
    for what in _differences(model, own):
        raise RefusedError(
            f"{MISFIT} what this organisation released: {what} differs; do not use it, "
            "and ask the coordinator"
        )


def _differences(model: ModelFile, own: OwnModel) -> Iterator[str]:
    """Yield the differences of a model, in words."""
    facts = _facts_of_model(model)
    yield from (what for what, fact in own.facts.items() if facts.get(what) != fact)
    if not set(own.dates) <= set(model.dates) or set(own.others) & set(model.dates):
        yield "which columns are dates"
    target = np.array([model.training.target_centre, model.training.target_scale])
    if own.target is not None and np.any(target != own.target):
        yield "the scale of the target"
    ends = np.cumsum(own.widths)
    for name, first, end in zip(own.columns, ends - own.widths, ends, strict=True):
        names = _feature_names(model, own, name, int(end - first))
        found = [model.weights.get(feature) for feature in names]
        wanted = own.weights[first:end] * target[1]
        if len(found) != len(wanted) or found != list(map(tuple, wanted.tolist())):
            yield f"the weight of {name!r}"
    yield from _scaling_differences(model, own)
    if own.intercept is not None:
        wanted = (own.intercept * target[1]) * own.bias + target[0]
        if model.intercept != tuple(wanted.tolist()):
            yield "the intercept"
    if own.ending is not None and not _has_ending(model, *own.ending):
        yield "the certificate"


def _feature_names(
    model: ModelFile, own: OwnModel, column: str, width: int
) -> list[str]:
    """Return the features of a column in the model; None if its levels differ."""
    if column not in own.levels:
        return [column]
    entry = model.categories.get(column)
    if entry is None:
        return []
    named = entry.levels or ()
    is_right = all(
        named[place] == level
        for level, place in own.levels[column].items()
        if place < len(named)
    )
    return level_features(column, entry, width) if is_right else []


def _scaling_differences(model: ModelFile, own: OwnModel) -> Iterator[str]:
    numbers = [name for name in own.columns if name not in own.levels]
    for field, values in zip(_SCALING, own.scaling.tolist(), strict=True):
        found = getattr(model.scaling, field)
        for name, value in zip(numbers, values, strict=True):
            if found.get(name) != value:
                yield f"the scaling of {name!r}"


def _has_ending(model: ModelFile, n_rounds: int, gap: float, reason: str) -> bool:
    """Return whether a model has the certificate that was announced."""
    announced = gap if math.isfinite(gap) else None  # JSON has no infinity
    training, certificate = model.training, model.certificate
    is_same = certificate.relative_gap == announced
    return is_same and (training.rounds, training.stop_reason) == (n_rounds, reason)
