"""The command that drafts a study file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyfdca.errors import StudyError


def new_study(
    tables: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="The organisations' tables: CSV, Parquet, LIBSVM or NPZ.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The study file to write.")] = Path(
        "study.toml"
    ),
    id_columns: Annotated[
        list[str] | None,
        typer.Option(
            "--id-column",
            "--id",
            metavar="[FILE=]COLUMN",
            help="The ID column of all tables, or of one, as in --id-column "
            "bank.csv=customer; may be repeated. Guessed if not given.",
        ),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            "--label-column",
            "--label",
            help="The label column; guessed if not given.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing file.")
    ] = False,
) -> None:
    """Look at tables and draft a study file, with the reason for every guess."""
    from hyfdca.files import write_new, write_whole
    from hyfdca.study.drafting.draft import draft_study

    if out.exists() and not force:
        raise _exists(out)
    content = draft_study(tables, out, id_columns or (), label_column).encode()
    try:
        if force:
            write_whole(out, content)
        else:
            write_new(out, content)
    except FileExistsError:
        raise _exists(out) from None
    except OSError as error:
        raise StudyError(
            f"Cannot write {out} ({error.strerror}); choose another file with --out."
        ) from None
    typer.echo(f"Written to {out}: look through its guesses, then hyfdca train {out}")


def _exists(out: Path) -> StudyError:
    return StudyError(
        f"The file {out} exists already; choose another with --out, or replace it with "
        "--force."
    )
