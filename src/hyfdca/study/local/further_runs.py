"""Determines the next run of a study in one process, and the folder of its results.

The first run writes to the folder of results, each further one to a folder in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from hyfdca.errors import StudyError
from hyfdca.runtime.store import StoreError
from hyfdca.study.local.saved_run import How, saved_choice
from hyfdca.study.tuning import FIRST_RUN, RunChoice, choice_after, run_folder

STATE = "state"  # folder of a run that can be resumed
_MODEL = "model.json"
_RUN_NAME = re.compile(r"run-([2-9]|[1-9][0-9]{1,3})")


def next_choice(folder: Path, options: Collection[str], how: How) -> RunChoice:
    """Return the run to train, and what is chosen for it.

    Parameters
    ----------
    options : collection of str
        What to choose for a further run, such as "l2=1e-3"; without any, it is the
        run of the study file itself, or the one to resume or restart.

    Raises
    ------
    StudyError
    """
    last = _last_run(folder)
    state = run_folder(folder, last) / STATE
    if how == "resume":
        if options:
            raise StudyError(
                "A run is resumed with what was chosen for it; leave out --tune, or "
                "discard the run with --restart."
            )
        return saved_choice(state)
    is_unfinished = state.exists()
    if options:
        has_model = last > 1 or (folder / _MODEL).exists()
        return choice_after(last, has_model and not is_unfinished, options)
    if how == "restart" and is_unfinished:
        with suppress(StoreError):  # a damaged state is discarded too
            return saved_choice(state)
        return RunChoice(number=last)
    return FIRST_RUN


def _last_run(folder: Path) -> int:
    """Return the number of the last run in a folder; 1 if there is none yet."""
    found = [_RUN_NAME.fullmatch(path.name) for path in folder.glob("run-*")]
    return max([1, *(int(name[1]) for name in found if name)])
