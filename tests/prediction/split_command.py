"""The commands of predictions between machines, to run in separate processes."""

from __future__ import annotations

import sys
from pathlib import Path

from hyfdca.cli import main as cli
from hyfdca.errors import StudyError
from hyfdca.flare.predictions.serving import (
    run_prediction_holder,
    run_prediction_server,
)


def tell(sentence: str) -> None:
    """Print a sentence for the test to read."""
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run as a server (folder), a holder (folder, table) or the command line."""
    if sys.argv[1] == "hyfdca":
        sys.argv = sys.argv[1:]
        cli.main()
    kind, folder, *data = sys.argv[1:]
    try:
        if kind == "server":
            run_prediction_server(Path(folder), tell)
        else:
            run_prediction_holder(Path(folder), Path(data[0]), tell)
    except StudyError as error:
        tell(f"error: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
