"""Makers of tables to align, a wire that listens in, and an oracle that sees IDs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from hyfdca.crypto.keys.pseudonyms import AlignmentKeys
from hyfdca.crypto.keys.set_secrets import LocalSecrets
from hyfdca.data.tables import Table, stored_densely
from hyfdca.protocol.client_session import ClientSession, decode, frame, unframe
from hyfdca.protocol.server_session import ServerSession
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.inprocess import InProcess
from hyfdca.stages.alignment.client import AlignmentClient
from hyfdca.stages.alignment.messages import PHASES, AlignmentSettings
from hyfdca.stages.alignment.server import Alignment, AlignmentServer
from tests.support.holding_strategies import overlapping_holdings, subsets

KEYS = AlignmentKeys(b"s" * 32, b"l" * 32, b"c" * 32)
OTHER_KEYS = AlignmentKeys(b"S" * 32, b"L" * 32, b"C" * 32)
TOKEN = b"testing!"
N_SAMPLES, N_FEATURES = 7, 5

CLASSIFICATION = AlignmentSettings("classification")
ANYHOW = AlignmentSettings("classification", allow_unshared=True)


def id_of(sample: int) -> str:
    return f"patient-{sample:05d}-é"


def name_of(feature: int) -> str:
    return f"blood pressure {feature:03d}"


def label_of(sample: int) -> str:
    return "unwell" if sample % 2 else "healthy"


def value_of(sample: int, feature: int) -> float:
    return 0.0 if (sample + feature) % 4 == 0 else 100.25 + 7 * sample + feature / 3


def make_table(rows: list[int], columns: list[int], has_labels: bool = True) -> Table:
    """Return the table of one organisation, which has these rows and columns."""
    cells = [[value_of(row, column) for column in columns] for row in rows]
    return Table(
        tuple(map(id_of, rows)),
        tuple(map(name_of, columns)),
        stored_densely(np.reshape(cells, (len(rows), len(columns))).astype(float)),
        tuple(map(label_of, rows)) if has_labels else None,
    )


@dataclass(frozen=True)
class Held:
    """What one organisation holds, in the order of its table."""

    rows: list[int]
    columns: list[int]
    has_labels: bool = True

    @property
    def table(self) -> Table:
        """Its table."""
        return make_table(self.rows, self.columns, self.has_labels)


@st.composite
def consortia(draw, max_clients=3):
    """Draw who holds what in which order; every sample has a label somewhere.

    The last two samples are of different classes and with everybody.
    """
    holdings = draw(overlapping_holdings(N_SAMPLES, N_FEATURES, max_clients))
    without = draw(subsets(len(holdings)))
    held = []
    for client, (rows, columns) in enumerate(holdings):
        every = sorted({*rows, N_SAMPLES - 2, N_SAMPLES - 1})
        order = draw(st.permutations(every)), draw(st.permutations(columns))
        held.append(Held(*order, client not in without))
    labelled = {row for own in held if own.has_labels for row in own.rows}
    if len(labelled) < N_SAMPLES:
        held = [Held(own.rows, own.columns) for own in held]
    return held


@dataclass
class Wire:
    """A client's session that keeps all bytes and may change replies.

    ``tamper`` maps a phase to the kind of its reply and a function of that.
    """

    session: ClientSession
    phases: list[str] = field(default_factory=list)
    up: list[bytes] = field(default_factory=list)
    down: list[bytes] = field(default_factory=list)
    tamper: dict[str, tuple[Any, Callable[[Any], Any]]] = field(default_factory=dict)

    def handle(self, phase: str, payload: bytes | bytearray) -> bytearray:
        """Answer as the session does."""
        reply = self.session.handle(phase, payload)
        if phase in self.tamper:
            kind, change = self.tamper[phase]
            number, body = unframe(reply, TOKEN)
            reply = frame(TOKEN, number, change(decode(body, kind)))
        self.phases.append(phase)
        self.up.append(bytes(reply))
        self.down.append(bytes(payload))
        return reply


@dataclass
class Meeting:
    """Organisations about to be aligned."""

    tables: list[Table]
    settings: AlignmentSettings = CLASSIFICATION
    keys: AlignmentKeys = KEYS

    def __post_init__(self) -> None:
        self.clients = [
            AlignmentClient(
                table, self.keys, self.settings, secrets=self.secrets_of(rank)
            )
            for rank, table in enumerate(self.tables)
        ]
        self.wires = [
            Wire(ClientSession(TOKEN, PHASES, client.handlers))
            for client in self.clients
        ]
        self.traffic = Traffic()

    def secrets_of(self, rank: int) -> LocalSecrets:
        """Return what an organisation has of the secrets of sets."""
        return LocalSecrets(b"x" * 32, rank, len(self.tables))

    def run(self) -> Alignment:
        """Align them."""
        names = [f"org{number}" for number in range(len(self.tables))]
        session = ServerSession(TOKEN, PHASES)
        server = AlignmentServer(names, self.settings, session)
        driver = InProcess(dict(enumerate(self.wires)))
        return driver.run(server.run(), self.traffic)

    @property
    def seen(self) -> bytes:
        """All that the server saw."""
        return b"".join(reply for wire in self.wires for reply in wire.up)


def numbered(lists: list[list[int]]) -> dict[int, int]:
    """Return the numbers of things, by first holder and its order."""
    every = dict.fromkeys(thing for own in lists for thing in own)
    return {thing: number for number, thing in enumerate(every)}


def sorted_by(things: list[int], numbers: dict[int, int]) -> list[int]:
    return sorted(things, key=numbers.__getitem__)
