"""Ends a process that would outlive the one that started it.

A process that is killed cannot end those it started. So each of ours checks whether its
parent still exists. This works on every system and does not depend on which thread
started it (as Linux's PR_SET_PDEATHSIG does).
"""

from __future__ import annotations

import os
import signal
import threading
import time

_LOOK_EVERY = 0.5  # seconds


def end_with(parent: int) -> None:
    """End this process, and all it started, once its parent is gone."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
