"""Recording: the whole view is on disk or none of it, and no bit of the run differs."""

from __future__ import annotations

import stat

import numpy as np
import pytest

from hyfdca.audit.recording import Recorder, train_recorded
from hyfdca.audit.views import (
    Header,
    Record,
    ViewError,
    ViewWriter,
    client_views,
    read_view,
    view_path,
)
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.errors import StudyError
from hyfdca.runtime.driver import listening
from tests.protocol.wires import four_clients, numbers_of
from tests.support.consortia import make_files
from tests.support.small_runs import classification, make_training, partition_of

pytestmark = pytest.mark.usefixtures("no_figure")

HEADER = Header(
    party=None,
    name="server",
    run="r",
    study="study.toml",
    study_hash="",
    profile="sealed",
    encryption="none",
)
STREAM = Encryption("stream")


def silent(*_):
    """Watch rounds silently."""


def hyfdca_run():
    X, y = classification(40, 6, noise=0.5)
    partition = partition_of("2x2", 40, 6)
    return make_training(
        X, y, partition, max_rounds=6, local_steps=3, encryption=STREAM
    )


def recorded(run, folder, clients):
    """Return the result of a recorded run."""
    recorder = Recorder(folder, HEADER, dict.fromkeys(clients, "somebody"))
    with recorder.recording():
        for rank, party in enumerate(run.parties):
            recorder.attach(rank, party.sealing)
        return numbers_of(run)


def records_of(folder, party=None):
    return list(read_view(view_path(folder, party))[1])


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", [hyfdca_run, four_clients])
def test_recording_changes_nothing(make, tmp_path):
    """Recording a run changes no bit of its result."""
    assert recorded(make(), tmp_path, [0, 2]) == numbers_of(make())


def test_server_view_is_whole(tmp_path):
    """The server's view has every byte that was counted as traffic, both ways."""
    run = hyfdca_run()
    recorded(run, tmp_path, [])
    seen = {"down": 0, "up": 0}
    for record in records_of(tmp_path):
        seen[record.direction] += len(record.payload)
    costs = [run.runner.progress.set_up_traffic, run.runner.release_traffic]
    down = sum(cost.bytes_down for cost in costs)
    up = sum(cost.bytes_up for cost in costs)
    for record in run.history:
        down += record["bytes_down"] + record["measuring_bytes_down"]
        up += record["bytes_up"] + record["measuring_bytes_up"]
    assert seen == {"down": down, "up": up}


def test_client_view_is_its_own(tmp_path):
    """A client's view has its own messages and what it opened of them, and no more."""
    run = hyfdca_run()
    recorded(run, tmp_path, [1])
    own = records_of(tmp_path, 1)
    passed = [r for r in own if r.direction in ("down", "up")]
    assert passed == [r for r in records_of(tmp_path) if r.client == 1]
    opened = [r for r in own if r.direction == "opened" and r.phase == "shares"]
    assert np.array_equal(opened[-1].numbers().shape[1], 1)
    weights = [r for r in own if r.direction == "opened" and r.kind == "features"]
    scaled = weights[-1].numbers() / run.parties[1].problem.l2_scale
    assert np.allclose(scaled, run.clients[1].dual.weights)
    assert client_views(tmp_path) == [view_path(tmp_path, 1)]


def test_views_are_for_their_owner(tmp_path):
    """Nobody but its owner can read a view: it may hold secrets."""
    recorded(hyfdca_run(), tmp_path, [0])
    for party in (None, 0):
        mode = view_path(tmp_path, party).stat().st_mode
        assert stat.S_IMODE(mode) == 0o600


def test_failed_runs_leave_no_view(tmp_path):
    """An aborted run leaves the view of the previous run and none of its own."""
    recorded(hyfdca_run(), tmp_path, [0])
    before = view_path(tmp_path, None).read_bytes()
    broken = hyfdca_run()
    broken.parties[3].block = None
    with pytest.raises(AttributeError):
        recorded(broken, tmp_path, [1])
    assert view_path(tmp_path, None).read_bytes() == before
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"client-0.view", "server.view"}


def test_listening_ends(tmp_path):
    """A listener that stops listening receives nothing more."""
    heard = []
    with listening(lambda ask, _: heard.append(ask.phase)):
        hyfdca_run().finish()
    n_heard = len(heard)
    hyfdca_run().finish()
    assert len(heard) == n_heard > 0


def small_view(folder):
    path = view_path(folder, None)
    writer = ViewWriter(path, HEADER)
    for number in range(3):
        writer.write(Record("shares", number, "up", bytes([number]) * 5))
    writer.close()
    return path


def test_views_round_trip(tmp_path):
    """What was written is what is read."""
    header, records = read_view(small_view(tmp_path))
    assert header == HEADER
    assert [(r.client, r.payload) for r in records] == [
        (n, bytes([n]) * 5) for n in range(3)
    ]


def test_every_cut_and_every_flip_is_noticed(tmp_path):
    """A view that is cut anywhere, or has one bit changed, is refused in a sentence."""
    path = small_view(tmp_path)
    content = path.read_bytes()
    spoilt = [content[:n] for n in range(len(content))]
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1
        spoilt.append(bytes(flipped))
    for bad in spoilt:
        path.write_bytes(bad)
        with pytest.raises(ViewError, match=r"record|train with"):
            list(read_view(path)[1])


def test_missing_views_are_reported(tmp_path):
    """A missing view yields one sentence that says what to do."""
    with pytest.raises(ViewError, match="train with --record"):
        read_view(view_path(tmp_path, None))


def test_studies_record(tmp_path):
    """A study's views start with its scaling and say where the study file is."""
    path = make_files(scale='"standard"').write(tmp_path)
    out = tmp_path / "deep" / "out"
    train_recorded(path, out, silent, ["city"])
    header, records = read_view(view_path(out, None))
    assert (out / header.study).resolve() == path.resolve()
    phases = [record.phase for record in records]
    assert {"digits", "statistics", "planes", "release"} <= set(phases)
    own, _ = read_view(view_path(out, 1))
    assert (own.party, own.name, own.run) == (1, "city", header.run)


def test_strangers_are_not_recorded(tmp_path):
    """Naming an organisation that is not in the study yields one sentence."""
    path = make_files().write(tmp_path)
    with pytest.raises(StudyError, match="Cannot record 'south', which is not in"):
        train_recorded(path, tmp_path / "out", silent, ["south"])
    assert not (tmp_path / "out").exists()


def test_views_of_an_earlier_run_do_not_stay(tmp_path):
    """Once a run is recorded; one that fails leaves the earlier views as they were."""
    recorded(hyfdca_run(), tmp_path, [0, 1])
    recorder = Recorder(tmp_path, HEADER, {1: "somebody"})
    with pytest.raises(ValueError, match="in the middle"), recorder.recording():
        raise ValueError("in the middle")
    assert client_views(tmp_path) == [view_path(tmp_path, n) for n in (0, 1)]
    recorded(hyfdca_run(), tmp_path, [1])
    assert client_views(tmp_path) == [view_path(tmp_path, 1)]
