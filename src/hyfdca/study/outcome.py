"""The outcome of a study: model, result, history and figure, as atomic files."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from hyfdca.arrays import FloatArray
from hyfdca.errors import StudyError
from hyfdca.files import forget, sync_folder, write_draft
from hyfdca.maths.objective import Measurement
from hyfdca.model.file import (
    FORMAT_VERSION,
    CertificateEntry,
    ModelFile,
    ScalingEntry,
    TrainingEntry,
    as_bytes,
)
from hyfdca.runtime.driver import Traffic
from hyfdca.stages.validation.sums import LOSS, SCORE
from hyfdca.study.about import Asked, about
from hyfdca.study.ending import Ending
from hyfdca.study.kind_notes import kind_notes
from hyfdca.study.local.run import Consortium, Run
from hyfdca.training.interrupts import interruptible
from hyfdca.training.loss_units import size_warning, unit_note
from hyfdca.training.reports import RoundReport

Watcher = Callable[[Run, RoundReport], None]

RESULT, HISTORY = "result.json", "history.json"

_TRAFFIC = ("round_trips", "search_round_trips", "bytes_up", "bytes_down")
# Per round, in the history; the cost of measuring is in the result only.
_RECORDED = ("round", "primal", "dual", "gap", "relative_gap", "seconds", *_TRAFFIC)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


@dataclass(frozen=True)
class Outcome:
    """A trained study.

    Parameters
    ----------
    weights : array (n_features, n_outputs)
        The intercept, if there is one, comes last.
    seconds : float
        From the first exchange of training to the last, including measuring.
    pooled_primal : float or None
        The optimum of the pooled data; only a demonstration knows it.
    asked : Asked or None
        The study file and its keys, if there is a file.
    evaluation : dict or None
        How good the model is on rows that were set aside; None if there are none, or
        the training diverged.
    """

    run: Run
    weights: FloatArray
    certificate: Measurement
    seconds: float
    pooled_primal: float | None = None
    asked: Asked | None = None
    finished: datetime.datetime = field(default_factory=_now)
    evaluation: dict[str, Any] | None = None

    @property
    def relative_loss(self) -> float | None:
        """The relative excess of the loss over the pooled optimum."""
        if self.pooled_primal is None:
            return None
        return (self.certificate.primal - self.pooled_primal) / self.pooled_primal

    @property
    def n_rounds(self) -> int:
        """The number of rounds run."""
        return len(self.run.training.history)

    @property
    def ending(self) -> Ending:
        """Whether it converged, and if not, why not."""
        training = self.run.training
        measured = training.measurement or self.certificate
        assert training.stop_reason is not None  # noqa: S101  # it has ended
        return Ending(
            training.stop_reason,
            self.n_rounds,
            measured.relative_gap,
            self.run.study.tol,
            training.algorithm.algorithm.name,
        )

    @property
    def is_interrupted(self) -> bool:
        """Whether the user interrupted the training."""
        return self.ending.stop_reason == "interrupted"

    @property
    def l2(self) -> float:
        """The strength of the penalty of the model."""
        path = self.run.path
        if path is None:
            return self.run.training.settings.l2_strength
        return next(row.l2 for row in path if row.is_chosen)

    def _path_entries(self) -> dict[str, Any]:
        """Return how l2 was chosen, for ``result.json``; null if the study has one."""
        path = self.run.path
        if path is None:
            return {"path": None, "path_score": None}
        return {"path": [asdict(row) for row in path], "path_score": self._path_score}

    @property
    def _path_score(self) -> str:
        """Return what the mean over folds is; it is weighted and added up as P is."""
        study, n_classes = self.run.study, len(self.run.consortium.classes)
        is_plain = n_classes <= 2 and study.class_weight is None
        is_log_loss = study.loss == "logistic" and is_plain
        return "log_loss" if is_log_loss else "mean loss"

    def traffic(self) -> Traffic:
        """Return the total traffic, from alignment to the model's release."""
        training = self.run.training
        total = replace(self.run.preparing_traffic)
        tested = self.run.evaluator.cost.traffic if self.run.evaluator else Traffic()
        for name in _TRAFFIC:
            rounds = sum(r[name] + r[f"measuring_{name}"] for r in training.history)
            set_up = training.progress.set_up_traffic
            others = (set_up, training.release_traffic, tested)
            rounds += sum(getattr(other, name) for other in others)
            setattr(total, name, getattr(total, name) + rounds)
        return total

    def result(self) -> dict[str, Any]:
        """Return the contents of ``result.json``; with a ``warning`` if not converged.

        ``filled_cells`` were blank at an organisation that got another one's value.
        ``rows_without_label`` and ``rows_of_weight_zero`` were left out of the study.
        ``loss_notes`` has the loss's parameter in units of the target, and warnings.
        ``path`` has a record per l2, the largest first, where it was chosen.
        ``pooled_primal`` and ``relative_loss`` are null except in a demonstration.
        ``accuracy``, of classes, and ``r_squared`` and ``mean_absolute_error``, of
        numbers, are over the training rows, and null between machines. ``evaluation``
        is over rows that were set aside, and null if there are none; see
        ``docs/evaluation.md``. ``about`` is described in ``study/about.py``.
        """
        study, traffic, ending = self.run.study, self.traffic(), self.ending
        coverage = self.run.consortium.coverage
        alignment = self.run.consortium.alignment
        result = {
            "algorithm": self.run.training.algorithm.algorithm.name,
            "algorithm_reason": self.run.training.algorithm.reason,
            "encryption": study.encryption,
            "sealed_with": self.run.training.sealed_with(),
            "cells": coverage.n_cells,
            "uncovered_cells": coverage.n_uncovered,
            "uncovered_share": coverage.uncovered_share,
            "filled_cells": alignment.n_filled,
            "rows_without_label": alignment.n_without_label,
            "rows_of_weight_zero": alignment.n_without_weight,
            "rounds": self.n_rounds,
            "converged": ending.is_converged,
            "stop_reason": ending.stop_reason,
            "primal": self.certificate.primal,
            "dual": self.certificate.dual,
            "relative_gap": self.certificate.relative_gap,
            "l2": self.l2,
            "loss_notes": self._loss_notes(),
            **self._path_entries(),
            "pooled_primal": self.pooled_primal,
            "relative_loss": self.relative_loss,
            **asdict(self.run.scores(self.weights)),
            "evaluation": self.evaluation,
            "bytes_up": traffic.bytes_up,
            "bytes_down": traffic.bytes_down,
            "round_trips": traffic.round_trips + traffic.search_round_trips,
            "seconds": self.seconds,
            "about": about(self.run, self.asked, self.finished),
        }
        warning = ending.warning
        return result if warning is None else {**result, "warning": warning}

    def summary(self) -> Summary:
        """Return the summary for users."""
        run = self.run
        names = run.consortium.names
        kinds = kind_notes(run.consortium.levels, run.study.date_origin, names)
        result = self.result()
        notes = (*run.notes, *kinds, *result["loss_notes"])
        exposed = tuple(result["about"]["exposed"])
        return Summary(run.study.name, result, run.consortium, exposed, notes)

    def _loss_notes(self) -> list[str]:
        """Return what users should know about the size of the loss's parameter."""
        run, loss = self.run, self.run.training.settings.loss
        is_scaled = run.study.scale_target is not False
        target = run.target if is_scaled else None
        start = run.training.progress.start
        notes = (
            unit_note(loss, run.target, run.study.label_column or "the target"),
            size_warning(loss, target, start),
        )
        return [note for note in notes if note]

    def history(self) -> list[dict[str, Any]]:
        """Return the records of ``history.json``, one per round, with participants.

        The objectives are null for rounds that were not measured. With curves there
        are ``validation_loss`` and ``validation_score``, null between their points.
        """
        names = self.run.consortium.names
        return [
            {
                **{name: record[name] for name in _RECORDED},
                **self._validation_of(record),
                "participants": [names[rank] for rank in record["participants"]],
            }
            for record in self.run.training.history
        ]

    def _validation_of(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a round's entries about rows set aside, if the study has curves."""
        if self.run.training.validator is None:
            return {}
        return {name: record.get(name) for name in (LOSS, SCORE)}

    def model(self) -> ModelFile:
        """Return the contents of ``model.json``, described in ``model/file.py``."""
        run, study = self.run, self.run.study
        features, scaling = run.consortium.features, run.scaling
        own = self.weights * run.target.scale  # in the units of the target
        weights = map(tuple, own[: len(features)].tolist())
        intercept = own[-1] * (run.intercept_value or 0.0) + run.target.centre
        return ModelFile(
            format_version=FORMAT_VERSION,
            study=study.name,
            loss=study.loss,
            loss_parameter=study.loss_parameter,
            l2=self.l2,
            id_column=study.id_column,
            label_column=study.label_column,
            offset_column=study.offset_column,
            positive_label=study.positive_text,
            classes=run.consortium.classes,
            weights=dict(zip(features, weights, strict=True)),
            intercept=tuple(intercept.tolist()),
            scaling=ScalingEntry(
                scale=study.scale,
                missing=study.missing,
                offsets=dict(zip(features, scaling.offset.tolist(), strict=True)),
                scales=dict(zip(features, scaling.scale.tolist(), strict=True)),
                fillings=dict(zip(features, scaling.filling.tolist(), strict=True)),
            ),
            training=self._training_entry(),
            certificate=CertificateEntry.of(self.certificate),
            categories=dict(run.consortium.levels.entries),
            dates=run.consortium.columns.named("date"),
            date_origin=study.date_origin,
            similar_levels=study.similar_levels,
        )

    def _training_entry(self) -> TrainingEntry:
        study, training, ending = self.run.study, self.run.training, self.ending
        return TrainingEntry(
            algorithm=ending.algorithm,
            algorithm_reason=training.algorithm.reason,
            rounds=self.n_rounds,
            stop_reason=ending.stop_reason,
            fit_intercept=study.fit_intercept,
            target_centre=self.run.target.centre,
            target_scale=self.run.target.scale,
            penalise_intercept=not training.settings.free_intercept,
            intercept_scaling=study.intercept_scaling,
        )

    def write(self, folder: Path) -> None:
        """Write the model, its result, its history and the figure."""
        # Imported here: it takes a second, and organisations draw nothing.
        from hyfdca.study.figures import Convergence, draw_convergence  # noqa: PLC0415

        study, history = self.run.study, self.run.training.history
        n_fits = sum(len(row.folds) + 1 for row in self.run.path or ()) or 1
        figure = Convergence(study.name, history, study.tol, self.pooled_primal, n_fits)
        write_files(
            folder,
            {
                "model.json": as_bytes(self.model()),
                RESULT: as_json(self.result()),
                HISTORY: as_json(self.history()),
                "convergence.png": draw_convergence(figure),
            },
        )


@dataclass(frozen=True)
class Summary:
    """The summary of a trained study for users.

    Parameters
    ----------
    result : dict
        The contents of ``result.json``.
    exposed : tuple of str
        What organisations can find out about each other's cells.
    notes : tuple of str
        What was noticed while tables were read, and how columns are used.
    """

    name: str
    result: dict[str, Any]
    consortium: Consortium
    exposed: tuple[str, ...]
    notes: tuple[str, ...] = ()


def train(run: Run, watch: Watcher) -> Outcome:
    """Run a study's rounds, passing each report to ``watch``.

    The first Ctrl-C ends them cleanly, as in ``interruptible``.
    """
    training, started = run.training, time.perf_counter()
    before = training.progress.seconds  # of a run that was resumed
    with interruptible(training):
        for report in training.rounds():
            watch(run, report)
        outcome = conclude(run)
    return replace(outcome, seconds=before + time.perf_counter() - started)


def conclude(run: Run, seconds: float = 0.0) -> Outcome:
    """Release the model of a run whose rounds are over, and test it if required."""
    return run.training.conclude(lambda weights: _tested(run, weights, seconds))


def _tested(run: Run, weights: FloatArray, seconds: float) -> Outcome:
    certificate = run.certificate
    assert certificate is not None  # noqa: S101  # a run that ended has been measured
    outcome = Outcome(run, weights, certificate, seconds)
    # A diverged model is not tested: its scores may have any size.
    if run.evaluator is None or outcome.ending.stop_reason == "diverged":
        return outcome
    return replace(outcome, evaluation=run.evaluator.test(as_bytes(outcome.model())))


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to, before any work is done."""
    existing = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise StudyError(f"Cannot write to {folder}; choose another folder with --out.")


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files durably; none is ever seen half-written."""
    taken = [name for name in contents if (folder / name).is_dir()]
    if taken:
        raise StudyError(
            f"Cannot write to {folder}, where {taken[0]} is a folder instead of a "
            "file; choose another folder with --out."
        )
    drafts: dict[str, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            path = folder / name
            drafts[name] = write_draft(path, content, is_durable=True)
        for name, draft in drafts.items():
            draft.replace(folder / name)
        sync_folder(folder)
    except OSError as error:
        raise StudyError(
            f"Cannot write to {folder} ({error.strerror}); choose another folder with "
            "--out."
        ) from None
    finally:  # also if the user aborts
        for draft in drafts.values():
            forget(draft)


def as_json(content: dict[str, Any] | list[dict[str, Any]]) -> bytes:
    """Return the content as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
