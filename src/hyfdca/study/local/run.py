"""A study that is ready to train, or trained: participants and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.data.labels import chosen_classes, r_squared
from hyfdca.federation.path import HasPath, PathRow
from hyfdca.holdings.block import Block, pooled_cells
from hyfdca.holdings.coverage import Coverage, coverage_of
from hyfdca.holdings.partition import Holding, Partition
from hyfdca.maths.objective import Measurement, Objective
from hyfdca.model.scaling import Scaling, TargetScaling
from hyfdca.runtime.driver import Traffic
from hyfdca.stages.alignment.server import Alignment
from hyfdca.stages.evaluation.scores import HeldOut
from hyfdca.stages.levels.features import Levels
from hyfdca.stages.validation.sums import LOSS
from hyfdca.study.client.client import StudyClient
from hyfdca.study.costs import StageCosts
from hyfdca.study.evaluating import Evaluator
from hyfdca.study.exposure_notes import exposure_notes, held_out_notes
from hyfdca.study.file import Study
from hyfdca.study.validating import Validator
from hyfdca.training.runner import Runner


@dataclass(frozen=True)
class Consortium:
    """The organisations of a study, and which samples and features each holds.

    Parameters
    ----------
    levels : Levels
        What the server knows: who holds which columns, and what features they become.
    """

    names: tuple[str, ...]
    levels: Levels = field(repr=False)

    @property
    def columns(self) -> Alignment:
        """The holders of the columns of the tables."""
        return self.levels.columns

    @property
    def alignment(self) -> Alignment:
        """Who holds which features."""
        return self.levels.alignment

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all features, in the order of the partition."""
        return self.alignment.features

    @property
    def classes(self) -> tuple[str, ...]:
        """Empty for regression; negative and positive class if there are two."""
        return self.alignment.classes

    @property
    def labelled(self) -> tuple[bool, ...]:
        """Which organisations have labels."""
        return self.alignment.layout.labelled

    @cached_property
    def coverage(self) -> Coverage:
        """Which cells of the whole table somebody holds, by column."""
        layout = self.columns.layout
        return coverage_of(layout.samples, layout.features)

    @cached_property
    def partition(self) -> Partition:
        """Each organisation's samples and features."""
        samples, features = (
            self.alignment.layout.samples,
            self.alignment.layout.features,
        )
        holdings = map(Holding, samples.items, features.items)
        return Partition(samples.n_items, features.n_items, tuple(holdings))


@dataclass(frozen=True)
class TrainingScores:
    """How a model fits the training rows; None where that is not known."""

    accuracy: float | None = None  # of classes
    r_squared: float | None = None  # of numbers, like the next
    mean_absolute_error: float | None = None


