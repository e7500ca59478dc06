"""Jobs are done once: what was stopped or killed continues where it was."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pytest

from hyfdca.errors import StudyError
from hyfdca.reproduction import jobs
from hyfdca.reproduction.jobs import Job, load_outcome, run_jobs
from hyfdca.reproduction.paper import Hyperparameters, Setting
from hyfdca.reproduction.problems import Choices
from hyfdca.reproduction.processes import Workers
from hyfdca.reproduction.simulation import SimulatedRun
from tests.reproduction.small_problem import SETTING, run_small, small_covtype

__all__ = ["small_covtype"]

JOB = Job(SETTING, "hyfdca", Hyperparameters(0.3), 0.01, 8, 2)
RIVALS = [
    replace(JOB, method="fedavg", chosen=Hyperparameters(0.5, 1.0, 2.0)),
    replace(JOB, method="hyfem", chosen=Hyperparameters(0.5, 25.0, 1e-5, 1e4)),
]


def same(one, other):
    """Return whether two outcomes have the same numbers, times aside."""
    names = {field.name for field in fields(SimulatedRun)} - {"seconds"}
    return all(np.array_equal(getattr(one, n), getattr(other, n)) for n in names)


def test_outcomes_are_kept_and_not_found_again(small_covtype, tmp_path):
    """Diverged runs are kept too; every number comes back."""
    first = list(run_jobs([JOB, *RIVALS], tmp_path, None, Workers(1)))
    again = list(run_jobs([JOB, *RIVALS], tmp_path, None, Workers(1)))
    assert [job for job, _ in first] == [job for job, _ in again] == [JOB, *RIVALS]
    assert all(same(a, b) for (_, a), (_, b) in zip(first, again, strict=True))
    assert [a.seconds.tolist() for _, a in first] == [
        b.seconds.tolist() for _, b in again
    ]
    assert len(small_covtype) == 3


def test_a_study_that_was_killed_does_the_rest(small_covtype, tmp_path, monkeypatch):
    """Finished outcomes stay; incomplete files do not count."""
    whole = dict(run_jobs([JOB, *RIVALS], tmp_path / "whole", None, Workers(1)))
    small_covtype.clear()
    keep = jobs.keep_outcome

    def killed(job, run, folder):
        if job != JOB:
            raise KeyboardInterrupt
        keep(job, run, folder)

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "keep_outcome", killed)
        with pytest.raises(KeyboardInterrupt):
            list(run_jobs([JOB, *RIVALS], tmp_path / "cut", None, Workers(1)))
    assert len(list((tmp_path / "cut").iterdir())) == 1
    rest = dict(run_jobs([JOB, *RIVALS], tmp_path / "cut", None, Workers(1)))
    assert all(same(whole[job], rest[job]) for job in whole)
    assert [job.method for job in small_covtype] == [
        "hyfdca",
        "fedavg",
        "fedavg",
        "hyfem",
    ]


@pytest.mark.slow
def test_processes_side_by_side_find_the_same(small_covtype, tmp_path, monkeypatch):
    """Two processes, more jobs than that; a job that is done is not run."""
    alone = dict(run_jobs([JOB, *RIVALS], tmp_path / "alone", None, Workers(1)))
    monkeypatch.setattr(jobs, "run_job", run_small)
    done = tmp_path / "side by side"
    with Workers(2) as workers:
        list(run_jobs([JOB], done, None, workers))
        both = dict(run_jobs([JOB, *RIVALS], done, None, workers))
    assert all(same(alone[job], both[job]) for job in alone)


@pytest.mark.parametrize(
    "change",
    [
        {"setting": Setting("covtype", (3, 3), 0.9)},
        {"method": "fedavg"},
        {"chosen": Hyperparameters(0.31)},
        {"l2": 0.02},
        {"n_rounds": 9},
        {"measure_every": 1},
        {"seed": 1},
        {"choices": Choices(validation=0.3)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_job_has_another_file(change):
    """Nothing that an outcome depends on is left out of its name."""
    assert replace(JOB, **change).file_name != JOB.file_name


@pytest.mark.parametrize("content", [b"", b"{}", b"no json", b'{"rounds": []}'])
def test_a_damaged_outcome_is_named(content, tmp_path):
    """One sentence says what to do."""
    (tmp_path / JOB.file_name).write_bytes(content)
    with pytest.raises(StudyError, match=r"cannot be read .* delete it"):
        load_outcome(JOB, tmp_path)


@pytest.mark.parametrize("spoilt", [{"losses": [1.0]}, {"rounds": []}])
def test_a_file_whose_columns_do_not_fit_is_refused(spoilt, small_covtype, tmp_path):
    """One sentence says what to do."""
    list(run_jobs([JOB], tmp_path, None, Workers(1)))
    path = tmp_path / JOB.file_name
    path.write_text(json.dumps(json.loads(path.read_text()) | spoilt))
    with pytest.raises(StudyError, match=r"do not fit together; delete it"):
        load_outcome(JOB, tmp_path)


def test_compiling_is_not_timed(small_covtype, tmp_path, monkeypatch):
    """A process runs rounds of another run first, once for each method."""
    made, make_run = [], jobs.make_run

    class Counted:
        def __init__(self, run):
            self.run, self.n_rounds = run, 0

        def round(self):
            self.n_rounds += 1
            return self.run.round()

        def __getattr__(self, name):
            return getattr(self.run, name)

    def counted(*given, **choices):
        made.append(Counted(make_run(*given, **choices)))
        return made[-1]

    monkeypatch.setattr(jobs, "make_run", counted)
    monkeypatch.setattr(jobs, "_warm", set())
    first = replace(JOB, n_rounds=6)
    cold = dict(run_jobs([first, JOB], tmp_path / "cold", None, Workers(1)))
    assert [run.n_rounds for run in made] == [2, 6, 8]
    warm = dict(run_jobs([first, JOB], tmp_path / "warm", None, Workers(1)))
    assert [run.n_rounds for run in made] == [2, 6, 8, 6, 8]
    assert all(same(cold[job], warm[job]) for job in cold)
