"""How strongly samples interact: the safe step's factors (errata, E4).

Changing many duals at once from the same weights overshoots unless each coordinate's
curvature is enlarged. Under complete participation the sharp factor (E4 (ii)) needs Λ,
the largest eigenvalue of the Gram matrix of the normalised rows, 1 <= Λ <= N. Power
iteration finds it with the same two primitives: weights -> margins -> weights.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError
from hyfdca.federation.client import Holder
from hyfdca.federation.server import Coordinator
from hyfdca.federation.sums import EVERYWHERE, CachedSum
from hyfdca.holdings.layout import Layout
from hyfdca.maths.seeds import stream
from hyfdca.protocol import messages as m
from hyfdca.protocol.client_session import Phase
from hyfdca.protocol.codec import pack_reals, unpack_reals
from hyfdca.protocol.server_session import Conversation

ITERATIONS = 12
SAFETY = 1.1  # power iteration approaches Λ from below


def safe_factors(
    layout: Layout, local_steps: Callable[[int], int], interaction: float
) -> FloatArray:
    """Return E4 (ii): what multiplies the curvature of each sample.

    The change of a dual is θ_i Δα_i, where θ_i is the share of the sample's labelled
    holders that drew it. With p_k = H_k / N_k and p the mean of it over the holders,
    the factor is (Var θ_i N_k/(N_k-1) + p² Λ) / p; a sample nobody draws gets 1.
    """
    n_samples = layout.samples.n_items
    holders, chance, spread = (np.zeros(n_samples) for _ in range(3))
    n_draws = 0
    for client, items in enumerate(layout.samples.items):
        if layout.labelled[client] and len(items):
            share = local_steps(client) / len(items)
            n_draws += local_steps(client)
            holders[items] += 1
            chance[items] += share
            # Draws are without replacement, hence the correction.
            spread[items] += share * (1 - share) * len(items) / max(len(items) - 1, 1)
    chance, spread = chance / holders, spread / holders**2
    drawn = chance > 0
    factors = np.ones(n_samples)
    factors[drawn] = (spread[drawn] + interaction * chance[drawn] ** 2) / chance[drawn]
    most = min(n_draws, n_samples)  # E4 (i): at most so many samples change at once
    return np.full(n_samples, float(most)) if most < factors.min() else factors


def estimate_interaction(coordinator: Coordinator, seed: int) -> Conversation[float]:
    """Return an estimate of Λ from a few power iterations.

    With v of length 1, the length of X̃X̃'v approaches Λ from below.
    """
    _choose_grids(coordinator)
    features = coordinator.layout.features
    start = stream(seed, "interaction").standard_normal(features.n_items)
    shares: CachedSum | None = None
    length = float(np.linalg.norm(start))
    for _ in range(ITERATIONS):
        margins = yield from _probe_margins(coordinator, start, shares, 1.0 / length)
        shares, length = yield from _probe_shares(coordinator, margins)
        if length == 0.0:
            return 1.0  # all rows are zero
    return max(length, 1.0)


def _choose_grids(coordinator: Coordinator) -> None:
    """Set grids from ||X̃'v||² <= Λ <= N for v of length 1."""
    layout = coordinator.layout
    bound = float(layout.samples.n_items)
    holders = int(layout.samples.counts.max(initial=1))
    feature_holders = int(layout.features.counts.max(initial=1))
    coordinator.grids |= {
        "probe margins": coordinator.grid_for(bound**0.5, holders),
        "probe shares": coordinator.grid_for(bound**1.5, feature_holders),
        "probe totals": coordinator.grid_for(bound**2, layout.n_clients),
    }


def _probe_margins(
    coordinator: Coordinator, start: FloatArray, shares: CachedSum | None, scale: float
) -> Conversation[CachedSum]:
    features = coordinator.layout.features
    return (
        yield from coordinator.gather_sum(
            "probe margins",
            ["probe margins"],
            lambda client: m.ProbeRequest(
                None if shares else pack_reals(start[features.items[client]]),
                shares.take(client) if shares else [],
                scale,
                coordinator.spec("probe margins"),
            ),
            coordinator.sample_sum(1),
        )
    )


def _probe_shares(
    coordinator: Coordinator, margins: CachedSum
) -> Conversation[tuple[CachedSum, float]]:
    replies = yield from coordinator.gather(
        "probe shares",
        coordinator.everyone,
        ["probe shares", "probe totals"],
        lambda client: m.ProbeSharesRequest(
            margins.take(client),
            coordinator.spec("probe shares"),
            coordinator.spec("probe totals"),
        ),
        m.Image,
    )
    shares = coordinator.feature_sum(1)
    for client, reply in replies.items():
        shares.put(client, reply.vector)
    parts = [reply.totals for reply in replies.values()]
    total = coordinator.sum_of(parts, (1, 1))
    [square] = yield from coordinator.open_totals([total], [(1, 1)])
    return shares, float(np.sqrt(square[0, 0]))


class InteractionProbe:
    """A client's half of the power iteration, on its block."""

    def __init__(self, holder: Holder) -> None:
        self._holder = holder
        self.phases = {
            "probe margins": Phase(m.ProbeRequest, self._margins),
            "probe shares": Phase(m.ProbeSharesRequest, self._shares),
        }

    def _margins(self, request: m.ProbeRequest) -> m.Message:
        """Return this client's part of x_i·w / ||x_i||."""
        holder = self._holder
        n_features = holder.block.X.shape[1]
        if request.start is not None:
            weights = unpack_reals(request.start, n_features)[:, None]
        else:
            weights = holder.opened_features(request.weights, 1)
        products = holder.products(EVERYWHERE, weights * request.scale)
        return holder.sample_part(products * self._inverse_norms(), request.grid)

    def _shares(self, request: m.ProbeSharesRequest) -> m.Message:
        """Return this client's part of Σ v_i x_i / ||x_i|| and of Σ v_i²."""
        holder = self._holder
        values = holder.opened_samples(request.margins, width=1)
        share = holder.combine(EVERYWHERE, values * self._inverse_norms())
        square = np.array([[float((values[holder.block.counts_sample] ** 2).sum())]])
        try:
            return m.Image(
                holder.sealed_features(share, request.grid),
                holder.sealed_totals(square, request.totals_grid),
            )
        except GridOverflowError:
            return m.TooLarge()

    def _inverse_norms(self) -> FloatArray:
        norms = np.sqrt(self._holder.squared_norms)
        return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
