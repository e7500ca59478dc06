"""Runs of every kind: methods, shapes, profiles, presence, labels and encryptions."""

from __future__ import annotations

import heapq
import itertools
from typing import NamedTuple

import numpy as np

from hyfdca.holdings.participation import cyclic
from tests.support.sealed_runs import ENCRYPTIONS, keys_of
from tests.support.small_runs import classification, make_training, partition_of

N_SAMPLES, N_FEATURES = 48, 6
BIAS = 1.0

SHAPES = {"horizontal": "3x1", "vertical": "1x3", "grid": "2x2", "overlapping": None}

METHODS = {
    "drawn": {"step": "paper", "local_steps": 5, "refresh": "drawn"},
    "all": {"step": "paper", "local_steps": 5, "refresh": "all"},
    "theory": {"variant": "theory", "step": "paper"},
    "safe": {"step": "safe", "local_fraction": 0.5},
    "search": {"step": "line_search"},
    "bundle": {"algorithm": "bundle"},
    "lbfgs": {"algorithm": "lbfgs", "loss": "logistic"},
}
# Those that keep more: shares that were shown, duals that were delivered.
MORE_METHODS = {
    "rows": {"step": "safe", "local_fraction": 0.5, "min_rows": 3},
    "wide": {"algorithm": "bundle"},
}

AXES = {
    "method": list(METHODS),
    "shape": list(SHAPES),
    "profile": ["open", "sealed"],
    "presence": ["complete", "partial"],
    "labels": ["all", "some"],
    "n_outputs": [1, 2],
    "encryption": list(ENCRYPTIONS),
}


class Case(NamedTuple):
    """A value of each axis."""

    method: str
    shape: str
    profile: str
    presence: str
    labels: str
    n_outputs: int
    encryption: str

    @property
    def is_possible(self) -> bool:
        """Whether there is such a run."""
        searches_alone = self.method == "search" and self.presence == "partial"
        unlabelled = self.shape == "horizontal" and self.labels == "some"
        return not searches_alone and not unlabelled

    @property
    def size(self):
        """How many samples and features there are."""
        return (18, 24) if self.method == "wide" else (N_SAMPLES, N_FEATURES)

    def table(self):
        """Return the rows and labels of all clients together."""
        X, y = classification(*self.size, noise=0.5)
        others = np.where(X.toarray()[:, :1] > 0.1, 1.0, -1.0)
        return X, np.hstack([y, others])[:, : self.n_outputs]

    def run(self, encryption, **given):
        """Return the run with some encryption."""
        partition = partition_of(SHAPES[self.shape] or "overlapping", *self.size)
        n_clients = partition.n_clients
        is_partial = self.presence == "partial"
        turns = [[0, 1], [1, 2], [0, n_clients - 1], []]
        # Where everybody is waited for, few rounds would come to nothing.
        waits = is_partial and self.method in ("bundle", "lbfgs", "wide")
        return make_training(
            *self.table(),
            partition,
            profile=self.profile,
            labelled=_labelled(self.labels, n_clients),
            participation=cyclic(turns) if is_partial else None,
            bias=BIAS,
            encryption=encryption,
            **{
                "keys": keys_of(encryption),
                "max_rounds": 16 if waits else 4,
                **{**METHODS, **MORE_METHODS}[self.method],
                **given,
            },
        )


def _labelled(labels, n_clients):
    """Return who has labels: all, all but the first, or every other, the first too."""
    if labels == "others":
        return [k > 0 for k in range(n_clients)]
    return None if labels == "all" else [k % 2 == 0 for k in range(n_clients)]


def cases_of(axes):
    """Return all cases that there are with these values."""
    cases = map(Case._make, itertools.product(*axes.values()))
    return [case for case in cases if case.is_possible]


def _pairs(case):
    return set(itertools.combinations(case._asdict().items(), 2))


def covering(cases):
    """Return few cases in which every two values that go together do so once.

    The next is always the first of those with most missing pairs. Their numbers only
    fall, so a case is counted again only when it seems to be the next.
    """
    pairs = [_pairs(case) for case in cases]
    missing = set().union(*pairs)
    queue = [(-len(own), number) for number, own in enumerate(pairs)]
    heapq.heapify(queue)
    chosen = []
    while missing:
        _, number = heapq.heappop(queue)
        counted = (-len(pairs[number] & missing), number)
        if queue and queue[0] < counted:
            heapq.heappush(queue, counted)
            continue
        missing -= pairs[number]
        chosen.append(cases[number])
    return chosen


def coarsen(run):
    """Put the next vectors of rounds on coarser grids, as if some did not fit."""
    grids = run.federation.grids
    for grid in (grids.duals, grids.margins, grids.shares, grids.totals):
        grid.coarsen()


def name_of(case):
    """Return the values of a case for people."""
    return "-".join(map(str, case))
