"""The phases of a conversation: what each exchanges, and which may follow which.

Theory of operation. Every stage of a study (keys, alignment, scaling, training,
prediction) has one table of phases. A phase names its request, its reply, and the
phases that may come directly before it at the same client. Both sessions walk the
table: a client refuses a request out of order, a server never sends one. A client
may skip phases that are not for it, such as those of clients with labels, so a table
lists what may come before rather than one sequence.

A table also says what a server may not ask although the order would allow it: phases
and fields of the other profile (``Phase.profile``, ``OnlyIn``), the same phase again
with other content (``Phase.is_single``), and a phase more often than a round has it
(``Phase.most``). A client decides by its own study file.

The audit reads the same tables: a phase that is in none of them does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Union, get_args, get_type_hints

from hyfdca.protocol.messages import GridSpec, Message, OnlyIn, Profile

START = ""  # stands for the phase before the first one


@dataclass(frozen=True)
class Phase:
    """One exchange.

    Parameters
    ----------
    request : type of Message
        What the server sends.
    reply : tuple of types of Message
        What a client may answer; empty for a notice, which nobody answers.
    after : tuple of str, optional
        The phases that may come directly before; by default any.
    seen : str
        The value that the reply carries in fields whose meaning depends on the phase;
        see ``Seen``.
    is_extra : bool
        Whether it is counted separately from a round's own round trips, like a search.
    profile : {"open", "sealed"}, optional
        The only profile that has the phase.
    sealed_after : tuple of str, optional
        Replaces ``after`` in the sealed profile.
    is_single : bool
        Whether only the grids may differ where it follows itself: it is repeated
        because some client's values did not fit. Otherwise a server could get answers
        at several points of one round.
    counts_as : str
        Another phase: what may follow that one may also follow this one.
    most : int or None
        How often a client answers it in one round; None for any number of times. The
        same request with other grids counts once.
    most_at_start : int, optional
        Replaces ``most`` before the first round.
    again : tuple of str
        Fields that may change together with the grids, such as which rows are sent.
    """

    request: type[Message]
    reply: tuple[type[Message], ...] = ()
    after: tuple[str, ...] | None = None
    seen: str = ""
    is_extra: bool = False
    profile: Profile | None = None
    sealed_after: tuple[str, ...] | None = None
    is_single: bool = False
    counts_as: str = ""
    most: int | None = 1
    most_at_start: int | None = None
    again: tuple[str, ...] = ()

    def allowed_after(self, profile: Profile | None = None) -> tuple[str, ...] | None:
        """Return the phases that may come directly before; None for any."""
        is_sealed = profile == "sealed" and self.sealed_after is not None
        return self.sealed_after if is_sealed else self.after

    @cached_property
    def reply_type(self) -> Any:
        """The type that a reply is decoded as."""
        return Union[self.reply] if self.reply else None  # noqa: UP007


Phases = Mapping[str, Phase]


@dataclass(frozen=True)
class Rule:
    """What a session checks about a phase; made once for the whole stage.

    Parameters
    ----------
    after : set of str or None
        All phases that may come directly before; None for any.
    is_foreign : bool
        Whether the profile does not have the phase.
    foreign_fields : tuple of str
        The fields that the profile does not have.
    """

    phase: Phase
    after: Set[str] | None
    is_foreign: bool = False
    foreign_fields: tuple[str, ...] = ()


def rules_of(phases: Phases, profile: Profile | None = None) -> dict[str, Rule]:
    """Return the checks of each phase of a table, for a client of a profile.

    Without a profile a phase and its fields may be of either.
    """
    return {name: _rule(phases, phase, profile) for name, phase in phases.items()}


def _rule(phases: Phases, phase: Phase, profile: Profile | None) -> Rule:
    after = phase.allowed_after(profile)
    before = None
    if after is not None:
        alike = {n for n, p in phases.items() if p.counts_as and p.counts_as in after}
        before = {*after, *alike}
    if profile is None:
        return Rule(phase, before)
    fields = profiles_of(phase.request).items()
    return Rule(
        phase,
        before,
        phase.profile not in (None, profile),
        tuple(name for name, own in fields if own != profile),
    )


@lru_cache
def profiles_of(kind: type[Message]) -> dict[str, Profile]:
    """Return the fields of a message that belong to one profile."""
    hints = get_type_hints(kind, include_extras=True)
    metas = {name: get_args(hints[name]) for name in kind.__struct_fields__}
    return {
        name: meta.profile
        for name, own in metas.items()
        for meta in own
        if isinstance(meta, OnlyIn)
    }


def differ_in_grids_only(
    first: Message, again: Message, others: tuple[str, ...] = ()
) -> bool:
    """Return whether two requests of a phase have the same content except for grids.

    ``others`` are fields that may differ too.
    """
    fields = [name for name in first.__struct_fields__ if name not in others]
    values = ((getattr(first, name), getattr(again, name)) for name in fields)
    return all(isinstance(a, GridSpec) or a == b for a, b in values)
