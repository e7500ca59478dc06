"""Keys of vectors for tests: secrets of sets, and the keys of one kind of vector."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from hyfdca.crypto.keys.set_secrets import LocalSecrets
from hyfdca.crypto.schemes.base import Sealer
from hyfdca.crypto.schemes.registry import Encryption, Sealers
from hyfdca.federation.sealing.kinds import VectorKind
from hyfdca.federation.sealing.vector_keys import OwnerKeys

SEED = bytes(range(32))
MARGINS = VectorKind("samples", "margins")


@dataclass(frozen=True)
class OneKey:
    """The same key for everything."""

    key: bytes
    by_group = False

    def of(self, group: int, sealer: bytes = b"") -> bytes:
        """Return the key."""
        return self.key


class EveryGroup(defaultdict):
    """Holders of groups: the one client, whatever the group."""

    def __contains__(self, group: object) -> bool:
        return True


def sealers_of(
    encryption: Encryption, keys: dict[str, bytes], rank: int = 0, n_clients: int = 1
) -> Sealers:
    """Return the schemes of a client in one process with all others."""
    return Sealers(encryption, keys, LocalSecrets(SEED, rank, n_clients), SEED)


def sealer_of(
    encryption: Encryption, keys: dict[str, bytes], scheme: str, seed: bytes = SEED
) -> Sealer:
    """Return a sealer of margins of groups that one client holds."""
    alone = LocalSecrets(seed, 0, 1)
    own = OwnerKeys(MARGINS, EveryGroup(lambda: (0,)), alone)
    return Sealers(encryption, keys, alone).named(scheme, own)
