"""An organisation's table on its way to training: the stages before the first round.

Each stage begins with its first request and builds on the result of the previous one.
"""

from __future__ import annotations

from collections.abc import Callable

from hyfdca.data.expansion import Expansion, expansion_of_numbers
from hyfdca.data.tables import Table
from hyfdca.federation.client import check_few
from hyfdca.federation.secrets import ClientSecrecy
from hyfdca.holdings.block import Block
from hyfdca.holdings.ownership import Cells, owned_cells
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.phases import Phases
from hyfdca.protocol.sessions import Handlers
from hyfdca.stages.alignment import messages as alignment_messages
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.alignment.client import AlignmentClient
from hyfdca.stages.labels import messages as label_messages
from hyfdca.stages.labels.client import LabelClient, WeightClient, label_client
from hyfdca.stages.levels.client import LevelsClient
from hyfdca.stages.levels.messages import PHASES as LEVEL_PHASES
from hyfdca.stages.scaling.client import ScalingClient
from hyfdca.stages.scaling.messages import PHASES as SCALING_PHASES
from hyfdca.study.plan import Plan

Begin = tuple[Phases, Callable[[], Handlers]]  # a stage's phases, and what starts it


class ClientStages:
    """Alignment, labels, levels and scaling, from an organisation's own table.

    Parameters
    ----------
    secrecy : callable
        Returns what seals and opens, once everybody is known to have the same keys.
    least_rows : int
        Of its own in every sum, by the organisation's policy.
    """

    def __init__(
        self,
        plan: Plan,
        table: Table,
        secrecy: Callable[[], ClientSecrecy],
        least_rows: int,
    ) -> None:
        self._plan, self._table, self._secrecy = plan, table, secrecy
        self._least_rows = least_rows
        self._alignment: AlignmentClient | None = None
        self._labels: LabelClient | WeightClient | None = None
        self._levels: LevelsClient | None = None
        self._numbers: Cells | None = None
        self._scaling: ScalingClient | None = None
        self._block: Block | None = None

    @property
    def begin(self) -> dict[str, Begin]:
        """The phases of each stage, and what begins it."""
        return {
            "alignment": (alignment_messages.PHASES, self._begin_alignment),
            "labels": (label_messages.PHASES, self._begin_labels),
            "levels": (LEVEL_PHASES, self._begin_levels),
            "scaling": (SCALING_PHASES, self._begin_scaling),
        }

    def _begin_alignment(self) -> Handlers:
        self._alignment = AlignmentClient(
            self._table, self._secrecy().alignment_keys(), self._plan.alignment
        )
        return self._alignment.handlers

    @property
    def aligned(self) -> AlignedTable:
        """The organisation's table in the study's order."""
        if self._alignment is None:
            raise RemoteProtocolError("this stage comes after the alignment")
        return self._alignment.aligned

    def _begin_labels(self) -> Handlers:
        if self._block is not None:
            raise RemoteProtocolError("labels come before training")
        self._labels = self._new_labels()
        return self._labels.handlers

    def _new_labels(self) -> LabelClient | WeightClient:
        targets = self._plan.alignment.targets
        return label_client(self.aligned, targets, self._secrecy().sealers())

    def _begin_levels(self) -> Handlers:
        aligned, secrecy = self.aligned, self._secrecy()
        if not aligned.categories:
            raise RemoteProtocolError("it has no column that is a category")
        self._levels = LevelsClient(
            aligned,
            self._table.digest,
            secrecy.alignment_keys(),
            self._plan.levels,
            secrecy.sealers(),
        )
        return self._levels.handlers

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
        return self._scaling.handlers

    @property
    def block(self) -> Block:
        """The features that the organisation counts, scaled."""
        if self._numbers is None or self._scaling is None:
            raise RemoteProtocolError("this stage comes after the scaling")
        if self._block is None:
            scaled = self._scaling.scaling.apply(self._numbers.stored)
            # Where nothing is lacking, the server does not begin the stage of labels.
            losses = (self._labels or self._new_labels()).losses
            features = self.aligned.features_of(scaled, self.expansion)
            self._block = self.aligned.block(features, self._plan.bias, losses)
        return self._block
