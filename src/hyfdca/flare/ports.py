"""Ports of this machine."""

from __future__ import annotations

import socket

from hyfdca.errors import StudyError


def free_port() -> int:
    """Return a port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def require_free(port: int) -> None:
    """Refuse a port that somebody uses.

    Raises
    ------
    StudyError
    """
    # gRPC shares a port that another server has, and each gets half of the clients.
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            raise StudyError(
                f"Port {port} of this machine is taken; end what uses it, or provision "
                "the study with another port."
            ) from None
