"""How holders find the requested rows among theirs, and learn nothing about others.

The asker names its rows by pseudonyms under a key that nobody else has, made for this
one request. The pseudonyms of a holder's own IDs are computed obliviously
(``crypto/keys/oblivious.py``), in batches:

| phase     | who         | down                | up                                   |
|-----------|-------------|---------------------|--------------------------------------|
| blind     | each holder | -                   | its next IDs as blinded points,      |
|           |             |                     | signed; whether these are the last   |
| evaluate  | the asker   | one holder's points | these times the asker's key, signed  |
| recognise | each holder | its evaluated ones  | -                                    |

Theory of operation. A holder that tries IDs needs the asker's key for each of them, and
the asker applies it only to points that an organisation of the roster has signed, and
to a limited number of points per holder. So a holder that follows the protocol learns
which of its own rows are requested, and one that does not can ask about at most that
number of IDs. The asker does not learn which rows were recognised.

Points of no row, whose result the holder knows, fill its list up to a power of two, in
random order. So the asker and the server learn the number of its rows only roughly. And
an asker that uses another key for some holders, to get scores without their parts, is
noticed.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress

import numpy as np

from hyfdca.arrays import BoolArray, IntArray, TokenArray
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.oblivious import (
    POINT_BYTES,
    InvalidPointError,
    SecretFactor,
    id_points,
    point_pseudonyms,
    unpack_points,
)
from hyfdca.crypto.keys.roster import Roster
from hyfdca.prediction import messages as p
from hyfdca.prediction.request import Kind, check_signed, digest, statement
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.protocol.server_session import Conversation, ServerSession

BATCH = 1 << 15  # points of one message, which take some seconds
MOST_POINTS = 1 << 20  # of one holder that an asker evaluates
MOST_ROWS = 1_000_000  # of one holder; its other points are checks
_FEWEST_CHECKS = 64  # points of no row

_BLINDED = Kind(b"hyfdca blinded ids 1", "these blinded IDs")
_EVALUATED = Kind(b"hyfdca evaluated ids 1", "these evaluated IDs")


def find_rows(
    session: ServerSession, asker: int, holders: Iterable[int]
) -> Conversation[None]:
    """Pass points between the asker and the holders until all rows are compared."""
    waiting = list(holders)
    while waiting:
        requests = dict.fromkeys(waiting, Message())
        batches = yield from session.ask("blind", requests, p.BlindedIds)
        evaluated = {}
        for holder, batch in batches.items():
            request = p.EvaluateRequest(
                batch.points, batch.is_last, batch.signature, holder
            )
            replies = yield from session.ask(
                "evaluate", {asker: request}, p.EvaluatedIds
            )
            evaluated[holder] = replies[asker]
        yield from session.ask("recognise", evaluated, Message)
        waiting = [holder for holder in waiting if not batches[holder].is_last]


@dataclass(frozen=True, repr=False)
class OneRequest:
    """One request for predictions, as a party to it sees it.

    Parameters
    ----------
    rank, asker : int
        The ranks of this organisation, and of the one that asks.
    nonce : bytes
        The random number of the request.
    key : bytes
        The key of hashes of IDs; the server does not have it.
    """

    identity: Identity
    roster: Roster
    rank: int
    asker: int
    nonce: bytes
    key: bytes

    def name(self, rank: int) -> str:
        """Return an organisation's name."""
        return self.roster.entries[rank].name

    def sign(self, kind: Kind, *said: bytes) -> bytes:
        """Return this organisation's signature of a statement about the request."""
        content = statement(self.roster, self.rank, kind, self.nonce, *said)
        return self.identity.sign(content)

    def check(self, signer: int, signature: bytes, kind: Kind, *said: bytes) -> None:
        """Check the signature of another organisation's statement.

        Raises
        ------
        RemoteProtocolError
        """
        check_signed(self.roster, signer, signature, kind, self.nonce, *said)


class BlindAsker:
    """The asker's half: it has the key of the pseudonyms.

    Parameters
    ----------
    ids : sequence of str
        The IDs of the rows that it asks for.
    """

    def __init__(self, request: OneRequest, ids: Sequence[str]) -> None:
        self._request, self._factor = request, SecretFactor.generate()
        points = self._factor.times(id_points(ids, request.key))
        self.pseudonyms = point_pseudonyms(ids, points, request.key)
        self.public = self._factor.public()
        self._n_batches: Counter[int] = Counter()  # evaluated so far, by holder

    @property
    def handlers(self) -> Handlers:
        """What the asker does in each phase."""
        return {"evaluate": self._evaluate}

    def _evaluate(self, asked: p.EvaluateRequest) -> p.EvaluatedIds:
        request, number = self._request, self._n_batches[asked.holder]
        said = b"%d" % number, digest(asked.points)
        request.check(asked.holder, asked.signature, _BLINDED, *said)
        sender = request.name(asked.holder)
        _check_number(asked.points, number, sender)
        with _points_of(sender):
            points = self._factor.times(unpack_points(asked.points))
        evaluated = memoryview(b"".join(points))
        signature = request.sign(_EVALUATED, sender.encode(), *said, digest(evaluated))
        self._n_batches[asked.holder] += 1
        return p.EvaluatedIds(evaluated, signature)


