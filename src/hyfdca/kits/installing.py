"""Installing: an organisation combines its package with keys that never left it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hyfdca.errors import StudyError
from hyfdca.files import draft_of, move_new, refuse_existing
from hyfdca.kits import tls
from hyfdca.kits.enrolment import OwnKeys, read_keys
from hyfdca.kits.kit import own_entry
from hyfdca.kits.package import Package, read_package
from hyfdca.kits.startup import require_nvflare
from hyfdca.kits.writing import credentials_of, write_client_kit
from hyfdca.study.file import parse
from hyfdca.study.identity import study_fingerprint


@dataclass(frozen=True)
class Installed:
    """The owner of a new kit, and the fingerprints to compare with others."""

    name: str
    study_fingerprint: str
    root_fingerprint: str


def install(
    package: Path, keys: Path, out: Path, expected: Sequence[str] = ()
) -> Installed:
    """Write an organisation's kit.

    Parameters
    ----------
    expected : sequence of str
        Fingerprints, obtained from others by telephone or in person, that the root
        certificate or the study must have.

    Raises
    ------
    StudyError
        If package and keys do not match; nothing has been written then.
    """
    require_nvflare()
    given, own = read_package(package), read_keys(keys)
    refuse_existing(out, "a kit")
    _check_certificate(given, own, package)
    shown = Installed(
        given.name, study_fingerprint(given.study), tls.fingerprint(given.root)
    )
    check_expected(expected, shown.study_fingerprint, shown.root_fingerprint)
    file = parse(given.study, package)
    entry = own_entry(file, own.identity.public)
    if entry.name != given.name:
        raise StudyError(
            f"The package {package} is for {given.name!r}, but the keys in {keys} are "
            f"those of {entry.name!r}; use the package with that name."
        )
    with draft_of(out) as draft:
        credentials = credentials_of(own.tls_key, given.certificate, given.root)
        write_client_kit(
            draft / "kit",
            given.study,
            given.name,
            own.identity,
            file.server,
            credentials,
        )
        move_new(draft / "kit", out)
    return shown


def check_expected(expected: Sequence[str], *found: str) -> None:
    """Refuse an expected fingerprint that is not among those found.

    Raises
    ------
    StudyError
    """
    digits = {_digits(one) for one in found}
    for one in expected:
        if _digits(one) not in digits:
            raise StudyError(
                "The given fingerprint is neither the root certificate's nor the "
                "study's in this package; do not use the package until the coordinator "
                "has explained why."
            )


def _check_certificate(given: Package, own: OwnKeys, path: Path) -> None:
    if not tls.is_of_key(given.certificate, own.tls_key):
        raise StudyError(
            f"The certificate in {path} is not for the given TLS key; use the folder "
            "of keys whose request the coordinator received."
        )
    if tls.common_name(given.certificate) != given.name:
        raise StudyError(
            f"The certificate in {path} has another name; ask for a new one."
        )
    if tls.days_left(given.certificate) < 0:
        raise StudyError(f"The certificate in {path} has expired; ask for a new one.")


def _digits(fingerprint: str) -> str:
    return re.sub(r"[\s:-]", "", fingerprint).lower()
