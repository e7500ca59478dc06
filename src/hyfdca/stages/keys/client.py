"""A client's half of the key agreement; ``server.py`` has its theory of operation."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from hyfdca.crypto.keys.encoding import pack_fields
from hyfdca.crypto.keys.envelope import EnvelopeError, open_from, seal_for
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster
from hyfdca.crypto.keys.study_keys import StudyKeys
from hyfdca.crypto.schemes.registry import public_parameters
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.stages.keys import messages as m


class KeyAgreementError(RemoteProtocolError):
    """Keys that a client must not take, give or use; one plain sentence."""


@dataclass(frozen=True, repr=False)
class HeldKeys:
    """The keys that a client has, and their context, to be kept between runs.

    Parameters
    ----------
    source : bytes
        Digest of the envelope they came in; empty where the client made them.
    is_agreed : bool
        Every client on the roster has confirmed that it has the same keys.
    """

    study_hash: bytes
    roster_hash: bytes
    epoch: int
    keys: StudyKeys
    source: bytes = b""
    is_agreed: bool = False

    def to_bytes(self) -> bytes:
        """Return everything, to be kept secret."""
        facts = (self.study_hash, self.roster_hash, self.epoch, self.keys.to_bytes())
        return msgspec.msgpack.encode((*facts, self.source, self.is_agreed))

    @classmethod
    def from_bytes(cls, content: bytes) -> HeldKeys:
        """Return the keys that ``to_bytes`` gave, or raise ``ValueError``."""
        try:
            study, roster, epoch, keys, source, agreed = _held_decoder.decode(content)
        except msgspec.MsgspecError:
            raise ValueError("These bytes are not held keys.") from None
        return cls(study, roster, epoch, StudyKeys.from_bytes(keys), source, agreed)


_held_decoder = msgspec.msgpack.Decoder(tuple[bytes, bytes, int, bytes, bytes, bool])


class KeyHolder:
    """A client's half.

    Parameters
    ----------
    roster : Roster
        The client's own copy; the server's word about it never counts.
    make_keys : callable
        Makes the study's keys, including those of schemes, if this client is the maker.
    held : HeldKeys, optional
        The keys that the client had in its last run.

    Raises
    ------
    ValueError
        If the identity is not on the roster, or the roster is older than ``held``.
    """

    def __init__(
        self,
        identity: Identity,
        roster: Roster,
        make_keys: Callable[[], StudyKeys],
        held: HeldKeys | None = None,
    ) -> None:
        self.rank = roster.rank_of(identity.public)
        self._identity, self._roster, self._make_keys = identity, roster, make_keys
        self._held = held if held and _is_current(held, roster) else None
        self._sealed: dict[int, bytes] = {}
        self._agreeing: frozenset[int] = frozenset()

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            "make keys": self._make,
            "take keys": self._take,
            "key tag": self._confirm,
            "seal keys": self._seal,
            "compare keys": self._compare,
            "parameters": self._parameters,
        }

    @property
    def held(self) -> HeldKeys | None:
        """What to keep for the next run; secret."""
        return self._held

    @property
    def keys(self) -> StudyKeys:
        """The study's keys, once every client on the roster has confirmed them.

        Raises
        ------
        KeyAgreementError
            If this client has no keys yet, or another has not confirmed them.
        """
        held = self._need()
        if not held.is_agreed and (silent := self._silent()):
            raise KeyAgreementError(
                f"Organisation {silent[0]!r} has not confirmed yet that it has the "
                "same study keys as this one."
            )
        return held.keys

    def _silent(self) -> list[str]:
        """Return the clients that have not confirmed the same keys."""
        return [
            entry.name
            for rank, entry in enumerate(self._roster.entries)
            if rank != self.rank and rank not in self._agreeing
        ]

    def _make(self, _: Message) -> m.MadeKeys:
        held = self._held or self._hold(self._make_keys())
        if held.source:
            raise KeyAgreementError(
                f"This client has the keys of epoch {held.epoch} from another one and "
                "makes no others."
            )
        ranks = range(len(self._roster.entries))
        # All are sealed before the keys are kept, so that a failure changes nothing.
        envelopes = {r: self._envelope(held, r) for r in ranks if r != self.rank}
        self._held, self._sealed = held, envelopes
        public = public_parameters(held.keys.scheme_keys)
        return m.MadeKeys(envelopes, self._tag(held, self.rank), public)

    def _take(self, request: m.TakeKeys) -> m.Confirmation:
        self._check_other(request.sender)
        source = hashlib.sha256(request.envelope).digest()
        if self._held is None:
            self._held = self._hold(self._opened(request), source)
        elif self._held.source != source:
            raise KeyAgreementError(
                "The envelope is a replay or comes from another maker: this client "
                f"has the keys of epoch {self._held.epoch} already, and takes new ones "
                "only for a later epoch."
            )
        return self._confirm()

    def _confirm(self, _: Message | None = None) -> m.Confirmation:
        return m.Confirmation(self._tag(self._need(), self.rank))

    def _seal(self, request: m.SealKeys) -> m.SealedKeys:
        self._check_other(request.recipient)
        held = self._need()
        envelope = self._envelope(held, request.recipient)
        self._sealed[request.recipient] = envelope
        return m.SealedKeys(envelope, self._tag(held, self.rank))

    def _compare(self, request: m.CompareKeys) -> None:
        held = self._need()
        for rank, tag in request.tags.items():
            self._check_on_roster(rank)
            if not hmac.compare_digest(tag, self._tag(held, rank)):
                raise KeyAgreementError(
                    f"Organisation {self._roster.entries[rank].name!r} has other study "
                    "keys than this one; the server may have relayed two sets."
                )
        self._agreeing |= request.tags.keys()
        if not self._silent():
            self._held = replace(held, is_agreed=True)

    def _parameters(self, _: Message) -> m.Parameters:
        return m.Parameters(public_parameters(self._need().keys.scheme_keys))

    def _need(self) -> HeldKeys:
        if self._held is None:
            raise KeyAgreementError(
                f"This client has no study keys of epoch {self._roster.epoch} yet."
            )
        return self._held

    def _hold(self, keys: StudyKeys, source: bytes = b"") -> HeldKeys:
        roster = self._roster
        return HeldKeys(roster.study_hash, roster.hash, roster.epoch, keys, source)

    def _envelope(self, held: HeldKeys, rank: int) -> bytes:
        """Return the keys sealed for a rank, the same bytes each time.

        So a server that asks again after an accident relays the same envelope.
        """
        if rank in self._sealed:
            return self._sealed[rank]
        return seal_for(
            held.keys.to_bytes(),
            self._roster.context(self.rank, rank),
            self._identity,
            self._roster.entries[rank].public,
        )

    def _opened(self, request: m.TakeKeys) -> StudyKeys:
        context = self._roster.context(request.sender, self.rank)
        sender = self._roster.entries[request.sender].public
        try:
            secret = open_from(request.envelope, context, self._identity, sender)
        except EnvelopeError as error:
            raise KeyAgreementError(str(error)) from None
        try:
            return StudyKeys.from_bytes(secret)
        except ValueError:
            raise KeyAgreementError(
                f"Organisation {context.sender!r} sealed something that is not study "
                "keys; both need the same version of hyfdca."
            ) from None

    def _tag(self, held: HeldKeys, rank: int) -> bytes:
        """Return the tag of these keys that the client of that rank would give."""
        name = self._roster.entries[rank].name.encode()
        epoch = str(held.epoch).encode()
        return held.keys.tag(
            pack_fields(held.study_hash, held.roster_hash, epoch, name)
        )

    def _check_other(self, rank: int) -> None:
        self._check_on_roster(rank)
        if rank == self.rank:
            raise KeyAgreementError("A client exchanges no keys with itself.")

    def _check_on_roster(self, rank: int) -> None:
        n_entries = len(self._roster.entries)
        if rank >= n_entries:
            raise KeyAgreementError(
                f"Rank {rank} is not on this client's roster of {n_entries}."
            )


def _is_current(held: HeldKeys, roster: Roster) -> bool:
    """Return whether keys are of this epoch, and not of an earlier one.

    Raises
    ------
    ValueError
        If the roster does not fit a client that has these keys.
    """
    if held.epoch > roster.epoch:
        raise ValueError(
            f"This client has the keys of epoch {held.epoch}, the study file is of "
            f"epoch {roster.epoch}; use the present study file."
        )
    if held.epoch < roster.epoch:
        return False
    if (held.study_hash, held.roster_hash) != (roster.study_hash, roster.hash):
        raise ValueError(
            "The study file has changed since its keys were made; raise its key_epoch, "
            "so that new ones are made."
        )
    return True
