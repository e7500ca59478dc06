"""The command line: parse arguments, call one function, choose the exit code.

Commands import what they need when they are called, so ``hyfdca --help`` is quick.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from hyfdca import __version__
from hyfdca.cli import flare, kits
from hyfdca.cli.compare import compare
from hyfdca.cli.data import data
from hyfdca.cli.exit_codes import (
    BAD_INPUT,
    INTERRUPTED,
    MAY_PASS,
    NOT_CLEAN,
    NOT_CONVERGED,
)
from hyfdca.cli.panels import BETWEEN_MACHINES, LOOK, ONE_MACHINE
from hyfdca.cli.predict import predict
from hyfdca.cli.report import report, try_report
from hyfdca.cli.reproduce import reproduce
from hyfdca.cli.study_new import new_study
from hyfdca.cli.train import train
from hyfdca.cli.tune import tune
from hyfdca.errors import PassingError, StudyError, system_sentence

if TYPE_CHECKING:
    from hyfdca.crypto.keys.identity import Identity

app = typer.Typer(
    help="Hybrid federated learning for convex models, with a certificate.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

bench = typer.Typer(help="Run benchmarks on this machine.", no_args_is_help=True)
app.add_typer(bench, name="bench", rich_help_panel=LOOK)
keys_app = typer.Typer(help="An organisation's own keys.", no_args_is_help=True)
study_app = typer.Typer(help="Draft or inspect a study file.", no_args_is_help=True)
app.add_typer(keys_app, name="keys", rich_help_panel=BETWEEN_MACHINES)
app.add_typer(study_app, name="study", rich_help_panel=BETWEEN_MACHINES)
kits.add_commands(app)
flare.add_commands(app)


class Engine(StrEnum):
    """How a demonstration carries messages."""

    INPROCESS = "inprocess"
    NVFLARE = "nvflare"


Out = Annotated[Path | None, typer.Option("--out", help="Folder to write to.")]

_COMPARE = (
    "Read the first number to every other organisation, by telephone or in person: if "
    "all numbers agree, all have the same study file and the same keys."
)

# The base class of all argument errors; typer has no public name for it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


@app.command(rich_help_panel=ONE_MACHINE)
def demo(
    out: Out = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="In one process, or as between machines: an NVFlare server and "
            "clients, each in its own process."
        ),
    ] = Engine.INPROCESS,
) -> None:
    """Train three hospitals on one machine and compare with pooling their data."""
    from rich.console import Console

    from hyfdca.cli.displays.run import RoundsDisplay, show
    from hyfdca.demo.in_process import run_demo

    console, folder = Console(), out or Path("demo-out")
    if engine is Engine.NVFLARE:
        summary = flare.demonstrate(folder, console)
    else:
        with RoundsDisplay(console) as display:
            summary = run_demo(folder, display).summary()
    try_report(folder)
    show(console, summary)
    console.print(f"Written to {folder}", soft_wrap=True, markup=False)
    raise typer.Exit(0 if summary.result["converged"] else NOT_CONVERGED)


app.command(rich_help_panel=ONE_MACHINE)(train)
app.command(rich_help_panel=ONE_MACHINE)(predict)
app.command(rich_help_panel=LOOK)(report)


app.command(rich_help_panel=LOOK)(compare)


app.command(rich_help_panel=LOOK)(data)


app.command(rich_help_panel=LOOK)(tune)
app.command(rich_help_panel=LOOK)(reproduce)


@app.command(rich_help_panel=LOOK)
def audit(
    run_dir: Annotated[Path, typer.Argument(help="Folder of a recorded run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    study: Annotated[
        Path | None, typer.Option(help="The study file, if it has moved.")
    ] = None,
    expect: Annotated[
        str,
        typer.Option(
            metavar="KINDS",
            help="Findings to accept, separated by commas: client-rows, client-sparse, "
            "client-columns, server-shares, server-planes (the last two in the open "
            "profile only). With a number, as in client-sparse=0.5, at most this share "
            "of the rows or columns.",
        ),
    ] = "",
) -> None:
    """Show what the parties of a recorded run saw, and attack the data with it.

    Exit code 0 if no attack recovers cells, or none but those that --expect names.
    Exit code 1 if one does, or if a party saw more than the trust model allows.
    """
    from rich.console import Console

    from hyfdca.audit.findings import expected_from
    from hyfdca.audit.report import audit_folder
    from hyfdca.cli.audit import show_audit

    expected = expected_from(expect)
    result = audit_folder(run_dir, study)
    if as_json:
        _print_json(result.as_json(expected))
    else:
        show_audit(Console(), result, expected)
    raise typer.Exit(0 if result.is_accepted(expected) else NOT_CLEAN)


@bench.command("crypto")
def bench_crypto(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    seconds: Annotated[
        float, typer.Option(min=0.0, help="Time spent on each figure.")
    ] = 0.5,
) -> None:
    """Measure encryption; compare with the paper's estimate and two libraries."""
    from rich.console import Console

    from hyfdca.bench.crypto import compare
    from hyfdca.cli.bench import MeasuringDisplay, comparison_table, missing_message

    errors = Console(stderr=True)
    with MeasuringDisplay(errors) as display:
        comparison = compare(seconds, display)
    if as_json:
        _print_json(comparison.as_json())
    else:
        Console().print(comparison_table(comparison))
    if message := missing_message(comparison):
        errors.print(message, soft_wrap=True, markup=False)


