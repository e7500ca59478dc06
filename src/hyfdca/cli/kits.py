"""The command line of kits: enrol, provision, install, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hyfdca.cli.panels import BETWEEN_MACHINES
from hyfdca.errors import StudyError
from hyfdca.kits.all_local import provision_all
from hyfdca.kits.checking import Checked, check
from hyfdca.kits.enrolment import REQUEST_ENDING, enrol
from hyfdca.kits.existing import install_client, install_server
from hyfdca.kits.installing import Installed, install
from hyfdca.kits.package import PACKAGE_ENDING
from hyfdca.kits.provisioning import SERVER, Provisioned, provision

NewFolder = Annotated[Path, typer.Option("--out", help="Folder to make.")]
StudyPath = Annotated[Path, typer.Argument(help="The study file (TOML).")]

kit_app = typer.Typer(help="What a party needs to take part.", no_args_is_help=True)


def add_commands(app: typer.Typer) -> None:
    """Add the commands of kits to the command line."""
    app.command("enrol", rich_help_panel=BETWEEN_MACHINES)(enrol_here)
    app.command("provision", rich_help_panel=BETWEEN_MACHINES)(provision_study)
    app.add_typer(kit_app, name="kit", rich_help_panel=BETWEEN_MACHINES)
    app.command("check", rich_help_panel=BETWEEN_MACHINES)(check_data)


def enrol_here(
    name: Annotated[str, typer.Option(help="The organisation's name in the study.")],
    out: NewFolder,
) -> None:
    """Make this organisation's keys, and the one file that the coordinator gets."""
    public = enrol(name, out).public
    console, request = Console(), out / f"{name}{REQUEST_ENDING}"
    say(console, f"Send {request} to the coordinator, and nothing else of {out}.")
    say(console, "For this organisation's entry in the study file:")
    say(console, f'public_key = "{public.text}"')
    say(console, f"Fingerprint: {public.fingerprint}")


def provision_study(
    study: StudyPath,
    out: NewFolder,
    requests: Annotated[
        Path | None, typer.Option(help="Folder with all organisations' requests.")
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(help="Folder of the root certificate: made, or used again."),
    ] = None,
    all_local: Annotated[
        bool, typer.Option(help="Make everybody's keys here; for trying out.")
    ] = False,
) -> None:
    """Make the server's kit and a package for each organisation."""
    console = Console()
    if all_local == (requests is not None) or (all_local and ca is not None):
        raise StudyError(
            "Give either --requests, with or without --ca, or --all-local."
        )
    if requests is None:
        made = provision_all(study, out)
        say(console, f"Kits of the server and of {', '.join(made.names)} are in {out}.")
        say(
            console,
            "All private keys were made here, so whoever can read this folder can be "
            "anybody: for trying out on one machine only.",
        )
    else:
        made = provision(study, requests, out, ca)
        say(console, f"The server's kit is {out / SERVER}.")
        for name in made.names:
            say(console, f"Send {out / (name + PACKAGE_ENDING)} to {name}.")
    say(console, f"Protect {made.authority}: its key can let anybody in.")
    show_fingerprints(console, made)


@kit_app.command("install")
def install_package(
    package: Annotated[Path, typer.Argument(help="File from the coordinator.")],
    keys: Annotated[Path, typer.Option(help="Folder that hyfdca enrol wrote.")],
    out: NewFolder,
    fingerprint: Annotated[
        list[str] | None,
        typer.Option(help="The study's or the root's, to be compared; or both."),
    ] = None,
) -> None:
    """Join a package with this organisation's own keys."""
    made = install(package, keys, out, fingerprint or ())
    console = Console()
    say(console, f"The kit of {made.name} is {out}.")
    show_fingerprints(console, made)


@kit_app.command("adopt")
def adopt_startup_kit(
    flare: Annotated[Path, typer.Argument(help="A startup kit of NVFlare.")],
    study: Annotated[Path, typer.Option(help="The study file (TOML).")],
    out: NewFolder,
    keys: Annotated[
        Path | None, typer.Option(help="A client's keys, of hyfdca keys new.")
    ] = None,
    admin: Annotated[
        Path | None, typer.Option(help="The admin's startup kit, for a server.")
    ] = None,
) -> None:
    """Make a kit from a startup kit that there is already; it is copied."""
    if keys is not None and admin is None:
        made = install_client(flare, study, keys, out)
    elif admin is not None and keys is None:
        made = install_server(flare, admin, study, out)
    else:
        raise StudyError(
            "Give --keys for a client's startup kit, --admin for a server's."
        )
    console = Console()
    say(console, f"The kit of {made.name} is {out}.")
    show_fingerprints(console, made)


def check_data(
    kit: Annotated[Path, typer.Option(help="This organisation's kit.")],
    data: Annotated[Path, typer.Option(help="Its table.")],
) -> None:
    """Compare a table and a kit with the study, before going online."""
    show_checked(Console(), check(kit, data))


_MOST_NAMED = 3
_COMPARE = (
    "Compare both numbers with the coordinator and the other organisations, by "
    "telephone or in person."
)


def show_checked(console: Console, checked: Checked) -> None:
    """Show a table and a kit that fit the study."""
    table = Table(title="Ready to take part", title_justify="left", show_header=False)
    for what, value in _rows(checked):
        # As text: names from files may look like markup.
        table.add_row(what, Text(value, overflow="fold"))
    console.print(table)
    for warning in checked.warnings:
        say(console, f"Warning: {warning}")


def _rows(checked: Checked) -> list[tuple[str, str]]:
    own, certificate = checked.table, checked.certificate
    first, last = (
        day.date().isoformat()
        for day in (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    )
    return [
        ("organisation", f"{checked.name!r}, on the roster"),
        ("study", repr(checked.study)),
        ("rows", f"{own.n_rows}, each with its own ID"),
        ("features", str(own.n_features)),
        ("labels", own.labels),
        ("missing cells", str(own.n_missing)),
        ("constant columns", _named(own.constant)),
        ("certificate", f"valid from {first} to {last}"),
        ("study's fingerprint", checked.study_fingerprint),
        ("root's fingerprint", checked.root_fingerprint),
        ("own key's fingerprint", checked.key_fingerprint),
    ]


def _named(features: tuple[str, ...]) -> str:
    names = ", ".join(map(repr, features[:_MOST_NAMED]))
    more = len(features) - _MOST_NAMED
    return (names or "none") + (f" and {more} more" if more > 0 else "")


def show_fingerprints(console: Console, shown: Provisioned | Installed) -> None:
    """Show what people compare out of band."""
    say(console, f"Study:            {shown.study_fingerprint}")
    say(console, f"Root certificate: {shown.root_fingerprint}")
    say(console, _COMPARE)


def say(console: Console, sentence: str) -> None:
    """Print a line as it is, however narrow the terminal."""
    console.print(sentence, soft_wrap=True, markup=False, highlight=False)
