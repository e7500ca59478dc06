"""Replay of conversations: replies are recorded and later returned in order.

The server's state follows from the replies it received, so they suffice to restore it.
"""

from __future__ import annotations

from hyfdca.protocol.server_session import Ask, Replies
from hyfdca.runtime.driver import Driver

Heard = list[dict[int, bytes]]  # the replies of one exchange after another


class Journaling(Driver):
    """Records the replies that another driver returns."""

    def __init__(self, driver: Driver, heard: Heard) -> None:
        self._driver, self._heard = driver, heard

    def exchange(self, ask: Ask) -> Replies:
        """Pass the request to the other driver, and record the replies."""
        replies = self._driver.exchange(ask)
        self._heard.append({c: bytes(reply) for c, reply in replies.ok.items()})
        return replies


class Repeating(Driver):
    """Returns recorded replies without asking any client.

    Parameters
    ----------
    heard : Heard
        Consumed by the exchanges.
    """

    def __init__(self, heard: Heard) -> None:
        self._heard = heard

    def exchange(self, ask: Ask) -> Replies:
        """Return the replies recorded for this exchange."""
        if not self._heard or set(self._heard[0]) != set(ask.payloads):
            raise ValueError("the journal belongs to another conversation")
        return Replies(self._heard.pop(0))
