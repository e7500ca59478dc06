"""Measures encryption end to end: time and bytes per value, in one thread."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.bench.subjects import LIBRARIES, SCHEMES, Subject
from hyfdca.maths.seeds import stream

SECONDS = 0.5  # spent on each figure
_REPETITIONS = 5  # minimum; the figure is their median
_MOST_REPETITIONS = 1000
_MOST_VALUES = 2**18

EXTRA = "hyfdca[bench]"
_DISTRIBUTIONS = ("hyfdca", "numpy", "gmpy2", "seal-python", "cryptography")

# The paper estimated these without encrypting anything (Overman, Blum, Klabjan 2024).
PAPER = {"encrypt_ns": 18_882_000.0, "decrypt_ns": 18_865_000.0, "add_ns": 54_000.0}


@dataclass(frozen=True)
class Cost:
    """What one value costs."""

    encrypt_ns: float
    decrypt_ns: float
    add_ns: float
    bytes: float


@dataclass(frozen=True)
class CostComparison:
    """Costs by name; None for a library that is not installed."""

    schemes: dict[str, Cost]
    libraries: dict[str, Cost | None]

    @property
    def missing(self) -> list[str]:
        """The libraries that are not installed."""
        return [name for name, cost in self.libraries.items() if cost is None]

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as printed for programs."""
        return {
            **asdict(self),
            "paper": PAPER,
            "versions": {
                "python": platform.python_version(),
                **{name: _version(name) for name in (*_DISTRIBUTIONS, *LIBRARIES)},
            },
        }


def compare(
    seconds: float = SECONDS, tell: Callable[[str], None] = lambda _: None
) -> CostComparison:
    """Measure every scheme and every installed library.

    Parameters
    ----------
    seconds : time spent on each figure
    tell : called with the name of the next subject
    """
    libraries: dict[str, Cost | None] = {}
    for name, make in LIBRARIES.items():
        tell(name)
        try:
            subject = make()
        except ImportError:
            libraries[name] = None
        else:
            libraries[name] = measure(subject, seconds)
    schemes = {}
    for name, make in SCHEMES.items():
        tell(name)
        schemes[name] = measure(make(), seconds)
    return CostComparison(schemes, libraries)


def measure(subject: Subject, seconds: float = SECONDS) -> Cost:
    """Return the cost of one value, after checking that sums are right.

    Times are processor time, not wall time: other load disturbs them less.
    """
    values = stream(0, "bench").uniform(-1.0, 1.0, _n_values(subject, seconds))
    payload = _checked(subject, values)
    total, vector = subject.load(payload), subject.load(payload)
    of_one = subject.dump(total)  # what clients receive

    def each(work: Callable[[], object], before: Callable[[], None]) -> float:
        return _median(work, seconds, before) / len(values)

    return Cost(
        encrypt_ns=each(
            lambda: subject.seal(values), lambda: subject.prepare(len(values))
        ),
        decrypt_ns=each(lambda: subject.open(of_one), _nothing),
        add_ns=each(lambda: subject.add(total, vector), _nothing),
        bytes=_size(payload) / len(values),
    )


def _nothing() -> None:
    pass


def _n_values(subject: Subject, seconds: float) -> int:
    """Return a vector length for which the repetitions fit the time."""
    values = np.ones(subject.n_slots)
    _checked(subject, values)  # compile
    started = time.process_time()
    subject.prepare(subject.n_slots)
    subject.seal(values)
    once = max(time.process_time() - started, 1e-9)
    n_blocks = min(seconds / _REPETITIONS / once, _MOST_VALUES / subject.n_slots)
    return max(int(n_blocks), 1) * subject.n_slots


def _checked(subject: Subject, values: FloatArray) -> Any:
    """Return sealed values, after checking that they and their double open right."""
    payload = subject.seal(values)
    total = subject.load(payload)
    opened = subject.open(subject.dump(total))
    subject.add(total, subject.load(payload))
    doubled = subject.open(subject.dump(total))
    near = np.allclose(opened, values, rtol=0.0, atol=1e-6)
    if not near or not np.array_equal(doubled, 2 * opened):
        raise ArithmeticError("the opened values differ from the sealed ones")
    return payload


def _median(
    work: Callable[[], object], seconds: float, before: Callable[[], None]
) -> float:
    """Return the median processor time of the work, in nanoseconds."""
    times: list[int] = []
    end = time.process_time() + seconds
    while len(times) < _REPETITIONS or (
        time.process_time() < end and len(times) < _MOST_REPETITIONS
    ):
        before()
        started = time.process_time_ns()
        work()
        times.append(time.process_time_ns() - started)
    return statistics.median(times)


def _size(payload: Any) -> int:
    """Return the bytes of a payload, or of its parts."""
    return sum(map(len, payload)) if isinstance(payload, list) else len(payload)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
