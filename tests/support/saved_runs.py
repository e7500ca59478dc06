"""Runs whose state is saved, and put back into another run or into the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hyfdca.maths.objective import Measurement
from hyfdca.protocol.checkpoint import load, save
from hyfdca.protocol.server_session import Conversation
from tests.support.sealed_runs import found_by
from tests.support.small_runs import Run, start


@dataclass(frozen=True)
class Saved:
    """All that a run needs to continue from the end of a round."""

    server: bytes
    clients: list[bytes]
    last_phases: list[str]  # which each client keeps with its state
    measurement: Measurement | None
    history: list[dict[str, Any]]

    @classmethod
    def of(cls, run: Run) -> Saved:
        """Return the present state of a run."""
        clients = [save(client) for client in run.clients]
        sessions = run.driver._clients.values()
        last_phases = [session.last_phase for session in sessions]
        return cls(
            save(run.server), clients, last_phases, run.measurement, list(run.history)
        )

    def put_back(self, run: Run) -> Run:
        """Let a run that was set up continue from here."""
        load(run.server, self.server)
        number, sessions = run.federation.session.number, run.driver._clients.values()
        for client, content in zip(run.clients, self.clients, strict=True):
            load(client, content)
        for session, phase in zip(sessions, self.last_phases, strict=True):
            session.resume(number, phase)
        progress = run.runner.progress
        progress.measurement, progress.history[:] = self.measurement, self.history
        return run


def begun_again(run: Run) -> Run:
    """Return a run of the same inputs and keys that was set up and measured once."""
    fresh = start(
        run.settings, run.layout, run.blocks, run.participation, run.training.secrecy
    )
    fresh.runner.start()
    return fresh


def saved_rounds(run: Run) -> list[Saved]:
    """Run all rounds; return the states after those that end between steps."""
    return [Saved.of(run) for _ in run.rounds() if run.server.is_between_steps]


def abort(run: Run, conversation: Conversation[None], n_exchanges: int) -> bool:
    """Cut a conversation off after some exchanges; return whether it had more.

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


def everything_of(run: Run) -> Any:
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
