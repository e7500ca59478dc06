"""Prepares a process of NVFlare for exchanging messages of a study."""

from __future__ import annotations

from hyfdca.flare.port.routes import close_side_ways
from hyfdca.flare.streams import forget_in_one_thread


def prepare_process() -> None:
    """Guard the routes of this process and limit its memory; may be repeated."""
    close_side_ways()
    forget_in_one_thread()
