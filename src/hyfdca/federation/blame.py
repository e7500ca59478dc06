"""Names everybody whose part may be wrong if a client cannot open a sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from functools import partial

from hyfdca.federation.sealing.unopened import UNOPENED
from hyfdca.holdings.layout import Layout
from hyfdca.protocol.server_session import BadReplyError, ClientsFailedError

WRONG_PART = (
    "a sum of their parts does not open, so a part of one of them is wrong, or the one "
    "that opens the sum is"
)


def blamed(
    error: ClientsFailedError, contributors: Callable[[int], Set[int]]
) -> ClientsFailedError | BadReplyError:
    """Return the error to raise if clients failed, perhaps because a sum does not open.

    In that case, all who contribute to the sum are blamed.

    Parameters
    ----------
    contributors : callable
        Returns who contributes to what a client opens.
    """
    unable = [c for c, why in error.reasons.items() if UNOPENED in why]
    if not unable:
        return error
    suspects = set(unable).union(*map(contributors, unable))
    return BadReplyError(error.phase, sorted(suspects), WRONG_PART)


@contextmanager
def sums_of(layout: Layout) -> Iterator[None]:
    """Blame all who share rows or columns with a client that cannot open a sum."""
    try:
        yield
    except ClientsFailedError as error:
        raise blamed(error, partial(neighbours, layout)) from None


def neighbours(layout: Layout, client: int) -> set[int]:
    """Return the clients that hold some of a client's rows or columns."""
    found: set[int] = set()
    for axis in (layout.samples, layout.features):
        _, holders, _ = axis.holders_of(axis.items[client])
        found |= set(holders.tolist())
    return found
