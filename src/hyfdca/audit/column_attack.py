"""What a curious client could infer from shared columns: the others' rows there.

A holder of a feature receives its weight, or its slopes, as sums over all holders, and
knows its own share of them. The change of the rest is a sum over the others' samples
whose dual changed. With one changed sample it is that row, on the shared columns. This
is the server's attack on open shares (docs/errata.md, E22), which is available to
clients in every profile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np

from hyfdca.algorithms.bundle.messages import BucketsNotice
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.audit.facts import Facts, rows_of
from hyfdca.audit.reading import heard
from hyfdca.audit.scoring import AttackScore, is_parallel, score
from hyfdca.audit.views import Record

_WEIGHTS = ("margins", "weights", "step")  # phases that deliver weights of HyFDCA
_FEWEST_COLUMNS = 4  # with fewer, sums over rows are parallel to some row by chance
_MOST_PLANES = 150  # per bucket, compared in pairs
_ONE = 1e-3  # largest apparent distance of a dual's change from 1


@dataclass
class Rests:
    """A client's sums by feature without its own part, in order of arrival."""

    facts: Facts
    client: int
    weights: list[FloatArray] = field(default_factory=list)
    images: list[FloatArray] = field(default_factory=list)  # of line searches
    slopes: dict[int, list[FloatArray]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def __post_init__(self) -> None:
        """Start where everything is zero."""
        self._share = np.zeros((self.facts.n_features(self.client), 1))
        self._image = self._share
        self._numbers = np.zeros(1, np.int64)  # of the client's buckets
        self._own: list[FloatArray] = []
        self._n_opened = 0

    def listen(self, records: Iterable[Record]) -> Rests:
        """Read a client's view; return self."""
        for record in records:
            if record.direction == "down":
                self._begin(record)
            elif record.kind == "features":
                self._note(record, record.numbers())
        return self

    def _begin(self, record: Record) -> None:
        self._n_opened = 0
        if record.phase == "planes":
            self._own = []
        elif record.phase == "buckets":
            notice = heard(record).message
            if isinstance(notice, BucketsNotice):
                self._numbers = rows_of(notice.numbers, 0)

    def _note(self, record: Record, values: FloatArray) -> None:
        is_sealed = record.direction == "sealed"
        if is_sealed and record.phase in ("shares", "move"):
            self._share = values
        elif is_sealed and record.phase in ("direction", "forward direction"):
            self._image = values
        elif is_sealed and record.phase == "planes":
            self._own.append(values)
        elif not is_sealed and record.phase in _WEIGHTS:
            self.weights.append(values - self._share)
        elif not is_sealed and record.phase == "products":
            self.images.append(values - self._image)
        elif not is_sealed and record.phase == "gram":
            self._note_slopes(values)

    def _note_slopes(self, values: FloatArray) -> None:
        bucket, self._n_opened = self._n_opened, self._n_opened + 1
        place = int(np.searchsorted(self._numbers, bucket))
        is_own = place < len(self._own) and self._numbers[place] == bucket
        rest = values - self._own[place] if is_own else values
        self.slopes[bucket].extend(rest.T)

    def differences(self) -> Iterator[FloatArray]:
        """Return changes of the others' sums, and differences of a bucket's planes."""
        for before, after in pairwise(self.weights):
            yield from (after - before).T
        for image in self.images:
            yield from image.T
        bias = self.facts.bias_place(self.client)
        for planes in self.slopes.values():
            for one, other in combinations(planes[:_MOST_PLANES], 2):
                change = one - other
                # With the hinge loss a dual changes from 0 to the label.
                n_changed = 1.0
                if bias is not None and self.facts.bias:
                    n_changed = abs(change[bias]) / self.facts.bias
                if abs(n_changed - 1.0) <= _ONE:
                    yield change


@dataclass(frozen=True)
class ColumnScore:
    """What a client found out about another's rows, on columns both hold."""

    other: int
    n_columns: int
    n_rows: int
    score: AttackScore


def attack_columns(rests: Rests, truth: dict[int, FloatArray]) -> list[ColumnScore]:
    """Attack every other client's rows that this client does not hold."""
    layout, client = rests.facts.layout, rests.client
    features, samples = layout.features.items, layout.samples.items
    differences = [d for d in rests.differences() if d.any()]
    found = []
    for other in range(layout.n_clients):
        columns = np.intersect1d(features[client], features[other])
        rows = np.flatnonzero(~np.isin(samples[other], samples[client]))
        if other == client or len(columns) < _FEWEST_COLUMNS or not len(rows):
            continue
        here = np.searchsorted(features[client], columns)
        there = np.searchsorted(features[other], columns)
        table = truth[other][np.ix_(rows, there)]
        result = _named(rests, [d[here] for d in differences], table, columns)
        found.append(ColumnScore(other, len(columns), len(rows), result))
    return found


def _named(
    rests: Rests, differences: list[FloatArray], table: FloatArray, columns: IntArray
) -> AttackScore:
    """Score differences parallel to a row; the truth is used to identify the row."""
    guess = np.full(table.shape, np.nan)
    facts = rests.facts
    has_bias = columns[-1] == facts.layout.features.n_items - 1
    known = facts.bias or 0.0 if has_bias else 0.0
    for change in differences:
        same = is_parallel(np.broadcast_to(change, table.shape), table)
        if same.any():
            is_known = known > 0 and change[-1] != 0
            guess[same] = change / change[-1] * known if is_known else change
    return score({0: guess}, {0: table}, len(differences))
