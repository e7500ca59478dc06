"""Run the benchmarks: ``python -m benchmarks [names] [--data FOLDER]``.

Every benchmark is a module with ``NEEDS``, the names of the data sets that it loads,
and ``run``. Where one of these is missing it is left out, unless it says ``IN_PART``.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

from hyfdca.data.public_sets import SETS
from hyfdca.data.sources import HOW_TO_GET, locate
from hyfdca.errors import StudyError
from hyfdca.runtime.machine import keep_memory

NAMES = (
    *("convergence", "reference", "round", "simulator", "memory", "alignment"),
    "path",
)
OF_ROUNDS = ("rounds", "intercept", "losses", "participation", "wall", "figure")
OF_ENCRYPTION = ("encryption", "alignment", "prediction")
OF_NETWORK = ("flare", "hosting")
OF_CODE = ("trace",)
KNOWN = tuple(
    dict.fromkeys([*NAMES, *OF_ROUNDS, *OF_ENCRYPTION, *OF_NETWORK, *OF_CODE])
)


def main() -> int:
    """Run the benchmarks named, or the usual ones, as far as their data exists."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(KNOWN)}")
    parser.add_argument(
        "--data",
        type=Path,
        help="folder to look for the paper's data sets in first; see hyfdca data",
    )
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(KNOWN)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    folder = arguments.data
    if folder is not None and not folder.is_dir():
        parser.error(f"the folder {folder} does not exist; correct --data")
    keep_memory()  # as the command line does
    try:
        _run(arguments.names or NAMES, folder)
    except StudyError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _run(names: Iterable[str], folder: Path | None) -> None:
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in names}
    missing = {name: _missing(module, folder) for name, module in modules.items()}
    if any(missing.values()):
        print(_complaint(modules, missing), flush=True)
    for name, module in modules.items():
        if not missing[name] or _runs_in_part(module):
            print(f"== {name}", flush=True)
            module.run(folder)


def _missing(module: ModuleType, folder: Path | None) -> list[str]:
    """Return the missing data sets that a benchmark needs."""
    return [name for name in module.NEEDS if locate(name, folder) is None]


def _runs_in_part(module: ModuleType) -> bool:
    return getattr(module, "IN_PART", False)


def _complaint(
    modules: Mapping[str, ModuleType], missing: Mapping[str, list[str]]
) -> str:
    """Return one sentence: what is missing, what is left out, how to get it."""
    sets = [name for name in SETS if any(name in needed for needed in missing.values())]
    left_out = [
        f"{name} in part" if _runs_in_part(modules[name]) else name
        for name, needed in missing.items()
        if needed
    ]
    return (
        f"Left out for want of {', '.join(SETS[name].title for name in sets)}: "
        f"{', '.join(left_out)}; {HOW_TO_GET} the data."
    )


if __name__ == "__main__":
    sys.exit(main())
