"""The run of a study that a client takes part in; it never returns to an earlier one.

The server says which run begins and what was chosen for it. The client checks both
against its own study file, and records them before it answers. So a server can
neither choose what the study file does not allow, nor repeat an earlier run. Only runs
of which the client has answered a round count against ``most_runs``. A run that a
policy refused, or that waited for an organisation in vain, has shown nothing.
"""

from __future__ import annotations

from hyfdca.errors import reading
from hyfdca.protocol.codec import RefusedError
from hyfdca.runtime.store import Archive
from hyfdca.study.client.study_record import StudyRecord
from hyfdca.study.plan import Plan
from hyfdca.study.tuning import FIRST_RUN, RunChoice, check_choice

_RUN, _TRAINED = "run", "runs-trained"


class KnownRun:
    """The run that a client takes part in, over all its restarts.

    Parameters
    ----------
    plan : Plan
        The plan from the client's own study file.
    """

    def __init__(self, plan: Plan, archive: Archive) -> None:
        self._agreed, study = plan, plan.study_hash
        self._run = StudyRecord(archive, _RUN, study, RunChoice)
        self._runs = StudyRecord(archive, _TRAINED, study, list[int])
        self._known = self._run.read()
        with reading(archive.damage(_RUN)):
            self.plan = plan.of_run(self._known or FIRST_RUN)
        self._trained = frozenset(self._runs.read() or [])

    def checked(self, run: RunChoice) -> Plan:
        """Return the plan of a run that may begin.

        Raises
        ------
        RefusedError
            If the study file does not allow it, or a later run was begun.
        """
        try:
            plan = self._agreed.of_run(run)
        except ValueError as error:
            raise RefusedError(_inside(str(error))) from None
        known = self._known
        if known is not None and run.number < known.number:
            raise RefusedError(
                f"it took part in run {known.number} of this study, and the server "
                f"begins run {run.number}, which is over; restore the server's state, "
                "or raise key_epoch in the study file"
            )
        if known is not None and run.number == known.number and run != known:
            raise RefusedError(
                f"run {run.number} of this study was begun with other settings; give "
                "the server those settings, or begin a further run with --tune"
            )
        others = self._trained - {run.number}
        try:
            check_choice(run, self._agreed.file, len(others))
        except ValueError as error:
            raise RefusedError(_inside(str(error))) from None
        return plan

    def begin(self, plan: Plan) -> None:
        """Take part in a run from now on."""
        self._run.write(plan.run)
        self._known, self.plan = plan.run, plan

    def note_round(self) -> None:
        """Count this run, before a round of it is answered."""
        number = self.plan.run.number
        if number in self._trained:
            return
        trained = self._trained | {number}
        self._runs.write(sorted(trained))
        self._trained = trained


def _inside(sentence: str) -> str:
    """Return a sentence as the end of another one."""
    return sentence[:1].lower() + sentence[1:].rstrip(".")
