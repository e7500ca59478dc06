"""Renewing certificates before or after they expire; all keys stay as they are.

The coordinator renews its own kit in place, and makes a new package from an
organisation's old one, which has that organisation's public key. The organisation takes
the new certificate into its kit. A study that has begun then resumes.
"""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from hyfdca.errors import StudyError
from hyfdca.files import OWNER_ONLY, refuse_existing, write_new, write_whole
from hyfdca.kits import tls
from hyfdca.kits.authority import Authority, Role, read_authority
from hyfdca.kits.kit import (
    ClientKit,
    certificate_path,
    read_certificate,
    read_client_kit,
    read_server_kit,
)
from hyfdca.kits.package import Package, package_content, read_package


def renew_server(folder: Path, ca: Path) -> x509.Certificate:
    """Renew the certificates of the coordinator's kit; return the server's.

    Raises
    ------
    StudyError
        If they are from another root; nothing has been written then.
    """
    kit, authority = read_server_kit(folder), read_authority(ca)
    server = kit.file.server
    new = _reissued(authority, kit.flare, "server", "server", server.host)
    admin = _reissued(authority, kit.admin, "client", "project_admin")
    _write(certificate_path(kit.flare, "server"), new)
    _write(certificate_path(kit.admin, "client"), admin)
    return new


def renew_package(package: Path, ca: Path, out: Path) -> Package:
    """Write an organisation's package with a new certificate for the same key.

    Raises
    ------
    StudyError
        If the old one is from another root; nothing has been written then.
    """
    old, authority = read_package(package), read_authority(ca)
    refuse_existing(out, "a package")
    _check_root(old.root, authority.root, package)
    key = _key_of(old.certificate, package)
    new = authority.issue(old.name, "client", key)
    content = package_content(authority, old.name, old.study, new)
    try:
        write_new(out, content)
    except OSError as error:
        raise StudyError(
            f"Cannot write to {out} ({error.strerror}); choose another with --out."
        ) from None
    return Package(old.name, old.study, new, authority.root)


def renew_client(folder: Path, package: Path) -> x509.Certificate:
    """Take the certificate of a new package into an organisation's kit.

    Raises
    ------
    StudyError
        If the package does not continue this kit; nothing has been written then.
    """
    kit, new = read_client_kit(folder), read_package(package)
    _check_root(new.root, read_certificate(kit.flare, "rootCA"), package)
    _check_continues(kit, new, package)
    _write(certificate_path(kit.flare, "client"), new.certificate)
    return new.certificate


def _reissued(
    authority: Authority, flare: Path, base: str, role: Role, host: str | None = None
) -> x509.Certificate:
    old, path = read_certificate(flare, base), certificate_path(flare, base)
    _check_root(read_certificate(flare, "rootCA"), authority.root, path)
    return authority.issue(tls.common_name(old), role, _key_of(old, path), host)


def _check_root(
    found: x509.Certificate, expected: x509.Certificate, path: Path
) -> None:
    if found != expected:
        raise StudyError(
            f"The file {path} is from another root certificate; use the root that the "
            "study was provisioned with."
        )


def _check_continues(kit: ClientKit, new: Package, path: Path) -> None:
    old = read_certificate(kit.flare, "client")
    if new.name != kit.client.name or new.study != kit.content:
        raise StudyError(
            f"The package {path} is for another organisation or another study file; "
            "ask the coordinator to renew the package of this kit."
        )
    if new.certificate.public_key() != old.public_key():
        raise StudyError(
            f"The certificate in {path} is for another key than that of the kit; ask "
            "the coordinator to renew the package of this kit."
        )
    if not tls.is_valid_now(new.certificate):
        raise StudyError(f"The certificate in {path} has expired; ask for a new one.")


def _key_of(certificate: x509.Certificate, path: Path) -> rsa.RSAPublicKey:
    key = certificate.public_key()
    if not isinstance(key, rsa.RSAPublicKey):
        raise StudyError(
            f"The certificate {path} is not for an RSA key; make a new kit."
        )
    return key


def _write(path: Path, certificate: x509.Certificate) -> None:
    content = tls.certificate_pem(certificate).encode("ascii")
    try:
        write_whole(path, content, OWNER_ONLY, is_durable=True)
    except OSError as error:
        raise StudyError(
            f"Cannot write to {path} ({error.strerror}); check its permissions."
        ) from None
