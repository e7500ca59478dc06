"""Settings that the commands pass to the job processes through the environment.

NVFlare's parents pass theirs on to the job processes they start. None of it comes from
the other side.
"""

from __future__ import annotations

import importlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_KIT, _TABLE, _STUDY = "HYFDCA_KIT", "HYFDCA_TABLE", "HYFDCA_STUDY"

STUDY = "hyfdca.flare.jobs"
RUN = "HYFDCA_RUN"  # random number of the kit's holder


@dataclass(frozen=True)
class JobEnvironment:
    """A kit, its holder's number, a table, a module with ``join`` and ``serve``."""

    kit: Path
    data: Path | None = None
    study: str = STUDY
    run: str = ""

    def environment(self) -> dict[str, str]:
        """Return the environment variables."""
        data = {} if self.data is None else {_TABLE: str(self.data)}
        return {_KIT: str(self.kit), _STUDY: self.study, RUN: self.run, **data}

    @property
    def module(self) -> Any:
        """The module with ``join`` and ``serve``."""
        return importlib.import_module(self.study)

    def without_paths(self, sentence: str) -> str:
        """Return a sentence for other parties: they need not know where files are."""
        known = [self.kit, *([] if self.data is None else [self.data.parent])]
        folders = {f for k in known for f in (k, k.resolve()) if f.name}
        for folder in sorted(folders, key=lambda f: len(str(f)), reverse=True):
            path, name = re.escape(str(folder)), folder.name.replace("\\", "")
            sentence = re.sub(rf"{path}[/\\]", "", sentence)
            sentence = re.sub(rf"{path}(?![\w.-])", name, sentence)
        return sentence


def job_environment() -> JobEnvironment:
    """Return the settings of this job process."""
    data = os.environ.get(_TABLE)
    return JobEnvironment(
        Path(os.environ[_KIT]),
        None if data is None else Path(data),
        os.environ.get(_STUDY, STUDY),
    )
