"""The root certificate of a consortium: created once, kept by the coordinator."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hyfdca.errors import StudyError
from hyfdca.files import (
    draft_of,
    move_new,
    read_limited,
    read_secret,
    write_secret,
)
from hyfdca.kits import tls
from hyfdca.kits.startup import LOCALHOST, ORG, PROJECT

ROOT_KEY, ROOT_CERTIFICATE = "root.key", "root.pem"

# NVFlare reads a person's role from the certificate; for sites it is informative.
Role = Literal["client", "server", "project_admin"]

_ROOT_DAYS, _LEAF_DAYS = 3650, 1095
_CLOCKS_DIFFER = timedelta(hours=1)
_MOST_BYTES = 64 * 1024
_USAGES = (
    "digital_signature", "content_commitment", "key_encipherment",
    "data_encipherment", "key_agreement", "key_cert_sign", "crl_sign",
    "encipher_only", "decipher_only",
)  # fmt: skip


@dataclass(frozen=True)
class Authority:
    """The root key and certificate, which can admit anybody.

    They never leave the coordinator.
    """

    key: rsa.RSAPrivateKey
    root: x509.Certificate

    def issue(
        self, name: str, role: Role, key: rsa.RSAPublicKey, host: str | None = None
    ) -> x509.Certificate:
        """Return a certificate for a party's public key."""
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, name),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORG),
                x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, role),
            ]
        )
        builder = _builder(subject, key, _LEAF_DAYS, self.root)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if role == "server":
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        builder = (
            builder.add_extension(x509.BasicConstraints(False, None), critical=True)
            .add_extension(_usage("digital_signature", "key_encipherment"), True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(_alternative_names(name, host), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(
                    self.key.public_key()
                ),
                critical=False,
            )
        )
        return builder.sign(self.key, hashes.SHA256())


def new_authority() -> Authority:
    """Return a new authority with a self-signed root certificate."""
    key = tls.new_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, PROJECT)])
    builder = (
        _builder(subject, key.public_key(), _ROOT_DAYS, None)
        .add_extension(x509.BasicConstraints(True, 0), critical=True)
        .add_extension(_usage("digital_signature", "key_cert_sign", "crl_sign"), True)
    )
    return Authority(key, builder.sign(key, hashes.SHA256()))


def read_authority(folder: Path) -> Authority:
    """Return the authority of a folder.

    Raises
    ------
    StudyError
    """
    remedy = "restore the folder from a backup, or give another with --ca"
    secret = read_secret(folder / ROOT_KEY, _MOST_BYTES, remedy)
    public = read_limited(folder / ROOT_CERTIFICATE, _MOST_BYTES, remedy)
    key = tls.load_key(secret, str(folder / ROOT_KEY))
    text = public.decode("ascii", errors="replace")
    root = tls.load_certificate(text, str(folder / ROOT_CERTIFICATE))
    if not tls.is_of_key(root, key):
        raise StudyError(
            f"The key and the certificate in {folder} do not match; {remedy}."
        )
    if tls.days_left(root) < 1:
        raise StudyError(
            f"The root certificate in {folder} has expired; give another folder with "
            "--ca, and have all organisations install their new packages."
        )
    return Authority(key, root)


def write_authority(authority: Authority, folder: Path) -> None:
    """Write an authority to a new folder that only its owner can access."""
    with draft_of(folder) as draft:
        new = draft / "ca"
        new.mkdir()
        write_secret(new / ROOT_KEY, tls.key_pem(authority.key))
        (new / ROOT_CERTIFICATE).write_text(tls.certificate_pem(authority.root))
        move_new(new, folder)


def _builder(
    subject: x509.Name,
    key: rsa.RSAPublicKey,
    days: int,
    root: x509.Certificate | None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    if root is not None:
        end = min(end, root.not_valid_after_utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if root is None else root.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*wanted: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in wanted for usage in _USAGES})


def _alternative_names(name: str, host: str | None) -> x509.SubjectAlternativeName:
    """Return the names under which a party can be reached.

    A server is reached at its host name and, on its own machine, where that name may
    not resolve, at localhost.
    """
    if host is None:
        return x509.SubjectAlternativeName([x509.DNSName(name)])
    hosts = dict.fromkeys([host, LOCALHOST])
    return x509.SubjectAlternativeName([_host_name(host) for host in hosts])


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
