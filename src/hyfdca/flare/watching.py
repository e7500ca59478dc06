"""Reports of job processes: a status for displays, sentences in the log."""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hyfdca.flare.status import Status, write_status
from hyfdca.study.client.records import News
from hyfdca.study.plan import Plan
from hyfdca.study.presence import Presence
from hyfdca.study.tuning import run_sentence

_GAPS_SHOWN = 20  # that show the trend
_SENTENCES_SHOWN = 50
_LOOKS = 0.1  # least seconds between two writes of a client's status

_log = logging.getLogger("hyfdca")


class ServerWatch:
    """Writes the server's status."""

    def __init__(self, state: Path, plan: Plan) -> None:
        self._state, self._plan = state, plan
        self._started = time.monotonic()
        self._sentences: list[str] = []
        self._n_sentences, self._writer = 0, secrets.token_hex(4)
        self._gaps: list[tuple[float, float]] = []
        self._measured = 0
        self._status = Status(
            max_rounds=plan.training.max_rounds,
            tolerance=plan.training.tolerance,
            missing=list(plan.names),
        )
        if said := run_sentence(plan.file, plan.run):
            self.tell(said)

    def tell(self, sentence: str) -> None:
        """Publish a sentence for users."""
        _log.info(sentence)
        self._sentences = [*self._sentences[1 - _SENTENCES_SHOWN :], sentence]
        self._n_sentences += 1
        self._write(self._status)

    def show(self, presence: Presence, history: Sequence[dict[str, Any]]) -> None:
        """Publish the progress of the rounds."""
        names, last = self._plan.names, history[-1]
        seconds = time.monotonic() - self._started
        if not math.isnan(last["relative_gap"]):
            new = (seconds, float(last["relative_gap"]))
            self._gaps = [*self._gaps[1 - _GAPS_SHOWN :], new]
            self._measured = int(last["round"])
        self._write(
            Status(
                round=int(last["round"]),
                max_rounds=self._status.max_rounds,
                tolerance=self._status.tolerance,
                gaps=self._gaps,
                measured=self._measured,
                present=[names[rank] for rank in sorted(presence.present)],
                missing=[names[rank] for rank in presence.missing],
                bytes_up=_total(history, "bytes_up"),
                bytes_down=_total(history, "bytes_down"),
                seconds=seconds,
            )
        )

    def _write(self, status: Status) -> None:
        self._status = status
        said = msgspec.structs.replace(
            status,
            sentences=self._sentences,
            n_sentences=self._n_sentences,
            writer=self._writer,
        )
        write_status(self._state, said)


class ClientWatch:
    """Writes an organisation's status.

    Parameters
    ----------
    notes : sequence of str
        What it should know about its own table.
    """

    def __init__(self, state: Path, plan: Plan, notes: Sequence[str] = ()) -> None:
        self._state, self._plan = state, plan
        self._sentences, self._writer = list(notes), secrets.token_hex(4)
        self._started, self._written = time.monotonic(), -math.inf
        self._gaps: list[tuple[float, float]] = []
        self._measured = 0
        self._up = self._down = 0

    def follow(self, plan: Plan) -> None:
        """Show the run of a plan from now on; say once what was chosen for it."""
        self._plan = plan
        said = run_sentence(plan.file, plan.run)
        if said is not None and said not in self._sentences:
            _log.info(said)
            self._sentences.append(said)

    def note(self, stage: str, phase: str, n_down: int, n_up: int, news: News) -> None:
        """Record a request that was answered."""
        self._down += n_down
        self._up += n_up
        now = time.monotonic()
        seconds = now - self._started
        if phase == "keep" and news.gap is not None:
            self._gaps = [*self._gaps[1 - _GAPS_SHOWN :], (seconds, news.gap)]
            self._measured = news.round
        if now - self._written < _LOOKS and stage != "study":
            return
        self._written = now
        names = self._plan.names
        status = Status(
            round=news.round,
            max_rounds=self._plan.training.max_rounds,
            tolerance=self._plan.training.tolerance,
            gaps=self._gaps,
            measured=self._measured,
            present=[names[rank] for rank in news.present],
            missing=[n for rank, n in enumerate(names) if rank not in news.present],
            bytes_up=self._up,
            bytes_down=self._down,
            seconds=seconds,
            sentences=self._sentences,
            n_sentences=len(self._sentences),
            writer=self._writer,
        )
        write_status(self._state, status)


def _total(history: Sequence[dict[str, Any]], name: str) -> int:
    return sum(int(r[name] + r[f"measuring_{name}"]) for r in history)