@keys_app.command("new")
def new_keys(
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")],
) -> None:
    """Make this organisation's keys; only the public line may leave it."""
    from hyfdca.crypto.keys.identity import Identity
    from hyfdca.kits.key_files import PUBLIC_FILE, SECRET_FILE, write_identity

    identity = Identity.generate()
    write_identity(identity, out)
    typer.echo(f"Written to {out}: {SECRET_FILE} (never send it) and {PUBLIC_FILE}.")
    typer.echo("For this organisation's entry in the study file:")
    _show_public(identity)


@keys_app.command("show")
def show_keys(
    folder: Annotated[Path, typer.Argument(help="Folder that hyfdca keys new wrote.")],
) -> None:
    """Show the public line of this organisation's keys."""
    from hyfdca.kits.key_files import read_identity

    _show_public(read_identity(folder))


def _show_public(identity: Identity) -> None:
    typer.echo(f'public_key = "{identity.public.text}"')
    typer.echo(f"Fingerprint: {identity.public.fingerprint}")


study_app.command("new")(new_study)


@study_app.command("fingerprint")
def fingerprint(
    study: Annotated[Path, typer.Argument(help="The study file (TOML).")],
) -> None:
    """Show what all organisations must compare before they exchange keys."""
    from hyfdca.study.file import load_with_content
    from hyfdca.study.identity import public_identities, study_fingerprint

    file, content = load_with_content(study)
    keys = public_identities({c.name: c.public_key for c in file.clients})
    typer.echo(f"Study {file.study.name!r}, key epoch {file.study.key_epoch}:")
    typer.echo(study_fingerprint(content))
    for client in file.clients:
        known = keys.get(client.name)
        typer.echo(f"{client.name!r}: {known.fingerprint if known else 'no key yet'}")
    typer.echo(_COMPARE)


def _print_json(content: Any) -> None:
    import json

    typer.echo(json.dumps(content, indent=2))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hyfdca {__version__}")
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
    """Run the command line; invalid input prints one sentence and exits with code 2."""
    from hyfdca.runtime.machine import (
        allow_many_files,
        keep_memory,
        write_no_core_files,
    )

    keep_memory()
    write_no_core_files()
    allow_many_files()
    try:
        code = app(standalone_mode=False)
    except StudyError as error:
        may_pass = isinstance(error, PassingError)
        _fail(str(error), MAY_PASS if may_pass else BAD_INPUT)
    except _UsageError as error:
        _fail(_one_line(error), BAD_INPUT)
    except OSError as error:  # unless the command says something better
        _fail(system_sentence(error, "a file"), BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        _fail("Interrupted.", INTERRUPTED)
    sys.exit(code)


def _one_line(error: Any) -> str:
    """Return an error as one sentence; empty if help was shown instead."""
    what = " ".join(str(error.format_message()).split()).rstrip(".")
    command = _command_of(error.ctx)
    if type(error).__name__ == "NoSuchOption" and error.ctx is not None:
        options = [own.opts[0] for own in error.ctx.command.params if own.opts]
        known = ", ".join(name for name in options if name.startswith("--"))
        what = what.split(" (", 1)[0].split(". ", 1)[0]
        what = f"{what}; {command} has {known or 'none'}"
    ending = " See" if what.endswith("?") else "; see"
    return f"{what}{ending} {command} --help." if what else ""


def _command_of(context: Any) -> str:
    """Return a command as users write it, however the program was started."""
    names: list[str] = []
    while context is not None and context.parent is not None:
        names.insert(0, context.info_name)
        context = context.parent
    return " ".join(["hyfdca", *names])


def _fail(sentence: str, code: int) -> NoReturn:
    if sentence:
        typer.echo(sentence, err=True)
    sys.exit(code)
