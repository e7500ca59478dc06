"""Who may ask for predictions of split rows, for how many, and what is said if not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from hyfdca.prediction import messages as p
from hyfdca.runtime.store import Store, StoreError

_DECLINED = {
    "permission": "the study file does not say may_predict = true for it",
    "rate": (
        "predictions_per_hour of the study leaves it {count} rows at present; ask for "
        "fewer or wait"
    ),
    "model": "it asks for scores of another model; use the same model.json everywhere",
    "repeated": "this very request was answered before; ask anew",
}


@dataclass(frozen=True)
class PredictionTerms:
    """What the study file says of predictions; every organisation has its own copy.

    Parameters
    ----------
    askers : frozenset of str
        Who may ask.
    rows_per_hour : int
        For how many rows one of them may ask.
    """

    askers: frozenset[str]
    rows_per_hour: int

    def objection(
        self, log: PredictionLog, asker: str, n_rows: int
    ) -> p.Declined | None:
        """Return why somebody gets nothing, if there is a reason."""
        if asker not in self.askers:
            return p.Declined("permission", 0)
        left = max(self.rows_per_hour - log.n_last_hour(asker), 0)
        return p.Declined("rate", left) if n_rows > left else None


def declined_sentence(holder: str, asker: str, declined: p.Declined) -> str:
    """Return why a holder gives nothing to an asker."""
    why = _DECLINED[declined.reason].format(count=declined.count)
    return f"Organisation {holder!r} gives {asker!r} no predictions: {why}."


LOG_FILE = "predictions.jsonl"

_HOUR = timedelta(hours=1)

Clock = Callable[[], datetime]


class LogEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prediction that was given."""

    time: datetime
    asked_by: str
    rows: int
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
        Where it is kept; a write has survived when it returns.
    """

    def __init__(self, store: Store, clock: Clock = _now) -> None:
        self._store, self._clock = store, clock

    @property
    def entries(self) -> list[LogEntry]:
        """All of it.

        Raises
        ------
        StoreError
            If it is damaged: then nobody knows what was asked.
        """
        content = self._store.read(LOG_FILE) or b""
        try:
            return [_decoder.decode(line) for line in content.splitlines()]
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise StoreError(
                f"The log {LOG_FILE} is damaged, so it cannot be told how many "
                "predictions were asked for; repair it, or move it away."
            ) from None

    def n_last_hour(self, asker: str) -> int:
        """Return how many rows somebody asked for in the last hour.

        What is in the future counts too, for the clock may have been set back.
        """
        since = self._clock() - _HOUR
        own = (entry for entry in self.entries if entry.asked_by == asker)
        return sum(entry.rows for entry in own if entry.time > since)

    def has(self, request: str) -> bool:
        """Return whether a request was given something before."""
        return any(entry.request == request for entry in self.entries)

    def add(self, asker: str, n_rows: int, request: str) -> None:
        """Write down a prediction; it is on disk when this returns."""
        lines = [*self.entries, LogEntry(self._clock(), asker, n_rows, request)]
        content = b"".join(_encoder.encode(entry) + b"\n" for entry in lines)
        self._store.write(LOG_FILE, content)