class BlindHolder:
    """A holder's half: it finds out the pseudonyms of its own rows.

    Parameters
    ----------
    public : bytes
        The public half of the asker's key, which it has signed.
    ids : sequence of str
        The IDs of all its rows, at most ``MOST_ROWS``.
    found : callable
        Takes the pseudonyms of the rows, (n, 2), at the end.
    """

    def __init__(
        self,
        request: OneRequest,
        public: bytes,
        ids: Sequence[str],
        found: Callable[[TokenArray], None],
    ) -> None:
        self._request, self._public = request, public
        self._ids, self._found = ids, found
        self._factor = SecretFactor.generate()
        self._slots = _shuffled(_power_above(len(ids) + _FEWEST_CHECKS))
        self._pseudonyms = np.empty((len(ids), 2), np.uint64)
        self._number = 0  # of the current batch
        self._shown = memoryview(b"")  # the points of the current batch
        self._checks: list[SecretFactor] = []  # of its points of no row

    @property
    def handlers(self) -> Handlers:
        """What the holder does in each phase."""
        return {"blind": self._blind, "recognise": self._recognise}

    @property
    def _is_last(self) -> bool:
        return (self._number + 1) * BATCH >= len(self._slots)

    @property
    def _batch(self) -> IntArray:
        """The current batch: for each point a row, or a number beyond all rows."""
        return self._slots[self._number * BATCH : (self._number + 1) * BATCH]

    @property
    def _is_own(self) -> BoolArray:
        """Which points of the current batch are of rows."""
        return self._batch < len(self._ids)

    def _blind(self, _: Message) -> p.BlindedIds:
        request, is_own = self._request, self._is_own
        ids = [self._ids[row] for row in self._batch[is_own]]
        own = iter(self._factor.times(id_points(ids, request.key)))
        n_checks = len(is_own) - len(ids)
        self._checks = [SecretFactor.generate() for _ in range(n_checks)]
        others = iter([check.public() for check in self._checks])
        points = (next(own if is_row else others) for is_row in is_own)
        self._shown = memoryview(b"".join(points))
        said = b"%d" % self._number, digest(self._shown)
        return p.BlindedIds(self._shown, self._is_last, request.sign(_BLINDED, *said))

    def _recognise(self, evaluated: p.EvaluatedIds) -> None:
        self._check_signed(evaluated)
        is_own, is_last = self._is_own, self._is_last
        with _points_of(self._asker):
            points = unpack_points(evaluated.points)
            self._check_key(compress(points, ~is_own))
            own = self._factor.inverse().times(compress(points, is_own))
        rows = self._batch[is_own]
        ids = [self._ids[row] for row in rows]
        self._pseudonyms[rows] = point_pseudonyms(ids, own, self._request.key)
        self._number += 1
        if is_last:
            self._found(self._pseudonyms)

    @property
    def _asker(self) -> str:
        return self._request.name(self._request.asker)

    def _check_key(self, points: Iterable[bytes]) -> None:
        """Check that the asker's key was applied to the points of no row."""
        known = [check.times([self._public])[0] for check in self._checks]
        if list(points) != known:
            raise InvalidPointError("they are not under the key that it has signed")

    def _check_signed(self, evaluated: p.EvaluatedIds) -> None:
        """Check that the asker evaluated the current batch."""
        request = self._request
        request.check(
            request.asker,
            evaluated.signature,
            _EVALUATED,
            request.name(request.rank).encode(),
            b"%d" % self._number,
            digest(self._shown),
            digest(evaluated.points),
        )
        if len(evaluated.points) != len(self._shown):
            raise RemoteProtocolError(
                f"Organisation {self._asker!r} evaluated another number of IDs."
            )


def _power_above(number: int) -> int:
    """Return the smallest power of two that is not below a number."""
    return 1 << (number - 1).bit_length()


def _shuffled(n_slots: int) -> IntArray:
    """Return numbers in an unpredictable order.

    Otherwise an asker that evaluates points differently could find out where in a
    table a row is.
    """
    numbers = list(range(n_slots))
    secrets.SystemRandom().shuffle(numbers)
    return np.array(numbers, np.int64)


def _check_number(points: memoryview, number: int, sender: str) -> None:
    """Refuse a batch that is too large, or one batch too many."""
    if len(points) > BATCH * POINT_BYTES or (number + 1) * BATCH > MOST_POINTS:
        raise RemoteProtocolError(
            f"Organisation {sender!r} has more than {BATCH:,} IDs compared at once, or "
            f"more than {MOST_POINTS:,} in all."
        )


@contextmanager
def _points_of(sender: str) -> Iterator[None]:
    """Name the sender of points that are refused within."""
    try:
        yield
    except InvalidPointError as error:
        raise RemoteProtocolError(
            f"Organisation {sender!r} sent points that are refused: {error}."
        ) from None
