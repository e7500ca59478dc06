"""Counts the rounds that a client has taken part in, over all runs of its study.

A round gives margins, which are equations for the cells of others, and a further run
gives further ones. So they are counted on disk, before the first answer of a round.
Only removing the client's state resets the count.
"""

from __future__ import annotations

import msgspec

from hyfdca.errors import counted, reading
from hyfdca.protocol.codec import RefusedError
from hyfdca.runtime.store import Archive
from hyfdca.study.client.policy import POLICY, MemberPolicy, n_fits
from hyfdca.study.plan import Plan

_ROUNDS = "rounds-taken"


class RoundsTaken:
    """Rounds times outputs that a client has taken part in.

    The measurement of the start, at weights of zero, is not a round. It is free once
    per run of the study: if a server begins a run repeatedly, that counts.

    Parameters
    ----------
    policy : MemberPolicy
        The policy whose ``most_rounds`` limits them.
    """

    def __init__(self, archive: Archive, policy: MemberPolicy) -> None:
        self._archive, self._policy = archive, policy
        self._width = 1
        kept = archive.read(_ROUNDS)
        with reading(archive.damage(_ROUNDS)):
            found = _decoder.decode(kept) if kept else (0, 0, True, b"", 0)
            self.total, self._before, self._is_at_start, *run = found
            self._run = tuple(run)

    def is_new(self, plan: Plan) -> bool:
        """Return whether the run of the study has not begun before."""
        return self._run != _run_of(plan)

    def begin(self, plan: Plan) -> None:
        """Note that a training begins; earlier rounds stay counted.

        If it begins again before the start was measured, that is still free.
        """
        self._is_at_start = self.is_new(plan) or self._is_at_start
        self._before, self._run = self.total, _run_of(plan)
        self._write()

    def saved(self) -> None:
        """Note that the state was saved: from now on there are rounds."""
        if self._is_at_start:
            self._is_at_start = False
            self._write()

    def start(self, plan: Plan, n_outputs: int) -> None:
        """Refuse a training that may have more rounds than the policy leaves.

        Raises
        ------
        StudyError
        """
        self._width = n_outputs * n_fits(plan)
        self._policy.check_rounds(plan, n_outputs, self._before)

    def take(self, n_rounds: int) -> None:
        """Count rounds before they are answered.

        Raises
        ------
        RefusedError
            If the policy allows no more.
        """
        if self._is_at_start:
            self.saved()
            return
        total, most = self.total + n_rounds * self._width, self._policy.most_rounds
        if most is not None and total > most:
            raise RefusedError(
                f"its {POLICY} allows {counted(most, 'round')} times outputs over all "
                f"runs, and it has taken part in {self.total}; raise most_rounds there "
                "if it may take part in more"
            )
        self.total = total
        self._write()

    def _write(self) -> None:
        record = (self.total, self._before, self._is_at_start, *self._run)
        self._archive.write(_ROUNDS, msgspec.msgpack.encode(record))


_decoder = msgspec.msgpack.Decoder(tuple[int, int, bool, bytes, int])


def _run_of(plan: Plan) -> tuple[bytes, int]:
    """Return the study file and the number of a run."""
    return plan.study_hash, plan.run.number
