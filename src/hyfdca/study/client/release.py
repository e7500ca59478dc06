"""When a client gives its weights away: once per study epoch, after the study's end.

The server announces the end with its certificate. A client compares the announcement
with its own study file, and with what it was told after the last round it saved. After
the announcement it answers no further round. It gives its weights, and remembers a
digest of them: a server that lost the answer gets the same weights again, and no
server gets others in this epoch. So the model cannot be used as a way to read sums at
points of the server's choice, one release after the other.
"""

from __future__ import annotations

import hashlib

from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.runtime.store import Archive
from hyfdca.study import messages as m
from hyfdca.training.settings import TrainingSettings

_RELEASED = "released"


def forget_release(archive: Archive) -> None:
    """Let another model be released in this epoch, as only the client's user may."""
    archive.forget(_RELEASED)


class Releases:
    """Decides whether a client's weights may be released now.

    Parameters
    ----------
    epoch : int
        Of the study's keys, from the client's own study file.
    is_rehearsal : bool
        All parties belong to one person, who may look at the model at any time.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        epoch: int,
        archive: Archive,
        is_rehearsal: bool = False,
    ) -> None:
        self._settings, self._epoch, self._archive = settings, epoch, archive
        self._is_rehearsal = is_rehearsal
        self._stop: m.StopRequest | None = None
        self.last_saved = 0  # round

    def forget(self, last_saved: int = 0) -> None:
        """Forget the announced end: training continues after a round, 0 the first."""
        self._stop, self.last_saved = None, last_saved

    def announce(self, stop: m.StopRequest) -> None:
        """Take the announcement of the end.

        Raises
        ------
        RemoteProtocolError
            If the study file knows no such end, or later rounds were saved.
        """
        last = self.last_saved
        if stop.round < last:
            raise RemoteProtocolError(f"round {last} was saved before that end")
        if not self._is_due(stop):
            raise RemoteProtocolError(
                f"the study does not end after round {stop.round} with the reason "
                f"{stop.reason!r} at a relative gap of {stop.relative_gap:g}"
            )
        self._stop = stop

    def _is_due(self, stop: m.StopRequest) -> bool:
        """Return whether the study file has this end.

        A run that diverges is not a matter of the file. Its model is released once too.
        """
        settings = self._settings
        return {
            "tolerance": stop.relative_gap <= settings.tolerance,
            "round limit": stop.round >= settings.max_rounds,
            "time limit": settings.max_seconds is not None,
            "stalled": settings.stall_rounds is not None,
            "diverged": True,
        }.get(stop.reason, False)

    def check_phase(self, phase: str) -> None:
        """Refuse a release before the end, and every other phase after it.

        There are no rounds after the last one that the study file allows.
        """
        if self._is_rehearsal:
            return
        if phase == "release" and self._stop is None:
            raise RemoteProtocolError(
                "weights are released after the end of the study was announced"
            )
        if phase != "release" and self._stop is not None:
            raise RemoteProtocolError("the end of the study was announced")
        most = self._settings.max_rounds
        if phase != "release" and self.last_saved >= most:
            raise RemoteProtocolError(f"the study has at most {most} rounds")

    def check_reply(self, reply: bytes) -> None:
        """Refuse to give away other weights than before in this epoch.

        Raises
        ------
        RemoteProtocolError
        """
        if self._is_rehearsal:
            return
        epoch, digest = b"%d" % self._epoch, hashlib.sha256(reply).digest()
        kept_epoch, _, kept = (self._archive.read(_RELEASED) or b"").partition(b":")
        if kept_epoch != epoch:
            self._archive.write(_RELEASED, epoch + b":" + digest)
        elif kept != digest:
            raise RemoteProtocolError(
                "it released the model of this study before, and not with these "
                "weights; start its client with --restart if another one may be "
                "released"
            )
