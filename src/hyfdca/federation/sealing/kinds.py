"""The kind of a sealed vector, stated by the client that seals it and its opener.

A kind names a sum over holders, not a message: the shares that clients send up and the
weights that they open are of one kind. Keys are derived for each kind, so a vector that
was sealed as one kind and is handed over as another opens to noise.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

SampleKind = Literal[
    "row norms",
    "margins",
    "direction margins",
    "probe margins",
    "duals",
    # Of methods that draw samples: the server replaces and takes single rows
    "drawn margins",
    "drawn duals",
    "dual changes",
    "labels",
    "sample weights",
    "scores",
    "cell counts",
    "held-out scores",
]
FeatureKind = Literal[
    "weights",
    "dual weights",
    "gradients",
    "curvatures",
    "images",
    "slopes",
    "probe weights",
    "statistics",
    "level counts",
]
# Totals that one client opens for the server are of one kind: it reads them all.
# Tags are what a witness adds up to check that.
TotalsKind = Literal["totals", "tags", "weight totals", "target totals"]

Axis = Literal["samples", "features", "totals", "buckets"]


class VectorKind(NamedTuple):
    """The axis of a sealed vector, and its kind."""

    axis: Axis
    name: SampleKind | FeatureKind | TotalsKind

    @property
    def is_checked(self) -> bool:
        """Whether its vectors have check rows: those whose owner groups stay whole."""
        is_by_item = self.axis in ("samples", "features")
        return is_by_item and self.name not in _DRAWN | _GIVEN

    @property
    def has_checked_rows(self) -> bool:
        """Whether each row has a check of its own: it may be handed on alone."""
        return self.name in _GIVEN

    @property
    def is_complete(self) -> bool:
        """Whether its sums have one vector of each holder of a group, all of them."""
        return self.name in _COUNTED


# Kinds of which the server takes or replaces some rows of an owner group.
_DRAWN = frozenset({"drawn margins", "drawn duals", "dual changes"})
_GIVEN = frozenset({"labels", "sample weights"})
# Kinds of which a client would do something else if a part were counted twice.
_COUNTED = frozenset({"statistics", "level counts"})
