"""Whose part may be wrong where a client cannot open a sum: not only its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager

from hyfdca.federation.sealing.client_sealing import UNOPENED
from hyfdca.holdings.layout import Layout
from hyfdca.protocol.sessions import BadReplyError, ClientsFailedError


@contextmanager
def sums_of(layout: Layout) -> Iterator[None]:
    """Blame all who share rows or columns with a client that cannot open a sum."""
    with _blaming(lambda client: neighbours(layout, client)):
        yield


@contextmanager
def totals_of(senders: Set[int]) -> Iterator[None]:
    """Blame these senders if a client says that their total does not open."""
    with _blaming(lambda _: senders):
        yield


@contextmanager
def _blaming(contributors: Callable[[int], Set[int]]) -> Iterator[None]:
    try:
        yield
    except ClientsFailedError as error:
        unable = [c for c, why in error.reasons.items() if UNOPENED in why]
        if not unable:
            raise
        suspects = set(unable).union(*map(contributors, unable))
        reason = (
            "a sum of what they sent does not open, so the part of one of them is "
            "wrong, or who opens it is"
        )
        raise BadReplyError(error.phase, sorted(suspects), reason) from None


def neighbours(layout: Layout, client: int) -> set[int]:
    """Return the clients that hold some of a client's rows or columns."""
    found: set[int] = set()
    for axis in (layout.samples, layout.features):
        _, holders, _ = axis.holders_of(axis.items[client])
        found |= set(holders.tolist())
    return found
