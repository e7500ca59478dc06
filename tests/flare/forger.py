"""A real study's member that forges its release, run by the job processes of tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyfdca.flare import jobs
from tests.support.liars import Liar, times


def join(kit: Path, data: Path) -> Any:
    """Return a member that multiplies the weights that it releases by -3."""
    lies = {"release": lambda content: [times(content[0], -3.0)]}
    return Liar(jobs.join(kit, data), lies)
