"""What was said and what NVFlare printed, in a kit's folder ``log``.

There is nothing else: NVFlare's own log files are switched off (``kits.policy``).
Neither keys nor cells of tables are in it, and it does not grow without end.
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

_MOST_SAID, _MOST_PRINTED = 1_000_000, 20_000_000  # bytes; as much again is kept


@contextmanager
def written_down(kit: Kit, tell: Tell) -> Iterator[Tell]:
    """Give what tells sentences and writes them to the log, with the time.

    The last one says how it ended.
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
        file.close()


def begin_anew(log: Path) -> bool:
    """Empty a log that has become large, keeping what it was; return whether it had.

    It is emptied where it is, because the processes that print to it have it open.
    """
    if log.stat().st_size <= _MOST_PRINTED:
        return False
    shutil.copyfile(log, log.with_name(f"{log.name}.1"))
    os.truncate(log, 0)
    return True
