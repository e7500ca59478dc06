"""What every process of NVFlare needs before it exchanges messages of a study."""

from __future__ import annotations

from hyfdca.flare.routes import close_side_ways
from hyfdca.flare.streams import forget_in_one_thread


def prepare_process() -> None:
    """Guard the routes of this process, and keep it small; repeating it is harmless."""
    close_side_ways()
    forget_in_one_thread()
