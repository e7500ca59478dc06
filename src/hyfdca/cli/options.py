"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Tune = Annotated[
    list[str] | None,
    typer.Option(
        "--tune",
        metavar="KEY=VALUE",
        help="Begin a further run of the study with another l2, tol or max_rounds, "
        "such as l2=1e-3, within the ranges of \\[tuning] in the study file. May be "
        "repeated.",
    ),
]
