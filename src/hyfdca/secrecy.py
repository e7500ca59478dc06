"""A study's encryption in one process: each party with what it may have of the keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hyfdca.crypto.identity import Identity
from hyfdca.crypto.pseudonyms import AlignmentKeys
from hyfdca.crypto.roster import Entry, Roster
from hyfdca.crypto.schemes import (
    Adders,
    Encryption,
    Sealers,
    Workforce,
    new_keys,
    public_parameters,
)
from hyfdca.crypto.study_keys import StudyKeys
from hyfdca.protocol.client import ClientSession
from hyfdca.protocol.key_agreement import KeyHolder, agree_on_keys
from hyfdca.protocol.server import ServerSession
from hyfdca.runtimes.driver import Traffic
from hyfdca.runtimes.inprocess import InProcess
from hyfdca.runtimes.machine import n_cores

_TOKEN = b"keys----"  # the conversation has its own sessions


@dataclass(frozen=True, repr=False)
class Secrecy:
    """What seals, opens and adds in a study.

    Parameters
    ----------
    keys : sequence of StudyKeys
        Each client's own copy, by rank.
    public : mapping of str to bytes
        All that the server knows of the keys, by scheme.
    """

    encryption: Encryption
    keys: Sequence[StudyKeys]
    public: Mapping[str, bytes]

    def sealers(self, client: int) -> Sealers:
        """Return a client's schemes."""
        return Sealers(self.encryption, self.keys[client].scheme_keys, self._hire)

    def adders(self) -> Adders:
        """Return the server's schemes."""
        return Adders(self.encryption, self.public)

    def alignment_keys(self, client: int) -> AlignmentKeys:
        """Return a client's keys for pseudonyms and tokens."""
        derive = self.keys[client].derive
        return AlignmentKeys(*(derive(f"alignment {of}") for of in _ALIGNED))

    @cached_property
    def _hire(self) -> Workforce | None:
        """Who works for all clients of this process; they have the same keys."""
        if self.encryption.scheme != "bfv":
            return None
        # Here, since SEAL is not there for every system.
        from hyfdca.runtimes.workers import Workforce as Processes  # noqa: PLC0415

        return Processes(n_cores())


_ALIGNED = ("samples", "labels", "cells")


def fresh_secrecy(encryption: Encryption, n_clients: int) -> Secrecy:
    """Return fresh keys for clients whose data are in one place anyway."""
    keys = _make_keys(encryption)
    public = public_parameters(keys.scheme_keys)
    return Secrecy(encryption, [keys] * n_clients, public)


def agreed_secrecy(
    encryption: Encryption,
    names: Sequence[str],
    study_hash: bytes,
    epoch: int,
    traffic: Traffic,
) -> Secrecy:
    """Have organisations agree on keys through a server that cannot read them.

    In one process their own keys are made for the occasion. Adds the cost to
    ``traffic``.
    """
    identities = [Identity.generate() for _ in names]
    entries = map(Entry, names, (identity.public for identity in identities))
    roster = Roster(study_hash, tuple(entries), epoch)
    holders = [
        KeyHolder(identity, roster, lambda: _make_keys(encryption))
        for identity in identities
    ]
    sessions = {k: ClientSession(_TOKEN, h.phases) for k, h in enumerate(holders)}
    conversation = agree_on_keys(ServerSession(_TOKEN), sessions)
    public = InProcess(sessions).run(conversation, traffic)
    return Secrecy(encryption, [holder.keys for holder in holders], public)


def _make_keys(encryption: Encryption) -> StudyKeys:
    return StudyKeys.generate(new_keys(encryption))
