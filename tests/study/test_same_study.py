"""A server that does not send all organisations the same study is found out."""

import msgspec
import numpy as np
import pytest

from hyfdca.errors import StudyError
from hyfdca.protocol.client_session import frame
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.server_session import ServerSession
from hyfdca.study import messages as m
from hyfdca.study.client.client import STUDY_TOKEN
from tests.support.durable_runs import Consortium, undisturbed, write


@pytest.fixture
def consortium(tmp_path):
    """Return a small study of three organisations."""
    return Consortium(write(tmp_path))


def lying(monkeypatch, phase, change):
    """Make the server send the last organisation something different in one phase."""
    honest = ServerSession._framed

    def framed(self, name, requests):
        if name == phase and len(requests) > 1:
            last = max(requests)
            requests = {**requests, last: change(requests[last])}
        return honest(self, name, requests)

    monkeypatch.setattr(ServerSession, "_framed", framed)


def longer(request):
    """Return the request with planes that are longer in the last digit."""
    lengths = np.nextafter(np.frombuffer(request.units), np.inf)
    return msgspec.structs.replace(request, units=memoryview(lengths.tobytes()))


def better(request):
    """Return the request with another certificate."""
    return msgspec.structs.replace(request, relative_gap=0.0)


@pytest.mark.parametrize(("phase", "change"), [("gram", longer), ("keep", better)])
def test_a_server_that_tells_two_stories_ends_the_study(
    phase, change, consortium, monkeypatch
):
    """The study ends, and the reason names what the server did."""
    lying(monkeypatch, phase, change)
    with pytest.raises(StudyError, match="something different from"):
        consortium.train()


def stronger(request):
    """Return the request with a larger strength of all penalties."""
    return msgspec.structs.replace(request, largest_l2=2.0 * request.largest_l2)


def test_all_choose_among_the_same_strengths(tmp_path, monkeypatch):
    """The server alone knows them where they are left to the data."""
    folder = write(tmp_path, l2='"auto"', folds="2", tol="1e-2", max_rounds="5")
    lying(monkeypatch, "fits", lambda r: stronger(r) if r.largest_l2 else r)
    with pytest.raises(StudyError, match="something different from"):
        Consortium(folder).train()


def test_the_model_comes_with_the_last_accounts(consortium):
    """A server that withholds them cannot deliver a model."""
    consortium.train()
    member, number = consortium.network._members[0], 2**60
    notice = frame(STUDY_TOKEN, number, m.FinishNotice(b"a model", []))
    with pytest.raises(RemoteProtocolError, match="withholds"):
        member.handle("study", "finish", notice)
    assert member.model is None


def test_honest_studies_are_unchanged(consortium):
    """Comparing changes no number."""
    _, weights = consortium.train()
    assert weights.tobytes() == undisturbed(consortium.folder)[1].tobytes()
