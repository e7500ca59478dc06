"""What the server and one client could open together: its view and that client's keys.

They try every secret that the client has on vectors that other clients sent, as every
kind of vector. Vectors of owner groups that the client is in open, and so do totals
that are sealed to it; nothing else may. Vectors sealed by `stream` are tried, totals
among them: with BFV keys are derived in the same way, and with Paillier the client has
the one key of the study and opens everything but totals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

import msgspec
import numpy as np

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.audit.reading import Heard, Sight, sights
from hyfdca.audit.values import VALUES
from hyfdca.crypto.keys.set_secrets import Members, SetSecrets
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.registry import TOTALS_SCHEME
from hyfdca.crypto.schemes.stream import StreamSealer
from hyfdca.crypto.schemes.stream_sums import NONCE_BYTES, StreamAdder
from hyfdca.federation.messages import Arrangements
from hyfdca.federation.sealing.checksums import without_checksums
from hyfdca.federation.sealing.kinds import (
    FeatureKind,
    SampleKind,
    TotalsKind,
    VectorKind,
)
from hyfdca.federation.sealing.vector_keys import vector_key
from hyfdca.holdings.layout import Layout
from hyfdca.stages.evaluation.messages import HeldOutArrangements, HeldOutParts
from hyfdca.stages.groups import holder_sets

_SMALL = 2**58  # sums on grids stay below this
_ENOUGH = 8  # numbers; all of them are small by chance once in 10^12 tries
_MOST = 20  # messages per client and phase
_WORD = 8

ItemAxis = Literal["samples", "features"]
_KINDS: dict[str, list[VectorKind]] = {
    "samples": [VectorKind("samples", name) for name in get_args(SampleKind)],
    "features": [VectorKind("features", name) for name in get_args(FeatureKind)],
    "totals": [VectorKind("totals", name) for name in get_args(TotalsKind)],
}


class StolenKeys(msgspec.Struct, array_like=True, frozen=True):
    """The keys of a client, as its view has them."""

    secrets: list[tuple[tuple[int, ...], bytes]]
    check_key: bytes


def stolen_keys(secrets: SetSecrets, check_key: bytes, layout: Layout) -> StolenKeys:
    """Return all keys that a client has in a study of this layout."""
    rank = secrets.rank
    pairs = {tuple(sorted({rank, other})) for other in range(layout.n_clients)}
    own = sorted(s for s in holder_sets(layout) | pairs if rank in s)
    return StolenKeys([(members, secrets.of(members)) for members in own], check_key)


@dataclass
class CollusionScore:
    """How much the server and a client open of what other clients sent.

    Parameters
    ----------
    n_vectors : int
        Vectors that were tried.
    n_inside, n_outside : int
        Numbers opened: of the client's own owner groups and totals, and of others.
    """

    n_vectors: int = 0
    n_inside: int = 0
    n_outside: int = 0

    def add(self, n_numbers: int, is_inside: bool) -> None:
        """Count numbers that were opened."""
        if is_inside:
            self.n_inside += n_numbers
        else:
            self.n_outside += n_numbers


@dataclass(frozen=True)
class _OneKey:
    """The key to try, for every group."""

    key: bytes
    by_group = False

    def of(self, group: int, sealer: bytes = b"") -> bytes:
        """Return the key."""
        del group, sealer
        return self.key


@dataclass
class Collusion:
    """Tries the keys of one client on the vectors of all others."""

    rank: int
    keys: StolenKeys
    score: CollusionScore = field(default_factory=CollusionScore)
    _arranged: dict[int, Arrangements] = field(default_factory=dict)
    _held_out: dict[int, HeldOutArrangements] = field(default_factory=dict)
    _tried: Counter[tuple[int, str]] = field(default_factory=Counter)

    def listen(self, messages: Iterable[Heard]) -> CollusionScore:
        """Read the server's view; return what could be opened."""
        for said in messages:
            if isinstance(said.message, HeldOutArrangements):
                self._held_out[said.client] = said.message
            elif isinstance(said.message, Arrangements):
                self._arranged[said.client] = said.message
            elif said.direction == "up" and said.client != self.rank:
                self._look(said)
        return self.score

    def _look(self, said: Heard) -> None:
        place, message = (said.client, said.phase), said.message
        is_held_out = isinstance(message, HeldOutParts)
        known = self._held_out if is_held_out else self._arranged
        if said.client not in known or self._tried[place] >= _MOST:
            return
        self._tried[place] += 1
        if isinstance(message, HeldOutParts):
            self._try_held_out(message, self._held_out[said.client])
            return
        arranged = self._arranged[said.client]
        for sight in sights(said):
            self._try(sight, said.client, arranged)

    def _try_held_out(self, parts: HeldOutParts, arranged: HeldOutArrangements) -> None:
        """Try vectors by sample that one label holder each may open."""
        if arranged.samples != TOTALS_SCHEME:
            return
        groups = np.frombuffer(arranged.sample_groups or b"", "<u4")
        owners = np.frombuffer(arranged.owners or b"", "<u4")
        for owner, vector in zip(parts.owners, parts.vectors, strict=True):
            own = groups[owners == owner]
            each = ((owner,),) * len(np.unique(own))
            self._try_items("samples", bytes(vector.payload), own.data, each)

    def _try(self, sight: Sight, sender: int, arranged: Arrangements) -> None:
        axis = VALUES[sight.value].vector
        is_sealed = arranged.samples != "none"
        for vector in sight.sealed:
            payload = bytes(vector.payload)
            if axis == "totals" and is_sealed:
                self._try_totals(payload, sender)
            elif axis == "samples" and arranged.samples == TOTALS_SCHEME:
                groups = (arranged.sample_groups, arranged.sample_owners)
                self._try_items("samples", payload, *groups)
            elif axis in ("features", "statistics"):
                groups = (arranged.feature_groups, arranged.feature_owners)
                if arranged.features == TOTALS_SCHEME:
                    self._try_items("features", payload, *groups)

    def _candidates(self, axis: str) -> Iterator[tuple[Members, VectorKind, bytes]]:
        """Return every key that the client can derive for vectors of an axis."""
        for members, secret in self.keys.secrets:
            for kind in _KINDS[axis]:
                yield members, kind, vector_key(kind, secret)

    def _try_totals(self, payload: bytes, sender: int) -> None:
        self.score.n_vectors += 1
        width = (len(payload) - NONCE_BYTES) // _WORD
        for members, kind, key in self._candidates("totals"):
            rows = _opened(payload, width, Arrangement.together(1), key)
            try:
                without_checksums(rows, self.keys.check_key, kind.name)
            except ValueError:
                continue
            # Labelled clients open each other's totals of weights and targets.
            is_for_it = sender in members and kind.name != "totals"
            is_pair = members == tuple(sorted({sender, self.rank}))
            self.score.add(width - 1, is_for_it or is_pair)

    def _try_items(
        self,
        axis: ItemAxis,
        payload: bytes,
        groups: memoryview | None,
        owners: tuple[Members, ...],
    ) -> None:
        numbers = np.frombuffer(groups or b"", "<u4").astype(np.int64)
        n_words = (len(payload) - NONCE_BYTES) // _WORD
        own = Arrangement(numbers)
        # With check rows, which are numbers like others here, or without
        possible = [
            arrangement
            for arrangement in (own, own.with_checks)
            if len(numbers) and n_words and n_words % arrangement.n_items == 0
        ]
        if not possible:
            return  # of some items, and which ones is not known here
        self.score.n_vectors += 1
        found: dict[int, int] = {}
        for arrangement in possible:
            width = n_words // arrangement.n_items
            for _, _, key in self._candidates(axis):
                rows = _opened(payload, width, arrangement, key)
                is_small = np.all(np.abs(rows) < _SMALL, 1)
                found.update(_open_groups(is_small, arrangement.groups, width))
        holders = dict(zip(own.distinct.tolist(), owners, strict=True))
        for group, n_numbers in found.items():
            self.score.add(n_numbers, self.rank in holders[group])


def _opened(
    payload: bytes, width: int, arrangement: Arrangement, key: bytes
) -> IntArray:
    """Return what a client's vector opens to with a key."""
    adder = StreamAdder()
    vector = adder.load(memoryview(payload), (arrangement.n_items, width))
    return StreamSealer(_OneKey(key)).open(adder.dump(vector), width, arrangement)


def _open_groups(
    is_small: BoolArray, groups: IntArray, width: int
) -> Iterator[tuple[int, int]]:
    """Return the groups all of whose numbers are small, and how many these are."""
    for group in np.unique(groups[is_small]).tolist():
        own = groups == group
        if is_small[own].all() and own.sum() * width >= _ENOUGH:
            yield group, int(own.sum()) * width
