"""Who may ask for predictions of split rows, for how many, and why others may not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from hyfdca.errors import reading
from hyfdca.prediction import messages as p
from hyfdca.prediction.blinded_rows import MOST_ROWS
from hyfdca.runtime.store import Store, StoreError
from hyfdca.study.values import PredictionIds

_DECLINED = {
    "permission": "the study file does not set may_predict = true for it",
    "rate": (
        "the study's predictions_per_hour leaves it {count} rows at present; ask for "
        "fewer rows, or wait"
    ),
    "model": "it asks for scores of another model; use the same model.json everywhere",
    "policy": "its own policy.toml does not name it in predictions_for",
    "repeated": "the same request was answered before; send a new one",
    "rows": (
        "the table of {holder!r} has more than {most:,} rows, too many to compare "
        'blinded IDs of; leave rows out of it, or set prediction_ids = "keyed" in the '
        "study file"
    ),
}


@dataclass(frozen=True)
class PredictionTerms:
    """The study file's terms for predictions; every organisation has its own copy.

    Parameters
    ----------
    askers : frozenset of str
        Who may ask.
    rows_per_hour : int
        How many rows each of them may ask for per hour.
    ids : {"blinded", "keyed"}
        How holders find the rows that are asked for.
    accepted : frozenset of str, optional
        The askers that this organisation's own policy accepts; by default all.
    """

    askers: frozenset[str]
    rows_per_hour: int
    ids: PredictionIds
    accepted: frozenset[str] | None = None

    def objection(
        self, log: PredictionLog, asker: str, n_rows: int
    ) -> p.Declined | None:
        """Return why an asker is declined, or None if it is not."""
        if asker not in self.askers:
            return p.Declined("permission", 0)
        if self.accepted is not None and asker not in self.accepted:
            return p.Declined("policy", 0)
        left = max(self.rows_per_hour - log.n_last_hour(asker), 0)
        return p.Declined("rate", left) if n_rows > left else None


def declined_sentence(holder: str, asker: str, declined: p.Declined) -> str:
    """Return the sentence that says why a holder declines an asker."""
    known = {"count": declined.count, "holder": holder, "most": MOST_ROWS}
    why = _DECLINED[declined.reason].format(**known)
    return f"Organisation {holder!r} gives {asker!r} no predictions: {why}."


LOG_FILE = "predictions.jsonl"

_HOUR = timedelta(hours=1)

Clock = Callable[[], datetime]


class LogEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prediction that was requested and not declined."""

    time: Annotated[datetime, msgspec.Meta(tz=True)]
    asked_by: str
    rows: Annotated[int, msgspec.Meta(ge=0)]
    request: str


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(LogEntry)


def _now() -> datetime:
    return datetime.now(UTC)


class PredictionLog:
    """The log of one organisation.

    Parameters
    ----------
    store : Store
        Where the log is kept; writes must be durable when they return.
    """

    def __init__(self, store: Store, clock: Clock = _now) -> None:
        self._store, self._clock = store, clock

    @property
    def entries(self) -> list[LogEntry]:
        """All entries.

        Raises
        ------
        StoreError
            If the log is damaged, so that past requests are unknown.
        """
        content = self._store.read(LOG_FILE) or b""
        damaged = StoreError(
            f"The log {self._store.place(LOG_FILE)} is damaged, so past predictions "
            "cannot be counted; repair it, or move it away."
        )
        with reading(damaged):
            return [_decoder.decode(line) for line in content.splitlines()]

    def n_last_hour(self, asker: str) -> int:
        """Return how many rows an asker requested in the last hour.

        Entries in the future count too, because the clock may have been set back.
        """
        since = self._clock() - _HOUR
        own = (entry for entry in self.entries if entry.asked_by == asker)
        return sum(entry.rows for entry in own if entry.time > since)

    def has(self, request: str) -> bool:
        """Return whether the log contains a request."""
        return any(entry.request == request for entry in self.entries)

    def add(self, asker: str, n_rows: int, request: str) -> None:
        """Log a prediction; it is on disk when this returns."""
        lines = [*self.entries, LogEntry(self._clock(), asker, n_rows, request)]
        content = b"".join(_encoder.encode(entry) + b"\n" for entry in lines)
        self._store.write(LOG_FILE, content)
