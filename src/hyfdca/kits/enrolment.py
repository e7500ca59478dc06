"""Enrolment: an organisation makes its keys, and one file for the coordinator.

The file contains no secret. It is signed with the organisation's identity. So anybody
with the identity's public line, which is in the study file, can verify that the TLS key
belongs to the same organisation, however the file was delivered.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from cryptography.hazmat.primitives.asymmetric import rsa

from hyfdca.crypto.keys.encoding import pack_fields
from hyfdca.crypto.keys.identity import Identity, PublicIdentity
from hyfdca.errors import StudyError, reading
from hyfdca.files import (
    draft_of,
    for_owner_only,
    move_new,
    read_limited,
    read_secret,
    refuse_existing,
    write_secret,
)
from hyfdca.kits import tls
from hyfdca.kits.key_files import read_identity, write_identity
from hyfdca.kits.names import check_site_name

TLS_FILE = "tls.key"
REQUEST_ENDING = ".request.json"

_MOST_BYTES = 64 * 1024
_SIGNED = b"hyfdca enrolment 1"
_ASK = "ask the organisation for the file that hyfdca enrol wrote"


class EnrolmentRequest(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True
):
    """What an organisation tells the coordinator about itself."""

    format: Literal["hyfdca enrolment 1"]
    name: str
    public_key: str
    certificate_request: str
    signature: bytes

    @property
    def signed_part(self) -> bytes:
        """What the organisation's identity signs."""
        return _signed_part(self.name, self.public_key, self.certificate_request)


@dataclass(frozen=True)
class Applicant:
    """An organisation that asks to take part, by a verified request."""

    name: str
    public: PublicIdentity
    tls_key: rsa.RSAPublicKey


@dataclass(frozen=True)
class OwnKeys:
    """An organisation's secrets: its identity and its TLS key."""

    identity: Identity
    tls_key: rsa.RSAPrivateKey


def enrol(name: str, folder: Path) -> Identity:
    """Write an organisation's keys and its request to a new folder.

    Raises
    ------
    StudyError
    """
    check_site_name(name)
    refuse_existing(folder, "a folder of keys")
    keys = OwnKeys(Identity.generate(), tls.new_key())
    with draft_of(folder) as draft:
        write_keys(keys, draft / "keys")
        content = msgspec.json.format(msgspec.json.encode(request_of(name, keys)))
        (draft / "keys" / f"{name}{REQUEST_ENDING}").write_bytes(content + b"\n")
        move_new(draft / "keys", folder)
    return keys.identity


def write_keys(keys: OwnKeys, folder: Path) -> None:
    """Write all three key files to a folder."""
    write_identity(keys.identity, folder)
    write_secret(folder / TLS_FILE, tls.key_pem(keys.tls_key))
    for_owner_only(folder)


def read_keys(folder: Path) -> OwnKeys:
    """Return the keys that ``enrol`` wrote.

    Raises
    ------
    StudyError
    """
    path, remedy = folder / TLS_FILE, "give the folder that hyfdca enrol wrote"
    identity = read_identity(folder)
    content = read_secret(path, _MOST_BYTES, remedy)
    return OwnKeys(identity, tls.load_key(content, str(path)))


def request_of(name: str, keys: OwnKeys) -> EnrolmentRequest:
    """Return an organisation's request; all of it may be public."""
    line, csr = keys.identity.public.text, tls.new_request(keys.tls_key, name)
    return EnrolmentRequest(
        format="hyfdca enrolment 1",
        name=name,
        public_key=line,
        certificate_request=csr,
        signature=keys.identity.sign(_signed_part(name, line, csr)),
    )


def read_request(path: Path) -> Applicant:
    """Return the applicant of a request file from elsewhere, verified.

    Raises
    ------
    StudyError
        If the file is not exactly one that ``enrol`` wrote.
    """
    content = read_limited(path, _MOST_BYTES, _ASK)
    with reading(StudyError(f"The request {path} is garbled; {_ASK}.")):
        request = msgspec.json.decode(content, type=EnrolmentRequest)
        public = PublicIdentity.parse(request.public_key)
    check_site_name(request.name)
    if not public.has_signed(request.signature, request.signed_part):
        raise StudyError(f"The request {path} was changed in transit; {_ASK}.")
    key = tls.requested_key(request.certificate_request, str(path))
    return Applicant(request.name, public, key)


def _signed_part(name: str, public_key: str, certificate_request: str) -> bytes:
    parts = (name, public_key, certificate_request)
    return pack_fields(_SIGNED, *(part.encode() for part in parts))
