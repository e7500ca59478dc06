"""Fuzzes both halves of all conversations, and all kinds of files.

    python -m tests.fuzz --messages 20000 --files 5000 --seconds 240
    python -m tests.fuzz --again fuzz-findings/0123456789ab.json

Exit code 1 if anything but the project's own errors was raised, if an error named the
wrong organisation or none, if a case hung or took too much memory.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.again import run_again
from tests.fuzz.cases import Figures
from tests.fuzz.corpus import make_corpus
from tests.fuzz.lies import n_untold
from tests.fuzz.workers import Orders, Watched

_LOOK_EVERY = 0.5  # seconds
_SAY_EVERY = 10.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--messages", type=int, default=40_000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--memory", type=int, default=512, help="MiB for one case")
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--again", type=Path, help="a failing case to run again")
    return parser.parse_args()


def _orders(given: argparse.Namespace, corpus: Path, deadline: float) -> list[Orders]:
    """Return the share of each worker, rounded up."""
    return [
        Orders(
            corpus=corpus,
            findings=given.out,
            n_messages=-(-given.messages // given.workers),
            n_files=-(-given.files // given.workers),
            deadline=deadline,
            seed=1000 * given.seed + rank,
            memory=given.memory * 2**20,
        )
        for rank in range(given.workers)
    ]


def _together(workers: list[Watched]) -> Figures:
    return sum((worker.figures for worker in workers), Figures())


def _progress(figures: Figures, seconds: float) -> str:
    return (
        f"{seconds:6.0f} s  {figures.n_run(is_file=False):>9,} messages  "
        f"{figures.n_run(is_file=True):>8,} files  "
        f"{sum(figures.failures.values()):,} findings"
    )


def _watch(workers: list[Watched], deadline: float) -> None:
    started = said = time.monotonic()
    while not all(worker.is_over for worker in workers):
        time.sleep(_LOOK_EVERY)
        for worker in workers:
            if not worker.is_over:
                worker.check()
        now = time.monotonic()
        if now - said > _SAY_EVERY:
            said = now
            print(_progress(_together(workers), now - started), flush=True)  # noqa: T201
        if now > deadline + 90:  # a walk under way ends by itself
            break


def _summary(figures: Figures, seed: int) -> str:
    lines = [f"{n:>9,}  {name}" for name, n in sorted(figures.outcomes.items())]
    seconds, case = figures.slowest
    lines += [
        f"Lies that data cannot tell: {n_untold(figures.outcomes):,}.",
        f"The slowest took {seconds:.2f} s of processor time: {case}.",
        f"All took {figures.seconds:,.0f} s of processor time.",
        f"A worker had {figures.memory / 2**20:,.0f} MiB at most. The seed was {seed}.",
        "Findings:" if figures.failures else "No findings.",
    ]
    lines += [f"{n:>9,}  {name}" for name, n in figures.failures.most_common()]
    return "\n".join(lines)


def fuzz(given: argparse.Namespace) -> int:
    """Run all cases; return the exit code."""
    with TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        make_corpus(corpus)
        started = time.monotonic()
        deadline = started + given.seconds
        workers = [Watched(orders) for orders in _orders(given, corpus, deadline)]
        try:
            _watch(workers, deadline)
            figures = _together(workers)
        finally:
            for worker in workers:
                worker.end()
    print(_progress(figures, time.monotonic() - started))  # noqa: T201
    print(_summary(figures, given.seed))  # noqa: T201
    if figures.failures:
        print(f"Written to {given.out}, each with how to run it again.")  # noqa: T201
    return 1 if figures.failures else 0


def main() -> int:
    """Fuzz, or run one case again."""
    given = _arguments()
    if given.again is None:
        return fuzz(given)
    case = json.loads(given.again.read_text(encoding="utf-8"))["case"]
    try:
        return run_again(case)
    except Exception:  # it is to be seen
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    sys.exit(main())
