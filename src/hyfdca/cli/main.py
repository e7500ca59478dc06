"""The command line: parse arguments, call one function, choose the exit code."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from hyfdca.audit.recording import train_recorded
from hyfdca.audit.report import audit_folder
from hyfdca.bench.crypto import SECONDS, compare
from hyfdca.cli import flare as cli_flare
from hyfdca.cli import kits as cli_kits
from hyfdca.cli.audit import show_audit
from hyfdca.cli.bench import MeasuringDisplay, comparison_table, missing_message
from hyfdca.cli.display import RoundsDisplay, show
from hyfdca.cli.panels import BETWEEN_MACHINES, LOOK, ONE_MACHINE
from hyfdca.cli.predict import predict
from hyfdca.crypto.keys.identity import Identity
from hyfdca.demo.in_process import run_demo
from hyfdca.errors import StudyError
from hyfdca.kits.key_files import (
    PUBLIC_FILE,
    SECRET_FILE,
    read_identity,
    write_identity,
)
from hyfdca.runtime.machine import keep_memory
from hyfdca.study.file import load
from hyfdca.study.identity import public_identities, study_fingerprint
from hyfdca.study.outcome import train_file

app = typer.Typer(
    help="Hybrid federated learning for convex models, with a certificate.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

bench = typer.Typer(help="Measure what things cost here.", no_args_is_help=True)
app.add_typer(bench, name="bench", rich_help_panel=LOOK)
keys_app = typer.Typer(help="An organisation's own keys.", no_args_is_help=True)
study_app = typer.Typer(help="What a study file says.", no_args_is_help=True)
app.add_typer(keys_app, name="keys", rich_help_panel=BETWEEN_MACHINES)
app.add_typer(study_app, name="study", rich_help_panel=BETWEEN_MACHINES)
cli_kits.add_commands(app)
cli_flare.add_commands(app)


class Engine(StrEnum):
    """What carries messages in a demonstration."""

    INPROCESS = "inprocess"
    NVFLARE = "nvflare"


Out = Annotated[Path | None, typer.Option("--out", help="Folder to write to.")]

_COMPARE = (
    "Read the first number to every other organisation, by telephone or in person: if "
    "all have the same, nobody has another study file or another key."
)

_NOT_CLEAN, _BAD_INPUT, _INTERRUPTED = 1, 2, 130
# The base of all complaints about arguments; typer has no public name for it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


@app.command(rich_help_panel=ONE_MACHINE)
def demo(
    out: Out = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="In one process, or as between machines: a server and clients of "
            "NVFlare in processes of their own."
        ),
    ] = Engine.INPROCESS,
) -> None:
    """Train three hospitals on one machine and compare with pooling their data."""
    console, folder = Console(), out or Path("demo-out")
    if engine is Engine.NVFLARE:
        show(console, cli_flare.demonstrate(folder, console))
    else:
        with RoundsDisplay(console) as display:
            outcome = run_demo(folder, display)
        show(console, outcome.summary())
    console.print(f"Written to {folder}", soft_wrap=True, markup=False)


@app.command(rich_help_panel=ONE_MACHINE)
def train(
    study: Annotated[Path, typer.Argument(help="The study file (TOML).")],
    out: Out = None,
    record: Annotated[
        bool, typer.Option(help="Write all that the server sees, for hyfdca audit.")
    ] = False,
    record_client: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Also write all that this organisation sees: a file with numbers that "
            "are secret from everybody else.",
        ),
    ] = None,
) -> None:
    """Train a study; writes model.json and how it was found."""
    console, folder = Console(), out or Path(f"{study.stem}-out")
    recorded = record_client or ([] if record else None)
    with RoundsDisplay(console) as display:
        if recorded is None:
            outcome = train_file(study, folder, display)
        else:
            outcome = train_recorded(study, folder, display, recorded)
    show(console, outcome.summary())
    console.print(f"Written to {folder}", soft_wrap=True, markup=False)


app.command(rich_help_panel=ONE_MACHINE)(predict)


@app.command(rich_help_panel=LOOK)
def audit(
    run_dir: Annotated[Path, typer.Argument(help="Folder of a recorded run.")],
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    study: Annotated[
        Path | None, typer.Option(help="The study file, if it is elsewhere now.")
    ] = None,
) -> None:
    """Show what parties of a recorded run saw, and attack the data from that.

    Exit code 1 if somebody saw or could find out more than the trust model says.
    """
    result = audit_folder(run_dir, study)
    if as_json:
        typer.echo(json.dumps(result.as_json(), indent=2))
    else:
        show_audit(Console(), result)
    raise typer.Exit(0 if result.is_clean else _NOT_CLEAN)


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


@keys_app.command("new")
def new_keys(
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")],
) -> None:
    """Make this organisation's keys; only the public line may leave it."""
    identity = Identity.generate()
    write_identity(identity, out)
    typer.echo(f"Written to {out}: {SECRET_FILE} (never send it) and {PUBLIC_FILE}.")
    typer.echo("For this organisation's entry in the study file:")
    _show_public(identity)


@keys_app.command("show")
def show_keys(
    folder: Annotated[Path, typer.Argument(help="Folder that keys new wrote to.")],
) -> None:
    """Show the public line of this organisation's keys."""
    _show_public(read_identity(folder))


def _show_public(identity: Identity) -> None:
    typer.echo(f'public_key = "{identity.public.text}"')
    typer.echo(f"Fingerprint: {identity.public.fingerprint}")


@study_app.command("fingerprint")
def fingerprint(
    study: Annotated[Path, typer.Argument(help="The study file (TOML).")],
) -> None:
    """Show what all organisations must see alike before they exchange keys."""
    file = load(study)
    keys = public_identities({c.name: c.public_key for c in file.clients})
    typer.echo(f"Study {file.study.name!r}, key epoch {file.study.key_epoch}:")
    typer.echo(study_fingerprint(study.read_bytes()))
    for client in file.clients:
        known = keys.get(client.name)
        typer.echo(f"{client.name!r}: {known.fingerprint if known else 'no key yet'}")
    typer.echo(_COMPARE)


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
    keep_memory()
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
