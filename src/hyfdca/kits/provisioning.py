"""Provisioning: the coordinator makes each organisation's package, and its own kit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hyfdca.errors import StudyError
from hyfdca.files import draft_of, move_new, read_limited, refuse_existing
from hyfdca.kits import tls
from hyfdca.kits.authority import (
    Authority,
    new_authority,
    read_authority,
    write_authority,
)
from hyfdca.kits.enrolment import (
    REQUEST_ENDING,
    Applicant,
    read_request,
)
from hyfdca.kits.names import check_names
from hyfdca.kits.package import MOST_STUDY_BYTES, PACKAGE_ENDING, package_content
from hyfdca.kits.startup import require_nvflare
from hyfdca.kits.writing import write_server_kit
from hyfdca.study.file import StudyFile, parse
from hyfdca.study.identity import make_roster, public_identities, study_fingerprint

SERVER, CA = "server", "ca"


@dataclass(frozen=True)
class Provisioned:
    """What people need to know about the new kits."""

    names: tuple[str, ...]
    study_fingerprint: str
    root_fingerprint: str
    authority: Path


def provision(study: Path, requests: Path, out: Path, ca: Path | None) -> Provisioned:
    """Write the packages of a study's organisations and the server's kit.

    Parameters
    ----------
    ca : Path or None
        Folder of the root certificate, which is reused if it exists, else created;
        None stands for a folder in ``out``.

    Raises
    ------
    StudyError
        If the study or a request is invalid; nothing has been written then.
    """
    require_nvflare()
    content = read_study(study)
    file = parse(content, study)
    check_names(file)
    applicants = _applicants(file, requests)
    make_roster(content, {c.name: c.public_key for c in file.clients}, 1)
    refuse_existing(out, "a provisioned folder")
    is_known = ca is not None and ca.exists()
    authority = read_authority(ca) if ca and is_known else new_authority()
    with draft_of(out) as draft:
        new = draft / "kits"
        write_server_kit(new / SERVER, out / SERVER, content, file.server, authority)
        for one in applicants:
            certificate = authority.issue(one.name, "client", one.tls_key)
            package = package_content(authority, one.name, content, certificate)
            (new / f"{one.name}{PACKAGE_ENDING}").write_bytes(package)
        if not is_known:
            write_authority(authority, ca or new / CA)
        move_new(new, out)
    return summary(file, content, authority, ca or out / CA)


def read_study(path: Path) -> bytes:
    """Return the exact bytes of a study file, which everybody compares.

    Raises
    ------
    StudyError
    """
    return read_limited(path, MOST_STUDY_BYTES, "give the path of a study file")


def summary(
    file: StudyFile, content: bytes, authority: Authority, folder: Path
) -> Provisioned:
    """Return what people need to know about the kits."""
    return Provisioned(
        tuple(client.name for client in file.clients),
        study_fingerprint(content),
        tls.fingerprint(authority.root),
        folder,
    )


def _applicants(file: StudyFile, folder: Path) -> list[Applicant]:
    """Return every organisation's request, checked against the study file."""
    found: dict[str, Applicant] = {}
    for path in _request_files(folder):
        one = read_request(path)
        if one.name in found:
            raise StudyError(
                f"There are two requests from {one.name!r} in {folder}; remove the "
                "wrong one."
            )
        found[one.name] = one
    names = [client.name for client in file.clients]
    strangers = sorted(found.keys() - set(names))
    if strangers:
        raise StudyError(
            f"The folder {folder} has a request from {strangers[0]!r}, which is not an "
            "organisation of the study; remove it or correct the study file."
        )
    missing = [name for name in names if name not in found]
    if missing:
        raise StudyError(
            f"There is no request from {', '.join(map(repr, missing))} in {folder}; "
            "ask for the file that hyfdca enrol wrote there."
        )
    _check_keys(file, found)
    return [found[name] for name in names]


def _request_files(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if p.name.endswith(REQUEST_ENDING))
    except OSError as error:
        raise StudyError(
            f"Cannot read the folder {folder} ({error.strerror}); put the requests of "
            "all organisations into one folder."
        ) from None


def _check_keys(file: StudyFile, found: dict[str, Applicant]) -> None:
    """Compare each request's public key with the study file's."""
    known = public_identities({c.name: c.public_key for c in file.clients})
    lines = [
        f'{name!r}: public_key = "{one.public.text}"'
        for name, one in found.items()
        if name not in known
    ]
    if lines:
        raise StudyError(
            "Organisations have no public_key in the study file; confirm with each "
            f"that the key is theirs, then add the line ({', '.join(lines)})."
        )
    for name, one in found.items():
        if one.public != known[name]:
            raise StudyError(
                f"The request from {name!r} has another public_key than the study "
                "file; ask the organisation which one is right."
            )
