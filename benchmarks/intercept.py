"""Rounds to a certified 0.1 % with an intercept without penalty, and without it.

The problems and ways of ``rounds``; constant columns of tables stay.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import problems
from benchmarks.rounds import IN_PART, NEEDS, OPEN, ROWS, SINGLE_CUT, rounds_to
from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.protocol.messages import Profile

__all__ = ["IN_PART", "NEEDS", "run"]
_MOST = 1.2  # times as many rounds
_WAYS: tuple[tuple[Profile, Bundle], ...] = (("open", OPEN), ("sealed", SINGLE_CUT))


def run(folder: Path | None) -> None:
    """Print one line per problem and profile."""
    for row in ROWS:
        if not row.problem.is_there(folder):
            continue
        table = row.problem.load(folder)
        for profile, algorithm in _WAYS:
            penalised, free = (
                _rounds(row.problem, table, profile, algorithm, is_free)
                for is_free in (False, True)
            )
            print(
                f"{row.problem.name} {row.problem.shape}, {profile}: {penalised} "
                f"rounds without, {free} with a free intercept; ratio "
                f"{free / penalised:.2f} (at most {_MOST})",
                flush=True,
            )


def _rounds(
    problem: problems.Problem,
    table: problems.Table,
    profile: Profile,
    algorithm: Bundle,
    is_free: bool,
) -> float:
    training = problems.training(
        problem, table, profile=profile, algorithm=algorithm, free_intercept=is_free
    )
    for _ in training.rounds():
        pass
    return rounds_to(training, 1e-3) or float("inf")
