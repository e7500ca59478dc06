"""Wires that tests can listen in on or tamper with, and a toy seal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hyfdca.protocol.client_session import decode, frame, unframe
from hyfdca.protocol.messages import Message
from tests.support.small_runs import Run, bundle_run, classification, partition_of


class Said(NamedTuple):
    """One request, its reply if it was asked for, and the bytes of the request."""

    client: int
    phase: str
    request: Any
    reply: bytes
    payload: bytes


class Wire:
    """A client's session that keeps what passes and may change replies.

    ``tamper`` maps a phase to the kind of its reply and a function of that.
    """

    def __init__(self, training: Run, client: int, heard: list[Said]) -> None:
        self._session = training.driver._clients[client]
        self._phases = self._session.phases
        self._token, self._client, self._heard = self._session._token, client, heard
        self.tamper: dict[str, tuple[type, Callable[[Any], Message]]] = {}

    def handle(self, phase: str, payload: bytes | bytearray) -> bytes | bytearray:
        """Pass a request on."""
        number, body = unframe(bytes(payload), self._token)
        request = decode(body, self._phases[phase].request)
        reply = self._session.handle(phase, payload)
        if phase in self.tamper:
            kind, change = self.tamper[phase]
            changed = change(decode(unframe(reply, self._token)[1], kind))
            reply = frame(self._token, number, changed)
        said = Said(self._client, phase, request, bytes(reply), bytes(payload))
        self._heard.append(said)
        return reply

    def read(self, said: Said, kind: type) -> Any:
        """Return a reply as a message of that kind."""
        return decode(unframe(said.reply, self._token)[1], kind)


def listen(training: Run) -> tuple[list[Said], list[Wire]]:
    """Put a wire to every client; return what they will have heard, and the wires."""
    heard: list[Said] = []
    wires = [Wire(training, client, heard) for client in range(len(training.clients))]
    training.driver._clients = dict(enumerate(wires))
    return heard, wires


LACKING = [True, False, True, False]  # labels, of the four clients of a 2x2 grid


def four_clients(profile="sealed", n_features=8, **given) -> Run:
    """Return a run of the bundle method by four clients with 60 samples."""
    X, y = classification(60, n_features, noise=0.5)
    partition = partition_of("2x2", 60, n_features)
    return bundle_run(X, y, partition, profile=profile, l2=0.01, **given)


def numbers_of(run: Run) -> Any:
    """Return what a finished run found, except for the time it took."""
    weights = run.finish()
    kept = [key for key in run.history[0] if not _is_cost(key)] if run.history else []
    records = [{key: record[key] for key in kept} for record in run.history]
    return records, weights.tobytes()


def _is_cost(key: str) -> bool:
    """Whether a key of a history is of what a round took, not of what it found."""
    return key == "seconds" or "bytes" in key or "round_trips" in key
