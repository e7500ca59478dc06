"""Names of organisations between machines: each names an NVFlare site and a folder."""

from __future__ import annotations

import re

from hyfdca.errors import StudyError
from hyfdca.study.file import StudyFile

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_RESERVED = {"server", "all", "server_parent"}  # by NVFlare, in messages and jobs


def check_site_name(name: str) -> None:
    """Refuse a name that NVFlare rejects, or that is not a valid file name.

    Raises
    ------
    StudyError
    """
    if not _NAME.fullmatch(name):
        raise StudyError(
            f"Between machines the name {name!r} cannot be used; use at most 63 "
            "letters without accents, digits, - and _, starting with a letter or digit."
        )
    if name.lower() in _RESERVED:
        raise StudyError(
            f"Between machines the name {name!r} cannot be used, because NVFlare "
            "reserves it; choose another."
        )


def check_names(file: StudyFile) -> None:
    """Refuse names that NVFlare rejects or cannot tell apart.

    Raises
    ------
    StudyError
    """
    taken = {file.server.name.lower(): "the server"}
    for client in file.clients:
        check_site_name(client.name)
        other = taken.setdefault(client.name.lower(), repr(client.name))
        if other != repr(client.name):
            raise StudyError(
                f"The name {client.name!r} differs from that of {other} at most in "
                "upper and lower case; change one."
            )
