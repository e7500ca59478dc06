"""What identifies a study: its file and its organisations' keys."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from hyfdca.crypto.keys.encoding import in_groups
from hyfdca.crypto.keys.identity import PublicIdentity
from hyfdca.crypto.keys.roster import Roster, RosterEntry
from hyfdca.errors import StudyError


def study_hash(content: bytes) -> bytes:
    """Return the hash of a study file's exact bytes."""
    return hashlib.sha256(b"hyfdca study 1\n" + content).digest()


def study_fingerprint(content: bytes) -> str:
    """Return the full hash in groups of letters, for people to compare.

    The full hash, because the author of a study file could search for two files with
    the same short fingerprint.
    """
    return hash_text(study_hash(content))


def hash_text(digest: bytes) -> str:
    """Return a hash in the form that people compare."""
    return in_groups(digest)


def public_identities(keys: Mapping[str, str | None]) -> dict[str, PublicIdentity]:
    """Return the public keys of the organisations that have one, by name.

    Raises
    ------
    StudyError
        If a key is invalid, or two organisations share one.
    """
    owners: dict[bytes, str] = {}
    identities = {}
    for name, text in keys.items():
        if text is None:
            continue
        identities[name] = identity = _parsed(name, text)
        for half in (identity.sealing, identity.verifying):
            if half in owners:
                raise StudyError(
                    f"Organisations {owners[half]!r} and {name!r} have the same "
                    "public_key; each needs its own, made by hyfdca keys new."
                )
            owners[half] = name
    return identities


def make_roster(content: bytes, keys: Mapping[str, str | None], epoch: int) -> Roster:
    """Return the roster of a study file, with organisations in the file's order.

    Raises
    ------
    StudyError
        If an organisation has no key, or an invalid one.
    """
    identities = public_identities(keys)
    missing = [name for name in keys if name not in identities]
    if missing:
        raise StudyError(
            f"Organisation {missing[0]!r} has no public_key in the study file; run "
            "hyfdca keys new there and add the line it prints."
        )
    entries = tuple(
        RosterEntry(name, identity) for name, identity in identities.items()
    )
    return Roster(study_hash(content), entries, epoch)


def _parsed(name: str, text: str) -> PublicIdentity:
    try:
        return PublicIdentity.parse(text)
    except ValueError as error:
        reason = str(error).rstrip(".")
        raise StudyError(
            f"The public_key of organisation {name!r} cannot be used "
            f"({reason[:1].lower()}{reason[1:]}); copy the line that hyfdca keys show "
            "prints there."
        ) from None
