"""The phases of a conversation: what each exchanges, and which may follow which.

Theory of operation. Every stage of a study (keys, alignment, scaling, training,
prediction) has one table of phases. A phase names its request, its reply, and the
phases that may come directly before it at the same client. Both sessions walk the
table: a client refuses a request out of order, a server never sends one. A client
may skip phases that are not for it, such as those of clients with labels, so a table
lists what may come before rather than one sequence.

The audit reads the same tables: a phase that stands in none of them does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Union

from hyfdca.protocol.messages import Message

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
        Counted apart from a round's own round trips, as line searches are.
    """

    request: type[Message]
    reply: tuple[type[Message], ...] = ()
    after: tuple[str, ...] | None = None
    seen: str = ""
    is_extra: bool = False

    @cached_property
    def reply_type(self) -> Any:
        """The type that a reply is decoded as."""
        return Union[self.reply] if self.reply else None  # noqa: UP007


Phases = Mapping[str, Phase]
