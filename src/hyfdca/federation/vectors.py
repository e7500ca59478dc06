"""Which scheme seals each kind of vector, and how the server stores it.

The server picks a scheme for each kind of vector by the bytes it takes, from those the
study allows, and tells the clients, which refuse others.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement, opaque_groups
from hyfdca.crypto.schemes.base import Adder
from hyfdca.crypto.schemes.plain import PlainAdder
from hyfdca.crypto.schemes.registry import Adders, Use
from hyfdca.federation.messages import Arrangements
from hyfdca.federation.problem import Problem
from hyfdca.federation.sums import VectorLayout, layout_for
from hyfdca.holdings.axis import Axis, owner_groups
from hyfdca.holdings.layout import Layout
from hyfdca.protocol.codec import pack_indices

_USUAL_TOTALS = 32  # numbers


class Pick(NamedTuple):
    """The scheme of a kind of vector; how full its blocks are, if it has any."""

    scheme: str
    fill: float | None

    @property
    def text(self) -> str:
        """The pick for people."""
        full = "" if self.fill is None else f", blocks {self.fill:.0%} full"
        return f"{self.scheme}{full}"


class SealedVectors:
    """The server's sealed vectors: layouts by sample, by feature and by bucket.

    Parameters
    ----------
    drawn_share : float
        Share of its samples that a client usually changes per round.
    """

    def __init__(
        self, problem: Problem, layout: Layout, adders: Adders, drawn_share: float
    ) -> None:
        self._problem, self._layout, self._adders = problem, layout, adders
        self._drawn_share = drawn_share
        self._layouts: dict[tuple[str, int], VectorLayout] = {}
        self.sum_bits = adders.encryption.sum_bits

    @cached_property
    def sample_groups(self) -> IntArray:
        """The owner group of each sample, under a number that reveals nothing."""
        return self._opaque(self._layout.samples, "samples")

    @cached_property
    def feature_groups(self) -> IntArray:
        """The owner group of each feature, under a number that reveals nothing."""
        return self._opaque(self._layout.features, "features")

    def _opaque(self, axis: Axis, name: str) -> IntArray:
        return opaque_groups(owner_groups(axis), self._adders.group_secret, name)

    @cached_property
    def picks(self) -> dict[str, Pick]:
        """The scheme of each kind of vector, and how full its blocks are."""
        layout, width = self._layout, self._problem.n_outputs
        uses = {
            "samples": Use(
                Arrangement(self.sample_groups),
                width,
                self._drawn_share,
                int(layout.samples.counts.max(initial=1)),
            ),
            "features": Use(
                Arrangement(self.feature_groups),
                width,
                n_summands=int(layout.features.counts.max(initial=1)),
            ),
            "totals": Use(
                Arrangement.together(_USUAL_TOTALS), width, n_summands=layout.n_clients
            ),
        }
        return {kind: self._pick(kind, use) for kind, use in uses.items()}

    def _pick(self, kind: str, use: Use) -> Pick:
        if kind == "features" and self._problem.profile == "open":
            return Pick("none", None)
        name = self._adders.pick(use)
        adder = self._adders.named(name)
        if adder.n_slots is None:
            return Pick(name, None)
        n_slots = use.n_blocks(adder) * adder.n_slots
        return Pick(name, use.arrangement.n_items * use.width / max(n_slots, 1))

    def _adder(self, kind: str) -> Adder:
        scheme = self.picks[kind].scheme
        return PlainAdder() if scheme == "none" else self._adders.named(scheme)

    @cached_property
    def sample_adder(self) -> Adder:
        """What adds vectors by sample."""
        return self._adder("samples")

    @cached_property
    def totals_adder(self) -> Adder:
        """What adds totals."""
        return self._adder("totals")

    def notice(self, client: int) -> Arrangements:
        """Return what a client must know to seal its vectors."""
        layout = self._layout
        schemes = {kind: pick.scheme for kind, pick in self.picks.items()}
        held = {
            "samples": (self.sample_groups, layout.samples.items[client]),
            "features": (self.feature_groups, layout.features.items[client]),
        }
        groups = {
            kind: None if schemes[kind] == "none" else pack_indices(of[items])
            for kind, (of, items) in held.items()
        }
        return Arrangements(
            **schemes,
            sample_groups=groups["samples"],
            feature_groups=groups["features"],
        )

    # Layouts

    def by_sample(self, width: int) -> VectorLayout:
        """Return the layout of vectors by sample."""
        return self._layout_of("samples", width)

    def by_feature(self, width: int) -> VectorLayout:
        """Return the layout of vectors by feature."""
        return self._layout_of("features", width)

    def _layout_of(self, kind: str, width: int) -> VectorLayout:
        if (kind, width) not in self._layouts:
            is_samples = kind == "samples"
            axis = self._layout.samples if is_samples else self._layout.features
            groups = self.sample_groups if is_samples else self.feature_groups
            layout = layout_for(axis, groups, width, self._adder(kind))
            self._layouts[kind, width] = layout
        return self._layouts[kind, width]

    def of_some_samples(
        self, samples: IntArray, axis: Axis, width: int
    ) -> VectorLayout:
        """Return the layout of vectors by some samples, whose holders ``axis`` says."""
        groups = self.sample_groups[samples]
        return layout_for(axis, groups, width, self.sample_adder)

    def by_bucket(
        self, of_client: tuple[IntArray, ...], n: int, width: int
    ) -> VectorLayout:
        """Return the layout of totals per bucket, of which clients have some."""
        is_open = self._problem.profile == "open"
        adder = PlainAdder() if is_open else self.totals_adder
        return layout_for(Axis(n, of_client), np.arange(n), width, adder)
