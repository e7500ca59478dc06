"""The server and one client together open what this client shares, and no more."""

from __future__ import annotations

import msgspec
import pytest

from hyfdca.audit.collusion import Collusion, StolenKeys
from hyfdca.audit.reading import UnknownError, heard
from hyfdca.audit.report import audit_folder
from hyfdca.audit.views import read_view, view_path
from tests.audit.audits import GRID, record

pytestmark = pytest.mark.usefixtures("no_figure")

SEALED = {"encryption": '"stream"', "max_rounds": "4"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return the views of a run of four organisations, two of them recorded."""
    folder = tmp_path_factory.mktemp("recorded")
    return record(folder, GRID, clients=["north", "south"], **SEALED)


def messages_of(folder):
    """Return the messages of the server's view."""
    for seen in read_view(view_path(folder, None))[1]:
        try:
            yield heard(seen)
        except UnknownError:
            continue


def stolen(folder, rank):
    """Return the keys that a client's view has."""
    records = read_view(view_path(folder, rank))[1]
    [keys] = [r.payload for r in records if r.direction == "keys"]
    return msgspec.msgpack.decode(keys, type=StolenKeys)


def test_nothing_outside_of_its_groups_opens(recorded):
    """Its own rows and columns do open, so the keys were tried well."""
    audit = audit_folder(recorded)
    for client in audit.clients:
        assert client.collusion.n_vectors > 20
        assert client.collusion.n_inside > 0
        assert client.collusion.n_outside == 0
    assert not any("together" in complaint for complaint in audit.complaints)


def test_keys_of_two_clients_open_what_either_shares(recorded):
    """The attack finds vectors outside of a client's groups if it has their keys."""
    north, south = (stolen(recorded, rank) for rank in (0, 3))
    both = StolenKeys([*north.secrets, *south.secrets], north.check_key)
    found = Collusion(0, both).listen(messages_of(recorded))
    assert found.n_outside > 0
