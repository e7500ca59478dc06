"""The command ``hyfdca compare``: its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_DEFAULT_OUT = Path("compare-out")
_PAPER_LATENCY = 0.2575  # seconds


def compare(  # noqa: PLR0913, PLR0917  # one argument per option
    study: Annotated[Path, typer.Argument(help="The study file (TOML).")],
    algorithms: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help='Which algorithms, with settings if you like: "hyfdca,fedavg(rate='
            '0.5)". By default all.',
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder to write to.")
    ] = _DEFAULT_OUT,
    holdout: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="SHARE",
            help="Share of rows set aside to validate the models; 0 for none. By "
            "default those that the study sets aside, or a fifth.",
        ),
    ] = None,
    latency: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=86_400.0,
            metavar="SECONDS",
            help="Time of a round trip, for the simulated time; by default the "
            "paper's.",
        ),
    ] = _PAPER_LATENCY,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Most rounds, instead of the study's.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed, instead of the study's.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train a study with several algorithms; compare loss, validation and cost.

    All have the same rows, participants, seed, loss, tolerance and encryption. Writes
    one long table (comparison.parquet and comparison.csv), a summary (comparison.json)
    and a figure (comparison.png). An algorithm that does not apply to the study is
    listed with the reason. Ctrl-C writes the results so far.
    """
    from rich.console import Console

    from hyfdca.cli.displays.compare import ComparisonDisplay, show_comparison
    from hyfdca.comparison.compare import ComparisonSettings, compare_file
    from hyfdca.study import outcome

    console = Console(stderr=as_json)
    settings = ComparisonSettings(holdout, latency, rounds, seed)
    with ComparisonDisplay(console) as display:
        comparison = compare_file(study, out, algorithms, settings, display)
    if as_json:
        typer.echo(outcome.as_json(comparison.summary()).decode(), nl=False)
    else:
        show_comparison(console, comparison)
        console.print(f"Written to {out}", soft_wrap=True, markup=False)
    if comparison.broke_off is not None:
        n_ended, n_missing = len(comparison.curves), len(comparison.not_run)
        typer.echo(
            f"Only {n_ended} of {n_ended + n_missing} algorithms finished; {out} has "
            "what they reached.",
            err=True,
        )
        raise comparison.broke_off
