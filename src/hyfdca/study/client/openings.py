"""How often a client refuses a request after it began to open a sum for it.

A server adds sealed numbers, so it can add numbers of its own. Whether a client then
refuses the sum tells the server something about the numbers inside: asked often enough,
all of them. So all these refusals have the same words, and a client counts them on
disk, over all runs and predictions of a study. In an honest study there are none, or a
few if an organisation sends wrong parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hyfdca.federation.sealing.unopened import UnopenedError
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.runtime.store import Archive, StoreError
from hyfdca.study.client.study_record import StudyRecord

_NAME = "unopened"

MOST_UNOPENED = 10


def forget_openings(archive: Archive) -> None:
    """Begin to count again: the client's user says so."""
    archive.forget(_NAME)


class Opened:
    """Whether a sum was opened for the present request."""

    def __init__(self) -> None:
        self.is_noted = False

    def note(self) -> None:
        """Note that a sum is about to be opened."""
        self.is_noted = True


class Openings:
    """Counts requests that are refused after a sum was opened for them.

    Parameters
    ----------
    study : bytes
        The hash of the study file.
    """

    def __init__(self, archive: Archive, study: bytes) -> None:
        self._record = StudyRecord(archive, _NAME, study, int)
        self._n_refused = self._record.read() or 0
        self.opened = Opened()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Answer a request, unless too many were refused; count another refusal.

        Raises
        ------
        RefusedError
            If the client answers nothing more.
        RemoteProtocolError
            In the same words whatever failed once a sum was opened.
        """
        if self._n_refused >= MOST_UNOPENED:
            raise RefusedError(
                f"sums from the server did not open {MOST_UNOPENED} times in this "
                "study, so it answers nothing more; start this organisation's client "
                "with --restart once the cause is known"
            )
        self.opened.is_noted = False
        try:
            yield
        except StoreError:
            raise  # about the client's own disk
        except Exception as error:
            if not self.opened.is_noted:
                raise
            self._count()
            if isinstance(error, RemoteProtocolError) and not isinstance(
                error, RefusedError | UnopenedError
            ):
                raise UnopenedError from error
            raise

    def _count(self) -> None:
        self._n_refused += 1  # first: it counts even if the disk is full
        self._record.write(self._n_refused)
