"""What a sealed vector is: stated by the client that seals it and the one that opens.

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
    """What a sealed vector is by, and what it is."""

    axis: Axis
    name: SampleKind | FeatureKind | TotalsKind
