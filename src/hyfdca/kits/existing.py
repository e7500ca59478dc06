"""Kits made from existing NVFlare startup kits, with strict settings."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from hyfdca.errors import StudyError
from hyfdca.files import (
    draft_of,
    move_new,
    read_limited,
    read_secret,
    refuse_existing,
)
from hyfdca.kits import kit, tls
from hyfdca.kits.installing import Installed
from hyfdca.kits.key_files import read_identity, write_identity
from hyfdca.kits.names import check_names
from hyfdca.kits.policy import write_policy
from hyfdca.kits.provisioning import read_study
from hyfdca.kits.startup import require_nvflare
from hyfdca.study.client.policy import write_policy_of
from hyfdca.study.file import parse
from hyfdca.study.identity import study_fingerprint

_MOST_BYTES = 1_000_000
_REMEDY = "give an NVFlare startup kit, with the folders startup and local"


def install_client(flare: Path, study: Path, keys: Path, out: Path) -> Installed:
    """Write an organisation's kit around a copy of its startup kit.

    Raises
    ------
    StudyError
        Nothing has been written then.
    """
    require_nvflare()
    identity, content = read_identity(keys), read_study(study)
    file = parse(content, study)
    check_names(file)
    entry = kit.own_entry(file, identity.public)
    name = _checked_name(flare, "client")
    if name != entry.name:
        raise StudyError(
            f"The startup kit {flare} is that of {name!r}, but the keys in {keys} are "
            f"those of {entry.name!r}; use a startup kit and keys of the same name."
        )
    refuse_existing(out, "a kit")
    with draft_of(out) as draft:
        new = draft / "kit"
        _copy(flare, new / kit.FLARE)
        write_policy(new / kit.FLARE, "client")
        (new / kit.STUDY).write_bytes(content)
        write_identity(identity, new / kit.KEYS)
        write_policy_of(new)
        move_new(new, out)
    return _installed(name, content, flare)


def install_server(flare: Path, admin: Path, study: Path, out: Path) -> Installed:
    """Write the coordinator's kit around copies of two startup kits.

    Raises
    ------
    StudyError
        Nothing has been written then.
    """
    require_nvflare()
    content = read_study(study)
    check_names(parse(content, study))
    name = _checked_name(flare, "server")
    _checked_name(admin, "client")
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
        _copy(flare, new / kit.FLARE)
        _copy(admin, new / kit.ADMIN)
        write_policy(new / kit.FLARE, "server", out / kit.FLARE)
        (new / kit.STUDY).write_bytes(content)
        move_new(new, out)
    return _installed(name, content, flare)


def _checked_name(flare: Path, base: Literal["client", "server"]) -> str:
    """Return the startup kit's owner, if key, certificate and root match."""
    certificate = kit.read_certificate(flare, base)
    path = flare / "startup" / f"{base}.key"
    key = tls.load_key(read_secret(path, _MOST_BYTES, _REMEDY), str(path))
    is_whole = tls.is_of_key(certificate, key)
    root = kit.read_certificate(flare, "rootCA")
    if not is_whole or not tls.is_issued_by(certificate, root):
        raise StudyError(
            f"Key, certificate and root in {flare} do not match; {_REMEDY}."
        )
    settings = flare / "startup" / f"fed_{base}.json"
    if base == "server" or not (flare / "startup" / "fed_admin.json").exists():
        read_limited(settings, _MOST_BYTES, _REMEDY)
    return tls.common_name(certificate)


def _copy(flare: Path, target: Path) -> None:
    """Copy what was provisioned, without what the startup kit has written since."""
    for part in ("startup", "local"):
        shutil.copytree(flare / part, target / part)
    (target / "transfer").mkdir()


def _installed(name: str, study: bytes, flare: Path) -> Installed:
    root = kit.read_certificate(flare, "rootCA")
    return Installed(name, study_fingerprint(study), tls.fingerprint(root))
