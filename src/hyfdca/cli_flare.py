"""Commands of studies between machines: the server's, an organisation's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hyfdca.cli_panels import BETWEEN_MACHINES
from hyfdca.kits.startup import require_nvflare
from hyfdca.outcome import Summary
from hyfdca.study_error import StudyError

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
) -> None:
    """Run a study's server until the study is finished; Ctrl-C stops it.

    The model, its result and figure are written to the kit's folder out; what was said
    and what NVFlare printed, to its folder log (hyfdca.log and server.log).
    """
    if resume and anew:
        raise StudyError("Give --resume or --anew, not both.")
    require_nvflare()
    from hyfdca.flare.commands import serve_study  # noqa: PLC0415

    serve_study(kit, Console(), "resume" if resume else "anew" if anew else "first")


def client(kit: KitFolder, data: Data) -> None:
    """Take part in a study until it is finished; Ctrl-C stops it.

    The table stays on this machine; the model is written to the kit's folder out; what
    was said and what NVFlare printed, to its folder log (hyfdca.log and client.log).
    """
    require_nvflare()
    from hyfdca.flare.commands import join_study  # noqa: PLC0415

    join_study(kit, data, Console())


def demonstrate(folder: Path, console: Console) -> Summary:
    """Run the demonstration as between machines."""
    require_nvflare()
    from hyfdca.demo_flare import run_flare_demo  # noqa: PLC0415

    return run_flare_demo(folder, console)


def add_commands(app: typer.Typer) -> None:
    """Register these commands."""
    app.command(rich_help_panel=BETWEEN_MACHINES)(server)
    app.command(rich_help_panel=BETWEEN_MACHINES)(client)
