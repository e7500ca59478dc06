"""All parties in one process, exchanging bytes as they would between machines."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from hyfdca.protocol.server_session import Ask, Replies
from hyfdca.runtime.driver import Driver, Handler


class InProcess(Driver):
    """Carries requests to clients, several at a time if there is much to compute.

    Clients share nothing, so the order of their replies does not change a single bit.

    Parameters
    ----------
    n_threads : int
        How many clients work at a time; their kernels release Python's lock.
    """

    def __init__(self, clients: Mapping[int, Handler], n_threads: int = 1) -> None:
        self._clients = clients
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        self.client_seconds = 0.0  # time the server waited for clients

    def client(self, rank: int) -> Handler:
        """Return the client of that rank."""
        return self._clients[rank]

    def work_one_by_one(self) -> None:
        """Let one client work at a time from now on."""
        self._pool = None

    def exchange(self, ask: Ask) -> Replies:
        """Return the replies of all clients that are asked."""
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
