"""A party's folder: its study file, its keys, NVFlare's startup kit, what is kept."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.x509.oid import NameOID

from hyfdca.study_error import StudyError

_SITE_NAME = re.compile(r"[A-Za-z0-9_-]+")  # as NVFlare takes them
_RESERVED = {"server", "all", "server_parent"}


class _Client(msgspec.Struct, frozen=True):
    name: str


class _Study(msgspec.Struct, frozen=True):
    """What the network needs of a study file; ``hyfdca.study`` checks all of it."""

    clients: list[_Client]


@dataclass(frozen=True)
class Kit:
    """Where things are; the folder may be moved between runs."""

    folder: Path

    @property
    def study(self) -> Path:
        """The study file."""
        return self.folder / "study.toml"

    @property
    def flare(self) -> Path:
        """NVFlare's startup kit, and where it works."""
        return self.folder / "flare"

    @property
    def admin(self) -> Path:
        """NVFlare's startup kit of whoever submits jobs; a server's only."""
        return self.folder / "admin"

    @property
    def state(self) -> Path:
        """What is left of the study if everything is killed now."""
        return self.folder / "state"

    @property
    def log(self) -> Path:
        """What the processes printed."""
        return self.folder / "log"


def open_kit(folder: Path, kind: str) -> Kit:
    """Return the kit of a folder, its own folders made.

    Raises
    ------
    StudyError
        If it is no kit of that kind ("server" or "client").
    """
    kit = Kit(folder.resolve())
    needed = [kit.study, kit.flare / "startup" / f"fed_{kind}.json"]
    if kind == "server":
        needed.append(kit.admin / "startup" / "fed_admin.json")
    for path in needed:
        if not path.is_file():
            raise StudyError(
                f"{folder} is no kit of a {kind}: it has no "
                f"{path.relative_to(kit.folder)}; use what hyfdca provision made."
            )
    for own in (kit.state, kit.log, kit.flare / "local", kit.flare / "transfer"):
        own.mkdir(mode=0o700, exist_ok=True)
    return kit


def client_names(kit: Kit) -> tuple[str, ...]:
    """Return the study's organisations by rank; each is a site of NVFlare.

    Raises
    ------
    StudyError
    """
    try:
        study = msgspec.toml.decode(kit.study.read_bytes(), type=_Study)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        raise StudyError(f"{kit.study} is no study file that can be read.") from None
    names = tuple(client.name for client in study.clients)
    for name in names:
        if not _SITE_NAME.fullmatch(name) or name.lower() in _RESERVED:
            raise StudyError(
                f"Organisation {name!r} cannot take part between machines: its name "
                "there may only have letters without accents, digits, - and _."
            )
    return names


@dataclass(frozen=True)
class Party:
    """Who a startup kit belongs to and where the server is."""

    name: str
    organisation: str
    address: str  # host:port


def party(kit: Kit, kind: str) -> Party:
    """Read who a kit belongs to."""
    settings = _json(kit.flare / "startup" / f"fed_{kind}.json")
    certificate = x509.load_pem_x509_certificate(
        (kit.flare / "startup" / f"{kind}.crt").read_bytes()
    )
    service = settings["servers"][0]["service"]
    return Party(
        _attribute(certificate, NameOID.COMMON_NAME),
        _attribute(certificate, NameOID.ORGANIZATION_NAME),
        service["target"],
    )


def admin_name(kit: Kit) -> str:
    """Return the name under which jobs are submitted."""
    return str(_json(kit.admin / "startup" / "fed_admin.json")["admin"]["username"])


def _attribute(certificate: x509.Certificate, kind: x509.ObjectIdentifier) -> str:
    found = certificate.subject.get_attributes_for_oid(kind)
    return str(found[0].value) if found else ""


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
