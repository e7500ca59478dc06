"""All parties in one process, talking in bytes as they would between machines."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from hyfdca.protocol.server_session import Ask, Replies
from hyfdca.runtime.driver import Driver, Handler


class InProcess(Driver):
    """Carries requests to clients, several at a time where there is much to compute.

    Clients share nothing, so the order in which they answer changes no bit.

    Parameters
    ----------
    n_threads : int
        How many clients work at a time; their kernels release Python's lock.
    """

    def __init__(self, clients: Mapping[int, Handler], n_threads: int = 1) -> None:
        self._clients = clients
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        self.client_seconds = 0.0  # that the server waited for clients

    def client(self, rank: int) -> Handler:
        """Return one of the clients."""
        return self._clients[rank]

    def work_one_by_one(self) -> None:
        """Have one client work at a time from now on."""
        self._pool = None

    def exchange(self, ask: Ask) -> Replies:
        """Have every client asked answer."""
        started = time.perf_counter()
        phase, clients = ask.phase, self._clients
        if self._pool and len(ask.payloads) > 1:
            answers = self._pool.map(
                lambda client: clients[client].handle(phase, ask.payloads[client]),
                ask.payloads,
            )
            ok = dict(zip(ask.payloads, answers, strict=True))
        else:
            ok = {c: clients[c].handle(phase, p) for c, p in ask.payloads.items()}
        self.client_seconds += time.perf_counter() - started
        return Replies(ok)
