"""The value that each field of each message carries, and the phases that exist.

Both come from what the protocol itself runs on: the ``Seen`` annotations of messages
and the tables of phases. A message or phase that appears in neither has never been
considered, so the audit fails on it.
"""

from __future__ import annotations

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.prediction import messages as prediction
from hyfdca.protocol.messages import BY_PHASE
from hyfdca.protocol.phases import Phase, Phases
from hyfdca.stages import groups
from hyfdca.stages.alignment import messages as alignment
from hyfdca.stages.evaluation import messages as evaluation
from hyfdca.stages.keys import messages as keys
from hyfdca.stages.labels import messages as labels
from hyfdca.stages.levels import messages as levels
from hyfdca.stages.scaling import messages as scaling
from hyfdca.stages.validation import messages as validation
from hyfdca.study import messages as study

# Of a study, whatever its algorithm, by stage.
STUDY_TABLES: dict[str, Phases] = {
    "keys": keys.PHASES,
    "alignment": alignment.PHASES,
    "groups": groups.PHASES,
    "labels": labels.PHASES,
    "levels": levels.PHASES,
    "scaling": scaling.PHASES,
    "study": study.PHASES,
    "training": study.START_PHASES,
    "validation": validation.PHASES,
    "evaluation": evaluation.PHASES,
}

TABLES: tuple[Phases, ...] = (
    *STUDY_TABLES.values(),
    prediction.PHASES,
    *(algorithm.all_phases() for algorithm in ALGORITHMS.values()),
)


def phases_named(name: str) -> list[Phase]:
    """Return every table's entry for a phase; algorithms may share a name."""
    found = [table[name] for table in TABLES if name in table]
    return [phase for place, phase in enumerate(found) if phase not in found[:place]]


def value_of(value: str, phase: Phase) -> str:
    """Return the value that a field carries in a phase."""
    return phase.seen if value == BY_PHASE.value else value
