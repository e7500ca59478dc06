"""DSCOVR with variance reduction: random blocks of the saddle-point problem.

L. Xiao, A. W. Yu, Q. Lin, W. Chen, "DSCOVR: randomized primal-dual block coordinate
algorithms for asynchronous distributed optimization", JMLR 2019 (DSCOVR-SVRG), for
row groups times column groups and smooth losses.

| phase       | down                                       | up                        |
|-------------|--------------------------------------------|---------------------------|
| block norms | -                                          | a bound on ||X_k||², open |
| stage       | weights, duals                             | x_{k,i}·w; Σ α_i x_{k,i}  |
| stage sums  | sums of both, which the stage keeps        | - (a notice)              |
| block       | weights and duals, to some blocks          | both, after its step      |

A round is one random diagonal: blocks that share neither rows nor columns step at once
(ours; the source takes one block at a time). With P row groups, Q column groups, the
stage's w̄, ᾱ, ū = X w̄ and the gradient term g = -1/N Σ ᾱ_i x_i, block k does

    u = ū + Q X_k (w - w̄)            α_i ← argmax -l_i*(-α) - α u_i - P/(2Nσ) (α - α_i)²
    v = g - P/N X_k' (α - ᾱ)         w ← (w - τ v) / (1 + τλ)

with σ, τ and the length of a stage from Γ = max(P, Q) (1 + 3Q max||X_k||² / (2λγ)) and
γ = sN/P, where l' is 1/s-Lipschitz. These constants are from memory of the source, so
``conditioning`` scales Γ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.fixedpoint import power_above
from hyfdca.federation.algorithm import Algorithm, Needs
from hyfdca.federation.client import Party
from hyfdca.federation.local.work import Positive
from hyfdca.federation.messages import SET_UP, evaluation_phases
from hyfdca.federation.primal import (
    PrimalClient,
    PrimalClientState,
    TwoSumServer,
    before_round,
)
from hyfdca.federation.sealing.client_sealing import or_too_large
from hyfdca.federation.server import Federation
from hyfdca.federation.sums import EVERYWHERE
from hyfdca.maths.seeds import stream
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import (
    Bound,
    Duals,
    Margins,
    Message,
    NonNegative,
    OnGrid,
    Sealed,
    Seen,
    TooLarge,
    Weights,
)
from hyfdca.protocol.phases import Phase, Phases
from hyfdca.protocol.server_session import Conversation

_POWER_STEPS = 30
_NORM_SLACK = 1.02  # power iteration comes from below


class BlockNorm(Message, frozen=True):
    """A power of two above the squared norm of the client's block."""

    norm: Annotated[Bound, Seen("bounds")]


class BlockRequest(Message, frozen=True):
    """Weights and duals down; at a stage, their products up, else both after a step."""

    weights: Weights
    duals: Duals
    grid: OnGrid  # of what comes back by feature
    samples_grid: OnGrid
    dual_step: Annotated[NonNegative, Seen("steps")]  # σ
    weight_step: Annotated[NonNegative, Seen("steps")]  # τ


class StageParts(Message, tag="stage", frozen=True):
    """Σ α_i x_{k,i} and x_{k,i}·w of a client's block."""

    shares: Annotated[Sealed, Seen("shares")]
    margins: Annotated[Sealed, Seen("margins")]


class BlockParts(Message, tag="block", frozen=True):
    """Weights and duals of a client's block after its step."""

    weights: Annotated[Sealed, Seen("shares")]
    duals: Annotated[Sealed, Seen("duals")]


class StageNotice(Message, frozen=True):
    """The sums of a stage."""

    shares: Weights
    margins: Margins


