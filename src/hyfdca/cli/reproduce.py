"""The command ``hyfdca reproduce``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hyfdca.cli.reproduction_options import (
    L2,
    Answers,
    DataSets,
    Digits,
    Quick,
    Scale,
    Sources,
    Trials,
    choices_of,
    data_sets_of,
    efforts_of,
    sources_of,
)
from hyfdca.cli.simulation_options import DataFolder, OutFolder, Processes, Seed
from hyfdca.errors import StudyError

if TYPE_CHECKING:
    from hyfdca.cli.displays.reproduce import ReproductionDisplay
    from hyfdca.reproduction.clock import EncryptionCosts
    from hyfdca.reproduction.views import Study

_DEFAULT_OUT = Path("reproduce-out")
_COST_SECONDS = 0.3  # spent on each figure of a scheme


def reproduce(  # noqa: PLR0913, PLR0917  # one argument per option
    quick: Quick = False,
    scale: Scale = "",
    trials: Trials = None,
    data_sets: DataSets = "mnist,news20,covtype",
    sources: Sources = "paper,tuned",
    l2: L2 = "validation",
    digits: Digits = "",
    choose: Answers = "",
    out: OutFolder = _DEFAULT_OUT,
    folder: DataFolder = None,
    processes: Processes = None,
    seed: Seed = 0,
) -> None:
    """Run the paper's computational study again; compare our numbers with its own.

    27 settings, three methods, equal rounds and equal simulated time, with the paper's
    hyperparameters and with our own tuning, the bundle method beside them. Writes
    report.html, report.md, figures/ and rows.parquet. A study that was stopped
    continues in its folder. The whole study takes hours; --quick takes minutes.
    """
    from rich.console import Console

    from hyfdca.cli.displays.reproduce import ReproductionDisplay, show_study
    from hyfdca.reproduction.reproduce import Options, check_data_sets
    from hyfdca.reproduction.reproduce import reproduce as run_study
    from hyfdca.runtime.machine import n_cores
    from hyfdca.study.outcome import check_folder

    efforts = efforts_of(data_sets_of(data_sets), quick, scale, trials)
    if l2 not in {"validation", "paper"}:
        raise StudyError(f"--l2 takes validation or paper, got {l2!r}.")
    whose, choices = sources_of(sources), choices_of(digits, choose, seed)
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
        _write_report(study, out)
    shown = Console()
    show_study(shown, study)
    shown.print(f"Written to {out}: open report.html", soft_wrap=True, markup=False)


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


def _write_report(study: Study, out: Path) -> None:
    """Write the report, its figures and the table of all runs."""
    from hyfdca.reproduction.report.report import report_files
    from hyfdca.reproduction.rows import as_parquet, long_table
    from hyfdca.study.outcome import write_files

    files = report_files(study)
    files["rows.parquet"] = as_parquet(long_table(study))
    (out / "figures").mkdir(parents=True, exist_ok=True)
    write_files(out, files)
