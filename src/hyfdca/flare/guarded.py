"""Run a module in a process that does not outlive the one that started it.

    python -m hyfdca.flare.guarded PARENT_PID MODULE [ARGUMENT ...]

The process watches its parent from before its first heavy import. It may open as many
files as the system allows, and leaves no core file.
"""

from __future__ import annotations

import runpy
import sys

from hyfdca.runtime.machine import (
    allow_many_files,
    share_memory,
    write_no_core_files,
)
from hyfdca.runtime.parents import end_with


def main() -> None:
    """Start watching, then run the module."""
    parent, module, *arguments = sys.argv[1:]
    share_memory()
    end_with(int(parent))
    write_no_core_files()
    allow_many_files()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
