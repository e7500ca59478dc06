"""The server's command when NVFlare does not answer: crash, or only a slow question."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from nvflare.fuel.flare_api import api_spec, flare_api

from hyfdca.errors import PassingError, StudyError
from hyfdca.flare import supervisor
from hyfdca.flare.admin import NoAnswerError, admin_session
from hyfdca.flare.status import Note, rejoin_file, write_note
from hyfdca.flare.supervisor import ServerGoneError, Supervisor, Terms, Watch
from hyfdca.kits.kit import Kit

NAMES = ("north", "city")


@pytest.fixture
def kit(tmp_path):
    """Return a kit without anything in it."""
    made = Kit(tmp_path)
    made.state.mkdir()
    return SimpleNamespace(names=NAMES, state=made.state, out=made.out, folder=tmp_path)


def watch_of(kit, is_running, by_site=None, tell=lambda _: None):
    """Return a watch whose server says what sites run, by default knows no answer."""

    def answer():
        if by_site is None:
            raise TimeoutError("no reply from city")
        return by_site

    admin: Any = SimpleNamespace(jobs_by_site=answer)
    parent: Any = SimpleNamespace(is_running=lambda: is_running)
    expiry: Any = SimpleNamespace(look=lambda: None)
    return Watch(admin, parent, kit, tell, expiry)


def test_a_site_that_is_leaving_is_no_crash_of_the_server(kit):
    """NVFlare waits in vain for it; the invitation can wait too."""
    watch_of(kit, is_running=True)._invite("job", NAMES)
    assert not rejoin_file(kit).exists()


def test_a_server_that_is_gone_is_noticed_by_any_question(kit):
    """Every kind of question notices it."""
    with pytest.raises(ServerGoneError):
        watch_of(kit, is_running=False)._invite("job", NAMES)


def test_a_job_without_any_site_is_paused_after_a_minute(kit, monkeypatch):
    """Sites that return may go on; one that is in the job has it wait again."""
    now, by_site, said = [100.0], {"north": set(), "city": set()}, []
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: now[0])
    watch = watch_of(kit, is_running=True, by_site=by_site, tell=said.append)
    for seconds, jobs in ((50.0, set()), (20.0, {"job"}), (50.0, set())):
        now[0] += seconds
        by_site["city"] = jobs
        by_site["north"] = jobs
        watch._invite("job", NAMES)
        assert not rejoin_file(kit).exists()
    now[0] += 20.0
    watch._invite("job", NAMES)
    assert rejoin_file(kit).exists()
    assert said == ["north, city can take part from the next round on."]


@pytest.mark.parametrize("n_failures", [2, 99])
def test_a_server_that_dies_while_it_starts_is_started_again(
    kit, monkeypatch, n_failures
):
    """After too many times in vain the command ends, as one that may be repeated."""
    n_starts, sentences = [0], []

    def start(*_):
        n_starts[0] += 1
        if n_starts[0] <= n_failures:
            raise ServerGoneError("It does not start.")
        return SimpleNamespace(stop=lambda: None)

    monkeypatch.setattr(supervisor, "start_server", start)
    monkeypatch.setattr(supervisor, "admin_session", lambda *_: nullcontext())
    monkeypatch.setattr(Supervisor, "_with_job", lambda *_: True)
    monkeypatch.setattr(supervisor.time, "sleep", lambda _: None)
    run = Supervisor(kit, Terms(), sentences.append).run
    if n_failures == 2:
        run()
        assert n_starts == [3]
    else:
        with pytest.raises(PassingError, match="It does not start"):
            run()
        assert n_starts == [6]


def test_a_server_that_does_not_answer_is_started_again(kit, monkeypatch):
    """Its administrator is not refused; the server, or the way to it, is stuck."""
    sessions: list[Any] = []
    stopped: list[Any] = []

    def session(*_):
        sessions.append(1)
        if len(sessions) == 1:
            raise NoAnswerError("no reply")
        return nullcontext()

    monkeypatch.setattr(
        supervisor,
        "start_server",
        lambda *_: SimpleNamespace(stop=lambda: stopped.append(1)),
    )
    monkeypatch.setattr(supervisor, "admin_session", session)
    monkeypatch.setattr(Supervisor, "_with_job", lambda *_: True)
    monkeypatch.setattr(supervisor.time, "sleep", lambda _: None)
    sentences: list[str] = []
    Supervisor(kit, Terms(), sentences.append).run()
    assert len(sessions) == len(stopped) == 2
    assert "does not answer its administrator (no reply)" in sentences[0]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError("no reply"), NoAnswerError),
        (api_spec.AuthenticationError("who are you?"), StudyError),
        (api_spec.AuthorizationError("you may not"), StudyError),
    ],
)
def test_refused_or_not_answered(kit, monkeypatch, error, expected):
    """Only a server that refuses its administrator ends the command for good."""

    def connect(*_, **__):
        raise error

    monkeypatch.setattr(flare_api, "new_secure_session", connect)
    kit.admin_name, kit.admin = "admin", kit.folder
    with pytest.raises(expected, match=str(error)[-8:]), admin_session(kit, 0.0):
        pass


@pytest.mark.parametrize(
    ("state", "n_servers"), [("finished", 1), ("paused", 2), (None, 2)]
)
def test_a_study_that_has_finished_is_not_started_again(
    kit, monkeypatch, state, n_servers
):
    """It is not, even if the server ends before its supervisor knows."""
    started: list[Any] = []

    def start(*_):
        started.append(SimpleNamespace(stop=lambda: None))
        return started[-1]

    def with_job(*_):
        if len(started) > 1:
            return True
        if state is not None:
            write_note(kit, Note("job", state))
        raise ServerGoneError

    monkeypatch.setattr(supervisor, "start_server", start)
    monkeypatch.setattr(supervisor, "admin_session", lambda *_: nullcontext())
    monkeypatch.setattr(Supervisor, "_with_job", with_job)
    monkeypatch.setattr(supervisor.time, "sleep", lambda _: None)
    Supervisor(kit, Terms(), lambda _: None).run()
    assert len(started) == n_servers


@pytest.mark.parametrize(("state", "gives_up"), [("paused", False), ("failed", True)])
def test_a_pause_is_not_an_attempt_in_vain(kit, monkeypatch, state, gives_up):
    """Organisations may come and go as often as they like while a study waits."""
    sentences: list[str] = []
    over: list[str] = []
    slept: list[float] = []

    class Jobs:
        def __init__(self, *_):
            pass

        def follow(self, job, _):
            is_last = len(over) == 20
            return Note(job, "finished" if is_last else state, "It is over."), "X"

        until_over = staticmethod(over.append)

    monkeypatch.setattr(supervisor, "Watch", Jobs)
    monkeypatch.setattr(Supervisor, "_submit", lambda *_: "job")
    monkeypatch.setattr(supervisor.time, "sleep", slept.append)
    run: Any = Supervisor(kit, Terms(), sentences.append)
    admin: Any = None

    def run_jobs():
        while not run._with_job(admin, admin):
            pass

    if gives_up:
        with pytest.raises(PassingError, match="started 6 times"):
            run_jobs()
        return
    run_jobs()
    assert sentences == ["It is over. The study resumes from its last checkpoint."] * 20
    assert not slept
