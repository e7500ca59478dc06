"""Writing kits: the same parts, whatever the source of the credentials."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from hyfdca.crypto.keys.identity import Identity
from hyfdca.kits import kit, tls
from hyfdca.kits.authority import Authority
from hyfdca.kits.key_files import write_identity
from hyfdca.kits.policy import write_policy
from hyfdca.kits.startup import ADMIN, LOCALHOST, Credentials, write_startup
from hyfdca.study.client.policy import write_policy_of
from hyfdca.study.file import Server


class End(NamedTuple):
    """One end of a connection: its name, the server, and its credentials."""

    name: str
    server: Server
    credentials: Credentials


def write_client_kit(
    folder: Path,
    study: bytes,
    name: str,
    identity: Identity,
    server: Server,
    credentials: Credentials,
) -> None:
    """Write an organisation's kit to a new folder."""
    folder.mkdir(parents=True)
    (folder / kit.STUDY).write_bytes(study)
    write_identity(identity, folder / kit.KEYS)
    write_policy_of(folder)
    write_startup(folder / kit.FLARE, "client", name, server, credentials)
    write_policy(folder / kit.FLARE, "client")


def write_server_kit(
    folder: Path, final: Path, study: bytes, server: Server, authority: Authority
) -> None:
    """Write the coordinator's kit, with newly made keys.

    It is written to ``folder`` and will be used at ``final``.
    """
    key = tls.new_key()
    shown = authority.issue(server.name, "server", key.public_key(), server.host)
    own = End(server.name, server, credentials_of(key, shown, authority.root))
    key = tls.new_key()
    shown = authority.issue(ADMIN, "project_admin", key.public_key())
    # The server submits its job to itself.
    here = msgspec.structs.replace(server, host=LOCALHOST)
    admin = End(ADMIN, here, credentials_of(key, shown, authority.root))
    write_server_kit_of(folder, final, study, own, admin)


def write_server_kit_of(
    folder: Path, final: Path, study: bytes, own: End, admin: End
) -> None:
    """Write the coordinator's kit, with keys that exist.

    It is written to ``folder`` and will be used at ``final``.
    """
    folder.mkdir(parents=True)
    (folder / kit.STUDY).write_bytes(study)
    write_startup(folder / kit.FLARE, "server", *own)
    write_startup(folder / kit.ADMIN, "admin", *admin)
    write_policy(folder / kit.FLARE, "server", final / kit.FLARE)


def credentials_of(
    key: rsa.RSAPrivateKey, certificate: x509.Certificate, root: x509.Certificate
) -> Credentials:
    """Return a key and its certificates in PEM."""
    return Credentials(
        tls.key_pem(key), tls.certificate_pem(certificate), tls.certificate_pem(root)
    )
