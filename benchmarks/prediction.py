"""The time that a holder of 100,000 rows takes to find those that are requested."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks.child import peak, run_apart
from hyfdca.arrays import TokenArray
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster, RosterEntry
from hyfdca.prediction import messages as p
from hyfdca.prediction.blinded_rows import BlindAsker, BlindHolder, OneRequest
from hyfdca.protocol.messages import Message

NEEDS = ()
N_ROWS = 100_000  # of the asker, and of the holder; half of them are the same
ASKER, HOLDER = 0, 1

T = TypeVar("T")


def run(_: Path | None) -> None:
    """Print the seconds of one core that each step takes, and the bytes exchanged."""
    run_apart(_find)


class Stopwatch:
    """Adds up the seconds of each step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, step: str, work: Callable[[], T]) -> T:
        """Do a piece of a step."""
        started = time.process_time()
        result = work()
        passed = time.process_time() - started
        self.seconds[step] = self.seconds.get(step, 0.0) + passed
        return result


def _find() -> None:
    once, watch, found = Stopwatch(), Stopwatch(), list[TokenArray]()
    asked, held = _ids(0), _ids(N_ROWS // 2)
    own, others = _requests()
    asker = once.time("asker names its rows", lambda: BlindAsker(own, asked))
    holder = BlindHolder(others, asker.public, held, found.append)
    n_bytes = 0
    while not found:
        n_bytes += _exchange(watch, asker, holder)
    wanted = set(map(tuple, asker.pseudonyms.tolist()))
    n_found = sum(name in wanted for name in map(tuple, found[0].tolist()))
    print(f"{N_ROWS:,} rows each, {n_found:,} of them found; seconds of one core")
    for step, seconds in (once.seconds | watch.seconds).items():
        print(f"{step}: {seconds:.1f} s")
    print(f"per holder: {sum(watch.seconds.values()):.1f} s (under 60)")
    print(f"{n_bytes / 1e6:.1f} MB both ways, peak memory {peak():.2f} GB")


def _exchange(watch: Stopwatch, asker: BlindAsker, holder: BlindHolder) -> int:
    """Compare one batch; return how many bytes of points that took."""
    blind, recognise = holder.handlers["blind"], holder.handlers["recognise"]
    batch = watch.time("holder blinds its rows", lambda: blind(Message()))
    assert isinstance(batch, p.BlindedIds)  # noqa: S101  # as the table of phases says
    request = p.EvaluateRequest(batch.points, batch.is_last, batch.signature, HOLDER)
    evaluate = asker.handlers["evaluate"]
    evaluated = watch.time("asker evaluates them", lambda: evaluate(request))
    watch.time("holder recognises rows", lambda: recognise(evaluated))
    return 2 * len(batch.points)


def _ids(start: int) -> list[str]:
    return [f"patient-{row:08d}" for row in range(start, start + N_ROWS)]


def _requests() -> tuple[OneRequest, OneRequest]:
    """Return the asker's and the holder's view of one request."""
    identities = [Identity.generate() for _ in range(2)]
    entries = [RosterEntry(f"{k}", own.public) for k, own in enumerate(identities)]
    roster = Roster(bytes(32), tuple(entries))
    nonce, key = secrets.token_bytes(32), secrets.token_bytes(32)
    asker, holder = (
        OneRequest(own, roster, rank, ASKER, nonce, key)
        for rank, own in enumerate(identities)
    )
    return asker, holder
