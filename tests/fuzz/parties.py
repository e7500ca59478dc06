"""All parties of a tiny study in one process, on a wire that can be tapped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster, RosterEntry
from hyfdca.model.file import as_bytes
from hyfdca.model.model import read_model
from hyfdca.prediction.client import PredictionStage
from hyfdca.prediction.policy import PredictionLog
from hyfdca.prediction.server import PredictionServer
from hyfdca.prediction.split_rows import PredictionParty, brought, table_to_predict
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.server_session import Ask, Replies
from hyfdca.runtime.driver import Driver, Handler
from hyfdca.runtime.store import Archive, MemoryStore
from hyfdca.study.client.client import StudyClient
from hyfdca.study.evaluating import STAGE, evaluator_of
from hyfdca.study.file import load
from hyfdca.study.local.study import local_plan, local_run, read_tables
from hyfdca.study.outcome import train
from hyfdca.study.presence import REFUSED, Presence
from hyfdca.study.resume import ResumableStudy
from hyfdca.study.tables import data_of
from tests.fuzz.studies import NAMES, write_study

_MOST_CALLS = (
    30  # to organisations that are not there, until the server counts as waiting
)
DIVERGED = "The training diverged."


class Waiting(Exception):  # noqa: N818  # no error: a server waits without limit
    """The server now waits for organisations that it has named."""


@dataclass(frozen=True)
class Place:
    """Where a message belongs: its stage and phase, and the client at the other end."""

    stage: str
    phase: str
    client: int


class Tap(Protocol):
    """Sees every exchange with a client, and may change it."""

    def exchange(
        self, place: Place, payload: bytes | bytearray, client: Handler
    ) -> bytes | bytearray:
        """Return the client's reply to a request."""
        ...


class Straight:
    """A tap that changes nothing."""

    def exchange(
        self, place: Place, payload: bytes | bytearray, client: Handler
    ) -> bytes | bytearray:
        """Pass a request on."""
        return client.handle(place.phase, payload)


class TappedDriver(Driver):
    """Carries requests through a tap; a refusal is reported as between machines."""

    def __init__(self, stage: str, clients: Sequence[Handler], tap: Tap) -> None:
        self._stage, self._clients, self._tap = stage, clients, tap

    def exchange(self, ask: Ask) -> Replies:
        """Return replies, and why there are no others."""
        ok: dict[int, bytes | bytearray] = {}
        failed: dict[int, str] = {}
        for client, payload in ask.payloads.items():
            place = Place(self._stage, ask.phase, client)
            try:
                ok[client] = self._tap.exchange(place, payload, self._clients[client])
            except RemoteProtocolError as error:
                failed[client] = f"{REFUSED}: {error}"
        return Replies(ok, failed)


class TappedNetwork:
    """Connects a server with members in its own process."""

    def __init__(self, members: Sequence[StudyClient], tap: Tap) -> None:
        self._members, self._tap = members, tap
        self._n_calls = 0

    def driver(self, stage: str) -> Driver:
        """Return the driver that carries the requests of a stage."""
        stages = [member.stage(stage) for member in self._members]
        return TappedDriver(stage, stages, self._tap)

    def wait(self, missing: Iterable[int]) -> None:
        """Raise ``Waiting`` after many calls."""
        self._n_calls += 1
        if self._n_calls > _MOST_CALLS:
            raise Waiting(f"for {', '.join(NAMES[client] for client in missing)}")

    def returning(self, missing: Iterable[int]) -> Iterable[int]:
        """Return everybody."""
        return list(missing)


Run = Callable[[Tap, Callable[[str], None]], bytes]


@dataclass(frozen=True)
class Conversation:
    """A whole study, or predictions: everything that its parties say to each other.

    Parameters
    ----------
    run : callable
        Runs it from its start. It takes the tap on its wire, and what receives the
        sentences for the screen; it returns what the conversation is for, as bytes.
    """

    name: str
    run: Run


def training(folder: Path, name: str) -> Conversation:
    """Return the conversation of a study, from its keys to its model."""
    path = write_study(folder, name)
    file = load(path)
    plan, tables = local_plan(file), read_tables(file, folder)
    identities = [Identity.generate() for _ in NAMES]
    roster = _roster(plan.study_hash, identities)

    def run(tap: Tap, tell: Callable[[str], None]) -> bytes:
        members = tuple(
            StudyClient(plan, table, identity, roster, MemoryStore())
            for table, identity in zip(tables, identities, strict=True)
        )
        network = TappedNetwork(members, tap)
        presence = Presence(plan, network, tell)
        study = ResumableStudy(plan, network, presence, Archive(MemoryStore()))
        ready = study.ready()
        local = local_run(
            file, tables, ready.prepared, ready.traffic, ready.runner, members
        )
        driver = network.driver(STAGE)
        local = replace(local, evaluator=evaluator_of(plan, ready.prepared, driver))
        outcome = train(local, lambda *_: None)
        if outcome.ending.stop_reason == "diverged":
            tell(DIVERGED)
        presence.finish(as_bytes(outcome.model()), presence.everyone)
        return as_bytes(outcome.model()) + repr(outcome.evaluation).encode()

    return Conversation(name, run)


def _roster(study_hash: bytes, identities: Sequence[Identity]) -> Roster:
    entries = map(RosterEntry, NAMES, (own.public for own in identities))
    return Roster(study_hash, tuple(entries))


def prediction(folder: Path, model: Path) -> Conversation:
    """Return the conversation in which two organisations ask for predictions."""
    file = load(folder / "study.toml")
    plan, own_model = local_plan(file), read_model(model)
    identities = [Identity.generate() for _ in NAMES]
    roster = _roster(plan.study_hash, identities)
    tables = [
        table_to_predict(file, client, folder / data_of(client), own_model)
        for client in file.clients
    ]

    def run(tap: Tap, tell: Callable[[str], None]) -> bytes:
        members = [
            PredictionParty(plan, identity, roster, MemoryStore()).member(
                brought(file, table, own_model, PredictionLog(MemoryStore()), rank < 2),
                tell,
            )
            for rank, (identity, table) in enumerate(
                zip(identities, tables, strict=True)
            )
        ]

        def driver(stage: str) -> Driver:
            stages = [PredictionStage(member, stage) for member in members]
            return TappedDriver(stage, stages, tap)

        for answer in PredictionServer(plan, driver).run():
            tell(answer.refusal)
        scores = [member.scores for member in members[:2]]
        return b"".join(own.margins.tobytes() for own in scores if own is not None)

    return Conversation("prediction", run)
