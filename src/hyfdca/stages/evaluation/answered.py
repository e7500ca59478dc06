"""Records what a client has answered about rows set aside, so that it adds no more.

Theory of operation. A failure repeats a test as a whole. With an honest server it then
has the same scores and the same questions, bit for bit. So a client answers the same
question again as often as it comes, and counts all others, over all tests of a run and
over its own restarts. A server that has other scores formed is refused: the difference
of two sums could be a single row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.stages.evaluation import messages as m

_DIGEST_BYTES = 16

# Different questions by phase, in one run. A regression has two centres.
_MOST_ANSWERS = {
    "measure bounds": 2,
    "measures": 2,
    "score bins": m.MOST_PASSES,
    "calibration bins": 1,
    "recalibration": m.MOST_STEPS,
}

_encode = msgspec.msgpack.Encoder().encode


class AnsweredRecord(msgspec.Struct, frozen=True):
    """What was answered in a run, as digests.

    Parameters
    ----------
    owners : bytes
        The digest of who has each row's label; empty before the first test or point.
    scores : bytes
        The digest of the scores of the client's own rows; empty before the first test.
    questions : dict of str to list of bytes
        The digests of questions, by phase.
    """

    owners: bytes = b""
    scores: bytes = b""
    questions: dict[str, list[bytes]] = {}


class Answered:
    """Refuses what no honest server asks a second time.

    Parameters
    ----------
    read, write : callable
        The record of the run, which outlives the process.
    is_rehearsal : bool
        Whether all parties belong to one person, who may test any number of models.
    """

    def __init__(
        self,
        read: Callable[[], AnsweredRecord],
        write: Callable[[AnsweredRecord], None],
        is_rehearsal: bool = False,
    ) -> None:
        self._read, self._write, self._is_rehearsal = read, write, is_rehearsal

    def begin_test(self) -> None:
        """Note that a model is sent; the record stays, except in a rehearsal."""
        if self._is_rehearsal:
            self._write(AnsweredRecord(owners=self._read().owners))

    def check_owners(self, owners: bytes) -> None:
        """Refuse other label holders than those of the run's first test or point.

        Raises
        ------
        RefusedError
        """
        self._check_same("owners", owners, "it names other label holders than before")

    def check_scores(self, scores: bytes) -> None:
        """Refuse other scores than those of the run's first test.

        Raises
        ------
        RefusedError
        """
        self._check_same("scores", scores, "its rows had other scores before")

    def _check_same(self, what: str, content: bytes, refusal: str) -> None:
        record, digest = self._read(), _digest(content)
        first = getattr(record, what)
        if not first:
            self._write(msgspec.structs.replace(record, **{what: digest}))
        elif first != digest:
            raise RefusedError(
                f"{refusal} in this run; start this organisation's client with "
                "--restart if that is right"
            )

    def take(self, phase: str, question: Any) -> None:
        """Note a question before its answer; refuse one question too many.

        Raises
        ------
        RemoteProtocolError
        """
        record, digest = self._read(), _digest(_encode(question))
        asked, most = record.questions.get(phase, []), _MOST_ANSWERS[phase]
        if digest in asked:
            return
        if len(asked) >= most:
            raise RemoteProtocolError(
                f"phase {phase!r} was answered {most} times in this run, to other "
                "questions"
            )
        questions = {**record.questions, phase: [*asked, digest]}
        self._write(msgspec.structs.replace(record, questions=questions))


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
