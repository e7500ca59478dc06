"""Reports an organisation's connection to the server, in sentences."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from hyfdca.errors import StudyError
from hyfdca.flare.diagnosis import Trouble, client_is_up, client_trouble, last_error
from hyfdca.flare.log import Tell
from hyfdca.flare.status import over_since, status_time
from hyfdca.kits.kit import Kit, Owner

_RECENT = 20_000  # characters of output searched for the last error
_ALONE = 10.0  # seconds without the server before a client with the model may leave
_STARTS_AT_MOST = 20  # in a row without success


@dataclass(frozen=True)
class Leave:
    """When a client may end without being told to by the server.

    Parameters
    ----------
    since : callable
        Returns since when the client has had what it came for; None if it has not.
    patience : float
        Seconds without the server after which it may leave.
    """

    since: Callable[[Kit], float | None]
    patience: float = _ALONE


WITH_MODEL = Leave(over_since)
NEVER = Leave(lambda _: None)


class Connection:
    """Follows the output of NVFlare's client, over all its starts.

    Parameters
    ----------
    leave : Leave
        When it may end by itself; by default with the model.
    """

    def __init__(
        self, kit: Kit, owner: Owner, tell: Tell, leave: Leave = WITH_MODEL
    ) -> None:
        self.tell = tell
        self._kit, self._owner, self._leave = kit, owner, leave
        self._said = ""
        self._failed_starts = 0
        self._recent = ""
        self._trouble: Trouble | None = None
        self._last_contact, self._last_trouble = time.time(), 0.0

    def is_alone(self) -> bool:
        """Return whether we have what we came for and cannot reach the server.

        Perhaps we had it before we were killed and restarted. Then the server
        may not know that, or may want to run the study again, so we look for it first.
        """
        since = self._leave.since(self._kit)
        if since is None:
            return False
        asked = status_time(self._kit.state)
        known = max(since, asked, self._last_contact)
        return self._last_trouble > known + self._leave.patience

    def may_start(self) -> bool:
        """Return whether restarting the process makes sense."""
        return self._failed_starts < _STARTS_AT_MOST

    def look(self, news: str) -> None:
        """Report what is new; raise if the trouble is permanent."""
        self._recent = (self._recent + news)[-_RECENT:]
        # NVFlare's client reports its registration, but not a regained connection.
        if client_is_up(news) or (self._trouble and self._has_been_asked()):
            self._failed_starts, self._trouble = 0, None
            self._last_contact = time.time()
            self._say(f"{self._owner.name!r} is connected to {self._owner.address}.")
        elif trouble := client_trouble(news, self._owner):
            self._trouble, self._last_trouble = trouble, time.time()
            if not trouble.may_pass:
                raise StudyError(trouble.sentence)
            self._say(trouble.sentence)

    def ended(self) -> None:
        """Note that the process is gone; waiting for the server has no limit."""
        if self._trouble is not None:
            return
        self._failed_starts += 1
        why = last_error(self._recent)
        self._say(f"NVFlare's client ended ({why}); restarting it.")

    def _has_been_asked(self) -> bool:
        """Return whether the server has sent a request since the last trouble."""
        return status_time(self._kit.state) > self._last_trouble

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            self.tell(sentence)
        self._said = sentence
