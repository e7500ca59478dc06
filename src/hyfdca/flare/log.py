"""The logs of hyfdca and of NVFlare, in a kit's folder ``log``.

There are no others: NVFlare's own log files are switched off (``kits.policy``). Logs
contain neither keys nor cells of tables, and their size is limited.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

from hyfdca.errors import StudyError
from hyfdca.kits.kit import Kit

Tell = Callable[[str], None]

OWN = "hyfdca.log"

_MOST_SAID, _MOST_PRINTED = 1_000_000, 20_000_000  # bytes, plus as much for a backup


@contextmanager
def written_down(kit: Kit, tell: Tell) -> Iterator[Tell]:
    """Yield a function that tells sentences and logs them with the time.

    The last line of the log says how it ended.
    """
    file = RotatingFileHandler(
        kit.log / OWN, maxBytes=_MOST_SAID, backupCount=1, encoding="utf-8"
    )
    file.setFormatter(logging.Formatter("%(asctime)s - %(message)s"))

    def write(sentence: str) -> None:
        file.handle(logging.makeLogRecord({"msg": sentence}))

    def tell_and_write(sentence: str) -> None:
        write(sentence)
        tell(sentence)

    warnings = _Told(tell_and_write)
    logger = logging.getLogger("hyfdca")
    logger.addHandler(warnings)
    try:
        write("Started.")
        yield tell_and_write
        write("Finished.")
    except StudyError as error:
        write(str(error))
        raise
    except BaseException as error:
        write(f"Ended by {type(error).__name__}.")
        raise
    finally:
        logger.removeHandler(warnings)
        file.close()


class _Told(logging.Handler):
    """Tells the warnings of hyfdca's own modules."""

    def __init__(self, tell: Tell) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Tell a warning."""
        self._tell(record.getMessage())


def begin_again(log: Path) -> bool:
    """Empty a log that has become large, after a backup; return whether it was.

    It is emptied in place, because the processes that print to it have it open.
    """
    if log.stat().st_size <= _MOST_PRINTED:
        return False
    shutil.copyfile(log, log.with_name(f"{log.name}.1"))
    os.truncate(log, 0)
    return True
