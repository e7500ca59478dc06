"""One case of fuzzing, what came of it, and what is written down of a failure."""

from __future__ import annotations

import hashlib
import json
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from hyfdca.audit.views import ViewError
from hyfdca.crypto.keys.envelope import EnvelopeError
from hyfdca.data.tables import TableError
from hyfdca.errors import StudyError
from hyfdca.federation.grids import DivergenceError
from hyfdca.model.model import ModelError
from hyfdca.protocol.checkpoint import CheckpointError
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.server_session import ClientsFailedError
from hyfdca.runtime.store import StoreError
from hyfdca.stages.alignment.checks import AlignmentError

# What the project raises for people to read; anything else is a finding.
OWN_ERRORS = (
    StudyError,
    TableError,
    ModelError,
    StoreError,
    CheckpointError,
    AlignmentError,
    EnvelopeError,
    RemoteProtocolError,
    ClientsFailedError,
    DivergenceError,
    ViewError,
)
_MOST_ALIKE = 3  # failures written down of one kind


@dataclass(frozen=True)
class Case:
    """Something to change, and how.

    Parameters
    ----------
    kind : str
        "request", "reply", "whole request", "whole reply" or "file". A whole one is
        followed to the end of its conversation.
    subject : str
        The conversation or the kind of file.
    place : int
        Which exchange of the conversation, from 0.
    number : int
        Of the case at this place.
    drawn_as : str
        The case of one exchange whose change a whole one makes; by default its own.
    """

    kind: str
    subject: str
    place: int
    number: int
    seed: int
    drawn_as: str = ""

    @property
    def random(self) -> Random:
        """Draws everything that is changed in this case."""
        return Random(self.drawn_as or repr(self))  # noqa: S311  # no secret


Watch = Callable[[Case], None]  # is called before each case


class Finding(Exception):  # noqa: N818  # it is reported, never raised further
    """Something that must not happen, in words."""


@dataclass
class Figures:
    """How many cases ended how, how many failed, and what the largest took.

    Parameters
    ----------
    slowest : (float, str)
        Seconds of processor time, and the case.
    memory : int
        Bytes of memory that a worker had at most.
    seconds : float
        Of processor time, of all workers.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    memory: int = 0
    seconds: float = 0.0

    def __add__(self, other: Figures) -> Figures:
        """Return the figures of both."""
        return Figures(
            self.outcomes + other.outcomes,
            self.failures + other.failures,
            max(self.slowest, other.slowest),
            max(self.memory, other.memory),
            self.seconds + other.seconds,
        )

    def n_run(self, is_file: bool) -> int:
        """Return how many files were spoilt, or messages changed."""
        both = self.outcomes + self.failures
        return sum(n for name, n in both.items() if name.startswith("file") == is_file)


@dataclass
class Tally(Figures):
    """The figures of a process, which writes failures down."""

    folder: Path = field(default=Path("fuzz-findings"), kw_only=True)

    def add(self, case: Case, outcome: str) -> None:
        """Count a case that ended well."""
        self.outcomes[f"{case.kind}: {outcome}"] += 1

    def fail(
        self, case: Case, error: BaseException, about: str, changed: bytes
    ) -> None:
        """Count a failure, and write it down if it is among the first of its kind."""
        what = f"{case.kind}: {signature(error)}"
        self.failures[what] += 1
        if self.failures[what] <= _MOST_ALIKE:
            write_down(self.folder, case, error, about, changed)


def signature(error: BaseException) -> str:
    """Return what tells failures of different causes apart."""
    if isinstance(error, Finding):
        return re.sub(r"\d+", "N", str(error))
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" at {Path(f.filename).name}:{f.lineno} {f.name}" for f in last)
    return f"{type(error).__name__}{where}"


def write_down(
    folder: Path, case: Case, error: BaseException, about: str, changed: bytes
) -> None:
    """Write a failing case with its seed, and how to run it again."""
    name = hashlib.sha256(repr(case).encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.bin").write_bytes(changed)
    content = {
        "case": asdict(case),
        "about": about,
        "error": "".join(traceback.format_exception(error)),
        "run again": f"python -m tests.fuzz --again {folder / name}.json",
    }
    (folder / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")


def attempt(
    tally: Tally,
    case: Case,
    act: Callable[[], str],
    about: Callable[[], tuple[str, bytes]],
) -> str | None:
    """Run a case; return how it ended, or None for a failure.

    Parameters
    ----------
    act : callable
        Returns how it ended. The project's own errors count as "refused".
    about : callable
        Returns what a failure was about, and the bytes that caused it.
    """
    started = time.process_time()
    try:
        outcome = act()
    except OWN_ERRORS:
        outcome = "refused"
    except Exception as error:  # that there is none is what is tested
        tally.fail(case, error, *about())
        return None
    finally:
        taken = time.process_time() - started
        if taken > tally.slowest[0]:
            tally.slowest = taken, repr(case)
    tally.add(case, outcome)
    return outcome
