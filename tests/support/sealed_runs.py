"""Keys and schemes for tests of sealed runs, and all that a run found."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from hyfdca.algorithms.bundle.async_client import VisitedBuckets
from hyfdca.algorithms.hyfdca.dual_client import DualClient
from hyfdca.algorithms.hyfdca.dual_server import DualServer
from hyfdca.crypto.schemes.paillier_keys import TEST_BITS, SecretKey
from hyfdca.crypto.schemes.registry import Encryption, new_keys
from hyfdca.federation.client import Party
from tests.protocol.wires import numbers_of
from tests.support.small_runs import Run, server_duals

# Everything a study may say, with one scheme for all vectors where it can.
ENCRYPTIONS = {
    "stream": Encryption("stream"),
    "stream-compact": Encryption("stream", "compact"),
    "bfv": Encryption("bfv", "full", "same"),
    "bfv-compact": Encryption("bfv", "compact", "same"),
    "bfv-auto": Encryption("bfv"),
    "paillier": Encryption("paillier", "full", "same"),
    "paillier-compact": Encryption("paillier", "compact"),
}


_BY_NUMBER = ("_delivered", "_measured")  # arrays by number


@cache
def keys_of(encryption: Encryption) -> dict[str, bytes]:
    """Return keys, made once; those of Paillier are small and protect nothing."""
    if not encryption.scheme.startswith("paillier"):
        return new_keys(encryption)
    return {"paillier": _small_key(), "stream": b""}


@cache
def _small_key() -> bytes:
    return SecretKey.generate(TEST_BITS, for_tests=True).to_bytes()


def found_by(run: Run) -> Any:
    """Return all that a finished run found, on the server and on every client."""
    numbers = numbers_of(run)
    is_dual = isinstance(getattr(run.server, "dual", None), DualServer)
    duals = server_duals(run).tobytes() if is_dual else None
    clients = zip(run.clients, run.parties, strict=True)
    return numbers, duals, [_arrays_of(half, party) for half, party in clients]


def _arrays_of(half: Any, party: Party) -> dict[str, Any]:
    """Return the arrays that a client keeps: duals, margins, weights, shares.

    But for margins as they were sent, which only packed schemes need.
    """
    held = [
        p for p in vars(half).values() if isinstance(p, DualClient | VisitedBuckets)
    ]
    return {
        f"{type(part).__name__}.{name}": _bits(value)
        for part in (half, party, *held)
        for name, value in vars(part).items()
        if name != "_sent" and (isinstance(value, np.ndarray) or name in _BY_NUMBER)
    }


def _bits(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bits(array) for key, array in value.items()}
    return value.dtype.str, value.shape, value.tobytes()
