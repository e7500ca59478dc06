"""A study's encryption: each party with its own share of the keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from secrets import token_bytes

from hyfdca.crypto.keys.pseudonyms import AlignmentKeys
from hyfdca.crypto.keys.set_secrets import SECRET_BYTES, LocalSecrets, SetSecrets
from hyfdca.crypto.keys.study_keys import StudyKeys
from hyfdca.crypto.schemes.registry import (
    Adders,
    Encryption,
    Sealers,
    Workforce,
    new_group_secret,
    new_keys,
    public_parameters,
)
from hyfdca.runtime.machine import n_cores

_ALIGNED = ("samples", "labels", "cells")


def make_keys(encryption: Encryption) -> StudyKeys:
    """Return fresh keys for a study with this encryption."""
    return StudyKeys.generate(new_keys(encryption))


def workforce(encryption: Encryption) -> Workforce | None:
    """Return processes that encrypt, for schemes that are worth it."""
    if encryption.scheme != "bfv":
        return None
    # Imported here, since SEAL does not exist for every system.
    from hyfdca.runtime.bfv_pool import Workforce as Processes  # noqa: PLC0415

    return Processes(n_cores())


@dataclass(frozen=True, repr=False)
class ClientSecrecy:
    """What seals and opens at a client.

    Parameters
    ----------
    tell_opening : callable, optional
        Called before a sum is opened.
    """

    encryption: Encryption
    keys: StudyKeys
    secrets: SetSecrets
    hire: Workforce | None = None
    tell_opening: Callable[[], None] | None = None

    def sealers(self) -> Sealers:
        """Return the client's schemes."""
        return Sealers(
            self.encryption,
            self.keys.scheme_keys,
            self.secrets,
            self.keys.derive("checksums of totals"),
            self.hire,
            self.tell_opening,
        )

    def alignment_keys(self, purpose: str = "alignment") -> AlignmentKeys:
        """Return the client's keys for pseudonyms and tokens of one purpose."""
        return AlignmentKeys(*(self.keys.derive(f"{purpose} {of}") for of in _ALIGNED))


@dataclass(frozen=True, repr=False)
class Secrecy:
    """What seals, opens and adds where all parties are in one process.

    Parameters
    ----------
    keys : sequence of StudyKeys
        Each client's own copy, by rank.
    public : mapping of str to bytes
        All that the server knows about the keys, by scheme.
    group_secret : bytes
        The server's secret; see ``Adders``.
    """

    encryption: Encryption
    keys: Sequence[StudyKeys]
    public: Mapping[str, bytes]
    group_secret: bytes = field(default_factory=new_group_secret)
    _seed: bytes = field(default_factory=lambda: token_bytes(SECRET_BYTES))

    def of_client(self, client: int) -> ClientSecrecy:
        """Return a client's share of the keys."""
        own = LocalSecrets(self._seed, client, len(self.keys))
        return ClientSecrecy(self.encryption, self.keys[client], own, self._hire)

    def sealers(self, client: int) -> Sealers:
        """Return a client's schemes."""
        return self.of_client(client).sealers()

    def adders(self) -> Adders:
        """Return the server's schemes."""
        return Adders(self.encryption, self.public, self.group_secret)

    @cached_property
    def _hire(self) -> Workforce | None:
        """The processes that work for all clients of this process."""
        return workforce(self.encryption)


def fresh_secrecy(encryption: Encryption, n_clients: int) -> Secrecy:
    """Return fresh keys for clients whose data are in one place anyway."""
    keys = make_keys(encryption)
    public = public_parameters(keys.scheme_keys)
    return Secrecy(encryption, [keys] * n_clients, public)
