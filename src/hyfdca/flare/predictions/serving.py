"""Predictions of split rows between machines: the server's and the holders' side.

This covers both what runs in their jobs and the commands that start these jobs.

One job serves everybody who asks, and then ends. Only a job whose processes died is run
again, because every holder counts each attempt as if scores had been given. In that
case, organisations that have their scores do not ask again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from hyfdca.errors import StudyError
from hyfdca.flare.client import run_client
from hyfdca.flare.connection import NEVER
from hyfdca.flare.network import Network, NetworkDriver
from hyfdca.flare.notes import read_note_file, write_note_file
from hyfdca.flare.predictions.inputs import own_side, read_plan
from hyfdca.flare.supervisor import Terms, run_server
from hyfdca.kits.kit import Kit, read_client_kit, read_server_kit
from hyfdca.prediction.client import PredictionClient
from hyfdca.prediction.server import Answered, PredictionServer
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.server_session import BadReplyError, ClientsFailedError
from hyfdca.runtime.store import StoreError

Tell = Callable[[str], None]

STUDY = "hyfdca.flare.predictions.serving"

_log = logging.getLogger(__name__)


# In the jobs


class PredictionHolder:
    """The handler of an organisation that helps others to predict."""

    def __init__(self, member: PredictionClient) -> None:
        self._member = member

    def handle(self, stage: str, phase: str, payload: bytes) -> bytes:
        """Answer a request."""
        return bytes(self._member.handle(stage, phase, payload))


def join(kit: Path, data: Path) -> PredictionHolder:
    """Return the handler of an organisation, with its table loaded.

    Raises
    ------
    StudyError
    """
    return PredictionHolder(own_side(kit, data).member(_log.info))


def serve(kit: Path, network: Network) -> None:
    """Serve everybody who asks; record each answer in ``kit/state`` at once.

    An earlier job of the same command may have served some, who do not ask again.

    Raises
    ------
    StudyError
        If an organisation does not answer, or none asks.
    """
    file = _answers_file(Kit(kit))
    answers = {answer.asker: answer for answer in _read_answers(file)}

    def note(answer: Answered) -> None:
        answers[answer.asker] = answer
        write_note_file(file, msgspec.json.encode(list(answers.values())))

    _serve(kit, network, note)
    if not answers:
        raise StudyError(
            "Nobody asked for predictions; one organisation must run hyfdca predict "
            "--kit."
        )


def _serve(kit: Path, network: Network, note: Callable[[Answered], None]) -> None:
    _, _, plan = read_plan(Kit(kit))
    convener = PredictionServer(
        plan, lambda stage: NetworkDriver(network, stage, plan.phase_timeout)
    )
    try:
        convener.run(note)
    except (ClientsFailedError, BadReplyError) as failure:
        raise StudyError(_sentence(plan.names, failure)) from None
    except RemoteProtocolError as error:
        raise StudyError(f"The prediction cannot continue: {error}.") from None


def _sentence(
    names: tuple[str, ...], failure: ClientsFailedError | BadReplyError
) -> str:
    client, reason = min(failure.reasons.items())
    return (
        f"Prediction failed because organisation {names[client]!r} failed in phase "
        f"{failure.phase!r}: {reason.rstrip('.')}."
    )


# The commands


def run_prediction_server(folder: Path, tell: Tell) -> None:
    """Serve everybody who asks once all organisations are connected, then end.

    Raises
    ------
    StudyError
    """
    file, is_ours = _answers_file(read_server_kit(folder)), False

    def forget() -> None:
        nonlocal is_ours
        file.unlink(missing_ok=True)
        is_ours = True

    try:
        run_server(folder, tell, Terms(STUDY), forget)
    finally:  # answers remain valid even if something failed later
        for served in _read_answers(file) if is_ours else ():
            tell(
                served.refusal
                or f"Organisation {served.asker!r} received scores of "
                f"{served.n_rows} rows."
            )


def run_prediction_holder(folder: Path, data: Path, tell: Tell) -> None:
    """Help to predict rows for which this organisation holds features, once.

    Raises
    ------
    StudyError
    """
    kit = read_client_kit(folder)
    log = own_side(kit.folder, data).bringing.log
    try:
        before = len(log.entries)
        run_client(folder, data, tell, STUDY, leave=NEVER)
        for entry in log.entries[before:]:
            tell(f"Organisation {entry.asked_by!r} asked for {entry.rows} rows.")
    except StoreError as error:
        raise StudyError(str(error)) from None


def _read_answers(file: Path) -> list[Answered]:
    decoder = msgspec.json.Decoder(list[Answered])
    return read_note_file(file, decoder.decode) or []


def _answers_file(kit: Kit) -> Path:
    return kit.state / "answered.json"
