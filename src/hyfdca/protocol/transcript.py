"""Accounts that clients compare, to check that the server sends all the same study.

Theory of operation. A request has one number at all clients that receive it, and some
of its fields are the same for all of them: grids, steps, weights of planes, schemes
(``COMMON``). A client notes a digest of these fields. When it saves a round, it gives
an *account* of what it has noted since the last comparison, under a MAC whose key the
server does not have. The server hands the accounts on when the next round is saved, and
with the model. Each client compares them with its own notes.

A server that changes an account is noticed by the MAC. An older account in place of the
last one is noticed because the number of the last comparison is missing in it. A server
that withholds accounts is refused after ``_MOST_DELAYS`` comparisons; a few may be lost
when it restarts, so the next account contains all that was not compared. Rounds that
are taken back do not count: they gain nothing, and their number is limited.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec

from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message, Number, Seen, TotalsSpec, seen_fields

# Values that are the same for all receivers of a request; see ``Seen``.
COMMON = frozenset(
    {
        "algorithm",
        "certificate",
        "fold shares",
        "grids",
        "members",
        "path",
        "plane lengths",
        "plane weights",
        "run settings",
        "schemes",
        "steps",
        "study",
    }
)

_DIGEST_BYTES, _MAC_BYTES = 8, 32
_MOST_DELAYS = 3  # consecutive comparisons that a server may put off
_MOST_NOTES = 1_000_000  # of one account

_SEEN = Seen("accounts")

_encode = msgspec.msgpack.Encoder().encode

Digest = Annotated[
    bytes, msgspec.Meta(min_length=_DIGEST_BYTES, max_length=_DIGEST_BYTES)
]
Mac = Annotated[bytes, msgspec.Meta(min_length=_MAC_BYTES, max_length=_MAC_BYTES)]


class Note(Message, frozen=True):
    """A digest of a request's common fields.

    The conversation about the study as a whole has its own numbers.
    """

    is_study: Annotated[bool, _SEEN]
    number: Annotated[Number, _SEEN]
    digest: Annotated[Digest, _SEEN]


class Account(Message, frozen=True):
    """A client's notes, signed for the other clients."""

    client: Annotated[Annotated[int, msgspec.Meta(ge=0, le=2**16)], _SEEN]
    notes: Annotated[Annotated[list[Note], msgspec.Meta(max_length=_MOST_NOTES)], _SEEN]
    mac: Annotated[Mac, _SEEN]


Accounts = Annotated[Annotated[list[Account], msgspec.Meta(max_length=2**16)], _SEEN]
Place = tuple[bool, int]  # of a request: is it about the whole study, its number


@dataclass(frozen=True, repr=False)
class TranscriptState:
    """What a checkpoint keeps of a transcript."""

    digests: dict[Place, bytes]
    awaited: Place | None
    witnesses: set[int]
    n_delays: int


class Transcript:
    """A client's notes of what it was sent, until they are compared."""

    def __init__(self) -> None:
        self._digests: dict[Place, bytes] = {}
        self._awaited: Place | None = None  # the last comparison
        self._witnesses: set[int] = set()  # the clients whose accounts of it must come
        self._n_delays = 0

    def state(self) -> TranscriptState:
        """Return what a checkpoint keeps."""
        return TranscriptState(
            dict(self._digests), self._awaited, set(self._witnesses), self._n_delays
        )

    def restore(self, state: TranscriptState) -> None:
        """Take the state of an earlier process; this one's notes stay in any case."""
        if self._awaited is None:
            self.go_back(state)

    def go_back(self, state: TranscriptState) -> None:
        """Take the state after a round that everybody returns to, but keep all notes.

        Later comparisons are no longer awaited: if a client failed while a round was
        saved, the server does not have all accounts. The next ones contain those notes.
        """
        self._take(replace(state, digests={**state.digests, **self._digests}))

    @contextmanager
    def unchanged_by_errors(self) -> Iterator[None]:
        """Forget the note of a request that is refused."""
        before = self.state()
        try:
            yield
        except Exception:
            self._take(before)
            raise

    def _take(self, state: TranscriptState) -> None:
        self._digests, self._awaited = dict(state.digests), state.awaited
        self._witnesses, self._n_delays = set(state.witnesses), state.n_delays

    def note(self, is_study: bool, number: int, phase: str, request: Message) -> None:
        """Note what a request says to all of its receivers."""
        values = seen_fields(type(request))
        named = [f for f, value in values.items() if value in COMMON]
        common = [_common_part(getattr(request, field)) for field in named]
        if common or is_study:
            digest = hashlib.blake2b(
                _encode([phase, common]), digest_size=_DIGEST_BYTES
            )
            self._digests[is_study, number] = digest.digest()

    def compare(self, key: bytes, accounts: Sequence[Account], is_last: bool) -> None:
        """Compare the accounts of others with the notes.

        Parameters
        ----------
        is_last : bool
            Whether the comparison cannot be put off any longer.

        Raises
        ------
        RemoteProtocolError
            If the server sent others something different, forged an account, or
            withholds accounts.
        """
        came = {account.client for account in accounts if self._agrees(key, account)}
        if self._awaited is None:
            return
        if self._witnesses <= came:
            self._settle(self._awaited)
            return
        self._n_delays += 1
        if is_last or self._n_delays > _MOST_DELAYS:
            raise RemoteProtocolError(
                "the server withholds what other organisations say they were sent"
            )

    def account(self, key: bytes, client: int, present: Collection[int]) -> Account:
        """Return the account of all that was not compared yet.

        It ends with the request for it, which shows that it is not an older one.

        Parameters
        ----------
        client : int
            The client's own rank.
        present : collection of int
            The clients that give an account now.
        """
        self._awaited = next(reversed(self._digests))
        self._witnesses = set(present) - {client}
        notes = [Note(*place, digest) for place, digest in self._digests.items()]
        return Account(client, notes, _mac(key, client, notes))

    def _agrees(self, key: bytes, account: Account) -> bool:
        """Return whether an account is of the last comparison; refuse if it differs."""
        expected = _mac(key, account.client, account.notes)
        if not hmac.compare_digest(expected, account.mac):
            raise RemoteProtocolError(
                "an organisation's account was changed on its way"
            )
        theirs = {(note.is_study, note.number): note.digest for note in account.notes}
        if _contradicts(self._digests, theirs):
            raise RemoteProtocolError(
                f"the server sent client {account.client} something different "
                "from what it sent this one; do not continue with this server"
            )
        return self._awaited in theirs

    def _settle(self, awaited: Place) -> None:
        """Drop what everybody has compared."""
        places = list(self._digests)
        for place in places[: places.index(awaited) + 1]:
            del self._digests[place]
        self._awaited, self._n_delays = None, 0


def _common_part(value: Any) -> Any:
    """Return what is the same for all receivers: the opener of totals gets no seed."""
    if isinstance(value, list):
        return [_common_part(one) for one in value]
    if isinstance(value, TotalsSpec):
        return msgspec.structs.replace(value, seed=b"")
    return value


def _contradicts(own: Mapping[Place, bytes], theirs: Mapping[Place, bytes]) -> bool:
    return any(own.get(place, digest) != digest for place, digest in theirs.items())


def _mac(key: bytes, client: int, notes: Sequence[Note]) -> bytes:
    return hmac.digest(key, _encode([client, notes]), "sha256")
