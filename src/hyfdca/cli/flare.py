"""Commands of studies between machines: the server's, an organisation's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hyfdca.cli.panels import BETWEEN_MACHINES
from hyfdca.errors import StudyError
from hyfdca.kits.startup import require_nvflare
from hyfdca.study.outcome import Summary

KitFolder = Annotated[Path, typer.Option("--kit", help="This party's kit (a folder).")]
Data = Annotated[Path, typer.Option("--data", help="This organisation's own table.")]


def server(
    kit: KitFolder,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was interrupted.")
    ] = False,
    anew: Annotated[
        bool, typer.Option("--anew", help="Forget an earlier run and begin again.")
    ] = False,
    predict: Annotated[
        bool,
        typer.Option(
            "--predict",
            help="Train nothing: serve organisations that ask for predictions, once.",
        ),
    ] = False,
) -> None:
    """Run a study's server until the study is finished; Ctrl-C stops it.

    The model, its result and figure are written to the kit's folder out; what was said
    and what NVFlare printed, to its folder log (hyfdca.log and server.log).
    """
    if resume + anew + predict > 1:
        raise StudyError("Give one of --resume, --anew and --predict.")
    require_nvflare()
    from hyfdca.cli import flare_commands as commands  # noqa: PLC0415

    if predict:
        commands.serve_predictions(kit, Console())
        return
    how: commands.How = "resume" if resume else "anew" if anew else "first"
    commands.serve_study(kit, Console(), how)


def client(
    kit: KitFolder,
    data: Data,
    anew: Annotated[
        bool,
        typer.Option(
            "--anew",
            help="Take part once more in a study whose model is there already.",
        ),
    ] = False,
    predict: Annotated[
        bool,
        typer.Option(
            "--predict",
            help="Train nothing: help others to predict rows of this table, once. Who "
            "asked, when and for how many is in the kit's log.",
        ),
    ] = False,
) -> None:
    """Take part in a study until it is finished; Ctrl-C stops it.

    The table stays on this machine; the model is written to the kit's folder out; what
    was said and what NVFlare printed, to its folder log (hyfdca.log and client.log).
    """
    if anew and predict:
        raise StudyError("Give one of --anew and --predict.")
    require_nvflare()
    from hyfdca.cli import flare_commands as commands  # noqa: PLC0415

    if predict:
        commands.help_to_predict(kit, data, Console())
    else:
        commands.join_study(kit, data, Console(), anew)


def demonstrate(folder: Path, console: Console) -> Summary:
    """Run the demonstration as between machines."""
    require_nvflare()
    from hyfdca.cli.study_display import StudyDisplay  # noqa: PLC0415
    from hyfdca.demo.between_processes import run_flare_demo  # noqa: PLC0415

    return run_flare_demo(folder, lambda state: StudyDisplay(console, state))


def add_commands(app: typer.Typer) -> None:
    """Register these commands."""
    app.command(rich_help_panel=BETWEEN_MACHINES)(server)
    app.command(rich_help_panel=BETWEEN_MACHINES)(client)
