"""Commands for kits: enrol, provision, install, renew, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyfdca.cli.panels import BETWEEN_MACHINES
from hyfdca.errors import StudyError

NewFolder = Annotated[Path, typer.Option("--out", help="Folder to create.")]
StudyPath = Annotated[Path, typer.Argument(help="The study file (TOML).")]

kit_app = typer.Typer(help="What a party needs to take part.", no_args_is_help=True)


def add_commands(app: typer.Typer) -> None:
    """Register these commands."""
    app.command("enrol", rich_help_panel=BETWEEN_MACHINES)(enrol_here)
    app.command("provision", rich_help_panel=BETWEEN_MACHINES)(provision_study)
    app.add_typer(kit_app, name="kit", rich_help_panel=BETWEEN_MACHINES)
    app.command("check", rich_help_panel=BETWEEN_MACHINES)(check_data)


def enrol_here(
    name: Annotated[str, typer.Option(help="The organisation's name in the study.")],
    out: NewFolder,
) -> None:
    """Make this organisation's keys, and the one file to send to the coordinator."""
    from rich.console import Console

    from hyfdca.cli.displays.kits import say
    from hyfdca.kits.enrolment import REQUEST_ENDING, enrol

    public = enrol(name, out).public
    console, request = Console(), out / f"{name}{REQUEST_ENDING}"
    say(console, f"Send {request} to the coordinator, and nothing else from {out}.")
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
        typer.Option(help="Folder of the root certificate; created or reused."),
    ] = None,
    all_local: Annotated[
        bool, typer.Option(help="Make all parties' keys here; only for trials.")
    ] = False,
) -> None:
    """Make the server's kit and a package for each organisation."""
    from rich.console import Console

    from hyfdca.cli.displays.kits import say, show_fingerprints
    from hyfdca.kits.all_local import provision_all
    from hyfdca.kits.package import PACKAGE_ENDING
    from hyfdca.kits.provisioning import SERVER, provision

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
            "All private keys were made here, so anyone who can read this folder can "
            "impersonate every party: use it only for trials on one machine.",
        )
    else:
        made = provision(study, requests, out, ca)
        say(console, f"The server's kit is {out / SERVER}.")
        for name in made.names:
            say(console, f"Send {out / (name + PACKAGE_ENDING)} to {name}.")
    say(console, f"Protect {made.authority}: its key can admit anyone.")
    show_fingerprints(console, made)


@kit_app.command("install")
def install_package(
    package: Annotated[Path, typer.Argument(help="File from the coordinator.")],
    keys: Annotated[Path, typer.Option(help="Folder that hyfdca enrol wrote.")],
    out: NewFolder,
    fingerprint: Annotated[
        list[str] | None,
        typer.Option(help="Fingerprint of the study, the root or both, to compare."),
    ] = None,
) -> None:
    """Combine a package with this organisation's own keys."""
    from rich.console import Console

    from hyfdca.cli.displays.kits import say, show_fingerprints
    from hyfdca.kits.installing import install

    made = install(package, keys, out, fingerprint or ())
    console = Console()
    say(console, f"The kit of {made.name} is {out}.")
    show_fingerprints(console, made)


@kit_app.command("renew")
def renew_certificate(
    path: Annotated[Path, typer.Argument(help="A kit, or an old package.")],
    ca: Annotated[
        Path | None,
        typer.Option(help="Folder of the root certificate (coordinator)."),
    ] = None,
    package: Annotated[
        Path | None,
        typer.Option(help="New package for an organisation's kit."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="New package to write.")
    ] = None,
) -> None:
    """Renew certificates; keys stay, and a study that has begun resumes.

    The coordinator renews the server's kit with --ca, and an old package with --ca and
    --out. An organisation renews its kit with the new package, given as --package.
    """
    from rich.console import Console

    from hyfdca.cli.displays.kits import say
    from hyfdca.kits import renewal

    console = Console()
    if ca and out and not package:
        made = renewal.renew_package(path, ca, out)
        say(console, f"Send {out} to {made.name}.")
        certificate = made.certificate
    elif ca and not out and not package:
        certificate = renewal.renew_server(path, ca)
    elif package and not ca and not out:
        certificate = renewal.renew_client(path, package)
    else:
        raise StudyError(
            "Give --ca for the server's kit, --ca and --out for an old package, or "
            "--package for an organisation's kit."
        )
    until = certificate.not_valid_after_utc.date()
    say(console, f"The new certificate is valid until {until}.")


@kit_app.command("adopt")
def adopt_startup_kit(
    flare: Annotated[Path, typer.Argument(help="An NVFlare startup kit.")],
    study: Annotated[Path, typer.Option(help="The study file (TOML).")],
    out: NewFolder,
    keys: Annotated[
        Path | None, typer.Option(help="A client's keys, from hyfdca keys new.")
    ] = None,
    admin: Annotated[
        Path | None, typer.Option(help="The admin's startup kit, for a server.")
    ] = None,
) -> None:
    """Make a kit with the keys and certificates of an existing startup kit."""
    from rich.console import Console

    from hyfdca.cli.displays.kits import say, show_fingerprints
    from hyfdca.kits.existing import install_client, install_server

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
    study: Annotated[
        Path | None,
        typer.Argument(help="The study file (TOML), before there are kits."),
    ] = None,
    kit: Annotated[
        Path | None, typer.Option(help="This organisation's kit, with the study file.")
    ] = None,
    client: Annotated[
        str | None, typer.Option(help="An organisation in the study file.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Its table, unless the study file names it.")
    ] = None,
) -> None:
    """Compare tables, and a kit if there is one, with the study before going online."""
    from rich.console import Console

    from hyfdca.cli.displays.kits import show_checked, show_not_compared
    from hyfdca.kits.checking import check, check_without_kits

    console = Console()
    if study is not None and kit is None:
        found = check_without_kits(study, client, data)
        for checked in found:
            show_checked(console, checked)
        show_not_compared(console, len(found))
    elif kit is not None and data is not None and study is None and client is None:
        show_checked(console, check(kit, data))
    else:
        raise StudyError(
            "Give either --kit and --data, or a study file, with or without --client "
            "and --data."
        )
