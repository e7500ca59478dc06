"""Keys of sealed vectors: one per kind and owner group, or per sender and opener.

Every key is derived from the secret of a set of clients (``crypto/keys/set_secrets``)
and from what the vector is. Clients outside the set get noise, and so does anyone who
opens the vector as another kind.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hyfdca.crypto.keys.set_secrets import Members, SetSecrets, derived
from hyfdca.federation.sealing.kinds import VectorKind

_RANK = struct.Struct("<I")


@dataclass(frozen=True, repr=False)
class OwnerKeys:
    """Keys that all holders of an owner group have.

    Parameters
    ----------
    owners : mapping of int to Members
        The holders of each of the client's groups.
    """

    kind: VectorKind
    owners: Mapping[int, Members]
    secrets: SetSecrets
    by_group = True

    def of(self, group: int, sealer: bytes = b"") -> bytes:
        """Return the key of a group, the same for all senders."""
        del sealer
        if group not in self.owners:
            raise ValueError("the holders of a group are not known")
        return vector_key(self.kind, self.secrets.of(self.owners[group]))


@dataclass(frozen=True, repr=False)
class SenderKeys:
    """Keys that each sender shares only with those who open its vectors.

    Parameters
    ----------
    members : callable
        Returns the clients that have the key of a sender.
    """

    kind: VectorKind
    members: Callable[[int], Members]
    secrets: SetSecrets
    by_group = False

    def of(self, group: int, sealer: bytes = b"") -> bytes:
        """Return the key of a sender, the same for all groups."""
        del group
        members = self.members(_RANK.unpack_from(sealer)[0])
        return vector_key(self.kind, self.secrets.of(members))


def sender_name(rank: int) -> bytes:
    """Return the prefix of the identity of a sender's sealer."""
    return _RANK.pack(rank)


def vector_key(kind: VectorKind, secret: bytes) -> bytes:
    """Return the key of a kind of vector among the members of a set."""
    return derived(secret, b"vectors", kind.axis.encode(), kind.name.encode())


def check_key(
    kind: VectorKind, secret: bytes, group: int, opener: int | None = None
) -> bytes:
    """Return the key of the check rows of an owner group's vectors.

    Parameters
    ----------
    opener : int, optional
        The one client that opens them; by default all members of the set do.
    """
    of = b"" if opener is None else sender_name(opener)
    name = (kind.axis.encode(), kind.name.encode(), b"%d" % group)
    return derived(secret, b"checks of vectors", *name, of)
