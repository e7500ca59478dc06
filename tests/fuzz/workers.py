"""Worker processes: what each does, and what watches over it.

A worker notes each case before it runs it. A case that takes too long ends its worker,
which is started again behind it. A case that takes too much memory raises a
``MemoryError``, which is a finding like any other foreign exception.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from tests.fuzz.cases import Case, Figures, Finding, Tally, write_down
from tests.fuzz.files import drawn_kinds, try_file
from tests.fuzz.messages import Walk, Whole, try_whole
from tests.fuzz.parties import Conversation, Straight, prediction, training
from tests.fuzz.snapshots import share_what_never_changes
from tests.fuzz.studies import STUDIES

_LONGEST = 5.0  # seconds of processor time for one case
_PATIENCE = 60.0  # seconds on the clock, on a machine that does other things too
_NOTE_BYTES = 500
# Cases of which one, whose message is accepted, is followed to the end
_WHOLE_EVERY = 250
# Files are spoilt where writing costs nothing, if there is such a place.
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108

Context = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Orders:
    """What a worker is to do.

    Parameters
    ----------
    corpus, findings : Path
        Folders of files to spoil, and of failures.
    n_messages, n_files : int
        Cases of each kind, at most.
    deadline : float
        When to stop, in seconds on the monotonic clock.
    memory : int
        Bytes that a case may take.
    """

    corpus: Path
    findings: Path
    n_messages: int
    n_files: int
    deadline: float
    seed: int
    memory: int
    rate: float = 16.0
    studies: tuple[str, ...] = tuple(STUDIES)


# Inside a worker


def _limit_memory(n_bytes: int) -> None:
    taken = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (taken + n_bytes, resource.RLIM_INFINITY))


class Worker:
    """Runs cases until it has run enough of them, or its time is over."""

    def __init__(self, orders: Orders, root: Path, note: Any) -> None:
        self._orders, self._root, self._note = orders, root, note
        self._random = Random(orders.seed)  # noqa: S311  # no secret
        self.tally = Tally(folder=orders.findings)

    def watch(self, case: Case) -> None:
        """Note a case before it is run."""
        self._note.value = repr(case).encode()[:_NOTE_BYTES]

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self._orders.deadline

    @property
    def n_messages(self) -> int:
        """How many messages were changed."""
        return self.tally.n_run(is_file=False)

    @property
    def n_files(self) -> int:
        """How many files were spoilt."""
        return self.tally.n_run(is_file=True)

    def figures(self) -> Figures:
        """Return what came of all cases so far."""
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory, seconds = 1024 * kilobytes, time.process_time()
        return Figures() + replace(self.tally, memory=memory, seconds=seconds)

    def messages(self) -> Iterator[None]:
        """Walk through conversations; yields after each."""
        cycle = 0
        while self.n_messages < self._orders.n_messages and not self._is_late:
            for conversation in self._conversations():
                if self.n_messages >= self._orders.n_messages or self._is_late:
                    return
                self._walk(conversation, cycle)
                yield
            cycle += 1

    def _conversations(self) -> Iterator[Conversation]:
        for name in self._random.sample(
            self._orders.studies, len(self._orders.studies)
        ):
            with TemporaryDirectory(dir=IN_MEMORY) as folder:
                yield training(Path(folder), name)
        yield prediction(self._root, self._root / "out" / "model.json")

    def _walk(self, conversation: Conversation, cycle: int) -> None:
        undisturbed = conversation.run(Straight(), lambda _: None)
        seed, before = self._orders.seed + cycle, self.n_messages
        walk = Walk(conversation, self.tally, seed, self._orders.rate, self.watch)
        if walk.run() != undisturbed:
            case = Case("request", conversation.name, -1, cycle, seed)
            what = Finding(f"a refused message changed the result of {case.subject}")
            self.tally.fail(case, what, "", b"")
        for case in self._followed(walk, (self.n_messages - before) // _WHOLE_EVERY):
            try_whole(Whole(conversation, case), undisturbed, self.tally, self.watch)

    def _followed(self, walk: Walk, count: int) -> Iterator[Case]:
        """Draw accepted cases, as many of requests as of replies."""
        kinds = sorted({case.kind for case in walk.accepted})
        by_kind = [[c for c in walk.accepted if c.kind == kind] for kind in kinds]
        for number in range(count):
            yield self._random.choice(by_kind[number % len(by_kind)])

    def files(self) -> Iterator[None]:
        """Spoil files; yields now and then."""
        kinds = drawn_kinds(self._random)
        while self.n_files < self._orders.n_files and not self._is_late:
            for _ in range(200):
                case = Case("file", next(kinds), 0, self.n_files, self._orders.seed)
                try_file(self._root, case, self.tally, self.watch)
            yield


def work(orders: Orders, note: Any, results: Any) -> None:
    """Run cases in this process; report what came of them again and again."""
    warnings.simplefilter("ignore")  # numbers overflow on purpose
    os.environ["OMP_NUM_THREADS"] = "1"
    with share_what_never_changes(), TemporaryDirectory(dir=IN_MEMORY) as folder:
        root = Path(folder) / "corpus"
        copytree(orders.corpus, root)
        worker = Worker(orders, root, note)
        _limit_memory(orders.memory)
        parts = [worker.messages(), worker.files()]
        while parts:
            for part in list(parts):
                if next(part, "over") == "over":
                    parts.remove(part)
                results.put(worker.figures())
    results.put(None)


# Outside


class Watched:
    """A worker process, with what it has reported."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._before, self._done = Figures(), Figures()
        self._start()

    def _start(self) -> None:
        self._note = Context.Array("c", _NOTE_BYTES, lock=False)
        self._results = Context.SimpleQueue()
        self._done = Figures()
        self.is_over = False
        arguments = (self._orders, self._note, self._results)
        self._process = Context.Process(target=work, args=arguments, daemon=True)
        self._process.start()
        self._look()

    def _look(self) -> None:
        """Note which case runs now, and since when."""
        self._case, self._since = self._note.value, time.monotonic()
        self._spent = self._cpu()

    def _cpu(self) -> float:
        try:
            times = psutil.Process(self._process.pid).cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        return float(times.user + times.system)

    @property
    def figures(self) -> Figures:
        """What came of all cases, before and after restarts."""
        return self._before + self._done

    def check(self) -> None:
        """Take reports; end a case that takes too long, and a worker that died."""
        while not self._results.empty():
            report = self._results.get()
            if report is None:
                self.is_over = True
                return
            self._done = report
        if not self._process.is_alive():
            self._restart(f"the worker died with exit code {self._process.exitcode}")
        elif self._note.value != self._case:
            self._look()
        elif self._case and self._is_stuck():
            self._restart("a case took longer than 5 seconds")

    def _is_stuck(self) -> bool:
        waited = time.monotonic() - self._since
        return waited > _PATIENCE or self._cpu() - self._spent > _LONGEST

    def _restart(self, why: str) -> None:
        """Note the case at which the worker ended, and continue after it."""
        self._process.kill()
        self._process.join()
        reported = self._case.decode()
        case = Case("?", reported, 0, 0, self._orders.seed)
        write_down(self._orders.findings, case, Finding(why), reported, b"")
        n_messages, n_files = self._done.n_run(False), self._done.n_run(True)
        self._before = self.figures
        self._before.failures[f"{why}: {reported}"] += 1
        self._orders = replace(
            self._orders,
            seed=self._orders.seed + 1_000_003,
            n_messages=self._orders.n_messages - n_messages,
            n_files=self._orders.n_files - n_files,
        )
        self._start()

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
