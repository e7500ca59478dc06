"""An organisation's table on its way to training: the stages before the first round.

Each stage begins with its first request and builds on the result of the previous one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.keys.pseudonyms import folds_of
from hyfdca.data.expansion import Expansion, expansion_of_numbers
from hyfdca.data.held_out import SplitTable, split_table
from hyfdca.data.tables import Kind, Table
from hyfdca.federation.client import check_few
from hyfdca.federation.sealing.secrets import ClientSecrecy
from hyfdca.holdings.block import Block
from hyfdca.holdings.ownership import Cells, owned_cells
from hyfdca.model.scaling import Scaling, TargetScaling
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.protocol.phases import Phases
from hyfdca.stages.alignment import messages as alignment_messages
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.alignment.client import AlignmentClient
from hyfdca.stages.labels import messages as label_messages
from hyfdca.stages.labels.client import LabelClient, WeightClient, label_client
from hyfdca.stages.levels.client import LevelsClient
from hyfdca.stages.levels.messages import PHASES as LEVEL_PHASES
from hyfdca.stages.scaling.client import ScalingClient
from hyfdca.stages.scaling.messages import PHASES as SCALING_PHASES
from hyfdca.study.client.placements import NotedPlacements
from hyfdca.study.plan import Plan

# Of what several hold, the first of them in the study file counts.
_REMEDY = (
    "name it earlier in the study file, so that it counts more of what others have too"
)

Begin = tuple[Phases, Callable[[], Handlers]]  # a stage's phases, and what starts it


class ClientStages:
    """Alignment, labels, levels and scaling, from an organisation's own table.

    Parameters
    ----------
    secrecy : callable
        Returns what seals and opens, once everybody is known to have the same keys.
    least_rows : int
        Of its own in every sum, by the organisation's policy.
    placements : NotedPlacements
        Those that it has taken part under.
    """

    def __init__(
        self,
        plan: Plan,
        table: Table,
        secrecy: Callable[[], ClientSecrecy],
        least_rows: int,
        placements: NotedPlacements,
    ) -> None:
        self._plan, self._whole, self._secrecy = plan, table, secrecy
        self._least_rows, self._placements = least_rows, placements
        self._held_out: AlignmentClient | None = None
        self._alignment: AlignmentClient | None = None
        self._levels: LevelsClient | None = None
        self._numbers: Cells | None = None
        self._scaling: ScalingClient | None = None
        self._block: Block | None = None

    @cached_property
    def _split(self) -> SplitTable:
        """The rows to train on, and those set aside."""
        return split_table(self._whole, self._plan.evaluation.rule)

    @property
    def _table(self) -> Table:
        """The rows to train on."""
        return self._split.training if self._plan.evaluation.rule else self._whole

    @property
    def begin(self) -> dict[str, Begin]:
        """The phases of each stage, and what begins it."""
        return {
            "alignment": (alignment_messages.PHASES, self._begin_alignment),
            "held-out rows": (alignment_messages.PHASES, self._begin_held_out),
            "labels": (label_messages.PHASES, self._begin_labels),
            "levels": (LEVEL_PHASES, self._begin_levels),
            "scaling": (SCALING_PHASES, self._begin_scaling),
        }

    def _begin_alignment(self) -> Handlers:
        secrecy = self._secrecy()
        self._alignment = AlignmentClient(
            self._table,
            secrecy.alignment_keys(),
            self._plan.alignment,
            secrets=secrecy.secrets,
            admission=self._placements.training,
        )
        return self._alignment.handlers

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each of the organisation's columns, by name."""
        table = self._table
        return {name: table.kind_of(c) for c, name in enumerate(table.features)}

    @property
    def _placed(self) -> AlignmentClient:
        if self._alignment is None:
            raise RemoteProtocolError("this stage comes after the alignment")
        return self._alignment

    @property
    def aligned(self) -> AlignedTable:
        """The organisation's table in the study's order."""
        return self._placed.aligned

    def check_training_rows(self) -> None:
        """Refuse sums over too few rows.

        Raises
        ------
        RemoteProtocolError
        """
        self._check_counted(self.aligned, "a column")
        n_labels = int(self.aligned.counts_sample.sum())
        check_few(self._least_rows, n_labels, "what it counts of its labels", _REMEDY)

    def check_all_rows(self) -> None:
        """Do the same for all rows, before the first round.

        Raises
        ------
        RemoteProtocolError
        """
        self.check_training_rows()
        if self._plan.evaluation.rule:
            self._check_counted(self.held_out, "a column set aside")

    def _check_counted(self, aligned: AlignedTable, what: str) -> None:
        own = aligned.own
        n_counted = own.counts()
        fewest = int(n_counted[n_counted > 0].min(initial=len(own.row_groups)))
        check_few(self._least_rows, fewest, f"what it counts of {what}", _REMEDY)

    def _checking(self, first: str, handlers: Handlers) -> Handlers:
        """Have the first phase of a stage check the rows that it sums over."""

        def begin(request: Message) -> Message | None:
            self.check_training_rows()
            return handlers[first](request)

        return {**handlers, first: begin}

    def _begin_held_out(self) -> Handlers:
        """Align the rows set aside, by the same pseudonyms as the others."""
        if not self._plan.evaluation.rule:
            raise RemoteProtocolError("the study sets no rows aside")
        if self.aligned.categories and not self._plan.levels.releases_names:
            # They have no score, and levels that a server names would be compared.
            raise RemoteProtocolError(
                "the study sets rows aside, but has release_level_names = false"
            )
        table, secrecy = self._split.held_out, self._secrecy()
        check_few(self._least_rows, len(table.ids), "the part set aside")
        # Notes about blank cells have their own nonces, and belong to their rows.
        self._held_out = AlignmentClient(
            table,
            secrecy.alignment_keys(),
            self._plan.alignment.of_held_out_rows,
            secrets=secrecy.secrets,
            admission=self._placements.held_out,
        )
        return self._held_out.handlers

    @property
    def _placed_held_out(self) -> AlignmentClient:
        if self._held_out is None:
            raise RemoteProtocolError("the rows set aside have not been aligned")
        return self._held_out

    @property
    def held_out(self) -> AlignedTable:
        """The organisation's rows that are set aside, in the study's order."""
        return self._placed_held_out.aligned

    @property
    def held_out_order(self) -> IntArray:
        """Where these rows were in the table, before the study ordered them."""
        assert self.held_out  # noqa: S101  # refuses to go on before the alignment
        return self._placed_held_out.order

    def _begin_labels(self) -> Handlers:
        if self._block is not None:
            raise RemoteProtocolError("labels come before training")
        return self._checking("arrange", self._labels.handlers)

    @cached_property
    def _labels(self) -> LabelClient | WeightClient:
        """Its labels and weights; the stage is left out where nothing is lacking."""
        targets = self._plan.alignment.targets
        return label_client(self.aligned, targets, self._secrecy().sealers())

    def _begin_levels(self) -> Handlers:
        aligned, secrecy = self.aligned, self._secrecy()
        if not aligned.categories:
            raise RemoteProtocolError("it has no column that is a category")
        self._levels = LevelsClient(
            aligned,
            self._placed.table.digest,
            secrecy.alignment_keys(),
            self._plan.levels,
            secrecy.sealers(),
        )
        return self._checking("level tokens", self._levels.handlers)

    @property
    def expansion(self) -> Expansion:
        """How the organisation's columns become features."""
        if self._levels is not None:
            return self._levels.expansion
        if self.aligned.categories:
            raise RemoteProtocolError("this stage comes after the levels")
        return expansion_of_numbers(len(self.aligned.features))

    def _begin_scaling(self) -> Handlers:
        plan, aligned = self._plan, self.aligned
        check_few(self._least_rows, aligned.cells.shape[0], "its table")
        if plan.missing == "refuse" and np.isnan(aligned.cells.data).any():
            raise RemoteProtocolError("cells are still blank, which the study refuses")
        is_number = self.expansion.is_number
        self._numbers = owned_cells(
            aligned.own.of_columns(is_number), self.expansion.numbers(aligned.cells)
        )
        self._scaling = ScalingClient(
            self._numbers,
            plan.scale,
            plan.missing,
            self._secrecy().sealers(),
            plan.is_centred,
        )
        return self._checking("arrange", self._scaling.handlers)

    @property
    def scaling(self) -> Scaling:
        """How the organisation's columns of numbers are scaled."""
        if self._scaling is None:
            raise RemoteProtocolError("this stage comes after the scaling")
        return self._scaling.scaling

    @property
    def target(self) -> TargetScaling | None:
        """How targets are scaled; None without labels."""
        labels = self._labels
        return labels.target if isinstance(labels, LabelClient) else None

    @property
    def row_weights(self) -> FloatArray | None:
        """The weights in its table, (samples, 1); None if it has none or no labels."""
        labels = self._labels
        return labels.row_weights if isinstance(labels, LabelClient) else None

    @property
    def block(self) -> Block:
        """The features that the organisation counts, scaled."""
        if self._numbers is None:
            raise RemoteProtocolError("this stage comes after the scaling")
        if self._block is None:
            scaled = self.scaling.apply(self._numbers.stored)
            features = self.aligned.features_of(scaled, self.expansion)
            block = self.aligned.block(features, self._plan.bias, self._labels.losses)
            self._block = replace(block, folds=self._folds())
        return self._block

    def _folds(self) -> IntArray | None:
        """Return the fold of each row in the study's order, if l2 is chosen."""
        path = self._plan.training.path
        if path is None or self._alignment is None:
            return None
        ids = [self._table.ids[row] for row in self._alignment.order]
        return folds_of(ids, path.n_folds, self._plan.evaluation.salt)
