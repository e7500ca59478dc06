"""Which scheme seals each kind of vector, and how the server stores it.

The server picks a scheme for each kind of vector by the bytes it takes, from those the
study allows, and tells the clients, which refuse others.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.base import Adder
from hyfdca.crypto.schemes.plain import PlainAdder
from hyfdca.crypto.schemes.registry import Adders, Use
from hyfdca.federation.check_items import CheckItems, with_check_items
from hyfdca.federation.messages import Arrangements
from hyfdca.federation.owner_groups import OwnerGroups
from hyfdca.federation.problem import Problem
from hyfdca.federation.sums import (
    VectorLayout,
    checked_layout,
    layout_for,
    whole_layout,
)
from hyfdca.holdings.axis import Axis
from hyfdca.holdings.layout import Layout


class Pick(NamedTuple):
    """The scheme of a kind of vector; how full its blocks are, if it has any."""

    scheme: str
    fill: float | None

    @property
    def text(self) -> str:
        """The choice in words."""
        full = "" if self.fill is None else f", blocks {self.fill:.0%} full"
        return f"{self.scheme}{full}"


class Layouts(dict[tuple[str, int], VectorLayout]):
    """The layouts of vectors by sample or by feature, of a width.

    Those of "drawn samples" have no check rows: their owner groups do not stay whole.
    """

    def __init__(self, vectors: SealedVectors) -> None:
        super().__init__()
        self._vectors = vectors

    def __missing__(self, key: tuple[str, int]) -> VectorLayout:
        """Make a layout when it is first looked up."""
        made = self[key] = self._vectors.new_layout(*key)
        return made


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
        self.layouts = Layouts(self)
        self.sum_bits = adders.encryption.sum_bits

    @cached_property
    def _samples(self) -> OwnerGroups:
        secret = self._adders.group_secret
        return OwnerGroups(self._layout.samples, secret, "samples")

    @cached_property
    def _features(self) -> OwnerGroups:
        secret = self._adders.group_secret
        return OwnerGroups(self._layout.features, secret, "features")

    @property
    def sample_groups(self) -> IntArray:
        """The owner group of each sample, under a number that reveals nothing."""
        return self._samples.numbers

    @property
    def feature_groups(self) -> IntArray:
        """The owner group of each feature, under a number that reveals nothing."""
        return self._features.numbers

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
        }
        picks = {axis: self._pick(axis, use) for axis, use in uses.items()}
        return {**picks, "totals": Pick(self._adders.encryption.totals, None)}

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
        """The adder of vectors by sample."""
        return self._adder("samples")

    def notice(self, client: int) -> Arrangements:
        """Return what a client must know to seal its vectors."""
        samples, features = (
            self.picks[axis].scheme for axis in ("samples", "features")
        )
        by_sample, by_feature = self._samples, self._features
        return Arrangements(
            samples,
            features,
            None if samples == "none" else by_sample.packed(client),
            None if features == "none" else by_feature.packed(client),
            () if samples == "none" else by_sample.owners(client),
            () if features == "none" else by_feature.owners(client),
        )

    # Layouts

    def new_layout(self, kind: str, width: int) -> VectorLayout:
        """Return a layout of vectors by sample or by feature."""
        if kind == "drawn samples":
            own = (self._layout.samples, self.sample_groups)
            return layout_for(*own, width, self.sample_adder)
        adder = self._adder(kind)
        if isinstance(adder, PlainAdder):
            is_samples = kind == "samples"
            axis = self._layout.samples if is_samples else self._layout.features
            return layout_for(axis, np.zeros(axis.n_items, np.int64), width, adder)
        return checked_layout(self._checks[kind], width, adder)

    @cached_property
    def _checks(self) -> dict[str, CheckItems]:
        """The samples and the features, with check rows."""
        return {
            "samples": with_check_items(self._layout.samples, self.sample_groups),
            "features": with_check_items(self._layout.features, self.feature_groups),
        }

    def of_some_samples(
        self, samples: IntArray, axis: Axis, width: int
    ) -> VectorLayout:
        """Return the layout of vectors by some samples; ``axis`` has the holders."""
        groups = self.sample_groups[samples]
        return whole_layout(axis, groups, width, self.sample_adder)

    def by_bucket(
        self, of_client: tuple[IntArray, ...], n: int, width: int
    ) -> VectorLayout:
        """Return the layout of totals per bucket, of which clients have some."""
        axis, groups = Axis(n, of_client), np.arange(n)
        if self._problem.profile == "open":
            return layout_for(axis, groups, width, PlainAdder())
        return layout_for(axis, groups, *self._adders.totals(width))
