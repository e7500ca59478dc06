"""What each party could see in a study, from the tables that the audit reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

import msgspec

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.audit.fields import STUDY_TABLES, value_of
from hyfdca.audit.values import SEALED_BYTES, VALUES, Value
from hyfdca.protocol.messages import Message, Profile, seen_fields
from hyfdca.protocol.phases import Phase, Phases, profiles_of

ServerSees = Literal["open", "sealed"]


class SeenValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value that parties of such a study send, and who can read it.

    Parameters
    ----------
    server : {"open", "sealed"}
        Whether the server can read it, or passes it on unread.
    holder, other : str
        Whose values organisations see: those that hold the row or column, and others.
    """

    what: str
    server: ServerSees
    holder: str
    other: str


def seen_values(
    algorithm: str, profile: Profile, encryption: str, absent: Collection[str]
) -> tuple[SeenValue, ...]:
    """Return every value that a study of this kind may send, in the audit's order.

    Parameters
    ----------
    absent : collection of str
        Stages that the study did not have.
    """
    sent = set(_sent(algorithm, profile, absent))
    return tuple(
        SeenValue(
            what=value.what,
            server=_server(value, profile, encryption),
            holder=value.holder,
            other=value.other,
        )
        for name, value in VALUES.items()
        if name in sent and value.server(profile) != "nothing"
    )


def _server(value: Value, profile: Profile, encryption: str) -> ServerSees:
    is_scheme = value.vector is not None and value.vector not in SEALED_BYTES
    if encryption == "none" and is_scheme:
        return "open"
    return "open" if value.server(profile) == "open" else "sealed"


def _sent(algorithm: str, profile: Profile, absent: Collection[str]) -> Iterator[str]:
    own = ALGORITHMS[algorithm].all_phases() if algorithm in ALGORITHMS else {}
    tables: list[Phases] = [own]
    tables += [table for stage, table in STUDY_TABLES.items() if stage not in absent]
    for table in tables:
        for phase in table.values():
            if phase.profile in (None, profile):
                yield from _values(phase, profile)


def _values(phase: Phase, profile: Profile) -> Iterator[str]:
    kinds: tuple[type[Message], ...] = (phase.request, *phase.reply)
    for kind in kinds:
        only = profiles_of(kind)
        for field, value in seen_fields(kind).items():
            if only.get(field, profile) == profile:
                yield value_of(value, phase)
