"""The commands with the study of the tests, run in separate processes."""

from __future__ import annotations

import sys
from pathlib import Path

from hyfdca.errors import StudyError
from hyfdca.flare.client import run_client
from hyfdca.flare.supervisor import Terms, run_server

STUDY = "tests.flare.flare_study"


def tell(sentence: str) -> None:
    """Print a sentence for the test to read."""
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run as a server (folder, quorum) or as a client (folder, table, its module)."""
    kind, folder, given, *module = sys.argv[1:]
    try:
        if kind == "server":
            run_server(Path(folder), tell, Terms(STUDY, int(given) or None))
        else:
            run_client(Path(folder), Path(given), tell, *(module or [STUDY]))
    except StudyError as error:
        tell(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        tell("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
