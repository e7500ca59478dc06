"""What an organisation writes down of predictions it helped with, and goes by.

One line a prediction: when, who asked, for how many rows, and the request's random
number, which tells a repeated one. No ID and no score is in it. The limit of rows an
hour is kept by every organisation from its own log, whatever the server says.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from hyfdca.runtime.store import Store, StoreError

LOG_FILE = "predictions.jsonl"

_HOUR = timedelta(hours=1)

Clock = Callable[[], datetime]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prediction that was given."""

    time: datetime
    asked_by: str
    rows: int
    request: str


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Entry)


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
    def entries(self) -> list[Entry]:
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
        lines = [*self.entries, Entry(self._clock(), asker, n_rows, request)]
        content = b"".join(_encoder.encode(entry) + b"\n" for entry in lines)
        self._store.write(LOG_FILE, content)
