"""Tries admin commands with a startup kit; prints which of them are answered.

python -m tests.flare.port.intruder STARTUP_KIT NAME
"""

from __future__ import annotations

import sys

from nvflare.fuel.flare_api.flare_api import new_secure_session

COMMANDS = ("cells", "peers server", "route server", "list_sessions")


def main() -> None:
    """Open a session and ask; end without output if there is none."""
    kit, name = sys.argv[1:]
    session = new_secure_session(name, kit, timeout=8.0, command_timeout=8.0)
    for command in COMMANDS:
        answer = session.api.do_command(command)
        sys.stdout.write(f"answered {command}: {answer}\n")
    session.close()


if __name__ == "__main__":
    main()
