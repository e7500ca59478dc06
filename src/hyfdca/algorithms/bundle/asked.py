"""Ensures that a client answers only what an honest server asks.

A client has its own copy of the study file, and so knows the method and its settings.
Whatever the server sends is checked against them before anything is computed:

* **Points.** A trial point of the sealed profile is a mixture of planes: in each
  bucket the weights are not negative and add up to at most 1; the rest is the weight
  of the plane of α = 0, which has no slope. L-BFGS goes beyond its planes, so there
  weights are free, but all samples are in one bucket.
* **Places and steps.** New planes touch, and P is measured, where the method says.
* **Buckets.** A holder of a sample has all samples of its owner group. So it sees
  whether a bucket divides a group, and which part it takes. In the sealed profile
  buckets are unions of whole owner groups. In the open profile a group is divided into
  at most ``sub_groups`` parts, of at least ``min_group_size`` samples if it is divided
  at all. A whole group may be smaller: two organisations may share two rows only.
* **Totals.** The client that opens what was measured opens as many numbers as P has
  along the steps, or as new planes have offsets and Gram entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.bundle.settings import (
    PATH_PLACES,
    PLACES,
    TRIAL_STEPS,
    VISIT_PLACES,
    WIDE_CANDIDATES,
    WIDE_PLACES,
    BundleSettings,
)
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.problem import Problem
from hyfdca.protocol.codec import RemoteProtocolError

Collection = tuple[tuple[float, ...], tuple[b.Candidate, ...]]

# The server divides weights by their sum. A sum of n rounded numbers is off by at most
# n · 2^-53 of itself, and there are at most thousands of planes in a bucket.
_ROUNDING = 1e-9

_AT_START, _ALONG = [0.0], TRIAL_STEPS.tolist()
N_STEPS = (len(_AT_START), len(_ALONG))  # at which a search may measure P


@dataclass(frozen=True)
class PlaneNumbers:
    """How planes are numbered: by collection, then by bucket; first those of α = 0."""

    n_buckets: int  # of all clients
    n_planes: tuple[int, ...] = ()  # per bucket, by collection

    def with_collection(self, first: int, n_planes: int) -> PlaneNumbers:
        """Return the numbers with one more collection, or with the last one repeated.

        Raises
        ------
        RemoteProtocolError
            If the collection cannot begin with this number.
        """
        starts = self._starts.tolist()
        if first == starts[-1]:
            return PlaneNumbers(self.n_buckets, (*self.n_planes, n_planes))
        if first == starts[-2:][0] and self.n_planes[-1:] == (n_planes,):
            return self
        raise RemoteProtocolError("planes are numbered by collection and bucket")

    @property
    def _starts(self) -> IntArray:
        """The first number of each collection, and that of the next one."""
        sizes = self.n_buckets * np.array((1, *self.n_planes))
        return np.cumsum(sizes)

    def buckets_of(self, numbers: IntArray) -> IntArray:
        """Return the buckets of sloped planes."""
        starts, n_planes = self._starts, np.array(self.n_planes, np.int64)
        collections = np.searchsorted(starts, numbers, side="right") - 1
        return np.asarray((numbers - starts[collections]) // n_planes[collections])


@dataclass(frozen=True)
class Asked:
    """What the study's algorithm asks.

    Parameters
    ----------
    collections : tuple of (places, candidates)
        Where planes of one collection touch, and the steps that give planes too.
    is_mixture : bool
        Whether trial points are mixtures of planes.
    most_parts, min_part : int
        The most parts of an owner group that are buckets, and their least size.
    max_buckets : int
        The most buckets over all clients.
    """

    collections: tuple[Collection, ...]
    is_mixture: bool
    most_parts: int
    min_part: int
    max_buckets: int

    def check_planes(self, request: b.PlanesRequest) -> None:
        """Refuse planes that touch the loss elsewhere."""
        asked = (tuple(request.places), tuple(request.candidates))
        if asked not in self.collections:
            raise RemoteProtocolError("the method has no planes at these places")
        if bool(request.candidates) != (request.mixture is not None):
            raise RemoteProtocolError("candidates come with the duals they start from")

    def check_count(self, n_planes: int, n_points: int = 1) -> None:
        """Refuse another number of planes per bucket than the method collects."""
        if n_planes not in {n_points * (len(p) + len(c)) for p, c in self.collections}:
            raise RemoteProtocolError(f"the method collects no {n_planes} planes")

    def check_weights(
        self, weights: FloatArray, buckets: IntArray, n_buckets: int
    ) -> None:
        """Refuse weights of planes, (planes, outputs), that are not a mixture."""
        if not self.is_mixture:
            return
        sums = np.zeros((n_buckets, weights.shape[1]))
        np.add.at(sums, buckets, weights)
        if np.any(weights < 0) or np.any(sums > 1 + _ROUNDING):
            raise RemoteProtocolError(
                "the weights of planes are not a mixture: they must not be negative, "
                "nor add up to more than 1 in a bucket"
            )

    def check_buckets(self, groups: IntArray, buckets: IntArray) -> None:
        """Refuse buckets that divide an owner group more finely than the study says."""
        width = int(buckets.max(initial=0)) + 1
        parts, sizes = np.unique(groups * width + buckets, return_counts=True)
        n_parts = np.bincount(parts // width)[parts // width]
        is_fine = (n_parts > 1) & (sizes < self.min_part)
        if np.any(is_fine) or np.any(n_parts > self.most_parts):
            raise RemoteProtocolError(
                "buckets divide rows that have the same holders more finely than the "
                "study allows"
            )


def asked_by_bundle(settings: BundleSettings, problem: Problem) -> Asked:
    """Return what the bundle method asks."""
    is_sealed = problem.profile == "sealed"
    usual: tuple[Collection, ...] = ((PLACES, ()), (WIDE_PLACES, WIDE_CANDIDATES))
    return Asked(
        collections=usual if problem.path is None else ((PATH_PLACES, ()),),
        is_mixture=True,
        most_parts=1 if is_sealed else settings.sub_groups,
        min_part=settings.min_group_size,
        max_buckets=settings.max_buckets,
    )


# At the best point, or where limits of a free intercept are sought.
ASKED_BY_LBFGS = Asked(
    (((0.0,), ()), ((1.0,), ())),
    is_mixture=False,
    most_parts=1,
    min_part=1,
    max_buckets=1,
)


def check_steps(request: b.SearchRequest) -> None:
    """Refuse to measure P at other steps than those of the line search."""
    if request.steps not in (_AT_START, _ALONG):
        raise RemoteProtocolError("the method does not measure P at these steps")


def check_visit(request: b.VisitPlanesRequest) -> None:
    """Refuse planes of a visit that touch elsewhere."""
    if tuple(request.places) != VISIT_PLACES:
        raise RemoteProtocolError("the method has no planes at these places")
