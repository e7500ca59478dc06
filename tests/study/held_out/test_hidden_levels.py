"""A server that has rows set aside scored although names of levels stay hidden.

For a point of the curves it names the levels of a member's categories, and the member
refuses names that are not its own: so a server could try names until they are right.
"""

from __future__ import annotations

import pytest

from hyfdca.errors import StudyError
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.study.server import StudyServer
from tests.support.durable_runs import Consortium
from tests.support.mixed_tables import MixedStudy

SETTINGS = {"tol": "1e-2", "encryption": '"stream"', "release_level_names": "false"}
EVALUATION = '[evaluation]\nholdout = 0.3\nsalt = "b"\ncurves = 1\n'


@pytest.fixture
def folder(tmp_path):
    """A study that an honest server refuses."""
    path = MixedStudy(settings=SETTINGS).write(tmp_path)
    path.write_text(path.read_text() + EVALUATION)
    return tmp_path


def test_members_refuse_what_an_honest_server_does(folder, monkeypatch):
    """Rows set aside are not even aligned where levels have no names."""
    with pytest.raises(StudyError, match="has release_level_names = false, but they"):
        Consortium(folder).hosted()
    monkeypatch.setattr(StudyServer, "_check_level_names", lambda *_: None)
    consortium = Consortium(folder)
    with pytest.raises(StudyError, match="aside, but has release_level_names = false"):
        consortium.hosted()
    holders = [
        member for member in consortium.network._members if member.aligned.categories
    ]
    assert len(holders) == 3  # "coast" has numbers alone
    for member in holders:
        with pytest.raises(RemoteProtocolError, match="have not been aligned"):
            _ = member._stages.held_out
