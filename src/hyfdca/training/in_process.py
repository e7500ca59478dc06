"""Training in one process: clients beside the server, their data as blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from hyfdca.algorithms.registry import ALGORITHMS, Parties
from hyfdca.federation.secrets import Secrecy, fresh_secrecy
from hyfdca.holdings.block import Block
from hyfdca.holdings.layout import Layout
from hyfdca.holdings.participation import Participation
from hyfdca.protocol.client_session import ClientSession
from hyfdca.protocol.codec import TOKEN_BYTES
from hyfdca.protocol.server_session import ServerSession
from hyfdca.runtime.inprocess import InProcess
from hyfdca.runtime.machine import n_cores
from hyfdca.training.runner import Rounds, TrainingSettings

_MUCH = 1_000_000  # cells, from which on threads are worth their switching


class Training(Rounds):
    """Rounds of clients that are in this process.

    Parameters
    ----------
    blocks : sequence of Block
        The clients' data, by rank.
    secrecy : Secrecy, optional
        The parties' keys; by default fresh ones.
    """

    driver: InProcess

    def __init__(
        self,
        settings: TrainingSettings,
        layout: Layout,
        blocks: Sequence[Block],
        participation: Participation,
        secrecy: Secrecy | None = None,
    ) -> None:
        self.blocks = blocks
        problem = settings.problem(layout.samples.n_items, _n_outputs(blocks))
        token, is_complete = _token(settings, layout), participation.is_complete
        keys = secrecy or fresh_secrecy(settings.encryption, len(blocks))
        self.secrecy = keys
        session = ServerSession(token)
        parties = Parties(problem, layout, keys.adders(), session, is_complete)
        algorithm = ALGORITHMS[settings.choose(parties).name]
        client = algorithm.client(settings.of_algorithms, is_complete)
        self.clients = [
            client(problem, block, keys.sealers(k)) for k, block in enumerate(blocks)
        ]
        sessions = {
            k: ClientSession(token, half.phases) for k, half in enumerate(self.clients)
        }
        driver = InProcess(sessions, n_threads(blocks))
        super().__init__(settings, parties, participation, driver)


def n_threads(blocks: Sequence[Block]) -> int:
    """Return how many clients work at a time: one where there is little to do."""
    if sum(block.X.nnz for block in blocks) < _MUCH:
        return 1
    return min(n_cores(), len(blocks))


def _n_outputs(blocks: Sequence[Block]) -> int:
    return next(int(b.labels.shape[1]) for b in blocks if b.labels is not None)


def _token(settings: TrainingSettings, layout: Layout) -> bytes:
    """Return what tells messages of this study from others."""
    facts = repr((settings, layout.samples.n_items, layout.features.n_items))
    return hashlib.blake2b(facts.encode(), digest_size=TOKEN_BYTES).digest()
