"""Kits made from existing NVFlare startup kits, with strict settings.

Only the key, the two certificates and the server's address are taken over. Everything
else in a startup kit may name programs to run, and it comes from the coordinator.
"""

from __future__ import annotations

from pathlib import Path

from hyfdca.errors import StudyError
from hyfdca.files import (
    draft_of,
    move_new,
    read_secret,
    refuse_existing,
)
from hyfdca.kits import kit, tls
from hyfdca.kits.installing import Installed
from hyfdca.kits.key_files import read_identity
from hyfdca.kits.names import check_names
from hyfdca.kits.provisioning import read_study
from hyfdca.kits.startup import Part, require_nvflare
from hyfdca.kits.startup_settings import server_of
from hyfdca.kits.writing import (
    End,
    credentials_of,
    write_client_kit,
    write_server_kit_of,
)
from hyfdca.study.file import parse
from hyfdca.study.identity import study_fingerprint

_MOST_BYTES = 1_000_000
_REMEDY = "give an NVFlare startup kit, with the folders startup and local"


def install_client(flare: Path, study: Path, keys: Path, out: Path) -> Installed:
    """Write an organisation's kit with the credentials of its startup kit.

    Raises
    ------
    StudyError
        Nothing has been written in that case.
    """
    require_nvflare()
    identity, content = read_identity(keys), read_study(study)
    file = parse(content, study)
    check_names(file)
    entry = kit.own_entry(file, identity.public)
    end = _end(flare, "client")
    if end.name != entry.name:
        raise StudyError(
            f"The startup kit {flare} is that of {end.name!r}, but the keys in {keys} "
            f"are those of {entry.name!r}; use a startup kit and keys of the same name."
        )
    refuse_existing(out, "a kit")
    with draft_of(out) as draft:
        new = draft / "kit"
        write_client_kit(new, content, end.name, identity, end.server, end.credentials)
        move_new(new, out)
    return _installed(end.name, content, flare)


def install_server(flare: Path, admin: Path, study: Path, out: Path) -> Installed:
    """Write the coordinator's kit with the credentials of two startup kits.

    Raises
    ------
    StudyError
        Nothing has been written in that case.
    """
    require_nvflare()
    content = read_study(study)
    check_names(parse(content, study))
    own, person = _end(flare, "server"), _end(admin, "admin")
    if tls.role(kit.read_certificate(admin, "client")) != "project_admin":
        raise StudyError(
            f"The startup kit {admin} is not that of a project_admin, who alone may "
            "submit jobs of hyfdca; give one that is."
        )
    roots = [kit.read_certificate(one, "rootCA") for one in (flare, admin)]
    if roots[0] != roots[1]:
        raise StudyError(
            f"The startup kits {flare} and {admin} have different roots; use two "
            "from the same project."
        )
    refuse_existing(out, "a kit")
    with draft_of(out) as draft:
        new = draft / "kit"
        write_server_kit_of(new, out, content, own, person)
        move_new(new, out)
    return _installed(own.name, content, flare)


def _end(flare: Path, part: Part) -> End:
    """Return a startup kit's end, if key, certificate and root match."""
    base = "server" if part == "server" else "client"
    certificate = kit.read_certificate(flare, base)
    path = flare / "startup" / f"{base}.key"
    key = tls.load_key(read_secret(path, _MOST_BYTES, _REMEDY), str(path))
    root = kit.read_certificate(flare, "rootCA")
    if not tls.is_of_key(certificate, key) or not tls.is_issued_by(certificate, root):
        raise StudyError(
            f"Key, certificate and root in {flare} do not match; {_REMEDY}."
        )
    credentials = credentials_of(key, certificate, root)
    return End(tls.common_name(certificate), server_of(flare, part), credentials)


def _installed(name: str, study: bytes, flare: Path) -> Installed:
    root = kit.read_certificate(flare, "rootCA")
    return Installed(name, study_fingerprint(study), tls.fingerprint(root))
