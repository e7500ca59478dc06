from __future__ import annotations

import os
import subprocess
import sys

from hyfdca.maths.compiling import CACHE

PROGRAM = "from hyfdca.maths import compiling, losses; print(compiling.CACHE)"


def test_compiled_functions_are_kept_where_they_can_be() -> None:
    """Elsewhere the package works all the same, and compiles in each process."""
    assert CACHE
    nowhere = {**os.environ, "NUMBA_CACHE_LOCATOR_CLASSES": "ZipCacheLocator"}
    command = [sys.executable, "-c", PROGRAM]
    assert subprocess.check_output(command, env=nowhere) == b"False\n"  # noqa: S603
