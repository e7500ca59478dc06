"""A client's half of DiSCO: its weights, and its part of every vector."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hyfdca.algorithms.disco.messages import (
    DirectionRequest,
    GradientParts,
    GradientRequest,
    HessianRequest,
    InnerProductsRequest,
    NewtonNotice,
)
from hyfdca.arrays import FloatArray
from hyfdca.federation.client import Party
from hyfdca.federation.messages import (
    GridRequest,
)
from hyfdca.federation.primal import (
    PrimalClient,
    PrimalClientState,
    RoundStart,
)
from hyfdca.federation.sealing.client_sealing import or_too_large
from hyfdca.federation.sums import EVERYWHERE
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import (
    Message,
)


@dataclass(frozen=True)
class Solve:
    """Conjugate gradients so far: solution v, residual r, direction d, H d, and M."""

    solution: FloatArray
    residual: FloatArray
    direction: FloatArray
    bent: FloatArray
    diagonal: FloatArray

    def moved(self, lengths: FloatArray, turns: FloatArray) -> Solve:
        """Return the state after a step along the direction."""
        solution = self.solution + lengths * self.direction
        residual = self.residual - lengths * self.bent
        direction = residual / self.diagonal + turns * self.direction
        return replace(self, solution=solution, residual=residual, direction=direction)


class DiscoClient(PrimalClient):
    """A client's half: its weights, and its part of every vector."""

    def __init__(self, party: Party) -> None:
        super().__init__(party)
        self._begun: RoundStart[Solve] = RoundStart()
        self._solve: Solve | None = None  # within a round
        self._second = np.empty((0, 0))  # v_i l''(z_i), within a round

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **super().handlers,
            "newton margins": self._margins,
            "newton gradient": self._gradient,
            "direction margins": self._direction,
            "hessian product": self._hessian,
            "inner products": self._inner_products,
            "open curvature": self.party.open_totals,
            "newton step": self._step,
        }

    def _margins(self, request: GridRequest) -> Message:
        products = self.party.products(EVERYWHERE, self.weights)
        return self.party.sealing.sample_part("margins", products, request.grid)

    def _gradient(self, request: GradientRequest) -> Message:
        party, loss, labels = self.party, self.party.problem.loss, self.party.labels
        margins = party.sealing.opened_samples("margins", request.margins)
        slopes = party.weighted(loss.derivative(margins, labels))
        self._second = party.weighted(loss.second_derivative(margins, labels))
        gradient = party.combine(EVERYWHERE, slopes)
        diagonal = party.combine_squares(self._second)
        seal, grid = party.sealing.sealed_features, request.grid
        return or_too_large(
            lambda: GradientParts(
                seal("gradients", gradient, grid), seal("curvatures", diagonal, grid)
            )
        )

    def _direction(self, request: DirectionRequest) -> Message:
        party, problem = self.party, self.party.problem
        if request.gradient is not None and request.diagonal is not None:
            slopes = party.sealing.opened_features("gradients", request.gradient)
            gradient = problem.l2_strength * self.weights + slopes / problem.n_samples
            curves = party.sealing.opened_features("curvatures", request.diagonal)
            diagonal = problem.l2_strength + np.maximum(curves, 0) / problem.n_samples
            nothing = np.zeros_like(gradient)
            self._solve = Solve(
                nothing, gradient, gradient / diagonal, nothing, diagonal
            )
        else:
            lengths, turns = self._by_output(request.lengths, request.turns)
            begun = self._begun.of(request.number, self._solving())
            self._solve = begun.moved(lengths, turns)
        products = party.products(EVERYWHERE, self._solve.direction)
        return party.sealing.sample_part("direction margins", products, request.grid)

    def _by_output(self, *given: list[float]) -> list[FloatArray]:
        """Return lists of one finite number per output as arrays."""
        n_outputs = self.party.problem.n_outputs
        arrays = [np.array(numbers) for numbers in given if len(numbers) == n_outputs]
        if len(arrays) != len(given) or not np.all(np.isfinite(arrays)):
            raise RemoteProtocolError(f"expected {n_outputs} finite numbers")
        return arrays

    def _solving(self) -> Solve:
        if self._solve is None:
            raise RemoteProtocolError("there is no direction to continue from")
        return self._solve

    def _hessian(self, request: HessianRequest) -> Message:
        party = self.party
        margins = party.sealing.opened_samples("direction margins", request.margins)
        bent = party.combine(EVERYWHERE, self._second * margins)
        return party.sealing.feature_part("images", bent, request.grid)

    def _inner_products(self, request: InnerProductsRequest) -> Message:
        party, problem, solve = self.party, self.party.problem, self._solving()
        opened = party.sealing.opened_features("images", request.weights)
        sums = opened / problem.n_samples
        bent = sums + problem.l2_strength * solve.direction
        self._solve = replace(solve, bent=bent)
        counted, smooth = party.block.counts_feature, solve.residual / solve.diagonal
        pairs = [
            (solve.residual, smooth),
            (solve.direction, bent),
            (smooth, bent),
            (bent, bent / solve.diagonal),
        ]
        products = [(a[counted] * b[counted]).sum(axis=0) for a, b in pairs]
        return party.sealing.total_part("totals", np.stack(products), request.grid)

    def _step(self, notice: NewtonNotice) -> None:
        lengths, shares = self._by_output(notice.lengths, notice.shares)
        begun = self._begun.of(notice.number, self._solving())
        solution = begun.moved(lengths, shares).solution
        self.weights = self.weights - shares * solution

    def restore(self, state: PrimalClientState) -> None:
        """Take a state."""
        super().restore(state)
        self._solve = None
        self._begun.forget()
