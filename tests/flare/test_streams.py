from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from nvflare.fuel.f3.streaming.byte_receiver import RxTask

from hyfdca.flare.streams import forget_in_one_thread
from tests.flare.flare_parties import wait_until


def task_of(gone: list[Any], ttl: float) -> Any:
    """Return a finished message that says when it is forgotten."""
    task = SimpleNamespace(
        stop_lock=threading.RLock(), cleanup_timer=None, completed_task_ttl=ttl
    )
    task._remove_task = lambda: gone.append(task)
    return task


def test_messages_are_forgotten_by_one_thread(monkeypatch: Any) -> None:
    """Each once, when it is due, unless it was removed before."""
    monkeypatch.setattr(RxTask, "_schedule_remove_task", None)
    forget_in_one_thread()
    schedule: Any = RxTask._schedule_remove_task
    gone: list[Any] = []
    removed, late, soon = (task_of(gone, ttl) for ttl in (0.5, 1.0, 0.1))
    never = [task_of(gone, 3600.0) for _ in range(100)]
    before = threading.active_count()
    schedule(removed)
    removed.cleanup_timer.cancel()
    for task in (late, soon, soon, *never):
        schedule(task)
    assert threading.active_count() <= before + 1
    wait_until(lambda: len(gone) == 2, 10.0, "both are forgotten")
    assert soon in gone
    assert late in gone
    assert removed not in gone


def test_nvflare_still_removes_messages_in_this_way() -> None:
    """What is replaced exists, with the names that its replacement uses."""
    names = RxTask._remove_task.__code__.co_names
    assert {"stop_lock", "cleanup_timer", "cancel"} <= set(names)
    stored = RxTask.__init__.__code__.co_names
    assert {"cleanup_timer", "completed_task_ttl", "stop_lock"} <= set(stored)
