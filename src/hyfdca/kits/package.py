"""The package that the coordinator sends to one organisation; it has no secrets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from cryptography import x509

from hyfdca.crypto.keys.encoding import pack_fields
from hyfdca.errors import StudyError, reading
from hyfdca.files import read_limited
from hyfdca.kits import tls
from hyfdca.kits.authority import Authority

PACKAGE_ENDING = ".package.json"

MOST_STUDY_BYTES = 1_000_000
_MOST_BYTES = 2 * MOST_STUDY_BYTES  # base64 takes four letters for three bytes
_SIGNED = b"hyfdca package 1"
_ASK = "ask the coordinator for the file that hyfdca provision wrote"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    format: Literal["hyfdca package 1"]
    name: str
    study: bytes
    certificate: str
    root: str
    signature: bytes

    @property
    def signed_part(self) -> bytes:
        return _signed_part(self.name, self.study, self.certificate)


@dataclass(frozen=True)
class Package:
    """The exact study file, and the certificates for one of its organisations."""

    name: str
    study: bytes
    certificate: x509.Certificate
    root: x509.Certificate


def package_content(
    authority: Authority, name: str, study: bytes, certificate: x509.Certificate
) -> bytes:
    """Return the file for one organisation."""
    pem = tls.certificate_pem(certificate)
    file = _File(
        format="hyfdca package 1",
        name=name,
        study=study,
        certificate=pem,
        root=tls.certificate_pem(authority.root),
        signature=tls.sign(authority.key, _signed_part(name, study, pem)),
    )
    return msgspec.json.format(msgspec.json.encode(file)) + b"\n"


def read_package(path: Path) -> Package:
    """Return a package, verified to be complete and from the owner of one root.

    Only people can tell who that owner is, by comparing the root's fingerprint.

    Raises
    ------
    StudyError
    """
    content = read_limited(path, _MOST_BYTES, _ASK)
    with reading(StudyError(f"The package {path} is garbled; {_ASK}.")):
        file = msgspec.json.decode(content, type=_File)
    root = tls.load_certificate(file.root, str(path))
    certificate = tls.load_certificate(file.certificate, str(path))
    if not tls.has_signed(root, file.signature, file.signed_part):
        raise StudyError(f"The package {path} was changed in transit; {_ASK}.")
    if not tls.is_issued_by(certificate, root):
        raise StudyError(f"The certificate in {path} is from another root; {_ASK}.")
    return Package(file.name, file.study, certificate, root)


def _signed_part(name: str, study: bytes, certificate: str) -> bytes:
    return pack_fields(_SIGNED, name.encode(), study, certificate.encode())
