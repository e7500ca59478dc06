"""Gives the holders of an owner group a secret that nobody else has.

It follows the alignment, as a separate conversation, and only if some rows or columns
have three holders or more: two clients agree without a message (``set_secrets.py``).

| phase        | who                            | down                   | up         |
|--------------|--------------------------------|------------------------|------------|
| make secrets | the lowest-ranked of each set  | sets of clients        | envelopes, |
|              |                                |                        | by rank    |
| take secrets | the other members              | envelopes, by sender   | -          |

Theory of operation. The server knows who holds what, and tells the members of each set
of holders who they are. It relays envelopes that it can neither open nor forge. A
client accepts a secret only from the lowest-ranked member of a set that it is in
itself. A server that names wrong members can make holders share a secret with too many
clients, but only with those on the roster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated

import msgspec
import numpy as np

from hyfdca.crypto.keys.envelope import OVERHEAD
from hyfdca.crypto.keys.set_secrets import AgreedSecrets, Members, needs_exchange
from hyfdca.holdings.axis import Axis, group_holders, owner_groups
from hyfdca.holdings.layout import Layout, with_bias
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message, Rank, Seen
from hyfdca.protocol.phases import START, Phase, Phases
from hyfdca.protocol.server_session import BadReplyError, Conversation, ServerSession

_MOST_BYTES = 2**26  # of the secrets that one client makes for another

Envelope = Annotated[bytes, msgspec.Meta(max_length=_MOST_BYTES + OVERHEAD)]


class SetsRequest(Message, frozen=True):
    """Sets of clients whose secrets the receiver makes."""

    sets: Annotated[list[tuple[Rank, ...]], Seen("holders")]


class MadeSecrets(Message, frozen=True):
    """An envelope for each other member of these sets."""

    envelopes: Annotated[dict[Rank, Envelope], Seen("set secrets")]


class TakeSecrets(Message, frozen=True):
    """Envelopes to a client, and the alleged sealer of each."""

    envelopes: Annotated[dict[Rank, Envelope], Seen("set secrets")]


PHASES: Phases = {
    "make secrets": Phase(SetsRequest, (MadeSecrets,), (START,)),
    "take secrets": Phase(TakeSecrets, (Message,), (START, "make secrets")),
}


def holder_sets(layout: Layout) -> set[Members]:
    """Return the sets of clients that share a secret in a study of this layout.

    Those who hold the same rows or columns, who have the bias, and who have labels,
    because these open the totals of labels and weights.
    """
    labelled = tuple(k for k, has_labels in enumerate(layout.labelled) if has_labels)
    axes = (layout.samples, layout.features, with_bias(layout).features)
    return {labelled}.union(*map(_holder_sets, axes))


def _holder_sets(axis: Axis) -> set[Members]:
    holders = group_holders(axis, owner_groups(axis))
    return {tuple(np.flatnonzero(own).tolist()) for own in holders}


def share_secrets(
    session: ServerSession, sets: Iterable[Members]
) -> Conversation[None]:
    """Let the members of every set of clients share its secret."""
    made: dict[int, list[Members]] = defaultdict(list)
    for members in sorted(filter(needs_exchange, sets)):
        made[members[0]].append(members)
    if not made:
        return
    requests = {maker: SetsRequest(own) for maker, own in made.items()}
    replies = yield from session.ask("make secrets", requests, MadeSecrets)
    taken: dict[int, dict[int, bytes]] = defaultdict(dict)
    for maker, reply in replies.items():
        if set(reply.envelopes) != _others(maker, made[maker]):
            raise BadReplyError(
                "make secrets", maker, "it has no envelope for each member"
            )
        for recipient, envelope in reply.envelopes.items():
            taken[recipient][maker] = envelope
    notices = {client: TakeSecrets(own) for client, own in taken.items()}
    yield from session.ask("take secrets", notices, Message)


def _others(maker: int, sets: list[Members]) -> set[int]:
    return set().union(*sets) - {maker}


class GroupsClient:
    """A client's half."""

    def __init__(self, secrets: AgreedSecrets) -> None:
        self._secrets = secrets

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {"make secrets": self._make, "take secrets": self._take}

    def _make(self, request: SetsRequest) -> MadeSecrets:
        rank, sealed = self._secrets.rank, self._secrets.sealed_to
        try:
            return MadeSecrets(
                {
                    other: sealed(other, [own for own in request.sets if other in own])
                    for other in sorted(_others(rank, request.sets))
                }
            )
        except (ValueError, IndexError) as error:
            raise RemoteProtocolError(str(error)) from None

    def _take(self, request: TakeSecrets) -> None:
        try:
            self._secrets.take(request.envelopes)
        except ValueError as error:
            raise RemoteProtocolError(str(error)) from None
