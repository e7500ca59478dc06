"""Commands of studies between machines: the server's, an organisation's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

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

    The model, its result and figure are written to the kit's folder out.
    """
    from hyfdca.flare.commands import serve_study  # noqa: PLC0415  # needs nvflare

    if resume and anew:
        raise StudyError("Give --resume or --anew, not both.")
    serve_study(kit, Console(), "resume" if resume else "anew" if anew else "first")


def client(kit: KitFolder, data: Data) -> None:
    """Take part in a study until it is finished; Ctrl-C stops it.

    The table stays on this machine; the model is written to the kit's folder out.
    """
    from hyfdca.flare.commands import join_study  # noqa: PLC0415  # needs nvflare

    join_study(kit, data, Console())


def add_commands(app: typer.Typer) -> None:
    """Register these commands."""
    app.command()(server)
    app.command()(client)
