"""Runs whose state is saved, and put back into another run or into the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hyfdca.maths.objective import Measurement
from hyfdca.protocol.checkpoint import load, save
from hyfdca.protocol.server_session import Conversation
from hyfdca.training.in_process import Training
from tests.support.sealed_runs import found_by


@dataclass(frozen=True)
class Saved:
    """All that a run needs to go on from the end of a round."""

    server: bytes
    clients: list[bytes]
    certificate: Measurement | None
    history: list[dict[str, Any]]

    @classmethod
    def of(cls, run: Training) -> Saved:
        """Return the present state of a run."""
        clients = [save(client) for client in run.clients]
        return cls(save(run.server), clients, run.measurement, list(run.history))

    def put_back(self, run: Training) -> Training:
        """Have a run that was set up go on from here."""
        load(run.server, self.server)
        for client, content in zip(run.clients, self.clients, strict=True):
            load(client, content)
        run.measurement, run.history = self.certificate, list(self.history)
        return run


def begun_again(run: Training) -> Training:
    """Return a run of the same inputs and keys that was set up and measured once."""
    fresh = Training(
        run.settings, run.layout, run.blocks, run.participation, run.secrecy
    )
    fresh.start()
    return fresh


def saved_rounds(run: Training) -> list[Saved]:
    """Run all rounds; return the states after those that end between steps."""
    return [Saved.of(run) for _ in run.rounds() if run.server.is_between_steps]


def abort(run: Training, conversation: Conversation[None], n_exchanges: int) -> bool:
    """Break a conversation off after so many exchanges; return whether it had more.

    The answers of the last one are lost: clients have gone on, the server has not.
    """
    try:
        ask = next(conversation)
        for _ in range(n_exchanges):
            ask = conversation.send(run.driver.exchange(ask))
    except StopIteration:
        return False
    run.driver.exchange(ask)
    conversation.close()
    return True


def everything_of(run: Training) -> Any:
    """Return all that a finished run found and that its parties keep.

    But for sealed sums, of which no two are alike.
    """
    found = found_by(run)
    server = None
    if run.settings.encryption.scheme == "none":
        session = run.federation.session
        number, session.number = session.number, 0  # it differs, and may do so
        server = save(run.server)
        session.number = number
    return found, server, [save(client) for client in run.clients]
