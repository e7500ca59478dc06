"""Parties that crash while writing a checkpoint: before a file exists, or right after.

They crash between a member's file and its reply, and between the members' files and the
server's: at every single write of a study, so that no moment is left out.
"""

import numpy as np
import pytest

from hyfdca.protocol.codec import ProtocolError
from hyfdca.runtime.store import MemoryStore
from tests.support.consortia import make_files
from tests.support.durable_runs import Consortium, numbers, undisturbed

SETTINGS = {
    "all": {"algorithm": '"hyfdca"', "step": '"safe"', "max_rounds": "2"},
    "every other round": {
        "algorithm": '"hyfdca"',
        "step": '"safe"',
        "max_rounds": "3",
        "checkpoint_every": "2",
    },
    "partial": {"participation": "0.67", "max_rounds": "3"},
}


class CrashError(ProtocolError):
    """What a network sees of an unavailable member."""


class CrashingStore(MemoryStore):
    """A store whose party crashes at one of its writes.

    Parameters
    ----------
    at : int
        The number of the write.
    is_written : bool
        Whether the file exists before the crash.
    crash : callable
        Called at that write.
    """

    def __init__(self, at, is_written, crash):
        super().__init__()
        self._at, self._is_written, self._crash = at, is_written, crash
        self.n_writes = 0

    def write(self, name, content):
        """Write, or crash, or both."""
        self.n_writes += 1
        is_time = self.n_writes == self._at
        if self._is_written or not is_time:
            super().write(name, content)
        if is_time:
            self._crash()
            raise CrashError("it is gone")


def crash_of_server(folder, at, is_written):
    """Run a study whose server crashes at a write and is restarted."""
    consortium = Consortium(folder)
    consortium.server_store = CrashingStore(at, is_written, lambda: None)
    try:
        return consortium, consortium.train(), False
    except CrashError:
        return consortium, consortium.train(), True


def crash_of_member(folder, at, is_written):
    """Run a study whose member crashes at a write and is restarted."""
    consortium = Consortium(folder)
    store = CrashingStore(at, is_written, lambda: consortium.network.restart(1))
    consortium.stores[1] = store
    consortium.network.restart(1)
    return consortium, consortium.train(), store.n_writes >= at


@pytest.mark.slow
@pytest.mark.sampled(5)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("crash", [crash_of_server, crash_of_member])
@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
def test_a_crash_at_any_write_changes_no_number(settings, crash, is_written, tmp_path):
    """Either all parties keep the round, or it is repeated."""
    make_files(**settings).write(tmp_path)
    expected, weights = undisturbed(tmp_path)
    at, crashed = 1, True
    while crashed:
        _, (rounds, found), crashed = crash(tmp_path, at, is_written)
        assert np.array_equal(found, weights)
        assert numbers(rounds.history) == numbers(expected.history)
        at += 1
    assert at > 4
