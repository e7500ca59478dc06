"""The command ``hyfdca train``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyfdca.cli.exit_codes import exit_code
from hyfdca.cli.options import Tune
from hyfdca.cli.report import try_report
from hyfdca.errors import StudyError

if TYPE_CHECKING:
    from hyfdca.study.local.saved_run import How


def train(  # noqa: PLR0913, PLR0917  # the options of a command
    study: Annotated[Path, typer.Argument(help="The study file (TOML).")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to.")
    ] = None,
    record: Annotated[
        bool, typer.Option(help="Record all that the server sees, for hyfdca audit.")
    ] = False,
    record_client: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Also record all that this organisation sees; the file contains "
            "numbers that are secret from everybody else.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume from the last checkpoint.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard an earlier run and start over.")
    ] = False,
    tuning: Tune = None,
) -> None:
    """Train a study; write model.json, its history and report.html.

    A further run (--tune) writes to the folder run-2, and so on, in --out. Ctrl-C ends
    after the current round with the model so far; --resume continues.
    Exit code 3 if the certified gap did not reach the study's tol.
    """
    from rich.console import Console

    from hyfdca.audit.recording import train_recorded
    from hyfdca.cli.displays.run import RoundsDisplay, show
    from hyfdca.study.local.further_runs import next_choice
    from hyfdca.study.local.training import train_file
    from hyfdca.study.tuning import run_folder

    console, folder = Console(), out or Path(f"{study.stem}-out")
    recorded = record_client or ([] if record else None)
    how = _how(resume, restart, recorded is not None)
    if recorded is not None and tuning:
        raise StudyError("A recorded run has the settings of its file; omit --tune.")
    run = next_choice(folder, tuning or (), how)
    folder = run_folder(folder, run.number)
    with RoundsDisplay(console) as display:
        if recorded is None:
            outcome = train_file(study, folder, display, how, _tell, run)
        else:
            outcome = train_recorded(study, folder, display, recorded)
    try_report(folder)
    show(console, outcome.summary())
    console.print(f"Written to {folder}", soft_wrap=True, markup=False)
    if outcome.is_interrupted and recorded is None:
        console.print("Continue this run with --resume.")
    raise typer.Exit(exit_code(outcome.ending))


def _tell(sentence: str) -> None:
    typer.echo(sentence, err=True)


def _how(resume: bool, restart: bool, is_recorded: bool) -> How:
    """Return what to do about an earlier run; refuse contradictory options."""
    if resume and restart:
        raise StudyError("Give only one of --resume and --restart.")
    if is_recorded and (resume or restart):
        raise StudyError(
            "A recorded run keeps no checkpoints; leave out --resume and --restart, or "
            "--record and --record-client."
        )
    return "resume" if resume else "restart" if restart else "first"
