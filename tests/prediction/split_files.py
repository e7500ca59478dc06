"""Predictions of split rows from the files of a trained study."""

from __future__ import annotations

from pathlib import Path

from hyfdca.model.model import Model
from hyfdca.prediction.policy import PredictionLog
from hyfdca.prediction.split_rows import (
    PredictionParty,
    SplitPredictions,
    brought,
    predict_locally,
    predictions_of,
    table_to_predict,
)
from hyfdca.runtime.store import MemoryStore
from hyfdca.study.file import load
from tests.support.durable_runs import Consortium


def predicted_split(path: Path, model: Model, asker: int) -> SplitPredictions:
    """Predict the rows of a study's own tables, as one organisation asks."""
    consortium, file = Consortium(path.parent), load(path)
    members, tables = [], []
    for rank, client in enumerate(file.clients):
        data = path.parent / str(client.data)
        tables.append(table_to_predict(file, client, data, model))
        log = PredictionLog(MemoryStore())
        bringing = brought(file, tables[-1], model, log, asks=rank == asker)
        party = PredictionParty(
            consortium.plan, consortium.identities[rank], consortium.roster
        )
        members.append(party.member(bringing))
    [answer] = predict_locally(consortium.plan, members)
    assert answer.refusal == ""
    return predictions_of(model, tables[asker], members[asker].scores)
