"""Clients that come back with the keys they kept, or with another study file."""

import pytest

from hyfdca.crypto.schemes.registry import public_parameters
from hyfdca.stages.keys.client import HeldKeys, KeyAgreementError
from hyfdca.stages.keys.server import agree_again, agree_on_keys, compare_keys
from tests.stages.key_holders import Client, Server, new_keys, roster_of, sealed


def restarted(server, client, roster=None):
    """Start a client again with what it kept, as it is on disk."""
    held = HeldKeys.from_bytes(server.clients[client].holder.held.to_bytes())
    server.clients[client] = Client(client, roster or server.roster, held)


def test_a_client_that_comes_back_has_its_keys():
    """Kept keys are used again; the maker does not make others."""
    server = Server()
    server.run(agree_on_keys, range(3))
    keys = server.all_keys()
    envelope = server.clients[0].holder._sealed[1]
    for client in range(3):
        restarted(server, client)
    assert server.all_keys() == keys  # everybody had confirmed them
    server.give(1, 0, envelope)
    server.run(compare_keys, range(3))
    assert server.all_keys() == keys
    assert server.make(0).tag == server.tag(0)
    assert server.clients[0].n_made == 0


def test_keys_that_were_not_confirmed_are_not_used_after_a_restart_either():
    """Who went away before everybody had compared must compare first."""
    server = Server()
    made = server.make(0)
    server.give(1, 0, made.envelopes[1])
    for client in (0, 1):
        restarted(server, client)
        with pytest.raises(KeyAgreementError, match="not confirmed"):
            _ = server.clients[client].holder.keys


@pytest.mark.parametrize("holding", [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_clients_with_the_keys_of_an_earlier_run_pass_them_on(holding):
    """All end with the same, those that were there if there were any."""
    server = Server()
    server.run(agree_on_keys, range(3))
    keys = server.all_keys()
    for client in range(3):
        if client in holding:
            restarted(server, client)
        else:
            server.clients[client] = Client(client, server.roster)
    public = server.run(agree_again, range(3), holding)
    assert public == public_parameters(server.all_keys()[0].scheme_keys)
    assert len({own.to_bytes() for own in server.all_keys()}) == 1
    assert (server.all_keys() == keys) == bool(holding)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x96\xc4\x00"])
def test_held_keys_are_read_or_refused(content):
    """Bytes that are not held keys are refused without showing them."""
    with pytest.raises(ValueError, match="not held keys"):
        HeldKeys.from_bytes(content)


def test_a_client_that_comes_back_still_refuses_replays():
    """What was taken is remembered with the keys."""
    server = Server()
    server.run(agree_on_keys, range(3))
    restarted(server, 1)
    assert "replay" in server.refused(1, 0, sealed(new_keys(), server.roster))


def test_a_later_epoch_has_new_keys():
    """With a study file of a later epoch old keys are gone and new ones are made."""
    server = Server()
    server.run(agree_on_keys, range(3))
    old = server.all_keys()
    server.roster = roster_of(epoch=2)
    for client in range(3):
        restarted(server, client)
        assert server.clients[client].holder.held is None
    server.run(agree_on_keys, range(3))
    assert server.all_keys()[0] not in old
    assert server.clients[1].holder.held.epoch == 2


def test_an_old_study_file_is_refused():
    """A client that has keys of a later epoch does not go back."""
    server = Server(epoch=2)
    server.run(agree_on_keys, range(3))
    with pytest.raises(ValueError, match="keys of epoch 2, the study file is of epo"):
        restarted(server, 1, roster_of(epoch=1))


@pytest.mark.parametrize("roster", [roster_of(study=b"t"), roster_of(4)])
def test_a_changed_study_needs_a_new_epoch(roster):
    """Keys stay with the study file and the roster they were made for."""
    server = Server()
    server.run(agree_on_keys, range(3))
    with pytest.raises(ValueError, match="raise its key_epoch"):
        restarted(server, 1, roster)
