"""Requests for predictions between machines: the asker's job and command.

The job process receives the scores and stores them in the kit, sealed by the
organisation's own key. The command reads them, and removes them once the predictions
are written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from hyfdca.errors import StudyError, plain_errors
from hyfdca.flare.client import run_client
from hyfdca.flare.connection import Leave
from hyfdca.flare.lock import only_one
from hyfdca.flare.predictions.inputs import KEPT, OwnSide, own_side
from hyfdca.flare.predictions.serving import Tell
from hyfdca.kits.kit import ClientKit, Kit, read_client_kit
from hyfdca.prediction.client import PredictionClient, SplitScores
from hyfdca.prediction.label_scores import check_labels
from hyfdca.prediction.split_rows import (
    SplitPredictions,
    check_permission,
    predictions_of,
)

STUDY = "hyfdca.flare.predictions.asking"

_SCORES = "scores"
_PATIENCE = 60.0  # seconds: a restarted server may need us for another asker

_log = logging.getLogger(__name__)


def _answered_since(kit: Kit) -> float | None:
    """Return when the server answered; an earlier answer is forgotten first."""
    try:
        return (kit.state / KEPT / _SCORES).stat().st_mtime
    except FileNotFoundError:
        return None


LEAVE = Leave(_answered_since, _PATIENCE)


class AskedOutcome(msgspec.Struct, frozen=True):
    """The result that the job leaves for the command."""

    refusal: str
    table: bytes = b""  # its digest
    model: bytes = b""  # its digest
    n_outputs: int = 1
    margins: bytes = b""
    n_absent: bytes = b""

    def __repr__(self) -> str:
        return "AskedOutcome(scores)"


_decoder = msgspec.msgpack.Decoder(AskedOutcome)


class Asker:
    """The handler of an organisation that asks; stores what it receives."""

    def __init__(self, side: OwnSide, member: PredictionClient) -> None:
        self._side, self._member, self._is_kept = side, member, False

    def handle(self, stage: str, phase: str, payload: bytes) -> bytes:
        """Answer a request."""
        reply = bytes(self._member.handle(stage, phase, payload))
        outcome = _outcome(self._member, self._side)
        if outcome is not None and not self._is_kept:
            if outcome.refusal and _has_scores(self._side):
                return reply  # of an earlier job; every holder has counted them
            self._side.kept.write(_SCORES, msgspec.msgpack.encode(outcome))
            self._is_kept = True
        return reply


def _outcome(member: PredictionClient, side: OwnSide) -> AskedOutcome | None:
    scores = member.scores
    if scores is None:
        return AskedOutcome(member.refusal) if member.refusal else None
    margins = scores.margins.astype("<f8").tobytes()
    absent = scores.n_absent.astype("<i8").tobytes()
    digests = (side.table.digest, side.bringing.digest)
    return AskedOutcome("", *digests, scores.margins.shape[1], margins, absent)


def join(kit: Path, data: Path) -> Asker:
    """Return the handler of an organisation that asks.

    Raises
    ------
    StudyError
    """
    side = own_side(kit, data, asks=True)
    outcome = _read(side)
    if outcome is not None and _fits(outcome, side):
        # An earlier job has delivered them; the others still need our rows.
        side = replace(side, bringing=replace(side.bringing, asks=False))
    return Asker(side, side.member(_log.info))


@contextmanager
def asked(folder: Path, data: Path, tell: Tell) -> Iterator[SplitPredictions]:
    """Ask the others for scores of the rows of a table; yield the predictions.

    The scores are kept until the block ends without an error, because every holder has
    counted the rows. Until then the same request is answered with them.

    Raises
    ------
    StudyError
        If this organisation may not ask, or receives nothing.
    """
    with plain_errors(folder):
        side, made = _ask(folder, data, tell)
    try:
        yield made
    except BaseException:
        tell("The scores are kept; the same command writes them without asking again.")
        raise
    with plain_errors(folder):
        side.kept.remove(_SCORES)


def _ask(folder: Path, data: Path, tell: Tell) -> tuple[OwnSide, SplitPredictions]:
    kit = read_client_kit(folder)
    side = own_side(kit.folder, data, asks=True)
    check_labels(side.model, side.table, "leave them blank")
    scores = _left_scores(kit, side, tell)
    if scores is None:
        scores = _new_scores(folder, data, side, tell)
    try:
        return side, predictions_of(side.model, side.table, scores)
    except StudyError:
        side.kept.remove(_SCORES)  # other scores may be possible
        raise


def _left_scores(kit: ClientKit, side: OwnSide, tell: Tell) -> SplitScores | None:
    """Return what an earlier request for the same rows has left."""
    kit.make_folders()
    with only_one(kit):
        outcome = _read(side)
    if outcome is None or not _fits(outcome, side):
        return None
    tell("Using the scores of an earlier request, which were not written then.")
    return _scores(outcome)


def _new_scores(folder: Path, data: Path, side: OwnSide, tell: Tell) -> SplitScores:
    check_permission(side.bringing, side.name)
    failure, has_begun = None, False

    def prepare() -> None:
        nonlocal has_begun
        side.kept.remove(_SCORES)
        has_begun = True

    try:
        with plain_errors(folder):
            run_client(folder, data, tell, STUDY, prepare, LEAVE)
    except StudyError as error:
        failure = error  # perhaps of a later request, after ours was answered
    outcome = _read(side) if has_begun else None
    if outcome is None:
        raise failure or StudyError(
            "The server ended without sending scores; its terminal says why."
        )
    if outcome.refusal:
        raise StudyError(outcome.refusal)
    if not _fits(outcome, side):
        raise StudyError(f"{data} changed during the request for scores; ask again.")
    return _scores(outcome)


def _read(side: OwnSide) -> AskedOutcome | None:
    content = side.kept.read(_SCORES)
    return None if content is None else _decoder.decode(content)


def _has_scores(side: OwnSide) -> bool:
    outcome = _read(side)
    return outcome is not None and not outcome.refusal


def _fits(outcome: AskedOutcome, side: OwnSide) -> bool:
    """Return whether an outcome has scores of this table by this model."""
    own = (side.table.digest, side.bringing.digest)
    return not outcome.refusal and (outcome.table, outcome.model) == own


def _scores(outcome: AskedOutcome) -> SplitScores:
    margins = np.frombuffer(outcome.margins, "<f8").reshape(-1, outcome.n_outputs)
    return SplitScores(margins, np.frombuffer(outcome.n_absent, "<i8"))
