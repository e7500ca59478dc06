"""Wires that tests can listen in on or tamper with, and a toy seal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hyfdca.crypto.base import raw_bytes
from hyfdca.protocol.codec import decode, frame, unframe
from hyfdca.protocol.messages import Message
from hyfdca.training import Training
from tests.small_runs import bundle_run, classification, partition_of


class Said(NamedTuple):
    """One request, and its reply if it was asked for as some kind of message."""

    client: int
    phase: str
    request: Any
    reply: bytes


class Wire:
    """A client's session that keeps what passes and may change replies.

    ``tamper`` maps a phase to the kind of its reply and a function of that.
    """

    def __init__(self, training: Training, client: int, heard: list[Said]) -> None:
        self._session = training.driver._clients[client]
        self._phases = training.clients[client].phases
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
        self._heard.append(Said(self._client, phase, request, bytes(reply)))
        return reply

    def read(self, said: Said, kind: type) -> Any:
        """Return a reply as a message of that kind."""
        return decode(unframe(said.reply, self._token)[1], kind)


def listen(training: Training) -> tuple[list[Said], list[Wire]]:
    """Put a wire to every client; return what they will have heard, and the wires."""
    heard: list[Said] = []
    wires = [Wire(training, client, heard) for client in range(len(training.clients))]
    training.driver._clients = dict(enumerate(wires))
    return heard, wires


class ToySealer:
    """Multiplies by a secret odd number modulo 2^64: sums open to sums.

    No protection from anybody, but whoever reads without opening gets nonsense.
    """

    _KEY = 0x9E3779B97F4A7C15
    _INVERSE = pow(_KEY, -1, 2**64)

    def seal(self, numbers: np.ndarray) -> memoryview:
        """Return the numbers times the secret."""
        return raw_bytes(numbers.astype(np.uint64) * np.uint64(self._KEY))

    def open(self, payload: memoryview, shape: tuple[int, int]) -> np.ndarray:
        """Return the numbers inside."""
        if len(payload) != 8 * shape[0] * shape[1]:
            raise ValueError("these are not as many numbers")
        sealed = np.frombuffer(payload, np.uint64).reshape(shape)
        return (sealed * np.uint64(self._INVERSE)).astype(np.int64)


LACKING = [True, False, True, False]  # labels, of the four clients of a 2x2 grid


def four_clients(profile="sealed", n_features=8, **given) -> Training:
    """Return a run of the bundle method by four clients with 60 samples."""
    X, y = classification(60, n_features, noise=0.5)
    partition = partition_of("2x2", 60, n_features)
    return bundle_run(X, y, partition, profile=profile, l2=0.01, **given)


def numbers_of(run: Training) -> Any:
    """Return what a finished run found, but for the time it took."""
    weights = run.finish()
    records = [{**record, "seconds": 0.0} for record in run.history]
    return records, weights.tobytes()
