"""Records what parties see during a run, without changing a bit of it.

The server's view is every request it sent and every reply it received. A client's view
is every request it received and every reply it sent, and also the numbers that it
opened and sealed: this file contains that client's secrets.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from hyfdca.arrays import FloatArray
from hyfdca.audit.collusion import StolenKeys, stolen_keys
from hyfdca.audit.views import (
    Direction,
    Header,
    Record,
    ViewWriter,
    remove_other_views,
    view_path,
)
from hyfdca.errors import StudyError
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.protocol.codec import pack_reals
from hyfdca.protocol.server_session import Ask
from hyfdca.runtime.driver import listening
from hyfdca.study.about import Asked
from hyfdca.study.file import StudyFile, load_with_content
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import Outcome, Watcher, check_folder, train


class Recorder:
    """Writes the views of the server and of the named clients.

    Parameters
    ----------
    header : Header
        Of the server's view.
    clients : mapping
        Names of the clients to record, by rank.
    """

    def __init__(
        self, folder: Path, header: Header, clients: Mapping[int, str]
    ) -> None:
        self._folder = folder
        self._headers: dict[int | None, Header] = {None: header}
        for rank, name in clients.items():
            own = msgspec.structs.replace(header, party=rank, name=name)
            self._headers[rank] = own
        self._writers: dict[int | None, ViewWriter] = {}
        # What a client opened and sealed since its last recorded message. Clients may
        # work at the same time, but each has its own list.
        self._numbers: dict[int, list[tuple[Direction, str, FloatArray]]] = {
            rank: [] for rank in clients
        }

    def attach(self, rank: int, sealing: Sealing) -> None:
        """Listen to what a recorded client opens and seals."""
        if rank in self._numbers:
            own = self._numbers[rank]
            sealing.listener = lambda *said: own.append(said)

    def __call__(self, ask: Ask, replies: Mapping[int, bytes | bytearray]) -> None:
        """Record one exchange, or its notices."""
        for client, request in ask.payloads.items():
            self._note(client, Record(ask.phase, client, "down", bytes(request)))
            self._note_numbers(ask.phase, client)
            if ask.wants_reply:
                reply = bytes(replies[client])
                self._note(client, Record(ask.phase, client, "up", reply))

    def note_keys(self, client: int, keys: StolenKeys) -> None:
        """Record the keys that a recorded client has at the end."""
        content = msgspec.msgpack.encode(keys)
        self._writers[client].write(Record("", client, "keys", content))

    def _note(self, client: int, record: Record) -> None:
        for party in (None, client):
            if party in self._writers:
                self._writers[party].write(record)

    def _note_numbers(self, phase: str, client: int) -> None:
        for direction, kind, values in self._numbers.get(client, []):
            flat = values.reshape(-1, values.shape[-1] if values.ndim > 1 else 1)
            content = bytes(pack_reals(flat))
            self._writers[client].write(
                Record(phase, client, direction, content, kind, flat.shape)
            )
        self._numbers.get(client, []).clear()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record all conversations in this context; write the views at the end.

        An error inside leaves no new view behind.
        """
        try:
            for party, header in self._headers.items():
                path = view_path(self._folder, party)
                self._writers[party] = ViewWriter(path, header)
            with listening(self):
                yield
            for writer in self._writers.values():
                writer.close()
            remove_other_views(self._folder, self._headers)
        finally:
            for writer in self._writers.values():
                writer.discard()


def train_recorded(
    path: Path, folder: Path, watch: Watcher, recorded: Sequence[str]
) -> Outcome:
    """Train a study and record the views of the server and some organisations.

    Raises
    ------
    StudyError
        Before anything is written.
    """
    check_folder(folder)
    file, content = load_with_content(path)
    names = [client.name for client in file.clients]
    if strangers := [name for name in recorded if name not in names]:
        raise StudyError(
            f"Cannot record {strangers[0]!r}, which is not in the study; choose from "
            f"{', '.join(map(repr, names))}."
        )
    clients = {names.index(name): name for name in recorded}
    recorder = Recorder(folder, _server_header(path, folder, file), clients)
    with recorder.recording():
        run = prepare(file, path.parent)
        for rank, member in enumerate(run.members):
            recorder.attach(rank, member.party.sealing)
        asked = Asked.of(content, file, is_rehearsal=True)
        outcome = replace(train(run, watch), asked=asked)
        for rank in clients:
            sealers = run.members[rank].secrecy.sealers()
            layout = run.training.federation.layout
            recorder.note_keys(
                rank, stolen_keys(sealers.secrets, sealers.check_key, layout)
            )
    outcome.write(folder)
    return outcome


def _server_header(path: Path, folder: Path, file: StudyFile) -> Header:
    return Header(
        party=None,
        name="server",
        run=secrets.token_hex(8),
        study=Path(os.path.relpath(path, folder)).as_posix(),
        study_hash=hashlib.sha256(path.read_bytes()).hexdigest(),
        profile=file.study.profile,
        encryption=file.study.encryption,
    )
