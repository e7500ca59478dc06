"""A table of 90 rows that takes the place of covtype."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyfdca.reproduction import jobs
from hyfdca.reproduction.paper import Setting
from hyfdca.reproduction.problems import Choices, PaperProblem, Rows
from hyfdca.reproduction.simulation import SimulatedRun
from tests.support.small_runs import classification

SETTING = Setting("covtype", (3, 3), 0.5)
N_TRAIN = 60


def problem(l2: float = 0.01) -> PaperProblem:
    """Return the problem; a third of its rows is to validate with."""
    X, y = classification(90, 12, noise=0.3)
    train = Rows(X[:N_TRAIN], y[:N_TRAIN, 0])
    return PaperProblem(
        "covtype", l2, Choices(), train, Rows(X[N_TRAIN:], y[N_TRAIN:, 0])
    )


def run_small(job: jobs.Job, folder: Path, data: Path | None) -> SimulatedRun:
    """Run a job on the small table, in any process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "held_problem", lambda *_: problem())
        return jobs.run_job(job, folder, data)


@pytest.fixture
def small_covtype(monkeypatch):
    """Let jobs find the small table; count how often one is run."""
    ran: list[jobs.Job] = []
    run_job = jobs.run_job

    def counted(job, *given):
        ran.append(job)
        return run_job(job, *given)

    monkeypatch.setattr(jobs, "run_job", counted)
    monkeypatch.setattr(jobs, "held_problem", lambda *_: problem())
    jobs._blocks.cache_clear()
    yield ran
    jobs._blocks.cache_clear()
