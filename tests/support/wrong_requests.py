"""Small runs on whose wires wrong requests come before the right ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.holdings.participation import cyclic
from hyfdca.protocol.checkpoint import save
from hyfdca.protocol.client_session import decode, frame, unframe
from hyfdca.protocol.codec import RemoteProtocolError
from tests.support.sealed_runs import ENCRYPTIONS, keys_of
from tests.support.small_runs import classification, make_training, partition_of

SLOW_PAILLIER = pytest.param("paillier", marks=pytest.mark.slow)

N_SAMPLES, N_FEATURES = 24, 4

METHODS = {
    "drawn": {"step": "paper", "local_steps": 3, "refresh": "drawn"},
    "safe": {"step": "safe", "local_steps": 3},
    "search": {"step": "line_search", "local_fraction": 0.5},
    "bundle": {"algorithm": "bundle"},
}
PARTIAL = cyclic([[0, 1, 2], [1, 2, 3], [0, 1, 2, 3]])


def make_run(
    name="stream",
    method="drawn",
    partition="overlapping",
    n_features=N_FEATURES,
    **given,
):
    """Return a small run of four clients that overlap."""
    X, y = classification(N_SAMPLES, n_features, noise=0.5)
    encryption = given.pop("encryption", ENCRYPTIONS.get(name, Encryption()))
    return make_training(
        X,
        y,
        partition_of(partition, N_SAMPLES, n_features),
        bias=1.0,
        encryption=encryption,
        keys=keys_of(encryption),
        **{"max_rounds": 3, **METHODS[method], **given},
    )


_CACHES = (".partial_norms", "VisitedBuckets._rows")


def state_of(half: Any) -> dict[str, Any]:
    """Return what a client, and all that answers for it, keeps between requests."""
    handlers = half.handlers.values()
    answering = {id(handle.__self__): handle.__self__ for handle in handlers}
    kept = {
        f"{type(part).__name__}.{name}": value
        for part in answering.values()
        for name, value in vars(part).items()
        if isinstance(value, np.ndarray | int | float | slice | dict | Arrangement)
    }
    frozen = {
        name: _frozen(value)
        for name, value in kept.items()
        if not name.endswith(_CACHES)
    }
    return {**frozen, "checkpoint": save(half)}


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: _frozen(part) for key, part in value.items()}
    if isinstance(value, Arrangement):
        return _frozen(value.groups)
    return repr(value)


class Tempter:
    """A wire on which wrong requests come before the right ones."""

    def __init__(self, run: Any, client: int, wrong: Callable[..., Any]) -> None:
        self._session, self._half = run.driver._clients[client], run.clients[client]
        self._party = run.parties[client]
        self._wrong, self.reasons = wrong, []

    def handle(self, phase: str, payload: bytes | bytearray) -> bytearray:
        """Pass a request on, after some that must be refused."""
        token = self._session._token
        number, body = unframe(payload, token)
        request = decode(body, self._session.phases[phase].request)
        for what, message in self._wrong(request):
            if phase == "search" and self._party.block.labels is None:
                continue  # it has no margins to look at
            before = state_of(self._half)
            try:
                self._session.handle(phase, frame(token, number, message))
            except RemoteProtocolError as error:
                self.reasons.append(str(error))
            else:
                pytest.fail(f"{phase}{what} was taken")
            assert state_of(self._half) == before, f"{phase}{what} changed something"
        return self._session.handle(phase, payload)


def tempt(run, wrong):
    """Put wires with wrong requests to all clients."""
    clients = range(len(run.clients))
    wires = {client: Tempter(run, client, wrong) for client in clients}
    run.driver._clients = wires
    return list(wires.values())
