"""Names of organisations between machines: each is a site of NVFlare and a folder."""

from __future__ import annotations

import re

from hyfdca.errors import StudyError
from hyfdca.study.file import StudyFile

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_RESERVED = {"server", "all", "server_parent"}  # by NVFlare, in messages and jobs


def check_site_name(name: str) -> None:
    """Refuse a name that NVFlare would not take, or that is no name of a file.

    Raises
    ------
    StudyError
    """
    if not _NAME.fullmatch(name):
        raise StudyError(
            f"Between machines the name {name!r} cannot be used; take up to 63 letters "
            "without accents, digits, - and _, a letter or digit first."
        )
    if name.lower() in _RESERVED:
        raise StudyError(
            f"Between machines the name {name!r} cannot be used, because NVFlare means "
            "something else by it; take another."
        )


def check_names(file: StudyFile) -> None:
    """Refuse names that NVFlare could not tell apart, or not take.

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
                f"The name {client.name!r} differs from that of {other} in small and "
                "capital letters at most; change one."
            )
