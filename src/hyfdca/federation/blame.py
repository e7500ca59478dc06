"""Whose part may be wrong where a client cannot open a sum: not only its own."""

from __future__ import annotations

from collections.abc import Set

from hyfdca.federation.sealing.client_sealing import UNOPENED
from hyfdca.holdings.layout import Layout
from hyfdca.protocol.server_session import BadReplyError, ClientsFailedError


def blamed(
    error: ClientsFailedError, layout: Layout, senders: Set[int] | None = None
) -> ClientsFailedError | BadReplyError:
    """Return what to raise where clients failed, perhaps since a sum does not open.

    Then all who contribute to it are blamed.

    Parameters
    ----------
    senders : set of int, optional
        Who contributes; by default those that share rows or columns with the client.
    """
    unable = [c for c, why in error.reasons.items() if UNOPENED in why]
    if not unable:
        return error
    suspects = set(unable)
    for client in unable:
        suspects |= neighbours(layout, client) if senders is None else senders
    reason = (
        "a sum of what they sent does not open, so the part of one of them is "
        "wrong, or who opens it is"
    )
    return BadReplyError(error.phase, sorted(suspects), reason)


def neighbours(layout: Layout, client: int) -> set[int]:
    """Return the clients that hold some of a client's rows or columns."""
    found: set[int] = set()
    for axis in (layout.samples, layout.features):
        _, holders, _ = axis.holders_of(axis.items[client])
        found |= set(holders.tolist())
    return found
