"""A client's own copy of who takes part in a study, and with which public keys."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from hyfdca.crypto.keys.encoding import pack_fields
from hyfdca.crypto.keys.envelope import Context
from hyfdca.crypto.keys.identity import PublicIdentity


class RosterEntry(NamedTuple):
    """An organisation on the roster."""

    name: str
    public: PublicIdentity


@dataclass(frozen=True)
class Roster:
    """The organisations of a study by rank, and the epoch of their shared keys.

    Raises
    ------
    ValueError
        If two organisations have the same name or a key in common, or if the
        study, a name or the epoch does not fit into the context of an envelope.
    """

    study_hash: bytes
    entries: tuple[RosterEntry, ...]
    epoch: int = 1

    def __post_init__(self) -> None:
        if _repeated(entry.name for entry in self.entries):
            raise ValueError("Two organisations of the roster have the same name.")
        sealing = _repeated(entry.public.sealing for entry in self.entries)
        if sealing or _repeated(entry.public.verifying for entry in self.entries):
            raise ValueError("Two organisations of the roster have the same key.")
        for rank in range(len(self.entries)):
            self.context(rank, rank)

    @cached_property
    def hash(self) -> bytes:
        """The hash of all names and keys in order."""
        parts = [
            part
            for name, public in self.entries
            for part in (name.encode(), public.sealing, public.verifying)
        ]
        return hashlib.sha256(b"hyfdca roster 1\n" + pack_fields(*parts)).digest()

    def context(self, sender: int, recipient: int) -> Context:
        """Return where an envelope from one rank to another belongs."""
        return Context(
            self.study_hash,
            self.hash,
            self.entries[sender].name,
            self.entries[recipient].name,
            self.epoch,
        )

    def rank_of(self, public: PublicIdentity) -> int:
        """Return the rank of the organisation with these keys.

        Raises
        ------
        ValueError
            If there is none.
        """
        for rank, entry in enumerate(self.entries):
            if entry.public == public:
                return rank
        raise ValueError(
            f"No organisation of the study has the key {public.fingerprint}; use the "
            "key whose public half is in the study file."
        )


def _repeated(items: Iterable[str | bytes]) -> bool:
    return max(Counter(items).values(), default=0) > 1
