"""Training in one process: clients next to the server, their data as blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import scipy.sparse as sp

from hyfdca.federation.algorithm import ClientHalf
from hyfdca.federation.client import Party
from hyfdca.federation.evaluation.confirmation import Confirming
from hyfdca.federation.sealing.secrets import Secrecy, fresh_secrecy
from hyfdca.federation.server import Federation
from hyfdca.holdings.block import Block
from hyfdca.holdings.layout import Layout
from hyfdca.holdings.participation import Participation
from hyfdca.protocol.client_session import TOKEN_BYTES, ClientSession
from hyfdca.protocol.server_session import ServerSession
from hyfdca.runtime.inprocess import InProcess
from hyfdca.runtime.machine import n_cores
from hyfdca.training.runner import DrawnMembers, Runner, make_runner
from hyfdca.training.settings import TrainingSettings

_MUCH = 1_000_000  # number of cells from which threads pay off


@dataclass(frozen=True)
class LocalTraining:
    """A training whose clients are in this process."""

    runner: Runner
    clients: list[ClientHalf]
    parties: list[Party]
    secrecy: Secrecy


def train_in_process(
    settings: TrainingSettings,
    layout: Layout,
    blocks: Sequence[Block],
    participation: Participation,
    secrecy: Secrecy | None = None,
) -> LocalTraining:
    """Return a training that is ready for its first round.

    Parameters
    ----------
    blocks : sequence of Block
        The clients' data, by rank.
    secrecy : Secrecy, optional
        The parties' keys; by default fresh ones.
    """
    problem = settings.problem(layout.samples.n_items, _n_outputs(blocks))
    token, is_complete = _token(settings, layout), participation.is_complete
    keys = secrecy or fresh_secrecy(settings.encryption, len(blocks))
    session = ServerSession(token)
    seed = settings.seed
    federation = Federation(
        problem, layout, keys.adders(), session, is_complete=is_complete, seed=seed
    )
    choice = settings.choose(federation)
    algorithm = choice.algorithm
    session.enter(algorithm.all_phases())
    parties = [
        Party(
            problem,
            block,
            keys.sealers(rank),
            rank=rank,
            is_complete=is_complete,
            seed=seed,
            n_clients=len(blocks),
        )
        for rank, block in enumerate(blocks)
    ]
    clients = [algorithm.client(party) for party in parties]
    sessions = {
        rank: ClientSession(
            token,
            algorithm.all_phases(),
            Confirming(party, half.handlers).handlers,
            profile=problem.profile,
        )
        for rank, (party, half) in enumerate(zip(parties, clients, strict=True))
    }
    driver = InProcess(sessions, n_threads([block.X for block in blocks]))
    members = DrawnMembers(participation, layout.n_clients)
    runner = make_runner(settings, choice, federation, driver, members)
    return LocalTraining(runner, clients, parties, keys)


def n_threads(tables: Sequence[sp.csr_array]) -> int:
    """Return how many clients work at a time: one where there is little to do."""
    if sum(table.nnz for table in tables) < _MUCH:
        return 1
    return min(n_cores(), len(tables))


def _n_outputs(blocks: Sequence[Block]) -> int:
    return next(int(b.labels.shape[1]) for b in blocks if b.labels is not None)


def _token(settings: TrainingSettings, layout: Layout) -> bytes:
    """Return the token that distinguishes messages of this study from others."""
    facts = repr((settings, layout.samples.n_items, layout.features.n_items))
    return hashlib.blake2b(facts.encode(), digest_size=TOKEN_BYTES).digest()