@dataclass(frozen=True)
class Run:
    """A study whose tables are aligned and scaled, ready to train or trained.

    Parameters
    ----------
    evaluator : Evaluator, optional
        Tests the model on rows that were set aside.
    target : TargetScaling
        How the targets of a regression are scaled for training.
    notes : tuple of str
        What was noticed while tables were read here.
    stage_costs : mapping
        The costs of each stage before training.
    """

    study: Study
    consortium: Consortium
    scaling: Scaling
    preparing_traffic: Traffic
    training: Runner
    evaluator: Evaluator | None = field(default=None, kw_only=True)
    target: TargetScaling = field(default_factory=TargetScaling, kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    stage_costs: StageCosts = field(default_factory=dict, kw_only=True)

    @property
    def intercept_value(self) -> float | None:
        """The factor of the last row of weights, the intercept's; or None."""
        if not self.study.fit_intercept:
            return None
        is_free = self.training.settings.free_intercept
        return 1.0 if is_free else self.study.intercept_scaling

    @property
    def path(self) -> list[PathRow] | None:
        """How l2 was chosen; None if the study has one."""
        server = self.training.server
        return server.table() if isinstance(server, HasPath) else None

    @property
    def certificate(self) -> Measurement | None:
        """P and D of the model."""
        return self.training.certificate

    def exposed(self, n_rounds: int) -> tuple[str, ...]:
        """Return what organisations can find out after some rounds, in sentences."""
        federation, server = self.training.federation, self.training.server
        names, n_points = self.consortium.names, n_rounds
        if isinstance(server, HasPath):
            n_points = server.n_points_tried
        width = federation.problem.n_outputs
        n_margins = [n_points * width] * len(names)
        notes = exposure_notes(
            names, federation.layout, n_margins, federation.problem.loss
        )
        if (held_out := self.validated) is None:
            return notes
        n_scores = [self._n_tests() * width] * len(names)
        return notes + held_out_notes(names, federation.layout, held_out, n_scores)

    @property
    def validated(self) -> HeldOut | None:
        """The rows of the curves; None if the study has none."""
        validator = self.training.validator
        return validator.server.held_out if isinstance(validator, Validator) else None

    def _n_tests(self) -> int:
        """Return how often rows set aside were scored: by curves, and at the end."""
        n_points = sum(LOSS in record for record in self.training.history)
        is_tested = self.evaluator is not None
        return n_points + (is_tested and self.training.stop_reason != "diverged")

    def scores(self, weights: FloatArray) -> TrainingScores:
        """Return how a model fits the training rows, as far as is known here."""
        del weights
        return TrainingScores()


@dataclass(frozen=True)
class LocalRun(Run):
    """A run in the same process as its members, whose data it can read."""

    members: tuple[StudyClient, ...] = field(repr=False)

    @property
    def blocks(self) -> list[Block]:
        """The cells that each organisation counts, scaled."""
        return [member.block for member in self.members]

    def margins(self, weights: FloatArray) -> FloatArray:
        """Return x·w plus the offset of every sample, summed over its holders."""
        layout = self.training.federation.layout
        total = np.zeros((layout.samples.n_items, weights.shape[1]))
        for client, block in enumerate(self.blocks):
            part = block.X @ weights[layout.features.items[client]]
            total[layout.samples.items[client]] += part
        if self.training.settings.free_intercept:
            total += weights[-1]
        offsets = self.offsets()
        return total if offsets is None else total + offsets

    def labels(self) -> FloatArray:
        """Return the labels of all samples, as trained, (n_samples, n_outputs)."""
        labels = self._by_sample([block.labels for block in self.blocks], 0.0)
        assert labels is not None  # noqa: S101  # somebody has labels
        return labels

    def sample_weights(self) -> FloatArray | None:
        """Return the weights of all samples, (n_samples, n_outputs); None for 1."""
        return self._by_sample([block.sample_weights for block in self.blocks], 1.0)

    def offsets(self) -> FloatArray | None:
        """Return the offsets of all samples, (n_samples, n_outputs); None for 0."""
        return self._by_sample([block.offsets for block in self.blocks], 0.0)

    def _by_sample(
        self, held: Sequence[FloatArray | None], usual: float
    ) -> FloatArray | None:
        """Combine what organisations have about their samples; None if nothing.

        Parameters
        ----------
        usual : float
            The value that replaces None.
        """
        samples = self.training.federation.layout.samples
        widths = [own.shape[1] for own in held if own is not None]
        if not widths:
            return None
        values = np.full((samples.n_items, widths[0]), usual)
        for items, own in zip(samples.items, held, strict=True):
            if own is not None:
                values[items] = own
        return values

    def scores(self, weights: FloatArray) -> TrainingScores:
        """Return how a model fits the training rows.

        Weights of rows count, those of classes do not, as on rows set aside. A margin
        of exactly zero counts as the negative class, as in prediction.
        """
        margins, labels = self.margins(weights), self.labels()
        counts = self._row_weights()
        if self.consortium.classes:
            is_right = chosen_classes(margins) == chosen_classes(labels)
            return TrainingScores(accuracy=float(np.average(is_right, weights=counts)))
        errors = np.abs(labels - margins)[:, 0]
        return TrainingScores(
            r_squared=r_squared(labels[:, 0], margins[:, 0], counts),
            mean_absolute_error=float(np.average(errors, weights=counts))
            * self.target.scale,
        )

    def _row_weights(self) -> FloatArray | None:
        """Return how often each sample counts by the tables; None for once."""
        held = [member.row_weights for member in self.members]
        weights = self._by_sample(held, 1.0)
        return None if weights is None else weights[:, 0]


def pooled_objective(run: LocalRun) -> Objective:
    """Return the problem of all organisations' scaled tables in one place.

    A cell that nobody holds is zero, which is the mean; a penalised intercept is a
    normal column.
    """
    layout, settings = run.training.federation.layout, run.training.settings
    cells = [block.X for block in run.blocks]
    pooled = pooled_cells(cells, layout.samples, layout.features)
    pooled.eliminate_zeros()
    return Objective(
        pooled,
        run.labels(),
        settings.loss,
        settings.l2_strength,
        run.sample_weights(),
        offsets=run.offsets(),
        free_intercept=settings.free_intercept,
    )
