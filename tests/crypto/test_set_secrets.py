"""Secrets of sets of clients: the members have them, nobody else does."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster, RosterEntry
from hyfdca.crypto.keys.set_secrets import AgreedSecrets, LocalSecrets

IDENTITIES = [Identity.generate() for _ in range(4)]


def roster_of(study: bytes = b"s" * 32, epoch: int = 1) -> Roster:
    """Return the roster of four organisations."""
    entries = [RosterEntry(f"org {k}", own.public) for k, own in enumerate(IDENTITIES)]
    return Roster(study, tuple(entries), epoch)


def clients_of(roster: Roster) -> list[AgreedSecrets]:
    """Return what each organisation has before any message."""
    return [AgreedSecrets(identity, roster) for identity in IDENTITIES]


def exchanged(clients: list[AgreedSecrets], sets: set[tuple[int, ...]]) -> None:
    """Let the lowest-ranked member of each set seal its secret to the others."""
    for maker, taker in combinations(range(4), 2):
        own = [s for s in sets if s[0] == maker and taker in s]
        if own:
            clients[taker].take({maker: clients[maker].sealed_to(taker, own)})


SETS = st.sets(
    st.sets(st.integers(0, 3), min_size=1).map(lambda s: tuple(sorted(s))), min_size=1
)


@given(SETS)
def test_members_have_the_same_secret_and_others_have_none(sets):
    """It holds for any sets; each set has a different secret."""
    clients = clients_of(roster_of())
    exchanged(clients, sets)
    found = []
    for members in sets:
        [secret] = {clients[k].of(members) for k in members}
        found.append(secret)
        for outsider in set(range(4)) - set(members):
            with pytest.raises(ValueError, match="with this client"):
                clients[outsider].of(members)
    assert len(set(found)) == len(sets)


@pytest.mark.parametrize("members", [(1,), (0, 2), (0, 1, 3)])
def test_secrets_are_of_one_study_and_epoch(members):
    """Another study or epoch has others; the same one again has the same."""
    first = members[0]
    rosters = [roster_of(), roster_of(b"t" * 32), roster_of(epoch=2), roster_of()]
    found = [clients_of(roster)[first].of(members) for roster in rosters]
    assert found[0] == found[3]
    assert len(set(found)) == 3


@pytest.mark.parametrize("members", [(1,), (0, 2), (0, 1, 3)])
def test_a_further_run_has_secrets_of_its_own(members):
    """So have the pads derived from them, even of a sealer with the same name."""
    roster, first = roster_of(), IDENTITIES[members[0]]
    found = [AgreedSecrets(first, roster, run).of(members) for run in (1, 2, 3, 1)]
    assert found[0] == found[3]
    assert len(set(found)) == 3


def test_secrets_of_an_earlier_run_are_not_taken():
    """A server that repeats an envelope gets nobody to use its pads again."""
    roster, members = roster_of(), (0, 1, 2)
    maker, taker = (
        AgreedSecrets(IDENTITIES[0], roster),
        AgreedSecrets(IDENTITIES[2], roster, 2),
    )
    with pytest.raises(ValueError, match="no secrets of sets of this run"):
        taker.take({0: maker.sealed_to(2, [members])})
    taker.take({0: AgreedSecrets(IDENTITIES[0], roster, 2).sealed_to(2, [members])})
    assert taker.of(members) != maker.of(members)


def test_a_secret_is_taken_from_the_lowest_ranked_member_alone():
    """No other client, and no envelope of another study, replaces it."""
    clients = clients_of(roster_of())
    with pytest.raises(ValueError, match="has not come"):
        clients[2].of((0, 1, 2))
    with pytest.raises(ValueError, match="only the lowest-ranked"):
        clients[1].sealed_to(3, [(1, 2)])
    right = clients[0].sealed_to(2, [(0, 1, 2)])
    for sender, envelope, reason in [
        (1, right, "belongs elsewhere"),
        (0, clients_of(roster_of(epoch=2))[0].sealed_to(2, [(0, 1, 2)]), "epoch"),
        (0, right[:-1], "cut short"),
        (2, right, "not another client"),
        (9, right, "not another client"),
    ]:
        with pytest.raises(ValueError, match=reason):
            clients[2].take({sender: envelope})
        assert not clients[2]._taken
    clients[2].take({0: right})
    assert clients[2].of((0, 1, 2)) == clients[0].of((0, 1, 2))


@pytest.mark.parametrize("members", [(), (1, 0), (0, 0, 1), (0, 7), (1, 2)])
def test_what_is_no_set_with_the_client_is_refused(members):
    """It is refused between processes and in one process."""
    for secrets in (clients_of(roster_of())[0], LocalSecrets(bytes(32), 0, 4)):
        with pytest.raises(ValueError, match=r"members|roster"):
            secrets.of(members)
