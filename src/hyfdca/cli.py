"""The command line: parse arguments, call one function, choose the exit code."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from hyfdca.bench.crypto import SECONDS, compare
from hyfdca.bench.display import MeasuringDisplay, comparison_table, missing_message
from hyfdca.consortium import StudyError
from hyfdca.demo import run_demo
from hyfdca.display import RoundsDisplay, show
from hyfdca.outcome import train_file

app = typer.Typer(
    help="Hybrid federated learning for convex models, with a certificate.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

bench = typer.Typer(help="Measure what things cost here.", no_args_is_help=True)
app.add_typer(bench, name="bench")

Out = Annotated[Path | None, typer.Option("--out", help="Folder to write to.")]

_BAD_INPUT, _INTERRUPTED = 2, 130
# The base of all complaints about arguments; typer has no public name for it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


@app.command()
def demo(out: Out = None) -> None:
    """Train three hospitals on one machine and compare with pooling their data."""
    console, folder = Console(), out or Path("demo-out")
    with RoundsDisplay(console) as display:
        outcome = run_demo(folder, display)
    show(console, outcome)
    console.print(f"Written to {folder}", soft_wrap=True, markup=False)


@app.command()
def train(
    study: Annotated[Path, typer.Argument(help="The study file (TOML).")],
    out: Out = None,
) -> None:
    """Train a study; writes model.json, result.json and convergence.png."""
    console, folder = Console(), out or Path(f"{study.stem}-out")
    with RoundsDisplay(console) as display:
        outcome = train_file(study, folder, display)
    show(console, outcome)
    console.print(f"Written to {folder}", soft_wrap=True, markup=False)


@bench.command("crypto")
def bench_crypto(
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    seconds: Annotated[
        float, typer.Option(min=0.0, help="Spent on each figure.")
    ] = SECONDS,
) -> None:
    """Measure encryption, beside the paper's estimate and two libraries."""
    errors = Console(stderr=True)
    with MeasuringDisplay(errors) as display:
        comparison = compare(seconds, display)
    if as_json:
        typer.echo(json.dumps(comparison.as_json(), indent=2))
    else:
        Console().print(comparison_table(comparison))
    if message := missing_message(comparison):
        errors.print(message, soft_wrap=True, markup=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hyfdca {version('hyfdca')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; bad input is one sentence and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except StudyError as error:
        _fail(str(error), _BAD_INPUT)
    except _UsageError as error:
        _fail(_one_line(error), _BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        _fail("Interrupted.", _INTERRUPTED)
    sys.exit(code)


def _one_line(error: Any) -> str:
    """Return a complaint as a sentence; without any argument, help said it all."""
    what = " ".join(str(error.format_message()).split()).rstrip(".")
    return f"{what}; see hyfdca --help." if what else ""


def _fail(sentence: str, code: int) -> NoReturn:
    if sentence:
        typer.echo(sentence, err=True)
    sys.exit(code)
