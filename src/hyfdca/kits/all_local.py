"""All kits of a study at once, on one machine: for trials, not for real secrets."""

from __future__ import annotations

import re
from pathlib import Path

from hyfdca.crypto.keys.identity import Identity
from hyfdca.errors import StudyError
from hyfdca.files import draft_of, move_new, refuse_existing
from hyfdca.kits import tls
from hyfdca.kits.authority import new_authority, write_authority
from hyfdca.kits.enrolment import OwnKeys
from hyfdca.kits.names import check_names
from hyfdca.kits.provisioning import (
    CA,
    SERVER,
    Provisioned,
    read_study,
    summary,
)
from hyfdca.kits.startup import require_nvflare
from hyfdca.kits.writing import credentials_of, write_client_kit, write_server_kit
from hyfdca.study.file import StudyFile, parse

_CLIENT_HEADER = re.compile(rb"^[ \t]*\[\[[ \t]*clients[ \t]*\]\].*$", re.MULTILINE)


def provision_all(study: Path, out: Path) -> Provisioned:
    """Write all kits of a study with keys made here, and the study file with them.

    Raises
    ------
    StudyError
        Nothing has been written in that case.
    """
    require_nvflare()
    content = read_study(study)
    file = parse(content, study)
    _check(file)
    refuse_existing(out, "a provisioned folder")
    keys = {c.name: OwnKeys(Identity.generate(), tls.new_key()) for c in file.clients}
    lines = [keys[c.name].identity.public.text for c in file.clients]
    content = _with_keys(content, lines)
    _check_filled(parse(content, study), lines)
    authority = new_authority()
    with draft_of(out) as draft:
        new = draft / "kits"
        new.mkdir()
        (new / "study.toml").write_bytes(content)
        write_authority(authority, new / CA)
        write_server_kit(new / SERVER, out / SERVER, content, file.server, authority)
        for name, own in keys.items():
            shown = authority.issue(name, "client", own.tls_key.public_key())
            credentials = credentials_of(own.tls_key, shown, authority.root)
            write_client_kit(
                new / name,
                content,
                name,
                own.identity,
                file.server,
                credentials,
            )
        move_new(new, out)
    return summary(file, content, authority, out / CA)


def _check(file: StudyFile) -> None:
    check_names(file)
    for client in file.clients:
        if client.name.lower() == CA:
            raise StudyError(
                f"With --all-local an organisation cannot be called {client.name!r}, "
                "because a folder has that name; give it another name."
            )
        if client.public_key is not None:
            raise StudyError(
                f"Organisation {client.name!r} already has a public_key, and "
                "--all-local would make another; omit --all-local, or remove the line."
            )


def _with_keys(content: bytes, lines: list[str]) -> bytes:
    """Return a study file with a public key after each organisation's header."""
    remaining = iter(lines)
    if len(_CLIENT_HEADER.findall(content)) != len(lines):
        raise StudyError(
            "The study file has organisations that do not begin with a line "
            "[[clients]]; begin each with that line."
        )
    return _CLIENT_HEADER.sub(
        lambda header: (
            header[0].rstrip() + b'\npublic_key = "%s"' % next(remaining).encode()
        ),
        content,
    )


def _check_filled(file: StudyFile, lines: list[str]) -> None:
    if [client.public_key for client in file.clients] != lines:
        raise StudyError(
            "The study file has [[clients]] where no organisation begins; remove it."
        )