class DscovrServer(TwoSumServer):
    """The server's half: weights and duals as the last blocks left them."""

    _steps: Steps

    def __init__(self, federation: Federation, settings: Dscovr) -> None:
        self._settings, self._duals = settings, federation.latest_sample_sum()
        super().__init__(federation, federation.latest_feature_sum(), self._duals)
        layout = federation.layout
        cells = zip(layout.row_groups or [], layout.column_groups or [], strict=True)
        self._blocks = {cell: client for client, cell in enumerate(cells)}
        self._rows = sorted({row for row, _ in self._blocks})
        self._columns = sorted({column for _, column in self._blocks})

    def set_up(self) -> Conversation[None]:
        """Sum what every round needs; choose steps by the largest block."""
        yield from super().set_up()
        federation, settings = self.federation, self._settings
        norms = yield from federation.session.ask(
            "block norms", dict.fromkeys(federation.everyone, Message()), BlockNorm
        )
        largest = max(reply.norm for reply in norms.values())
        self._steps = settings.steps(
            federation, largest, len(self._rows), len(self._columns)
        )

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Let one random diagonal of blocks step; begin a stage if it is time."""
        if self.round_number % self._steps.stage_rounds == 0:
            yield from self._begin_stage()
        self.round_number += 1
        random = stream(self.federation.seed, "diagonal", self.round_number)
        rows, columns = (
            random.permutation(self._rows),
            random.permutation(self._columns),
        )
        pairs = zip(rows.tolist(), columns.tolist(), strict=False)
        clients = sorted(self._blocks[pair] for pair in pairs)
        grids = self.federation.grids
        replies = yield from self.federation.gather(
            "block",
            clients,
            [self.grid, grids.duals],
            lambda client: self._request(client, self.grid.spec, grids.duals.spec),
            BlockParts,
        )
        self.weights.update({c: reply.weights for c, reply in replies.items()})
        self._duals.update({c: reply.duals for c, reply in replies.items()})

    def _begin_stage(self) -> Conversation[None]:
        federation, grids = self.federation, self.federation.grids
        replies = yield from federation.gather(
            "stage",
            federation.everyone,
            [grids.shares, grids.margins],
            lambda client: self._request(client, grids.shares.spec, grids.margins.spec),
            StageParts,
        )
        shares, margins = federation.feature_sum(), federation.sample_sum()
        shares.update({c: reply.shares for c, reply in replies.items()})
        margins.update({c: reply.margins for c, reply in replies.items()})
        yield from federation.session.tell(
            "stage sums",
            {
                client: StageNotice(shares.take(client), margins.take(client))
                for client in federation.everyone
            },
        )

    def _request(self, client: int, grid: OnGrid, samples_grid: OnGrid) -> BlockRequest:
        return BlockRequest(
            self.weights.take(client),
            self._duals.take(client),
            grid,
            samples_grid,
            self._steps.dual,
            self._steps.weight,
        )


@dataclass(frozen=True)
class SavedPoint:
    """What a client keeps of a stage: w̄ and g by feature, ᾱ and ū by sample."""

    weights: FloatArray
    gradient: FloatArray
    duals: FloatArray
    margins: FloatArray


@dataclass(frozen=True, repr=False)
class DscovrClientState:
    """What a checkpoint keeps of a client's half."""

    primal: PrimalClientState
    stage: SavedPoint


