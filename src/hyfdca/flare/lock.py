"""One command a kit: a second one that is started with it is refused."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from hyfdca.flare.kits import Kit
from hyfdca.study_error import StudyError


@contextmanager
def only_one(kit: Kit) -> Iterator[None]:
    """Hold a kit; the system lets go of it whatever happens to us.

    Raises
    ------
    StudyError
        If somebody else holds it.
    """
    with (kit.state / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StudyError(
                f"Another hyfdca is running with the kit {kit.folder}; end it first."
            ) from None
        yield
