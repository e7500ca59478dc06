"""The one refusal of a sealed sum that does not open, whatever is wrong with it.

A server adds sealed numbers, so it can add some of its own. If the words of a refusal
depended on what was inside, each refusal would tell it something about the sum.
"""

from __future__ import annotations

from hyfdca.protocol.codec import RemoteProtocolError

UNOPENED = "a sum does not open: a part of it is wrong"


class UnopenedError(RemoteProtocolError):
    """A sum does not open; the cause stays at this client."""

    def __init__(self) -> None:
        super().__init__(UNOPENED)
