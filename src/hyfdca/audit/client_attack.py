"""What a curious client could infer from the others' part of its margins.

A holder with labels receives the margins of its samples, and knows its own part of
them. The rest, over rounds, is Z = X W, where X is the other holders' part of these
samples (docs/errata.md, E21). If all duals are known too, W = X'A / (λN), and

    X X' = λN Z (A'Z)⁺ Z',

the others' Gram matrix, summed over them. Moreover, the columns of Z span those of X:
as many fully known rows of X as X has columns, if they are independent, are enough to
compute all others. Sparse columns need no known row at all (``sparse_attack``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.audit.facts import Facts, rows_of
from hyfdca.audit.reading import heard
from hyfdca.audit.scoring import AttackScore, score
from hyfdca.audit.spans import span_of
from hyfdca.audit.views import Record
from hyfdca.holdings.exposure import counted_columns, has_nothing_to_find

_TOTALS = ("step", "direction", "search", "touch")  # phases that deliver margins
_PARTS = ("margins", "trial", "evaluate")  # in which the client returns its part
_MOST = 2000  # samples per group; more are not needed to demonstrate the attack
_NO_NUMBER = 1e-11  # smaller singular values, relative to the largest, are rounding


@dataclass
class Overheard:
    """What a client knows after each round: margins, its part of them, its duals."""

    facts: Facts
    client: int
    totals: list[FloatArray] = field(default_factory=list)
    own: list[FloatArray] = field(default_factory=list)
    duals: list[FloatArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start where everything is zero."""
        shape = (self.facts.n_samples(self.client), self.facts.n_outputs)
        self._part, self._duals = np.zeros(shape), np.zeros(shape)
        self._rows = np.arange(shape[0])
        self._parts: list[FloatArray] = []  # of the points of a path

    def listen(self, records: Iterable[Record]) -> Overheard:
        """Read a client's view; return self."""
        for record in records:
            if record.direction == "down":
                self._note_rows(record)
            elif record.kind == "samples":
                self._note_numbers(record, record.numbers())
        return self

    def _note_rows(self, record: Record) -> None:
        message = heard(record).message
        positions = getattr(message, "positions", getattr(message, "drawn", None))
        self._rows = rows_of(positions, self.facts.n_samples(self.client))

    def _note_numbers(self, record: Record, values: FloatArray) -> None:
        n_outputs = self.facts.n_outputs
        if len(values) != len(self._rows) or values.shape[1] % n_outputs:
            return
        is_part = record.direction == "sealed" and record.phase in _PARTS
        if values.shape[1] != n_outputs:
            self._note_points(record, values, is_part)
        elif is_part:
            self._part[self._rows] = values
        elif record.direction == "opened" and record.phase == "shares":
            self._duals[self._rows] = values
        elif record.direction == "opened" and record.phase in _TOTALS:
            margins = np.full(self._part.shape, np.nan)
            margins[self._rows] = values
            self.totals.append(margins)
            self.own.append(self._part.copy())
            self.duals.append(self._duals.copy())

    def _note_points(self, record: Record, values: FloatArray, is_part: bool) -> None:
        """Take the margins of several points of a path, one after the other."""
        n_points = values.shape[1] // self.facts.n_outputs
        if is_part:
            self._parts = np.split(values, n_points, axis=1)
        elif record.phase == "search" and len(self._parts) == n_points:
            self.totals += np.split(values, n_points, axis=1)
            self.own += self._parts
            self.duals += [self._duals.copy() for _ in range(n_points)]

    def others(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return Z and A of the rounds that included all these rows."""
        z, a = [np.empty((len(rows), 0))], [np.empty((len(self._duals), 0))]
        for total, own, duals in zip(self.totals, self.own, self.duals, strict=True):
            rest = (total - own)[rows]
            if np.all(np.isfinite(rest)):
                z.append(rest)
                a.append(duals)
        return np.hstack(z), np.hstack(a)


@dataclass(frozen=True)
class Group:
    """A client's samples that the same other clients hold."""

    rows: IntArray
    samples: IntArray
    others: tuple[int, ...]


@dataclass(frozen=True)
class RotationScore:
    """What a client found out about one group of samples.

    Parameters
    ----------
    gram_error : float or None
        Relative error of the others' Gram matrix; None if the others' weights involve
        duals of samples that the client does not hold.
    few, enough : AttackScore
        Scores on the group's rows, given as many known rows as the narrowest other
        holder counts columns, and as many as all of them count together.
    """

    group: Group
    gram_error: float | None
    n_few: int
    few: AttackScore
    n_enough: int
    enough: AttackScore


def groups_of(facts: Facts, client: int) -> list[Group]:
    """Return the client's samples by who else holds them, largest groups first.

    Those whose cells at the others it has itself are left out: it knows them already.
    """
    known = has_nothing_to_find(facts.layout)
    samples = facts.layout.samples
    held = samples.items[client]
    which, holders, _ = samples.holders_of(held)
    sets: dict[tuple[int, ...], list[int]] = {}
    for row in range(len(held)):
        others = tuple(c for c in holders[which == row].tolist() if c != client)
        if others and (client, others) not in known:
            sets.setdefault(others, []).append(row)
    groups = [
        Group(np.array(rows[:_MOST]), held[rows[:_MOST]], others)
        for others, rows in sets.items()
    ]
    return sorted(groups, key=lambda group: -len(group.rows))


def mount(
    overheard: Overheard, group: Group, truth: dict[int, FloatArray]
) -> RotationScore:
    """Attack the other holders' part of a group's rows."""
    facts = overheard.facts
    Z, A = overheard.others(group.rows)
    X = others_part(facts, group, truth)
    n_parts = len(group.others)
    n_few, n_enough = _numbers_known(facts, overheard.client, group)
    return RotationScore(
        group,
        _gram_error(facts, overheard.client, group, Z, A, X),
        n_few,
        _from_known_rows(Z, X, n_parts, n_few),
        n_enough,
        _from_known_rows(Z, X, n_parts, n_enough),
    )


def _numbers_known(facts: Facts, client: int, group: Group) -> tuple[int, int]:
    """Return how many rows to assume known: for the narrowest other, and for all.

    At most half of the rows are known, so that the attack has some to find.
    """
    counted = counted_columns(facts.layout.features, [client, *group.others])
    widths = [counted[other] for other in group.others if counted[other]] or [0]
    most = len(group.rows) // 2
    return min(*widths, most), min(sum(widths), most)


def others_part(facts: Facts, group: Group, truth: dict[int, FloatArray]) -> FloatArray:
    """Return the others' part of the samples, their columns side by side."""
    items = facts.layout.samples.items
    parts = [truth[o][np.searchsorted(items[o], group.samples)] for o in group.others]
    return np.hstack(parts)


def _from_known_rows(
    Z: FloatArray, X: FloatArray, n_parts: int, n_known: int
) -> AttackScore:
    """Guess X from the span of Z and some rows of X; score the rest."""
    basis = span_of(Z, n_parts)[:, : X.shape[1]]
    if not basis.size:
        return score({}, {0: X[n_known:]}, Z.shape[1])
    known, rest = _known_rows(basis, n_known)
    mixing = np.linalg.lstsq(basis[known], X[known], rcond=None)[0]
    return score({0: basis[rest] @ mixing}, {0: X[rest]}, Z.shape[1])


def _known_rows(basis: FloatArray, n_known: int) -> tuple[IntArray, IntArray]:
    """Return the most informative rows, as a client would choose them, and the rest."""
    order = scipy.linalg.qr(basis.T, mode="r", pivoting=True)[1].astype(np.int64)
    return order[:n_known], np.sort(order[n_known:])


def _gram_error(
    facts: Facts, client: int, group: Group, Z: FloatArray, A: FloatArray, X: FloatArray
) -> float | None:
    """Return the relative error of the Gram matrix from margins and duals."""
    features, samples = facts.layout.features, facts.layout.samples
    columns = np.unique(np.concatenate([features.items[o] for o in group.others]))
    contributors = {
        c
        for c in range(facts.layout.n_clients)
        if c != client and np.isin(features.items[c], columns).any()
    }
    foreign = [samples.items[c] for c in contributors]
    all_here = all(np.isin(items, group.samples).all() for items in foreign)
    if not all_here or not Z.size or not A.any():
        return None
    own = A[group.rows]
    gram = facts.l2_scale * Z @ np.linalg.pinv(own.T @ Z, rcond=_NO_NUMBER) @ Z.T
    return float(np.linalg.norm(gram - X @ X.T) / np.linalg.norm(X @ X.T))
