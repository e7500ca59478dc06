"""Predictions for rows split over organisations: what each of them provides.

In one process they exchange the same messages as between machines; nothing is pooled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster
from hyfdca.data.readers import read_table
from hyfdca.data.tables import Table, TableError, normalised
from hyfdca.errors import StudyError, counted
from hyfdca.model.file import as_bytes
from hyfdca.model.model import Model, ModelError, read_model
from hyfdca.prediction.bringing import Bringing
from hyfdca.prediction.client import PredictionClient, PredictionStage, SplitScores
from hyfdca.prediction.complete_rows import Predictions, predictions_for
from hyfdca.prediction.policy import PredictionLog, PredictionTerms, declined_sentence
from hyfdca.prediction.server import (
    Answered,
    PredictionServer,
    prediction_alignment,
)
from hyfdca.runtime.inprocess import InProcess
from hyfdca.runtime.store import Store, StoreError
from hyfdca.study.client.client import StudyClient
from hyfdca.study.file import Client, StudyFile
from hyfdca.study.plan import Plan, alignment_settings
from hyfdca.study.tables import common_columns


def model_digest(model: Model) -> bytes:
    """Return the digest with which organisations compare their models."""
    return hashlib.sha256(b"hyfdca model 1\n" + as_bytes(model.file)).digest()


def terms_of(file: StudyFile) -> PredictionTerms:
    """Return a study file's terms for predictions."""
    askers = frozenset(client.name for client in file.clients if client.may_predict)
    study = file.study
    return PredictionTerms(askers, study.predictions_per_hour, study.prediction_ids)


def released_model(path: Path) -> Model:
    """Return the model that an organisation received when its study ended.

    Raises
    ------
    StudyError
    """
    try:
        model = read_model(path)
        model.inputs.check_named()
        return model
    except ModelError as error:
        raise StudyError(str(error)) from None


def table_to_predict(
    file: StudyFile, client: Client, path: Path, model: Model
) -> Table:
    """Read an organisation's rows to predict: the model's columns, and labels.

    Raises
    ------
    StudyError
    """
    own = None if client.features is None else set(map(normalised, client.features))
    features = tuple(f for f in model.inputs.columns if own is None or f in own)
    columns = replace(
        common_columns(file.study, client),
        features=features,
        features_needed=False,
        ignored_if_present=tuple(map(normalised, (*client.ignore, *file.study.ignore))),
        label_needed=False,
        categorical=tuple(model.inputs.categories),
        date_origin=model.file.date_origin,
    )
    try:
        table = read_table(path, columns)
        model.inputs.check_kinds(table)
        model.inputs.check_levels(table)
    except (TableError, ModelError) as error:
        # All parties have the same study file, which nobody changes any more.
        reason = error.plain if isinstance(error, TableError) else str(error)
        reason = reason.rstrip(".")
        raise StudyError(f"Organisation {client.name!r}: {reason}.") from None
    is_final = file.study.blank_cells == "refuse"
    if is_final and table.n_missing and model.file.scaling.missing == "refuse":
        raise StudyError(
            f"Organisation {client.name!r} has "
            f"{counted(table.n_missing, 'missing cell')} in {path.name}, but the model "
            'accepts none; fill them, or train with missing = "mean".'
        )
    return table


def brought(
    file: StudyFile, table: Table, model: Model, log: PredictionLog, asks: bool = False
) -> Bringing:
    """Return what an organisation provides for predictions of a study."""
    return Bringing(
        table.without_targets(),
        model,
        model_digest(model),
        terms_of(file),
        log,
        prediction_alignment(alignment_settings(file)),
        asks,
    )


def check_permission(bringing: Bringing, name: str) -> None:
    """Refuse a request that this organisation's own terms or log rule out.

    Raises
    ------
    StudyError
    """
    n_rows = len(bringing.table.ids)
    try:
        declined = bringing.terms.objection(bringing.log, name, n_rows)
    except StoreError as error:
        raise StudyError(str(error)) from None
    if declined is not None:
        raise StudyError(declined_sentence(name, name, declined))


@dataclass(frozen=True, repr=False)
class PredictionParty:
    """An organisation with its keys, and the store of the study's keys."""

    plan: Plan
    identity: Identity
    roster: Roster
    store: Store | None = None

    def member(
        self, bringing: Bringing, tell: Callable[[str], None] = lambda _: None
    ) -> PredictionClient:
        """Return the organisation's side of predictions."""
        member = StudyClient(
            self.plan, bringing.table, self.identity, self.roster, self.store
        )
        return PredictionClient(member, self.identity, self.roster, bringing, tell)


def predict_locally(plan: Plan, members: Sequence[PredictionClient]) -> list[Answered]:
    """Serve all askers, with all parties in this process.

    The members that asked hold their scores.
    """

    def driver(stage: str) -> InProcess:
        stages = [PredictionStage(member, stage) for member in members]
        return InProcess(dict(enumerate(stages)))

    return PredictionServer(plan, driver).run()


@dataclass(frozen=True)
class SplitPredictions:
    """Predictions for the rows that can be predicted, and the number of others.

    Parameters
    ----------
    n_left_out : int
        Rows without a prediction: nobody provided some of their features.
    n_filled : int
        Cells that nobody provided, filled as the model fills missing ones.
    """

    predictions: Predictions
    n_left_out: int
    n_filled: int


def predictions_of(model: Model, table: Table, scores: SplitScores) -> SplitPredictions:
    """Return an asker's predictions from its scores.

    Raises
    ------
    StudyError
        If no row has all features.
    """
    n_absent = scores.n_absent
    if model.file.scaling.missing == "mean":
        rows, n_filled = np.arange(len(n_absent)), int(n_absent.sum())
    else:
        rows, n_filled = np.flatnonzero(n_absent == 0), 0
    if not len(rows):
        raise StudyError(
            f"None of the {len(n_absent)} rows can be predicted: each lacks at least "
            f"{n_absent.min()} features, and the model fills none; have the "
            "organisations that hold these rows provide them."
        )
    predictions = predictions_for(model, table.of_rows(rows), scores.margins[rows])
    return SplitPredictions(predictions, len(n_absent) - len(rows), n_filled)
