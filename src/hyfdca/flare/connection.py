"""How an organisation fares at the server, in sentences."""

from __future__ import annotations

import time

from hyfdca.errors import StudyError
from hyfdca.flare.diagnosis import Trouble, client_is_up, client_trouble, last_error
from hyfdca.flare.log import Tell
from hyfdca.flare.status import over_since, status_time
from hyfdca.kits.kit import Kit, Owner

_RECENT = 20_000  # characters of output in which the last error is looked for
_ALONE = 10.0  # seconds without the server, after which who has the model may leave
_STARTS_AT_MOST = 20  # in a row without success


class Connection:
    """Follows what NVFlare's client prints, over all its starts.

    Parameters
    ----------
    is_training : bool
        Else the model is there already, and says nothing of the end.
    """

    def __init__(
        self, kit: Kit, owner: Owner, tell: Tell, is_training: bool = True
    ) -> None:
        self.tell = tell
        self._kit, self._owner, self._is_training = kit, owner, is_training
        self._said = ""
        self._failed_starts = 0
        self._recent = ""
        self._trouble: Trouble | None = None
        self._last_contact, self._last_trouble = time.time(), 0.0

    def is_alone(self) -> bool:
        """Return whether we have the model and there is no way to the server.

        Perhaps we had it before we were killed and started again; then the server may
        not know, or may want to run the study once more: so it is looked for first.
        """
        since = over_since(self._kit) if self._is_training else None
        if since is None:
            return False
        asked = status_time(self._kit.state)
        return self._last_trouble > max(since, asked, self._last_contact) + _ALONE

    def may_start(self) -> bool:
        """Return whether it is worth starting the process once more."""
        return self._failed_starts < _STARTS_AT_MOST

    def look(self, news: str) -> None:
        """Say what is new; raise if it cannot get better."""
        self._recent = (self._recent + news)[-_RECENT:]
        # NVFlare's client says when it is let in, not when it finds its server again.
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
        """Note that the process is gone; the server is waited for, however long."""
        if self._trouble is not None:
            return
        self._failed_starts += 1
        why = last_error(self._recent)
        self._say(f"NVFlare's client ended ({why}); starting it again.")

    def _has_been_asked(self) -> bool:
        """Return whether the server was heard of since the last trouble."""
        return status_time(self._kit.state) > self._last_trouble

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            self.tell(sentence)
        self._said = sentence
