"""What organisations say of a study that the server stops."""

from __future__ import annotations

from tests.flare.flare_parties import Command


def assert_reported(clients: dict[str, Command], sentence: str) -> None:
    """Check that clients ended with the server's sentence, and exit code 2."""
    for client in clients.values():
        assert client.ends(60) == 2, client.said
        last = client.said.splitlines(keepends=True)[-1]
        assert last == f"The server stopped: {sentence}"
        assert "Traceback" not in client.said
