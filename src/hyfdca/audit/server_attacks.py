"""What an honest but curious server could infer from its view.

| attack              | from                   | idea                             |
|---------------------|------------------------|----------------------------------|
| margins and weights | the paper, Section 3.1 | b_i = W x_i, solved for x_i      |
| duals and shares    | the paper, Section 3.1 | W = A α, solved for A            |
| share differences   | docs/errata.md, E22    | one changed dual: the row itself |
| plane differences   | docs/errata.md, E22    | planes that differ in one sample |

Each attack reads vectors by force, sealed or not: sealed ones yield noise.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.audit.evidence import Evidence, MarginEquation
from hyfdca.audit.scoring import AttackScore, is_parallel, score

Truth = dict[int, FloatArray]

_MOST_ROWS = 500  # per client, that are solved for
_MOST_DUALS = 2000  # per client, that can be solved for at once
_MOST_PLANES = 150  # per bucket, compared in pairs
_ONE = 1e-3  # largest apparent distance of a dual's change from 1


def margins_and_weights(evidence: Evidence, truth: Truth) -> AttackScore:
    """Solve z_i = W x_i for each row, from margins and their weights."""
    guesses, n_equations = {}, 0
    for client, equations in evidence.margins.items():
        n_rows = min(evidence.facts.n_samples(client), _MOST_ROWS)
        guesses[client] = np.full(truth[client].shape, np.nan)
        guesses[client][:n_rows] = _rows_from(equations, n_rows, truth[client].shape[1])
        n_equations += len(equations)
    return score(guesses, truth, n_equations)


def _rows_from(
    equations: list[MarginEquation], n_rows: int, n_columns: int
) -> FloatArray:
    """Solve for rows; those in the same equations are solved together."""
    n_outputs = equations[0].weights.shape[1]
    margins = np.full((n_rows, len(equations), n_outputs), np.nan)
    for place, equation in enumerate(equations):
        known = equation.rows < n_rows
        margins[equation.rows[known], place] = equation.margins[known]
    weights = np.stack([equation.weights for equation in equations])
    is_known = np.isfinite(margins[:, :, 0])
    rows = np.full((n_rows, n_columns), np.nan)
    for pattern in np.unique(is_known, axis=0):
        if pattern.any():
            alike = np.all(is_known == pattern, axis=1)
            left = weights[pattern].transpose(0, 2, 1).reshape(-1, n_columns)
            right = margins[alike][:, pattern].reshape(alike.sum(), -1)
            rows[alike] = _least_squares(left, right.T).T
    return rows


def duals_and_shares(evidence: Evidence, truth: Truth) -> AttackScore:
    """Solve s = X' α for a client's rows, from its shares and their duals."""
    guesses, n_equations = {}, 0
    for client, equations in evidence.shares.items():
        n_equations += len(equations)
        if evidence.facts.n_samples(client) <= _MOST_DUALS:
            duals = np.hstack([equation.duals for equation in equations])
            shares = np.hstack([equation.share for equation in equations])
            guesses[client] = _least_squares(duals.T, shares.T)
    return score(guesses, truth, n_equations)


def _least_squares(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the shortest solution, after scaling columns to one size."""
    sizes = np.linalg.norm(left, axis=0)
    sizes = np.where(sizes > 0, sizes, 1.0)
    solved = np.linalg.lstsq(left / sizes, right, rcond=None)[0] / sizes[:, None]
    return np.asarray(solved)


def share_differences(evidence: Evidence, truth: Truth) -> AttackScore:
    """Take the difference of two shares between which one dual changed.

    It is the row, times the change of the dual. That factor is the same for all
    holders, and is visible if one of them has the sample's bias cell.
    """
    single = [d for d in evidence.differences if len(d.rows) == 1]
    facts, samples = evidence.facts, evidence.facts.layout.samples
    factors: dict[tuple[int, tuple[int, int]], FloatArray] = {}
    for client, rows, change, period in single:
        place = facts.bias_place(client)
        row = int(rows[0])
        if place is not None and facts.layout.counts_samples(client)[row]:
            sample = int(samples.items[client][row])
            factors[sample, period] = change[place] / facts.bias
    guesses = {client: np.full(table.shape, np.nan) for client, table in truth.items()}
    largest: dict[tuple[int, int], float] = {}
    for client, rows, change, period in single:
        row = int(rows[0])
        column = int(np.abs(change).max(axis=0).argmax())
        size = float(np.abs(change[:, column]).max())
        if size > largest.get((client, row), 0.0):
            sample = int(samples.items[client][row])
            factor = factors.get((sample, period), np.ones(change.shape[1]))[column]
            largest[client, row] = size
            guesses[client][row] = change[:, column] / (factor or 1.0)
    return score(guesses, truth, len(single))


def plane_differences(evidence: Evidence, truth: Truth) -> AttackScore:
    """Take the difference of two slopes whose planes differ in one sample.

    With the hinge loss duals are 0 or the label, so the bias entries of such slopes
    differ by exactly one bias cell, or the balances of such planes by 1. The server
    cannot tell which row it is; here the truth identifies it if the difference is
    parallel to a row.
    """
    guesses = {client: np.full(table.shape, np.nan) for client, table in truth.items()}
    n_pairs = 0
    for (client, bucket), planes in list(evidence.slopes.items()):
        names = list(planes)[:_MOST_PLANES]
        for one, other in combinations(names, 2):
            factor = evidence.changed(client, bucket, one, other)
            if factor is None or abs(abs(factor) - 1.0) > _ONE:
                continue
            n_pairs += 1
            for holder in truth:
                theirs = evidence.slopes.get((holder, bucket), {})
                if one in theirs and other in theirs:
                    row = (theirs[one] - theirs[other]) / factor
                    _name(row, truth[holder], guesses[holder])
    return score(guesses, truth, n_pairs)


def _name(row: FloatArray, table: FloatArray, guess: FloatArray) -> None:
    """Store a row as the guess for every true row it is parallel to."""
    same = is_parallel(np.broadcast_to(row, table.shape), table)
    guess[same] = row


ATTACKS: dict[str, Callable[[Evidence, Truth], AttackScore]] = {
    "margins and weights": margins_and_weights,
    "duals and shares": duals_and_shares,
    "share differences": share_differences,
    "plane differences": plane_differences,
}
