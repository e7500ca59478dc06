"""A whole comparison: from a study file to its long table and its figure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from hyfdca import __version__
from hyfdca.comparison.contenders import Contender, contenders_of
from hyfdca.comparison.holdout import set_aside, validation_of
from hyfdca.comparison.runs import Arena, Curve
from hyfdca.comparison.table import as_csv, as_parquet, long_table, point_numbers
from hyfdca.data.filling import filled_by_others
from hyfdca.data.tables import Table
from hyfdca.errors import StudyError
from hyfdca.federation.sealing.secrets import fresh_secrecy
from hyfdca.study.file import Evaluation, StudyFile, load
from hyfdca.study.local.run import pooled_objective
from hyfdca.study.local.study import local_plan, prepare_tables, read_tables
from hyfdca.study.outcome import as_json, check_folder, write_files
from hyfdca.training.central import CentralOptimum, central_optimum
from hyfdca.training.reports import RoundReport

TABLE, SUMMARY, FIGURE = "comparison.parquet", "comparison.json", "comparison.png"
TABLE_AS_TEXT = "comparison.csv"
_USUAL_HOLDOUT = 0.2
_GAP = 1e-9  # of the pooled optimum, far below the tolerance of any study


class ComparisonWatcher(Protocol):
    """Receives the progress of a comparison."""

    def note(self, sentence: str) -> None:
        """Receive what the user should know before training starts."""
        ...

    def prepare(self, what: str) -> None:
        """Receive a step before the first training."""
        ...

    def begin(self, contender: Contender, number: int, n_all: int) -> None:
        """Receive the start of a training, numbered from 1."""
        ...

    def round(self, report: RoundReport, tolerance: float) -> None:
        """Receive a round."""
        ...

    def end(self, curve: Curve) -> None:
        """Receive the end of a training, or its refusal."""
        ...


@dataclass(frozen=True)
class ComparisonSettings:
    """Settings of a comparison beyond the study file.

    Parameters
    ----------
    holdout : float or None
        The share of rows set aside; None for the study's own, or a fifth without one.
    latency : float
        Seconds per round trip, for the simulated time.
    rounds, seed : int, optional
        Instead of the study's ``max_rounds`` and ``seed``.
    """

    holdout: float | None
    latency: float
    rounds: int | None = None
    seed: int | None = None

    def share_for(self, file: StudyFile) -> float | None:
        """Return the share of rows to set aside; None for those of the study."""
        if self.holdout is None and not file.evaluation.rule:
            return _USUAL_HOLDOUT
        return self.holdout

    def applied_to(self, file: StudyFile, contenders: Sequence[Contender]) -> StudyFile:
        """Return the study file with the settings that replace its own.

        All algorithms solve one problem. So the intercept is penalised if one of them
        needs it, unless the study says otherwise.
        """
        changes = {"max_rounds": self.rounds, "seed": self.seed}
        given = {name: value for name, value in changes.items() if value is not None}
        if _needs_penalty(file, contenders):
            given["penalise_intercept"] = True
        return msgspec.structs.replace(
            file, study=msgspec.structs.replace(file.study, **given)
        )


def _needs_penalty(file: StudyFile, contenders: Sequence[Contender]) -> bool:
    """Return whether an algorithm cannot leave the intercept without a penalty."""
    study = file.study
    is_open = study.fit_intercept and study.penalise_intercept is None
    is_free = [own.algorithm.frees_intercept for own in contenders]
    return is_open and study.intercept_scaling == 1.0 and not all(is_free)


@dataclass(frozen=True)
class StudyComparison:
    """The curves of all contenders on one study.

    Parameters
    ----------
    metric : str or None
        What ``validation`` is; None if no row was set aside.
    n_held_out : int
        How many rows were set aside.
    not_run : tuple of Contender
        Those that had not finished when the comparison was cut short.
    broke_off : BaseException or None
        The interruption or error that cut it short, for the caller to raise.
    """

    file: StudyFile
    settings: ComparisonSettings
    optimum: CentralOptimum
    metric: str | None
    n_rows: int
    n_held_out: int
    curves: list[Curve]
    not_run: tuple[Contender, ...] = ()
    broke_off: BaseException | None = None

    def summary(self) -> dict[str, Any]:
        """Return the contents of ``comparison.json``."""
        return {
            "study": self.file.study.name,
            "version": __version__,
            "settings": msgspec.to_builtins(self.file.study),
            "latency": self.settings.latency,
            "training_rows": self.n_rows,
            "held_out_rows": self.n_held_out,
            "validation_metric": self.metric,
            "optimum": {
                name: getattr(self.optimum, name)
                for name in ("primal", "dual", "method", "relative_gap")
            },
            "algorithms": [_outcome(curve) for curve in self.curves],
            "not_run": [contender.label for contender in self.not_run],
        }

    def write(self, folder: Path) -> None:
        """Write the table, the summary and the figure."""
        # Imported here, because it takes a second.
        from hyfdca.comparison.figure import draw_comparison  # noqa: PLC0415

        table = long_table(self.curves, self.file.study.seed)
        write_files(
            folder,
            {
                TABLE: as_parquet(table),
                TABLE_AS_TEXT: as_csv(table),
                SUMMARY: as_json(self.summary()),
                FIGURE: draw_comparison(self.file.study.name, self.curves, self.metric),
            },
        )


def _outcome(curve: Curve) -> dict[str, Any]:
    """Return what a contender reached in the end, or why it did not train."""
    contender = curve.contender
    outcome = {
        "label": contender.label,
        "algorithm": contender.algorithm.name,
        "settings": json.loads(contender.settings),
        "rounds": curve.n_rounds,
        "stop_reason": curve.stop_reason,
        "reason": curve.reason,
    }
    if curve.points:
        last = point_numbers(curve.points[-1])
        outcome |= {k: v for k, v in last.items() if k not in ("round", "participants")}
    return outcome


def compare_file(
    path: Path,
    folder: Path,
    algorithms: str | None,
    settings: ComparisonSettings,
    watch: ComparisonWatcher,
) -> StudyComparison:
    """Compare algorithms on the study of a file and write the outcome to a folder.

    Parameters
    ----------
    algorithms : str or None
        As ``contenders_of`` reads it; None stands for all.

    If it is cut short, the finished curves are written; see ``compare``.

    Raises
    ------
    StudyError
        Nothing has been written in that case.
    """
    check_folder(folder)
    own = load(path)
    contenders = contenders_of(algorithms, own)
    file = settings.applied_to(own, contenders)
    if file.study.penalise_intercept != own.study.penalise_intercept:
        watch.note(
            "The intercept is penalised, as some of these algorithms need it; hyfdca "
            "train does that with penalise_intercept = true."
        )
    tables = read_tables(file, path.parent)
    if (folder / SUMMARY).exists():
        watch.note(f"This replaces the comparison in {folder}.")
    comparison = compare(file, tables, contenders, settings, watch)
    comparison.write(folder)
    return comparison


def compare(
    file: StudyFile,
    tables: Sequence[Table],
    contenders: Sequence[Contender],
    settings: ComparisonSettings,
    watch: ComparisonWatcher,
) -> StudyComparison:
    """Train each contender on the same rows, with the same participants.

    Once one of them has finished, an interruption or an unexpected error does not lose
    it: the comparison has the finished ones, and ``broke_off`` says why it has no more.

    Parameters
    ----------
    file : StudyFile
        Its algorithm is not used; ``contenders_of`` has read it.
    tables : sequence of Table
        The organisations' tables, by rank.

    Raises
    ------
    StudyError
        If no contender can train the study.
    """
    if file.study.blank_cells == "share":
        tables = filled_by_others(tables)  # also of rows that are set aside
    split = set_aside(file, tables, settings.share_for(file))
    watch.prepare("aligning and scaling the tables")
    run = prepare_tables(_common_part(file), split.training)
    watch.prepare("solving the pooled problem")
    optimum = central_optimum(pooled_objective(run), _GAP)
    validation = validation_of(run, split.held_out)
    plan = local_plan(_common_part(file))
    secrecy = fresh_secrecy(plan.encryption, len(tables))
    arena = Arena(
        run, plan.participation, secrecy, optimum, validation, settings.latency
    )
    curves, broke_off = _curves(arena, contenders, file.study.tol, watch)
    if broke_off is None:
        _check_some(curves)
    return StudyComparison(
        file,
        settings,
        optimum,
        None if validation is None else validation.metric,
        run.consortium.partition.n_samples,
        split.n_held_out,
        curves,
        tuple(contenders[len(curves) :]),
        broke_off,
    )


def _curves(
    arena: Arena,
    contenders: Sequence[Contender],
    tolerance: float,
    watch: ComparisonWatcher,
) -> tuple[list[Curve], BaseException | None]:
    """Return the curves of those that finished, and what stopped the others."""
    curves: list[Curve] = []
    try:
        for number, contender in enumerate(contenders, start=1):
            watch.begin(contender, number, len(contenders))
            curve = arena.train(contender, lambda r: watch.round(r, tolerance))
            curves.append(curve)
            watch.end(curve)
    except (KeyboardInterrupt, Exception) as error:
        if not any(curve.points for curve in curves):
            raise
        return curves, error
    return curves, None


def _common_part(file: StudyFile) -> StudyFile:
    """Return the study of all contenders, whose rows have been set aside before."""
    return msgspec.structs.replace(file, algorithm={}, evaluation=Evaluation())


def _check_some(curves: Sequence[Curve]) -> None:
    if any(curve.points for curve in curves):
        return
    reasons = "; ".join(
        f"{curve.contender.label}: {str(curve.reason).rstrip('.')}" for curve in curves
    )
    raise StudyError(f"No algorithm can train this study ({reasons}).")
