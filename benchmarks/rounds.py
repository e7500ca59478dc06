"""Rounds of the bundle method to a certified relative gap of 1 % and of 0.1 %.

Hinge loss, the paper's λ, complete participation. ``open``: one bucket per owner group,
4 planes per round. ``sub-groups``: owner groups split into at most 25 parts; not on
news20, whose slopes have 1.4 million numbers. ``sealed``: a single cut. Limits are what
must be reached, for sub-groups the aim. Next to them are round trips, megabytes up and
down and seconds per round.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import problems
from benchmarks.problems import Problem, Table
from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.protocol.messages import Profile
from hyfdca.training.runner import Runner

NEEDS = ("mnist", "covtype", "news20")
IN_PART = True  # problems without their data are left out
_HEADER = "problem,way,buckets,1 %,limit,0.1 %,limit,trips,MB up,MB down,s/round"
_COLUMNS = "{:20} {:10} {:>7} {:>4} {:>5} {:>5} {:>5} {:>5} {:>7} {:>7} {:>7}"

OPEN = Bundle()
SINGLE_CUT = Bundle(min_contributors=1_000_000)


@dataclass(frozen=True)
class Row:
    """A problem, the limits of its open and sealed runs, and the size of sub-groups."""

    problem: Problem
    must: tuple[int, int]
    aim: tuple[int, int]
    sealed: tuple[int, int]
    part_size: int | None


ROWS = (
    Row(problems.BREAST_CANCER, (24, 30), (10, 12), (32, 45), 20),
    Row(problems.DIGITS, (21, 31), (12, 15), (21, 35), 20),
    Row(problems.MNIST_5, (26, 38), (16, 20), (32, 48), 500),
    Row(problems.MNIST_125, (14, 18), (10, 12), (32, 48), 250),
    Row(problems.COVTYPE_12, (28, 38), (14, 18), (36, 48), 500),
    Row(problems.NEWS20, (40, 80), (25, 45), (45, 100), None),
)


def run(folder: Path | None) -> None:
    """Print one line per problem and way."""
    print(_COLUMNS.format(*_HEADER.split(",")))
    for row in ROWS:
        if not row.problem.is_there(folder):
            continue
        table = row.problem.load(folder)
        _line(row, table, "open", "open", OPEN, row.must)
        if row.part_size is not None:
            parts = Bundle(sub_groups=25, min_group_size=row.part_size, max_buckets=300)
            _line(row, table, "sub-groups", "open", parts, row.aim)
        _line(row, table, "sealed", "sealed", SINGLE_CUT, row.sealed)


def _line(
    row: Row,
    table: Table,
    way: str,
    profile: Profile,
    settings: Bundle,
    limits: tuple[int, int],
) -> None:
    training = problems.training(
        row.problem, table, profile=profile, algorithm=settings
    )
    for _ in training.rounds():
        pass
    mean = {
        name: float(np.mean([record[name] for record in training.history]))
        for name in ("round_trips", "bytes_up", "bytes_down", "seconds")
    }
    first, second = (rounds_to(training, gap) for gap in (1e-2, 1e-3))
    n_buckets = training.server.buckets.n_buckets  # type: ignore[attr-defined]
    cells = (
        f"{row.problem.name} {row.problem.shape}",
        way,
        n_buckets,
        first or "-",
        limits[0],
        second or "-",
        limits[1],
        f"{mean['round_trips']:.1f}",
        f"{mean['bytes_up'] / 1e6:.2f}",
        f"{mean['bytes_down'] / 1e6:.2f}",
        f"{mean['seconds']:.3f}",
    )
    print(_COLUMNS.format(*cells), flush=True)


def rounds_to(training: Runner, gap: float) -> int | None:
    """Return the first round with a certified relative gap that small."""
    gaps = [record["relative_gap"] for record in training.history]
    return next((n for n, g in enumerate(gaps, 1) if g <= gap), None)
