"""Clients that hold the same share a secret, through a server that only relays."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyfdca.crypto.keys.set_secrets import AgreedSecrets
from hyfdca.holdings.axis import Axis
from hyfdca.holdings.layout import Layout
from hyfdca.protocol.client_session import ClientSession
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.server_session import BadReplyError, ServerSession
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.inprocess import InProcess
from hyfdca.stages.groups import (
    PHASES,
    GroupsClient,
    MadeSecrets,
    SetsRequest,
    TakeSecrets,
    holder_sets,
    share_secrets,
)
from tests.crypto.test_set_secrets import IDENTITIES, clients_of, roster_of
from tests.support.holding_strategies import subsets
from tests.support.thoroughness import examples

TOKEN = b"groups!!"


def layout_of(rows, columns, labelled):
    """Return who holds what."""
    axes = [
        Axis(5, tuple(np.array(own, np.int64) for own in held))
        for held in (rows, columns)
    ]
    return Layout(*axes, tuple(labelled))


def run(clients, sets):
    """Let clients share the secrets of sets; return the cost."""
    sessions = {
        rank: ClientSession(TOKEN, PHASES, GroupsClient(own).handlers)
        for rank, own in enumerate(clients)
    }
    traffic = Traffic()
    conversation = share_secrets(ServerSession(TOKEN, PHASES), sets)
    InProcess(sessions).run(conversation, traffic)
    return traffic


four = partial(st.lists, min_size=4, max_size=4)


@settings(max_examples=examples(20))
@given(four(subsets(5)), four(subsets(5)), four(st.booleans()))
def test_all_holders_of_an_item_share_a_secret(rows, columns, labelled):
    """Rows, columns, the bias and labels have secrets, after two round trips."""
    clients, layout = clients_of(roster_of()), layout_of(rows, columns, labelled)
    sets = holder_sets(layout)
    assert run(clients, sets).round_trips in (0, 2)
    wanted = {tuple(k for k in range(4) if labelled[k])}
    for held in (rows, columns):
        wanted |= {tuple(k for k in range(4) if i in held[k]) for i in range(5)}
    assert wanted - {()} <= sets
    for members in sets - {()}:
        assert len({clients[k].of(members) for k in members}) == 1


def test_a_repeated_set_up_gives_the_same_secrets():
    """A client that comes back opens the envelopes it has on disk."""
    first, again = clients_of(roster_of()), clients_of(roster_of())
    members = (0, 1, 3)
    kept = GroupsClient(first[0]).handlers["make secrets"](SetsRequest([members]))
    for clients in (first, again):
        take = GroupsClient(clients[3]).handlers["take secrets"]
        take(TakeSecrets({0: kept.envelopes[3]}))
    assert first[3].of(members) == again[3].of(members) == again[0].of(members)


@pytest.mark.parametrize("sets", [[(1, 2, 3)], [(0, 2, 9)], [(0, 2, 1)]])
def test_a_client_makes_only_secrets_that_are_its_to_make(sets):
    """It must be the lowest-ranked member of a set on the roster."""
    client = GroupsClient(AgreedSecrets(IDENTITIES[0], roster_of()))
    with pytest.raises(RemoteProtocolError):
        client.handlers["make secrets"](SetsRequest([*sets, (0, 1, 2)]))


def test_a_maker_that_leaves_somebody_out_is_named():
    """The server says which client it was."""

    class Forgetful(GroupsClient):
        def _make(self, request):
            made = super()._make(request).envelopes
            return MadeSecrets(dict(list(made.items())[:-1]))

    sessions = {
        rank: ClientSession(TOKEN, PHASES, Forgetful(own).handlers)
        for rank, own in enumerate(clients_of(roster_of()))
    }
    conversation = share_secrets(ServerSession(TOKEN, PHASES), {(0, 1, 2)})
    with pytest.raises(BadReplyError, match="client 0"):
        InProcess(sessions).run(conversation, Traffic())
