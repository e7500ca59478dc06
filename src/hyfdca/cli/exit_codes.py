"""Exit codes of the commands; docs/deploy.md explains them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hyfdca.study.ending import Ending

NOT_CLEAN, BAD_INPUT, NOT_CONVERGED, MAY_PASS, INTERRUPTED = 1, 2, 3, 4, 130


def exit_code(ending: Ending) -> int:
    """Return the code of a command whose study has ended."""
    return 0 if ending.is_converged else NOT_CONVERGED
