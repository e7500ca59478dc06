"""The command ``hyfdca reproduce``: its arguments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
    from hyfdca.cli.displays.reproduce import ReproductionDisplay
    from hyfdca.reproduction.clock import EncryptionCosts
    from hyfdca.reproduction.paper import DataSetName
    from hyfdca.reproduction.plan import Effort, Source
    from hyfdca.reproduction.problems import Choices

_DEFAULT_OUT = Path("reproduce-out")
_LEAST_SHARE = 0.001
_COST_SECONDS = 0.3  # spent on each figure of a scheme


def reproduce(  # noqa: PLR0913, PLR0917  # one argument per option
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="0.3 % of the rounds and of the time, in a quarter of an hour.",
        ),
    ] = False,
    scale: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="Share of the paper's rounds and of its 3 hours, such as 0.1, or "
            "mnist=1,news20=0.05,covtype=0.1.",
        ),
    ] = "",
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Trials of our own tuning, per setting and method."),
    ] = None,
    data_sets: Annotated[
        str,
        typer.Option("--sets", metavar="NAMES", help="Some of mnist,news20,covtype."),
    ] = "mnist,news20,covtype",
    sources: Annotated[
        str,
        typer.Option(
            "--hyperparameters",
            metavar="NAMES",
            help="Some of paper,tuned: the paper's, and those of our own tuning.",
        ),
    ] = "paper,tuned",
    l2: Annotated[
        str,
        typer.Option(
            "--l2",
            metavar="validation|paper",
            help="λ by the central model's validation accuracy, or the paper's.",
        ),
    ] = "validation",
    digits: Annotated[
        str, typer.Option(metavar="DIGITS", help="The digits of MNIST with label 1.")
    ] = "",
    out: OutFolder = _DEFAULT_OUT,
    folder: DataFolder = None,
    processes: Processes = None,
    seed: Seed = 0,
) -> None:
    """Run the paper's computational study again, and report ours beside its numbers.

    27 settings, three methods, equal rounds and equal simulated time, with the paper's
    hyperparameters and with our own tuning, the bundle method beside them. Writes
    report.html, report.md, figures/ and rows.parquet. A study that was stopped
    continues in its folder. The whole study takes hours; --quick takes minutes.
    """
    from rich.console import Console

    from hyfdca.cli.displays.reproduce import ReproductionDisplay, show_study
    from hyfdca.reproduction.report.report import report_files
    from hyfdca.reproduction.reproduce import Options, check_data_sets
    from hyfdca.reproduction.reproduce import reproduce as run_study
    from hyfdca.reproduction.rows import as_parquet, long_table
    from hyfdca.runtime.machine import n_cores
    from hyfdca.study.outcome import check_folder, write_files

    efforts = _efforts(_data_sets(data_sets), quick, scale, trials)
    if l2 not in {"validation", "paper"}:
        raise StudyError(f"--l2 takes validation or paper, got {l2!r}.")
    whose, choices = _sources(sources), _choices(digits, seed)
    check_folder(out)
    check_data_sets(efforts, folder)
    console = Console(stderr=True)
    with ReproductionDisplay(console) as display:
        options = Options(
            efforts,
            whose,
            "paper" if l2 == "paper" else "validation",
            choices,
            _measured_costs(out, display),
            folder,
            processes or n_cores(),
            seed,
            " ".join(["hyfdca", *sys.argv[1:]]),
        )
        study = run_study(options, out, display)
        display.begin("report", 1)
        files = report_files(study)
        files["rows.parquet"] = as_parquet(long_table(study))
        (out / "figures").mkdir(parents=True, exist_ok=True)
        write_files(out, files)
    shown = Console()
    show_study(shown, study)
    shown.print(f"Written to {out}: open report.html", soft_wrap=True, markup=False)


def _efforts(
    names: Sequence[DataSetName], quick: bool, scale: str, trials: int | None
) -> dict[DataSetName, Effort]:
    """Return how much to do of each data set: all, little, or what was asked for."""
    from dataclasses import replace

    from hyfdca.reproduction.plan import FULL, QUICK, scaled

    if quick and scale:
        raise StudyError("--quick has a scale of its own; leave out one of the two.")
    if scale:
        efforts = {name: scaled(own) for name, own in _scales(names, scale).items()}
    else:
        efforts = dict.fromkeys(names, QUICK if quick else FULL)
    if trials is not None:
        efforts = {name: replace(own, n_trials=trials) for name, own in efforts.items()}
    return efforts


def _scales(names: Sequence[DataSetName], text: str) -> dict[DataSetName, float]:
    """Return the share of each data set; a text has one for all, or one for each."""
    pairs = [part.partition("=") for part in text.split(",")]
    if len(pairs) == 1 and not pairs[0][1]:
        pairs = [(name, "=", text) for name in names]
    if sorted(name.strip() for name, _, _ in pairs) != sorted(names):
        raise StudyError(
            "--scale takes one share for all, or one for each data set that is run, "
            f"such as {','.join(f'{name}=0.1' for name in names)}."
        )
    shares = {name.strip(): _share(share) for name, _, share in pairs}
    return {name: shares[name] for name in names}


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not _LEAST_SHARE <= share <= 1.0:
        raise StudyError(
            f"A share of --scale is between {_LEAST_SHARE} and 1, got {text.strip()!r}."
        )
    return share


def _data_sets(text: str) -> tuple[DataSetName, ...]:
    """Return the data sets that a text names, in the order of the paper."""
    from hyfdca.reproduction.paper import DATA_SETS

    return tuple(some_of(text, DATA_SETS, "--sets"))


def _sources(text: str) -> tuple[Source, ...]:
    """Return whose hyperparameters a text names."""
    from hyfdca.reproduction.plan import SOURCES

    return tuple(some_of(text, SOURCES, "--hyperparameters"))


def _choices(digits: str, seed: int) -> Choices:
    """Return the answers to what the paper leaves open."""
    from hyfdca.reproduction.problems import Choices

    if not digits:
        return Choices(seed=seed)
    if not digits.isdecimal() or not 0 < len(set(digits)) == len(digits) < 10:
        raise StudyError("--digits takes some of 0123456789, such as 3 or 02468.")
    return Choices(tuple(sorted(map(int, digits))), seed=seed)


def _measured_costs(
    folder: Path, display: ReproductionDisplay
) -> tuple[EncryptionCosts, ...]:
    """Return what encryption costs here; measured once per folder."""
    from hyfdca.bench.crypto import measure
    from hyfdca.bench.subjects import SCHEMES
    from hyfdca.reproduction.clock import EncryptionCosts, MeasuredCosts
    from hyfdca.reproduction.kept import keep, load_kept

    path = folder / "kept" / "encryption-costs.json"
    found = load_kept(path, MeasuredCosts)
    if found is None:
        schemes = {"paillier-3072": "Paillier, measured", "bfv": "BFV, measured"}
        display.begin("encryption costs", len(schemes))
        measured = []
        for scheme, name in schemes.items():
            subject = SCHEMES[scheme]()
            cost = measure(subject, _COST_SECONDS)
            measured.append(EncryptionCosts.measured(name, cost, subject.n_slots))
            display.step(scheme)
        found = MeasuredCosts(tuple(measured))
        keep(path, found)
    return found.costs
