"""Run the benchmarks: ``python -m benchmarks [names] [--data FOLDER]``."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from hyfdca.runtime.machine import keep_memory

NAMES = ("convergence", "reference", "round", "memory", "alignment")
OF_ROUNDS = ("rounds", "losses", "participation", "wall", "figure")
OF_ENCRYPTION = ("encryption", "alignment")
OF_NETWORK = ("flare", "hosting")
OF_CODE = ("trace",)
OF_RIVALS = ("rivals",)
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def main() -> int:
    """Run the benchmarks named, or all."""
    known = [
        *dict.fromkeys(
            [*NAMES, *OF_ROUNDS, *OF_ENCRYPTION, *OF_NETWORK, *OF_CODE, *OF_RIVALS]
        )
    ]
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(known)}")
    parser.add_argument("--data", type=Path, default=DATA, help="the paper's data sets")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(known)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    if not arguments.data.is_dir():
        print("The paper's data sets are not there; name their folder with --data.")
        return 2
    keep_memory()  # as the command line does
    for name in arguments.names or NAMES:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").run(arguments.data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
