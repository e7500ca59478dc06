"""The safe step's factors: how strongly samples interact (errata, E4).

Changing many duals at once from the same weights overshoots unless each coordinate's
curvature is enlarged. Under complete participation the sharp factor (E4 (ii)) needs Λ,
the largest eigenvalue of the Gram matrix of the normalised rows, 1 <= Λ <= N. Power
iteration finds it with the same two primitives: weights -> margins -> weights.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hyfdca.algorithms.hyfdca import messages as m
from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError
from hyfdca.federation.client import Party
from hyfdca.federation.grids import VectorGrid
from hyfdca.federation.server import Federation
from hyfdca.federation.sums import EVERYWHERE, CachedSum
from hyfdca.holdings.layout import Layout
from hyfdca.maths.seeds import stream
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError, pack_reals, unpack_reals
from hyfdca.protocol.messages import Message, TooLarge
from hyfdca.protocol.server_session import Conversation

ITERATIONS = m.PROBES
SAFETY = 1.1  # power iteration approaches Λ from below

_FIRST_LOOK, _MOST_FEATURES = 1_000, 20_000_000


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
    most = min(n_draws, n_samples)  # E4 (i): the most samples that change at once
    return np.full(n_samples, float(most)) if most < factors.min() else factors


def estimate_interaction(federation: Federation) -> Conversation[float]:
    """Return an estimate of Λ from a few power iterations.

    With v of length 1, the length of X̃X̃'v approaches Λ from below.
    """
    probe = _Probe(federation)
    features = federation.layout.features
    start = _random_start(federation.seed, features.n_items)
    shares: CachedSum | None = None
    length = float(np.linalg.norm(start))
    for _ in range(ITERATIONS):
        margins = yield from probe.margins(start, shares, 1.0 / length)
        shares, length = yield from probe.shares(margins)
        if length == 0.0:
            return 1.0  # all rows are zero
    return max(length, 1.0)


def _random_start(seed: int, n_features: int) -> FloatArray:
    return stream(seed, "interaction").standard_normal(n_features)


def _check_start(seed: int, own: FloatArray) -> None:
    """Refuse a start that is not the study's, on the features a client has.

    The client does not know the numbers of its features among all. But its part of the
    start must appear in the numbers that the study's seed gives, in their order: a
    server cannot choose it, to single out a column for example.
    """
    n_features = _FIRST_LOOK + len(own)
    while not _is_part(own, _random_start(seed, n_features)):
        n_features *= 8
        if n_features > _MOST_FEATURES:
            raise RemoteProtocolError("the start of the probe is not the study's")


def _is_part(own: FloatArray, whole: FloatArray) -> bool:
    """Return whether numbers appear among others, in the same order."""
    order = np.argsort(whole)
    places = order[np.searchsorted(whole[order[:-1]], own)]
    return bool(np.all(whole[places] == own) and np.all(np.diff(places) > 0))


class _Probe:
    """The server's half of the power iteration, on grids of its own."""

    def __init__(self, federation: Federation) -> None:
        self._federation, make = federation, federation.grid_maker
        # ||X̃'v||² <= Λ <= N for v of length 1
        bound = float(federation.layout.samples.n_items)
        self._margins = make.grid("probe margins", bound**0.5, make.sample_holders)
        self._shares = make.grid("probe shares", bound**1.5, make.feature_holders)
        self._totals: VectorGrid = make.grid("probe totals", bound**2, make.n_clients)

    def margins(
        self, start: FloatArray, shares: CachedSum | None, scale: float
    ) -> Conversation[CachedSum]:
        federation = self._federation
        features = federation.layout.features
        return (
            yield from federation.gather_sum(
                "probe margins",
                [self._margins],
                lambda client: m.ProbeRequest(
                    None if shares else pack_reals(start[features.items[client]]),
                    shares.take(client) if shares else [],
                    scale,
                    self._margins.spec,
                ),
                federation.sample_sum(1),
            )
        )

    def shares(self, margins: CachedSum) -> Conversation[tuple[CachedSum, float]]:
        federation = self._federation
        replies = yield from federation.gather(
            "probe shares",
            federation.everyone,
            [self._shares, self._totals],
            lambda client, spec: m.ProbeSharesRequest(
                margins.take(client), self._shares.spec, spec
            ),
            m.Image,
            self._totals,
        )
        shares = federation.feature_sum(1)
        for client, reply in replies.items():
            shares.put(client, reply.vector)
        parts = {client: reply.totals for client, reply in replies.items()}
        total = federation.sum_of(parts, (1, 1))
        [square] = yield from federation.open_totals([total])
        return shares, float(np.sqrt(square[0, 0]))


class InteractionProbe:
    """A client's half of the power iteration, on its block."""

    def __init__(self, party: Party) -> None:
        self._party = party

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {"probe margins": self._margins, "probe shares": self._shares}

    def _margins(self, request: m.ProbeRequest) -> Message:
        """Return this client's part of x_i·w / ||x_i||."""
        party = self._party
        if request.start is not None:
            weights = unpack_reals(request.start, party.n_features)[:, None]
            _check_start(party.seed, weights[:, 0])
        else:
            weights = party.sealing.opened_features("probe weights", request.weights, 1)
        products = party.products(EVERYWHERE, weights * request.scale)
        values = products * self._inverse_norms()
        return party.sealing.sample_part("probe margins", values, request.grid)

    def _shares(self, request: m.ProbeSharesRequest) -> Message:
        """Return this client's part of Σ v_i x_i / ||x_i|| and of Σ v_i²."""
        party, sealing = self._party, self._party.sealing
        values = sealing.opened_samples("probe margins", request.margins, width=1)
        share = party.combine(EVERYWHERE, values * self._inverse_norms())
        square = np.array([[float((values[party.block.counts_sample] ** 2).sum())]])
        try:
            return m.Image(
                sealing.sealed_features("probe weights", share, request.grid),
                sealing.sealed_totals("totals", square, request.totals_grid),
            )
        except GridOverflowError:
            return TooLarge()

    def _inverse_norms(self) -> FloatArray:
        norms = np.sqrt(self._party.squared_norms)
        return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
