"""The command ``hyfdca tune``: its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyfdca.cli.simulation_options import (
    DataFolder,
    OutFolder,
    Processes,
    Seed,
    some_of,
)
from hyfdca.errors import StudyError

if TYPE_CHECKING:
    from hyfdca.reproduction.paper import Clients, Method, Setting

_DEFAULT_OUT = Path("tune-out")


def tune(  # noqa: PLR0913, PLR0917  # one argument per option
    data_set: Annotated[str, typer.Argument(help="mnist, news20 or covtype.")],
    clients: Annotated[
        str,
        typer.Option(
            metavar="K[,Q]",
            help="Clients of MNIST, such as 500; sample and feature groups of "
            "the others, such as 3,3.",
        ),
    ],
    fraction: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of clients in a round.")
    ] = 0.5,
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Some of hyfdca,fedavg,hyfem.")
    ] = "hyfdca,fedavg,hyfem",
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials per method; by default 50.")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.0, help="Time per method, instead of a number of trials."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="Rounds of a trial; by default the paper's."),
    ] = None,
    out: OutFolder = _DEFAULT_OUT,
    folder: DataFolder = None,
    processes: Processes = None,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Search the hyperparameters of HyFDCA, FedAvg and HyFEM as the paper did.

    Random draws over the paper's ranges, each run in simulation; Gray Relational
    Analysis chooses among those that do not diverge, by seven criteria. Writes
    tuned.json and trials.csv. A search that was stopped continues in its folder.
    """
    import json

    from rich.console import Console

    from hyfdca.cli.displays.tune import TuningDisplay, show_tuned
    from hyfdca.reproduction.tune import Budget, tune_setting
    from hyfdca.runtime.machine import n_cores
    from hyfdca.study.outcome import check_folder

    setting, wanted = _setting(data_set, clients, fraction), _methods(methods)
    if trials is not None and minutes is not None:
        raise StudyError("--trials and --minutes each end the search; leave out one.")
    if minutes == 0.0:
        raise StudyError("--minutes must be above 0.")
    check_folder(out)
    n_trials = 50 if trials is None and minutes is None else trials
    budget = Budget(
        n_trials,
        None if minutes is None else 60.0 * minutes,
        rounds,
        n_processes=processes or n_cores(),
        data=folder,
        seed=seed,
    )
    console = Console(stderr=True)
    with TuningDisplay(console, budget.n_trials) as display:
        outcome = tune_setting(setting, wanted, budget, out, display)
    outcome.write(out)
    if as_json:
        typer.echo(json.dumps(outcome.summary(), indent=2))
        return
    shown = Console()
    show_tuned(shown, outcome)
    shown.print(f"Written to {out}", soft_wrap=True, markup=False)


def _setting(data_set: str, clients: str, fraction: float) -> Setting:
    """Return the setting that the arguments name."""
    from hyfdca.reproduction.paper import DATA_SETS, Setting

    known = [name for name in DATA_SETS if name == data_set]
    if not known:
        raise StudyError(
            f"There is no data set {data_set!r}; choose one of {', '.join(DATA_SETS)}."
        )
    if fraction == 0.0:
        raise StudyError("--fraction must be above 0.")
    setting = Setting(known[0], _clients(clients, data_set), fraction)
    _check_clients(setting)
    return setting


def _methods(text: str) -> list[Method]:
    """Return the methods that a text names, in the order of the paper."""
    from hyfdca.reproduction.paper import METHODS

    return some_of(text, METHODS, "--methods")


def _clients(text: str, data_set: str) -> Clients:
    """Return the numbers of groups, as a data set takes them."""
    parts = text.split(",")
    counts = [int(part) for part in parts if part.strip().isdecimal() and int(part)]
    is_mnist = data_set == "mnist"
    if len(counts) != len(parts) or len(counts) != (1 if is_mnist else 2):
        wanted = "one number" if is_mnist else "two numbers such as 3,3"
        raise StudyError(f"--clients of {data_set} takes {wanted}, got {text!r}.")
    return counts[0] if is_mnist else (counts[0], counts[1])


def _check_clients(setting: Setting) -> None:
    """Refuse more groups than there are rows or columns to share out."""
    from hyfdca.reproduction.paper import DATA_SETS

    data, clients = DATA_SETS[setting.data_set], setting.clients
    groups = (clients, 1) if isinstance(clients, int) else clients
    limits = (data.n_samples // 2, data.n_features)
    for n_groups, limit, what in zip(
        groups, limits, ("sample", "feature"), strict=True
    ):
        if n_groups > limit:
            raise StudyError(
                f"--clients: {setting.data_set} can be split into at most {limit:,} "
                f"{what} groups, got {n_groups:,}."
            )
