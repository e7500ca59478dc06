"""The sealers of a client, one for each kind of vector, with keys of that kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from hyfdca.crypto.keys.set_secrets import Members
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.base import JoiningSealer, Sealer
from hyfdca.crypto.schemes.plain import PlainSealer
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.crypto.schemes.stream import StreamSealer
from hyfdca.federation.messages import Arrangements
from hyfdca.federation.sealing.checksums import CheckedSealer
from hyfdca.federation.sealing.kinds import Axis, VectorKind
from hyfdca.federation.sealing.vector_checks import (
    CheckedRows,
    CheckedVectors,
    Checks,
    Senders,
)
from hyfdca.federation.sealing.vector_keys import (
    OwnerKeys,
    SenderKeys,
    check_key,
    sender_name,
)

_TOTALS: tuple[Axis, ...] = ("totals", "buckets")


# A kind of vector, its opener, and its witness
Key = tuple[VectorKind, int, int | None]


class KindSealers(dict[Key, Sealer]):
    """Sealers, each made when it is first looked up.

    Raises ``ValueError`` where nothing has been arranged yet.

    Parameters
    ----------
    opener : int, optional
        The client that opens all vectors, even those of items that it does not hold.
    """

    def __init__(self, sealers: Sealers, opener: int | None = None) -> None:
        super().__init__()
        self.sealers, self.opener = sealers, opener
        # By axis, once the server has arranged vectors: the schemes, and
        # the holders of each of the client's owner groups
        self._schemes: Mapping[Axis, str] = {}
        self._owners: Mapping[Axis, Mapping[int, Members]] = {}
        # The openers of totals of weights and targets; requests name one for others
        self._totals_owners: Members | None = None

    def __missing__(self, key: Key) -> Sealer:
        """Make a sealer."""
        made = self[key] = self._new(*key)
        return made

    def arranged(
        self,
        notice: Arrangements,
        samples: Arrangement,
        features: Arrangement,
        plain: tuple[Axis, ...],
    ) -> KindSealers:
        """Return sealers as the server arranged, if the study allows these schemes.

        Raises
        ------
        ValueError
            If it does not, or the holders of groups are missing.
        """
        totals = self.sealers.encryption.totals
        schemes: dict[Axis, str] = {
            "samples": self._checked(notice.samples),
            "totals": totals,
            "buckets": totals,
        }
        if "features" not in plain:
            schemes["features"] = self._checked(notice.features)
        schemes.update(dict.fromkeys(plain, "none"))
        arranged = KindSealers(self.sealers, self.opener)
        arranged._schemes = schemes
        arranged._owners = {
            "samples": _owners(samples, notice.sample_owners),
            "features": _owners(features, notice.feature_owners),
        }
        arranged._totals_owners = notice.totals_owners
        return arranged

    def _checked(self, scheme: str) -> str:
        """Return a scheme if the study allows it for vectors of items."""
        if self.opener is None:
            return self.sealers.check(scheme)
        if scheme != self.sealers.encryption.totals:
            raise ValueError(f"the study does not allow the scheme {scheme!r}")
        return scheme

    def _new(self, kind: VectorKind, opener: int, witness: int | None) -> Sealer:
        if self.sealers.encryption.scheme == "none":
            return PlainSealer()
        if kind.axis not in self._schemes:
            raise ValueError("the schemes have not been arranged yet")
        scheme = self._schemes[kind.axis]
        if scheme == "none":
            return PlainSealer()
        if kind.axis in _TOTALS and self.opener is None:
            return self._totals(VectorKind("totals", kind.name), opener, witness)
        if self.opener is not None:
            sealer: JoiningSealer = self._by_sender(kind, _pairs_with(self.opener))
        else:
            keys = OwnerKeys(kind, self._owners[kind.axis], self.sealers.secrets)
            sealer = self.sealers.named(scheme, keys)
        checks = Checks(partial(self._check_secret, kind))
        if kind.is_checked:
            return CheckedVectors(sealer, checks, senders=self._senders(kind))
        return CheckedRows(sealer, checks) if kind.has_checked_rows else sealer

    def _senders(self, kind: VectorKind) -> Senders | None:
        """Return who gives one vector to each sum, if all holders of a group do."""
        if not kind.is_complete:
            return None
        return Senders(self.sealers.secrets.rank, self._owners[kind.axis])

    def _check_secret(self, kind: VectorKind, group: int) -> bytes:
        """Return the secret of an owner group's check rows, the same for all senders.

        What one client opens is sealed by each sender with another key, so that its
        check rows have a secret of all clients.
        """
        if self.opener is not None:
            return check_key(kind, self.sealers.check_key, group, self.opener)
        owners = self._owners[kind.axis]
        if group not in owners:
            raise ValueError("the holders of a group are not known")
        return check_key(kind, self.sealers.secrets.of(owners[group]), group)

    def _totals(self, kind: VectorKind, opener: int, witness: int | None) -> Sealer:
        """Return a sealer of totals: for one client to open, or for several."""
        owners = self._totals_owners
        if kind.name in ("totals", "tags"):
            members = _pairs_with(opener, witness)
        elif owners is not None:
            members = lambda _: owners  # noqa: E731  # from any sender
        else:
            raise ValueError("nobody is named to open these totals")
        sealer = self._by_sender(kind, members)
        return CheckedSealer(sealer, self.sealers.check_key, kind.name)

    def _by_sender(
        self, kind: VectorKind, members: Callable[[int], Members]
    ) -> StreamSealer:
        keys = SenderKeys(kind, members, self.sealers.secrets)
        n_clients = self.sealers.encryption.n_clients
        name = sender_name(self.sealers.secrets.rank)
        return StreamSealer(keys, n_clients, name)


def _pairs_with(opener: int, witness: int | None = None) -> Callable[[int], Members]:
    """Return the set of a sender and the client that opens what it sends.

    The opener shares what it sends itself with its witness.
    """

    def members(sender: int) -> Members:
        other = opener if sender != opener or witness is None else witness
        return tuple(sorted({sender, other}))

    return members


def _owners(arrangement: Arrangement, holders: Sequence[Members]) -> dict[int, Members]:
    """Return the holders of each group, which come in the order of its number."""
    groups: list[int] = arrangement.distinct.tolist()
    if not holders:
        return {}  # nothing of this axis is sealed
    if len(holders) != len(groups):
        raise ValueError("every owner group must come with its holders")
    return dict(zip(groups, holders, strict=True))
