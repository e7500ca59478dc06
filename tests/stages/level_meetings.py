"""Organisations with categories, aligned and about to agree on their levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hyfdca.crypto.keys.pseudonyms import AlignmentKeys
from hyfdca.crypto.schemes.registry import Adders, Encryption, new_keys
from hyfdca.data.kinds import Column, table_of_columns
from hyfdca.data.tables import Table
from hyfdca.protocol.client_session import ClientSession
from hyfdca.protocol.server_session import ServerSession
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.inprocess import InProcess
from hyfdca.stages.alignment.messages import AlignmentSettings
from hyfdca.stages.levels.client import LevelsClient
from hyfdca.stages.levels.features import Levels
from hyfdca.stages.levels.messages import PHASES, LevelSettings
from hyfdca.stages.levels.server import LevelsServer
from tests.stages.alignment.alignments import KEYS, TOKEN, Meeting, Wire
from tests.support.set_keys import sealers_of

ALIGNED = AlignmentSettings("regression", allow_unshared=True, needs_labels=False)
STREAM = Encryption("stream")

Texts = Sequence[str | None]  # the levels of a column; None is a blank cell


def category(texts: Texts) -> Column:
    """Return a column of levels."""
    levels = tuple(sorted({text for text in texts if text}))
    codes = [levels.index(text) + 1 if text else np.nan for text in texts]
    return Column("category", np.array(codes, dtype=float), levels)


def table_with(rows: Sequence[int], **columns: Texts | float) -> Table:
    """Return a table of categories; a number fills a column of numbers."""
    read = [
        Column("number", np.full(len(rows), own))
        if isinstance(own, float)
        else category(own)
        for own in columns.values()
    ]
    ids = tuple(f"r{row}" for row in rows)
    return table_of_columns(ids, tuple(columns), read)


@dataclass
class LevelMeeting:
    """Clients with aligned tables; ``wires`` are those that hold categories."""

    tables: list[Table]
    settings: LevelSettings = field(default_factory=LevelSettings)
    keys: AlignmentKeys = KEYS
    encryption: Encryption = STREAM

    def __post_init__(self) -> None:
        meeting = Meeting(self.tables, ALIGNED, self.keys)
        self.columns = meeting.run()
        secret = new_keys(self.encryption)
        self.adders = Adders(self.encryption, dict.fromkeys(secret, b""))
        self.clients: dict[int, LevelsClient] = {}
        self.wires: dict[int, Any] = {}
        for rank, own in enumerate(meeting.clients):
            if own.aligned.categories:
                self.clients[rank] = LevelsClient(
                    own.aligned,
                    self.tables[rank].digest,
                    self.keys,
                    self.settings,
                    sealers_of(self.encryption, secret, rank, len(self.tables)),
                )
                session = ClientSession(TOKEN, PHASES, self.clients[rank].handlers)
                self.wires[rank] = Wire(session)

    def run(self) -> Levels:
        """Agree on levels."""
        session = ServerSession(TOKEN, PHASES)
        server = LevelsServer(self.columns, self.settings, self.adders, session)
        return InProcess(self.wires).run(server.run(), Traffic())
