"""A client's half of a path; see path_server.py.

Points stand one after the other, each with all outputs: one per fit that needs its own.
Planes and losses are summed by fold, so each of them serves every fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.bundle.asked import Asked
from hyfdca.algorithms.bundle.client import BundleClient, BundleClientState
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.federation.client import Party, check_few
from hyfdca.federation.messages import Opened, OpenRequest, Released, Vouched
from hyfdca.federation.path import Path
from hyfdca.maths.loss_kernels import grouped_sums_along
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError, pack_reals
from hyfdca.protocol.messages import Message

_ROUNDING = 1e-9  # of shares, which come from sums on a grid


@dataclass(frozen=True, repr=False)
class PathClientState:
    """What a checkpoint keeps of a client's half."""

    bundle: BundleClientState
    l2s: tuple[float, ...]
    fits: list[int]
    shares: tuple[float, ...]
    finished: dict[int, FloatArray]


class PathClient(BundleClient):
    """State: that of the bundle method at the points of several fits."""

    def __init__(self, party: Party, asked: Asked, path: Path) -> None:
        if party.block.folds is None:
            raise ValueError("Choosing l2 needs the fold of every row.")
        super().__init__(party, asked)
        self._path, self._folds = path, party.block.folds.astype(np.uint32)
        self._rows_of_folds = [
            np.flatnonzero(self._folds == fold) for fold in range(path.n_folds)
        ]
        self._fits = [path.whole(0)]
        self._shares: tuple[float, ...] = ()
        self._finished: dict[int, FloatArray] = {}  # weights of fits of all rows

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **super().handlers,
            "folds": self._fold_weights,
            "open folds": self._open_folds,
            "fits": self._take_fits,
        }

    def state(self) -> PathClientState:  # type: ignore[override]
        """Return what a checkpoint keeps."""
        bundle = super().state()
        return PathClientState(
            bundle, self._path.l2s, self._fits, self._shares, self._finished
        )

    def restore(self, state: PathClientState) -> None:  # type: ignore[override]
        """Take a state."""
        super().restore(state.bundle)
        self._path = self._path.restored(state.l2s)
        self._fits, self._shares = list(state.fits), state.shares
        self._finished, self.n_points = dict(state.finished), len(state.fits)

    # Folds

    def _take_buckets(self, notice: b.BucketsNotice) -> None:
        """Take the buckets, each divided into its folds."""
        super()._take_buckets(notice)
        n_folds = self._path.n_folds
        self.buckets = self.buckets * np.uint32(n_folds) + self._folds
        numbers = self.bucket_arrangement.groups[:, None] * n_folds
        self.n_buckets *= n_folds
        parts = (numbers + np.arange(n_folds)).ravel()
        self.bucket_arrangement = Arrangement(parts)
        sizes = np.bincount(self.buckets)
        smallest = int(sizes[sizes > 0].min(initial=self.party.n_held))
        check_few(self.party.least_rows, smallest, "a fold of a bucket")

    def _fold_weights(self, request: b.FoldsRequest) -> Message:
        """Return the weight of the samples counted here, by fold, over N."""
        weights = self.counted.mean(axis=1)
        sums = np.bincount(self._folds, weights, minlength=self._path.n_folds)
        means = sums / self.party.problem.n_samples
        return self._sealing.total_part("totals", means, request.grid)

    def _open_folds(self, request: OpenRequest) -> Opened | Vouched:
        return self.party.open_totals(request, [[(1, self._path.n_folds)]])

    # The fits that have a point

    def _take_fits(self, notice: b.FitsNotice) -> None:
        self._check_fits(notice)
        self._check_shares(notice.shares)
        self._check_largest(notice.largest_l2)
        self._apply_step(notice.move)
        for fit in set(self._fits) - set(notice.fits):
            if self._path.is_whole(fit):
                self._finished[fit] = self.best_weights[:, self._columns([fit])]
        columns = self._columns(notice.sources)
        self.best_weights = self.best_weights[:, columns]
        self.weights = self.weights[:, columns]
        self.best_margins = self.best_margins[:, columns]
        self.margins = self.margins[:, columns]
        self._intercepts = self._intercepts[columns]
        if notice.largest_l2 is not None:
            self._path = self._path.scaled(notice.largest_l2)
        self._fits, self._shares = list(notice.fits), notice.shares
        self.n_points = len(notice.fits)

    def _columns(self, fits: list[int]) -> IntArray:
        """Return the columns of the points of some fits."""
        n_outputs = self.party.problem.n_outputs
        places = np.array([self._fits.index(fit) for fit in fits])
        return (places[:, None] * n_outputs + np.arange(n_outputs)).ravel()

    def _check_fits(self, notice: b.FitsNotice) -> None:
        """Refuse fits that the study does not have, or that begin at no known point."""
        fits, sources = notice.fits, notice.sources
        is_ascending = bool(fits) and fits == sorted(set(fits))
        if not is_ascending or fits[-1] >= self._path.n_fits:
            raise RemoteProtocolError("the study has no such fits")
        if len(sources) != len(fits) or not set(sources) <= set(self._fits):
            raise RemoteProtocolError("a fit begins at the point of another fit")
        pairs = zip(fits, sources, strict=True)
        if any(fit in self._fits and fit != source for fit, source in pairs):
            raise RemoteProtocolError("a fit that has a point continues from there")
        if set(fits) & set(self._finished):
            raise RemoteProtocolError("a fit that has finished does not begin again")

    def _check_shares(self, shares: tuple[float, ...]) -> None:
        """Refuse shares of folds that do not fit together."""
        n_folds = self._path.n_folds
        is_whole = abs(sum(shares) - (n_folds - 1)) <= _ROUNDING * n_folds
        if len(shares) != n_folds or not is_whole or min(shares) <= 0:
            raise RemoteProtocolError("the shares of the folds are invalid")
        if self._shares not in ((), shares):
            raise RemoteProtocolError("the shares of the folds have changed")

    def _check_largest(self, given: float | None) -> None:
        """Refuse other λ than those of the study file, or another largest one."""
        if self._path.is_auto != (given is not None):
            raise RemoteProtocolError("the strengths of the penalty were already sent")

    def _l2s(self) -> FloatArray:
        """Return λ of the fits that have a point, by column."""
        l2s = [self._path.l2_of(fit, self._shares) for fit in self._fits]
        return np.repeat(l2s, self.party.problem.n_outputs)

    def _l2_scales(self) -> FloatArray:
        """Return λN of the points, by column."""
        return self._l2s() * self.party.problem.n_samples

    # What a search measures

    def _measured(self, steps: FloatArray) -> FloatArray:
        """Return λ/2 ||w||², then the loss of each fold, at some steps.

        The shape is (1 + folds, steps, columns) with the first two as one.
        """
        penalties = self._l2s() * self._penalties_along(steps)
        shape = (self._path.n_folds, *penalties.shape)
        losses = np.zeros(shape)
        if self.party.block.labels is not None:
            losses = self._fold_losses(steps, self.party.block.labels)
        return np.concatenate([penalties[None], losses]).reshape(-1, shape[-1])

    def _fold_losses(self, steps: FloatArray, labels: FloatArray) -> FloatArray:
        """Return the losses over N of the samples counted here, at worst."""
        problem, n_folds = self.party.problem, self._path.n_folds
        if not self.party.block.counts_sample.any():
            return np.zeros((n_folds, len(steps), self.best_margins.shape[1]))
        loss, errors = problem.loss.covering(self._margin_errors())
        sums = grouped_sums_along(
            loss,
            self.best_margins,
            self.margins,
            labels,
            self.counted,
            steps,
            self._folds,
            n_folds,
        )
        by_point = sums.reshape(n_folds, len(steps), self.n_points, -1)
        for fold, rows in enumerate(self._rows_of_folds):
            own = by_point[fold]
            own[:] = loss.above(own, errors[rows], self.counted[rows])
        return sums / problem.n_samples

    def _open_search(self, request: OpenRequest) -> Opened | Vouched:
        n_columns = self.weights.shape[1]
        return self._open_measured(request, (1 + self._path.n_folds) * n_columns)

    def _release(self, request: b.MovedRelease) -> Released:
        """Give away the weights of one fit of all rows."""
        best, fit = self._weights_after(request.move), request.fit
        if fit is None or not self._path.is_whole(fit):
            raise RemoteProtocolError("only a fit of all rows is released")
        if fit in self._fits:
            weights = best[:, self._columns([fit])]
        elif fit in self._finished:
            weights = self._finished[fit]
        else:
            raise RemoteProtocolError("this fit has not begun")
        return Released(pack_reals(weights))
