"""Lets clients share the study's keys through a server that cannot read them.

It comes before everything else, as a separate conversation.

| phase        | who              | down                | up                          |
|--------------|------------------|---------------------|-----------------------------|
| make keys    | the maker        | -                   | envelopes by rank, its tag, |
|              |                  |                     | public parameters           |
| seal keys    | any key holder   | rank of a latecomer | one envelope, its tag       |
| take keys    | everybody else   | its envelope        | its tag                     |
| key tag      | a key holder     | -                   | its tag                     |
| compare keys | everybody        | tags by rank        | - (the server knows: equal) |
| parameters   | a key holder     | -                   | public parameters           |

Theory of operation. The server relays, and a client believes nothing it says: whom to
seal to, whose signature to expect, which study, which epoch, all come from the client's
own roster. So a server can swap, replay or withhold envelopes but make nobody accept
keys that a client of the roster did not seal for just that client, study and epoch.

What a signature does not show is that everybody got the *same* keys: a server could ask
two clients to make keys. Therefore tags: a tag is a MAC by the keys over study, roster,
epoch and the name of its maker. A client lets its keys be used only when it has seen
the right tag of every client of its roster. Tags pass through the server, which can
neither make one without the keys nor pass one client's off as another's.

A refused request changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from hyfdca.protocol.messages import Message
from hyfdca.protocol.server_session import BadReplyError, Conversation, ServerSession
from hyfdca.stages.keys import messages as m


def agree_on_keys(
    session: ServerSession, clients: Iterable[int]
) -> Conversation[dict[str, bytes]]:
    """Let the lowest-ranked client make keys and all others take them; all compare.

    Returns what the server must know to add, by scheme.
    """
    maker, *others = sorted(clients)
    made = (yield from session.ask("make keys", {maker: Message()}, m.MadeKeys))[maker]
    missing = [client for client in others if client not in made.envelopes]
    if missing:
        reason = f"it sealed no keys for client {missing[0]}: not on its roster"
        raise BadReplyError("make keys", maker, reason)
    requests = {c: m.TakeKeys(maker, made.envelopes[c]) for c in others}
    taken = yield from session.ask("take keys", requests, m.Confirmation)
    tags = {maker: made.tag, **{c: reply.tag for c, reply in taken.items()}}
    yield from _compare(session, tags)
    return made.public


def agree_again(
    session: ServerSession, clients: Iterable[int], holders: Collection[int]
) -> Conversation[dict[str, bytes]]:
    """Give all clients the keys that some have from an earlier run, and compare.

    If no client has any, they are made. Returns what the server needs for adding.
    """
    everybody = sorted(clients)
    if not holders:
        return (yield from agree_on_keys(session, everybody))
    first = min(holders)
    for newcomer in everybody:
        if newcomer not in holders:
            yield from admit(session, newcomer, first)
    yield from compare_keys(session, everybody)
    replies = yield from session.ask("parameters", {first: Message()}, m.Parameters)
    return replies[first].public


def admit(session: ServerSession, newcomer: int, by: int) -> Conversation[None]:
    """Let a client that has the keys seal them for one that has not; both compare.

    ``compare_keys`` must follow, so that the others learn about it.
    """
    request = {by: m.SealKeys(newcomer)}
    sealed = (yield from session.ask("seal keys", request, m.SealedKeys))[by]
    envelope = {newcomer: m.TakeKeys(by, sealed.envelope)}
    taken = yield from session.ask("take keys", envelope, m.Confirmation)
    yield from _compare(session, {by: sealed.tag, newcomer: taken[newcomer].tag})


def compare_keys(session: ServerSession, clients: Iterable[int]) -> Conversation[None]:
    """Let clients that have keys compare them."""
    requests = dict.fromkeys(sorted(clients), Message())
    replies = yield from session.ask("key tag", requests, m.Confirmation)
    yield from _compare(session, {c: reply.tag for c, reply in replies.items()})


def _compare(session: ServerSession, tags: Mapping[int, bytes]) -> Conversation[None]:
    # A request, not a notice: the server must not continue before all have agreed.
    requests = dict.fromkeys(tags, m.CompareKeys(dict(tags)))
    yield from session.ask("compare keys", requests, Message)
