"""Commands for studies between machines: the server's and an organisation's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyfdca.cli.exit_codes import exit_code
from hyfdca.cli.options import Tune
from hyfdca.cli.panels import BETWEEN_MACHINES
from hyfdca.errors import StudyError

if TYPE_CHECKING:
    from rich.console import Console

    from hyfdca.study.outcome import Summary

KitFolder = Annotated[Path, typer.Option("--kit", help="This party's kit (a folder).")]
Data = Annotated[Path, typer.Option("--data", help="This organisation's own table.")]


def server(
    kit: KitFolder,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume from the last checkpoint.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard an earlier run and start over.")
    ] = False,
    predict: Annotated[
        bool,
        typer.Option(
            "--predict",
            help="Do not train: serve all who ask for predictions, then end.",
        ),
    ] = False,
    tuning: Tune = None,
) -> None:
    """Run a study's server until the study is finished; Ctrl-C stops it.

    Writes the model, its result, figure and report to the kit's folder out, and the
    logs of hyfdca and NVFlare to its folder log (hyfdca.log and server.log). The second
    run of a study writes to out/run-2, and so on. Exit code 3 if the certified gap did
    not reach the study's tol.
    """
    if resume + restart + predict > 1:
        raise StudyError("Give only one of --resume, --restart and --predict.")
    if tuning and (resume or predict):
        raise StudyError(
            "The option --tune begins a further run; leave out --resume and --predict."
        )
    commands, console = _loaded()
    if predict:
        commands.serve_predictions(kit, console)
    else:
        how = "resume" if resume else "restart" if restart else "first"
        ending = commands.serve_study(kit, console, how, tuning or ())
        raise typer.Exit(exit_code(ending))


def client(
    kit: KitFolder,
    data: Data,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart",
            help="Take part again in a study whose model this kit already has.",
        ),
    ] = False,
    predict: Annotated[
        bool,
        typer.Option(
            "--predict",
            help="Do not train: help others to predict rows of "
            "this table. The kit's log records who asked, when and for how many.",
        ),
    ] = False,
) -> None:
    """Take part in a study until it is finished; Ctrl-C stops it.

    The table stays on this machine. Writes the model to the kit's folder out, and the
    logs of hyfdca and NVFlare to its folder log (hyfdca.log and client.log). Exit code
    3 if the certified gap did not reach the study's tol.
    """
    if restart and predict:
        raise StudyError("Give only one of --restart and --predict.")
    commands, console = _loaded()
    if predict:
        commands.help_to_predict(kit, data, console)
    else:
        raise typer.Exit(exit_code(commands.join_study(kit, data, console, restart)))


def demonstrate(folder: Path, console: Console) -> Summary:
    """Run the demonstration between processes, as between machines."""
    from hyfdca.kits.startup import require_nvflare

    require_nvflare()
    from hyfdca.cli.displays.study import StudyDisplay
    from hyfdca.demo.between_processes import run_flare_demo

    return run_flare_demo(folder, lambda state: StudyDisplay(console, state))


def _loaded() -> tuple[Any, Console]:
    """Return the module that runs the commands, which needs NVFlare, and a console."""
    from rich.console import Console

    from hyfdca.kits.startup import require_nvflare

    require_nvflare()
    from hyfdca.cli import flare_commands

    return flare_commands, Console()


def add_commands(app: typer.Typer) -> None:
    """Register these commands."""
    app.command(rich_help_panel=BETWEEN_MACHINES)(server)
    app.command(rich_help_panel=BETWEEN_MACHINES)(client)
