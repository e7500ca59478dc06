"""A client's side of a training: its block, and what all algorithms do with it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from hyfdca.arrays import BoolArray, FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import (
    power_above,
)
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.federation import messages as m
from hyfdca.federation.grids import check_bounds
from hyfdca.federation.problem import Problem
from hyfdca.federation.sealing.client_sealing import MOST_GROUPS, Rows, Sealing
from hyfdca.federation.sealing.kinds import SampleKind
from hyfdca.federation.sealing.opening import Opening
from hyfdca.federation.sums import EVERYWHERE
from hyfdca.holdings.axis import is_same_partition
from hyfdca.holdings.block import Block
from hyfdca.maths.kernels import add_row_combination, row_norms, row_products, unsigned
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import (
    RefusedError,
    RemoteProtocolError,
    unpack_counts,
    unpack_places,
)
from hyfdca.protocol.messages import Message, Sums


def check_few(
    least: int, n_rows: int, what: str, remedy: str = "have more rows put together"
) -> None:
    """Refuse a sum over fewer rows than a client's policy allows; none is no sum.

    Parameters
    ----------
    remedy : str
        What else than to lower the policy's limit would help.

    Raises
    ------
    RefusedError
    """
    if 0 < n_rows < least:
        raise RefusedError(
            f"its policy.toml wants at least {least} of its rows in every sum, but "
            f"{what} has {n_rows}; {remedy}, or lower least_rows"
        )


def check_same_in_groups(
    block: Block, values: FloatArray | IntArray, what: str, rows: Rows = EVERYWHERE
) -> None:
    """Refuse values by row that differ between rows with the same holders.

    Otherwise a server could single out a row where only its holders matter.

    Parameters
    ----------
    rows : array of int or slice
        The rows that the values are of.
    """
    if block.row_groups is None:
        return
    groups = block.row_groups[rows]
    _, first, places = np.unique(groups, return_index=True, return_inverse=True)
    if np.any(values != values[first][places]):
        raise RemoteProtocolError(f"{what} differ between rows with the same holders")


def _check_aligned(
    payload: memoryview | None, n_items: int, aligned: IntArray | None, what: str
) -> None:
    """Refuse other owner groups than those of the alignment.

    What a server may leave out of a sum are whole groups: of its own choice, they would
    be single items. A bias, which comes last, has no group in the alignment.
    """
    if payload is None or aligned is None:
        return
    groups = unpack_places(payload, n_items, MOST_GROUPS)[: len(aligned)]
    if not is_same_partition(groups, aligned):
        raise RemoteProtocolError(f"{what} have other groups than when aligned")


def grid_step(sums: Sums) -> float:
    """Return the width of the coarsest grid in a sum."""
    return max((2.0**-vector.fraction_bits for vector in sums), default=0.0)


class Party:
    """The basis of an algorithm's client half: all it knows and may do.

    Parameters
    ----------
    problem : Problem
        The problem to solve.
    block : Block
        The client's own data.
    rank : int
        The client's number in the federation.
    is_complete : bool
        Whether every client takes part in every round.
    seed : int
        The seed of everything that the algorithm draws.
    n_clients : int
        The number of clients in the federation.
    least_rows : int
        The least number of its own rows in a sum, by the client's policy.
    """

    def __init__(  # noqa: PLR0913  # most of them by name
        self,
        problem: Problem,
        block: Block,
        sealers: Sealers,
        *,
        rank: int = 0,
        is_complete: bool = True,
        seed: int = 0,
        n_clients: int = 1,
        least_rows: int = 1,
    ) -> None:
        X = block.X
        self.problem, self.block = problem, block
        self.rank, self.is_complete, self.seed = rank, is_complete, seed
        self.n_clients, self.least_rows = n_clients, least_rows
        self.sealing = Sealing(problem.profile, sealers, X.shape, problem.n_outputs)
        # Opens grand totals and reports them, or vouches for the client that does
        self.open_totals = Opening(self.sealing, rank).answer
        self.n_held, self.n_features = X.shape
        # The block as kernels take it
        self.csr: tuple[Any, Any, Any] = (
            unsigned(X.indptr),
            unsigned(X.indices),
            X.data,
        )
        # All rows as kernels take them, of which some are ``every_row[rows]``
        self.every_row = np.arange(self.n_held, dtype=np.uint32)
        # Known after set-up
        self.squared_norms = np.zeros((self.n_held, 1))
        self.curvatures = np.zeros((self.n_held, problem.n_outputs))
        self.sample_holders = np.ones(self.n_held, np.int64)
        self.label_holders = np.ones(self.n_held, np.int64)
        self.feature_holders = np.ones(self.n_features, np.int64)

    @property
    def handlers(self) -> Handlers:
        """What every client does in set-up."""
        return {
            "arrange": self._arrange,
            "bounds": self._bounds,
            "norms": self._norms,
            "prepare": self._prepare,
        }

    @property
    def labels(self) -> FloatArray:
        """The labels of the client's samples; refuses to continue without them."""
        if self.block.labels is None:
            raise RemoteProtocolError("this client has no labels")
        return self.block.labels

    # Set-up

    def _arrange(self, notice: m.Arrangements) -> None:
        """Take schemes and owner groups, if the groups are those of the alignment."""
        rows, features = self.block.row_groups, self.block.feature_groups
        _check_aligned(notice.sample_groups, self.n_held, rows, "rows")
        _check_aligned(notice.feature_groups, self.n_features, features, "features")
        self.sealing.arrange(notice)

    def _bounds(self, _: Message) -> m.Bounds:
        """Return public bounds on this client's numbers, for choosing grids.

        Powers of two: for the squared losses the steepest slope itself is a label.
        """
        loss_at_zero = slope = 0.0
        if self.block.labels is not None and self.n_held:
            zero = self.at_start(self.n_held)
            losses = self.weighted(self.problem.loss.value(zero, self.block.labels))
            loss_at_zero = float(losses[self.block.counts_sample].sum())
            slope = float(
                np.abs(self.problem.loss.derivative(zero, self.block.labels)).max()
            )
        columns = np.zeros((self.n_features, self.problem.n_outputs))
        counts = self.weighted(np.ones((self.n_held, self.problem.n_outputs)))
        indptr, indices, data = self.csr
        add_row_combination(
            indptr, indices, np.abs(data), self.every_row, counts, columns
        )
        bounds = m.Bounds(
            row_norm=power_above(float(self.partial_norms.max(initial=0.0))),
            column_sum=power_above(float(columns.max(initial=0.0))),
            slope_at_zero=power_above(slope),
            loss_at_zero=power_above(loss_at_zero),
        )
        try:  # a message may not even have room for them
            check_bounds(bounds)
        except ValueError as error:
            raise RefusedError(str(error)) from None
        return bounds

    def _norms(self, request: m.GridRequest) -> Message:
        return self.sealing.sample_part("row norms", self.partial_norms, request.grid)

    def _prepare(self, request: m.Prepare) -> None:
        """Take the set-up sums: ||x_i||² and how many clients hold what."""
        squared_norms = self.sealing.opened_samples("row norms", request.norms, width=1)
        sample_holders = unpack_counts(request.sample_holders, self.n_held)
        label_holders = unpack_counts(request.label_holders, self.n_held)
        feature_holders = unpack_counts(request.feature_holders, self.n_features)
        for counts in (sample_holders, label_holders, feature_holders):
            if counts.max(initial=1) > self.n_clients:
                raise RemoteProtocolError("an item has more holders than clients")
        check_same_in_groups(self.block, sample_holders, "counts of holders")
        check_same_in_groups(self.block, label_holders, "counts of holders")
        self.squared_norms, self.sample_holders = squared_norms, sample_holders
        self.label_holders, self.feature_holders = label_holders, feature_holders
        self.curvatures = self.plain_curvatures()

    def plain_curvatures(self) -> FloatArray:
        """Return ||x_i||²/(λN) of each sample, by output."""
        shape = (self.n_held, self.problem.n_outputs)
        norms = np.broadcast_to(self.squared_norms, shape)
        return self.weighted(norms) / self.problem.l2_scale

    # Margins

    def margins(
        self,
        sums: Sums,
        rows: Rows = EVERYWHERE,
        n_points: int = 1,
        kind: SampleKind = "margins",
    ) -> FloatArray:
        """Return the margins of some rows, offsets included, from sums of their parts.

        The caller adds a free intercept. Several points come one after the other, each
        with all outputs.
        """
        width = n_points * self.problem.n_outputs
        opened = self.sealing.opened_samples(kind, sums, rows, width)
        return opened if self.block.offsets is None else self.with_offsets(opened, rows)

    def with_offsets(self, margins: FloatArray, rows: Rows = EVERYWHERE) -> FloatArray:
        """Return x_i·w + o_i of some rows."""
        offsets = self.block.offsets
        if offsets is None:
            return margins
        n_points = margins.shape[1] // offsets.shape[1]
        return np.asarray(margins + np.tile(offsets[rows], n_points))

    def unpacked_intercepts(
        self, given: tuple[float, ...], n_columns: int | None = None
    ) -> FloatArray:
        """Return the intercepts of points, zero where the study has none.

        Parameters
        ----------
        n_columns : int, optional
            The columns of the points; by default one per output.
        """
        problem, size = self.problem, n_columns or self.problem.n_outputs
        if len(given) != (size if problem.free_intercept else 0):
            raise RemoteProtocolError("there must be an intercept for each output")
        return np.array(given) if given else np.zeros(size)

    def at_start(self, n_rows: int) -> FloatArray:
        """Return the margins at w = 0, of all rows or of none."""
        return self.with_offsets(
            np.zeros((n_rows, self.problem.n_outputs)), slice(n_rows)
        )

    def conjugates(self, duals: FloatArray, rows: Rows | BoolArray) -> FloatArray:
        """Return l_i*(-α_i) of some rows; with an offset o, that of l(z + o)."""
        own = self.problem.loss.conjugate(duals, self.labels[rows])
        offsets = self.block.offsets
        return own if offsets is None else own + duals * offsets[rows]

    # The block

    def products(self, rows: Rows, weights: FloatArray) -> FloatArray:
        """Return x_{k,i}·w of some rows."""
        out = np.empty(
            (self.n_held if isinstance(rows, slice) else len(rows), weights.shape[1])
        )
        row_products(*self.csr, self.every_row[rows], weights, out)
        return out

    def combine(self, rows: Rows, coefficients: FloatArray) -> FloatArray:
        """Return Σ_j coefficients_j x_{rows_j}."""
        out = np.zeros((self.n_features, coefficients.shape[1]))
        add_row_combination(*self.csr, self.every_row[rows], coefficients, out)
        return out

    def combine_squares(self, coefficients: FloatArray) -> FloatArray:
        """Return Σ_i coefficients_i x_{k,i}², by feature, over all rows."""
        out = np.zeros((self.n_features, coefficients.shape[1]))
        indptr, indices, data = self.csr
        add_row_combination(indptr, indices, data**2, self.every_row, coefficients, out)
        return out

    def weighted(
        self, values: FloatArray, rows: Rows | BoolArray = EVERYWHERE
    ) -> FloatArray:
        """Return values of samples (of some rows) times the weights of the samples."""
        weights = self.block.sample_weights
        if weights is None:
            return values
        return values * weights[rows]

    @cached_property
    def partial_norms(self) -> FloatArray:
        """||x_{k,i}||² of the client's own part of each row, (samples held, 1)."""
        norms = np.empty((self.n_held, 1))
        row_norms(*self.csr, norms)
        return norms
