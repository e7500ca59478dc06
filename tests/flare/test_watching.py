"""What job processes write about a study's progress, for displays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyfdca.flare.status import Status, read_status
from hyfdca.flare.watching import ClientWatch, ServerWatch
from hyfdca.study.client.records import News
from hyfdca.study.file import load
from hyfdca.study.plan import Plan, plan_of
from hyfdca.study.tuning import RunChoice
from tests.support.consortia import make_files
from tests.support.durable_runs import write


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(load(make_files().write(tmp_path)), bytes(32))


def record(number: int, gap: float) -> dict[str, Any]:
    traffic = {"bytes_up": 10, "bytes_down": 100}
    measuring = {f"measuring_{name}": n // 10 for name, n in traffic.items()}
    return {"round": number, "relative_gap": gap, **traffic, **measuring}


def written(state: Path) -> Status:
    status = read_status(state)
    assert status is not None
    return status


def test_the_server_shows_rounds_bytes_and_who_is_present(
    tmp_path: Path, plan: Plan
) -> None:
    """Gaps that were not measured are not shown; names are the study's."""
    watch = ServerWatch(tmp_path, plan)
    presence: Any = SimpleNamespace(present={2: None, 0: None}, missing=[1])
    history = [record(1, 0.5), record(2, float("nan"))]
    watch.show(presence, history[:1])
    watch.show(presence, history)
    status = written(tmp_path)
    assert (status.round, status.max_rounds, status.tolerance) == (2, 1000, 1e-4)
    assert [gap for _, gap in status.gaps] == [0.5]
    assert (status.present, status.missing) == (["north", "coast"], ["city"])
    assert (status.bytes_up, status.bytes_down) == (22, 220)


def test_sentences_are_kept_with_their_number(tmp_path: Path, plan: Plan) -> None:
    """Only the last fifty are kept, and a round does not erase them."""
    watch = ServerWatch(tmp_path, plan)
    for number in range(70):
        watch.tell(f"sentence {number}")
    presence: Any = SimpleNamespace(present={}, missing=[0, 1, 2])
    watch.show(presence, [record(1, 0.5)])
    status = written(tmp_path)
    assert status.sentences == [f"sentence {n}" for n in range(20, 70)]
    assert status.n_sentences == 70
    assert status.writer != ServerWatch(tmp_path, plan)._writer


def test_the_last_gaps_are_kept(tmp_path: Path, plan: Plan) -> None:
    """The trend is computed from them."""
    watch = ServerWatch(tmp_path, plan)
    presence: Any = SimpleNamespace(present={}, missing=[])
    for number in range(1, 31):
        watch.show(presence, [record(number, 1.0 / number)])
    assert [gap for _, gap in written(tmp_path).gaps] == [
        1.0 / n for n in range(11, 31)
    ]


def test_a_member_counts_its_own_bytes(tmp_path: Path, plan: Plan) -> None:
    """It also shows the gap that comes with a kept round."""
    watch = ClientWatch(tmp_path, plan)
    news = News(round=1, gap=0.25, present=(0, 2))
    watch.note("training", "step", 7, 5, news)
    watch.note("study", "keep", 1, 1, news)
    status = written(tmp_path)
    assert (status.bytes_down, status.bytes_up) == (8, 6)
    assert status.gap == 0.25
    assert (status.present, status.missing) == (["north", "coast"], ["city"])


def test_a_member_writes_no_more_often_than_people_look(
    tmp_path: Path, plan: Plan
) -> None:
    """Hundreds of requests per second need no file each, but every kept round does."""
    watch = ClientWatch(tmp_path, plan)
    news = News(round=1, gap=None, present=(0,))
    for _ in range(3):
        watch.note("training", "step", 1, 1, news)
    assert written(tmp_path).bytes_up == 1
    watch.note("study", "keep", 1, 1, news)
    assert written(tmp_path).bytes_up == 4


def test_every_party_sees_what_was_chosen_for_a_run(
    tmp_path: Path, plan: Plan, caplog: pytest.LogCaptureFixture
) -> None:
    """Screen and log show it once, with the limits of the run."""
    caplog.set_level("INFO", "hyfdca")
    study = write(tmp_path, tuning="max_rounds = {most = 2000}") / "study.toml"
    agreed = plan_of(load(study), bytes(32))
    further = agreed.of_run(RunChoice(number=2, max_rounds=30))
    said = "Run 2 of the study 'test': max_rounds = 30 (study file: 1000, allowed: "
    said += "1 to 2000)."
    ServerWatch(tmp_path / "server", further)
    watch = ClientWatch(tmp_path / "client", agreed)
    for _ in range(2):
        watch.follow(further)
        watch.note("study", "begin", 1, 1, News())
    for side in ("server", "client"):
        status = written(tmp_path / side)
        assert (status.sentences, status.max_rounds) == ([said], 30)
    assert [record.message for record in caplog.records] == [said, said]
