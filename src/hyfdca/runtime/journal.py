"""Conversations gone through again: replies are noted, and later given in their place.

A server's half follows from the replies it got, so who has these has its state.
"""

from __future__ import annotations

from hyfdca.protocol.server_session import Ask, Replies
from hyfdca.runtime.driver import Driver

Heard = list[dict[int, bytes]]  # the replies of one exchange after another


class Journaling(Driver):
    """Notes what another driver brings."""

    def __init__(self, driver: Driver, heard: Heard) -> None:
        self._driver, self._heard = driver, heard

    def exchange(self, ask: Ask) -> Replies:
        """Have the other driver bring it, and note the replies."""
        replies = self._driver.exchange(ask)
        self._heard.append({c: bytes(reply) for c, reply in replies.ok.items()})
        return replies


class Repeating(Driver):
    """Gives noted replies; nobody is asked.

    Parameters
    ----------
    heard : Heard
        Is used up.
    """

    def __init__(self, heard: Heard) -> None:
        self._heard = heard

    def exchange(self, ask: Ask) -> Replies:
        """Return what was said at this place."""
        if not self._heard or set(self._heard[0]) != set(ask.payloads):
            raise ValueError("the journal is of another conversation")
        return Replies(self._heard.pop(0))