class DscovrClient(PrimalClient):
    """A client's half: one block."""

    def __init__(self, party: Party) -> None:
        super().__init__(party)
        duals = np.zeros((party.n_held, party.problem.n_outputs))
        self._stage = SavedPoint(self.weights, self.weights, duals, duals)

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **super().handlers,
            "block norms": self._norm,
            "stage": self._begin_stage,
            "stage sums": self._take_sums,
            "block": self._step,
        }

    def _norm(self, _: Message) -> BlockNorm:
        """Return ||diag(√v) X_k||² by power iteration, as a power of two above."""
        party, norm = self.party, 0.0
        random = stream(party.seed, "block norms", party.rank)
        vector = random.standard_normal((party.n_features, party.problem.n_outputs))
        for _step in range(_POWER_STEPS):
            length = np.linalg.norm(vector, axis=0)
            vector = vector / np.where(length > 0, length, 1.0)
            bent = party.weighted(party.products(EVERYWHERE, vector))
            vector = party.combine(EVERYWHERE, bent)
            norm = float(np.linalg.norm(vector, axis=0).max(initial=0.0))
        return BlockNorm(power_above(_NORM_SLACK * norm))

    def _begin_stage(self, request: BlockRequest) -> Message:
        party, sealing = self.party, self.party.sealing
        weights, duals = self._opened(request)
        nothing = np.zeros_like
        self._stage = SavedPoint(weights, nothing(weights), duals, nothing(duals))
        share = party.combine(EVERYWHERE, party.weighted(duals))
        margins = party.products(EVERYWHERE, weights)
        return or_too_large(
            lambda: StageParts(
                sealing.sealed_features("gradients", share, request.grid),
                sealing.sealed_values("margins", margins, request.samples_grid),
            )
        )

    def _take_sums(self, notice: StageNotice) -> None:
        sealing, stage = self.party.sealing, self._stage
        shares = sealing.opened_features("gradients", notice.shares)
        margins = sealing.opened_samples("margins", notice.margins)
        gradient = -shares / self.party.problem.n_samples
        self._stage = SavedPoint(stage.weights, gradient, stage.duals, margins)

    def _step(self, request: BlockRequest) -> Message:
        party, stage, problem = self.party, self._stage, self.party.problem
        if not request.dual_step > 0:
            raise RemoteProtocolError("a step is not positive")
        weights, duals = self._opened(request)
        n_rows = float(party.feature_holders.max(initial=1))  # P
        n_columns = float(party.sample_holders.max(initial=1))  # Q
        scale = n_rows / problem.n_samples
        change = party.products(EVERYWHERE, weights - stage.weights)
        u = stage.margins + n_columns * change
        moved = party.weighted(duals - stage.duals)
        v = stage.gradient - scale * party.combine(EVERYWHERE, moved)
        curvatures = party.weighted(np.full_like(duals, scale / request.dual_step))
        ahead = duals + problem.loss.dual_step(duals, u, party.labels, curvatures)
        step = request.weight_step
        weights = (weights - step * v) / (1 + step * problem.l2_strength)
        sealing, grid = party.sealing, request.samples_grid
        # Towards zero: a rounded dual never leaves the domain of its conjugate.
        return or_too_large(
            lambda: BlockParts(
                sealing.sealed_features("weights", weights, request.grid),
                sealing.sealed_values("duals", ahead, grid, "to zero"),
            )
        )

    def _opened(self, request: BlockRequest) -> tuple[FloatArray, FloatArray]:
        duals = self.party.sealing.opened_samples("duals", request.duals)
        inside = self.party.problem.loss.into_domain(duals, self.party.labels)
        return self.weights_of(request.weights), inside

    def state(self) -> DscovrClientState:  # type: ignore[override]
        """Return what a checkpoint keeps."""
        return DscovrClientState(super().state(), self._stage)

    def restore(self, state: DscovrClientState) -> None:  # type: ignore[override]
        """Take a state."""
        super().restore(state.primal)
        self._stage = state.stage


@dataclass(frozen=True)
class Steps:
    """The step sizes σ and τ, and how many rounds a stage has."""

    dual: float
    weight: float
    stage_rounds: int


@dataclass(frozen=True)
class Dscovr(Algorithm):
    """DSCOVR-SVRG.

    Parameters
    ----------
    conditioning : float
        Multiplies Γ: below 1 for longer steps and shorter stages than are proven.
    """

    name: ClassVar[str] = "dscovr"
    phases: ClassVar[Phases] = {
        **SET_UP,
        **evaluation_phases("block", "stage sums", "block norms", within=("stage",)),
        "block norms": Phase(Message, (BlockNorm,), ("prepare",)),
        "stage": Phase(
            BlockRequest,
            (StageParts, TooLarge),
            before_round("block norms", "stage", "stage sums", "block"),
        ),
        "stage sums": Phase(StageNotice, after=("stage",)),
        "block": Phase(
            BlockRequest,
            (BlockParts, TooLarge),
            before_round("stage sums", "block"),
        ),
    }

    conditioning: Positive = 1.0

    @property
    def needs(self) -> Needs:
        """A grid, a smooth loss, and everybody, with labels."""
        return Needs(presence="everyone", smooth_loss=True, labels="all", split="grid")

    def steps(
        self, federation: Federation, norm: float, n_rows: int, n_columns: int
    ) -> Steps:
        """Return the steps for the largest squared norm of a block."""
        problem = federation.problem
        strength = problem.l2_strength
        gamma = problem.n_samples / (problem.loss.smoothness * n_rows)
        tightness = 1 + 3 * n_columns * norm / (2 * strength * gamma)
        condition = self.conditioning * max(n_rows, n_columns) * max(tightness, 1.01)
        dual = 1 / (2 * gamma * max(condition / n_rows - 1, 1e-3))
        weight = 1 / (2 * strength * max(condition / n_columns - 1, 1e-3))
        blocks = math.ceil(math.log(3) * condition)
        return Steps(dual, weight, math.ceil(blocks / min(n_rows, n_columns)))

    def server(self, federation: Federation) -> DscovrServer:
        """Return the server's half."""
        return DscovrServer(federation, self)

    def client(self, party: Party) -> DscovrClient:
        """Return a client's half."""
        return DscovrClient(party)
