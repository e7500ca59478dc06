"""Settings in ``startup`` of a startup kit, and what NVFlare may find there.

NVFlare merges ``fed_client.json`` (or ``fed_server.json``) with all files whose names
end in ``__resources.json``. It makes an object of any class that one of them names in
``components``, and what stands here wins over the strict settings in ``local``. It also
looks for ``comm_config`` in all folders. So an address is all that is admitted here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from hyfdca.errors import StudyError, plain_errors, reading
from hyfdca.files import read_limited
from hyfdca.kits import tls
from hyfdca.kits.kit import read_certificate, read_settings
from hyfdca.kits.startup import Part
from hyfdca.study.file import Server

_MOST_BYTES = 1_000_000
_REMEDY = "make a new startup kit"

# None of these makes NVFlare load a class.
_KEYS = {
    "client": {"format_version", "require_signed_jobs", "servers", "client"},
    "server": {"format_version", "require_signed_jobs", "servers"},
    "admin": {"format_version", "admin"},
}
# The endings of settings, and with ".default" after them.
_FORMATS = (".json", ".conf", ".yml")
_SIGNATURES = "signature.json"  # of the files of a startup kit, made by NVFlare


def refuse_other_settings(flare: Path, part: Part) -> None:
    """Refuse a startup kit with more settings than hyfdca writes to ``startup``.

    Raises
    ------
    StudyError
    """
    with plain_errors(flare):
        complaint = startup_complaint(flare, part)
    if complaint is not None:
        raise StudyError(complaint)


def startup_complaint(flare: Path, part: Part) -> str | None:
    """Return a sentence about settings that hyfdca does not write, if there are any."""
    known = [flare / "startup" / name for name in (f"fed_{part}.json", _SIGNATURES)]
    read, folders = known[:1], [flare / "startup"]
    if part == "admin":  # whose ``local`` is not rewritten
        read += [path for path in _local_of_admin(flare) if path.is_file()]
        folders.append(flare / "local")
    for path in (path for folder in folders for path in sorted(folder.iterdir())):
        is_known = path in (*known, *read) and path.is_file()
        if not is_known and (path.is_dir() or _is_of_settings(path.name)):
            return (
                f"NVFlare would read {path}, which hyfdca did not write and which can "
                "name programs to run; remove it."
            )
    for path in read:
        others = _keys(path) - _KEYS[part]
        if others:
            return (
                f"The file {path} has {min(others)!r}, which hyfdca did not write and "
                "which can name programs to run; remove that."
            )
    return None


def _local_of_admin(flare: Path) -> list[Path]:
    names = "resources.json", "resources.json.default"
    return [flare / "local" / name for name in names]


def server_of(flare: Path, part: Part) -> Server:
    """Return the server that a startup kit is for.

    Raises
    ------
    StudyError
        Also if the file has no address that hyfdca could write.
    """
    path = flare / "startup" / f"fed_{part}.json"
    content = read_settings(path)
    complaint = StudyError(f"The file {path} is damaged; {_REMEDY}.")
    with reading(complaint):
        if part == "admin":
            own = content["admin"]
            host, port, name = own["host"], own["port"], own["server_identity"]
        else:
            first = content["servers"][0]
            host, _, port = first["service"]["target"].rpartition(":")
            name = first.get("identity")
        if part == "server":
            name = tls.common_name(read_certificate(flare, "server"))
        return msgspec.convert({"host": host, "port": int(port), "name": name}, Server)


def _keys(path: Path) -> set[str]:
    with reading(StudyError(f"The file {path} is damaged; {_REMEDY}.")):
        content = read_limited(path, _MOST_BYTES, _REMEDY)
        return set(msgspec.json.decode(content, type=dict[str, Any]))


def _is_of_settings(name: str) -> bool:
    return name.removesuffix(".default").endswith(_FORMATS)
