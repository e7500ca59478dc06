"""Makers of organisations that hold parts of rows to predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster, RosterEntry
from hyfdca.data.tables import Table, stored_densely
from hyfdca.model.model import Model
from hyfdca.prediction.client import PredictionClient
from hyfdca.prediction.policy import PredictionLog
from hyfdca.prediction.split_rows import PredictionParty, brought, predict_locally
from hyfdca.protocol.server_session import Ask
from hyfdca.runtime.driver import listening
from hyfdca.runtime.store import MemoryStore
from hyfdca.study.file import Client, Study, StudyFile
from hyfdca.study.plan import plan_of

NAMES = ("north", "city", "coast", "south")
STUDY_HASH = bytes(range(32))

Holding = tuple[Sequence[int], Sequence[int]]  # rows and columns of the pooled table


def part_of(model: Model, cells: np.ndarray, holding: Holding) -> Table:
    """Return an organisation's rows and columns of a pooled table, shuffled."""
    rows, columns = (list(own) for own in holding)
    features = tuple(model.features[column] for column in columns)
    ids = tuple(f"r{row}" for row in rows)
    return Table(ids, features, stored_densely(cells[np.ix_(rows, columns)]), None)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the current time."""
        return self.time

    def pass_by(self, **duration: float) -> None:
        """Let some time pass."""
        self.time += timedelta(**duration)


@dataclass
class Split:
    """Organisations that predict together, again and again.

    Parameters
    ----------
    models : sequence of Model, optional
        Of each organisation; by default all have the first.
    """

    model: Model
    cells: np.ndarray
    holdings: Sequence[Holding]
    encryption: str = "stream"
    may_predict: tuple[str, ...] = NAMES
    per_hour: int = 1000
    study: dict[str, Any] = field(default_factory=dict)
    models: dict[str, Model] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = NAMES[: len(self.holdings)]
        clients = [
            Client(name=n, may_predict=n in self.may_predict) for n in self.names
        ]
        settings = Study(
            name="split",
            loss=self.model.loss.name,
            encryption=self.encryption,
            small_vectors="same",
            predictions_per_hour=self.per_hour,
            **self.study,
        )
        self.file = StudyFile(settings, clients)
        self.plan = plan_of(self.file, STUDY_HASH)
        self.identities = [Identity.generate() for _ in self.names]
        entries = map(RosterEntry, self.names, (own.public for own in self.identities))
        self.roster = Roster(STUDY_HASH, tuple(entries))
        self.stores = [MemoryStore() for _ in self.names]
        self.logs = [MemoryStore() for _ in self.names]
        self.clock = Clock()
        self.tables = [part_of(self.model, self.cells, own) for own in self.holdings]
        self.said: list[tuple[str, int, bytes, bytes]] = []
        self.sentences: list[str] = []

    def log(self, rank: int) -> PredictionLog:
        """Return an organisation's log from disk."""
        return PredictionLog(self.logs[rank], self.clock)

    def members(self, *askers: str) -> list[PredictionClient]:
        """Restart everybody; some ask."""
        members = []
        for rank, name in enumerate(self.names):
            model = self.models.get(name, self.model)
            table = self.tables[rank]
            bringing = brought(self.file, table, model, self.log(rank), name in askers)
            party = PredictionParty(
                self.plan, self.identities[rank], self.roster, self.stores[rank]
            )
            members.append(party.member(bringing, self.sentences.append))
        return members

    def run(self, *askers: str) -> tuple[list[Any], list[PredictionClient]]:
        """Predict; ``said`` records all messages."""
        members = self.members(*askers)

        def listen(ask: Ask, replies: Any) -> None:
            for client, request in ask.payloads.items():
                reply = bytes(replies.get(client, b""))
                self.said.append((ask.phase, client, bytes(request), reply))

        with listening(listen):
            return predict_locally(self.plan, members), members

    def scores(self, asker: str) -> Any:
        """Return an asker's scores."""
        answers, members = self.run(asker)
        assert [a.refusal for a in answers] == [""]
        return members[self.names.index(asker)].scores


# Rows 1 to 3 are complete; 0 and 4 lack a feature; x1 is held twice, and x0 too.
HOLDINGS = [
    ([0, 1, 2, 3, 4], [0, 1]),
    ([4, 3, 2, 1, 8], [1, 2]),
    ([3, 0, 1, 2], [3, 0]),
]
