"""The command ``hyfdca report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    result_dir: Annotated[
        Path, typer.Argument(help="Folder that hyfdca train or hyfdca server wrote.")
    ],
) -> None:
    """Write report.html, one page about a model, and model-card.json.

    It needs only the files in the folder, which may come from another machine.
    """
    from hyfdca.report.report import PAGE, write_report

    write_report(result_dir)
    typer.echo(f"Written to {result_dir / PAGE}")


def try_report(folder: Path) -> None:
    """Write the report of a new result; if that fails, say why and continue."""
    from hyfdca.errors import StudyError
    from hyfdca.report.report import write_report

    try:
        write_report(folder)
    except StudyError as error:
        typer.echo(str(error), err=True)
