"""Secrets of sets of clients: the members of a set know its secret, nobody else does.

Two clients agree on theirs without a message, by X25519 between the keys of their
identities; a client alone has the secret it would agree on with itself. The secret of a
larger set is made by its lowest-ranked member, who seals it to the others. It follows
from the maker's own secret, so a repeated set-up gives the same one.

All are bound to study, roster and epoch of the keys, and to the run of the study: pads
of one run never hide numbers of another. The server says who the members of
a set are, but cannot make a client use a secret that somebody outside the set has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Protocol

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hyfdca.crypto.keys.encoding import pack_fields
from hyfdca.crypto.keys.envelope import open_from, seal_for
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster

Members = tuple[int, ...]  # ranks, ascending

SECRET_BYTES = 32
_AGREED = 2  # members of a set that needs no message
_LABEL = b"hyfdca set secrets 2\n"  # envelopes of study keys begin differently


class _Entry(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The serialised secret of a set."""

    members: tuple[Annotated[int, msgspec.Meta(ge=0)], ...]
    secret: Annotated[
        bytes, msgspec.Meta(min_length=SECRET_BYTES, max_length=SECRET_BYTES)
    ]


_decoder = msgspec.msgpack.Decoder(list[_Entry])


class SetSecrets(Protocol):
    """The secrets of sets that a client has."""

    @property
    def rank(self) -> int:
        """The client's own rank."""
        ...

    def of(self, members: Members) -> bytes:
        """Return the secret of a set, or raise ``ValueError``."""
        ...


def derived(secret: bytes, *purpose: bytes) -> bytes:
    """Return a key for one purpose; nothing about others follows from it."""
    info = pack_fields(*purpose)
    return HKDF(SHA256(), SECRET_BYTES, None, info).derive(secret)


def needs_exchange(members: Members) -> bool:
    """Return whether the secret of a set must be sent to its members."""
    return len(members) > _AGREED


def check_members(members: Members, rank: int, n_clients: int) -> None:
    """Raise ``ValueError`` unless these are a set of clients with that one in it."""
    if list(members) != sorted(set(members)) or rank not in members:
        raise ValueError("members are given once each, in order, with this client")
    if not 0 <= members[0] <= members[-1] < n_clients:
        raise ValueError("a member is not on the roster")


@dataclass(frozen=True, repr=False)
class AgreedSecrets:
    """The secrets of an organisation with an identity of its own.

    Parameters
    ----------
    roster : Roster
        The organisation's own copy.
    run : int
        The run of the study; each has different secrets.
    """

    identity: Identity
    roster: Roster
    run: int = 1
    _taken: dict[Members, bytes] = field(default_factory=dict)

    @cached_property
    def rank(self) -> int:
        """The client's own rank."""
        return self.roster.rank_of(self.identity.public)

    def of(self, members: Members) -> bytes:
        """Return the secret of a set, or raise ``ValueError``."""
        rank = self.rank
        check_members(members, rank, len(self.roster.entries))
        if not needs_exchange(members):
            return self._agreed(members)
        if members[0] == rank:
            return derived(self._agreed((rank,)), b"set", _written(members))
        if members not in self._taken:
            raise ValueError("the secret of a set of clients has not come yet")
        return self._taken[members]

    def _agreed(self, members: Members) -> bytes:
        """Return the secret that this client and the other one both compute."""
        [other] = set(members) - {self.rank} or {self.rank}
        public = self.roster.entries[other].public.sealing_key
        shared = self.identity.sealing_key.exchange(public)
        first, last = members[0], members[-1]
        return derived(shared, self.roster.context(first, last).to_bytes(), self._run)

    @property
    def _run(self) -> bytes:
        return b"run %d" % self.run

    @property
    def _label(self) -> bytes:
        """The prefix of an envelope's content in this run."""
        return _LABEL + self._run + b"\n"

    def sealed_to(self, recipient: int, sets: Iterable[Members]) -> bytes:
        """Return an envelope with the secrets that this client makes for another."""
        entries = [_Entry(members, self.of(members)) for members in sets]
        if any(
            e.members[0] != self.rank or recipient not in e.members for e in entries
        ):
            raise ValueError("only the lowest-ranked member makes a secret, for others")
        return seal_for(
            self._label + msgspec.msgpack.encode(entries),
            self.roster.context(self.rank, recipient),
            self.identity,
            self.roster.entries[recipient].public,
        )

    def take(self, envelopes: Mapping[int, bytes]) -> None:
        """Take the secrets that others made, by sender; all of them or none.

        Raises
        ------
        ValueError
            If an envelope does not open, or has secrets that are not its sender's.
        """
        taken = dict(self._taken)
        for sender, envelope in envelopes.items():
            for entry in self._opened(sender, envelope):
                members = entry.members
                check_members(members, self.rank, len(self.roster.entries))
                if members[0] != sender or taken.get(members, entry.secret) != (
                    entry.secret
                ):
                    raise ValueError("a secret is not its sender's, or has changed")
                taken[members] = entry.secret
        self._taken.update(taken)

    def _opened(self, sender: int, envelope: bytes) -> list[_Entry]:
        if not 0 <= sender < len(self.roster.entries) or sender == self.rank:
            raise ValueError("the sender of an envelope is not another client")
        context = self.roster.context(sender, self.rank)
        public = self.roster.entries[sender].public
        content = open_from(envelope, context, self.identity, public)
        if not content.startswith(self._label):
            raise ValueError("an envelope has no secrets of sets of this run in it")
        try:
            return _decoder.decode(content.removeprefix(self._label))
        except msgspec.MsgspecError:  # which quotes invalid input
            raise ValueError("an envelope has no secrets of sets in it") from None


@dataclass(frozen=True, repr=False)
class LocalSecrets:
    """The secrets of a client whose fellow clients are in the same process."""

    seed: bytes
    rank: int
    n_clients: int

    def of(self, members: Members) -> bytes:
        """Return the secret of a set, or raise ``ValueError``."""
        check_members(members, self.rank, self.n_clients)
        return derived(self.seed, _written(members))


def _written(members: Members) -> bytes:
    return b",".join(b"%d" % rank for rank in members)
